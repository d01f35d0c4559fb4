//! The choice of a kernel: by the words, which are known when the code is compiled, and by fanout and width, which are
//! not. The functions that take a fanout panic where there is no kernel for it: the host checks it against
//! [`FANOUTS`](crate::layout::FANOUTS), [`group_widths`] and the feature `papers` before.

use crate::build::{FillInner, FillInnerArgs, FillLeaves, FillLeavesArgs};
use crate::instances::{group_widths, leaf_lanes, with_table};
#[cfg(feature = "papers")]
use crate::instances::{queries_in_flight, with_constant, with_stopping};
use crate::layout::ChildRegion;
use crate::update::{
    ApplyArgs, ApplyLeaves, ApplyNodes, Compact, CompactArgs, FillLens, FillLensArgs, Locate, LocateArgs, MarkEffects,
    MarkEffectsArgs, Move, Place, Plan, PlanArgs, RebuildArgs,
};
use crate::{
    Aggregate, AggregateArgs, Gather, GatherArgs, Get, GetArgs, GetSorted, Neighbor, NeighborArgs, Range, RangeArgs,
    Rank, RankArgs, Scatter, ScatterArgs,
};
#[cfg(feature = "papers")]
use crate::{GetConstant, GetConstantArgs};
#[cfg(feature = "papers")]
use lanetree_simt::Instance;
use lanetree_simt::{Call, Entry, Word, entry_by_words};

fn missing(fanout: u32) -> ! {
    panic!("no kernel for a fanout of {fanout}, or none of this width")
}

macro_rules! by_fanout {
    (; $(#[cfg($on:meta)] $fanout:literal => ($rank_g:literal, $rank_q:literal), [$(($g:literal, $q:literal)),*];)*) => {
        /// The look-up of a fanout, a width of [`group_widths`] and a child region.
        pub fn get<K: Word, V: Word>(fanout: u32, group: u32, child: ChildRegion, args: &GetArgs<K, V>) -> Call<'_> {
            Call::new(match (fanout, group, child) {
                $($(
                    #[cfg($on)]
                    ($fanout, $g, ChildRegion::NodeSlot) => entry_by_words!(K, V => Get<K, V, true, $fanout, $g, $q>),
                    #[cfg(feature = "papers")]
                    ($fanout, $g, ChildRegion::PrefixSum) => entry_by_words!(K, V => Get<K, V, false, $fanout, $g, $q>),
                )*)*
                _ => missing(fanout),
            }, args)
        }
        /// The look-up of sorted queries.
        pub fn get_sorted<K: Word, V: Word>(fanout: u32, args: &GetArgs<K, V>) -> Call<'_> {
            Call::new(match fanout {
                $(#[cfg($on)] $fanout => entry_by_words!(K, V => GetSorted<K, V, $fanout, { group_widths($fanout)[0] }>),)*
                _ => missing(fanout),
            }, args)
        }
        /// The rank kernel.
        pub fn rank<K: Word, V: Word>(fanout: u32, args: &RankArgs<K>) -> Call<'_> {
            Call::new(match fanout {
                $(#[cfg($on)] $fanout => entry_by_words!(K, V => Rank<K, V, true, $fanout, $rank_g, $rank_q>),)*
                _ => missing(fanout),
            }, args)
        }
        /// The neighbour kernel.
        pub fn neighbor<K: Word, V: Word>(fanout: u32, args: &NeighborArgs<K, V>) -> Call<'_> {
            Call::new(match fanout {
                $(#[cfg($on)] $fanout => entry_by_words!(K, V => Neighbor<K, V, true, $fanout, $rank_g, $rank_q>),)*
                _ => missing(fanout),
            }, args)
        }
        /// The kernel that locates ranges.
        pub fn range<K: Word, V: Word>(fanout: u32, args: &RangeArgs<K>) -> Call<'_> {
            Call::new(match fanout {
                $(#[cfg($on)] $fanout => entry_by_words!(K, V => Range<K, V, true, $fanout, $rank_g, $rank_q>),)*
                _ => missing(fanout),
            }, args)
        }
        /// The kernel that aggregates ranges, with 8 lanes, or their parts, with 32.
        pub fn aggregate<K: Word, V: Word>(fanout: u32, group: u32, args: &AggregateArgs<K>) -> Call<'_> {
            Call::new(match (fanout, group) {
                $(
                    #[cfg($on)]
                    ($fanout, 8) => entry_by_words!(K, V => Aggregate<K, V, $fanout, 8>),
                    #[cfg($on)]
                    ($fanout, 32) => entry_by_words!(K, V => Aggregate<K, V, $fanout, 32>),
                )*
                _ => missing(fanout),
            }, args)
        }
        /// The kernel that copies ranges, with a width of [`GATHER_WIDTHS`](crate::GATHER_WIDTHS).
        pub fn gather<K: Word, V: Word>(fanout: u32, group: u32, args: &GatherArgs<K, V>) -> Call<'_> {
            Call::new(match (fanout, group) {
                $(
                    #[cfg($on)]
                    ($fanout, 8) => entry_by_words!(K, V => Gather<K, V, $fanout, 8>),
                    #[cfg($on)]
                    ($fanout, 32) => entry_by_words!(K, V => Gather<K, V, $fanout, 32>),
                )*
                _ => missing(fanout),
            }, args)
        }
        /// The kernel that locates the operations of a batch.
        pub fn locate<K: Word, V: Word>(fanout: u32, args: &LocateArgs<K>) -> Call<'_> {
            Call::new(match fanout {
                $(#[cfg($on)] $fanout => entry_by_words!(K, V => Locate<K, V, $fanout, $rank_g, $rank_q>),)*
                _ => missing(fanout),
            }, args)
        }
        /// The kernel that applies changes leaf by leaf.
        pub fn apply_leaves<K: Word, V: Word>(fanout: u32, args: &ApplyArgs<K, V>) -> Call<'_> {
            Call::new(match fanout {
                $(#[cfg($on)] $fanout => entry_by_words!(
                    K, V => ApplyLeaves<K, V, $fanout, { leaf_lanes($fanout) }, { $fanout / leaf_lanes($fanout) as usize }>
                ),)*
                _ => missing(fanout),
            }, args)
        }
    };
}
with_table!(by_fanout,);

#[cfg(feature = "papers")]
macro_rules! stopping {
    ($($fanout:literal => [$($g:literal),*];)*) => {
        /// The look-up of a fanout and a width of [`group_widths`] that reads nodes step by step and stops early, with
        /// the prefix-sum child region. It is the region's usual look-up where a node takes a single step, where the
        /// usual look-up stops early as well, and for words that are not of 64 bits.
        pub fn get_stopping<K: Word, V: Word>(fanout: u32, group: u32, args: &GetArgs<K, V>) -> Call<'_> {
            let entry = match (K::BITS, V::BITS, fanout, group) {
                $($((64, 64, $fanout, $g) => <Get<u64, u64, false, $fanout, $g, 1, true> as Instance>::ENTRY,)*)*
                _ => return get(fanout, group, ChildRegion::PrefixSum, args),
            };
            Call::new(entry, args)
        }
    };
}
#[cfg(feature = "papers")]
with_stopping!(stopping);

#[cfg(feature = "papers")]
macro_rules! constant {
    ($($fanout:literal => [$($g:literal),*];)*) => {
        /// The fanouts for which [`get_constant`] has kernels of its own, and their widths.
        pub const CONSTANT: &[(u32, &[u32])] = &[$(($fanout, &[$($g),*])),*];

        /// The look-up with the top of the prefix-sum array in constant memory; for fanouts and widths that
        /// [`CONSTANT`] does not have, and for words that are not of 64 bits, the usual one of that child region.
        pub fn get_constant<K: Word, V: Word>(fanout: u32, group: u32, args: &GetConstantArgs<K, V>) -> Call<'_> {
            let entry = match (K::BITS, V::BITS, fanout, group) {
                $($((64, 64, $fanout, $g) => {
                    <GetConstant<u64, u64, $fanout, $g, { queries_in_flight($fanout, $g) as usize }> as Instance>::ENTRY
                })*)*
                _ => return get(fanout, group, ChildRegion::PrefixSum, &args.get),
            };
            Call::new(entry, args)
        }
    };
}
#[cfg(feature = "papers")]
with_constant!(constant);

/// The kernel that refills the leaves of nodes, at fanouts up to 16.
pub fn apply_nodes<K: Word, V: Word>(fanout: u32, args: &ApplyArgs<K, V>) -> Call<'_> {
    let entry: &'static Entry = match fanout {
        8 => entry_by_words!(K, V => ApplyNodes<K, V, 8>),
        16 => entry_by_words!(K, V => ApplyNodes<K, V, 16>),
        _ => missing(fanout),
    };
    Call::new(entry, args)
}

macro_rules! by_words {
    ($($(#[$doc:meta])* $function:ident<$($word:ident),*>($args:ty) => $kernel:ty;)*) => {$(
        $(#[$doc])*
        pub fn $function<$($word: Word),*>(args: &$args) -> Call<'_> {
            Call::new(entry_by_words!($($word),* => $kernel), args)
        }
    )*};
}
by_words! {
    /// The kernel that puts results into the order of the queries.
    scatter<V>(ScatterArgs<V>) => Scatter<V>;
    /// The kernel that fills leaves.
    fill_leaves<K, V>(FillLeavesArgs<K, V>) => FillLeaves<K, V>;
    /// The kernel that fills a level of inner nodes.
    fill_inner<K, V>(FillInnerArgs<K>) => FillInner<K, V>;
    /// The kernel that packs operations that have an effect.
    compact<K, V>(CompactArgs<K, V>) => Compact<K, V>;
    /// The kernel that plans a batch.
    plan<K, V>(PlanArgs<K, V>) => Plan<K, V>;
    /// The kernel that places inserted pairs in new leaves.
    place<K, V>(RebuildArgs<K, V>) => Place<K, V>;
    /// The kernel that moves pairs to new leaves.
    move_pairs<K, V>(RebuildArgs<K, V>) => Move<K, V>;
    /// The kernel that writes down the lengths of leaves.
    fill_lens<K>(FillLensArgs<K>) => FillLens<K>;
    /// The kernel that marks operations with an effect.
    mark_effects<>(MarkEffectsArgs) => MarkEffects;
}
