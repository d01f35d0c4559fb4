//! The way from a choice of kernel to its launch.

use crate::{Error, Result};
use lanetree_kernels_primitives::THREADS;
use lanetree_kernels_primitives::merge::{Merge, MergeArgs, Splits};
use lanetree_kernels_primitives::runs::{self, Last, Lengths, Reduction, RunArgs, Runs, Sums, Unique};
use lanetree_kernels_primitives::select::{self, Select, SelectArgs};
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Stream};
use lanetree_simt::{Instance, LaunchShape, Launcher, same_args};

/// Launches over tiles.
#[derive(Clone, Copy)]
pub(super) struct Launch<'a> {
    stream: &'a Stream,
    shape: LaunchShape,
}

impl<'a> Launch<'a> {
    /// A block for each tile of `tile` elements, at least one.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`].
    pub(super) fn tiles(stream: &'a Stream, elements: usize, tile: u64) -> Result<Self> {
        let blocks = (elements as u64).div_ceil(tile).max(1);
        if blocks >= 1 << 31 {
            return Err(Error::BatchTooLarge { queries: elements });
        }
        Ok(Self { stream, shape: LaunchShape { blocks: blocks as u32, threads: THREADS, dynamic_shared: 0 } })
    }

    /// Zeroes the state of a look-back over these tiles, in the stream's order.
    pub(super) fn reset(&self, state: &mut Buffer<u64>, carry_words: usize) -> Result<()> {
        Ok(state.fill_zero_range(self.stream, 0..state_len(u64::from(self.shape.blocks), carry_words))?)
    }
}

/// Words of the state of a look-back over so many tiles.
pub(super) fn state_len(tiles: u64, carry_words: usize) -> usize {
    usize::try_from(lanetree_kernels_primitives::lookback::state_words(tiles, carry_words)).unwrap_or(usize::MAX)
}

impl Launcher for Launch<'_> {
    type Output = Result<()>;

    fn launch<I: Instance>(self, args: &I::Args) -> Self::Output {
        // SAFETY: the callers in this module's siblings check the buffers' lengths and that they are of the
        // stream's device, and zero what has to be; outputs are borrowed mutably, so nothing else is among
        // them, and a dropped buffer's memory outlives the kernel. Memory is aligned to 256 bytes.
        Ok(unsafe { self.stream.launch::<I>(self.shape, args) }?)
    }
}

/// The choosers of the kernels for two words, without type parameters: kernels are compiled with this crate,
/// not with every crate that calls them.
macro_rules! choosers {
    ($module:ident, $key:ty, $value:ty, $values:literal) => {
        mod $module {
            use super::*;

            const BYTES: usize = <$key as Word>::BYTES + if $values { <$value as Word>::BYTES } else { 0 };

            #[inline(never)]
            pub(super) fn select(partition: bool, args: &SelectArgs<$key, $value>, launch: Launch<'_>) -> Result<()> {
                match partition {
                    true => launch.launch::<Select<$key, $value, $values, true, { select::steps(BYTES, true) }>>(args),
                    false => {
                        launch.launch::<Select<$key, $value, $values, false, { select::steps(BYTES, false) }>>(args)
                    }
                }
            }
            #[inline(never)]
            pub(super) fn splits(_: bool, args: &MergeArgs<$key, $value>, launch: Launch<'_>) -> Result<()> {
                launch.launch::<Splits<$key, $value, $values>>(args)
            }
            #[inline(never)]
            pub(super) fn merge(replace: bool, args: &MergeArgs<$key, $value>, launch: Launch<'_>) -> Result<()> {
                match replace {
                    true => launch.launch::<Merge<$key, $value, $values, true>>(args),
                    false => launch.launch::<Merge<$key, $value, $values, false>>(args),
                }
            }
        }
    };
}
choosers!(u32_keys, u32, u32, false);
choosers!(u64_keys, u64, u32, false);
choosers!(u32_u32, u32, u32, true);
choosers!(u32_u64, u32, u64, true);
choosers!(u64_u32, u64, u32, true);
choosers!(u64_u64, u64, u64, true);

/// A function over two words that calls the chooser for these very words; `values` says whether there are
/// values, and without them `V` is `u32`.
macro_rules! by_words {
    ($(#[$doc:meta])* $function:ident($choice:ident), $args:ident) => {
        $(#[$doc])*
        pub(super) fn $function<K: Word, V: Word>(
            values: bool,
            $choice: bool,
            args: &$args<K, V>,
            launch: Launch<'_>,
        ) -> Result<()> {
            match (K::BITS, V::BITS, values) {
                (32, _, false) => u32_keys::$function($choice, same_args(args), launch),
                (_, _, false) => u64_keys::$function($choice, same_args(args), launch),
                (32, 32, true) => u32_u32::$function($choice, same_args(args), launch),
                (32, _, true) => u32_u64::$function($choice, same_args(args), launch),
                (_, 32, true) => u64_u32::$function($choice, same_args(args), launch),
                (_, _, true) => u64_u64::$function($choice, same_args(args), launch),
            }
        }
    };
}
by_words!(
    /// Launches the compaction.
    select(partition), SelectArgs
);
by_words!(
    /// Launches the search for the tiles of a merge.
    splits(_replace), MergeArgs
);
by_words!(
    /// Launches a merge.
    merge(replace), MergeArgs
);

/// The choosers of a reduction of runs, and the function that calls the one for its words.
macro_rules! reductions {
    ($(#[$doc:meta])* $function:ident<$k:ident $(, $w:ident)?>, $in:ty, $out:ty, {$($chooser:ident: $pattern:pat => $key:ty, $reduction:ty;)*}) => {
        $(
            #[inline(never)]
            fn $chooser(
                args: &RunArgs<$key, <$reduction as Reduction>::In, <$reduction as Reduction>::Out>,
                launch: Launch<'_>,
            ) -> Result<()> {
                launch.launch::<Runs<$key, $reduction, { runs::steps(<$reduction as Reduction>::HAS_VALUES) }>>(args)
            }
        )*
        $(#[$doc])*
        pub(super) fn $function<$k: Word $(, $w: Word)?>(args: &RunArgs<$k, $in, $out>, launch: Launch<'_>) -> Result<()> {
            match ($k::BITS, [$($w::BITS,)? 0][0]) {
                $($pattern => $chooser(same_args(args), launch),)*
            }
        }
    };
}
reductions!(
    /// Launches the reduction of runs to their keys.
    unique<K>, u32, u32, {
        unique_u32: (32, _) => u32, Unique;
        unique_u64: (_, _) => u64, Unique;
    }
);
reductions!(
    /// Launches the reduction of runs to their last values.
    last<K, V>, V, V, {
        last_u32_u32: (32, 32) => u32, Last<u32>;
        last_u32_u64: (32, _) => u32, Last<u64>;
        last_u64_u32: (_, 32) => u64, Last<u32>;
        last_u64_u64: (_, _) => u64, Last<u64>;
    }
);
reductions!(
    /// Launches the reduction of runs to their lengths.
    lengths<K, L>, u32, L, {
        lengths_u32_u32: (32, 32) => u32, Lengths<u32>;
        lengths_u32_u64: (32, _) => u32, Lengths<u64>;
        lengths_u64_u32: (_, 32) => u64, Lengths<u32>;
        lengths_u64_u64: (_, _) => u64, Lengths<u64>;
    }
);
reductions!(
    /// Launches the reduction of runs to the sums of their values.
    sums<K, V>, V, u64, {
        sums_u32_u32: (32, 32) => u32, Sums<u32>;
        sums_u32_u64: (32, _) => u32, Sums<u64>;
        sums_u64_u32: (_, 32) => u64, Sums<u32>;
        sums_u64_u64: (_, _) => u64, Sums<u64>;
    }
);
