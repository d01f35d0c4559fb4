//! Point look-ups, ranks and neighbours, in device form.

use super::launch;
use super::native::TASK;
use super::{BatchOrder, ChildRegion, GroupWidth, Harmonia};
use crate::error::same_device;
use crate::pointers::optional_mut;
use crate::{Error, Result};
use lanetree_kernels_harmonia::{GetArgs, NeighborArgs, RankArgs, SORTED_TILE, Side};
use lanetree_layout::{Key, Word};
use lanetree_runtime::{Buffer, DeviceKind, Stream};
use lanetree_simt::{Global, GlobalMut, WARP};
use rayon::prelude::*;

/// A tree's queries on a stream: buffers in and out, in the stream's order. Unless said otherwise a
/// call allocates nothing, synchronises nothing, and may return before its work is done; on the host
/// and the emulator it is done on return.
#[derive(Clone, Copy, Debug)]
pub struct OnStream<'a, K: Key, V: Word> {
    pub(super) tree: &'a Harmonia<K, V>,
    pub(super) stream: &'a Stream,
    group: GroupWidth,
    order: BatchOrder,
    child: ChildRegion,
}

impl<'a, K: Key, V: Word> OnStream<'a, K, V> {
    pub(super) fn new(tree: &'a Harmonia<K, V>, stream: &'a Stream) -> Self {
        let (group, order) = (GroupWidth::default(), BatchOrder::default());
        Self { tree, stream, group, order, child: ChildRegion::NodeSlot }
    }

    /// The lanes that serve a look-up together; [`GroupWidth::Auto`] by default.
    #[must_use]
    pub fn group(self, group: GroupWidth) -> Self {
        Self { group, ..self }
    }

    /// What is known about the order of the queries, for [`GroupWidth::Auto`]; nothing by default.
    #[must_use]
    pub fn order(self, order: BatchOrder) -> Self {
        Self { order, ..self }
    }

    /// Where look-ups read a node's first child; by default in the node itself, which is the fastest.
    /// [`ChildRegion::PrefixSum`] is the paper's prefix-sum array.
    #[must_use]
    pub fn child_region(self, child: ChildRegion) -> Self {
        Self { child, ..self }
    }

    /// The number of lanes per query that [`OnStream::get`] would use: the choice of [`GroupWidth::Auto`].
    ///
    /// # Errors
    /// [`Error::GroupWidth`].
    pub fn group_width(&self) -> Result<u32> {
        self.group.choose(self.tree.fanout(), K::Bits::BYTES, self.order, self.tree.len())
    }

    /// Looks up `queries`: `values[i]` becomes the value of key `queries[i]`, or `miss` if there is no such key.
    /// `found` is the hit mask: bit `i % 32` of `found[i / 32]` says whether key `i` is present, even if a stored value
    /// equals `miss`.
    ///
    /// `values` must have at least one element per query, `found` at least one per 32 queries. Elements past these are
    /// not touched; bits past the last query in its word of `found` become zero.
    ///
    /// # Errors
    /// [`Error::OutputLength`], [`Error::GroupWidth`], [`Error::BatchTooLarge`]; [`Error::Runtime`] for
    /// buffers of another device, and from the launch.
    pub fn get(
        &self,
        queries: &Buffer<K>,
        values: &mut Buffer<V>,
        found: Option<&mut Buffer<u32>>,
        miss: V,
    ) -> Result<()> {
        self.get_first(queries.len(), queries, values, found, miss)
    }

    /// [`OnStream::get`] for the first `count` queries.
    fn get_first(
        &self,
        count: usize,
        queries: &Buffer<K>,
        values: &mut Buffer<V>,
        found: Option<&mut Buffer<u32>>,
        miss: V,
    ) -> Result<()> {
        self.check("the queries' buffer", count, queries)?;
        self.check("the values' buffer", count, values)?;
        if let Some(found) = &found {
            self.check("the hit mask's buffer", count.div_ceil(32), found)?;
        }
        self.group_width()?;
        if count == 0 {
            return Ok(());
        }
        if let Some((queries, values)) = self.on_host(queries, values) {
            let tree = self.tree.view().expect("a tree on the host is in main memory");
            let (queries, values) = (&queries[..count], &mut values[..count]);
            let search = |queries: &[K], values: &mut [V], mut found: Option<&mut [u32]>| {
                if let Some(found) = &mut found {
                    found.fill(0);
                }
                tree.get(queries, |i, hit| {
                    values[i] = hit.unwrap_or(miss);
                    if let (Some(found), Some(_)) = (&mut found, hit) {
                        found[i / 32] |= 1 << (i % 32);
                    }
                });
            };
            let tasks = queries.par_chunks(TASK).zip(values.par_chunks_mut(TASK));
            match found.and_then(Buffer::as_mut_slice) {
                None => tasks.for_each(|(queries, values)| search(queries, values, None)),
                Some(found) => tasks
                    .zip(found[..count.div_ceil(32)].par_chunks_mut(TASK / 32))
                    .for_each(|((queries, values), found)| search(queries, values, Some(found))),
            }
            return Ok(());
        }
        let found = optional_mut(found, self.stream)?;
        let (queries, values) = (bits::<K>(self.stream, queries)?, values.write_on(self.stream)?);
        // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
        unsafe { self.launch_get(queries, count, values, found, miss) }
    }

    /// Launches the look-up of `count` queries, at least one.
    ///
    /// # Safety
    /// The stream may read this many queries and write this many values, and the hit mask unless it is null, in memory
    /// that the device can reach.
    pub(super) unsafe fn launch_get(
        &self,
        queries: Global<K::Bits>,
        count: usize,
        values: GlobalMut<V>,
        found: GlobalMut<u32>,
        miss: V,
    ) -> Result<()> {
        let group = self.group_width()?;
        let args =
            GetArgs { tree: self.tree.tree_ref(self.stream)?, queries, count: count as u64, values, found, miss };
        if self.is_dense(count) {
            let launch = launch::over(self.stream, count.div_ceil(SORTED_TILE as usize), WARP)?;
            // SAFETY: the caller's contract; the tree is valid by construction, and borrowed.
            return Ok(unsafe { launch.run(launch::get_sorted::<K::Bits, V>(self.tree.fanout(), &args)) }?);
        }
        let launch = launch::over(self.stream, count, 1)?;
        // SAFETY: as above.
        Ok(unsafe { launch.run(launch::get::<K::Bits, V>(self.tree.fanout(), group, self.child, &args)) }?)
    }

    /// Whether there are enough sorted queries to be worth copying whole leaves to shared memory: as measured, from two
    /// queries per leaf on. With one per leaf it is faster to look each up by itself.
    fn is_dense(&self, count: usize) -> bool {
        // A caller that asks for another width or child region gets it.
        let free = self.group == GroupWidth::Auto && self.child == ChildRegion::NodeSlot;
        free && self.order == BatchOrder::Sorted && count as u64 >= 2 * u64::from(self.tree.shape.leaves)
    }

    /// Ranks `queries`: `ranks[i]` becomes the number of keys below `queries[i]`.
    ///
    /// # Errors
    /// As [`OnStream::get`].
    pub fn lower_bound(&self, queries: &Buffer<K>, ranks: &mut Buffer<u64>) -> Result<()> {
        self.rank_first(queries.len(), queries, ranks, Side::Lower)
    }

    /// Ranks `queries`: `ranks[i]` becomes the number of keys at or below `queries[i]`.
    ///
    /// # Errors
    /// As [`OnStream::get`].
    pub fn upper_bound(&self, queries: &Buffer<K>, ranks: &mut Buffer<u64>) -> Result<()> {
        self.rank_first(queries.len(), queries, ranks, Side::Upper)
    }

    fn rank_first(&self, count: usize, queries: &Buffer<K>, ranks: &mut Buffer<u64>, side: Side) -> Result<()> {
        self.check("the queries' buffer", count, queries)?;
        self.check("the ranks' buffer", count, ranks)?;
        if count == 0 {
            return Ok(());
        }
        if let Some((queries, ranks)) = self.on_host(queries, ranks) {
            let tree = self.tree.view().expect("a tree on the host is in main memory");
            queries[..count].par_chunks(TASK).zip(ranks.par_chunks_mut(TASK)).for_each(|(queries, ranks)| {
                tree.rank(queries, side == Side::Upper, |i, rank| ranks[i] = rank);
            });
            return Ok(());
        }
        let (queries, ranks) = (bits::<K>(self.stream, queries)?, ranks.write_on(self.stream)?);
        // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
        unsafe { self.launch_rank(queries, count, ranks, side) }
    }

    /// Launches the ranking of `count` queries, at least one.
    ///
    /// # Safety
    /// The stream may read this many queries and write this many ranks, in memory that the device can reach.
    pub(super) unsafe fn launch_rank(
        &self,
        queries: Global<K::Bits>,
        count: usize,
        ranks: GlobalMut<u64>,
        side: Side,
    ) -> Result<()> {
        let (tree, side) = (self.tree.tree_ref(self.stream)?, side as u32);
        let args = RankArgs { tree, queries, count: count as u64, ranks, side, padding: 0 };
        let launch = launch::over(self.stream, count, 1)?;
        // SAFETY: the caller's contract; the tree is valid by construction, and borrowed.
        Ok(unsafe { launch.run(launch::rank::<K::Bits, V>(self.tree.fanout(), &args)) }?)
    }

    /// Finds the last pair whose key is at or below each query: its key goes to `keys[i]` and its value to `values[i]`;
    /// if there is none, `values[i]` becomes `miss` and `keys[i]` is unspecified. `found` as in [`OnStream::get`].
    ///
    /// # Errors
    /// As [`OnStream::get`].
    pub fn predecessor(
        &self,
        queries: &Buffer<K>,
        keys: &mut Buffer<K>,
        values: &mut Buffer<V>,
        found: Option<&mut Buffer<u32>>,
        miss: V,
    ) -> Result<()> {
        self.neighbor_first(queries.len(), queries, keys, values, found, miss, Side::Upper)
    }

    /// Finds the first pair whose key is at or above each query; otherwise like [`OnStream::predecessor`].
    ///
    /// # Errors
    /// As [`OnStream::get`].
    pub fn successor(
        &self,
        queries: &Buffer<K>,
        keys: &mut Buffer<K>,
        values: &mut Buffer<V>,
        found: Option<&mut Buffer<u32>>,
        miss: V,
    ) -> Result<()> {
        self.neighbor_first(queries.len(), queries, keys, values, found, miss, Side::Lower)
    }

    #[expect(clippy::too_many_arguments, reason = "the public calls above name them in twos and threes")]
    fn neighbor_first(
        &self,
        count: usize,
        queries: &Buffer<K>,
        keys: &mut Buffer<K>,
        values: &mut Buffer<V>,
        found: Option<&mut Buffer<u32>>,
        miss: V,
        side: Side,
    ) -> Result<()> {
        self.check("the queries' buffer", count, queries)?;
        self.check("the keys' buffer", count, keys)?;
        self.check("the values' buffer", count, values)?;
        if let Some(found) = &found {
            self.check("the hit mask's buffer", count.div_ceil(32), found)?;
        }
        if count == 0 {
            return Ok(());
        }
        if self.stream.device().kind() == DeviceKind::Host {
            let tree = self.tree.view().expect("a tree on the host is in main memory");
            let (Some(queries), Some(keys), Some(values)) =
                (queries.as_slice(), keys.as_mut_slice(), values.as_mut_slice())
            else {
                unreachable!("buffers of the host are in main memory")
            };
            let mut unwanted = Vec::new();
            let words = count.div_ceil(32);
            let found = match found.and_then(Buffer::as_mut_slice) {
                Some(found) => &mut found[..words],
                None => {
                    unwanted.resize(words, 0);
                    &mut unwanted[..]
                }
            };
            queries[..count]
                .par_chunks(TASK)
                .zip(keys.par_chunks_mut(TASK))
                .zip(values.par_chunks_mut(TASK))
                .zip(found.par_chunks_mut(TASK / 32))
                .for_each(|(((queries, keys), values), found)| {
                    found.fill(0);
                    tree.neighbor(queries, side == Side::Upper, |i, neighbor| {
                        values[i] = miss;
                        if let Some(pair) = neighbor {
                            (keys[i], values[i]) = pair;
                            found[i / 32] |= 1 << (i % 32);
                        }
                    });
                });
            return Ok(());
        }
        let outputs = NeighborOutputs {
            keys: keys.write_on(self.stream)?.cast(),
            values: values.write_on(self.stream)?,
            found: optional_mut(found, self.stream)?,
        };
        // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
        unsafe { self.launch_neighbor(bits::<K>(self.stream, queries)?, count, outputs, miss, side) }
    }

    /// Launches the search for `count` queries' neighbours, at least one.
    ///
    /// # Safety
    /// The stream may read this many queries and write this many results, in memory that the device can reach.
    pub(super) unsafe fn launch_neighbor(
        &self,
        queries: Global<K::Bits>,
        count: usize,
        outputs: NeighborOutputs<K::Bits, V>,
        miss: V,
        side: Side,
    ) -> Result<()> {
        let NeighborOutputs { keys, values, found } = outputs;
        let (tree, side) = (self.tree.tree_ref(self.stream)?, side as u32);
        let args = NeighborArgs { tree, queries, count: count as u64, keys, values, found, side, padding: 0, miss };
        let launch = launch::over(self.stream, count, 1)?;
        // SAFETY: the caller's contract; the tree is valid by construction, and borrowed.
        Ok(unsafe { launch.run(launch::neighbor::<K::Bits, V>(self.tree.fanout(), &args)) }?)
    }

    /// Checks a buffer's length and device, and that the tree can answer.
    pub(super) fn check<T: bytemuck::Pod>(
        &self,
        what: &'static str,
        expected: usize,
        buffer: &Buffer<T>,
    ) -> Result<()> {
        self.tree.check_not_lost()?;
        if buffer.len() < expected {
            return Err(Error::OutputLength { what, expected, found: buffer.len() });
        }
        same_device(self.tree.device(), self.stream.device(), "the stream")?;
        same_device(self.tree.device(), buffer.device(), what)
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

/// Where neighbours go.
pub(super) struct NeighborOutputs<K, V> {
    pub(super) keys: GlobalMut<K>,
    pub(super) values: GlobalMut<V>,
    pub(super) found: GlobalMut<u32>,
}

/// A buffer of keys as the words that kernels see: a key and its word have the same size.
pub(super) fn bits<K: Key>(stream: &Stream, keys: &Buffer<K>) -> Result<Global<K::Bits>> {
    Ok(keys.read_on(stream)?.cast())
}
