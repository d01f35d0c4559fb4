//! Batches of sorted queries: neighbours share buckets, so a block copies the pairs between two queries to shared memory, once,
//! and searches there. An order that is only claimed costs speed, not answers.

mod queries;
mod window;

pub use queries::{
    Asked, Bound, GetSorted, GetSortedArgs, LocateSorted, LocateSortedArgs, NeighborSorted, NeighborSortedArgs, Place,
    RankSorted, RankSortedArgs, ScanSorted, ScanSortedArgs, Windowed,
};
pub use window::{Window, sorted_shared, window_pairs};

use crate::search::TreeRef;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, Kernel, KeyWord, LaunchBounds, QueryArgs, Simt, WARP, kernel_args};
use window::{EDGE_BYTES, find_edges};

/// Tiles whose edges are found together: a lane each, and one for the end of the last.
const GROUP: u32 = WARP - 1;

/// Threads of a block of [`Sorted`], of which a multiprocessor is to have two: registers are few with keys of 128 bits, and for
/// neighbours and ranges.
pub const fn sorted_threads<K: KeyWord, V: Value, Q: Windowed<K, V>>() -> u32 {
    if K::BITS == 128 || Q::SCRATCH > 0 || Q::LOCATES { 256 } else { 320 }
}

/// The blocks that a multiprocessor is to have at a time.
pub const SORTED_BLOCKS: u32 = 2;

/// The rows of 32 queries that each warp may have of a tile: the fewer queries share a bucket, the fewer, so that a tile's pairs fit in a
/// window.
pub const SORTED_ROWS: [u32; 4] = [8, 4, 2, 1];

/// Queries of a block's tile, if each warp has so many rows.
pub const fn sorted_tile<K: KeyWord, V: Value, Q: Windowed<K, V>>(rows: u32) -> u32 {
    rows * sorted_threads::<K, V, Q>()
}

kernel_args! {
    /// Arguments of [`Sorted`].
    pub struct SortedArgs<T, Q> {
        /// The tree and the batch.
        pub query: QueryArgs<T, Q>,
        /// Rows of a warp, one of [`SORTED_ROWS`].
        pub rows: u32,
        /// How many buckets windows have after that of the next tile's first query.
        pub reach: u32,
        /// Tiles.
        pub tiles: u32,
        /// Tiles of a block.
        pub share: u32,
    }
}

/// Answers a batch of sorted queries. Blocks of [`sorted_threads`] threads, with [`sorted_shared`] bytes of shared memory, and enough of
/// them for all tiles.
#[derive(Debug)]
pub struct Sorted<K, V, Q>(PhantomData<(K, V, Q)>);

impl<K: KeyWord, V: Value, Q: Windowed<K, V>> Kernel for Sorted<K, V, Q> {
    type Args = SortedArgs<TreeRef<K>, Q>;
    const STATIC_SHARED: u32 = EDGE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> =
        Some(LaunchBounds { threads: sorted_threads::<K, V, Q>(), blocks: SORTED_BLOCKS });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let SortedArgs { query: QueryArgs { tree, batch }, rows, reach, tiles, share } = args;
        let of_tile = sorted_tile::<K, V, Q>(*rows).max(WARP);
        let mut tile = simt.block_index() * share;
        let is_left = |tile: u32| tile < *tiles && tile < simt.block_index() * share + share;
        // SAFETY: there are as many queries; the tree is valid and has pairs.
        unsafe {
            while is_left(tile) {
                if simt.warp() == 0 {
                    find_edges::<S, K, V, Q>(simt, (tree, batch), (tile, of_tile), *reach);
                }
                simt.barrier();
                let mut in_group = 0;
                while in_group < GROUP && is_left(tile) {
                    let window = Window::<K, V, Q>::of(in_group);
                    window.stage(simt, tree);
                    simt.barrier();
                    search(simt, (tree, batch), window, tile, *rows);
                    simt.barrier();
                    in_group += 1;
                    tile += 1;
                }
            }
        }
    }
}

/// Warp collective (all lanes). Answers the `rows` rows of queries that the warp has of a tile; none past the last one.
///
/// # Safety
/// As for the kernel; the window is that of their tile.
#[inline(always)]
unsafe fn search<S: Simt, K: KeyWord, V: Value, Q: Windowed<K, V>>(
    simt: S,
    (tree, batch): (&TreeRef<K>, &Q),
    window: Window<K, V, Q>,
    tile: u32,
    rows: u32,
) {
    let count = batch.count();
    let first = |row: u32| {
        let of_tile = (simt.warp() * rows + row) * WARP;
        u64::from(tile) * u64::from(sorted_tile::<K, V, Q>(rows)) + u64::from(of_tile)
    };
    let place = |row: u32| first(row) + u64::from(simt.lane());
    // Past the last query, the last query is repeated.
    let load = |row: u32| {
        let at = if place(row) < count { place(row) } else { count - 1 };
        // SAFETY: a query.
        unsafe { batch.load(simt, at) }
    };
    // The next row is on its way while one is searched.
    let mut next = load(0);
    let (mut row, mut from) = (0, 0);
    while row < rows && first(row) < count {
        let own = next;
        next = load(row + 1);
        let (word, end) = (own.0.xor(tree.flip), own.1.xor(tree.flip));
        let bound = batch.bound(word);
        // SAFETY: pairs of the window; queries.
        unsafe {
            let below = match window.near(simt, from, bound) {
                Some(below) => below,
                None if window.has(simt, word) => window.below(simt, bound),
                // The query is somewhere else.
                None => {
                    batch.descend(simt, tree, (place(row), word));
                    // Nothing is kept meanwhile, as a descent takes many registers.
                    row = simt.opaque(row) + 1;
                    (next, from) = (load(row), 0);
                    continue;
                }
            };
            from = simt.shuffle(FULL_MASK, below, WARP - 1);
            batch.answer(simt, tree, Asked { window, at: place(row), word, end, below });
        }
        row += 1;
    }
}
