//! What the kernels have in common: rows, one per lane, and sums over a warp.

use lanetree_simt::{FULL_MASK, LaunchBounds, Simt};

/// Most threads of a block: one block fills a multiprocessor, and each thread has 80 registers.
pub const MOST_THREADS: u32 = 768;

/// What the compiler may assume.
pub(crate) const BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: MOST_THREADS, blocks: 1 });

/// Warp collective. The numbers of each lane's rows, one after the other, all lanes at once, for as long as a lane of the warp has one:
/// the grid may be smaller than the rows.
#[inline(always)]
pub(crate) fn rows<S: Simt>(simt: S, count: u64) -> impl Iterator<Item = u64> {
    let stride = u64::from(simt.grid_dim()) * u64::from(simt.block_dim());
    let mut next = simt.global_index();
    core::iter::from_fn(move || {
        let row = next;
        next += stride;
        // The same for all lanes of a warp.
        (row - u64::from(simt.lane()) < count).then_some(row)
    })
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
