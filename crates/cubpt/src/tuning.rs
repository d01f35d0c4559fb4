//! Choices that were measured, as data, by the card that they were measured on.

use lanetree_frame::ByCard;

/// What is fastest on a card.
pub(crate) struct Tuning {
    /// Most keys of a node, unless the builder is told.
    pub(crate) fanout: u32,
    /// Threads of a block that writes nodes, and the most bytes of shared memory that it takes.
    pub(crate) block_threads: u32,
    pub(crate) block_shared: u32,
}

pub(crate) const TUNING: ByCard<Tuning> = ByCard(&[((9, 0), HOPPER)]);

/// NVIDIA H100 and H200. The fanout: 2^26 pairs of 8 bytes each (figure `cubpt-orders`). Small blocks, so that as many fit as registers
/// allow.
const HOPPER: Tuning = Tuning { fanout: 24, block_threads: 128, block_shared: 16 << 10 };
