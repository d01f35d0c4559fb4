//! From counts of digits to the starts of their runs.

use super::RADIX;
use super::look_back::{digit_scan, digits_before};
use lanetree_simt::{GlobalMut, Hint, Kernel, Shared, Simt, WARP, instance, kernel_args};

kernel_args! {
    /// Arguments of [`Offsets`].
    pub struct OffsetsArgs {
        /// In and out: `[blocks][RADIX]`, the counts of a pass's digits, and then the sums of those before.
        pub counts: GlobalMut<u64>,
    }
}

const WARP_SUMS: Shared<u64> = Shared::at(0, RADIX / WARP);

/// Exclusive prefix sums of the counts of each pass, in place. One block of [`RADIX`] threads per pass.
#[derive(Debug)]
pub struct Offsets;

impl Kernel for Offsets {
    type Args = OffsetsArgs;
    const STATIC_SHARED: u32 = WARP_SUMS.end();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        // SAFETY: each thread has its own count.
        let count = unsafe { simt.load(args.counts.as_const(), index, Hint::Default) };
        // SAFETY: all warps of a block of `RADIX` threads, one element per warp.
        let inclusive = unsafe { digit_scan(simt, WARP_SUMS, count) };
        simt.barrier();
        // SAFETY: written before the barrier.
        let before = unsafe { digits_before(simt, WARP_SUMS) };
        // SAFETY: as above.
        unsafe { simt.store(args.counts, index, before + inclusive - count, Hint::Default) };
    }
}

instance!(primitives__radix_sort_offsets, primitives, Offsets);
