//! What a descent on a device is given.

use lanetree_simt::{Global, GlobalMut};

/// How the device searches a node. Both find the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceSearch {
    /// A lane for each separator, and a ballot.
    #[default]
    Ballot,
    /// A thread for each separator, flags in shared memory, and two barriers per level: the paper's (section 5.3, appendix
    /// D). Takes [`Fanout::Words`](crate::Fanout::Words).
    Shared,
}

/// Leaves in host memory that a device can reach.
#[derive(Clone, Copy, Debug)]
pub struct DeviceLines {
    /// The first line.
    pub lines: Global<u8>,
    /// After each `2^group` leaves there is a line that is no leaf; 32: nowhere.
    pub group: u32,
}

/// Queries in memory that a stream reaches.
#[derive(Clone, Copy)]
pub struct Descending<B> {
    /// Queries, in the caller's form.
    pub queries: Global<B>,
    /// The node of each in level `from`; null: node 0.
    pub nodes: Global<u32>,
    /// The level that they start from.
    pub from: u32,
    /// How many.
    pub count: usize,
    /// Out: the leaf of each.
    pub leaves: GlobalMut<u32>,
}
