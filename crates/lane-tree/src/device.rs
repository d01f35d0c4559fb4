//! The tree on a device: what the frame makes every query of.

use crate::LaneTree;
use crate::build::Builder;
use crate::native::View;
use crate::options::{TABLE_NODES, shared_bytes_per_block};
use crate::tuning::TUNING;
use core::ops::{Range, RangeInclusive};
use lanetree_frame::aggregate_steps::aggregate_groups;
use lanetree_frame::fixed::{FixedIndex, Query, Scans, SortedRanges, Staging, check_pairs};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{BatchOrder, Buffer, Device, Error, Op, Result, Stream, UpdateReport};
use lanetree_kernels_lane_tree::layout::TABLE_ENTRIES;
use lanetree_kernels_lane_tree::{
    CountedArgs, GATHER_WIDTHS, GetArgs, InWindows, InWindowsArgs, MOST_HALF, SORTED_BYTES, SORTED_OWN, SORTED_THREADS,
    SortedGatherBatch, TABLE_BYTES, TreeRef, WINDOW_ROWS, WINDOW_THREADS, Windowed, beside_threads, calls, found_bytes,
    found_pair_bytes, is_short_scan, ordered_threads, query_shared, query_threads, scan_wide_threads, sorted_tile,
    window_blocks, window_pairs, window_shared, window_tile,
};
use lanetree_layout::{AnyKey, KeyWord, Value};
use lanetree_primitives::{DevicePairs, can_be_moved};
use lanetree_runtime::Launch;
use lanetree_simt::{
    AllPairs, Call, GatherBatch, Global, Kernel, LaunchShape, LocateBatch, NeighborBatch, QueryArgs, RankBatch,
    ScanBatch, WARP,
};

/// Average pairs of ranges up to which few lanes copy each. Instructions limit the copy: a warp has as many for a round of 8 slots of
/// each of four ranges as for 32 slots of one, and beyond the last pair of a range fewer of them are in vain.
const SHORT_PAIRS: u64 = 128;

/// Bits by which queries are moved that are answered in pieces: as many as one pass has.
const PIECE_BITS: u32 = 8;

/// The launches over a batch of sorted queries: for those that end in a window, and for the others.
struct OverWindows<'s, K, Q> {
    args: InWindowsArgs<TreeRef<K>, Q>,
    in_windows: Launch<'s>,
    beside: Launch<'s>,
}

impl<K: KeyWord, Q> OverWindows<'_, K, Q> {
    /// Launches both.
    ///
    /// # Safety
    /// As [`FixedIndex::launch`], for the batch; the kernels are those of its queries.
    unsafe fn run(
        self,
        in_windows: impl FnOnce(&InWindowsArgs<TreeRef<K>, Q>) -> Call<'_>,
        beside: impl FnOnce(&InWindowsArgs<TreeRef<K>, Q>) -> Call<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe {
            self.in_windows.run(in_windows(&self.args))?;
            Ok(self.beside.run(beside(&self.args))?)
        }
    }
}

impl<K: AnyKey, V: Value> LaneTree<K, V> {
    /// What a kernel in a stream needs to know of the tree.
    pub(super) fn tree_ref(&self, stream: &Stream) -> Result<TreeRef<K::Bits>> {
        self.parts.get()?.tree_ref(stream, K::FLIP)
    }
}

impl<K: AnyKey, V: Value> LaneTree<K, V> {
    /// Launches look-ups.
    ///
    /// # Safety
    /// As [`FixedIndex::launch`]; the tree is this one.
    unsafe fn launch_get(&self, stream: &Stream, order: BatchOrder, args: &GetArgs<K::Bits, V>) -> Result<()> {
        let own = if order == BatchOrder::Sorted { self.sorted_own(args.count) } else { None };
        let (launch, call) = match own {
            Some(own) => {
                let tiles = args.count.div_ceil(sorted_tile(own).into()) * u64::from(WARP);
                let call = if own == SORTED_OWN[0] { calls::get_sorted_dense } else { calls::get_sorted_sparse };
                (over_queries(stream, tiles, SORTED_THREADS, SORTED_BYTES, &args.tree)?, call(args))
            }
            None => {
                let (most, bytes) = (query_threads::<K::Bits>(), found_bytes::<K::Bits, V>());
                (over_queries(stream, args.count, most, bytes, &args.tree)?, calls::get(args))
            }
        };
        // SAFETY: the caller's contract.
        Ok(unsafe { launch.run(call) }?)
    }

    /// How many sorted queries each lane is to have at a time. `None` if the queries are too few for each bucket: the buckets of a part
    /// of them would not fit in a window, and copying whole buckets to shared memory would not be worth it.
    fn sorted_own(&self, count: u64) -> Option<usize> {
        let shape = self.parts.known().shape;
        let buckets = u64::from(shape.buckets - shape.unused);
        SORTED_OWN.into_iter().find(|&own| buckets > 0 && count * 16 >= buckets * 9 * own as u64)
    }

    /// The rows of 32 queries that each warp of a block is to have, of `count` sorted ones whose answers reach over so many pairs after
    /// them. `None` if they are not sorted, or so few that the pairs of a tile of them would not fit in a window.
    fn rows_of_sorted<Q: Windowed<K::Bits, V>>(&self, order: BatchOrder, count: u64, reach: u64) -> Option<u32> {
        let shape = self.parts.known().shape;
        let len = shape.len;
        // In the mean: of those that have more than there is room for, there are then few. A window begins and ends where nodes do.
        let node = len / u64::from(shape.leaf_nodes.max(1)) + 1;
        let room = (u64::from(window_pairs::<K::Bits, V, Q>()) * 15 / 16).saturating_sub(2 * node + reach);
        let has_window = |&rows: &u32| {
            len > 0 && u128::from(count) * u128::from(room) >= u128::from(len) * u128::from(window_tile(rows))
        };
        // Of scans, what is written outweighs whole buckets for few queries.
        let few: &[u32] = if reach > 0 { &[2, 1] } else { &[] };
        // There are 32-bit numbers for tiles.
        if order != BatchOrder::Sorted || count >> 36 > 0 || !self.has_windows::<Q>() {
            return None;
        }
        WINDOW_ROWS.iter().chain(few).copied().find(has_window)
    }

    /// Whether a block on the device has shared memory for a window.
    fn has_windows<Q: Windowed<K::Bits, V>>(&self) -> bool {
        let needed = InWindows::<K::Bits, V, Q>::STATIC_SHARED + window_shared::<K::Bits, V, Q>();
        self.device.properties().is_ok_and(|properties| needed <= shared_bytes_per_block(&properties))
    }

    /// The launches for a batch of sorted queries whose answers reach over so many pairs after them. `None` if they go the way of other
    /// queries.
    fn over_sorted<'s, Q: Windowed<K::Bits, V>>(
        &self,
        stream: &'s Stream,
        order: BatchOrder,
        query: &QueryArgs<TreeRef<K::Bits>, Q>,
        pairs: u64,
    ) -> Result<Option<OverWindows<'s, K::Bits, Q>>> {
        let count = query.batch.count();
        let Some(rows) = self.rows_of_sorted::<Q>(order, count, pairs) else { return Ok(None) };
        let multiprocessors = stream.device().properties()?.multiprocessors.max(1);
        let tiles = count.div_ceil(u64::from(window_tile(rows)));
        let share = tiles.div_ceil(u64::from(multiprocessors * window_blocks::<K::Bits>()));
        // A row has so many pairs, and often more by a few times the square root of that.
        let of_row = (self.parts.known().shape.len * u64::from(WARP)).div_ceil(count);
        let half = ((of_row + 5 * of_row.isqrt()).next_power_of_two() / 2).clamp(1, u64::from(MOST_HALF));
        let beside_threads = beside_threads::<K::Bits>();
        let launch = |blocks: u64, threads, dynamic_shared| {
            Launch::new(stream, LaunchShape { blocks: blocks as u32, threads, dynamic_shared })
        };
        Ok(Some(OverWindows {
            args: InWindowsArgs {
                query: *query,
                rows,
                half: half as u32,
                reach: self.reach(pairs) as u32,
                tiles: tiles as u32,
                share: share as u32,
                padding: 0,
            },
            in_windows: launch(tiles.div_ceil(share), WINDOW_THREADS, window_shared::<K::Bits, V, Q>()),
            beside: launch(tiles.min(multiprocessors.into()), beside_threads, beside_threads * Q::SCRATCH),
        }))
    }

    /// How many buckets after a key's have `pairs` pairs, or a few more: about, since buckets are not equally full.
    fn reach(&self, pairs: u64) -> u64 {
        let shape = self.parts.known().shape;
        let buckets = u128::from(shape.buckets - shape.unused) * u128::from(pairs) * 5 / 4;
        (buckets / u128::from(shape.len.max(1))) as u64 + 1
    }
}

/// Fewest threads of a block with `queries` queries, which first copies a table of `top_count` prefixes; with many
/// queries it is [`block_threads`]. However few the queries are, a thread copies at most as many words as each of
/// [`block_threads`] threads copies of the largest table: with few warps, nothing would hide the latency of each word.
///
/// [`block_threads`]: crate::tuning::Tuning::block_threads
fn fewest_threads(queries: u64, top_count: u32, block_threads: u64) -> u64 {
    let words = |top_count: u32| u64::from(TABLE_BYTES / 4 + top_count);
    let copying = (block_threads * words(top_count)).div_ceil(words(TABLE_NODES));
    queries.max(copying).min(block_threads)
}

/// A launch for a batch of queries: at most one block on each multiprocessor, of at most `most` threads, with the table in its shared
/// memory, and `bytes` for each of its threads.
pub(crate) fn over_queries<'s, K: KeyWord>(
    stream: &'s Stream,
    count: u64,
    most: u32,
    bytes: u32,
    tree: &TreeRef<K>,
) -> Result<Launch<'s>> {
    let shared = |threads| query_shared(tree.top_count, threads, bytes);
    let threads = fewest_threads(count, tree.top_count, TUNING.on(stream.device())?.block_threads)..=most.into();
    Ok(Launch::new(stream, shape_over(stream, count, threads, TABLE_BYTES, shared)?))
}

/// A launch's shape for `count` queries, at least one: at most one block on each multiprocessor, of a number of threads
/// in `threads`, with `own_shared` bytes of static shared memory and `shared(threads)` bytes of dynamic shared memory;
/// of fewer threads if the device has too little.
///
/// # Errors
/// [`Error::SharedMemory`] if it has too little for a warp.
pub(crate) fn shape_over(
    stream: &Stream,
    count: u64,
    threads: RangeInclusive<u64>,
    own_shared: u32,
    dynamic_shared: impl Fn(u32) -> u32,
) -> Result<LaunchShape> {
    let properties = stream.device().properties()?;
    let multiprocessors = u64::from(properties.multiprocessors.max(1));
    let threads = count.div_ceil(multiprocessors).max(*threads.start()).min(*threads.end());
    let mut threads = (threads as u32).next_multiple_of(WARP);
    // Cards with less shared memory have smaller blocks.
    let room = shared_bytes_per_block(&properties);
    while own_shared + dynamic_shared(threads) > room {
        if threads <= WARP {
            let needed = own_shared + dynamic_shared(threads);
            let device = stream.device().to_string();
            return Err(Error::SharedMemory { threads, needed, most: room, device });
        }
        threads -= WARP;
    }
    let blocks = count.div_ceil(u64::from(threads)).min(multiprocessors) as u32;
    Ok(LaunchShape { blocks, threads, dynamic_shared: dynamic_shared(threads) })
}

// SAFETY: the tree has one pair per key, in order, and as many as its length says; a batch changes both together, or loses it.
unsafe impl<K: AnyKey, V: Value> FixedIndex for LaneTree<K, V> {
    type Key = K;
    type Value = V;
    const NAME: &'static str = "lanetree";
    type Tuning = BatchOrder;
    type View<'a> = View<'a, K::Bits, V>;

    fn device(&self) -> &Device {
        &self.device
    }

    fn len(&self) -> u64 {
        self.parts.known().shape.len
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
        self.parts.check()
    }

    fn view(&self) -> Option<View<'_, K::Bits, V>> {
        View::new(self.parts.get().ok()?, self.simd)
    }

    fn in_order(_: BatchOrder, order: BatchOrder) -> BatchOrder {
        order
    }

    fn finds_both(&self, order: &BatchOrder, count: u64) -> bool {
        self.rows_of_sorted::<NeighborBatch<K::Bits, V>>(*order, count, 0).is_some()
    }

    fn pieces(&self, order: &BatchOrder, count: u64) -> Option<Range<u32>> {
        let parts = self.parts.get().ok()?;
        let [_, nodes, ..] = parts.bytes();
        let fits = nodes <= self.device.properties().ok()?.l2_bytes;
        let has_many = count >= TUNING.on(&self.device).ok()?.piece_queries * u64::from(parts.shape.leaf_nodes);
        if fits || !has_many || *order != BatchOrder::Random || !can_be_moved(count) {
            return None;
        }
        // The highest bits in which its keys differ.
        let end = parts.shape.prefixes.shift + parts.shape.table_shift + TABLE_ENTRIES.ilog2();
        let end = end.min(K::Bits::BITS);
        Some(end.saturating_sub(PIECE_BITS)..end)
    }

    unsafe fn launch(&self, stream: &Stream, order: &BatchOrder, query: &Query<K::Bits, V>) -> Result<()> {
        let tree = self.tree_ref(stream)?;
        let ordered = ordered_threads::<K::Bits>();
        // SAFETY: the caller's contract; the tree is valid, and borrowed.
        Ok(unsafe {
            match *query {
                Query::Get(batch) => return self.launch_get(stream, *order, &QueryArgs { tree, batch }),
                Query::Rank(batch) => {
                    let args = QueryArgs { tree, batch };
                    if let Some(windows) = self.over_sorted::<RankBatch<K::Bits>>(stream, *order, &args, 0)? {
                        return windows.run(calls::rank_sorted::<_, V>, calls::rank_beside_windows::<_, V>);
                    }
                    over_queries(stream, batch.count, ordered, 0, &tree)?.run(calls::rank::<_, V>(&args))
                }
                Query::Neighbor(batch) => {
                    let (args, bytes) = (QueryArgs { tree, batch }, found_pair_bytes::<K::Bits, V>());
                    // What the outputs hold already, a mark would take the place of.
                    if !batch.near.is_second()
                        && let Some(windows) =
                            self.over_sorted::<NeighborBatch<K::Bits, V>>(stream, *order, &args, 0)?
                    {
                        return windows.run(calls::neighbor_sorted::<_, V>, calls::neighbor_beside_windows::<_, V>);
                    }
                    over_queries(stream, batch.count, ordered, bytes, &tree)?.run(calls::neighbor(&args))
                }
                Query::Locate(batch) => {
                    let args = QueryArgs { tree, batch };
                    if let Some(windows) = self.over_sorted::<LocateBatch<K::Bits>>(stream, *order, &args, 0)? {
                        return windows.run(calls::locate_sorted::<_, V>, calls::locate_beside_windows::<_, V>);
                    }
                    over_queries(stream, batch.count, ordered, 0, &tree)?.run(calls::locate::<_, V>(&args))
                }
                Query::Gather(batch, mean) => {
                    let args = QueryArgs { tree, batch };
                    let (width, call) = match mean <= SHORT_PAIRS {
                        true => (GATHER_WIDTHS[0], calls::gather_narrow(&args)),
                        false => (GATHER_WIDTHS[1], calls::gather_wide(&args)),
                    };
                    launch::over(stream, batch.rows.groups(), width, THREADS)?.run(call)
                }
                Query::Aggregate(batch) => {
                    let (args, (groups, width)) = (QueryArgs { tree, batch }, aggregate_groups(&batch, GATHER_WIDTHS));
                    let call = match width == GATHER_WIDTHS[0] {
                        true => calls::aggregate_narrow::<_, V::Word>(&args),
                        false => calls::aggregate_wide::<_, V::Word>(&args),
                    };
                    launch::over(stream, groups, width, THREADS)?.run(call)
                }
            }
        }?)
    }

    unsafe fn launch_gather_sorted(
        &self,
        stream: &Stream,
        order: &BatchOrder,
        SortedRanges { starts, ends, counts }: SortedRanges<K::Bits>,
        batch: GatherBatch<K::Bits, V>,
        mean: u64,
    ) -> Result<bool> {
        let (tree, gather) = (self.tree_ref(stream)?, batch);
        let args = QueryArgs { tree, batch: SortedGatherBatch { starts, ends, counts, gather } };
        let Some(windows) = self.over_sorted(stream, *order, &args, mean)? else { return Ok(false) };
        // SAFETY: the caller's contract; the tree is valid, and borrowed.
        unsafe {
            windows.run(calls::gather_sorted, calls::gather_beside_windows)?;
            // Of long ranges both leave all parts but the first.
            if batch.rows.parts > 0 {
                let args = QueryArgs { tree, batch };
                let launch = launch::over(stream, batch.rows.parts, GATHER_WIDTHS[1], THREADS)?;
                launch.run(calls::gather_wide(&args))?;
            }
        }
        Ok(true)
    }

    const READS_COUNTS: bool = true;

    unsafe fn launch_counted(&self, stream: &Stream, query: &Query<K::Bits, V>, count: Global<u32>) -> Result<()> {
        let tree = self.tree_ref(stream)?;
        let ordered = ordered_threads::<K::Bits>();
        let over = |most, threads, bytes| over_queries(stream, most, threads, bytes, &tree);
        // SAFETY: the caller's contract; the tree is valid, and borrowed.
        Ok(unsafe {
            match *query {
                Query::Get(batch) => {
                    let args = CountedArgs { most: QueryArgs { tree, batch }, count };
                    let bytes = found_bytes::<K::Bits, V>();
                    over(batch.count, query_threads::<K::Bits>(), bytes)?.run(calls::get_counted(&args))
                }
                Query::Rank(batch) => {
                    let args = CountedArgs { most: QueryArgs { tree, batch }, count };
                    over(batch.count, ordered, 0)?.run(calls::rank_counted::<_, V>(&args))
                }
                Query::Neighbor(batch) => {
                    let args = CountedArgs { most: QueryArgs { tree, batch }, count };
                    let bytes = found_pair_bytes::<K::Bits, V>();
                    over(batch.count, ordered, bytes)?.run(calls::neighbor_counted(&args))
                }
                Query::Locate(_) | Query::Gather(..) | Query::Aggregate(_) => {
                    unreachable!("the numbers of ranges are known")
                }
            }
        }?)
    }

    unsafe fn launch_copy_pairs(&self, stream: &Stream, batch: AllPairs<K::Bits, V>) -> Result<()> {
        let args = QueryArgs { tree: self.tree_ref(stream)?, batch };
        let launch = launch::over(stream, args.tree.leaf_nodes.into(), WARP, THREADS)?;
        // SAFETY: the caller's contract; the tree is valid, and borrowed.
        Ok(unsafe { launch.run(calls::copy_pairs(&args)) }?)
    }

    unsafe fn build_like(&self, stream: &Stream, (keys, values): (&Buffer<K>, &Buffer<V>), len: usize) -> Result<Self> {
        check_pairs(stream, keys, values, len)?;
        let pairs = DevicePairs { keys, values, len };
        let mut tree = Builder::of(self.options).build_distinct_on(stream, pairs)?;
        tree.simd = self.simd;
        Ok(tree)
    }
}

impl<K: AnyKey, V: Value> Scans for LaneTree<K, V> {
    unsafe fn launch_scan(&self, stream: &Stream, order: &BatchOrder, batch: ScanBatch<K::Bits, V>) -> Result<()> {
        let args = QueryArgs { tree: self.tree_ref(stream)?, batch };
        if batch.limit > 0
            && let Some(windows) = self.over_sorted(stream, *order, &args, batch.limit)?
        {
            // SAFETY: the caller's contract; the tree is valid, and borrowed.
            return unsafe { windows.run(calls::scan_sorted, calls::scan_beside_windows) };
        }
        let (threads, call) = match is_short_scan::<K::Bits, V>(batch.limit as u32) {
            true => (ordered_threads::<K::Bits>(), calls::scan(&args)),
            false => (scan_wide_threads::<K::Bits>(), calls::scan_wide(&args)),
        };
        // SAFETY: as above.
        Ok(unsafe { over_queries(stream, batch.count, threads, 0, &args.tree)?.run(call) }?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_queries_have_threads_that_copy_the_table() {
        assert_eq!(fewest_threads(64, TABLE_NODES, 512), 512);
        assert_eq!(fewest_threads(1 << 20, 1, 512), 512);
        assert_eq!((fewest_threads(1, 1, 512), fewest_threads(100, 1, 512)), (57, 100));
    }
}
