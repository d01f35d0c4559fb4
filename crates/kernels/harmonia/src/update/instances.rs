//! The kernels of builds and updates that are the same for every fanout: a PTX module per words.

use super::{ApplyNodes, Compact, FillLens, MarkBases, MarkEffects, Move, Place, Plan};
use crate::build::{CheckOrder, FillInner, FillLeaves};
use lanetree_simt::instance;

macro_rules! of_pairs {
    ($($k:ident, $v:ident;)*) => {
        pastey::paste! {
            $(
                instance!([<harmonia_update_ $k _ $v __fill_leaves>], concat!("harmonia_update_", stringify!($k), "_", stringify!($v)), FillLeaves<$k, $v>);
                instance!([<harmonia_update_ $k _ $v __apply_nodes_f8>], concat!("harmonia_update_", stringify!($k), "_", stringify!($v)), ApplyNodes<$k, $v, 8>);
                instance!([<harmonia_update_ $k _ $v __apply_nodes_f16>], concat!("harmonia_update_", stringify!($k), "_", stringify!($v)), ApplyNodes<$k, $v, 16>);
                instance!([<harmonia_update_ $k _ $v __fill_inner>], concat!("harmonia_update_", stringify!($k), "_", stringify!($v)), FillInner<$k, $v>);
                instance!([<harmonia_update_ $k _ $v __compact>], concat!("harmonia_update_", stringify!($k), "_", stringify!($v)), Compact<$k, $v>);
                instance!([<harmonia_update_ $k _ $v __plan>], concat!("harmonia_update_", stringify!($k), "_", stringify!($v)), Plan<$k, $v>);
                instance!([<harmonia_update_ $k _ $v __place>], concat!("harmonia_update_", stringify!($k), "_", stringify!($v)), Place<$k, $v>);
                instance!([<harmonia_update_ $k _ $v __move>], concat!("harmonia_update_", stringify!($k), "_", stringify!($v)), Move<$k, $v>);
            )*
        }
    };
}
of_pairs!(u32, u32; u32, u64; u64, u32; u64, u64;);

instance!(harmonia_update__mark_bases, "harmonia_update", MarkBases);
instance!(harmonia_update__mark_effects, "harmonia_update", MarkEffects);
instance!(harmonia_update__check_order_u32, "harmonia_update", CheckOrder<u32>);
instance!(harmonia_update__check_order_u64, "harmonia_update", CheckOrder<u64>);
instance!(harmonia_update__fill_lens_u32, "harmonia_update", FillLens<u32>);
instance!(harmonia_update__fill_lens_u64, "harmonia_update", FillLens<u64>);
