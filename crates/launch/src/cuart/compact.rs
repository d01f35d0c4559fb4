//! The kernels of compaction.

use super::kernels;

use lanetree_kernels_cuart::compact::{Move, MoveArgs, Sift, Spread, SpreadArgs};
use lanetree_runtime::Call;

kernels! {
    /// The call of the count of what nodes in a front are replaced by.
    count(SpreadArgs) => Spread<false>;
    /// The call of the kernel that replaces them.
    spread(SpreadArgs) => Spread<true>;
    /// The call of the count of leaves by kind.
    sift(MoveArgs) => Sift;
    /// The call of the kernel that copies leaves.
    move_leaves(MoveArgs) => Move;
}
