//! The kernels of ranks and ranges.

use super::{by_word, kernels};

use lanetree_kernels_cuart::{CopyKeys, CopyKeysArgs, Expand, ExpandArgs, Measure, MeasureArgs, Rank, RankArgs};
use lanetree_layout::Word;
use lanetree_runtime::Call;
use lanetree_simt::same_args;

kernels! {
    /// The call of the ranking of keys.
    rank(RankArgs) => Rank;
    /// The call of the measurement of spans.
    measure(MeasureArgs) => Measure;
    /// The call of the copying of keys.
    copy_keys(CopyKeysArgs) => CopyKeys;
}

by_word! {
    /// The call of the search for the leaves of spans.
    expand(ExpandArgs) => Expand;
}
