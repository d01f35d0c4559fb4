//! What a descent on a device is given.

use lanetree_simt::{Global, GlobalMut};

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
