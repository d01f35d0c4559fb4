//! Radix sort, and the local sort that completes one.

use lanetree_kernels_primitives::local_sort::{LocalSort, LocalSortArgs};
use lanetree_kernels_primitives::radix_sort::{
    HistogramArgs, HistogramU32, HistogramU64, Offsets, OffsetsArgs, OnesweepArgs, OnesweepU32, OnesweepU32U32,
    OnesweepU32U64, OnesweepU64, OnesweepU64U32, OnesweepU64U64,
};
use lanetree_layout::Word;
use lanetree_runtime::Call;
use lanetree_simt::same_args;

/// The launches without type parameters.
mod kernels {
    use super::*;

    macro_rules! launches {
        ($($function:ident, $kernel:ty, $args:ty;)*) => {$(
            #[inline(never)]
            pub(super) fn $function(args: &$args) -> Call<'_> {
                Call::of::<$kernel>(args)
            }
        )*};
    }
    launches! {
        histogram_u32, HistogramU32, HistogramArgs<u32>;
        histogram_u64, HistogramU64, HistogramArgs<u64>;
        offsets, Offsets, OffsetsArgs;
        u32_keys, OnesweepU32, OnesweepArgs<u32, u32>;
        u64_keys, OnesweepU64, OnesweepArgs<u64, u32>;
        u32_u32, OnesweepU32U32, OnesweepArgs<u32, u32>;
        u32_u64, OnesweepU32U64, OnesweepArgs<u32, u64>;
        u64_u32, OnesweepU64U32, OnesweepArgs<u64, u32>;
        u64_u64, OnesweepU64U64, OnesweepArgs<u64, u64>;
        local_u32_u32, LocalSort<u32, u32>, LocalSortArgs<u32, u32>;
        local_u32_u64, LocalSort<u32, u64>, LocalSortArgs<u32, u64>;
        local_u64_u32, LocalSort<u64, u32>, LocalSortArgs<u64, u32>;
        local_u64_u64, LocalSort<u64, u64>, LocalSortArgs<u64, u64>;
    }
}

/// The call of the histogram of all digits.
pub fn histogram<K: Word>(args: &HistogramArgs<K>) -> Call<'_> {
    match K::BITS {
        32 => kernels::histogram_u32(same_args(args)),
        _ => kernels::histogram_u64(same_args(args)),
    }
}

/// The call of the prefix sums of the histograms.
pub fn offsets(args: &OffsetsArgs) -> Call<'_> {
    kernels::offsets(args)
}

/// The call of a pass, or a portion of it, in blocks of [`threads`]. Sorts of keys alone have values of 32
/// bits, which do not matter.
pub fn onesweep<K: Word, V: Word>(pairs: bool, args: &OnesweepArgs<K, V>) -> Call<'_> {
    match (K::BITS, pairs, V::BITS) {
        (32, false, _) => kernels::u32_keys(same_args(args)),
        (_, false, _) => kernels::u64_keys(same_args(args)),
        (32, true, 32) => kernels::u32_u32(same_args(args)),
        (32, true, _) => kernels::u32_u64(same_args(args)),
        (_, true, 32) => kernels::u64_u32(same_args(args)),
        (_, true, _) => kernels::u64_u64(same_args(args)),
    }
}

/// Elements and threads of a block of the kernel that [`onesweep`] launches.
fn block<K: Word, V: Word>(pairs: bool) -> (u32, u32) {
    match (K::BITS, pairs, V::BITS) {
        (32, false, _) => (OnesweepU32::TILE, OnesweepU32::THREADS),
        (_, false, _) => (OnesweepU64::TILE, OnesweepU64::THREADS),
        (32, true, 32) => (OnesweepU32U32::TILE, OnesweepU32U32::THREADS),
        (32, true, _) => (OnesweepU32U64::TILE, OnesweepU32U64::THREADS),
        (_, true, 32) => (OnesweepU64U32::TILE, OnesweepU64U32::THREADS),
        (_, true, _) => (OnesweepU64U64::TILE, OnesweepU64U64::THREADS),
    }
}

/// Elements of a block of [`onesweep`].
pub fn tile<K: Word, V: Word>(pairs: bool) -> u64 {
    block::<K, V>(pairs).0.into()
}

/// Threads of a block of [`onesweep`].
pub fn threads<K: Word, V: Word>(pairs: bool) -> u32 {
    block::<K, V>(pairs).1
}

/// The call of the local sort.
pub fn local_sort<K: Word, V: Word>(args: &LocalSortArgs<K, V>) -> Call<'_> {
    match (K::BITS, V::BITS) {
        (32, 32) => kernels::local_u32_u32(same_args(args)),
        (32, _) => kernels::local_u32_u64(same_args(args)),
        (_, 32) => kernels::local_u64_u32(same_args(args)),
        (_, _) => kernels::local_u64_u64(same_args(args)),
    }
}
