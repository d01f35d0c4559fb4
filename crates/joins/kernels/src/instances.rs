//! The instances that are compiled, one PTX module per key word and value word, or of sets; `calls` chooses among them.

use crate::{BandSums, SemiJoin, StarJoin};

macro_rules! instances {
    ($($k:ident, $v:ident;)*) => {
        pastey::paste! {$(
            lanetree_simt::instance!([<joins_ $k _ $v __band_sums>], [<joins_ $k _ $v>], BandSums<$k, $v>);
            lanetree_simt::instance!([<joins_ $k _ $v __semi_join>], [<joins_ $k _ $v>], SemiJoin<$k, $v>);
            lanetree_simt::instance!([<joins_ $k _ $v __star_join>], [<joins_ $k _ $v>], StarJoin<$k, $v>);
        )*}
    };
}
macro_rules! sets {
    ($($k:ident;)*) => {
        pastey::paste! {$(
            lanetree_simt::instance!([<joins_ $k _set__band_sums>], [<joins_ $k _set>], BandSums<$k, ()>);
            lanetree_simt::instance!([<joins_ $k _set__semi_join>], [<joins_ $k _set>], SemiJoin<$k, ()>);
        )*}
    };
}
sets! {
    u32;
    u64;
}
instances! {
    u32, u32;
    u32, u64;
    u64, u32;
    u64, u64;
}
