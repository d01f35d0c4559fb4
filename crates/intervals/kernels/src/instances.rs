//! The instances that are compiled: one PTX module per key word, one per key word and row word; `calls` chooses among them.

use crate::{Arrange, Check, Count, Link, Mark, MostSpecific, Raise, Stab, Turn};
use lanetree_simt::instance;

macro_rules! keys {
    ($($k:ident)*) => {
        pastey::paste! {$(
            instance!([<intervals_ $k __count>], [<intervals_ $k>], Count<$k>);
            instance!([<intervals_ $k __check>], [<intervals_ $k>], Check<$k>);
            instance!([<intervals_ $k __mark>], [<intervals_ $k>], Mark<$k>);
            instance!([<intervals_ $k __turn>], [<intervals_ $k>], Turn<$k>);
            instance!([<intervals_ $k __raise>], [<intervals_ $k>], Raise<$k>);
            instance!([<intervals_ $k __link>], [<intervals_ $k>], Link<$k>);
        )*}
    };
}
keys!(u32 u64 u128);

macro_rules! pairs {
    ($($k:ident, $v:ident;)*) => {
        pastey::paste! {$(
            instance!([<intervals_ $k _ $v __arrange>], [<intervals_ $k _ $v>], Arrange<$k, $v>);
            instance!([<intervals_ $k _ $v __most_specific>], [<intervals_ $k _ $v>], MostSpecific<$k, $v>);
            instance!([<intervals_ $k _ $v __stab>], [<intervals_ $k _ $v>], Stab<$k, $v>);
        )*}
    };
}
pairs! {
    u32, u32;
    u32, u64;
    u64, u32;
    u64, u64;
    u128, u32;
    u128, u64;
}
