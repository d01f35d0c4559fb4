//! How threads are mapped to keys, and what else shapes a tree.

/// How threads are mapped to keys, by builds and batches of changes on a device. All have the same effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Mapping {
    /// Up to 32 threads for each node, of which each writes some slots; in nodes with very many new keys, a thread for each of
    /// these.
    #[default]
    PerNode,
    /// The paper's (sections 3.1 and 3.2.2): a thread for each slot of the nodes that a build writes, and for each new
    /// key that goes into a node. To be compared with the other mapping, which moves the pairs that a node already has
    /// in the same way. See `docs/design/cubpt.md`.
    PerKey,
}

/// A tree's fanout, the part of its nodes that a build fills, and the mapping of threads.
pub(crate) type Shape = (u32, f64, Mapping);
