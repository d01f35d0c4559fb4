//! Ordered queries of a sorted batch: neighbours share buckets, so a block copies the pairs between two queries to shared memory, once,
//! and searches there. An order that is only claimed costs speed, not answers.
//!
//! Two kernels, one after the other. [`InWindows`] answers the queries that end in a window, and has no way down the tree, which takes as
//! many registers as all else: the more warps fit on a multiprocessor, the more loads are on their way. Where it has no answer for all
//! queries of a warp, it writes a mark instead of the first one's answer. [`BesideWindows`] looks for marks, and goes down the
//! tree for those. An answer that looks like a mark is found again.

mod gather;
mod queries;
mod window;

pub use gather::{GatherBesideWindows, GatherSorted, GatherSortedArgs, SortedGatherBatch};
pub use queries::{
    LocateBesideWindows, LocateSorted, LocateSortedArgs, NeighborBesideWindows, NeighborSorted, NeighborSortedArgs,
    RankBesideWindows, RankSorted, RankSortedArgs, ScanBesideWindows, ScanSorted, ScanSortedArgs,
};
pub use window::{Asked, Window, Windowed, window_pairs, window_shared};

use crate::search::TreeRef;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, Kernel, KeyWord, LaunchBounds, QueryArgs, Simt, WARP, kernel_args};
use window::EDGE_BYTES;

/// Tiles whose edges are found together: between two edges each.
const GROUP: u32 = EDGES - 1;
/// Edges, and the lanes that look for one together.
const EDGES: u32 = 32;
const OF_EDGE: u32 = WINDOW_THREADS / EDGES;

/// Threads of a block.
pub const WINDOW_THREADS: u32 = 256;
const WARPS: u32 = WINDOW_THREADS / WARP;

/// Blocks that a multiprocessor is to have at a time: keys of 128 bits take more registers.
pub const fn window_blocks<K: KeyWord>() -> u32 {
    if K::BITS == 128 { 3 } else { 4 }
}

/// Most threads of a block of [`BesideWindows`], of which a multiprocessor is to have one.
pub const fn beside_threads<K: KeyWord>() -> u32 {
    if K::BITS == 128 { 512 } else { 640 }
}

/// The rows of 32 queries that each warp may have of a tile: so many that a tile's pairs fit in a window. Where there are fewer for each
/// pair, copying whole buckets is not worth it.
pub const WINDOW_ROWS: [u32; 2] = [8, 4];

/// Queries of a block's tile, if each warp has so many rows.
pub const fn window_tile(rows: u32) -> u32 {
    rows * WINDOW_THREADS
}

kernel_args! {
    /// Arguments of [`InWindows`] and [`BesideWindows`].
    pub struct InWindowsArgs<T, Q> {
        /// The tree and the batch.
        pub query: QueryArgs<T, Q>,
        /// Rows of a warp: those of [`WINDOW_ROWS`], or fewer; a power of two.
        pub rows: u32,
        /// Where the pairs of a row are searched by halving, the first step: a power of two, at most [`MOST_HALF`].
        pub half: u32,
        /// How many buckets windows have of the node after the last one that has the end of a query.
        pub reach: u32,
        /// Tiles.
        pub tiles: u32,
        /// Tiles of a block.
        pub share: u32,
        #[doc(hidden)]
        pub padding: u32,
    }
}

/// Most pairs that a step may have.
pub const MOST_HALF: u32 = 64;

/// Answers a batch of sorted queries, or marks where it does not. Blocks of [`WINDOW_THREADS`] threads, with [`window_shared`] bytes of
/// shared memory, and enough of them for all tiles.
#[derive(Debug)]
pub struct InWindows<K, V, Q>(PhantomData<(K, V, Q)>);

impl<K: KeyWord, V: Value, Q: Windowed<K, V>> Kernel for InWindows<K, V, Q> {
    type Args = InWindowsArgs<TreeRef<K>, Q>;
    const STATIC_SHARED: u32 = EDGE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> =
        Some(LaunchBounds { threads: WINDOW_THREADS, blocks: window_blocks::<K>() });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let InWindowsArgs { query: QueryArgs { tree, batch }, rows, reach, tiles, share, .. } = args;
        let begin = || simt.block_index() * share;
        let is_left = |tile: u32| tile < *tiles && tile < begin() + share;
        let mut tile = begin();
        // SAFETY: there are as many queries; the tree is valid and has pairs.
        unsafe {
            while is_left(tile) {
                // Registers are few, so this is not counted.
                let in_group = (tile - begin()) % GROUP;
                if in_group == 0 {
                    window::find_nodes::<S, K, V, Q>(simt, (tree, batch), tile, window_tile(*rows));
                    simt.barrier();
                    if simt.warp() == 0 {
                        window::measure::<S, K, V, Q>(simt, tree, *reach);
                    }
                    simt.barrier();
                }
                let window = Window::<K, V, Q>::stage(simt, tree, in_group, *reach);
                simt.barrier();
                search(simt, args, window, tile);
                simt.barrier();
                tile += 1;
            }
        }
    }
}

/// Answers the queries that [`InWindows`] has left. Any grid of blocks of at most [`beside_threads`] threads, with
/// [`Windowed::SCRATCH`] bytes of shared memory for each thread.
#[derive(Debug)]
pub struct BesideWindows<K, V, Q>(PhantomData<(K, V, Q)>);

impl<K: KeyWord, V: Value, Q: Windowed<K, V>> Kernel for BesideWindows<K, V, Q> {
    type Args = InWindowsArgs<TreeRef<K>, Q>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: beside_threads::<K>(), blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let InWindowsArgs { query: QueryArgs { tree, batch }, rows, .. } = args;
        // The queries that a warp of `InWindows` has are a warp's here, too; those next to them are other warps'.
        let (of_unit, of_block) = (u64::from(rows * WARP), simt.block_dim() / WARP);
        let stride = u64::from(simt.grid_dim() * of_block) * of_unit;
        let mut at = u64::from(simt.block_index() * of_block + simt.warp()) * of_unit + u64::from(simt.lane());
        // SAFETY: there are as many queries; the tree is valid and has pairs.
        unsafe {
            loop {
                let first = at - u64::from(simt.lane());
                if first >= batch.count() {
                    return;
                }
                // Rows are a power of two.
                if first & (of_unit - 1) == 0 {
                    let own = first + u64::from(simt.lane()) * stride;
                    let is_open = own < batch.count() && batch.is_marked(simt, own);
                    let open = simt.ballot(FULL_MASK, is_open);
                    if open == 0 {
                        at += u64::from(WARP) * stride;
                        continue;
                    }
                    at += u64::from(open.trailing_zeros()) * stride;
                }
                let position = if at < batch.count() { at } else { batch.count() - 1 };
                let word = batch.load(simt, position, 0).0.xor(tree.flip);
                batch.descend(simt, tree, (at, word));
                at += u64::from(WARP);
                at += if (at - u64::from(simt.lane())) & (of_unit - 1) == 0 { stride - of_unit } else { 0 };
            }
        }
    }
}

/// Warp collective (all lanes). Answers the warp's queries of a tile, or marks that not all of them end in the window; none past the last
/// one.
///
/// # Safety
/// As for the kernel; the window is the tile's.
#[inline(always)]
unsafe fn search<S: Simt, K: KeyWord, V: Value, Q: Windowed<K, V>>(
    simt: S,
    args: &InWindowsArgs<TreeRef<K>, Q>,
    window: Window<K, V, Q>,
    tile: u32,
) {
    let InWindowsArgs { query: QueryArgs { tree, batch }, rows, half, .. } = args;
    let (of_tile, of_warp) = (window_tile(*rows), rows * WARP);
    let first = u64::from(tile) * u64::from(of_tile);
    let left = batch.count() - first;
    let queries = if left < u64::from(of_tile) { left as u32 } else { of_tile };
    // Past the last query, that one again.
    let load = |own: u32| {
        // SAFETY: a query.
        let (word, end) = unsafe { batch.load(simt, first, own.min(queries - 1)) };
        (word.xor(tree.flip), end.xor(tree.flip))
    };
    let begin = simt.warp() * of_warp;
    if begin >= queries {
        return;
    }
    let end = (begin + of_warp).min(queries);
    let mut own = begin + simt.lane();
    let mut is_done = window.len(simt) > 0;
    // SAFETY: pairs of the window; queries.
    unsafe {
        if is_done {
            let mut next = load(own);
            let mut below = window.below_all(simt, batch.bound(simt.shuffle(FULL_MASK, next.0, 0)));
            loop {
                let query = next;
                next = load(own + WARP);
                let bound = batch.bound(query.0);
                // Not before where the row before ended.
                below = simt.shuffle(FULL_MASK, below, WARP - 1);
                below = window.advance(simt, below, bound, *half);
                let mut around = window.around(simt, below);
                if !simt.all(FULL_MASK, window.is_in(simt, below, around, bound)) {
                    below = window.below(simt, bound);
                    around = window.around(simt, below);
                    is_done = simt.all(FULL_MASK, window.is_in(simt, below, around, bound));
                }
                if is_done {
                    let (word, end) = query;
                    let asked = Asked { window, first, own, is_query: own < queries, word, end, below, around };
                    is_done = batch.answer(simt, tree, asked);
                }
                own += WARP;
                if !is_done || own - simt.lane() >= end {
                    break;
                }
            }
        }
        if !is_done {
            batch.mark(simt, first + u64::from(begin));
        }
    }
}
