//! The way from a choice of kernel to its launch.

pub(super) mod update;

use crate::{Error, Result};
use lanetree_kernels_harmonia::{
    self as kernels, GatherArgs, GetArgs, NeighborArgs, RangeArgs, RankArgs, Scatter, ScatterArgs, THREADS,
};
use lanetree_layout::Word;
use lanetree_layout::harmonia::ChildRegion;
use lanetree_runtime::Stream;
use lanetree_simt::{Instance, LaunchShape, Launcher, same_args};

/// Launches over a number of threads.
pub(super) struct Launch<'a> {
    stream: &'a Stream,
    shape: LaunchShape,
}

impl<'a> Launch<'a> {
    /// `threads_per_query` threads for each of `queries` queries.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`].
    pub(super) fn new(stream: &'a Stream, queries: usize, threads_per_query: u32) -> Result<Self> {
        Self::of_threads(stream, queries, threads_per_query, THREADS)
    }

    /// [`Launch::new`] in blocks of a number of threads.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`].
    pub(super) fn of_threads(stream: &'a Stream, queries: usize, threads_per_query: u32, block: u32) -> Result<Self> {
        let too_large = || Error::BatchTooLarge { queries };
        let threads = (queries as u64).checked_mul(u64::from(threads_per_query)).ok_or_else(too_large)?;
        Ok(Self { stream, shape: LaunchShape::covering(threads, block).ok_or_else(too_large)? })
    }
}

impl Launcher for Launch<'_> {
    type Output = lanetree_runtime::Result<()>;

    fn launch<I: Instance>(self, args: &I::Args) -> Self::Output {
        // SAFETY: the callers in this module's siblings check the buffers' lengths and that they are of
        // the stream's device; the tree is valid by construction, borrowed for the call, and when it or
        // any buffer is dropped, the memory goes to nobody else before the kernel is done.
        unsafe { self.stream.launch::<I>(self.shape, args) }
    }
}

/// What a launch gives; `None` where there is no such kernel.
type Launched = Option<lanetree_runtime::Result<()>>;

/// The choosers of the kernels for two words, without type parameters.
///
/// A tree is generic, so its code is compiled in the crate that names its types. The kernels must not
/// be: as the emulator runs them they are hundreds of functions, and every test and every example
/// would compile them again, for minutes. Called by way of these they are compiled with this crate.
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
        /// There is a kernel for every fanout and width that were accepted before.
        pub(in crate::harmonia) fn $function<K: Word, V: Word>($($parameter: $type,)* args: &$args, launch: Launch<'_>) -> Result<()> {
            let launched = match (K::BITS, V::BITS) {
                (32, 32) => u32_u32::$function($($parameter,)* same_args(args), launch),
                (32, _) => u32_u64::$function($($parameter,)* same_args(args), launch),
                (_, 32) => u64_u32::$function($($parameter,)* same_args(args), launch),
                (_, _) => u64_u64::$function($($parameter,)* same_args(args), launch),
            };
            Ok(launched.expect("the fanout and the width were checked against the table of kernels")?)
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
pub(super) fn scatter<V: Word>(args: &ScatterArgs<V>, launch: Launch<'_>) -> Result<()> {
    #[inline(never)]
    fn of_u32(args: &ScatterArgs<u32>, launch: Launch<'_>) -> lanetree_runtime::Result<()> {
        launch.launch::<Scatter<u32>>(args)
    }
    #[inline(never)]
    fn of_u64(args: &ScatterArgs<u64>, launch: Launch<'_>) -> lanetree_runtime::Result<()> {
        launch.launch::<Scatter<u64>>(args)
    }
    Ok(if V::BITS == 32 { of_u32(same_args(args), launch) } else { of_u64(same_args(args), launch) }?)
}
