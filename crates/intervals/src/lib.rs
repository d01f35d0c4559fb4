//! An index of intervals: which of them contain a point, the most specific one or all of them.
//!
//! ```
//! use lanetree::{Device, IntervalIndex};
//!
//! # fn main() -> lanetree::Result<()> {
//! // Networks within networks, as first and last address.
//! let index = IntervalIndex::build(&Device::emulated(), &[0_u32, 64, 80, 200], &[255, 127, 95, 210])?;
//! assert_eq!(index.most_specific_many(&[90, 100, 130])?, [Some(2), Some(1), Some(0)]);
//! assert_eq!(index.stab_many(&[90])?.of(0), [2, 1, 0]);
//! assert_eq!(index.count_many(&[90, 130])?, [3, 1]);
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//! Intervals are sorted by start; of intervals with the same start, the longest is first. A [`LaneTree`] over the
//! starts gives the last interval that starts at or below a point. The most specific one that contains the point is the
//! last one up to there whose end reaches it. *Links* lead to it: from each interval to the last one before it that
//! ends later. The kernels' `layout` draws both.
//!
//! The intervals that overlap a range are found in the same way, from the last one that starts at or below the range's end on.
//!
//! Counts take no links: they are the intervals that start at or below the point, less those that end below it, of which a second
//! [`LaneTree`] has the number.
//!
//! # What it takes
//! * The most specific interval: a predecessor search, then a link for each interval that the point is past but which is nested
//!   deeper than the answer, at most eight. Where that is not enough, a search in a hierarchy of maxima over the ends, whose time
//!   depends on the logarithm of the number of intervals and not on the nesting. So there is no set of intervals that makes it slow.
//! * All intervals: the same for each interval that is found. One thread writes all rows of a point, so one point in 2^20 intervals
//!   takes long, where the same number of rows of many points does not.
//! * A build: two radix sorts, two trees, and a pass for the links, all on the device; a build waits for the device. An index does not
//!   change: build it again.
//!
//! In addition to the two trees, an interval takes its end, its row, and 5 bytes or so ([`IntervalIndex::bytes`] has
//! the sum).

mod build;
mod on_stream;
mod queries;
mod stats;
mod steps;

#[doc(hidden)]
pub use lanetree_kernels_intervals::modules::MODULES;
pub use on_stream::{DeviceRows, OnStream, Scratch};
pub use stats::Stats;

use core::fmt;
use lanetree_frame::{Device, Stream};
use lanetree_lane_tree::LaneTree;
use lanetree_layout::{AnyKey, Word};
use steps::InOrder;

/// An index of intervals with bounds `K`, both inclusive, and a row `V` for each, on a device. Keys of any fixed size: integers,
/// floats in total order, 16 bytes, composite keys in lexicographic order.
pub struct IntervalIndex<K: AnyKey, V: Word = u32> {
    device: Device,
    /// The distinct starts, and the position of the last interval that starts there.
    started: LaneTree<K, u32>,
    /// The distinct ends, and how many intervals end below.
    ended: LaneTree<K, u32>,
    intervals: InOrder<K::Bits, V>,
}

impl<K: AnyKey, V: Word> IntervalIndex<K, V> {
    /// The device that holds the index.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How many intervals it has.
    pub fn len(&self) -> u64 {
        self.intervals.rows.len() as u64
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index's queries on a stream of the same device: the device form of every query.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> OnStream<'a, K, V> {
        OnStream::new(self, stream)
    }
}

impl<K: AnyKey, V: Word> fmt::Debug for IntervalIndex<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IntervalIndex<{}, {}>[{} intervals, on {}]", K::NAME, V::NAME, self.len(), self.device)
    }
}
