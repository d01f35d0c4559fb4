//! Which shard a word belongs to, by the shards' borders in shared memory.

use lanetree_simt::{Global, Hint, KeyWord, Shared, Simt};

/// The most shards: what [`position`](crate::position) has bits for.
pub const MOST_SHARDS: u32 = 64;

/// Per block. Loads `count` borders into shared memory; a barrier must follow before they are read.
///
/// # Safety
/// There are as many, fewer than [`MOST_SHARDS`], and the array has as many elements.
#[inline(always)]
pub(crate) unsafe fn load<S: Simt, T: KeyWord>(simt: S, from: Global<T>, count: u32, to: Shared<T>) {
    let thread = simt.thread_index();
    if thread < count {
        // SAFETY: a border, and its element, which no other thread writes.
        unsafe { simt.shared_store(to, thread, simt.load(from, u64::from(thread), Hint::ReadOnly)) };
    }
}

/// Per thread. How many of `count` ascending borders are not above a word. Every thread of a block takes as many steps.
///
/// # Safety
/// The borders were loaded before a barrier.
#[inline(always)]
pub(crate) unsafe fn shard_of<S: Simt, T: KeyWord>(simt: S, borders: Shared<T>, count: u32, word: T) -> u32 {
    // The result is from `low` to `low + left`.
    let (mut low, mut left) = (0, count);
    while left > 0 {
        let half = left.div_ceil(2);
        // SAFETY: `low + left <= count`, and `half <= left`.
        let border = unsafe { simt.shared_load(borders, low + half - 1) };
        // Where the border is above, `half - 1` are left: never more than the other way, for which all threads go on.
        low += if border <= word { half } else { 0 };
        left -= half;
    }
    low
}
