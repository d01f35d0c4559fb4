//! All buffers of a tree in main memory, and how to follow links in them.

use super::leaf::read_device_leaf;
use super::node::Header;
use super::{HostLeaves, Leaf8, Leaf16, Leaf32, LeafRef, Link, LinkType, N4, N16, N48, N256, table_index};
use core::mem::offset_of;

/// The buffers of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regions<'a> {
    /// The topmost node or leaf; none in an empty tree.
    pub root: Link,
    /// Keys.
    pub len: u64,
    /// The link of the leaf of rank 0 if all keys have one length of at most 32 bytes: leaves of other ranks follow it.
    /// None if `order` has the links.
    pub first: Link,
    /// Nodes of up to 4 children.
    pub n4: &'a [N4],
    /// Nodes of up to 16 children.
    pub n16: &'a [N16],
    /// Nodes of up to 48 children.
    pub n48: &'a [N48],
    /// Nodes of up to 256 children.
    pub n256: &'a [N256],
    /// Leaves of keys of up to 8 bytes.
    pub leaf8: &'a [Leaf8],
    /// Leaves of keys of up to 16 bytes.
    pub leaf16: &'a [Leaf16],
    /// Leaves of keys of up to 32 bytes.
    pub leaf32: &'a [Leaf32],
    /// Dynamically sized leaves, in units of 16 bytes.
    pub device_leaves: &'a [[u64; 2]],
    /// Leaves in main memory.
    pub host_leaves: HostLeaves<'a>,
    /// The ranks of `leaf8`; empty if they equal the indexes.
    pub ranks8: &'a [u64],
    /// The links of all leaves by rank; empty if they follow from `first`.
    pub order: &'a [Link],
    /// The root table; empty if there is none.
    pub table: &'a [Link],
    /// How many bytes of a key index the root table: 2 or 3; 0 if there is none.
    pub table_bytes: u32,
}

/// Byte offset, within its buffer element, of what a look-up reads first in a leaf, or in a node that it leaves by
/// `byte`.
#[inline(always)]
pub const fn probe_offset(kind: LinkType, byte: u8) -> u64 {
    match kind {
        LinkType::N16 => offset_of!(N16, keys) as u64,
        LinkType::N48 => offset_of!(N48, slots) as u64 + byte as u64,
        LinkType::N256 => offset_of!(N256, links) as u64 + byte as u64 * size_of::<Link>() as u64,
        _ => 0,
    }
}

impl<'a> Regions<'a> {
    /// The header of a node; `None` for a link to something else.
    #[inline(always)]
    pub fn header(&self, node: Link) -> Option<&'a Header> {
        let index = node.index() as usize;
        Some(match node.kind() {
            LinkType::N4 => &self.n4[index].header,
            LinkType::N16 => &self.n16[index].header,
            LinkType::N48 => &self.n48[index].header,
            LinkType::N256 => &self.n256[index].header,
            _ => return None,
        })
    }

    /// The child of a node for a byte; none for a link to something else.
    #[inline(always)]
    pub fn child(&self, node: Link, byte: u8) -> Link {
        let index = node.index() as usize;
        match node.kind() {
            LinkType::N4 => self.n4[index].child(byte),
            LinkType::N16 => self.n16[index].child(byte),
            LinkType::N48 => self.n48[index].child(byte),
            LinkType::N256 => self.n256[index].child(byte),
            _ => Link::NONE,
        }
    }

    /// The child of a node with the smallest byte that is not below `byte`.
    #[inline]
    pub fn child_from(&self, node: Link, byte: u8) -> Option<(u8, Link)> {
        let index = node.index() as usize;
        match node.kind() {
            LinkType::N4 => self.n4[index].child_from(byte),
            LinkType::N16 => self.n16[index].child_from(byte),
            LinkType::N48 => self.n48[index].child_from(byte),
            LinkType::N256 => self.n256[index].child_from(byte),
            _ => None,
        }
    }

    /// The child of a node with the largest byte that is not above `byte`.
    #[inline]
    pub fn child_to(&self, node: Link, byte: u8) -> Option<(u8, Link)> {
        let index = node.index() as usize;
        match node.kind() {
            LinkType::N4 => self.n4[index].child_to(byte),
            LinkType::N16 => self.n16[index].child_to(byte),
            LinkType::N48 => self.n48[index].child_to(byte),
            LinkType::N256 => self.n256[index].child_to(byte),
            _ => None,
        }
    }

    /// The position in a key where a node branches, if its link is followed after the first `from` bytes.
    #[inline(always)]
    pub fn depth(&self, node: Link, from: usize) -> usize {
        if node.span() < Link::LONG {
            return from + node.span() as usize;
        }
        self.header(node).map_or(from, |header| header.depth as usize)
    }

    /// What a leaf holds; `None` for a link to something else.
    #[inline]
    pub fn leaf(&self, leaf: Link) -> Option<LeafRef<'a>> {
        let (index, len) = (leaf.index() as usize, leaf.span() as usize);
        Some(match leaf.kind() {
            LinkType::Leaf8 => {
                let rank = self.ranks8.get(index).copied().unwrap_or(index as u64);
                let leaf = &self.leaf8[index];
                LeafRef { key: &leaf.key[..len], value: leaf.value, rank }
            }
            LinkType::Leaf16 => {
                let leaf = &self.leaf16[index];
                LeafRef { key: &leaf.key[..len], value: leaf.value, rank: leaf.rank }
            }
            LinkType::Leaf32 => {
                let leaf = &self.leaf32[index];
                LeafRef { key: &leaf.key[..len], value: leaf.value, rank: leaf.rank }
            }
            LinkType::DeviceLeaf => read_device_leaf(&self.device_leaves[index..]),
            LinkType::HostLeaf => self.host_leaves.get(index),
            _ => return None,
        })
    }

    /// The link of the leaf of a rank below the tree's length.
    #[inline(always)]
    pub fn leaf_at(&self, rank: u64) -> Link {
        if self.first.is_none() { self.order[rank as usize] } else { self.first.offset(rank) }
    }

    /// The first leaf under a link (the linked leaf itself if it is one); none if the descent ends at a node without
    /// children and without a key of its own.
    #[inline]
    pub fn first_leaf(&self, mut link: Link) -> Link {
        while let Some(header) = self.header(link) {
            link = match self.child_from(link, 0) {
                _ if !header.here.is_none() => header.here,
                Some((_, child)) => child,
                None => Link::NONE,
            };
        }
        link
    }

    /// The last leaf under a link (the linked leaf itself if it is one).
    #[inline]
    pub fn last_leaf(&self, mut link: Link) -> Link {
        while let Some(header) = self.header(link) {
            link = self.child_to(link, u8::MAX).map_or(header.here, |(_, child)| child);
        }
        link
    }

    /// A key's entry of the root table; `None` if the key is too short, or there is no table.
    #[inline(always)]
    pub fn table_entry(&self, key: &[u8]) -> Option<&'a Link> {
        match (self.table_bytes, key) {
            (3, [a, b, c, ..]) => Some(&self.table[table_index(*a, *b, Some(*c))]),
            (2, [a, b, ..]) => Some(&self.table[table_index(*a, *b, None)]),
            _ => None,
        }
    }

    /// Where the search for a key begins: a link, and how many bytes of the key lie before it.
    #[inline(always)]
    pub fn start(&self, key: &[u8]) -> (Link, usize) {
        self.table_entry(key).map_or((self.root, 0), |&entry| (entry, self.table_bytes as usize))
    }

    /// Bytes of the leaves in main memory.
    pub fn host_bytes(&self) -> u64 {
        let HostLeaves { offsets, bytes, values, ranks } = self.host_leaves;
        (size_of_val(offsets) + size_of_val(bytes) + size_of_val(values) + size_of_val(ranks)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_where_the_types_have_them() {
        for byte in [0, 1, 77, 255] {
            assert_eq!(probe_offset(LinkType::N4, byte), 0, "keys and links of an N4 are read together");
            assert_eq!(probe_offset(LinkType::N16, byte), 32);
            assert_eq!(probe_offset(LinkType::N48, byte), 32 + u64::from(byte));
            assert_eq!(probe_offset(LinkType::N256, byte), 32 + 8 * u64::from(byte));
            assert_eq!(probe_offset(LinkType::Leaf32, byte), 0);
        }
    }

    #[test]
    fn a_small_tree_by_hand() {
        // "", "a", "ab", "b"
        let leaves = [b"".as_slice(), b"a", b"ab", b"b"].map(|key| Leaf8::new(key, key.len() as u64 + 10));
        let order = [0_usize, 1, 2, 1].map(|len| Link::new(LinkType::Leaf8, len, 0));
        let order: [Link; 4] = core::array::from_fn(|i| order[i].offset(i as u64));
        let n4 = [
            N4::new(Header::new(b"", 0, order[0]), b"ab", &[Link::new(LinkType::N4, 0, 1), order[3]]),
            N4::new(Header::new(b"a", 1, order[1]), b"b", &[order[2]]),
        ];
        let root = Link::new(LinkType::N4, 0, 0);
        let tree = Regions { root, len: 4, n4: &n4, leaf8: &leaves, order: &order, ..Regions::default() };
        assert_eq!((tree.first_leaf(root), tree.last_leaf(root)), (order[0], order[3]));
        let a = tree.child(root, b'a');
        assert_eq!((tree.first_leaf(a), tree.last_leaf(a), tree.depth(a, 1)), (order[1], order[2], 1));
        assert_eq!(tree.leaf(tree.leaf_at(2)).unwrap(), LeafRef { key: b"ab", value: 12, rank: 2 });
        assert_eq!(tree.start(b"ab"), (root, 0));
        assert_eq!((tree.leaf(root), tree.header(order[0])), (None, None));
    }
}
