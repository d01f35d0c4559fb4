//! The four types of nodes.

use super::Link;
use bytemuck::{Pod, Zeroable};

/// Bytes of the path that a node holds.
pub const PREFIX: usize = 12;

/// The start of every node: one sector. The parent module has a drawing.
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The leaf of the key that ends here, or none.
    pub here: Link,
    /// Bytes of a key before the one that the node branches by.
    pub depth: u32,
    /// Slots that have a byte (in an N256, the links present), without `here`. A removed child keeps its slot, as a
    /// tombstone without a link, until the node grows or the host needs the room.
    pub count: u16,
    #[doc(hidden)]
    pub reserved: u16,
    /// The last bytes before `depth`, at the end of the array, preceded by zeros.
    pub prefix: [u8; PREFIX],
    /// The keys of an N4; zeros in other nodes.
    pub keys4: [u8; 4],
}

impl Header {
    /// The header of a node without children, at a depth up to which all its keys agree with `key`, which is at least
    /// that long.
    #[inline]
    pub fn new(key: &[u8], depth: usize, here: Link) -> Self {
        let mut prefix = [0; PREFIX];
        let kept = if depth < PREFIX { depth } else { PREFIX };
        prefix[PREFIX - kept..].copy_from_slice(&key[depth - kept..depth]);
        Self { here, depth: depth as u32, prefix, ..Self::default() }
    }

    /// The last `len` bytes before `depth`, or fewer if the node holds fewer.
    #[inline]
    pub fn prefix(&self, len: usize) -> &[u8] {
        &self.prefix[PREFIX - if len < PREFIX { len } else { PREFIX }..]
    }
}

/// A node of up to 4 children.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct N4 {
    /// The header, with the keys.
    pub header: Header,
    /// The children.
    pub links: [Link; 4],
}

/// A node of up to 16 children.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct N16 {
    /// The header.
    pub header: Header,
    /// The children's keys.
    pub keys: [u8; 16],
    #[doc(hidden)]
    pub reserved: [u8; 16],
    /// The children.
    pub links: [Link; 16],
}

/// A node of up to 48 children.
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct N48 {
    /// The header.
    pub header: Header,
    /// For each child's byte, 1 more than the index of its link; 0 if there is no child.
    pub slots: [u8; 256],
    /// The children.
    pub links: [Link; 48],
}

/// A node of up to 256 children.
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct N256 {
    /// The header.
    pub header: Header,
    /// The children, by their bytes.
    pub links: [Link; 256],
}

macro_rules! pod {
    ($($node:ty),*) => {$(
        // SAFETY: made of integers and arrays of integers, which may be all zero.
        unsafe impl Zeroable for $node {}
        // SAFETY: as above, and without padding: its fields' sizes add up to its own, as the tests check.
        unsafe impl Pod for $node {}
    )*};
}
pod!(Header, N4, N16, N48, N256);

impl Default for N48 {
    fn default() -> Self {
        Self::zeroed()
    }
}

impl Default for N256 {
    fn default() -> Self {
        Self::zeroed()
    }
}

/// The first of the keys that is `byte`: its slot.
#[inline(always)]
fn first_slot<const N: usize>(keys: &[u8; N], byte: u8) -> Option<usize> {
    let mut matches = 0_u32;
    for (slot, key) in keys.iter().enumerate() {
        matches |= u32::from(*key == byte) << slot;
    }
    (matches != 0).then(|| matches.trailing_zeros() as usize)
}

macro_rules! sorted_node {
    ($node:ident, |$it:ident| $keys:expr) => {
        impl $node {
            /// The child of a byte, or none.
            #[inline(always)]
            pub fn child(&self, byte: u8) -> Link {
                let $it = self;
                first_slot(&$keys, byte).map_or(Link::NONE, |slot| self.links[slot])
            }

            /// The child with the smallest byte that is not below `byte`.
            #[inline]
            pub fn child_from(&self, byte: u8) -> Option<(u8, Link)> {
                self.children().find(|child| child.0 >= byte)
            }

            /// The child with the largest byte that is not above `byte`.
            #[inline]
            pub fn child_to(&self, byte: u8) -> Option<(u8, Link)> {
                self.children().rev().find(|child| child.0 <= byte)
            }

            /// The children, without tombstones, in ascending order.
            #[inline]
            fn children(&self) -> impl DoubleEndedIterator<Item = (u8, Link)> {
                let $it = self;
                let count = usize::from(self.header.count).min(self.links.len());
                let slots = $keys[..count].iter().zip(&self.links[..count]);
                slots.map(|(&key, &link)| (key, link)).filter(|(_, link)| !link.is_none())
            }
        }
    };
}
sorted_node!(N4, |it| it.header.keys4);
sorted_node!(N16, |it| it.keys);

impl N48 {
    /// The child of a byte, or none.
    #[inline(always)]
    pub fn child(&self, byte: u8) -> Link {
        match self.slots[usize::from(byte)] {
            0 => Link::NONE,
            slot => self.links.get(usize::from(slot) - 1).copied().unwrap_or(Link::NONE),
        }
    }

    /// The child with the smallest byte that is not below `byte`.
    #[inline]
    pub fn child_from(&self, byte: u8) -> Option<(u8, Link)> {
        (byte..=u8::MAX).map(|byte| (byte, self.child(byte))).find(|(_, link)| !link.is_none())
    }

    /// The child with the largest byte that is not above `byte`.
    #[inline]
    pub fn child_to(&self, byte: u8) -> Option<(u8, Link)> {
        (0..=byte).rev().map(|byte| (byte, self.child(byte))).find(|(_, link)| !link.is_none())
    }
}

impl N256 {
    /// The child of a byte, or none.
    #[inline(always)]
    pub fn child(&self, byte: u8) -> Link {
        self.links[usize::from(byte)]
    }

    /// The child with the smallest byte that is not below `byte`.
    #[inline]
    pub fn child_from(&self, byte: u8) -> Option<(u8, Link)> {
        (byte..=u8::MAX).map(|byte| (byte, self.child(byte))).find(|(_, link)| !link.is_none())
    }

    /// The child with the largest byte that is not above `byte`.
    #[inline]
    pub fn child_to(&self, byte: u8) -> Option<(u8, Link)> {
        (0..=byte).rev().map(|byte| (byte, self.child(byte))).find(|(_, link)| !link.is_none())
    }
}

impl N4 {
    /// A node of the children of ascending bytes, at most 4 of them.
    #[inline]
    pub fn new(header: Header, bytes: &[u8], links: &[Link]) -> Self {
        let mut node = Self { header, ..Self::default() };
        node.header.count = bytes.len() as u16;
        fill_keys(&mut node.header.keys4, bytes);
        node.links[..links.len()].copy_from_slice(links);
        node
    }
}

impl N16 {
    /// A node of the children of ascending bytes, at most 16 of them.
    #[inline]
    pub fn new(header: Header, bytes: &[u8], links: &[Link]) -> Self {
        let mut node = Self { header, ..Self::default() };
        node.header.count = bytes.len() as u16;
        fill_keys(&mut node.keys, bytes);
        node.links[..links.len()].copy_from_slice(links);
        node
    }
}

impl N48 {
    /// A node of the children of ascending bytes, at most 48 of them.
    #[inline]
    pub fn new(header: Header, bytes: &[u8], links: &[Link]) -> Self {
        let mut node = Self { header, ..Self::default() };
        node.header.count = bytes.len() as u16;
        for (slot, &byte) in (1..).zip(bytes) {
            node.slots[usize::from(byte)] = slot;
        }
        node.links[..links.len()].copy_from_slice(links);
        node
    }
}

impl N256 {
    /// A node of the children of ascending bytes.
    #[inline]
    pub fn new(header: Header, bytes: &[u8], links: &[Link]) -> Self {
        let mut node = Self { header, ..Self::default() };
        node.header.count = bytes.len() as u16;
        for (&byte, &link) in bytes.iter().zip(links) {
            node.links[usize::from(byte)] = link;
        }
        node
    }
}

/// Slots after the last key repeat it.
#[inline]
fn fill_keys(keys: &mut [u8], bytes: &[u8]) {
    let last = bytes.last().copied().unwrap_or(0);
    keys.fill(last);
    keys[..bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::super::LinkType;
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn nodes_are_as_drawn() {
        assert_eq!((size_of::<Header>(), align_of::<Header>()), (32, 32));
        assert_eq!(
            (offset_of!(Header, depth), offset_of!(Header, count), offset_of!(Header, prefix)),
            (8, 12, 16),
            "8 + 4 + 2 + 2 + 12 + 4 bytes: no padding"
        );
        assert_eq!(offset_of!(Header, keys4), 28);
        assert_eq!((size_of::<N4>(), align_of::<N4>(), offset_of!(N4, links)), (32 + 32, 64, 32));
        assert_eq!((size_of::<N16>(), align_of::<N16>()), (32 + 16 + 16 + 128, 64));
        assert_eq!((offset_of!(N16, keys), offset_of!(N16, links)), (32, 64));
        assert_eq!((size_of::<N48>(), align_of::<N48>()), (32 + 256 + 48 * 8, 32));
        assert_eq!((offset_of!(N48, slots), offset_of!(N48, links)), (32, 288));
        assert_eq!((size_of::<N256>(), align_of::<N256>(), offset_of!(N256, links)), (32 + 256 * 8, 32, 32));
    }

    #[test]
    fn headers_hold_the_end_of_the_path() {
        let key = *b"abcdefghijklmnop";
        let header = Header::new(&key, 3, Link::NONE);
        assert_eq!((header.prefix(2), header.prefix(3)), (&b"bc"[..], &b"abc"[..]));
        let header = Header::new(&key, 15, Link::NONE);
        assert_eq!((header.prefix(1), header.prefix(15)), (&b"o"[..], &b"defghijklmno"[..]));
    }

    /// Every node finds its children, and no others, at any number of them.
    #[test]
    fn children_are_found() {
        extern crate std;
        use std::vec::Vec;
        let header = Header::new(b"", 0, Link::NONE);
        for count in 1..=256_usize {
            // 0 and 255 among them.
            let bytes: Vec<u8> = (0..count).map(|i| (i * 255 / (count - 1).max(1)) as u8).collect();
            let links: Vec<Link> = (0..count).map(|i| Link::new(LinkType::Leaf8, 1, i as u64)).collect();
            macro_rules! check {
                ($node:ident) => {{
                    let node = $node::new(header, &bytes, &links);
                    assert_eq!(usize::from(node.header.count), count);
                    for byte in 0..=255 {
                        let expected = bytes.binary_search(&byte).map_or(Link::NONE, |slot| links[slot]);
                        assert_eq!(node.child(byte), expected, "byte {byte} of {count}");
                        let from = bytes.partition_point(|&other| other < byte);
                        let expected = bytes.get(from).map(|&byte| (byte, links[from]));
                        assert_eq!(node.child_from(byte), expected, "from byte {byte} of {count}");
                    }
                    assert_eq!(node.child_to(255), Some((bytes[count - 1], links[count - 1])));
                }};
            }
            if count <= 4 {
                check!(N4);
            }
            if count <= 16 {
                check!(N16);
            }
            if count <= 48 {
                check!(N48);
            }
            check!(N256);
        }
    }
}
