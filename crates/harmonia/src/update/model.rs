//! Keys for the tests of both ways of updating.

use lanetree_layout::{Key, KeyWord};

/// The key of an ordered word's low bits.
pub(super) fn key<K: Key>(word: u64) -> K {
    K::decode(K::Bits::truncate(word))
}
