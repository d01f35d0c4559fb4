//! The choice of a kernel by the words, which are known when the code is compiled.

use crate::aggregate::{DivideRanges, DivideRangesArgs, Finish, FinishArgs, FoldValues, FoldValuesArgs};
use crate::clamp::{Clamp, ClampArgs, ClampRanks, ClampRanksArgs};
use crate::columns::{MaskHits, MaskHitsArgs, OrderFloats, OrderFloatsArgs, UnpackBits, UnpackBitsArgs};
use crate::elements::{PutElements, PutElementsArgs};
use crate::joins::{Bounds, BoundsArgs, Numbers, NumbersArgs, PutMisses, PutMissesArgs, Settle, SettleArgs};
use crate::keys::{
    CheckOffsets, CheckOffsetsArgs, Compose, ComposeArgs, Encode, EncodeArgs, EncodeWide, Heads, HeadsArgs,
};
use crate::nearest::{
    AddCounts, AddCountsArgs, KeepLast, KeepLastArgs, ReverseRows, ReverseRowsArgs, TakeNearest, TakeNearestArgs,
};
use lanetree_simt::{Call, KeyWord, Word, entry_by_words};

/// The kernel that counts the parts of long ranges.
pub fn divide_ranges(args: &DivideRangesArgs) -> Call<'_> {
    Call::of::<DivideRanges>(args)
}

/// The kernel that aggregates values in an array, with 8 lanes per range.
pub fn fold_values_narrow<V: Word>(args: &FoldValuesArgs<V>) -> Call<'_> {
    Call::new(entry_by_words!(V => FoldValues<V, 8>), args)
}

/// The same with a warp per part of a range.
pub fn fold_values_wide<V: Word>(args: &FoldValuesArgs<V>) -> Call<'_> {
    Call::new(entry_by_words!(V => FoldValues<V, 32>), args)
}

/// The kernel that makes results of accumulators.
pub fn finish<V: Word>(args: &FinishArgs) -> Call<'_> {
    Call::new(entry_by_words!(V => Finish<V>), args)
}

/// The kernel that makes composite keys.
pub fn compose<A: Word, B: Word>(args: &ComposeArgs<A, B, A::With<B>>) -> Call<'_> {
    Call::new(entry_by_words!(A, B => Compose<A, B>), args)
}

/// The kernel that makes byte strings of numbers.
pub fn encode<K: Word>(args: &EncodeArgs<K>) -> Call<'_> {
    Call::new(entry_by_words!(K => Encode<K>), args)
}

/// The kernel that makes byte strings of numbers of 128 bits.
pub fn encode_wide(args: &EncodeArgs<u64>) -> Call<'_> {
    Call::of::<EncodeWide>(args)
}

/// The check of offsets.
pub fn check_offsets<O: Word>(args: &CheckOffsetsArgs<O>) -> Call<'_> {
    Call::new(entry_by_words!(O => CheckOffsets<O>), args)
}

/// The kernel that takes the beginnings of byte strings.
pub fn heads(args: &HeadsArgs) -> Call<'_> {
    Call::of::<Heads>(args)
}

/// The kernel that writes a byte for each bit of a hit mask.
pub fn unpack_bits(args: &UnpackBitsArgs) -> Call<'_> {
    Call::of::<UnpackBits>(args)
}

/// The kernel that puts changed elements in their places.
pub fn put_elements(args: &PutElementsArgs) -> Call<'_> {
    Call::of::<PutElements>(args)
}

/// The kernel that makes ordered words of floats, or the inverse.
pub fn order_floats<W: Word>(args: &OrderFloatsArgs<W>) -> Call<'_> {
    Call::new(entry_by_words!(W => OrderFloats<W>), args)
}

/// The kernel that clears a hit mask's bits of null queries.
pub fn mask_hits(args: &MaskHitsArgs) -> Call<'_> {
    Call::of::<MaskHits>(args)
}

/// The kernel that makes keys of queries of another integer type.
pub fn clamp<Q: Word, K: KeyWord>(args: &ClampArgs<Q, K>) -> Call<'_> {
    Call::new(entry_by_words!(K: KeyWord, Q => Clamp<Q, K>), args)
}

/// The kernel that corrects the ranks of such queries.
pub fn clamp_ranks(args: &ClampRanksArgs) -> Call<'_> {
    Call::of::<ClampRanks>(args)
}

/// The kernel that makes inclusive bounds.
pub fn bounds<K: KeyWord>(args: &BoundsArgs<K>) -> Call<'_> {
    Call::new(entry_by_words!(K: KeyWord => Bounds<K>), args)
}

/// The kernel that writes the numbers of matches' probes.
pub fn numbers(args: &NumbersArgs) -> Call<'_> {
    Call::of::<Numbers>(args)
}

/// The kernel that writes the rows of probes without a match.
pub fn put_misses<V: Word>(args: &PutMissesArgs<V>) -> Call<'_> {
    Call::new(entry_by_words!(V => PutMisses<V>), args)
}

/// The kernel that says how many rows each probe of a join has.
pub fn settle(args: &SettleArgs) -> Call<'_> {
    Call::of::<Settle>(args)
}

/// The kernel that takes the nearer of two candidates.
pub fn take_nearest<K: KeyWord, V: Word>(args: &TakeNearestArgs<K, V>) -> Call<'_> {
    Call::new(entry_by_words!(K: KeyWord, V => TakeNearest<K, V>), args)
}

/// The kernel that adds counts.
pub fn add_counts(args: &AddCountsArgs) -> Call<'_> {
    Call::of::<AddCounts>(args)
}

/// The kernel that finds where the last pairs of ranges begin.
pub fn keep_last(args: &KeepLastArgs) -> Call<'_> {
    Call::of::<KeepLast>(args)
}

/// The kernel that reverses rows.
pub fn reverse_rows<W: KeyWord>(args: &ReverseRowsArgs<W>) -> Call<'_> {
    Call::new(entry_by_words!(W: KeyWord => ReverseRows<W>), args)
}
