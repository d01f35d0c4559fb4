//! The kernels of compaction.

use super::kernels;
use crate::Launch;
use lanetree_kernels_cuart::compact::{Move, MoveArgs, Sift, Spread, SpreadArgs};
use lanetree_runtime::Result;
use lanetree_simt::Launcher;

kernels! {
    /// Launches the count of what nodes in a front are replaced by.
    count(SpreadArgs) => Spread<false>;
    /// Launches the kernel that replaces them.
    spread(SpreadArgs) => Spread<true>;
    /// Launches the count of leaves by kind.
    sift(MoveArgs) => Sift;
    /// Launches the kernel that copies leaves.
    move_leaves(MoveArgs) => Move;
}
