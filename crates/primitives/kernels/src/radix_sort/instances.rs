//! The instances that are compiled, and their tuning.

use super::{Histogram, Onesweep, Restore, SmallSort};
use lanetree_simt::instance;

macro_rules! instances {
    ($($name:ident: $key:ident, $value:ident, $pairs:literal => $warps:literal, $items:literal, $blocks:literal;)*) => {
        pastey::paste! {$(
            #[doc = concat!("The pass of a sort of `", stringify!($name), "`.")]
            pub type [<Onesweep $name:camel>] = Onesweep<$key, $value, $pairs, $warps, $items, $blocks>;
            instance!([<primitives_sort_ $name __onesweep>], [<primitives_sort_ $name>], [<Onesweep $name:camel>]);
            instance!(
                [<primitives_sort_ $name __small>],
                [<primitives_sort_ $name>],
                SmallSort<$key, $value, $pairs>
            );
        )*}
    };
}

// Keys, their values, and whether there are values; warps per block, elements per thread, and blocks per
// multiprocessor. A pass is bound by latency and by the partly used sectors at both ends of a run of equal digits, so
// the tile should be large. These are the fastest without spills on any architecture, of about 150 that were measured
// on an H200, but for keys of 128 bits: their tiles take as many bytes, and were not measured. Turing has 64 KiB of shared memory, enough for one block.
instances! {
    u32: u32, u32, false => 16, 24, 2;
    u64: u64, u32, false => 12, 20, 2;
    u32_u32: u32, u32, true => 12, 21, 2;
    u32_u64: u32, u64, true => 8, 24, 2;
    u64_u32: u64, u32, true => 8, 24, 2;
    u64_u64: u64, u64, true => 8, 24, 2;
    u128: u128, u32, false => 8, 12, 2;
    u128_u32: u128, u32, true => 8, 12, 2;
    u128_u64: u128, u64, true => 8, 12, 2;
}

/// The histogram of a sort of 32-bit keys.
pub type HistogramU32 = Histogram<u32, 4, 4>;
/// The histogram of a sort of 64-bit keys.
pub type HistogramU64 = Histogram<u64, 8, 4>;
/// The histogram of a sort of 128-bit keys.
pub type HistogramU128 = Histogram<u128, 16, 4>;

instance!(primitives_sort_u32__histogram, primitives_sort_u32, HistogramU32);
instance!(primitives_sort_u64__histogram, primitives_sort_u64, HistogramU64);
instance!(primitives_sort_u128__histogram, primitives_sort_u128, HistogramU128);

macro_rules! restore {
    ($($name:ident: $key:ident, $value:ident => $warps:literal, $items:literal, $blocks:literal;)*) => {
        pastey::paste! {$(
            #[doc = concat!("The way back from a pass over keys, for values: `", stringify!($name), "`.")]
            pub type [<Restore $name:camel>] = Restore<$key, $value, $warps, $items, $blocks>;
            instance!([<primitives_restore_ $name __restore>], [<primitives_restore_ $name>], [<Restore $name:camel>]);
        )*}
    };
}

// Warps and elements per thread as in the passes over keys alone, whose tiles these are.
restore! {
    u32_u32: u32, u32 => 16, 24, 2;
    u32_u64: u32, u64 => 16, 24, 2;
    u64_u32: u64, u32 => 12, 20, 2;
    u64_u64: u64, u64 => 12, 20, 2;
    u128_u32: u128, u32 => 8, 12, 2;
    u128_u64: u128, u64 => 8, 12, 2;
}
