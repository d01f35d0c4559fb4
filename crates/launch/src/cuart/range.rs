//! The kernels of ranks and ranges.

use super::{by_word, kernels};
use crate::Launch;
use lanetree_kernels_cuart::{CopyKeys, CopyKeysArgs, Expand, ExpandArgs, Measure, MeasureArgs, Rank, RankArgs};
use lanetree_layout::Word;
use lanetree_runtime::Result;
use lanetree_simt::{Launcher, same_args};

kernels! {
    /// Launches the ranking of keys.
    rank(RankArgs) => Rank;
    /// Launches the measurement of spans.
    measure(MeasureArgs) => Measure;
    /// Launches the copying of keys.
    copy_keys(CopyKeysArgs) => CopyKeys;
}

by_word! {
    /// Launches the search for the leaves of spans.
    expand(ExpandArgs) => Expand;
}
