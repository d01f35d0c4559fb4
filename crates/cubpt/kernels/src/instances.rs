//! The instances that are compiled: by key word and value word, by key word alone, and without words; `calls` chooses among
//! them.

use crate::{Bounds, Children, Counts, Gather, Get, Link, Locate, Neighbor, Rank, WriteNodes};
use lanetree_simt::instance;

instance!(cubpt__children, cubpt, Children);
instance!(cubpt__counts, cubpt, Counts);
instance!(cubpt__link, cubpt, Link);

macro_rules! keys {
    ($($k:ident;)*) => {
        pastey::paste! {$(
            instance!([<cubpt_ $k __bounds>], [<cubpt_ $k>], Bounds<$k>);
            instance!([<cubpt_ $k __locate>], [<cubpt_ $k>], Locate<$k>);
            instance!([<cubpt_ $k __rank>], [<cubpt_ $k>], Rank<$k>);
        )*}
    };
}
keys! {
    u32;
    u64;
}

macro_rules! pairs {
    ($($k:ident, $v:ident;)*) => {
        pastey::paste! {$(
            instance!([<cubpt_ $k _ $v __get>], [<cubpt_ $k _ $v>], Get<$k, $v>);
            instance!([<cubpt_ $k _ $v __neighbor>], [<cubpt_ $k _ $v>], Neighbor<$k, $v>);
            instance!([<cubpt_ $k _ $v __gather_g8>], [<cubpt_ $k _ $v>], Gather<$k, $v, 8>);
            instance!([<cubpt_ $k _ $v __gather_g32>], [<cubpt_ $k _ $v>], Gather<$k, $v, 32>);
            // Of inner nodes, where the values are children.
            instance!([<cubpt_ $k _ $v __write_nodes>], [<cubpt_ $k _ $v>], WriteNodes<$k, $v>);
        )*}
    };
}
pairs! {
    u32, u32;
    u32, u64;
    u64, u32;
    u64, u64;
}
