//! The locks of nodes: bits next to the count in their headers.

use lanetree_simt::{GlobalMut, Order, Scope, Simt};

/// The lower half of the word that a header's `count` is in; locks are in the upper.
pub(super) const COUNT_MASK: u32 = 0xffff;
/// A thread has the lock.
const LOCKED: u32 = 1 << 16;
/// The node was copied into a larger one.
pub(super) const OBSOLETE: u32 = 1 << 17;
/// The node is among those to be sorted.
pub(super) const TOUCHED: u32 = 1 << 18;

/// Per thread. Takes a lock if it is free and its node is not obsolete; returns the word's former value.
///
/// # Safety
/// A lock.
#[inline(always)]
pub(super) unsafe fn try_lock<S: Simt>(simt: S, lock: GlobalMut<u32>) -> Option<u32> {
    // SAFETY: the caller's promise.
    unsafe {
        let word = simt.atomic_load(lock, 0, Order::Relaxed, Scope::Device);
        if word & (LOCKED | OBSOLETE) != 0 {
            return None;
        }
        let before = simt.atomic_compare_exchange(lock, 0, word, word | LOCKED, Order::Acquire, Scope::Device);
        (before == word).then_some(word)
    }
}

/// Per thread. Releases a lock, with the word's new value.
///
/// # Safety
/// A lock that the thread has.
#[inline(always)]
pub(super) unsafe fn unlock<S: Simt>(simt: S, lock: GlobalMut<u32>, word: u32) {
    // SAFETY: the caller's promise.
    unsafe { simt.atomic_store(lock, 0, word, Order::Release, Scope::Device) }
}
