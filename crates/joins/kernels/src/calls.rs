//! The choice of a kernel by its words.

use crate::{BandSums, BandSumsArgs, SemiJoin, SemiJoinArgs, StarJoin, StarJoinArgs};
use lanetree_layout::Value;
use lanetree_simt::{Call, Entry, Word, entry_by_words};

macro_rules! with_sets {
    ($($(#[$doc:meta])* $function:ident($args:ident) => $kernel:ident;)*) => {$(
        $(#[$doc])*
        pub fn $function<K: Word, V: Value>(args: &$args<K, V>) -> Call<'_> {
            const fn of_pairs<K: Word, V: Word>() -> &'static Entry {
                entry_by_words!(K, V => $kernel<K, V>)
            }
            const fn of_set<K: Word>() -> &'static Entry {
                entry_by_words!(K => $kernel<K, ()>)
            }
            Call::new(const { if V::IS_SOME { of_pairs::<K, V::Word>() } else { of_set::<K>() } }, args)
        }
    )*};
}
with_sets! {
    /// The band join.
    band_sums(BandSumsArgs) => BandSums;
    /// The semi-join.
    semi_join(SemiJoinArgs) => SemiJoin;
}

/// The join with two indexes.
pub fn star_join<K: Word, V: Word>(args: &StarJoinArgs<K, V>) -> Call<'_> {
    Call::new(entry_by_words!(K, V => StarJoin<K, V>), args)
}
