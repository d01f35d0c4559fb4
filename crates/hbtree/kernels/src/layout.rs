//! Where things lie in memory. Everything is made of cache lines of 64 bytes.
//!
//! An inner node of the implicit tree, with 64-bit keys: a line of separators (the paper's figure 2(b)).
//!
//! ```text
//! +0     +8     +16    +24    +32    +40    +48    +56
//! | sep0 | sep1 | sep2 | sep3 | sep4 | sep5 | sep6 | sep7 |      16 separators of 32-bit keys
//! ```
//!
//! Separator `i` is the largest key below child `i`. A query goes to the first child whose separator is not below it,
//! or to the last child. Unused separators, and that of a level's last child, are the largest word, which is below no
//! query. With `F` children per node, child `i` of a level's node `n` is node `n * F + i` of the next level: `F` is one
//! more than the separators of a line, or equal to them, and then the last separator is always the largest word (the
//! paper's hybrid tree).
//!
//! A leaf, with 64-bit keys and values: a line of pairs (figure 2(a)). The keys come first, side by side, so that they
//! are compared at once.
//!
//! ```text
//! +0     +8     +16    +24    +32    +40    +48    +56
//! | key0 | key1 | key2 | key3 | val0 | val1 | val2 | val3 |      8 pairs of 32-bit keys and values
//! | key0 | key1 | key2 | key3 | key4 |  v0 v1 | v2 v3 | v4 · |   5 pairs of 64-bit keys and 32-bit values
//! | k0 k1 | k2 k3 | k4  ·  | val0 | val1 | val2 | val3 | val4 |  5 pairs of 32-bit keys and 64-bit values
//! ```
//!
//! Empty slots come last, and their keys are the largest word. That word is a key like any other: an empty slot is told
//! from it by its number alone.

use lanetree_simt::Word;

/// Bytes of a line.
pub const LINE: usize = 64;

/// Words of a line: the separators of an inner node, and the lanes that read it.
pub const fn words<K: Word>() -> u32 {
    (LINE / K::BYTES) as u32
}

/// Pairs of a leaf's line.
pub const fn slots<K: Word, V: Word>() -> u32 {
    (LINE / (K::BYTES + V::BYTES)) as u32
}

/// Where a line's values begin, in bytes.
pub const fn values_offset<K: Word, V: Word>() -> usize {
    let keys = slots::<K, V>() as usize * K::BYTES;
    keys.next_multiple_of(V::BYTES)
}
