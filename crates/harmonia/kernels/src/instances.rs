//! The instances that are compiled, one PTX module per key word, value word and fanout; `calls` chooses among them.
//!
//! The host has those that only the papers' figures need with the feature `papers`: the fanouts that no default chooses, and
//! look-ups by the prefix-sum child region, which are modules of their own. They are in the PTX in any case.

#[cfg(any(target_os = "cuda", feature = "papers"))]
use crate::GetConstant;
use crate::update::{ApplyLeaves, Locate};
use crate::{Aggregate, Gather, Get, GetSorted, Neighbor, Range, Rank};

/// The tuning of the instances, as data: for each fanout, where it is compiled, the lanes `G` per query and queries `Q` in
/// flight of the look-ups, widest group last, and the pair of the rank, neighbour and range kernels.
///
/// Several queries in flight are worth their registers if a lane reads a node in one or two steps; wider nodes are read
/// with an early exit, one query at a time. Measured in `docs/performance.md`.
macro_rules! with_table {
    ($then:ident, $($argument:tt),*) => {
        $then! { $($argument),*;
            #[cfg(all())] 8 => (4, 4), [(1, 1), (2, 1), (4, 4), (8, 4)];
            #[cfg(all())] 16 => (4, 2), [(1, 1), (2, 1), (4, 2), (8, 4), (16, 4)];
            #[cfg(any(target_os = "cuda", feature = "papers"))] 32 => (8, 2), [(2, 1), (4, 1), (8, 2), (16, 4), (32, 4)];
            #[cfg(any(target_os = "cuda", feature = "papers"))] 64 => (8, 2), [(4, 1), (8, 2), (16, 2), (32, 2)];
            #[cfg(any(target_os = "cuda", feature = "papers"))] 128 => (16, 2), [(4, 1), (8, 1), (16, 2), (32, 2)];
        }
    };
}

macro_rules! group_widths {
    (; $(#[cfg($on:meta)] $fanout:literal => ($rank_g:literal, $rank_q:literal), [$(($g:literal, $q:literal)),*];)*) => {
        /// The widths of thread groups, in lanes per query, with which look-ups of a fanout are
        /// compiled, narrowest first, be they in this build or not; empty for other fanouts.
        pub const fn group_widths(fanout: u32) -> &'static [u32] {
            match fanout {
                $($fanout => &[$($g),*],)*
                _ => &[],
            }
        }
        /// Whether there are kernels for a fanout: for some, only with the feature `papers`.
        pub const fn is_compiled(fanout: u32) -> bool {
            match fanout {
                $(#[cfg($on)] $fanout => true,)*
                _ => false,
            }
        }
        /// The queries in flight per group of a fanout's look-ups with groups of this many lanes; 0 if there is no such
        /// kernel.
        pub const fn queries_in_flight(fanout: u32, group: u32) -> u32 {
            match (fanout, group) {
                $($(($fanout, $g) => $q,)*)*
                _ => 0,
            }
        }
    };
}
#[cfg(not(target_os = "cuda"))]
pub(crate) use with_table;
with_table!(group_widths,);

/// Lanes that apply the changes of a leaf.
pub const fn leaf_lanes(fanout: u32) -> u32 {
    if fanout < 32 { fanout } else { 32 }
}

macro_rules! instances {
    ($k:ident, $v:ident; $(#[cfg($on:meta)] $fanout:literal => ($rank_g:literal, $rank_q:literal), [$(($g:literal, $q:literal)),*];)*) => {
        pastey::paste! {
            $(
                    $(
                        #[cfg($on)]
                        lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __get_g $g _slot>], [<harmonia_ $k _ $v _f $fanout>], Get<$k, $v, true, $fanout, $g, $q>);
                        #[cfg(any(target_os = "cuda", feature = "papers"))]
                        lanetree_simt::instance!([<harmonia_papers_ $k _ $v __get_f $fanout _g $g _psum>], [<harmonia_papers_ $k _ $v>], Get<$k, $v, false, $fanout, $g, $q>);
                    )*
                    #[cfg($on)]
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __get_sorted>], [<harmonia_ $k _ $v _f $fanout>], GetSorted<$k, $v, $fanout, { group_widths($fanout)[0] }>);
                    #[cfg($on)]
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __rank>], [<harmonia_ $k _ $v _f $fanout>], Rank<$k, $v, true, $fanout, $rank_g, $rank_q>);
                    #[cfg($on)]
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __neighbor>], [<harmonia_ $k _ $v _f $fanout>], Neighbor<$k, $v, true, $fanout, $rank_g, $rank_q>);
                    #[cfg($on)]
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __range>], [<harmonia_ $k _ $v _f $fanout>], Range<$k, $v, true, $fanout, $rank_g, $rank_q>);
                    #[cfg($on)]
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __locate>], [<harmonia_ $k _ $v _f $fanout>], Locate<$k, $v, $fanout, $rank_g, $rank_q>);
                    #[cfg($on)]
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __apply_leaves>], [<harmonia_ $k _ $v _f $fanout>], ApplyLeaves<$k, $v, $fanout, { leaf_lanes($fanout) }, { $fanout / leaf_lanes($fanout) as usize }>);
                    #[cfg($on)]
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __aggregate_g8>], [<harmonia_ $k _ $v _f $fanout>], Aggregate<$k, $v, $fanout, 8>);
                    #[cfg($on)]
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __aggregate_g32>], [<harmonia_ $k _ $v _f $fanout>], Aggregate<$k, $v, $fanout, 32>);
                    #[cfg($on)]
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __gather_g8>], [<harmonia_ $k _ $v _f $fanout>], Gather<$k, $v, $fanout, 8>);
                    #[cfg($on)]
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __gather_g32>], [<harmonia_ $k _ $v _f $fanout>], Gather<$k, $v, $fanout, 32>);
            )*
        }
    };
}
with_table!(instances, u32, u32);
with_table!(instances, u32, u64);
with_table!(instances, u64, u32);
with_table!(instances, u64, u64);

/// The look-ups that read no node whole and stop early (the paper's section 4.2), by fanout: the widths at which a group
/// takes several steps for a node, less those whose usual look-up does the same. They are there to be measured: for keys
/// and values of 64 bits, with the paper's child region.
#[cfg(any(target_os = "cuda", feature = "papers"))]
macro_rules! with_stopping {
    ($then:ident) => {
        $then! {
            8 => [1, 2];
            16 => [2, 4];
            32 => [4, 8];
            64 => [8, 16];
            128 => [16, 32];
        }
    };
}
#[cfg(all(not(target_os = "cuda"), feature = "papers"))]
pub(crate) use with_stopping;

#[cfg(any(target_os = "cuda", feature = "papers"))]
macro_rules! stopping {
    ($($fanout:literal => [$($g:literal),*];)*) => {
        pastey::paste! {
            $($(
                lanetree_simt::instance!([<harmonia_stopping__get_f $fanout _g $g>], harmonia_stopping, Get<u64, u64, false, $fanout, $g, 1, true>);
            )*)*
        }
    };
}
#[cfg(any(target_os = "cuda", feature = "papers"))]
with_stopping!(stopping);

/// The look-ups that have the top of the prefix-sum array in constant memory, by fanout: the widths that the library takes
/// for queries in random order and for partially sorted ones. They are there to be measured: for keys and values of 64 bits.
#[cfg(any(target_os = "cuda", feature = "papers"))]
macro_rules! with_constant {
    ($then:ident) => {
        $then! {
            8 => [1, 4];
            64 => [4, 8];
        }
    };
}
#[cfg(all(not(target_os = "cuda"), feature = "papers"))]
pub(crate) use with_constant;

#[cfg(any(target_os = "cuda", feature = "papers"))]
macro_rules! constant {
    ($($fanout:literal => [$($g:literal),*];)*) => {
        pastey::paste! {
            $($(
                lanetree_simt::instance!([<harmonia_papers_u64_u64__get_f $fanout _g $g _constant>], harmonia_papers_u64_u64, GetConstant<u64, u64, $fanout, $g, { queries_in_flight($fanout, $g) as usize }>);
            )*)*
        }
    };
}
#[cfg(any(target_os = "cuda", feature = "papers"))]
with_constant!(constant);

/// The widths of thread groups, in lanes per range, with which [`Gather`] is compiled.
pub const GATHER_WIDTHS: [u32; 2] = [8, 32];
