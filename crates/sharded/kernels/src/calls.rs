//! The choice of a kernel by its word.

use crate::{Back, BackArgs, Cut, CutArgs, Scatter, ScatterArgs, Shift, ShiftArgs};
use lanetree_simt::{Call, KeyWord, entry_by_words};

macro_rules! by_word {
    ($($(#[$doc:meta])* $function:ident($args:ident) => $kernel:ident;)*) => {$(
        $(#[$doc])*
        pub fn $function<K: KeyWord>(args: &$args<K>) -> Call<'_> {
            Call::new(entry_by_words!(K: KeyWord => $kernel<K>), args)
        }
    )*};
}
by_word! {
    /// The kernel that puts queries into buckets.
    scatter(ScatterArgs) => Scatter;
    /// The kernel that cuts sorted batches.
    cut(CutArgs) => Cut;
    /// The kernel that copies parts of sorted batches into buckets.
    shift(ShiftArgs) => Shift;
    /// The kernel that puts results into the batch's order.
    back(BackArgs) => Back;
}
