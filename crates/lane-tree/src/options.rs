//! What a tree is built with.

/// Most nodes that the table can lead to.
pub(crate) const TABLE_NODES: u32 = 16384;

/// What a tree is built with, and built anew after changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) fill: f64,
    pub(crate) table_nodes: u32,
}
