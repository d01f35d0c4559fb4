//! Batches of sorted queries: neighbours share buckets, so a warp copies the buckets between two queries to shared memory, once,
//! and searches there. An order that is only claimed costs speed, not answers.

mod queries;
mod window;

pub use queries::{
    Asked, Beside, Bound, GetSorted, GetSortedArgs, NeighborSorted, NeighborSortedArgs, RankSorted, RankSortedArgs,
    Windowed,
};
pub use window::SORTED_BYTES;

use crate::search::{TABLE_BYTES, TreeRef, load_top};
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, Kernel, KeyWord, LaunchBounds, QueryArgs, Simt, WARP, kernel_args};
use window::{Lines, Part, Span};

/// Parts of a tile: a bound for each, and one after the last.
const PARTS: u32 = WARP - 1;

/// The most rows of 32 queries that a part has. Where few queries share a bucket it has one, or its buckets would not fit in a window.
pub const SORTED_ROWS: u32 = 2;

/// Queries of a warp's tile, if a part has so many rows.
pub const fn sorted_tile(rows: u32) -> u32 {
    PARTS * rows * WARP
}

/// Most threads of a block of [`Sorted`]: pairs, and keys of 128 bits, take more registers.
pub const fn sorted_threads<K: KeyWord, V: Value, Q: Windowed<K, V>>() -> u32 {
    if K::BITS == 128 || Q::FINDS_PAIRS { 512 } else { 640 }
}

kernel_args! {
    /// Arguments of [`Sorted`].
    pub struct SortedArgs<T, Q> {
        /// The tree and the batch.
        pub query: QueryArgs<T, Q>,
        /// Rows of a part, 1 to [`SORTED_ROWS`].
        pub rows: u32,
        #[doc(hidden)]
        pub padding: u32,
    }
}

/// Answers a batch of sorted queries. One warp per [`sorted_tile`] queries; any grid of blocks of at most [`sorted_threads`] threads, with
/// shared memory for the table and [`SORTED_BYTES`] for each thread.
#[derive(Debug)]
pub struct Sorted<K, V, Q>(PhantomData<(K, V, Q)>);

impl<K: KeyWord, V: Value, Q: Windowed<K, V>> Kernel for Sorted<K, V, Q> {
    type Args = SortedArgs<TreeRef<K>, Q>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: sorted_threads::<K, V, Q>(), blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let SortedArgs { query: QueryArgs { tree, batch }, rows, .. } = args;
        let (queries, count) = (batch.queries(), batch.count());
        let of_part = u64::from(rows * WARP);
        let warp = simt.block_index() * (simt.block_dim() / WARP) + simt.warp();
        let mut tile = u64::from(warp) * u64::from(sorted_tile(*rows));
        // SAFETY: there are as many queries; the tree is valid and has pairs.
        unsafe {
            load_top(simt, tree);
            while tile < count {
                // The first query of each part, and of the part after the last one.
                let index = tile + u64::from(simt.lane()) * of_part;
                let index = if index < count { index } else { count - 1 };
                let bound = tree.load(simt, queries, index, count);
                // Of the part that begins in the lane; of the last lane, none.
                let walk = tree.walk_of_any::<S, V>(simt, bound);
                let lines = Lines::between(simt, tree, walk);
                let around = batch.around(simt, tree, walk);
                let span = |part: u32| Span {
                    first: simt.shuffle(FULL_MASK, bound, part),
                    last: simt.shuffle(FULL_MASK, bound, part + 1),
                    lines: lines.of_lane(simt, part),
                };
                let part_at = |part: u32| Part { start: tile + u64::from(part) * of_part, rows: *rows };
                let mut of_next = span(0);
                let mut next = part_at(0).load::<S, K, V, Q>(simt, &args.query, of_next);
                // The parts that are not sorted, or whose buckets are not in a window.
                let mut others = 0_u32;
                let mut part = 0;
                while part < PARTS && part_at(part).start < count {
                    let (now, of_now) = (next.ordered(tree), of_next);
                    let is_near = now.is_near(simt, of_now);
                    let mut len = 0;
                    if is_near {
                        len = now.stage::<S, V, Q>(simt, tree, of_now);
                    } else {
                        others |= 1 << part;
                    }
                    simt.sync_warp(FULL_MASK);
                    // Its loads are on their way while this part is searched.
                    let after = part + 1;
                    of_next = span(after.min(PARTS - 1));
                    if after < PARTS && part_at(after).start < count {
                        next = part_at(after).load::<S, K, V, Q>(simt, &args.query, of_next);
                    }
                    let around = Q::of_lane(simt, around, part);
                    if is_near {
                        now.search(simt, &args.query, (of_now.lines, len), around);
                    }
                    simt.sync_warp(FULL_MASK);
                    part = after;
                }
                while others > 0 {
                    part_at(others.trailing_zeros()).descend::<S, K, V, Q>(simt, &args.query);
                    others &= others - 1;
                }
                let warps = simt.grid_dim() * (simt.block_dim() / WARP);
                tile += u64::from(warps) * u64::from(sorted_tile(*rows));
            }
        }
    }
}
