//! The instances that are compiled.

use crate::aggregate::{DivideRanges, Finish, FoldValues};
use crate::clamp::{Clamp, ClampRanks};
use crate::columns::{MaskHits, OrderFloats, UnpackBits};
use crate::elements::PutElements;
use crate::joins::{Bounds, Numbers, PutMisses, Settle};
use crate::keys::{CheckOffsets, Compose, Encode, EncodeWide, Heads};
use crate::nearest::{AddCounts, KeepLast, ReverseRows, TakeNearest};
use lanetree_simt::instance;

instance!(keys__clamp_ranks, keys, ClampRanks);
instance!(keys__clamp_u32_u32, keys, Clamp<u32, u32>);
instance!(keys__clamp_u32_u64, keys, Clamp<u32, u64>);
instance!(keys__clamp_u32_u128, keys, Clamp<u32, u128>);
instance!(keys__clamp_u64_u32, keys, Clamp<u64, u32>);
instance!(keys__clamp_u64_u64, keys, Clamp<u64, u64>);
instance!(keys__clamp_u64_u128, keys, Clamp<u64, u128>);

// In the module `keys`, as all of these: they, too, are over batches of keys and of what is found of them.
instance!(keys__unpack_bits, keys, UnpackBits);
instance!(keys__mask_hits, keys, MaskHits);
instance!(keys__order_floats_u32, keys, OrderFloats<u32>);
instance!(keys__order_floats_u64, keys, OrderFloats<u64>);

instance!(keys__put_elements, keys, PutElements);

instance!(keys__bounds_u32, keys, Bounds<u32>);
instance!(keys__bounds_u64, keys, Bounds<u64>);
instance!(keys__bounds_u128, keys, Bounds<u128>);
instance!(keys__numbers, keys, Numbers);
instance!(keys__put_misses_u32, keys, PutMisses<u32>);
instance!(keys__put_misses_u64, keys, PutMisses<u64>);
instance!(keys__settle, keys, Settle);

instance!(keys__compose_u32_u32, keys, Compose<u32, u32>);
instance!(keys__compose_u32_u64, keys, Compose<u32, u64>);
instance!(keys__compose_u64_u32, keys, Compose<u64, u32>);
instance!(keys__compose_u64_u64, keys, Compose<u64, u64>);
instance!(keys__encode_u32, keys, Encode<u32>);
instance!(keys__encode_u64, keys, Encode<u64>);
instance!(keys__encode_u128, keys, EncodeWide);
instance!(keys__check_offsets_u32, keys, CheckOffsets<u32>);
instance!(keys__check_offsets_u64, keys, CheckOffsets<u64>);
instance!(keys__heads, keys, Heads);

instance!(keys__divide_ranges, keys, DivideRanges);
instance!(keys__fold_values_u32_g8, keys, FoldValues<u32, 8>);
instance!(keys__fold_values_u32_g32, keys, FoldValues<u32, 32>);
instance!(keys__fold_values_u64_g8, keys, FoldValues<u64, 8>);
instance!(keys__fold_values_u64_g32, keys, FoldValues<u64, 32>);
instance!(keys__finish_u32, keys, Finish<u32>);
instance!(keys__finish_u64, keys, Finish<u64>);

instance!(keys__add_counts, keys, AddCounts);
instance!(keys__take_nearest_u32_u32, keys, TakeNearest<u32, u32>);
instance!(keys__take_nearest_u32_u64, keys, TakeNearest<u32, u64>);
instance!(keys__take_nearest_u64_u32, keys, TakeNearest<u64, u32>);
instance!(keys__take_nearest_u64_u64, keys, TakeNearest<u64, u64>);
instance!(keys__take_nearest_u128_u32, keys, TakeNearest<u128, u32>);
instance!(keys__take_nearest_u128_u64, keys, TakeNearest<u128, u64>);
instance!(keys__keep_last, keys, KeepLast);
instance!(keys__reverse_rows_u32, keys, ReverseRows<u32>);
instance!(keys__reverse_rows_u64, keys, ReverseRows<u64>);
instance!(keys__reverse_rows_u128, keys, ReverseRows<u128>);
