//! Choices that were measured, as data, by the card that they were measured on.

use lanetree_frame::ByCard;

/// What is fastest with a card.
pub(crate) struct Tuning {
    /// The smallest batch of changes that [`UpdateMethod::Auto`](crate::UpdateMethod::Auto) sends while it is made.
    pub(crate) overlapped_from: usize,
    /// Bits of the leaves' numbers that the device sorts by before it reads leaves: those with equal bits fit into a few pages.
    pub(crate) leaf_bits: u32,
    /// Threads that read leaves: enough to keep the bus busy.
    pub(crate) leaf_readers: u64,
    /// The fewest queries with which the device is tried alone, and that it takes.
    pub(crate) trial: usize,
    pub(crate) least: usize,
}

pub(crate) const TUNING: ByCard<Tuning> = ByCard(&[((9, 0), H200)]);

/// An NVIDIA H200 and 16 threads, 2^26 pairs (figure `hbtree-updates`): sending all of a batch at once is 1.6 times as fast at 2^10
/// changes; overlapping is 1.02 times as fast at 2^16 and 1.24 times at 2^20. In the paper it is the other way round (figure 14), since
/// its asynchronous method sends all nodes at once and its synchronized one sends each by itself.
const H200: Tuning =
    Tuning { overlapped_from: 1 << 16, leaf_bits: 16, leaf_readers: 1 << 13, trial: 1 << 17, least: 1 << 14 };
