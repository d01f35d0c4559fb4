//! The tree on a device: what the frame makes every query of.

use crate::Cubpt;
use crate::native::View;
use lanetree_frame::fixed::{FixedIndex, NeighborOutputs, NeighborSearch, Side, Staging, check_pairs};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Buffer, Device, Op, Result, Stream, UpdateReport};
use lanetree_kernels_cubpt::{GATHER_WIDTHS, GatherArgs, GetArgs, LocateArgs, NeighborArgs, RankArgs, TreeRef, calls};
use lanetree_layout::{Key, Word};
use lanetree_primitives::BuildScratch;
use lanetree_runtime::Launch;
use lanetree_simt::{GatherRows, Global, GlobalMut};

impl<K: Key, V: Word> Cubpt<K, V> {
    /// What a kernel in a stream needs to know of the tree.
    fn tree_ref(&self, stream: &Stream) -> Result<TreeRef<K::Bits>> {
        let tree = self.tree.get()?;
        tree.tree_ref(stream, K::FLIP)
    }
}

/// A launch for a batch of queries.
fn over_queries(stream: &Stream, count: usize) -> Result<Launch<'_>> {
    launch::over(stream, count as u64, 1, THREADS)
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

    fn check_not_lost(&self) -> Result<()> {
        self.tree.check()
    }

    fn view(&self) -> Option<View<'_, K, V>> {
        View::new(self.tree.get().ok()?)
    }

    unsafe fn launch_get(
        &self,
        stream: &Stream,
        (): &(),
        queries: Global<K::Bits>,
        count: usize,
        values: GlobalMut<V>,
        hits: GlobalMut<u32>,
        miss: V,
    ) -> Result<()> {
        let args = GetArgs { tree: self.tree_ref(stream)?, queries, count: count as u64, values, hits, miss };
        // SAFETY: the caller's contract; the tree is valid, and borrowed.
        Ok(unsafe { over_queries(stream, count)?.run(calls::get(&args)) }?)
    }

    unsafe fn launch_rank(
        &self,
        stream: &Stream,
        queries: Global<K::Bits>,
        count: usize,
        ranks: GlobalMut<u64>,
        side: Side,
    ) -> Result<()> {
        let upper = u32::from(side == Side::Upper);
        let args = RankArgs { tree: self.tree_ref(stream)?, queries, count: count as u64, ranks, upper };
        // SAFETY: the caller's contract; the tree is valid, and borrowed.
        Ok(unsafe { over_queries(stream, count)?.run(calls::rank(&args)) }?)
    }

    unsafe fn launch_neighbor(
        &self,
        stream: &Stream,
        queries: Global<K::Bits>,
        count: usize,
        NeighborOutputs { keys, values, hits }: NeighborOutputs<K::Bits, V>,
        miss: V,
        NeighborSearch { side, near }: NeighborSearch<K::Bits>,
    ) -> Result<()> {
        let (tree, predecessor) = (self.tree_ref(stream)?, u32::from(side == Side::Upper));
        let args = NeighborArgs { tree, queries, count: count as u64, keys, values, hits, predecessor, miss, near };
        // SAFETY: the caller's contract; the tree is valid, and borrowed.
        Ok(unsafe { over_queries(stream, count)?.run(calls::neighbor(&args)) }?)
    }

    unsafe fn launch_locate(
        &self,
        stream: &Stream,
        count: usize,
        (starts, ends): (Global<K::Bits>, Global<K::Bits>),
        limits: Global<u64>,
        limit: u64,
        (cursors, counts): (GlobalMut<u64>, GlobalMut<u64>),
    ) -> Result<()> {
        let (tree, count) = (self.tree_ref(stream)?, count as u64);
        let args = LocateArgs { tree, starts, ends, limits, count, limit, cursors, counts };
        // SAFETY: the caller's contract; the tree is valid, and borrowed.
        Ok(unsafe { launch::over(stream, count, 1, THREADS)?.run(calls::locate(&args)) }?)
    }

    unsafe fn launch_gather(
        &self,
        stream: &Stream,
        rows: &GatherRows,
        expected: usize,
        (keys, values): (GlobalMut<K::Bits>, GlobalMut<V>),
    ) -> Result<()> {
        let args = GatherArgs { tree: self.tree_ref(stream)?, rows: *rows, keys, values };
        let (width, call) = match expected as u64 / rows.count <= 2 * u64::from(GATHER_WIDTHS[0]) {
            true => (GATHER_WIDTHS[0], calls::gather_narrow(&args)),
            false => (GATHER_WIDTHS[1], calls::gather_wide(&args)),
        };
        // SAFETY: the caller's contract; the tree is valid, and borrowed.
        Ok(unsafe { launch::over(stream, rows.groups(), width, THREADS)?.run(call) }?)
    }

    unsafe fn build_like(&self, stream: &Stream, pairs: (&Buffer<K>, &Buffer<V>), len: usize) -> Result<Self> {
        check_pairs(stream, pairs.0, pairs.1, len)?;
        let builder = Self::builder().fanout(self.fanout).fill(self.fill).mapping(self.mapping);
        builder.build_sorted_on(stream, pairs.0, pairs.1, len, &mut BuildScratch::for_sorted(stream.device())?)
    }
}
