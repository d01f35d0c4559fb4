//! The instances that are compiled, one PTX module per key word and value word; `calls` chooses among them.

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
instances! {
    u32, u32;
    u32, u64;
    u64, u32;
    u64, u64;
}
