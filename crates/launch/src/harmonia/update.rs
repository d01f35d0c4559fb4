//! The kernels of builds and of batches of updates.

use super::{Chosen, kernels};
use crate::Choose;

use kernels::build::{CheckOrder, CheckOrderArgs, FillInner, FillInnerArgs, FillLeaves, FillLeavesArgs};
use kernels::update::{
    ApplyArgs, Compact, CompactArgs, FillLens, FillLensArgs, LocateArgs, MarkBases, MarkBasesArgs, MarkEffects,
    MarkEffectsArgs, Move, Place, Plan, PlanArgs, RebuildArgs,
};
use lanetree_layout::Word;
use lanetree_runtime::Call;
use lanetree_simt::same_args;

/// The kernels for two words, without type parameters: see [`super`].
macro_rules! of_words {
    ($module:ident, $key:ty, $value:ty) => {
        mod $module {
            use super::*;

            type K = $key;
            type V = $value;

            #[inline(never)]
            pub(super) fn locate(fanout: u32, args: &LocateArgs<K>) -> Chosen<'_> {
                kernels::$module::locate(fanout, args, Choose)
            }
            #[inline(never)]
            pub(super) fn apply_leaves(fanout: u32, args: &ApplyArgs<K, V>) -> Chosen<'_> {
                kernels::$module::apply_leaves(fanout, args, Choose)
            }
            #[inline(never)]
            pub(super) fn apply_nodes(fanout: u32, args: &ApplyArgs<K, V>) -> Chosen<'_> {
                kernels::$module::apply_nodes(fanout, args, Choose)
            }
            #[inline(never)]
            pub(super) fn fill_leaves(args: &FillLeavesArgs<K, V>) -> Chosen<'_> {
                Some(Call::of::<FillLeaves<K, V>>(args))
            }
            #[inline(never)]
            pub(super) fn fill_inner(args: &FillInnerArgs<K>) -> Chosen<'_> {
                Some(Call::of::<FillInner<K, V>>(args))
            }
            #[inline(never)]
            pub(super) fn compact(args: &CompactArgs<K, V>) -> Chosen<'_> {
                Some(Call::of::<Compact<K, V>>(args))
            }
            #[inline(never)]
            pub(super) fn plan(args: &PlanArgs<K, V>) -> Chosen<'_> {
                Some(Call::of::<Plan<K, V>>(args))
            }
            #[inline(never)]
            pub(super) fn place(args: &RebuildArgs<K, V>) -> Chosen<'_> {
                Some(Call::of::<Place<K, V>>(args))
            }
            #[inline(never)]
            pub(super) fn move_pairs(args: &RebuildArgs<K, V>) -> Chosen<'_> {
                Some(Call::of::<Move<K, V>>(args))
            }
        }
    };
}
of_words!(u32_u32, u32, u32);
of_words!(u32_u64, u32, u64);
of_words!(u64_u32, u64, u32);
of_words!(u64_u64, u64, u64);

super::by_words!(
    /// The call of the kernel that locates the operations of a batch.
    locate(fanout: u32), LocateArgs<K>
);
super::by_words!(
    /// The call of the kernel that applies changes leaf by leaf.
    apply_leaves(fanout: u32), ApplyArgs<K, V>
);
super::by_words!(
    /// The call of the kernel that fills the leaves of nodes anew.
    apply_nodes(fanout: u32), ApplyArgs<K, V>
);
super::by_words!(
    /// The call of the kernel that fills leaves.
    fill_leaves(), FillLeavesArgs<K, V>
);
super::by_words!(
    /// The call of the kernel that fills a level of inner nodes.
    fill_inner(), FillInnerArgs<K>
);
super::by_words!(
    /// The call of the kernel that puts operations with an effect next to each other.
    compact(), CompactArgs<K, V>
);
super::by_words!(
    /// The call of the kernel that plans a batch.
    plan(), PlanArgs<K, V>
);
super::by_words!(
    /// The call of the kernel that places inserted pairs in new leaves.
    place(), RebuildArgs<K, V>
);
super::by_words!(
    /// The call of the kernel that moves pairs to new leaves.
    move_pairs(), RebuildArgs<K, V>
);

/// The call of the kernel that marks what updates build on.
#[inline(never)]
pub fn mark_bases(args: &MarkBasesArgs) -> Call<'_> {
    Call::of::<MarkBases>(args)
}

/// The call of the kernel that marks operations with an effect.
#[inline(never)]
pub fn mark_effects(args: &MarkEffectsArgs) -> Call<'_> {
    Call::of::<MarkEffects>(args)
}

/// The call of the kernel that looks for keys out of order.
pub fn check_order<K: Word>(args: &CheckOrderArgs<K>) -> Call<'_> {
    #[inline(never)]
    fn of_u32(args: &CheckOrderArgs<u32>) -> Call<'_> {
        Call::of::<CheckOrder<u32>>(args)
    }
    #[inline(never)]
    fn of_u64(args: &CheckOrderArgs<u64>) -> Call<'_> {
        Call::of::<CheckOrder<u64>>(args)
    }
    if K::BITS == 32 { of_u32(same_args(args)) } else { of_u64(same_args(args)) }
}

/// The call of the kernel that writes down the lengths of leaves.
pub fn fill_lens<K: Word>(args: &FillLensArgs<K>) -> Call<'_> {
    #[inline(never)]
    fn of_u32(args: &FillLensArgs<u32>) -> Call<'_> {
        Call::of::<FillLens<u32>>(args)
    }
    #[inline(never)]
    fn of_u64(args: &FillLensArgs<u64>) -> Call<'_> {
        Call::of::<FillLens<u64>>(args)
    }
    if K::BITS == 32 { of_u32(same_args(args)) } else { of_u64(same_args(args)) }
}
