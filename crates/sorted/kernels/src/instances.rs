//! The instances that are compiled, one PTX module per key word and value word; `calls` chooses among them.

use crate::{Gather, Get, Locate, Neighbor, Rank};

macro_rules! instances {
    ($($k:ident, $v:ident;)*) => {
        pastey::paste! {$(
            lanetree_simt::instance!([<sorted_ $k _ $v __get>], [<sorted_ $k _ $v>], Get<$k, $v>);
            lanetree_simt::instance!([<sorted_ $k _ $v __rank>], [<sorted_ $k _ $v>], Rank<$k, $v>);
            lanetree_simt::instance!([<sorted_ $k _ $v __neighbor>], [<sorted_ $k _ $v>], Neighbor<$k, $v>);
            lanetree_simt::instance!([<sorted_ $k _ $v __locate>], [<sorted_ $k _ $v>], Locate<$k, $v>);
            lanetree_simt::instance!([<sorted_ $k _ $v __gather_g8>], [<sorted_ $k _ $v>], Gather<$k, $v, 8>);
            lanetree_simt::instance!([<sorted_ $k _ $v __gather_g32>], [<sorted_ $k _ $v>], Gather<$k, $v, 32>);
        )*}
    };
}
instances! {
    u32, u32;
    u32, u64;
    u64, u32;
    u64, u64;
}
