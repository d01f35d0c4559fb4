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
//! or to the last child. Unused separators, and the separator of a level's last child, are the largest word, which is
//! below no query. With `F` children per node, child `i` of a level's node `n` is node `n * F + i` of the next level:
//! `F` is one more than the separators of a line, or equal to them, and then the last separator is always the largest
//! word (the paper's hybrid tree).
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
//!
//! An inner node of the regular tree, with 64-bit keys (figure 2(c)): 17 lines, 64 children. With 32-bit keys there are 33
//! lines and 256 children.
//!
//! ```text
//! line 0        | index0 | index1 | ... | index7 |       index i is the largest separator of line 1 + i
//! line 1        | sep0   | sep1   | ... | sep7   |
//!   ...
//! line 8        | sep56  | sep57  | ... | sep63  |
//! line 9        | child0 | child1 | ... | child7 |       numbers of nodes, as wide as a key
//!   ...
//! line 16       | child56| child57| ... | child63|
//! ```
//!
//! A search reads three lines: the index says which line of separators, this says which child, and the child's number
//! stands as many lines further on. Separators are as above: the separators of unused children and of the last child
//! are the largest word, so the search needs no number of children. This number, the parent and the siblings are a
//! second fragment of the node, in an array of its own with the same index: `size`, `parent`, `previous`, `next`. Only
//! the CPU has it.
//!
//! A node of the last inner level has the first nine (17) lines only. It shares its number with its big leaf (figure
//! 2(d)): child `i` of node `n` is line `i` of big leaf `n`, and is leaf number `n * 64 + i` (`n * 256 + i`).
//!
//! ```text
//! line 0        | pairs: a leaf's line, as above         |
//!   ...
//! line 63 (255) | pairs                                  |
//! line 64 (256) | size | next | previous | ·             |  in words of 32 bits; the size counts pairs
//! ```
//!
//! The pairs of a big leaf fill its lines from the front. Lines past the last pair are never read. An empty tree has one
//! big leaf whose first line is empty.

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

/// Children of an inner node of the regular tree, and lines of pairs of a big leaf: 64 or 256.
pub const fn fanout<K: Word>() -> u32 {
    words::<K>() * words::<K>()
}

/// Lines of an inner node of the regular tree above the last inner level.
pub const fn upper_lines<K: Word>() -> u32 {
    1 + 2 * words::<K>()
}

/// Lines of a node of the regular tree's last inner level.
pub const fn last_lines<K: Word>() -> u32 {
    1 + words::<K>()
}

/// Lines of a big leaf: the lines of its pairs, and one that describes it.
pub const fn big_leaf_lines<K: Word>() -> u32 {
    fanout::<K>() + 1
}

/// The first word of an inner node of the regular tree, in an array of nodes of `lines` lines each.
#[inline(always)]
pub const fn node_start<K: Word>(node: u32, lines: u32) -> u64 {
    node as u64 * lines as u64 * words::<K>() as u64
}

/// Where the separators begin in such a node, in words.
pub const fn separators_offset<K: Word>() -> u64 {
    words::<K>() as u64
}

/// Where the children's numbers begin in such a node, in words.
pub const fn children_offset<K: Word>() -> u64 {
    separators_offset::<K>() + fanout::<K>() as u64
}
