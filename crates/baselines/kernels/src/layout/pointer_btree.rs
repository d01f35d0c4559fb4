//! A regular B+tree, whose inner nodes hold a reference to each child: the baseline of the Harmonia paper
//! (its figure 4 (a)), after the regular HB+-tree (Shahvarani and Jacobsen, SIGMOD 2016, section 4.1) as
//! far as one GPU goes.
//!
//! ```text
//! inner node of fanout F     one box per 32-byte sector, 8-byte keys, F = 8: one 128-byte line
//! ┌───────────────────────┬───────────────────────┬───────────────────────┬───────────────────────┐
//! │ s0    s1    s2    s3  │ s4    s5    s6    max │ r0    r1    r2    r3  │ r4    r5    r6    r7  │
//! └───────────────────────┴───────────────────────┴───────────────────────┴───────────────────────┘
//!   F - 1 separators and the largest word           F references, as wide as keys
//!
//! leaf of fanout F           as Harmonia's: F keys, then their F values
//! ┌───────────────────────┬───────────────────────┬───────────────────────┬───────────────────────┐
//! │ k0    k1    k2    k3  │ k4    k5    k6    k7  │ v0    v1    v2    v3  │ v4    v5    v6    v7  │
//! └───────────────────────┴───────────────────────┴───────────────────────┴───────────────────────┘
//! ```
//!
//! * A reference is a word as wide as a key, as in HB+ ("S = P = 8", and 4 in its 32-bit version): 64 bits where keys
//!   have 64 bits, so that 64 slots take the 1 KB that the Harmonia paper gives for such a node. Instead of an address,
//!   as on a CPU, it is the child's distance from the start of its segment in sectors: 32 bits span 128 GiB, and a
//!   kernel follows it with one multiplication.
//! * Inner nodes and leaves lie in two segments, as in HB+. The separate fragment of a node in HB+ (its size, parent
//!   and siblings) is left out: no look-up reads it.
//! * Separator *i* is the largest key under child *i*. The last slot and unused ones hold the largest word,
//!   so that every query ends at some slot, and nodes need no size. The largest key is legal: no word is
//!   above it, and a query for it stops at the first slot that holds it. Unused references repeat the last.
//! * HB+ puts before each inner node's keys a line of indexes, the largest key of every line, so that its
//!   eight threads read three lines of seventeen. There is none here: the baseline is the plain tree, whose
//!   thread group is as wide as a node.
//! * A bulk build lays the nodes out level by level, which is the best case of a tree with references: one
//!   that has grown by insertions is scattered.

use lanetree_layout::Word;
use lanetree_layout::btree::Shape;
pub use lanetree_layout::btree::{FANOUTS, leaf_bytes, leaf_offset, leaf_values_offset};

/// Bytes of the unit of references.
pub const SECTOR: u64 = 32;

/// Bytes of an inner node.
#[inline(always)]
pub const fn inner_bytes<K: Word>(fanout: u32) -> u64 {
    2 * fanout as u64 * K::BYTES as u64
}

/// Byte offset of an inner node in its segment; its separators begin there.
#[inline(always)]
pub const fn inner_offset<K: Word>(fanout: u32, node: u32) -> u64 {
    node as u64 * inner_bytes::<K>(fanout)
}

/// Byte offset of an inner node's references, from the start of the node.
#[inline(always)]
pub const fn references_offset<K: Word>(fanout: u32) -> u64 {
    fanout as u64 * K::BYTES as u64
}

/// The reference to a node at a byte offset in its segment.
#[inline(always)]
pub fn reference<K: Word>(offset: u64) -> K {
    K::truncate(offset / SECTOR)
}

/// The byte offset in its segment of the node that a reference is to.
#[inline(always)]
pub fn referenced_offset<K: Word>(reference: K) -> u64 {
    reference.widen() * SECTOR
}

/// Bytes of both segments.
pub fn bytes<K: Word, V: Word>(shape: &Shape) -> u64 {
    u64::from(shape.inner) * inner_bytes::<K>(shape.fanout) + shape.leaf_region_bytes::<K, V>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_whole_sectors() {
        for fanout in FANOUTS {
            assert_eq!(inner_bytes::<u32>(fanout) % SECTOR, 0);
            assert_eq!(inner_bytes::<u64>(fanout) % SECTOR, 0);
            assert_eq!(references_offset::<u32>(fanout) % SECTOR, 0);
            assert_eq!(leaf_bytes::<u32, u32>(fanout) % SECTOR, 0);
        }
        assert_eq!(inner_bytes::<u64>(8), 128);
        assert_eq!(inner_bytes::<u64>(64), 1024, "the paper: about 1 KB for a 64-fanout tree");
    }

    #[test]
    fn references_lead_back_to_their_nodes() {
        for offset in [0, 128, 12 * inner_offset::<u64>(128, 77)] {
            assert_eq!(referenced_offset(reference::<u64>(offset)), offset);
            assert_eq!(referenced_offset(reference::<u32>(offset)), offset);
        }
        // The largest tree of 32-bit keys: one pair for each of them.
        let shape = Shape::bulk(1 << 32, 8, 1.0).unwrap();
        let last = leaf_offset::<u32, u32>(8, shape.leaves - 1);
        assert_eq!(referenced_offset(reference::<u32>(last)), last);
    }
}
