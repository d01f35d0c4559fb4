//! What is known about the order of a batch.

/// What the caller knows about the order of a batch's queries. It affects the speed, never the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum BatchOrder {
    /// Nothing: neighbours in the batch are far apart in the tree (the default).
    #[default]
    Random,
    /// Sorted by their upper bits, or otherwise clustered: neighbours mostly share their upper nodes.
    Clustered,
    /// Sorted by this many of their most significant bits. How close neighbours are in the tree follows from its size.
    TopBits(u32),
    /// Sorted: neighbours mostly share their leaves.
    Sorted,
}
