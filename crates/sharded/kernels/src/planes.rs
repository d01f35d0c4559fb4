//! The shard of each query of a tile, as bits: word `row` of plane `p` has bit `p` of the shards of the row's 32 queries. So a query's
//! place among its shard's of the tile is a count of bits, in both directions, and no position is stored.

use crate::{ITEMS, THREADS, TILE};
use lanetree_simt::{FULL_MASK, Shared, Simt, WARP, shl_clamped};

/// The most shards to whose memory kernels go directly: a block's warps, one each.
pub const MOST_DIRECT: u32 = THREADS / WARP;

/// Words of a plane of a tile.
pub(crate) const ROWS: u32 = (TILE / WARP as u64) as u32;

/// The most planes.
pub(crate) const MOST_PLANES: u32 = MOST_DIRECT.ilog2();

/// Each shard's queries of a tile begin at a multiple of this in the shard's box: 32 bytes of the narrowest element.
pub const RUN: u32 = 8;

const _: () = assert!(ITEMS as u32 * MOST_DIRECT == ROWS && ROWS == 2 * WARP);

/// How many planes tell so many shards apart.
pub(crate) const fn planes_of(shards: u32) -> u32 {
    32 - (shards - 1).leading_zeros()
}

/// Words of the planes of `tiles` tiles.
pub const fn plane_words(tiles: u64, shards: u32) -> u64 {
    tiles * (planes_of(shards) * ROWS) as u64
}

/// For each shard and row the number of its queries there, and then of those in the rows before.
pub(crate) const BEFORE: Shared<u32> = Shared::at(0, MOST_DIRECT * ROWS);
/// Each shard's queries of the tile.
pub(crate) const TOTALS: Shared<u32> = Shared::at(BEFORE.end(), MOST_DIRECT);
/// Where they begin in the shard's box.
pub(crate) const BASES: Shared<u32> = Shared::at(TOTALS.end(), MOST_DIRECT);
/// How many queries of the tile the shards before have.
pub(crate) const STARTS: Shared<u32> = Shared::at(BASES.end(), MOST_DIRECT);

/// Per thread. The row of one of its queries.
#[inline(always)]
pub(crate) fn row_of<S: Simt>(simt: S, item: usize) -> u32 {
    item as u32 * MOST_DIRECT + simt.warp()
}

/// The mask of the lanes that have a query in a row of a tile, of `count` queries in all.
#[inline(always)]
pub(crate) fn lanes_of(tile: u64, row: u32, count: u64) -> u32 {
    let first = tile * TILE + u64::from(row * WARP);
    // Clipped before it is an amount of a shift.
    let len = count.saturating_sub(first).min(u64::from(WARP)) as u32;
    shl_clamped(1, len).wrapping_sub(1)
}

/// Of the lanes of a row, those whose shard has a bit as `shard` has it, by the plane's word.
#[inline(always)]
pub(crate) fn agreeing(word: u32, shard: u32, plane: u32) -> u32 {
    if shard >> plane & 1 != 0 { word } else { !word }
}

/// Per warp, with a shard of its own. Makes [`BEFORE`] of the shard, which has counts, sums; [`TOTALS`] has their total. Returns it in
/// all lanes.
///
/// # Safety
/// The counts were stored before a barrier, and nobody else uses them up to the next.
#[inline(always)]
pub(crate) unsafe fn sum_rows<S: Simt>(simt: S, shard: u32) -> u32 {
    let (lane, at) = (simt.lane(), shard * ROWS + 2 * simt.lane());
    // SAFETY: the elements of the shard, two of each lane.
    unsafe {
        let (first, second) = (simt.shared_load(BEFORE, at), simt.shared_load(BEFORE, at + 1));
        let mut sum = first + second;
        let mut step = 1;
        while step < WARP {
            let lower = simt.shuffle_up(FULL_MASK, sum, step);
            sum += if lane >= step { lower } else { 0 };
            step *= 2;
        }
        let total = simt.shuffle(FULL_MASK, sum, WARP - 1);
        simt.shared_store(BEFORE, at, sum - first - second);
        simt.shared_store(BEFORE, at + 1, sum - second);
        if lane == 0 {
            simt.shared_store(TOTALS, shard, total);
        }
        total
    }
}

/// Per block. Makes [`STARTS`] of [`TOTALS`].
///
/// # Safety
/// A barrier is before, and one follows.
#[inline(always)]
pub(crate) unsafe fn sum_totals<S: Simt>(simt: S, shards: u32) {
    let thread = simt.thread_index();
    if thread < shards {
        let (mut start, mut shard) = (0, 0);
        while shard < thread {
            // SAFETY: a shard's total, and then the thread's own start.
            start += unsafe { simt.shared_load(TOTALS, shard) };
            shard += 1;
        }
        // SAFETY: as above.
        unsafe { simt.shared_store(STARTS, thread, start) };
    }
}

/// Per thread. Where a query is among the tile's in the order of their shards, and its place in its shard's run: of a shard, a row,
/// and the mask of the row's lanes of that shard.
///
/// # Safety
/// [`BEFORE`] and [`STARTS`] have sums, and a barrier has followed.
#[inline(always)]
pub(crate) unsafe fn place<S: Simt>(simt: S, shard: u32, row: u32, same: u32) -> (u32, u32) {
    // SAFETY: the caller's contract.
    let before = unsafe { simt.shared_load(BEFORE, shard * ROWS + row) };
    let within = before + (same & simt.lanes_below()).count_ones();
    // SAFETY: as above.
    (unsafe { simt.shared_load(STARTS, shard) } + within, within)
}
