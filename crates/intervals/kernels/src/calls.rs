//! The choice of a kernel by its words.

use crate::{
    Arrange, ArrangeArgs, Check, CheckArgs, Count, CountArgs, Link, LinkArgs, Mark, MarkArgs, MostSpecific,
    MostSpecificArgs, Raise, RaiseArgs, Stab, StabArgs, Turn, TurnArgs,
};
use lanetree_simt::{Call, KeyWord, Word, entry_by_words};

macro_rules! by_key {
    ($($(#[$doc:meta])* $function:ident($args:ident) => $kernel:ident;)*) => {$(
        $(#[$doc])*
        pub fn $function<K: KeyWord>(args: &$args<K>) -> Call<'_> {
            Call::new(entry_by_words!(K: KeyWord => $kernel<K>), args)
        }
    )*};
}
by_key! {
    /// The kernel that counts.
    count(CountArgs) => Count;
    /// The kernel that looks for reversed intervals.
    check(CheckArgs) => Check;
    /// The kernel that marks where runs begin.
    mark(MarkArgs) => Mark;
    /// The kernel that reverses the order.
    turn(TurnArgs) => Turn;
    /// The kernel that makes a level of maxima.
    raise(RaiseArgs) => Raise;
    /// The kernel that makes links.
    link(LinkArgs) => Link;
}

macro_rules! by_key_and_row {
    ($($(#[$doc:meta])* $function:ident($args:ident) => $kernel:ident;)*) => {$(
        $(#[$doc])*
        pub fn $function<K: KeyWord, V: Word>(args: &$args<K, V>) -> Call<'_> {
            Call::new(entry_by_words!(K: KeyWord, V => $kernel<K, V>), args)
        }
    )*};
}
by_key_and_row! {
    /// The kernel that brings ends and rows into order.
    arrange(ArrangeArgs) => Arrange;
    /// The kernel that finds the most specific interval.
    most_specific(MostSpecificArgs) => MostSpecific;
    /// The kernel that finds all intervals.
    stab(StabArgs) => Stab;
}
