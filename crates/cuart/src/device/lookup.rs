//! Point look-ups in device form.

use super::over;
use crate::Cuart;
use crate::native::TASK;
use crate::parts::Parts;
use bytemuck::Pod;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::Result;
use lanetree_frame::byte_keys::DeviceKeys;
use lanetree_frame::error::{check_buffer, same_device};
use lanetree_frame::fixed::{QueryOptions, Uses};
use lanetree_frame::parallel::*;
use lanetree_frame::pointers::optional_mut;
use lanetree_frame::room::zeroed;
use lanetree_kernels_cuart::calls;
use lanetree_kernels_cuart::layout::Link;
use lanetree_kernels_cuart::update::LocateArgs;
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, DeviceKind, Stream};
use lanetree_simt::{Global, GlobalMut};

/// A tree's queries on a stream: buffers in and out, in the stream's order. Unless said otherwise a call
/// allocates nothing, synchronises nothing, and may return before its work is done; on the host and the emulator
/// it is done on return.
#[derive(Debug)]
pub struct OnStream<'a, V: Word> {
    pub(super) tree: &'a Cuart<V>,
    pub(super) stream: &'a Stream,
    /// How many lanes compare a key; none: as was measured to be fastest.
    lanes: Option<u32>,
    pub(super) options: QueryOptions<'a, V>,
}

/// How many lanes of a warp compare a query with its leaf's key. In any case one thread per query descends.
#[cfg(feature = "papers")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// The number that was measured to be fastest for the tree's longest key.
    #[default]
    Auto,
    /// The thread that descended.
    One,
    /// Two lanes, side by side.
    Two,
    /// Four.
    Four,
    /// Eight.
    Eight,
}

lanetree_frame::query_options! {
    impl['a, V: Word] OnStream<'a, V>, |view| view.options => hits, miss(V), limit
}

impl<'a, V: Word> OnStream<'a, V> {
    pub(super) fn new(tree: &'a Cuart<V>, stream: &'a Stream) -> Self {
        Self { tree, stream, lanes: None, options: QueryOptions::default() }
    }

    /// The same, with this many lanes comparing a key in [`OnStream::get`] and [`OnStream::get_pending`].
    #[cfg(feature = "papers")]
    #[must_use]
    pub fn with_lanes(self, lanes: Lanes) -> Self {
        let lanes = match lanes {
            Lanes::Auto => None,
            Lanes::One => Some(1),
            Lanes::Two => Some(2),
            Lanes::Four => Some(4),
            Lanes::Eight => Some(8),
        };
        Self { lanes, ..self }
    }

    /// Looks up `queries`: `values[i]` becomes the value of key `queries[i]`, or [`miss`](Self::miss) if there is no such key.
    /// `values` must have at least one element per query; elements past these are not touched. Uses [`hits`](Self::hits).
    ///
    /// # Errors
    /// [`Error::OutputLength`], [`Error::BatchTooLarge`]; [`Error::UnusedOption`]; [`Error::LeavesInMainMemory`] for a tree that has some (use
    /// [`OnStream::get_pending`]); [`Error::Lost`]; [`Error::Runtime`] for buffers of another device, and from the
    /// launch.
    pub fn get(mut self, queries: &DeviceKeys, values: &mut Buffer<V>) -> Result<()> {
        self.options.check("get", Uses::Hits)?;
        let hits = self.options.hits.take();
        let tree = self.tree.parts()?;
        if self.stream.device().kind() != DeviceKind::Host {
            tree.check_on_device("OnStream::get")?;
        }
        self.get_first(tree, queries, values, hits, None)
    }

    /// As [`OnStream::get`], of a tree with leaves in main memory (section 3.2.3 of the paper): where a query ends
    /// at one of those, its bit in `pending` is set instead of that in `hits`, and `values[i]` becomes the leaf's
    /// index. The CPU compares the key: [`Cuart::host_leaf`].
    ///
    /// # Errors
    /// As [`OnStream::get`].
    pub fn get_pending(
        &self,
        queries: &DeviceKeys,
        values: &mut Buffer<V>,
        hits: &mut Buffer<u32>,
        pending: &mut Buffer<u32>,
    ) -> Result<()> {
        self.options.check("get_pending", Uses::Miss)?;
        let tree = self.tree.parts()?;
        self.check("the pending mask's buffer", queries.len().div_ceil(32), pending)?;
        self.get_first(tree, queries, values, Some(hits), Some(pending))
    }

    fn get_first(
        &self,
        tree: &Parts,
        queries: &DeviceKeys,
        values: &mut Buffer<V>,
        hits: Option<&mut Buffer<u32>>,
        pending: Option<&mut Buffer<u32>>,
    ) -> Result<()> {
        let miss = self.options.miss();
        let count = queries.len();
        self.check_keys(queries)?;
        self.check("the values' buffer", count, values)?;
        if let Some(hits) = &hits {
            self.check("the hit mask's buffer", count.div_ceil(32), hits)?;
        }
        if count == 0 {
            return Ok(());
        }
        if self.stream.device().kind() == DeviceKind::Host {
            if let Some(pending) = pending {
                pending.as_mut_slice().unwrap_or(&mut [])[..count.div_ceil(32)].fill(0);
            }
            get_on_host(tree, queries, values, hits, miss)?;
            return Ok(());
        }
        let bits = |bits: Option<&mut Buffer<u32>>| optional_mut(bits, self.stream);
        let outputs = (values.write_on(self.stream)?, bits(hits)?, bits(pending)?);
        let queries = queries.keys_ref(self.stream)?;
        // SAFETY: that many queries, and room for their results.
        unsafe { tree.launch_get(self.stream, self.lanes, queries, count, outputs, miss) }
    }

    /// Finds the leaves of `queries`: `links[i]` becomes the link of the leaf of key `queries[i]`, or none.
    ///
    /// # Errors
    /// As [`OnStream::get`]; [`Error::NotOnDevice`] on the host.
    pub fn locate(&self, queries: &DeviceKeys, links: &mut Buffer<Link>) -> Result<()> {
        self.options.check("locate", Uses::Nothing)?;
        let (tree, count) = (self.tree.parts()?, queries.len());
        self.check_keys(queries)?;
        self.check("the links' buffer", count, links)?;
        tree.check_on_device("OnStream::locate")?;
        if count == 0 {
            return Ok(());
        }
        let args = LocateArgs {
            tree: tree.tree_ref(self.stream)?,
            queries: queries.keys_ref(self.stream)?,
            picks: Global::null(),
            count: count as u64,
            links: links.write_on(self.stream)?.cast(),
            hits: GlobalMut::null(),
        };
        // SAFETY: the tree is valid and without leaves in main memory; that many queries, and a link for each.
        Ok(unsafe { over(self.stream, count)?.run(calls::locate(tree.query_words(), &args)) }?)
    }

    /// Checks that the queries are on the stream's device.
    pub(super) fn check_keys(&self, queries: &DeviceKeys) -> Result<()> {
        same_device(self.tree.device(), self.stream.device(), "the stream")?;
        same_device(self.tree.device(), queries.device(), "the queries")
    }

    /// Checks a buffer's length and device.
    pub(super) fn check<T: Pod>(&self, what: &'static str, expected: usize, buffer: &Buffer<T>) -> Result<()> {
        check_buffer(self.tree.device(), what, expected, buffer)
    }
}

impl<V: Word> Cuart<V> {
    /// The key and value of a leaf in main memory, by its index; `None` past the last, and of a
    /// [lost](Cuart::is_lost) tree.
    pub fn host_leaf(&self, index: u64) -> Option<(&[u8], V)> {
        self.parts().ok()?.host_leaf(index)
    }
}

/// Looks up a batch in buffers on the host.
fn get_on_host<V: Word>(
    tree: &Parts,
    queries: &DeviceKeys,
    values: &mut Buffer<V>,
    hits: Option<&mut Buffer<u32>>,
    miss: V,
) -> Result<()> {
    let tree = tree.view();
    let keys = queries.as_keys().expect("a buffer of the host");
    let values = &mut values.as_mut_slice().expect("a buffer of the host")[..keys.len()];
    let mut unwanted;
    let words = keys.len().div_ceil(32);
    let hits = match hits.and_then(Buffer::as_mut_slice) {
        Some(hits) => &mut hits[..words],
        None => {
            unwanted = zeroed(words)?;
            &mut unwanted[..]
        }
    };
    let tasks = values.par_chunks_mut(TASK).zip(hits.par_chunks_mut(TASK / 32)).enumerate();
    tasks.for_each(|(task, (values, hits))| {
        let first = task * TASK;
        let mut found = vec![None; values.len()];
        tree.get::<V>(keys, first..first + values.len(), &mut found);
        hits.fill(0);
        for (i, (value, hit)) in values.iter_mut().zip(found).enumerate() {
            *value = hit.unwrap_or(miss);
            hits[i / 32] |= u32::from(hit.is_some()) << (i % 32);
        }
    });
    Ok(())
}
