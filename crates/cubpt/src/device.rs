//! The tree on a device: what the frame makes every query of.

use crate::Cubpt;
use crate::native::View;
use lanetree_frame::aggregate_steps::aggregate_groups;
use lanetree_frame::fixed::{FixedIndex, Query, Staging, check_pairs};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Buffer, Device, Op, Result, Stream, UpdateReport};
use lanetree_kernels_cubpt::{GATHER_WIDTHS, TreeRef, calls};
use lanetree_layout::{Key, Word};
use lanetree_primitives::BuildScratch;
use lanetree_runtime::Launch;
use lanetree_simt::QueryArgs;

impl<K: Key, V: Word> Cubpt<K, V> {
    /// What a kernel in a stream needs to know of the tree.
    fn tree_ref(&self, stream: &Stream) -> Result<TreeRef<K::Bits>> {
        let tree = self.tree.get()?;
        tree.tree_ref(stream, K::FLIP)
    }
}

/// A launch for a batch of queries.
fn over_queries(stream: &Stream, count: u64) -> Result<Launch<'_>> {
    launch::over(stream, count, 1, THREADS)
}

// SAFETY: the tree has one pair per key, in order, and as many as its length says; a batch changes both together, or loses it.
unsafe impl<K: Key, V: Word> FixedIndex for Cubpt<K, V> {
    type Key = K;
    type Value = V;
    const NAME: &'static str = "cubpt";
    type Tuning = ();
    type View<'a> = View<'a, K, V>;
    // A cursor is a rank.

    fn device(&self) -> &Device {
        &self.device
    }

    fn len(&self) -> u64 {
        self.tree.known().len
    }

    fn bytes(&self) -> u64 {
        self.stats().bytes()
    }

    fn apply_each(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        self.change(count, op)
    }

    fn staging(&self) -> &Staging<K, V> {
        &self.staging
    }

    fn staging_bytes(&self) -> usize {
        self.staging.bytes() + self.changes.bytes(|scratch| scratch.bytes())
    }

    fn check_not_lost(&self) -> Result<()> {
        self.tree.check()
    }

    fn view(&self) -> Option<View<'_, K, V>> {
        View::new(self.tree.get().ok()?)
    }

    unsafe fn launch(&self, stream: &Stream, (): &(), query: &Query<K::Bits, V>) -> Result<()> {
        let tree = self.tree_ref(stream)?;
        // SAFETY: the caller's contract; the tree is valid, and borrowed.
        Ok(unsafe {
            match *query {
                Query::Get(batch) => over_queries(stream, batch.count)?.run(calls::get(&QueryArgs { tree, batch })),
                Query::Rank(batch) => over_queries(stream, batch.count)?.run(calls::rank(&QueryArgs { tree, batch })),
                Query::Neighbor(batch) => {
                    over_queries(stream, batch.count)?.run(calls::neighbor(&QueryArgs { tree, batch }))
                }
                Query::Locate(batch) => {
                    launch::over(stream, batch.count, 1, THREADS)?.run(calls::locate(&QueryArgs { tree, batch }))
                }
                Query::Gather(batch, mean) => {
                    let args = QueryArgs { tree, batch };
                    let (width, call) = match mean <= 2 * u64::from(GATHER_WIDTHS[0]) {
                        true => (GATHER_WIDTHS[0], calls::gather_narrow(&args)),
                        false => (GATHER_WIDTHS[1], calls::gather_wide(&args)),
                    };
                    launch::over(stream, batch.rows.groups(), width, THREADS)?.run(call)
                }
                Query::Aggregate(batch) => {
                    let (args, (groups, width)) = (QueryArgs { tree, batch }, aggregate_groups(&batch, GATHER_WIDTHS));
                    let call = match width == GATHER_WIDTHS[0] {
                        true => calls::aggregate_narrow::<_, V>(&args),
                        false => calls::aggregate_wide::<_, V>(&args),
                    };
                    launch::over(stream, groups, width, THREADS)?.run(call)
                }
            }
        }?)
    }

    unsafe fn build_like(&self, stream: &Stream, pairs: (&Buffer<K>, &Buffer<V>), len: usize) -> Result<Self> {
        check_pairs(stream, pairs.0, pairs.1, len)?;
        let builder = Self::builder().fanout(self.fanout).fill(self.fill).mapping(self.mapping);
        builder.build_sorted_on(stream, pairs.0, pairs.1, len, &mut BuildScratch::for_sorted(stream.device())?)
    }
}
