//! Where things lie in memory: buckets, nodes, records, and how a node quantises keys.
//!
//! ```text
//! a bucket, 64 bytes: four slots of a key and a value, 16 bytes each, or eight slots of 8 bytes if both are 32 bits wide
//! ┌──────────┬──────────┬──────────┬──────────┐
//! │ k0    v0 │ k1    v1 │ k2    v2 │ k2    v2 │   ascending; a slot that is free repeats the pair before it
//! └──────────┴──────────┴──────────┴──────────┘
//!
//! buckets of keys of 128 bits: four slots of a key alone; after two buckets their values of 64 bits, or after four those of 32
//! ┌──────────┬──────────┬──────────┬──────────┐
//! │ k0       │ k1       │ k2       │ k2       │
//! ├──────────┼──────────┼──────────┼──────────┤
//! │ k4       │ k5       │ k6       │ k7       │
//! ├────┬────┬┴───┬────┬─┴──┬────┬──┴─┬────┬───┘
//! │ v0 │ v1 │ v2 │ v2 │ v4 │ v5 │ v6 │ v7 │
//! └────┴────┴────┴────┴────┴────┴────┴────┘
//!
//! buckets of a set: keys alone, 4 of 128 bits, 8 of 64, or 16 of 32
//! ┌─────┬─────┬─────┬─────┬─────┬─────┬─────┬─────┐
//! │ k0  │ k1  │ k2  │ k3  │ k4  │ k4  │ k4  │ k4  │
//! └─────┴─────┴─────┴─────┴─────┴─────┴─────┴─────┘
//!
//! a node, 64 bytes
//! ┌────────────────────────────────────────────────────┬─────────────┬──────────────────────────────────┐
//! │ 14 words of separators                             │ first child │ base:16  rotation:6  code:10     │
//! └────────────────────────────────────────────────────┴─────────────┴──────────────────────────────────┘
//!   bitmap:  448 cells; a set bit is the cell in which a child begins: up to 64 children
//!   halves:  28 separators of 15 bits, two to a word, each below a guard bit: up to 29 children
//!   exact:   3 separators of 128 bits, 7 of 64, or 14 of 32: up to 4, 8 or 15 children
//!
//! a record, 32 bytes, or 48 with keys of 128 bits and in sets, for each node of the lowest level: what ordered queries need in addition
//! ┌───────────┬───────────┬──────────────────────────────────────────────────────────────────┐
//! │ first key │ rank      │ lengths, a plane for each bit of the pairs of a bucket, less one │
//! └───────────┴───────────┴──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A pair with a key of 128 bits and a value of 64 would take 24 bytes, of which two fill three quarters of a bucket. With the keys
//! alone a bucket has four, so there are half as many buckets, and half as many nodes above them; look-ups of absent keys, ranks
//! and bounds read one bucket. A hit reads its value in addition, 32 bytes at most 320 bytes away, once it is known which one. So a
//! pair takes 24 bytes, or 20; with slots that stay free, nodes and records less than 26.7, or 22.4 (random keys, built full).
//!
//! A set has the value `()`, of no bytes. Here it is a key without a value, and kernels load and store no values.
//!
//! The children of a node are consecutive: nodes of the level below or, at the lowest level, buckets. A node maps a key
//! to a small number, its *quantised key*: sixteen bits of the key, less the same bits of the node's base, times a
//! factor. The builder lets a child begin only where the quantised key of a key is larger than that of the key before,
//! so a comparison of quantised keys decides exactly, and no query ever has to look into a second child. Where no such
//! cut can be had, a node is exact: its separators are whole keys.
//!
//! The buckets of a node are consecutive, in the order of their keys; the next node's buckets may be anywhere: an array
//! says for each node which bucket is its last. A bucket of a node that is free repeats the node's last pair.

mod prefixes;
mod quantiser;
mod record;

pub use prefixes::Prefixes;
pub use quantiser::*;
pub use record::{HalfRecord, Record};

use lanetree_layout::Value;
use lanetree_simt::{KeyWord, Word};

/// 32-bit words of a node.
pub const NODE_WORDS: u32 = 16;
/// 64-bit words of a bucket.
pub const BUCKET_WORDS: u32 = 8;
/// 64-bit words of a record.
pub const fn record_words<K: KeyWord, V: Value>() -> u32 {
    if K::BITS == 128 || !V::IS_SOME { 6 } else { 4 }
}
/// The most of them.
pub const MOST_RECORD_WORDS: usize = 6;
/// Planes of a record: bits of the number of pairs in a bucket, less one.
pub const fn planes<K: KeyWord, V: Value>() -> u32 {
    let of_pairs = if K::BITS == 32 { 3 } else { 2 };
    if V::IS_SOME { of_pairs } else { bucket_slots::<K, V>().ilog2() }
}
/// The most of them.
pub const MOST_PLANES: usize = 4;
/// The words of a node that are separators, before the other two. So quantised keys, which are below the number of cells, never
/// reach what looks like cells in those.
pub const SEPARATORS: u32 = NODE_WORDS - 2;
/// The word with the first child's number.
pub const FIRST_CHILD: u32 = SEPARATORS;
/// The word with the quantiser.
pub const QUANTISER: u32 = SEPARATORS + 1;
/// Cells of a bitmap.
pub const CELLS: u32 = SEPARATORS * 32;
/// Most children of a node whose separators are a bitmap.
pub const BITMAP_CHILDREN: u32 = 64;
/// Most children of a node with separators of 15 bits.
pub const HALVES_CHILDREN: u32 = SEPARATORS * 2 + 1;
/// A separator of 15 bits that no query reaches.
pub const UNUSED_HALF: u32 = 0x7fff;
/// Buckets of the table above the nodes.
pub const TABLE_ENTRIES: u32 = 2048;
/// Slots of a bucket.
pub const fn bucket_slots<K: KeyWord, V: Value>() -> u32 {
    BUCKET_WORDS / 2 * chunk_slots::<K, V>()
}
/// The most of them.
pub const MOST_SLOTS: usize = 16;

/// Buckets that a build gives a node beyond those that it needs, if it doesn't fill them: later pairs may make buckets
/// end at other positions.
pub const fn spare_buckets(is_full: bool, buckets: u32) -> u32 {
    let most = BITMAP_CHILDREN.saturating_sub(buckets);
    match buckets / 16 {
        _ if is_full => 0,
        spare if spare < most => spare,
        _ => most,
    }
}

/// Whether buckets have keys alone.
pub const fn has_keys_alone<K: KeyWord, V: Value>() -> bool {
    K::BITS == 128 || !V::IS_SOME
}

/// Whether they have, with the values after every few buckets.
pub const fn has_values_beside<K: KeyWord, V: Value>() -> bool {
    has_keys_alone::<K, V>() && V::IS_SOME
}

/// Buckets that have their values after them, together in 64 bytes.
const fn buckets_of_values<K: KeyWord, V: Value>() -> u32 {
    64 / (bucket_slots::<K, V>() * V::BYTES as u32)
}

/// 64-bit words of `buckets` buckets, with their values.
pub const fn words_of_buckets<K: KeyWord, V: Value>(buckets: u64) -> u64 {
    if !has_values_beside::<K, V>() {
        return buckets * BUCKET_WORDS as u64;
    }
    // The last values come after as many buckets as others.
    let together = buckets_of_values::<K, V>() as u64;
    buckets.div_ceil(together) * (together + 1) * BUCKET_WORDS as u64
}

/// How many buckets have room in `words` 64-bit words, with their values.
pub const fn buckets_in_words<K: KeyWord, V: Value>(words: u64) -> u64 {
    if !has_values_beside::<K, V>() {
        return words / BUCKET_WORDS as u64;
    }
    let together = buckets_of_values::<K, V>() as u64;
    words / ((together + 1) * BUCKET_WORDS as u64) * together
}

/// Where a node begins among all, in 32-bit words.
#[inline(always)]
pub fn node_at(node: impl Into<u64>) -> u64 {
    node.into() * u64::from(NODE_WORDS)
}

/// Where a node's record begins among all, in 64-bit words.
#[inline(always)]
pub fn record_at<K: KeyWord, V: Value>(node: impl Into<u64>) -> u64 {
    node.into() * u64::from(record_words::<K, V>())
}

/// Where a bucket begins among all, in 64-bit words.
#[inline(always)]
pub const fn bucket_at<K: KeyWord, V: Value>(bucket: u32) -> u64 {
    let beside = if has_values_beside::<K, V>() { bucket / buckets_of_values::<K, V>() } else { 0 };
    (bucket as u64 + beside as u64) * BUCKET_WORDS as u64
}

/// Where 16 bytes of buckets begin, in 64-bit words: counted from the first bucket on.
#[inline(always)]
pub const fn chunk_at<K: KeyWord, V: Value>(chunk: u64) -> u64 {
    if !has_values_beside::<K, V>() {
        return chunk * 2;
    }
    let chunks = BUCKET_WORDS as u64 / 2;
    bucket_at::<K, V>((chunk / chunks) as u32) + chunk % chunks * 2
}

/// Where the value of a slot is, if buckets have keys alone: in values, from the first word of all buckets on.
#[inline(always)]
pub const fn value_at<K: KeyWord, V: Value>(bucket: u32, slot: u32) -> u64 {
    let (buckets, bytes) = (buckets_of_values::<K, V>(), V::BYTES as u64);
    let values = bucket_at::<K, V>(bucket - bucket % buckets) * 8 + buckets as u64 * 64;
    values / bytes + (bucket % buckets * bucket_slots::<K, V>() + slot) as u64
}

/// Slots of 16 bytes: 2 for keys and values of 32 bits, otherwise 1; of keys alone as many as there is room for.
pub const fn chunk_slots<K: KeyWord, V: Value>() -> u32 {
    if has_keys_alone::<K, V>() {
        128 / K::BITS
    } else if K::BITS == 32 && V::BYTES == 4 {
        2
    } else {
        1
    }
}

/// The most of them.
pub const MOST_CHUNK_SLOTS: usize = 4;

/// Something for each slot of 16 bytes; slots past the last have a copy of the last one's.
pub type OfChunk<T> = [T; MOST_CHUNK_SLOTS];

/// Most children of an exact node.
pub const fn exact_children<K: KeyWord>() -> u32 {
    SEPARATORS * 32 / K::BITS + 1
}

/// The pairs in 16 bytes of a bucket. If buckets have keys alone, values are 0.
#[inline(always)]
pub fn pairs_of<K: KeyWord, V: Value>(chunk: [u64; 2]) -> OfChunk<(K, V)> {
    let of = |key: u64, value: u64| (K::truncate(key), V::of(KeyWord::truncate(value)));
    let [low, high] = chunk;
    if !has_keys_alone::<K, V>() {
        return match chunk_slots::<K, V>() {
            2 => [of(low, low >> 32), of(high, high >> 32), of(high, high >> 32), of(high, high >> 32)],
            _ => [of(low, high); MOST_CHUNK_SLOTS],
        };
    }
    match K::BITS {
        32 => [of(low, 0), of(low >> 32, 0), of(high, 0), of(high >> 32, 0)],
        64 => [of(low, 0), of(high, 0), of(high, 0), of(high, 0)],
        _ => [(K::from_parts(chunk), V::default()); MOST_CHUNK_SLOTS],
    }
}

/// 16 bytes of a bucket with these pairs, or of keys alone.
#[inline(always)]
pub fn chunk_of<K: KeyWord, V: Value>(pairs: OfChunk<(K, V)>) -> [u64; 2] {
    let low = |slot: usize| pairs[slot].0.parts()[0];
    let value = |slot: usize| pairs[slot].1.word().widen();
    if !has_keys_alone::<K, V>() {
        return match chunk_slots::<K, V>() {
            2 => [low(0) | value(0) << 32, low(1) | value(1) << 32],
            _ => [low(0), value(0)],
        };
    }
    match K::BITS {
        32 => [low(0) | low(1) << 32, low(2) | low(3) << 32],
        64 => [low(0), low(1)],
        _ => pairs[0].0.parts(),
    }
}

/// The last of `count` nodes for which something holds that holds for the first one.
#[inline(always)]
pub fn last_node(count: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut base, mut left) = (0, count);
    while left > 1 {
        let half = left / 2;
        base += if holds(base + half) { half } else { 0 };
        left -= half;
    }
    base
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More nodes and buckets than fit into any memory today, but not more than there are numbers for.
    #[test]
    fn nothing_wraps_for_the_last_numbers() {
        fn of<K: KeyWord, V: Value>() {
            for number in [1 << 27, 1 << 28, (1 << 28) + 1, u32::MAX - 1, u32::MAX] {
                let exactly = |words: u32| u128::from(number) * u128::from(words);
                assert_eq!(u128::from(node_at(number)), exactly(NODE_WORDS), "node {number}");
                assert_eq!(u128::from(record_at::<K, V>(number)), exactly(record_words::<K, V>()), "record {number}");
                let beside = if has_values_beside::<K, V>() { number / buckets_of_values::<K, V>() } else { 0 };
                let bucket = exactly(BUCKET_WORDS) + u128::from(beside) * u128::from(BUCKET_WORDS);
                assert_eq!(u128::from(bucket_at::<K, V>(number)), bucket, "bucket {number}");
                let chunk = u64::from(number) * u64::from(BUCKET_WORDS / 2) + 3;
                assert_eq!(u128::from(chunk_at::<K, V>(chunk)), bucket + 6, "chunk {chunk}");
                if has_values_beside::<K, V>() {
                    let slots = u128::from(bucket_slots::<K, V>());
                    let first = bucket_at::<K, V>(number - number % buckets_of_values::<K, V>());
                    let at = u128::from(first) * 8 / V::BYTES as u128
                        + u128::from(buckets_of_values::<K, V>()) * 64 / V::BYTES as u128;
                    let own = u128::from(number % buckets_of_values::<K, V>()) * slots + slots - 1;
                    assert_eq!(
                        u128::from(value_at::<K, V>(number, bucket_slots::<K, V>() - 1)),
                        at + own,
                        "value of bucket {number}"
                    );
                }
                let buckets = u64::from(number);
                assert!(
                    buckets_in_words::<K, V>(words_of_buckets::<K, V>(buckets)) >= buckets,
                    "room for {buckets} buckets"
                );
            }
        }
        of::<u32, u32>();
        of::<u32, ()>();
        of::<u64, u64>();
        of::<u64, ()>();
        of::<u128, u32>();
        of::<u128, u64>();
    }
}
