//! The array on a device: what the frame makes every query of.

use super::SortedArray;
use super::native::View;
use lanetree_frame::fixed::{FixedIndex, NeighborOutputs, NeighborSearch, Side, Staging, check_pairs};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::parallel::*;
use lanetree_frame::{Buffer, Device, Op, Result, Stream, UpdateReport};
use lanetree_kernels_sorted::{
    ArrayRef, GATHER_WIDTHS, GatherArgs, GetArgs, IN_FLIGHT, LocateArgs, NeighborArgs, RankArgs, calls,
};
use lanetree_layout::{Key, Word};
use lanetree_runtime::Launch;
use lanetree_simt::{GatherRows, Global, GlobalMut};

impl<K: Key, V: Word> SortedArray<K, V> {
    /// What a kernel in a stream needs to know of the array.
    fn array(&self, stream: &Stream) -> Result<ArrayRef<K::Bits, V>> {
        let (keys, values) = (self.keys.read_on(stream)?, self.values.read_on(stream)?);
        Ok(ArrayRef { keys, values, len: self.keys.len() as u64, flip: K::FLIP })
    }
}

/// A launch for a batch of queries.
fn over_queries(stream: &Stream, count: usize) -> Result<Launch<'_>> {
    launch::over(stream, count.div_ceil(IN_FLIGHT) as u64, 1, THREADS)
}

// SAFETY: the array has one pair per key, in order, and as many as its length says; a batch changes both together, or fails.
unsafe impl<K: Key, V: Word> FixedIndex for SortedArray<K, V> {
    type Key = K;
    type Value = V;
    const NAME: &'static str = "sorted";
    type Tuning = ();
    type View<'a> = View<'a, K, V>;
    // A cursor is a rank.

    fn device(&self) -> &Device {
        &self.device
    }

    fn len(&self) -> u64 {
        self.stats().len
    }

    fn bytes(&self) -> u64 {
        self.stats().bytes()
    }

    fn pairs(&self) -> Result<Vec<(K, V)>> {
        let keys = self.keys.to_vec()?.into_par_iter().map(K::decode);
        keys.zip(self.values.to_vec()?).try_collect()
    }

    fn apply_each(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        self.change(count, op)
    }

    fn staging(&self) -> &Staging<K, V> {
        &self.staging
    }

    fn check_not_lost(&self) -> Result<()> {
        Ok(())
    }

    fn view(&self) -> Option<View<'_, K, V>> {
        Some(View { keys: self.keys.as_slice()?, values: self.values.as_slice()? })
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
        let args = GetArgs { array: self.array(stream)?, queries, count: count as u64, values, hits, miss };
        // SAFETY: the caller's contract; the array is valid, and borrowed.
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
        let args = RankArgs { array: self.array(stream)?, queries, count: count as u64, ranks, upper };
        // SAFETY: the caller's contract; the array is valid, and borrowed.
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
        let (array, predecessor) = (self.array(stream)?, u32::from(side == Side::Upper));
        let args = NeighborArgs { array, queries, count: count as u64, keys, values, hits, predecessor, miss, near };
        // SAFETY: the caller's contract; the array is valid, and borrowed.
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
        let (array, count) = (self.array(stream)?, count as u64);
        let args = LocateArgs { array, starts, ends, limits, count, limit, cursors, counts };
        // SAFETY: the caller's contract; the array is valid, and borrowed.
        Ok(unsafe { launch::over(stream, count, 1, THREADS)?.run(calls::locate(&args)) }?)
    }

    unsafe fn launch_gather(
        &self,
        stream: &Stream,
        rows: &GatherRows,
        expected: usize,
        (keys, values): (GlobalMut<K::Bits>, GlobalMut<V>),
    ) -> Result<()> {
        let args = GatherArgs { array: self.array(stream)?, rows: *rows, keys, values };
        let (width, call) = match expected as u64 / rows.count <= 2 * u64::from(GATHER_WIDTHS[0]) {
            true => (GATHER_WIDTHS[0], calls::gather_narrow(&args)),
            false => (GATHER_WIDTHS[1], calls::gather_wide(&args)),
        };
        // SAFETY: the caller's contract; the array is valid, and borrowed.
        Ok(unsafe { launch::over(stream, rows.groups(), width, THREADS)?.run(call) }?)
    }

    unsafe fn build_like(&self, stream: &Stream, pairs: (&Buffer<K>, &Buffer<V>), len: usize) -> Result<Self> {
        check_pairs(stream, pairs.0, pairs.1, len)?;
        if let (Some(keys), Some(values)) = (pairs.0.as_slice(), pairs.1.as_slice()) {
            return Self::builder().build_sorted(stream.device(), &keys[..len], &values[..len]);
        }
        // Through main memory, as changes are.
        let (keys, values) = (pairs.0.to_vec()?, pairs.1.to_vec()?);
        Self::builder().build_sorted(stream.device(), &keys[..len], &values[..len])
    }
}
