//! The choice of a kernel by its words.

use crate::{BandSums, BandSumsArgs, SemiJoin, SemiJoinArgs, StarJoin, StarJoinArgs};
use lanetree_simt::{Call, Word, entry_by_words};

/// The band join.
pub fn band_sums<K: Word, V: Word>(args: &BandSumsArgs<K, V>) -> Call<'_> {
    Call::new(entry_by_words!(K, V => BandSums<K, V>), args)
}

/// The semi-join.
pub fn semi_join<K: Word, V: Word>(args: &SemiJoinArgs<K, V>) -> Call<'_> {
    Call::new(entry_by_words!(K, V => SemiJoin<K, V>), args)
}

/// The join with two indexes.
pub fn star_join<K: Word, V: Word>(args: &StarJoinArgs<K, V>) -> Call<'_> {
    Call::new(entry_by_words!(K, V => StarJoin<K, V>), args)
}
