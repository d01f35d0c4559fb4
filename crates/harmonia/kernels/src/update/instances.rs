//! The kernels of builds and updates that are the same for every fanout: a PTX module per words.

use super::{ApplyNodes, Compact, FillLens, MarkEffects, Move, Place, Plan};
use crate::build::{FillInner, FillLeaves};
use lanetree_simt::instance;

macro_rules! of_pairs {
    ($($k:ident, $v:ident;)*) => {
        pastey::paste! {
            $(
                instance!([<harmonia_update_ $k _ $v __fill_leaves>], [<harmonia_update_ $k _ $v>], FillLeaves<$k, $v>);
                instance!([<harmonia_update_ $k _ $v __apply_nodes_f8>], [<harmonia_update_ $k _ $v>], ApplyNodes<$k, $v, 8>);
                instance!([<harmonia_update_ $k _ $v __apply_nodes_f16>], [<harmonia_update_ $k _ $v>], ApplyNodes<$k, $v, 16>);
                instance!([<harmonia_update_ $k _ $v __fill_inner>], [<harmonia_update_ $k _ $v>], FillInner<$k, $v>);
                instance!([<harmonia_update_ $k _ $v __compact>], [<harmonia_update_ $k _ $v>], Compact<$k, $v>);
                instance!([<harmonia_update_ $k _ $v __plan>], [<harmonia_update_ $k _ $v>], Plan<$k, $v>);
                instance!([<harmonia_update_ $k _ $v __place>], [<harmonia_update_ $k _ $v>], Place<$k, $v>);
                instance!([<harmonia_update_ $k _ $v __move>], [<harmonia_update_ $k _ $v>], Move<$k, $v>);
            )*
        }
    };
}
of_pairs!(u32, u32; u32, u64; u64, u32; u64, u64;);

instance!(harmonia_update__mark_effects, harmonia_update, MarkEffects);
instance!(harmonia_update__fill_lens_u32, harmonia_update, FillLens<u32>);
instance!(harmonia_update__fill_lens_u64, harmonia_update, FillLens<u64>);
