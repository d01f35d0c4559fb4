//! The library itself, which is on the host: what [`crate`] exports.

#[cfg(feature = "cuart")]
#[doc(inline)]
pub use lanetree_cuart as cuart;
#[cfg(feature = "cuart")]
#[doc(inline)]
pub use lanetree_cuart::Cuart;
#[cfg(feature = "cubpt")]
#[doc(inline)]
pub use lanetree_cubpt as cubpt;
#[cfg(feature = "cubpt")]
#[doc(inline)]
pub use lanetree_cubpt::Cubpt;
#[cfg(feature = "files")]
#[doc(inline)]
pub use lanetree_files as files;
#[doc(hidden)]
pub use lanetree_frame::fixed::HostForm;
#[doc(inline)]
pub use lanetree_frame::fixed::{
    Aggregate, AggregateScratch, AsOf, Combine, CombineScratch, DeviceAggregates, DeviceMatches, DeviceRangeMatches,
    DeviceRanges, Direction, FixedIndex, Iter, JoinScratch, NearestScratch, Number, OnStream, Operand, PairOperand,
    PieceScratch, QueryOptions, RangeJoinScratch, RangeScratch, Scans, Sorted, SortedPairs, Ties, Uses,
};
#[doc(inline)]
pub use lanetree_frame::{
    AnyKey, Batch, BatchOf, BatchOrder, Buffer, BuildRules, ByteKeys, ByteKeysBuf, ByteRange, ByteRanges, ByteString,
    Bytes16, Clamped, Closed, Composite, Device, DeviceBuilder, DeviceClamped, DeviceForm, DeviceKeys, DeviceKind,
    DeviceNumber, Domain, Duplicates, Error, ErrorKind, Event, F32, F64, FileError, FixedKey, Float, FloatOrder,
    IndexBuilder, Join, JoinKind, JoinRows, Key, KeyOf, KeyRange, KeyWord, Matches, Mirror, MirrorReport, Mirrored,
    NeighborsOf, NullOrder, Nulls, OffsetBuffer, Offsets, Op, OpKind, OrderedIndex, PinnedBuffer, Pool, PoolStats,
    RangeOf, Ranges, RangesOf, Result, Rows, Stream, UpdatePath, UpdateReport, Validity, Value, Word, apply_to_map,
    clamp_bounds, compose_on, mask_hits, no_row, number_matches, order_floats, restore_floats, runtime,
};
#[cfg(feature = "harmonia")]
#[doc(inline)]
pub use lanetree_harmonia as harmonia;
#[cfg(feature = "harmonia")]
#[doc(inline)]
pub use lanetree_harmonia::Harmonia;
#[cfg(feature = "hbtree")]
#[doc(inline)]
pub use lanetree_hbtree as hbtree;
#[cfg(feature = "hbtree")]
#[doc(inline)]
pub use lanetree_hbtree::HbTree;
#[cfg(feature = "intervals")]
#[doc(inline)]
pub use lanetree_intervals as intervals;
#[cfg(feature = "intervals")]
#[doc(inline)]
pub use lanetree_intervals::IntervalIndex;
#[cfg(feature = "lane-tree")]
#[doc(inline)]
pub use lanetree_lane_tree as lane_tree;
#[cfg(feature = "lane-tree")]
#[doc(inline)]
pub use lanetree_lane_tree::{LaneSet, LaneTree};
#[cfg(feature = "multimap")]
#[doc(inline)]
pub use lanetree_multimap as multimap;
#[cfg(feature = "multimap")]
#[doc(inline)]
pub use lanetree_multimap::MultiMap;
#[doc(inline)]
pub use lanetree_primitives as primitives;
#[cfg(all(feature = "sharded", feature = "multimap"))]
#[doc(inline)]
pub use lanetree_sharded::ShardedMultiMap;
#[cfg(feature = "sharded")]
#[doc(inline)]
pub use lanetree_sharded::{OnDevices, Replicated, ShardPieces, ShardStats, Sharded};
#[cfg(all(feature = "sharded", feature = "lane-tree"))]
#[doc(inline)]
pub use lanetree_sharded::{SetOnDevices, ShardedSet, ShardedUpdateScratch};
#[cfg(feature = "sorted")]
#[doc(inline)]
pub use lanetree_sorted as sorted;
#[cfg(feature = "sorted")]
#[doc(inline)]
pub use lanetree_sorted::SortedArray;

/// The PTX modules of all kernels of the indexes whose features are on: for programs that compile them ahead of time, or check
/// that each kernel has run. Without the feature `cuda` their texts are empty.
pub fn modules() -> impl Iterator<Item = &'static lanetree_simt::Module> {
    const CRATES: &[&[&lanetree_simt::Module]] = &[
        &lanetree_frame::MODULES,
        &lanetree_primitives::MODULES,
        #[cfg(feature = "cuart")]
        &lanetree_cuart::MODULES,
        #[cfg(feature = "cubpt")]
        &lanetree_cubpt::MODULES,
        #[cfg(feature = "harmonia")]
        &lanetree_harmonia::MODULES,
        #[cfg(feature = "hbtree")]
        &lanetree_hbtree::MODULES,
        #[cfg(feature = "intervals")]
        &lanetree_intervals::MODULES,
        #[cfg(feature = "lane-tree")]
        &lanetree_lane_tree::MODULES,
        #[cfg(feature = "multimap")]
        &lanetree_multimap::MODULES,
        #[cfg(feature = "sharded")]
        &lanetree_sharded::MODULES,
        #[cfg(feature = "sorted")]
        &lanetree_sorted::MODULES,
    ];
    CRATES.iter().copied().flatten().copied()
}
