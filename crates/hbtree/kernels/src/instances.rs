//! The instances that are compiled: descents and changes by key word, searches of leaves by key word and value word;
//! `calls` chooses among them.

use crate::{Descend, DescendRegular, DescendRegularShared, DescendShared, Finish};

macro_rules! inner_levels {
    ($($k:ident;)*) => {
        pastey::paste! {$(
            lanetree_simt::instance!([<hbtree_ $k __descend>], [<hbtree_ $k>], Descend<$k>);
            lanetree_simt::instance!([<hbtree_ $k __descend_shared>], [<hbtree_ $k>], DescendShared<$k>);
            lanetree_simt::instance!([<hbtree_ $k __descend_regular>], [<hbtree_ $k>], DescendRegular<$k>);
            lanetree_simt::instance!(
                [<hbtree_ $k __descend_regular_shared>], [<hbtree_ $k>], DescendRegularShared<$k>
            );
        )*}
    };
}
inner_levels! {
    u32;
    u64;
}

macro_rules! searches {
    ($($k:ident, $v:ident;)*) => {
        pastey::paste! {$(
            lanetree_simt::instance!([<hbtree_ $k _ $v __finish>], [<hbtree_ $k _ $v>], Finish<$k, $v>);
        )*}
    };
}
searches! {
    u32, u32;
    u32, u64;
    u64, u32;
    u64, u64;
}
