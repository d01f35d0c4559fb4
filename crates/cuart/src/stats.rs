//! How large a tree is, and what it is made of.

use super::parts::Parts;

/// The size and shape of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// Pairs.
    pub len: u64,
    /// Nodes with up to 4, 16, 48 and 256 children.
    pub nodes: [u64; 4],
    /// Leaves with keys of up to 8, 16 and 32 bytes.
    pub leaves: [u64; 3],
    /// Dynamically sized leaves.
    pub device_leaves: u64,
    /// Leaves in main memory ([`LongKeys::HostLeaves`](crate::LongKeys::HostLeaves)).
    pub host_leaves: u64,
    /// How many bytes of a key index the root table; 0 if there is none.
    pub table_key_bytes: u32,
    /// Bytes of the nodes, including free and spare ones.
    pub node_bytes: u64,
    /// Bytes of the leaves of all types except those in main memory, including free and spare ones.
    pub leaf_bytes: u64,
    /// Bytes of the root table.
    pub table_bytes: u64,
    /// Bytes of the arrays that map ranks to leaves and leaves to ranks.
    pub order_bytes: u64,
    /// Bytes of the leaves in main memory.
    pub host_bytes: u64,
    /// Bytes of nodes and leaves that were freed and will be reused.
    pub free_bytes: u64,
    /// Bytes past the used nodes and leaves, for new ones.
    pub spare_bytes: u64,
    /// Bytes of the whole tree per pair; 0 for an empty tree.
    pub bytes_per_key: f64,
}

impl Stats {
    /// Bytes of device memory that the tree takes.
    pub fn bytes(&self) -> u64 {
        self.node_bytes + self.leaf_bytes + self.table_bytes + self.order_bytes
    }
}

impl Parts {
    /// The size and shape.
    pub(super) fn stats(&self) -> Stats {
        let (nodes, leaves) = (&self.nodes, &self.leaves);
        macro_rules! of_regions {
            ($figure:ident) => {
                (
                    [nodes.n4.$figure(), nodes.n16.$figure(), nodes.n48.$figure(), nodes.n256.$figure()],
                    [leaves.leaf8.$figure(), leaves.leaf16.$figure(), leaves.leaf32.$figure()],
                )
            };
        }
        let sum = |(nodes, leaves): ([u64; 4], [u64; 3])| nodes.iter().chain(&leaves).sum::<u64>();
        let live = of_regions!(live);
        let bytes = of_regions!(bytes);
        let mut stats = Stats {
            len: self.len,
            nodes: live.0,
            leaves: live.1,
            device_leaves: leaves.long.count,
            host_leaves: (leaves.host.values.len() - leaves.host.free.len()) as u64,
            table_key_bytes: self.table_bytes,
            node_bytes: bytes.0.iter().sum(),
            leaf_bytes: bytes.1.iter().sum::<u64>() + leaves.long.bytes(),
            table_bytes: self.table.bytes() as u64,
            order_bytes: (leaves.order.bytes() + leaves.ranks8.bytes()) as u64,
            host_bytes: leaves.host.bytes_in_all(),
            free_bytes: sum(of_regions!(free_bytes)) + leaves.long.free_bytes(),
            spare_bytes: sum(of_regions!(spare_bytes)) + leaves.long.spare_bytes(),
            bytes_per_key: 0.0,
        };
        if self.len > 0 {
            stats.bytes_per_key = (stats.bytes() + stats.host_bytes) as f64 / self.len as f64;
        }
        stats
    }
}
