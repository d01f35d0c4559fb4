//! What the kernels have in common: rows, one per lane, and sums over a warp.

use lanetree_simt::{FULL_MASK, LaunchBounds, Simt};

/// Most threads of a block: one block fills a multiprocessor, and each thread has 72 registers.
pub const MOST_THREADS: u32 = 896;

/// What the compiler may assume.
pub(crate) const BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: MOST_THREADS, blocks: 1 });

/// Warp collective. Calls `each` with the number of each lane's row, all lanes at once, for as long as a lane of the warp has
/// one: the grid may be smaller than the rows.
#[inline(always)]
pub(crate) fn for_each_row<S: Simt>(simt: S, count: u64, mut each: impl FnMut(u64)) {
    let mut row = simt.global_index();
    // The same for all lanes of a warp.
    while row - u64::from(simt.lane()) < count {
        each(row);
        row += u64::from(simt.grid_dim()) * u64::from(simt.block_dim());
    }
}

/// Warp collective (all lanes). The sum of all lanes' values, wrapping; in all of them.
#[inline(always)]
pub(crate) fn sum<S: Simt>(simt: S, mut value: u64) -> u64 {
    let mut lanes = 16;
    while lanes > 0 {
        value = value.wrapping_add(simt.shuffle_xor(FULL_MASK, value, lanes));
        lanes /= 2;
    }
    value
}
