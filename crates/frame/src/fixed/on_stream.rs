//! Point look-ups, ranks and neighbours, in device form.

use super::asof::Searches;
use super::options::{QueryOptions, Uses};
use super::{AsOf, BitsOf, FixedIndex, PieceScratch, Query, Side, TASK, View};
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_base::Error;
use lanetree_base::error::{check_buffer, same_device};
use lanetree_base::parallel::*;
use lanetree_base::pointers::optional_mut;
use lanetree_base::room::zeroed;
use lanetree_base::{BatchOrder, Result};
use lanetree_layout::AnyKey;
use lanetree_runtime::{Buffer, DeviceKind, Stream};
use lanetree_simt::{AllPairs, GetBatch, Global, Near, NeighborBatch, RankBatch};

/// An index's queries on a stream: buffers in and out, in the stream's order. Unless said otherwise a
/// call allocates nothing, synchronises nothing, and may return before its work is done.
///
/// Optional arguments come first, as builder calls: [`order`](Self::order), [`hits`](Self::hits), [`miss`](Self::miss),
/// [`limit`](Self::limit) and [`limits`](Self::limits), [`kind`](Self::kind) and [`valid`](Self::valid). An option that the query
/// doesn't use is [`Error::UnusedOption`]. `order` and [`in_pieces`](Self::in_pieces) are the exceptions: queries that can't use them
/// ignore them.
///
/// ```
/// use lanetree::{BatchOrder, Device, LaneTree};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::emulated();
/// let index = LaneTree::build(&device, &[10_u64, 20, 30], &[1_u32, 2, 3])?;
/// let (stream, queries) = (device.stream()?, device.upload(&[20_u64, 25])?);
/// let (mut values, mut hits) = (device.alloc(2)?, device.alloc(1)?);
/// index.on(&stream).order(BatchOrder::Sorted).hits(&mut hits).miss(0).get(&queries, &mut values)?;
/// assert_eq!((values.to_vec()?, hits.to_vec()?), (vec![2, 0], vec![0b01]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OnStream<'a, I: FixedIndex> {
    pub(super) index: &'a I,
    pub(super) stream: &'a Stream,
    pub(super) tuning: I::Tuning,
    /// What the next query is asked for.
    pub(super) options: QueryOptions<'a, I::Value>,
    /// With what large batches are answered in pieces.
    pub(super) pieces: Option<&'a PieceScratch<I::Key>>,
}

crate::query_options! {
    impl['a, I: FixedIndex] OnStream<'a, I>, |view| view.options => hits, miss(I::Value), limit, limits, joins
}

impl<'a, I: FixedIndex> OnStream<'a, I> {
    /// Queries of this index on a stream of its device.
    pub fn new(index: &'a I, stream: &'a Stream) -> Self {
        Self { index, stream, tuning: I::Tuning::default(), options: QueryOptions::default(), pieces: None }
    }

    /// Checks that nothing was named that a query would not use.
    ///
    /// # Errors
    /// [`Error::UnusedOption`].
    pub fn check_options(&self, call: &'static str, uses: Uses) -> Result<()> {
        self.options.check(call, uses)
    }

    /// What was named for the next query.
    pub fn into_options(self) -> QueryOptions<'a, I::Value> {
        self.options
    }

    /// Declares the order of the queries: a hint, which changes no answer. An index that gains nothing from it ignores it.
    #[must_use]
    pub fn order(self, order: BatchOrder) -> Self {
        Self { tuning: I::in_order(self.tuning, order), ..self }
    }

    /// Where the optional arguments are: for views that hold this one.
    #[doc(hidden)]
    pub fn options_mut(&mut self) -> &mut QueryOptions<'a, I::Value> {
        &mut self.options
    }

    /// The index.
    pub fn index(&self) -> &'a I {
        self.index
    }

    /// The stream.
    pub fn stream(&self) -> &'a Stream {
        self.stream
    }

    /// How look-ups are tuned.
    pub fn tuning(&self) -> &I::Tuning {
        &self.tuning
    }

    /// Look-ups tuned in another way.
    #[must_use]
    pub fn tuned(self, tuning: I::Tuning) -> Self {
        Self { tuning, ..self }
    }

    /// Looks up `queries`: `values[i]` becomes the value of key `queries[i]`, or [`miss`](Self::miss) if there is no such key.
    /// `values` must have at least one element per query; elements past these are not touched. Uses [`hits`](Self::hits).
    ///
    /// # Errors
    /// [`Error::OutputLength`], [`Error::GroupWidth`], [`Error::BatchTooLarge`]; [`Error::UnusedOption`]; [`Error::Lost`];
    /// [`Error::Runtime`] for buffers of another device, and from the launch.
    pub fn get(mut self, queries: &Buffer<I::Key>, values: &mut Buffer<I::Value>) -> Result<()> {
        self.options.check("get", Uses::Hits)?;
        let (hits, miss) = (self.options.hits.take(), self.options.miss());
        self.get_first(queries.len(), queries, values, hits, miss)
    }

    /// [`OnStream::get`] for the first `count` queries.
    pub(super) fn get_first(
        &self,
        count: usize,
        queries: &Buffer<I::Key>,
        values: &mut Buffer<I::Value>,
        hits: Option<&mut Buffer<u32>>,
        miss: I::Value,
    ) -> Result<()> {
        self.check("the queries' buffer", count, queries)?;
        self.check("the values' buffer", count, values)?;
        if let Some(hits) = &hits {
            self.check("the hit mask's buffer", count.div_ceil(32), hits)?;
        }
        self.index.check_tuning(&self.tuning)?;
        if count == 0 {
            return Ok(());
        }
        if let Some((queries, values)) = self.on_host(queries, values) {
            let tree = self.index.view().expect("a tree on the host is in main memory");
            let (queries, values) = (&queries[..count], &mut values[..count]);
            let search = |queries: &[I::Key], values: &mut [I::Value], mut hits: Option<&mut [u32]>| {
                if let Some(hits) = &mut hits {
                    hits.fill(0);
                }
                tree.get(queries, |i, hit| {
                    values[i] = hit.unwrap_or(miss);
                    if let (Some(hits), Some(_)) = (&mut hits, hit) {
                        hits[i / 32] |= 1 << (i % 32);
                    }
                });
            };
            let tasks = queries.par_chunks(TASK).zip(values.par_chunks_mut(TASK));
            match hits.and_then(Buffer::as_mut_slice) {
                None => tasks.for_each(|(queries, values)| search(queries, values, None)),
                Some(hits) => tasks
                    .zip(hits[..count.div_ceil(32)].par_chunks_mut(TASK / 32))
                    .for_each(|((queries, values), hits)| search(queries, values, Some(hits))),
            }
            return Ok(());
        }
        let hits = optional_mut(hits, self.stream)?;
        let (queries, values) = (bits::<I::Key>(self.stream, queries)?, values.write_on(self.stream)?);
        // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
        unsafe {
            let batch = GetBatch { queries, count: count as u64, values, hits, miss };
            self.launch_each((count, queries), [Query::Get(batch)])
        }
    }

    /// Ranks `queries`: `ranks[i]` becomes the number of keys below `queries[i]`.
    ///
    /// # Errors
    /// As [`OnStream::get`].
    pub fn lower_bound(&self, queries: &Buffer<I::Key>, ranks: &mut Buffer<u64>) -> Result<()> {
        self.options.check("lower_bound", Uses::Nothing)?;
        self.rank_first(queries.len(), queries, ranks, Side::Lower)
    }

    /// Ranks `queries`: `ranks[i]` becomes the number of keys at or below `queries[i]`.
    ///
    /// # Errors
    /// As [`OnStream::get`].
    pub fn upper_bound(&self, queries: &Buffer<I::Key>, ranks: &mut Buffer<u64>) -> Result<()> {
        self.options.check("upper_bound", Uses::Nothing)?;
        self.rank_first(queries.len(), queries, ranks, Side::Upper)
    }

    fn rank_first(&self, count: usize, queries: &Buffer<I::Key>, ranks: &mut Buffer<u64>, side: Side) -> Result<()> {
        self.check("the queries' buffer", count, queries)?;
        self.check("the ranks' buffer", count, ranks)?;
        if count == 0 {
            return Ok(());
        }
        if let Some((queries, ranks)) = self.on_host(queries, ranks) {
            let tree = self.index.view().expect("a tree on the host is in main memory");
            queries[..count].par_chunks(TASK).zip(ranks.par_chunks_mut(TASK)).for_each(|(queries, ranks)| {
                tree.rank(queries, side == Side::Upper, |i, rank| ranks[i] = rank);
            });
            return Ok(());
        }
        let (queries, ranks) = (bits::<I::Key>(self.stream, queries)?, ranks.write_on(self.stream)?);
        // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
        unsafe {
            let batch = RankBatch { queries, count: count as u64, ranks, upper: side as u32 };
            self.launch_each((count, queries), [Query::Rank(batch)])
        }
    }

    /// Finds the last pair whose key is at or below each query: its key goes to `keys[i]` and its value to `values[i]`;
    /// if there is none, `values[i]` becomes [`miss`](Self::miss) and `keys[i]` is unspecified. Uses [`hits`](Self::hits).
    ///
    /// # Errors
    /// As [`OnStream::get`].
    pub fn predecessor(
        self,
        queries: &Buffer<I::Key>,
        keys: &mut Buffer<I::Key>,
        values: &mut Buffer<I::Value>,
    ) -> Result<()> {
        self.options.check("predecessor", Uses::Hits)?;
        self.neighbor(queries.len(), queries, keys, values, &Searches::any(Side::Upper))
    }

    /// Finds the first pair whose key is at or above each query; otherwise like [`OnStream::predecessor`].
    ///
    /// # Errors
    /// As [`OnStream::get`].
    pub fn successor(
        self,
        queries: &Buffer<I::Key>,
        keys: &mut Buffer<I::Key>,
        values: &mut Buffer<I::Value>,
    ) -> Result<()> {
        self.options.check("successor", Uses::Hits)?;
        self.neighbor(queries.len(), queries, keys, values, &Searches::any(Side::Lower))
    }

    /// Finds the pair that an as-of look-up of each query asks for; otherwise like [`OnStream::predecessor`]. If it looks for
    /// the nearest key, one launch looks below and another one above, unless the index finds both at once: the second one reads the
    /// hit mask, so that `hits` is always needed.
    ///
    /// # Errors
    /// As [`OnStream::get`]; [`Error::OptionValue`] for a distance between floats, and for
    /// [`Ties::Both`](super::Ties::Both).
    pub fn asof(
        self,
        queries: &Buffer<I::Key>,
        how: &AsOf,
        keys: &mut Buffer<I::Key>,
        values: &mut Buffer<I::Value>,
        hits: &mut Buffer<u32>,
    ) -> Result<()> {
        self.options.check("asof", Uses::Miss)?;
        let miss = self.options.miss();
        let of_index = OnStream { pieces: self.pieces, ..OnStream::new(self.index, self.stream) };
        let of_index = of_index.tuned(self.tuning).hits(hits).miss(miss);
        of_index.neighbor(queries.len(), queries, keys, values, &how.searches::<I::Key>()?)
    }

    /// The predecessors ([`Side::Upper`]) or successors of the first `count` queries.
    #[doc(hidden)]
    pub fn neighbors_of_first(
        self,
        count: usize,
        side: Side,
        queries: &Buffer<I::Key>,
        keys: &mut Buffer<I::Key>,
        values: &mut Buffer<I::Value>,
    ) -> Result<()> {
        self.neighbor(count, queries, keys, values, &Searches::any(side))
    }

    fn neighbor(
        mut self,
        count: usize,
        queries: &Buffer<I::Key>,
        keys: &mut Buffer<I::Key>,
        values: &mut Buffer<I::Value>,
        searches: &Searches<BitsOf<I>>,
    ) -> Result<()> {
        let (hits, miss) = (self.options.hits.take(), self.options.miss());
        self.check("the queries' buffer", count, queries)?;
        self.check("the keys' buffer", count, keys)?;
        self.check("the values' buffer", count, values)?;
        if let Some(hits) = &hits {
            self.check("the hit mask's buffer", count.div_ceil(32), hits)?;
        }
        if count == 0 {
            return Ok(());
        }
        if self.stream.device().kind() == DeviceKind::Host {
            let tree = self.index.view().expect("a tree on the host is in main memory");
            let (Some(queries), Some(keys), Some(values)) =
                (queries.as_slice(), keys.as_mut_slice(), values.as_mut_slice())
            else {
                unreachable!("buffers of the host are in main memory")
            };
            let mut unwanted;
            let words = count.div_ceil(32);
            let hits = match hits.and_then(Buffer::as_mut_slice) {
                Some(hits) => &mut hits[..words],
                None => {
                    unwanted = zeroed(words)?;
                    &mut unwanted[..]
                }
            };
            queries[..count]
                .par_chunks(TASK)
                .zip(keys.par_chunks_mut(TASK))
                .zip(values.par_chunks_mut(TASK))
                .zip(hits.par_chunks_mut(TASK / 32))
                .for_each(|(((queries, keys), values), hits)| {
                    hits.fill(0);
                    searches.on_host(tree, queries, |i, neighbor| {
                        values[i] = miss;
                        if let Some(pair) = neighbor {
                            (keys[i], values[i]) = pair;
                            hits[i / 32] |= 1 << (i % 32);
                        }
                    });
                });
            return Ok(());
        }
        let batch = NeighborBatch {
            queries: bits::<I::Key>(self.stream, queries)?,
            count: count as u64,
            keys: keys.write_on(self.stream)?.cast(),
            values: values.write_on(self.stream)?,
            hits: optional_mut(hits, self.stream)?,
            predecessor: 0,
            miss,
            near: Near::ANY,
        };
        let finds_both = self.index.finds_both(&self.tuning, batch.count);
        // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
        unsafe { self.launch_each((count, batch.queries), searches.queries(batch, finds_both)) }
    }

    /// Copies all pairs, in ascending order of their keys. Elements past them are not changed.
    ///
    /// This is the exception: it allocates memory, and may wait, if only the host can find out where the index's pairs are. A
    /// LaneTree's kernel does so itself.
    ///
    /// # Errors
    /// [`Error::OutputLength`] for a buffer that is too small; [`Error::Lost`]; [`Error::Runtime`] for buffers of another
    /// device, if the device has no room, and from the launch.
    pub fn pairs(&self, keys: &mut Buffer<I::Key>, values: &mut Buffer<I::Value>) -> Result<()> {
        self.options.check("pairs", Uses::Nothing)?;
        let len = self.index.len() as usize;
        self.check("the keys' buffer", len, keys)?;
        self.check("the values' buffer", len, values)?;
        if len == 0 {
            return Ok(());
        }
        if self.stream.device().kind() == DeviceKind::Host {
            let tree = self.index.view().expect("a tree on the host is in main memory");
            let (Some(keys), Some(values)) = (keys.as_mut_slice(), values.as_mut_slice()) else {
                unreachable!("buffers of the host are in main memory")
            };
            let tasks = keys[..len].par_chunks_mut(TASK).zip(values[..len].par_chunks_mut(TASK)).enumerate();
            tasks.for_each(|(task, (keys, values))| tree.copy((task * TASK) as u64, keys, values));
            return Ok(());
        }
        let pairs = AllPairs { keys: keys.write_on(self.stream)?.cast(), values: values.write_on(self.stream)? };
        // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
        unsafe { self.index.launch_copy_pairs(self.stream, pairs) }
    }

    /// Launches a batch of queries.
    ///
    /// # Safety
    /// As [`FixedIndex::launch`].
    pub(super) unsafe fn launch(&self, query: &Query<BitsOf<I>, I::Value>) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.index.launch(self.stream, &self.tuning, query) }
    }

    /// Checks a buffer's length and device, and that the index can answer.
    ///
    /// # Errors
    /// [`Error::Lost`], [`Error::OutputLength`]; [`Error::Runtime`] for a buffer or a stream of another device.
    pub fn check<T: bytemuck::Pod>(&self, what: &'static str, expected: usize, buffer: &Buffer<T>) -> Result<()> {
        self.index.check_not_lost()?;
        check_buffer(self.index.device(), what, expected, buffer)?;
        same_device(self.index.device(), self.stream.device(), "the stream")
    }

    /// The slices of two buffers, if the host itself searches; the emulator runs kernels on its buffers.
    fn on_host<'b, A: bytemuck::Pod, B: bytemuck::Pod>(
        &self,
        input: &'b Buffer<A>,
        output: &'b mut Buffer<B>,
    ) -> Option<(&'b [A], &'b mut [B])> {
        if self.stream.device().kind() != DeviceKind::Host {
            return None;
        }
        Some((input.as_slice()?, output.as_mut_slice()?))
    }
}

/// A buffer of keys as the words that kernels see: a key and its word have the same size.
pub fn bits<K: AnyKey>(stream: &Stream, keys: &Buffer<K>) -> Result<Global<K::Bits>> {
    // A caller's memory is aligned for a key; kernels load words.
    const { assert!(size_of::<K>() == size_of::<K::Bits>() && align_of::<K>() == align_of::<K::Bits>()) };
    Ok(keys.read_on(stream)?.cast())
}
