//! What updates on a device keep for the next ones.

use lanetree_runtime::Buffer;

/// What a tree remembers of its updates.
#[derive(Debug, Default)]
pub(crate) struct UpdateState {
    /// The number of the last operation with [`UpdateEngine::Sequence`](crate::UpdateEngine::Sequence).
    pub(crate) sequence: u32,
    /// The stamps of [`UpdateEngine::Stamps`](crate::UpdateEngine::Stamps), from its first batch on.
    pub(crate) stamps: Option<Stamps>,
}

impl UpdateState {
    /// The state for a copy of the tree: its leaves have the same numbers above their values.
    pub(crate) fn of_copy(&self) -> Self {
        Self { sequence: self.sequence, stamps: None }
    }
}

/// For each leaf, the last operation on it.
#[derive(Debug)]
pub(crate) struct Stamps {
    pub(crate) buffer: Buffer<u64>,
    /// Where the stamps of each kind of leaves begin: of leaves of 16 bytes, of 32 bytes, and of long leaves.
    pub(crate) firsts: [u64; 3],
    /// The stamp of the next operation.
    pub(crate) next: u64,
}
