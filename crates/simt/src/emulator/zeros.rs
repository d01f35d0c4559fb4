//! Large arrays of counters.

use core::mem::ManuallyDrop;
use core::sync::atomic::AtomicU64;

/// Zeros that cost nothing until touched: for large sizes the allocator returns untouched pages.
pub(super) fn zeros(len: usize) -> Vec<AtomicU64> {
    const { assert!(align_of::<AtomicU64>() == align_of::<u64>()) };
    let mut zeros = ManuallyDrop::new(vec![0_u64; len]);
    // SAFETY: the parts of a vector that is not dropped; `AtomicU64` has the size and bit validity of
    // `u64`, and here its alignment.
    unsafe { Vec::from_raw_parts(zeros.as_mut_ptr().cast(), zeros.len(), zeros.capacity()) }
}
