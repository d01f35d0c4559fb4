//! The kernels of bulk builds.

use crate::Launch;
use lanetree_kernels_cuart::build::NodesArgs;
use lanetree_kernels_cuart::build::boundaries::{self, LevelArgs};
use lanetree_kernels_cuart::build::fill::{Fill, FillArgs};
use lanetree_kernels_cuart::build::intervals::Intervals;
use lanetree_kernels_cuart::build::leaves::{Leaves, LeavesArgs, Numbers, NumbersArgs};
use lanetree_kernels_cuart::build::number::{Number, Place};
use lanetree_kernels_cuart::build::table::{Table, TableArgs};
use lanetree_layout::Word;
use lanetree_layout::cuart::Kind;
use lanetree_runtime::Result;
use lanetree_simt::{Launcher, same_args};

/// The chooser of the kernels for a word, without type parameters.
macro_rules! leaves {
    ($function:ident, $value:ty) => {
        #[inline(never)]
        fn $function(args: &LeavesArgs<$value>, launch: Launch<'_>) -> Result<()> {
            match args.keys.width {
                0..=8 => launch.launch::<Leaves<$value, 1>>(args),
                9..=16 => launch.launch::<Leaves<$value, 2>>(args),
                _ => launch.launch::<Leaves<$value, 4>>(args),
            }
        }
    };
}
leaves!(leaves_u32, u32);
leaves!(leaves_u64, u64);

/// Leaves of keys of one width, at most 32.
///
/// # Errors
/// Those of a launch.
pub fn leaves<V: Word>(args: &LeavesArgs<V>, launch: Launch<'_>) -> Result<()> {
    match V::BITS {
        32 => leaves_u32(same_args(args), launch),
        _ => leaves_u64(same_args(args), launch),
    }
}

/// A function for each kernel, or for each of two.
macro_rules! kernels {
    ($($(#[$doc:meta])* $function:ident($args:ty $(, $choice:ident)?) => $kernel:ty $(, $or:ty)?;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// Those of a launch.
        #[inline(never)]
        pub fn $function(args: &$args, $($choice: bool,)? launch: Launch<'_>) -> Result<()> {
            $(if $choice {
                return launch.launch::<$or>(args);
            })?
            launch.launch::<$kernel>(args)
        }
    )*};
}
kernels! {
    /// Depths of boundaries.
    boundaries(NodesArgs) => boundaries::Boundaries;
    /// A level of minima.
    level(LevelArgs) => boundaries::Level;
    /// Leaders of nodes.
    intervals(NodesArgs) => Intervals;
    /// Numbers of nodes, or their counts.
    number(NodesArgs, list) => Number<false>, Number<true>;
    /// Places of nodes, or their counts.
    place(NodesArgs, list) => Place<false>, Place<true>;
    /// Numbers of strings.
    numbers(NumbersArgs) => Numbers;
    /// The root table.
    table(TableArgs) => Table;
}

/// The nodes of a kind.
///
/// # Errors
/// Those of a launch.
#[inline(never)]
pub fn fill(kind: Kind, args: &FillArgs, launch: Launch<'_>) -> Result<()> {
    match kind {
        Kind::N4 => launch.launch::<Fill<1>>(args),
        Kind::N16 => launch.launch::<Fill<2>>(args),
        Kind::N48 => launch.launch::<Fill<3>>(args),
        _ => launch.launch::<Fill<4>>(args),
    }
}
