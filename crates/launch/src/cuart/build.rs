//! The kernels of bulk builds.

use lanetree_kernels_cuart::build::NodesArgs;
use lanetree_kernels_cuart::build::boundaries::{self, LevelArgs};
use lanetree_kernels_cuart::build::fill::{Fill, FillArgs};
use lanetree_kernels_cuart::build::intervals::Intervals;
use lanetree_kernels_cuart::build::leaves::{Leaves, LeavesArgs, Numbers, NumbersArgs};
use lanetree_kernels_cuart::build::number::{Number, Place};
use lanetree_kernels_cuart::build::table::{Table, TableArgs};
use lanetree_layout::Word;
use lanetree_layout::cuart::Kind;
use lanetree_runtime::Call;
use lanetree_simt::same_args;

/// The chooser of the kernels for a word, without type parameters.
macro_rules! leaves {
    ($function:ident, $value:ty) => {
        #[inline(never)]
        fn $function(args: &LeavesArgs<$value>) -> Call<'_> {
            match args.keys.width {
                0..=8 => Call::of::<Leaves<$value, 1>>(args),
                9..=16 => Call::of::<Leaves<$value, 2>>(args),
                _ => Call::of::<Leaves<$value, 4>>(args),
            }
        }
    };
}
leaves!(leaves_u32, u32);
leaves!(leaves_u64, u64);

/// Leaves of keys of one width, at most 32.
pub fn leaves<V: Word>(args: &LeavesArgs<V>) -> Call<'_> {
    match V::BITS {
        32 => leaves_u32(same_args(args)),
        _ => leaves_u64(same_args(args)),
    }
}

/// A function for each kernel, or for each of two.
macro_rules! kernels {
    ($($(#[$doc:meta])* $function:ident($args:ty $(, $choice:ident)?) => $kernel:ty $(, $or:ty)?;)*) => {$(
        $(#[$doc])*
        #[inline(never)]
        pub fn $function(args: &$args $(, $choice: bool)?) -> Call<'_> {
            $(if $choice {
                return Call::of::<$or>(args);
            })?
            Call::of::<$kernel>(args)
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
#[inline(never)]
pub fn fill(kind: Kind, args: &FillArgs) -> Call<'_> {
    match kind {
        Kind::N4 => Call::of::<Fill<1>>(args),
        Kind::N16 => Call::of::<Fill<2>>(args),
        Kind::N48 => Call::of::<Fill<3>>(args),
        _ => Call::of::<Fill<4>>(args),
    }
}
