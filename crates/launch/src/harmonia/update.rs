//! The kernels of builds and of batches of updates.

use super::{Launched, kernels};
use crate::Launch;
use kernels::build::{CheckOrder, CheckOrderArgs, FillInner, FillInnerArgs, FillLeaves, FillLeavesArgs};
use kernels::update::{
    ApplyArgs, Compact, CompactArgs, FillLens, FillLensArgs, LocateArgs, MarkBases, MarkBasesArgs, MarkEffects,
    MarkEffectsArgs, Move, Place, Plan, PlanArgs, RebuildArgs,
};
use lanetree_layout::Word;
use lanetree_runtime::Result;
use lanetree_simt::{Launcher, same_args};

/// The kernels for two words, without type parameters: see [`super`].
macro_rules! of_words {
    ($module:ident, $key:ty, $value:ty) => {
        mod $module {
            use super::*;

            type K = $key;
            type V = $value;

            #[inline(never)]
            pub(super) fn locate(fanout: u32, args: &LocateArgs<K>, launch: Launch<'_>) -> Launched {
                kernels::$module::locate(fanout, args, launch)
            }
            #[inline(never)]
            pub(super) fn apply_leaves(fanout: u32, args: &ApplyArgs<K, V>, launch: Launch<'_>) -> Launched {
                kernels::$module::apply_leaves(fanout, args, launch)
            }
            #[inline(never)]
            pub(super) fn apply_nodes(fanout: u32, args: &ApplyArgs<K, V>, launch: Launch<'_>) -> Launched {
                kernels::$module::apply_nodes(fanout, args, launch)
            }
            #[inline(never)]
            pub(super) fn fill_leaves(args: &FillLeavesArgs<K, V>, launch: Launch<'_>) -> Launched {
                Some(launch.launch::<FillLeaves<K, V>>(args))
            }
            #[inline(never)]
            pub(super) fn fill_inner(args: &FillInnerArgs<K>, launch: Launch<'_>) -> Launched {
                Some(launch.launch::<FillInner<K, V>>(args))
            }
            #[inline(never)]
            pub(super) fn compact(args: &CompactArgs<K, V>, launch: Launch<'_>) -> Launched {
                Some(launch.launch::<Compact<K, V>>(args))
            }
            #[inline(never)]
            pub(super) fn plan(args: &PlanArgs<K, V>, launch: Launch<'_>) -> Launched {
                Some(launch.launch::<Plan<K, V>>(args))
            }
            #[inline(never)]
            pub(super) fn place(args: &RebuildArgs<K, V>, launch: Launch<'_>) -> Launched {
                Some(launch.launch::<Place<K, V>>(args))
            }
            #[inline(never)]
            pub(super) fn move_pairs(args: &RebuildArgs<K, V>, launch: Launch<'_>) -> Launched {
                Some(launch.launch::<Move<K, V>>(args))
            }
        }
    };
}
of_words!(u32_u32, u32, u32);
of_words!(u32_u64, u32, u64);
of_words!(u64_u32, u64, u32);
of_words!(u64_u64, u64, u64);

super::by_words!(
    /// Launches the kernel that locates the operations of a batch.
    locate(fanout: u32), LocateArgs<K>
);
super::by_words!(
    /// Launches the kernel that applies changes leaf by leaf.
    apply_leaves(fanout: u32), ApplyArgs<K, V>
);
super::by_words!(
    /// Launches the kernel that fills the leaves of nodes anew.
    apply_nodes(fanout: u32), ApplyArgs<K, V>
);
super::by_words!(
    /// Launches the kernel that fills leaves.
    fill_leaves(), FillLeavesArgs<K, V>
);
super::by_words!(
    /// Launches the kernel that fills a level of inner nodes.
    fill_inner(), FillInnerArgs<K>
);
super::by_words!(
    /// Launches the kernel that puts operations with an effect next to each other.
    compact(), CompactArgs<K, V>
);
super::by_words!(
    /// Launches the kernel that plans a batch.
    plan(), PlanArgs<K, V>
);
super::by_words!(
    /// Launches the kernel that places inserted pairs in new leaves.
    place(), RebuildArgs<K, V>
);
super::by_words!(
    /// Launches the kernel that moves pairs to new leaves.
    move_pairs(), RebuildArgs<K, V>
);

/// Launches the kernel that marks what updates build on.
///
/// # Errors
/// Those of a launch.
#[inline(never)]
pub fn mark_bases(args: &MarkBasesArgs, launch: Launch<'_>) -> Result<()> {
    launch.launch::<MarkBases>(args)
}

/// Launches the kernel that marks operations with an effect.
///
/// # Errors
/// Those of a launch.
#[inline(never)]
pub fn mark_effects(args: &MarkEffectsArgs, launch: Launch<'_>) -> Result<()> {
    launch.launch::<MarkEffects>(args)
}

/// Launches the kernel that looks for keys out of order.
///
/// # Errors
/// Those of a launch.
pub fn check_order<K: Word>(args: &CheckOrderArgs<K>, launch: Launch<'_>) -> Result<()> {
    #[inline(never)]
    fn of_u32(args: &CheckOrderArgs<u32>, launch: Launch<'_>) -> Result<()> {
        launch.launch::<CheckOrder<u32>>(args)
    }
    #[inline(never)]
    fn of_u64(args: &CheckOrderArgs<u64>, launch: Launch<'_>) -> Result<()> {
        launch.launch::<CheckOrder<u64>>(args)
    }
    if K::BITS == 32 { of_u32(same_args(args), launch) } else { of_u64(same_args(args), launch) }
}

/// Launches the kernel that writes down the lengths of leaves.
///
/// # Errors
/// Those of a launch.
pub fn fill_lens<K: Word>(args: &FillLensArgs<K>, launch: Launch<'_>) -> Result<()> {
    #[inline(never)]
    fn of_u32(args: &FillLensArgs<u32>, launch: Launch<'_>) -> Result<()> {
        launch.launch::<FillLens<u32>>(args)
    }
    #[inline(never)]
    fn of_u64(args: &FillLensArgs<u64>, launch: Launch<'_>) -> Result<()> {
        launch.launch::<FillLens<u64>>(args)
    }
    if K::BITS == 32 { of_u32(same_args(args), launch) } else { of_u64(same_args(args), launch) }
}
