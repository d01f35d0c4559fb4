//! The kernels of Harmonia.

pub mod update;

use crate::Choose;
use lanetree_kernels_harmonia::{
    self as kernels, GatherArgs, GetArgs, NeighborArgs, RangeArgs, RankArgs, Scatter, ScatterArgs,
};
use lanetree_layout::Word;
use lanetree_layout::harmonia::ChildRegion;
use lanetree_runtime::Call;
use lanetree_simt::same_args;

/// A call; `None` where there is no such kernel.
type Chosen<'a> = Option<Call<'a>>;

/// The choosers of the kernels for two words, without type parameters.
macro_rules! choosers {
    ($module:ident, $key:ty, $value:ty) => {
        mod $module {
            use super::*;

            type K = $key;
            type V = $value;

            #[inline(never)]
            pub(super) fn get(fanout: u32, group: u32, child: ChildRegion, args: &GetArgs<K, V>) -> Chosen<'_> {
                kernels::$module::get(fanout, group, child, args, Choose)
            }
            #[inline(never)]
            pub(super) fn get_sorted(fanout: u32, args: &GetArgs<K, V>) -> Chosen<'_> {
                kernels::$module::get_sorted(fanout, args, Choose)
            }
            #[inline(never)]
            pub(super) fn rank(fanout: u32, args: &RankArgs<K>) -> Chosen<'_> {
                kernels::$module::rank(fanout, args, Choose)
            }
            #[inline(never)]
            pub(super) fn neighbor(fanout: u32, args: &NeighborArgs<K, V>) -> Chosen<'_> {
                kernels::$module::neighbor(fanout, args, Choose)
            }
            #[inline(never)]
            pub(super) fn range(fanout: u32, args: &RangeArgs<K>) -> Chosen<'_> {
                kernels::$module::range(fanout, args, Choose)
            }
            #[inline(never)]
            pub(super) fn gather(fanout: u32, group: u32, args: &GatherArgs<K, V>) -> Chosen<'_> {
                kernels::$module::gather(fanout, group, args, Choose)
            }
        }
    };
}
choosers!(u32_u32, u32, u32);
choosers!(u32_u64, u32, u64);
choosers!(u64_u32, u64, u32);
choosers!(u64_u64, u64, u64);

/// A function over two words that calls the chooser for these very words.
macro_rules! by_words {
    ($(#[$doc:meta])* $function:ident($($parameter:ident: $type:ty),*), $args:ty) => {
        $(#[$doc])*
        ///
        /// # Panics
        /// Where there is no kernel for the fanout and the width: there is one for all in the kernel crate's tables.
        pub fn $function<K: Word, V: Word>($($parameter: $type,)* args: &$args) -> Call<'_> {
            let launched = match (K::BITS, V::BITS) {
                (32, 32) => u32_u32::$function($($parameter,)* same_args(args)),
                (32, _) => u32_u64::$function($($parameter,)* same_args(args)),
                (_, 32) => u64_u32::$function($($parameter,)* same_args(args)),
                (_, _) => u64_u64::$function($($parameter,)* same_args(args)),
            };
            launched.expect("the fanout and the width were checked against the table of kernels")
        }
    };
}
use by_words;

by_words!(
    /// The call of the look-up of a fanout, a width and a child region.
    get(fanout: u32, group: u32, child: ChildRegion), GetArgs<K, V>
);
by_words!(
    /// The call of the look-up of sorted queries.
    get_sorted(fanout: u32), GetArgs<K, V>
);
by_words!(
    /// The call of the rank kernel of a fanout.
    rank(fanout: u32), RankArgs<K>
);
by_words!(
    /// The call of the neighbour kernel of a fanout.
    neighbor(fanout: u32), NeighborArgs<K, V>
);
by_words!(
    /// The call of the kernel that locates ranges.
    range(fanout: u32), RangeArgs<K>
);
by_words!(
    /// The call of the kernel that copies ranges, of a width.
    gather(fanout: u32, group: u32), GatherArgs<K, V>
);

/// The call of the kernel that puts results into the order of the queries.
pub fn scatter<V: Word>(args: &ScatterArgs<V>) -> Call<'_> {
    #[inline(never)]
    fn of_u32(args: &ScatterArgs<u32>) -> Call<'_> {
        Call::of::<Scatter<u32>>(args)
    }
    #[inline(never)]
    fn of_u64(args: &ScatterArgs<u64>) -> Call<'_> {
        Call::of::<Scatter<u64>>(args)
    }
    if V::BITS == 32 { of_u32(same_args(args)) } else { of_u64(same_args(args)) }
}
