//! The order of a tree's keys: first and last leaves, neighbours among children, ranks. Only for compact trees, in
//! which leaves have ranks and no child is missing.

use crate::layout::{Header, Leaf16, Leaf32, Link, LinkType, N4, N16, N48, N256, PREFIX};
use crate::tree::TreeRef;
use core::mem::offset_of;
use lanetree_simt::{Hint, KeyRef, Simt, first_bytes, highest_one, lowest_one};

/// How what leads to a node compares with a query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// All keys under the node are below the query.
    Below,
    /// They continue like the query, or one of the two ends.
    Along,
    /// All are above it.
    Above,
}

impl TreeRef {
    /// Per thread. The child of a node with the smallest byte that is not below `byte`, at most 256, and that byte;
    /// none if there is none.
    ///
    /// # Safety
    /// A node of the tree.
    #[inline(always)]
    pub(crate) unsafe fn child_from<S: Simt>(&self, simt: S, node: Link, byte: u32) -> (u32, Link) {
        let at = self.address(node);
        let (kind, hint) = (node.kind(), Hint::ReadOnly);
        // SAFETY: the words lie in the node.
        unsafe {
            let (links, mut slot) = match kind {
                LinkType::N4 | LinkType::N16 => {
                    (if kind == LinkType::N4 { offset_of!(N4, links) } else { offset_of!(N16, links) }, 0)
                }
                LinkType::N48 => (offset_of!(N48, links), byte),
                _ => (offset_of!(N256, links), byte),
            };
            let links = at.byte_add(links as u64).cast::<u64>();
            if kind == LinkType::N256 {
                while slot < 256 {
                    let link = simt.load(links, u64::from(slot), hint);
                    if link != 0 {
                        return (slot, Link::from_bits(link));
                    }
                    slot += 1;
                }
                return (256, Link::NONE);
            }
            if kind == LinkType::N48 {
                let slots = at.byte_add(offset_of!(N48, slots) as u64).cast::<u64>();
                while slot < 256 {
                    // Eight at a time; those before the one looked for do not count.
                    let eight = simt.load(slots, u64::from(slot / 8), hint) & !first_bytes(slot % 8);
                    if eight != 0 {
                        let byte = (slot & !7) + lowest_one(eight) / 8;
                        let place = eight >> (8 * (byte % 8)) & 0xff;
                        return (byte, Link::from_bits(simt.load(links, place - 1, hint)));
                    }
                    slot = (slot & !7) + 8;
                }
                return (256, Link::NONE);
            }
            let (keys, count) =
                if kind == LinkType::N4 { (offset_of!(Header, keys4), 4) } else { (offset_of!(N16, keys), 16) };
            let keys = at.byte_add(keys as u64).cast::<u32>();
            while slot < count {
                let four = simt.load(keys, u64::from(slot / 4), hint);
                let own = four >> (8 * (slot % 4)) & 0xff;
                if own >= byte {
                    return (own, Link::from_bits(simt.load(links, u64::from(slot), hint)));
                }
                slot += 1;
            }
        }
        (256, Link::NONE)
    }

    /// Per thread. The child of a node with the largest byte; none where it has none.
    ///
    /// # Safety
    /// A node of the tree.
    #[inline(always)]
    unsafe fn last_child<S: Simt>(&self, simt: S, node: Link) -> Link {
        let at = self.address(node);
        let (kind, hint) = (node.kind(), Hint::ReadOnly);
        // SAFETY: the words lie in the node.
        unsafe {
            if kind == LinkType::N256 {
                let links = at.byte_add(offset_of!(N256, links) as u64).cast::<u64>();
                let (mut slot, mut link) = (256, 0);
                while slot > 0 && link == 0 {
                    slot -= 1;
                    link = simt.load(links, slot, hint);
                }
                return Link::from_bits(link);
            }
            if kind == LinkType::N48 {
                let slots = at.byte_add(offset_of!(N48, slots) as u64).cast::<u64>();
                let (mut eight, mut word) = (0, 32);
                while word > 0 && eight == 0 {
                    word -= 1;
                    eight = simt.load(slots, word, hint);
                }
                if eight == 0 {
                    return Link::NONE;
                }
                let place = eight >> (highest_one(eight) / 8 * 8) & 0xff;
                let links = at.byte_add(offset_of!(N48, links) as u64).cast::<u64>();
                return Link::from_bits(simt.load(links, place - 1, hint));
            }
            let links = if kind == LinkType::N4 { offset_of!(N4, links) } else { offset_of!(N16, links) };
            let count = simt.load(at.byte_add(offset_of!(Header, count) as u64).cast::<u32>(), 0, hint) & 0xffff;
            if count == 0 {
                return Link::NONE;
            }
            Link::from_bits(simt.load(at.byte_add(links as u64).cast::<u64>(), u64::from(count - 1), hint))
        }
    }

    /// Per thread. The first leaf under a link, or what it leads to if that is a leaf.
    ///
    /// # Safety
    /// A link of the tree.
    #[inline(always)]
    pub(crate) unsafe fn first_leaf<S: Simt>(&self, simt: S, mut link: Link) -> Link {
        // SAFETY: the caller's promise.
        unsafe {
            while link.kind().is_node() {
                let here = self.here(simt, link, Hint::ReadOnly);
                link = if here.is_none() { self.child_from(simt, link, 0).1 } else { here };
            }
        }
        link
    }

    /// Per thread. The last leaf under a link (the linked leaf itself if it is one).
    ///
    /// # Safety
    /// A link of the tree.
    #[inline(always)]
    pub(crate) unsafe fn last_leaf<S: Simt>(&self, simt: S, mut link: Link) -> Link {
        // SAFETY: the caller's promise.
        unsafe {
            while link.kind().is_node() {
                let last = self.last_child(simt, link);
                link = if last.is_none() { self.here(simt, link, Hint::ReadOnly) } else { last };
            }
        }
        link
    }

    /// Per thread. The key of a leaf on the device.
    ///
    /// # Safety
    /// A leaf of the tree.
    #[inline(always)]
    pub(crate) unsafe fn leaf_key<S: Simt>(&self, simt: S, leaf: Link) -> KeyRef {
        let at = self.address(leaf).cast::<u64>();
        if leaf.kind() != LinkType::DeviceLeaf {
            return KeyRef::new(at, 0, leaf.span());
        }
        // SAFETY: the second word of a dynamically sized leaf is its key's length, and the fourth its beginning.
        KeyRef::new(at, 24, unsafe { simt.load(at, 1, Hint::ReadOnly) } as u32)
    }

    /// Per thread. How many keys are below a leaf's.
    ///
    /// # Safety
    /// A leaf of the tree, whose places tell ranks.
    #[inline(always)]
    pub(crate) unsafe fn rank_of<S: Simt>(&self, simt: S, leaf: Link) -> u64 {
        if self.first != 0 {
            return leaf.index() - Link::from_bits(self.first).index();
        }
        let at = self.address(leaf).cast::<u64>();
        // SAFETY: the leaf's words, or its place among the ranks.
        unsafe {
            match leaf.kind() {
                LinkType::Leaf8 if self.ranks8.is_null() => leaf.index(),
                LinkType::Leaf8 => simt.load(self.ranks8, leaf.index(), Hint::ReadOnly),
                LinkType::Leaf16 => simt.load(at, offset_of!(Leaf16, rank) as u64 / 8, Hint::ReadOnly),
                LinkType::Leaf32 => simt.load(at, offset_of!(Leaf32, rank) as u64 / 8, Hint::ReadOnly),
                _ => simt.load(at, 2, Hint::ReadOnly),
            }
        }
    }

    /// Per thread. The link of the leaf of a rank.
    ///
    /// # Safety
    /// A rank below the tree's length.
    #[inline(always)]
    pub(crate) unsafe fn leaf_at<S: Simt>(&self, simt: S, rank: u64) -> Link {
        if self.first != 0 {
            return Link::from_bits(self.first).offset(rank);
        }
        // SAFETY: the caller's promise.
        Link::from_bits(unsafe { simt.load(self.order, rank, Hint::ReadOnly) })
    }

    /// Per thread. How the path to a node from `from` to `depth` compares with a query that agrees with it up to
    /// `from`.
    ///
    /// # Safety
    /// A node of the tree; `from` is at most the query's length.
    #[inline(always)]
    pub(crate) unsafe fn compare_path<S: Simt>(
        &self,
        simt: S,
        query: KeyRef,
        node: Link,
        from: u32,
        depth: u32,
    ) -> Path {
        let end = if depth < query.len() { depth } else { query.len() };
        let mut at = from;
        // SAFETY: the node's header, or a leaf under it, whose key is longer than the path.
        unsafe {
            let header = self.address(node).byte_add(offset_of!(Header, prefix) as u64).cast::<u64>();
            let path = if depth - from > PREFIX as u32 {
                let leaf = self.first_leaf(simt, node);
                self.leaf_key(simt, leaf)
            } else {
                // The path ends where the 12 bytes end, like a key of `depth` bytes that ends there. Nothing before the
                // node's bytes is read.
                KeyRef::new(header, u64::from(PREFIX as u32).wrapping_sub(u64::from(depth)), depth)
            };
            while at < end {
                let rest = end - at;
                let mask = first_bytes(rest);
                let (own, other) = (path.word(simt, at) & mask, query.word(simt, at) & mask);
                if own != other {
                    let below = own.swap_bytes() < other.swap_bytes();
                    return if below { Path::Below } else { Path::Above };
                }
                at += 8;
            }
        }
        Path::Along
    }
}

/// Per thread. How two strings compare: whether the first one is below, and whether it is equal.
///
/// # Safety
/// Both are strings that can be read.
#[inline(always)]
pub(crate) unsafe fn compare<S: Simt>(simt: S, a: KeyRef, b: KeyRef) -> (bool, bool) {
    let end = if a.len() < b.len() { a.len() } else { b.len() };
    let mut at = 0;
    while at < end {
        // SAFETY: the caller's promise.
        let (own, other) = unsafe { (a.word(simt, at), b.word(simt, at)) };
        let mask = first_bytes(end - at);
        if (own ^ other) & mask != 0 {
            return ((own & mask).swap_bytes() < (other & mask).swap_bytes(), false);
        }
        at += 8;
    }
    (a.len() < b.len(), a.len() == b.len())
}

/// Per thread. Whether a string begins with another.
///
/// # Safety
/// Both are strings that can be read.
#[inline(always)]
pub(crate) unsafe fn starts_with<S: Simt>(simt: S, key: KeyRef, prefix: KeyRef) -> bool {
    if key.len() < prefix.len() {
        return false;
    }
    let mut at = 0;
    while at < prefix.len() {
        // SAFETY: the caller's promise.
        let differences = unsafe { key.word(simt, at) ^ prefix.word(simt, at) };
        if differences & first_bytes(prefix.len() - at) != 0 {
            return false;
        }
        at += 8;
    }
    true
}
