//! The kernels of Harmonia.

pub mod update;

use crate::Launch;
use lanetree_kernels_harmonia::{
    self as kernels, GatherArgs, GetArgs, NeighborArgs, RangeArgs, RankArgs, Scatter, ScatterArgs,
};
use lanetree_layout::Word;
use lanetree_layout::harmonia::ChildRegion;
use lanetree_runtime::Result;
use lanetree_simt::{Launcher, same_args};

/// What a launch gives; `None` where there is no such kernel.
type Launched = Option<Result<()>>;

/// The choosers of the kernels for two words, without type parameters.
macro_rules! choosers {
    ($module:ident, $key:ty, $value:ty) => {
        mod $module {
            use super::*;

            type K = $key;
            type V = $value;

            #[inline(never)]
            pub(super) fn get(
                fanout: u32,
                group: u32,
                child: ChildRegion,
                args: &GetArgs<K, V>,
                launch: Launch<'_>,
            ) -> Launched {
                kernels::$module::get(fanout, group, child, args, launch)
            }
            #[inline(never)]
            pub(super) fn get_sorted(fanout: u32, args: &GetArgs<K, V>, launch: Launch<'_>) -> Launched {
                kernels::$module::get_sorted(fanout, args, launch)
            }
            #[inline(never)]
            pub(super) fn rank(fanout: u32, args: &RankArgs<K>, launch: Launch<'_>) -> Launched {
                kernels::$module::rank(fanout, args, launch)
            }
            #[inline(never)]
            pub(super) fn neighbor(fanout: u32, args: &NeighborArgs<K, V>, launch: Launch<'_>) -> Launched {
                kernels::$module::neighbor(fanout, args, launch)
            }
            #[inline(never)]
            pub(super) fn range(fanout: u32, args: &RangeArgs<K>, launch: Launch<'_>) -> Launched {
                kernels::$module::range(fanout, args, launch)
            }
            #[inline(never)]
            pub(super) fn gather(fanout: u32, group: u32, args: &GatherArgs<K, V>, launch: Launch<'_>) -> Launched {
                kernels::$module::gather(fanout, group, args, launch)
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
        /// # Errors
        /// Those of a launch.
        ///
        /// # Panics
        /// Where there is no kernel for the fanout and the width: there is one for all in the kernel crate's tables.
        pub fn $function<K: Word, V: Word>($($parameter: $type,)* args: &$args, launch: Launch<'_>) -> Result<()> {
            let launched = match (K::BITS, V::BITS) {
                (32, 32) => u32_u32::$function($($parameter,)* same_args(args), launch),
                (32, _) => u32_u64::$function($($parameter,)* same_args(args), launch),
                (_, 32) => u64_u32::$function($($parameter,)* same_args(args), launch),
                (_, _) => u64_u64::$function($($parameter,)* same_args(args), launch),
            };
            launched.expect("the fanout and the width were checked against the table of kernels")
        }
    };
}
use by_words;

by_words!(
    /// Launches the look-up of a fanout, a width and a child region.
    get(fanout: u32, group: u32, child: ChildRegion), GetArgs<K, V>
);
by_words!(
    /// Launches the look-up of sorted queries.
    get_sorted(fanout: u32), GetArgs<K, V>
);
by_words!(
    /// Launches the rank kernel of a fanout.
    rank(fanout: u32), RankArgs<K>
);
by_words!(
    /// Launches the neighbour kernel of a fanout.
    neighbor(fanout: u32), NeighborArgs<K, V>
);
by_words!(
    /// Launches the kernel that locates ranges.
    range(fanout: u32), RangeArgs<K>
);
by_words!(
    /// Launches the kernel that copies ranges, of a width.
    gather(fanout: u32, group: u32), GatherArgs<K, V>
);

/// Launches the kernel that puts results into the order of the queries.
///
/// # Errors
/// Those of a launch.
pub fn scatter<V: Word>(args: &ScatterArgs<V>, launch: Launch<'_>) -> Result<()> {
    #[inline(never)]
    fn of_u32(args: &ScatterArgs<u32>, launch: Launch<'_>) -> Result<()> {
        launch.launch::<Scatter<u32>>(args)
    }
    #[inline(never)]
    fn of_u64(args: &ScatterArgs<u64>, launch: Launch<'_>) -> Result<()> {
        launch.launch::<Scatter<u64>>(args)
    }
    if V::BITS == 32 { of_u32(same_args(args), launch) } else { of_u64(same_args(args), launch) }
}
