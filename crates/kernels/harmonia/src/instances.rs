//! The instances that are compiled, one PTX module per key word, value word and fanout, and the choice
//! among them at run time.

use crate::update::{ApplyArgs, ApplyLeaves, ApplyNodes, Locate, LocateArgs};
use crate::{Gather, GatherArgs, Get, GetArgs, GetSorted, Neighbor, NeighborArgs, Range, RangeArgs, Rank, RankArgs};
use lanetree_layout::harmonia::ChildRegion;
use lanetree_simt::Launcher;

/// The tuning of the instances, as data: for each fanout, the lanes `G` per query and queries `Q` in
/// flight of the look-ups, widest group last, and the pair of the rank, neighbour and range kernels.
///
/// Several queries in flight are worth their registers if a lane reads a node in one or two steps; wider nodes are read
/// with an early exit, one query at a time. Measured in `docs/performance.md`.
macro_rules! with_table {
    ($then:ident, $($argument:tt),*) => {
        $then! { $($argument),*;
            8 => (4, 4), [(1, 1), (2, 1), (4, 4), (8, 4)];
            16 => (4, 2), [(1, 1), (2, 1), (4, 2), (8, 4), (16, 4)];
            32 => (8, 2), [(2, 1), (4, 1), (8, 2), (16, 4), (32, 4)];
            64 => (8, 2), [(4, 1), (8, 2), (16, 2), (32, 2)];
            128 => (16, 2), [(4, 1), (8, 1), (16, 2), (32, 2)];
        }
    };
}

macro_rules! group_widths {
    (; $($fanout:literal => ($rank_g:literal, $rank_q:literal), [$(($g:literal, $q:literal)),*];)*) => {
        /// The widths of thread groups, in lanes per query, with which look-ups of a fanout are
        /// compiled, narrowest first; empty for a fanout without kernels.
        pub const fn group_widths(fanout: u32) -> &'static [u32] {
            match fanout {
                $($fanout => &[$($g),*],)*
                _ => &[],
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
with_table!(group_widths,);

/// Lanes that apply the changes of a leaf.
pub const fn leaf_lanes(fanout: u32) -> u32 {
    if fanout < 32 { fanout } else { 32 }
}

macro_rules! instances {
    ($k:ident, $v:ident; $($fanout:literal => ($rank_g:literal, $rank_q:literal), [$(($g:literal, $q:literal)),*];)*) => {
        pastey::paste! {
            #[doc = concat!("The kernels over `", stringify!($k), "` keys and `", stringify!($v), "` values.")]
            pub mod [<$k _ $v>] {
                use super::*;
                $(
                    const [<MODULE_ $fanout>]: &str = concat!("harmonia_", stringify!($k), "_", stringify!($v), "_f", stringify!($fanout));
                    $(
                        lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __get_g $g _slot>], [<MODULE_ $fanout>], Get<$k, $v, true, $fanout, $g, $q>);
                        lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __get_g $g _psum>], [<MODULE_ $fanout>], Get<$k, $v, false, $fanout, $g, $q>);
                    )*
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __get_sorted>], [<MODULE_ $fanout>], GetSorted<$k, $v, $fanout, { group_widths($fanout)[0] }>);
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __rank>], [<MODULE_ $fanout>], Rank<$k, $v, true, $fanout, $rank_g, $rank_q>);
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __neighbor>], [<MODULE_ $fanout>], Neighbor<$k, $v, true, $fanout, $rank_g, $rank_q>);
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __range>], [<MODULE_ $fanout>], Range<$k, $v, true, $fanout, $rank_g, $rank_q>);
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __locate>], [<MODULE_ $fanout>], Locate<$k, $v, $fanout, $rank_g, $rank_q>);
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __apply_leaves>], [<MODULE_ $fanout>], ApplyLeaves<$k, $v, $fanout, { leaf_lanes($fanout) }, { $fanout / leaf_lanes($fanout) as usize }>);
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __gather_g8>], [<MODULE_ $fanout>], Gather<$k, $v, $fanout, 8>);
                    lanetree_simt::instance!([<harmonia_ $k _ $v _f $fanout __gather_g32>], [<MODULE_ $fanout>], Gather<$k, $v, $fanout, 32>);
                )*

                /// Launches the look-up of a fanout, a width of [`group_widths`] and a child region; `None` if there is
                /// none.
                pub fn get<'a, L: Launcher<'a>>(fanout: u32, group: u32, child: ChildRegion, args: &'a GetArgs<$k, $v>, launcher: L) -> Option<L::Output> {
                    Some(match (fanout, group, child) {
                        $($(
                            ($fanout, $g, ChildRegion::NodeSlot) => launcher.launch::<Get<$k, $v, true, $fanout, $g, $q>>(args),
                            ($fanout, $g, ChildRegion::PrefixSum) => launcher.launch::<Get<$k, $v, false, $fanout, $g, $q>>(args),
                        )*)*
                        _ => return None,
                    })
                }
                /// Launches the look-up of sorted queries of a fanout; `None` if there is none.
                pub fn get_sorted<'a, L: Launcher<'a>>(fanout: u32, args: &'a GetArgs<$k, $v>, launcher: L) -> Option<L::Output> {
                    Some(match fanout {
                        $($fanout => launcher.launch::<GetSorted<$k, $v, $fanout, { group_widths($fanout)[0] }>>(args),)*
                        _ => return None,
                    })
                }
                /// Launches the rank kernel of a fanout; `None` if there is none.
                pub fn rank<'a, L: Launcher<'a>>(fanout: u32, args: &'a RankArgs<$k>, launcher: L) -> Option<L::Output> {
                    Some(match fanout {
                        $($fanout => launcher.launch::<Rank<$k, $v, true, $fanout, $rank_g, $rank_q>>(args),)*
                        _ => return None,
                    })
                }
                /// Launches the neighbour kernel of a fanout; `None` if there is none.
                pub fn neighbor<'a, L: Launcher<'a>>(fanout: u32, args: &'a NeighborArgs<$k, $v>, launcher: L) -> Option<L::Output> {
                    Some(match fanout {
                        $($fanout => launcher.launch::<Neighbor<$k, $v, true, $fanout, $rank_g, $rank_q>>(args),)*
                        _ => return None,
                    })
                }
                /// Launches the kernel that locates operations of a batch of updates; `None` if there is none.
                pub fn locate<'a, L: Launcher<'a>>(fanout: u32, args: &'a LocateArgs<$k>, launcher: L) -> Option<L::Output> {
                    Some(match fanout {
                        $($fanout => launcher.launch::<Locate<$k, $v, $fanout, $rank_g, $rank_q>>(args),)*
                        _ => return None,
                    })
                }
                /// Launches the kernel that applies changes leaf by leaf; `None` if there is none.
                pub fn apply_leaves<'a, L: Launcher<'a>>(fanout: u32, args: &'a ApplyArgs<$k, $v>, launcher: L) -> Option<L::Output> {
                    Some(match fanout {
                        $($fanout => launcher.launch::<ApplyLeaves<$k, $v, $fanout, { leaf_lanes($fanout) }, { $fanout / leaf_lanes($fanout) as usize }>>(args),)*
                        _ => return None,
                    })
                }
                /// Launches the kernel that refills the leaves of nodes; `None` if there is none.
                pub fn apply_nodes<'a, L: Launcher<'a>>(fanout: u32, args: &'a ApplyArgs<$k, $v>, launcher: L) -> Option<L::Output> {
                    Some(match fanout {
                        8 => launcher.launch::<ApplyNodes<$k, $v, 8>>(args),
                        16 => launcher.launch::<ApplyNodes<$k, $v, 16>>(args),
                        _ => return None,
                    })
                }
                /// Launches the kernel that locates ranges; `None` if there is none.
                pub fn range<'a, L: Launcher<'a>>(fanout: u32, args: &'a RangeArgs<$k>, launcher: L) -> Option<L::Output> {
                    Some(match fanout {
                        $($fanout => launcher.launch::<Range<$k, $v, true, $fanout, $rank_g, $rank_q>>(args),)*
                        _ => return None,
                    })
                }
                /// Launches the kernel that copies ranges, with a width of [`GATHER_WIDTHS`]; `None` if there is none.
                pub fn gather<'a, L: Launcher<'a>>(fanout: u32, group: u32, args: &'a GatherArgs<$k, $v>, launcher: L) -> Option<L::Output> {
                    Some(match (fanout, group) {
                        $(
                            ($fanout, 8) => launcher.launch::<Gather<$k, $v, $fanout, 8>>(args),
                            ($fanout, 32) => launcher.launch::<Gather<$k, $v, $fanout, 32>>(args),
                        )*
                        _ => return None,
                    })
                }
            }
        }
    };
}
with_table!(instances, u32, u32);
with_table!(instances, u32, u64);
with_table!(instances, u64, u32);
with_table!(instances, u64, u64);

/// The widths of thread groups, in lanes per range, with which [`Gather`] is compiled.
pub const GATHER_WIDTHS: [u32; 2] = [8, 32];
