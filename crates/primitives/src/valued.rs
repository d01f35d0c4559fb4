//! Operations over pairs that may have no values: those of a set, with values `()`. Their keys alone are moved then.

use crate::{
    Keys, KeysMut, MergeRule, MergeScratch, Pairs, PairsMut, RadixSortScratch, RunScratch, SelectScratch, last_by_key,
    merge_keys, merge_pairs, partition_keys, partition_pairs, radix_sort_keys, radix_sort_keys_in_place,
    radix_sort_pairs, radix_sort_pairs_in_place, select_keys, select_pairs, subtract_keys, subtract_pairs, unique_keys,
};
use core::any::Any;
use core::ops::Range;
use lanetree_base::{AnyKey, Buffer, Result, Stream};
use lanetree_layout::Value;

/// The values as words, if there are any: a value that is a word is its own.
fn words<V: Value>(values: &Buffer<V>) -> Option<&Buffer<V::Word>> {
    (values as &dyn Any).downcast_ref()
}

/// As [`words`].
pub(crate) fn words_mut<V: Value>(values: &mut Buffer<V>) -> Option<&mut Buffer<V::Word>> {
    (values as &mut dyn Any).downcast_mut()
}

/// Keys, and values if there are any.
type Buffers<'a, K, V> = (&'a Buffer<K>, &'a Buffer<V>);
/// As [`Buffers`].
type BuffersMut<'a, K, V> = (&'a mut Buffer<K>, &'a mut Buffer<V>);

/// [`radix_sort_pairs`].
pub(crate) fn sort<K: AnyKey, V: Value>(
    stream: &Stream,
    (keys, values): Buffers<'_, K, V>,
    len: usize,
    bits: Range<u32>,
    (sorted, sorted_values): BuffersMut<'_, K, V>,
    scratch: &mut RadixSortScratch<K, V::Word>,
) -> Result<()> {
    match (words(values), words_mut(sorted_values)) {
        (Some(values), Some(sorted_values)) => {
            radix_sort_pairs(stream, (keys, values), len, bits, (sorted, sorted_values), scratch)
        }
        _ => radix_sort_keys(stream, keys, len, bits, sorted, scratch),
    }
}

/// [`radix_sort_pairs_in_place`].
pub(crate) fn sort_in_place<K: AnyKey, V: Value>(
    stream: &Stream,
    (keys, values): BuffersMut<'_, K, V>,
    len: usize,
    bits: Range<u32>,
    scratch: &mut RadixSortScratch<K, V::Word>,
) -> Result<()> {
    match words_mut(values) {
        Some(values) => radix_sort_pairs_in_place(stream, (keys, values), len, bits, scratch),
        None => radix_sort_keys_in_place(stream, keys, len, bits, scratch),
    }
}

/// [`last_by_key`].
pub(crate) fn last<K: AnyKey, V: Value>(
    stream: &Stream,
    input: Pairs<'_, K, V>,
    output: PairsMut<'_, K, V>,
    scratch: &mut RunScratch,
) -> Result<()> {
    match parts(input, output) {
        Parts::Pairs(input, output) => last_by_key(stream, input, output, scratch),
        Parts::Keys(input, output) => unique_keys(stream, input, output, scratch),
    }
}

/// Selects pairs as [`select_pairs`] does, or a set's keys as [`select_keys`] does.
///
/// # Errors
/// As [`select_pairs`].
pub fn select<K: AnyKey, V: Value>(
    stream: &Stream,
    input: Pairs<'_, K, V>,
    flags: &Buffer<u32>,
    output: PairsMut<'_, K, V>,
    scratch: &mut SelectScratch,
) -> Result<()> {
    match parts(input, output) {
        Parts::Pairs(input, output) => select_pairs(stream, input, flags, output, scratch),
        Parts::Keys(input, output) => select_keys(stream, input, flags, output, scratch),
    }
}

/// Partitions pairs as [`partition_pairs`] does, or a set's keys as [`partition_keys`] does.
///
/// # Errors
/// As [`partition_pairs`].
pub fn partition<K: AnyKey, V: Value>(
    stream: &Stream,
    input: Pairs<'_, K, V>,
    flags: &Buffer<u32>,
    output: PairsMut<'_, K, V>,
    scratch: &mut SelectScratch,
) -> Result<()> {
    match parts(input, output) {
        Parts::Pairs(input, output) => partition_pairs(stream, input, flags, output, scratch),
        Parts::Keys(input, output) => partition_keys(stream, input, flags, output, scratch),
    }
}

/// Merges pairs as [`merge_pairs`] does, or two sets' keys as [`merge_keys`] does.
///
/// # Errors
/// As [`merge_pairs`].
pub fn merge<K: AnyKey, V: Value>(
    stream: &Stream,
    rule: MergeRule,
    first: Pairs<'_, K, V>,
    second: Pairs<'_, K, V>,
    output: PairsMut<'_, K, V>,
    scratch: &mut MergeScratch,
) -> Result<()> {
    let keys = Keys { keys: second.keys, count: second.count };
    match (parts(first, output), words(second.values)) {
        (Parts::Pairs(first, output), Some(values)) => {
            let second = Pairs { keys: second.keys, values, count: second.count };
            merge_pairs(stream, rule, first, second, output, scratch)
        }
        (Parts::Keys(first, output), _) => merge_keys(stream, rule, first, keys, output, scratch),
        (Parts::Pairs(..), None) => unreachable!("both have values of one type"),
    }
}

/// Subtracts keys from pairs as [`subtract_pairs`] does, or from a set's keys as [`subtract_keys`] does.
///
/// # Errors
/// As [`subtract_pairs`].
pub fn subtract<K: AnyKey, V: Value>(
    stream: &Stream,
    first: Pairs<'_, K, V>,
    second: Keys<'_, K>,
    output: PairsMut<'_, K, V>,
    scratch: &mut MergeScratch,
) -> Result<()> {
    match parts(first, output) {
        Parts::Pairs(first, output) => subtract_pairs(stream, first, second, output, scratch),
        Parts::Keys(first, output) => subtract_keys(stream, first, second, output, scratch),
    }
}

/// An operation's input and output.
enum Parts<'a, K, W> {
    Pairs(Pairs<'a, K, W>, PairsMut<'a, K, W>),
    Keys(Keys<'a, K>, KeysMut<'a, K>),
}

fn parts<'a, K: AnyKey, V: Value>(input: Pairs<'a, K, V>, output: PairsMut<'a, K, V>) -> Parts<'a, K, V::Word> {
    let Pairs { keys, values, count } = input;
    let PairsMut { keys: out_keys, values: out_values, count: out_count } = output;
    match (words(values), words_mut(out_values)) {
        (Some(values), Some(out_values)) => {
            let output = PairsMut { keys: out_keys, values: out_values, count: out_count };
            Parts::Pairs(Pairs { keys, values, count }, output)
        }
        _ => Parts::Keys(Keys { keys, count }, KeysMut { keys: out_keys, count: out_count }),
    }
}
