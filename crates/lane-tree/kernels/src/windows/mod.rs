//! Ordered queries of a sorted batch: neighbours share buckets, so a block copies the pairs between two queries to shared memory, once,
//! and searches there. An order that is only claimed costs speed, not answers.

mod queries;
mod window;

pub use queries::{
    LocateSorted, LocateSortedArgs, NeighborSorted, NeighborSortedArgs, RankSorted, RankSortedArgs, ScanSorted,
    ScanSortedArgs,
};
pub use window::{Asked, Bound, Place, Window, Windowed, window_pairs, window_shared};

use crate::search::TreeRef;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, Kernel, KeyWord, LaunchBounds, QueryArgs, Simt, WARP, kernel_args, unroll};
use window::{EDGE_BYTES, find_edges};

/// Tiles whose edges are found together: a lane each, and one for the end of the last.
const GROUP: u32 = WARP - 1;

/// Threads of a block of [`InWindows`], of which a multiprocessor is to have two: registers are few with keys of 128 bits, and for
/// neighbours and ranges.
pub const fn window_threads<K: KeyWord, V: Value, Q: Windowed<K, V>>() -> u32 {
    if K::BITS == 128 || Q::SCRATCH > 0 || Q::LOCATES { 256 } else { 320 }
}

/// The blocks that a multiprocessor is to have at a time.
pub const WINDOW_BLOCKS: u32 = 2;

/// The rows of 32 queries that each warp may have of a tile: so many that a tile's pairs fit in a window. Where there are fewer for each
/// pair, copying whole buckets is not worth it.
pub const WINDOW_ROWS: [u32; 2] = [8, 4];

/// Queries of a block's tile, if each warp has so many rows.
pub const fn window_tile<K: KeyWord, V: Value, Q: Windowed<K, V>>(rows: u32) -> u32 {
    rows * window_threads::<K, V, Q>()
}

kernel_args! {
    /// Arguments of [`InWindows`].
    pub struct InWindowsArgs<T, Q> {
        /// The tree and the batch.
        pub query: QueryArgs<T, Q>,
        /// Rows of a warp, at least one: those of [`WINDOW_ROWS`], or fewer.
        pub rows: u32,
        /// How many buckets windows have after that of the next tile's first query.
        pub reach: u32,
        /// Tiles.
        pub tiles: u32,
        /// Tiles of a block.
        pub share: u32,
    }
}

/// Answers a batch of sorted queries. Blocks of [`window_threads`] threads, with [`window_shared`] bytes of shared memory, and enough of
/// them for all tiles.
#[derive(Debug)]
pub struct InWindows<K, V, Q>(PhantomData<(K, V, Q)>);

impl<K: KeyWord, V: Value, Q: Windowed<K, V>> Kernel for InWindows<K, V, Q> {
    type Args = InWindowsArgs<TreeRef<K>, Q>;
    const STATIC_SHARED: u32 = EDGE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> =
        Some(LaunchBounds { threads: window_threads::<K, V, Q>(), blocks: WINDOW_BLOCKS });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let InWindowsArgs { query: QueryArgs { tree, batch }, rows, reach, tiles, share } = args;
        let of_tile = window_tile::<K, V, Q>(*rows).max(WARP);
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

/// Rows that a warp searches at a time: each step waits for its load, and few warps fit on a multiprocessor.
const AT_ONCE: usize = 4;

/// Something for each of these rows.
type OfRows<T> = [T; AT_ONCE];

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
        u64::from(tile) * u64::from(window_tile::<K, V, Q>(rows)) + u64::from(of_tile)
    };
    let place = |row: u32| first(row) + u64::from(simt.lane());
    // Past the last query, the last query is repeated.
    let load = |at: u64| {
        // SAFETY: a query.
        let (word, end) = unsafe { batch.load(simt, if at < count { at } else { count - 1 }) };
        (word.xor(tree.flip), end.xor(tree.flip))
    };
    // SAFETY: pairs of the window; queries.
    unsafe {
        // Where the search of each row is to begin: each lane finds that of one.
        let lane = simt.lane();
        let word = load(first(if lane < rows { lane } else { rows - 1 })).0;
        let starts = if window.len(simt) > 0 { window.below(simt, batch.bound(word)) } else { 0 };
        let mut row = 0;
        while row < rows && first(row) < count {
            let own: OfRows<(K, K)> = core::array::from_fn(|i| load(place((row + i as u32).min(rows - 1))));
            let from: OfRows<u32> =
                core::array::from_fn(|i| simt.shuffle(FULL_MASK, starts, (row + i as u32).min(rows - 1)));
            let bounds = own.map(|(word, _)| batch.bound(word));
            let mut is_near = window.len(simt) > 0;
            unroll!(AT_ONCE, i => {
                is_near &= window.is_near(simt, from[i], own[i].0, bounds[i]);
            });
            let mut below = from;
            // The rows that go another way.
            let mut others = 0_u32;
            if simt.all(FULL_MASK, is_near) {
                window.advance(simt, &mut below, &bounds);
            } else {
                let mut i = 0;
                while i < AT_ONCE as u32 {
                    let at = simt.opaque(i);
                    let mut word = own[0].0;
                    unroll!(AT_ONCE, j => {
                        word = if at == j as u32 { own[j].0 } else { word };
                    });
                    let mut found = 0;
                    if window.has(simt, word) {
                        found = window.below(simt, batch.bound(word));
                    } else {
                        others |= 1 << i;
                    }
                    unroll!(AT_ONCE, j => {
                        below[j] = if at == j as u32 { found } else { below[j] };
                    });
                    i += 1;
                }
            }
            unroll!(AT_ONCE, i => {
                let (at, (word, end)) = (row + i as u32, own[i]);
                // The same for all lanes.
                if at < rows && others >> i & 1 == 0 {
                    let asked = Asked { window, at: place(at), word, end, below: below[i] };
                    if !batch.answer(simt, tree, asked) {
                        others |= 1 << i;
                    }
                }
            });
            while others > 0 {
                let at = simt.opaque(row + others.trailing_zeros());
                if at < rows {
                    batch.descend(simt, tree, (place(at), load(place(at)).0));
                }
                others &= others - 1;
            }
            row += AT_ONCE as u32;
        }
    }
}
