//! The instances that are compiled: by key word and value word, by key word alone, and without words; `calls` chooses among
//! them.

use crate::{
    Aggregate, Bounds, Expand, Finish, First, Free, Gather, GatherChildren, GatherPairs, Get, Group, Grow, Lens, Link,
    Locate, Mark, MemberCounts, Members, Neighbor, Numbers, Pieces, Put, PutPieces, Rank, Reorder, Search, Shift,
    Start, Touch, Vanish, WriteNodes,
};
use lanetree_simt::instance;

instance!(cubpt__first, cubpt, First);
instance!(cubpt__free, cubpt, Free);
instance!(cubpt__group, cubpt, Group);
instance!(cubpt__grow, cubpt, Grow);
instance!(cubpt__lens, cubpt, Lens);
instance!(cubpt__link, cubpt, Link);
instance!(cubpt__mark, cubpt, Mark);
instance!(cubpt__member_counts, cubpt, MemberCounts);
instance!(cubpt__numbers, cubpt, Numbers);
instance!(cubpt__pieces, cubpt, Pieces);
instance!(cubpt__reorder, cubpt, Reorder);
instance!(cubpt__start, cubpt, Start);
instance!(cubpt__touch, cubpt, Touch);
instance!(cubpt__vanish, cubpt, Vanish);

macro_rules! keys {
    ($($k:ident;)*) => {
        pastey::paste! {$(
            instance!([<cubpt_ $k __bounds>], [<cubpt_ $k>], Bounds<$k>);
            instance!([<cubpt_ $k __expand>], [<cubpt_ $k>], Expand<$k>);
            instance!([<cubpt_ $k __gather_children>], [<cubpt_ $k>], GatherChildren<$k>);
            instance!([<cubpt_ $k __locate>], [<cubpt_ $k>], Locate<$k>);
            instance!([<cubpt_ $k __members>], [<cubpt_ $k>], Members<$k>);
            instance!([<cubpt_ $k __put_pieces>], [<cubpt_ $k>], PutPieces<$k>);
            instance!([<cubpt_ $k __search>], [<cubpt_ $k>], Search<$k>);
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
            instance!([<cubpt_ $k _ $v __aggregate_g8>], [<cubpt_ $k _ $v>], Aggregate<$k, $v, 8>);
            instance!([<cubpt_ $k _ $v __aggregate_g32>], [<cubpt_ $k _ $v>], Aggregate<$k, $v, 32>);
            instance!([<cubpt_ $k _ $v __gather_g8>], [<cubpt_ $k _ $v>], Gather<$k, $v, 8>);
            instance!([<cubpt_ $k _ $v __gather_g32>], [<cubpt_ $k _ $v>], Gather<$k, $v, 32>);
            instance!([<cubpt_ $k _ $v __gather_pairs>], [<cubpt_ $k _ $v>], GatherPairs<$k, $v>);
            // Of inner nodes, where the values are children.
            instance!([<cubpt_ $k _ $v __shift>], [<cubpt_ $k _ $v>], Shift<$k, $v>);
            instance!([<cubpt_ $k _ $v __put>], [<cubpt_ $k _ $v>], Put<$k, $v>);
            instance!([<cubpt_ $k _ $v __finish>], [<cubpt_ $k _ $v>], Finish<$k, $v>);
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
