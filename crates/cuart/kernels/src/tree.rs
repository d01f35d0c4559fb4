//! The tree as a kernel sees it, and how to follow its links.

use crate::layout::{Header, Leaf8, Leaf16, Leaf32, Link, LinkType, N4, N16, N48, N256, UNIT};
use core::mem::offset_of;
use lanetree_simt::{Global, Hint, Simt, first_equal, kernel_args};

/// Threads of a block, in every kernel of this crate that does not say otherwise.
pub const THREADS: u32 = 256;

kernel_args! {
    /// A tree on the device: passed to kernels by value. One buffer per region of [`Regions`](crate::layout::Regions);
    /// nodes and leaves are buffers of bytes.
    pub struct TreeRef {
        /// Nodes of up to 4 children.
        pub n4: Global<u8>,
        /// Nodes of up to 16 children.
        pub n16: Global<u8>,
        /// Nodes of up to 48 children.
        pub n48: Global<u8>,
        /// Nodes of up to 256 children.
        pub n256: Global<u8>,
        /// Leaves of keys of up to 8 bytes.
        pub leaf8: Global<u8>,
        /// Leaves of keys of up to 16 bytes.
        pub leaf16: Global<u8>,
        /// Leaves of keys of up to 32 bytes.
        pub leaf32: Global<u8>,
        /// Dynamically sized leaves.
        pub device_leaves: Global<u8>,
        /// The root table; null if there is none.
        pub table: Global<u64>,
        /// The ranks of `leaf8`; null if they are the indexes.
        pub ranks8: Global<u64>,
        /// The links of all leaves by rank; null if `first` tells them.
        pub order: Global<u64>,
        /// The topmost link's bits; 0 in an empty tree.
        pub root: u64,
        /// The bits of the link to the leaf of rank 0, if the leaves of the other ranks follow it in order; otherwise
        /// 0.
        pub first: u64,
        /// Keys.
        pub len: u64,
        /// How many bytes of a key index the root table: 2 or 3; 0 if there is none.
        pub table_bytes: u32,
        #[doc(hidden)]
        pub padding: u32,
    }
}

impl TreeRef {
    /// The address of a node, or of a leaf on the device.
    ///
    /// By a chain of comparisons, which become selections: LLVM would turn a `match` into a table in memory and a jump
    /// by it.
    #[inline(always)]
    pub(crate) fn address(&self, link: Link) -> Global<u8> {
        let number = number(link);
        let mut base = self.device_leaves;
        for (kind, own) in [
            (LinkType::Leaf32, self.leaf32),
            (LinkType::Leaf16, self.leaf16),
            (LinkType::Leaf8, self.leaf8),
            (LinkType::N256, self.n256),
            (LinkType::N48, self.n48),
            (LinkType::N16, self.n16),
            (LinkType::N4, self.n4),
        ] {
            base = if number <= kind as u32 { own } else { base };
        }
        base.byte_add(link.index() * (UNIT as u64 * of_kind(&STRIDES, number)))
    }

    /// Per thread. Where the search for a key begins: a link, and how many bytes of the key lie before it.
    /// `key` has the first 8 bytes of it, the first one lowest.
    ///
    /// # Safety
    /// The tree is valid; the hint holds for its table.
    #[inline(always)]
    pub(crate) unsafe fn start<S: Simt>(&self, simt: S, key: u64, len: u32, hint: Hint) -> (Link, u32) {
        if self.table_bytes == 0 || len < self.table_bytes {
            return (Link::from_bits(self.root), 0);
        }
        let index = key.swap_bytes() >> (64 - 8 * self.table_bytes);
        // SAFETY: there is an entry for every beginning of a key.
        (Link::from_bits(unsafe { simt.load(self.table, index, hint) }), self.table_bytes)
    }

    /// Per thread. The position in a key where a node branches, if its link is followed after the first `from` bytes.
    ///
    /// # Safety
    /// A link to a node of the tree; the hint holds for it.
    #[inline(always)]
    pub(crate) unsafe fn depth<S: Simt>(&self, simt: S, node: Link, from: u32, hint: Hint) -> u32 {
        if node.span() < Link::LONG {
            return from + node.span();
        }
        let header = self.address(node).byte_add(offset_of!(Header, depth) as u64).cast::<u32>();
        // SAFETY: the node's header.
        unsafe { simt.load(header, 0, hint) }
    }

    /// Per thread. The leaf of the key that ends at a node, or none.
    ///
    /// # Safety
    /// A link to a node of the tree; the hint holds for it.
    #[inline(always)]
    pub(crate) unsafe fn here<S: Simt>(&self, simt: S, node: Link, hint: Hint) -> Link {
        let header = self.address(node).byte_add(offset_of!(Header, here) as u64).cast::<u64>();
        // SAFETY: the node's header.
        Link::from_bits(unsafe { simt.load(header, 0, hint) })
    }

    /// Per thread. The child of a node for a byte, or none.
    ///
    /// Lanes of a warp are at nodes of different types. They all take the same path through the code: they read 16
    /// bytes that say where the link is (or hold it), then the link. With a branch per type the warp would run one
    /// branch after another; so the result for each type is computed, and one is selected.
    ///
    /// # Safety
    /// A link to a node of the tree; the hint holds for it.
    #[inline(always)]
    pub(crate) unsafe fn child<S: Simt>(&self, simt: S, node: Link, byte: u32, hint: Hint) -> Link {
        let number = number(node);
        let (is_n4, is_n16, is_n256) =
            (number == LinkType::N4 as u32, number == LinkType::N16 as u32, number == LinkType::N256 as u32);
        let at = self.address(node);
        let within = if is_n256 { 8 * (byte & !1) } else { byte & !15 };
        let within = if is_n4 || is_n16 { 0 } else { within };
        let probe = UNIT as u64 * of_kind(&PROBES, number) + u64::from(within);
        // SAFETY: the vector lies in the node, on a 16-byte boundary.
        let words = unsafe { simt.load_vector(at.byte_add(probe).cast::<u64>(), 0, hint) };
        // In an N4, the keys are the vector's last four bytes; nothing relevant follows them.
        let in_n4 = first_equal(words[1] >> 32, byte);
        let (low, high) = (first_equal(words[0], byte), first_equal(words[1], byte));
        let in_n16 = if low < 8 { low } else { 8 + high };
        let word = if byte & 8 == 0 { words[0] } else { words[1] };
        let in_n48 = ((word >> (8 * (byte & 7))) as u32 & 0xff).wrapping_sub(1);
        let slot = if is_n4 { in_n4 } else { in_n48 };
        let slot = if is_n16 { in_n16 } else { slot };
        let capacity = if is_n4 { 4 } else { 48 };
        let capacity = if is_n16 { 16 } else { capacity };
        if is_n256 {
            return Link::from_bits(if byte & 1 == 0 { words[0] } else { words[1] });
        }
        if slot >= capacity {
            return Link::NONE;
        }
        let links = UNIT as u64 * of_kind(&LINKS, number);
        // SAFETY: the slot is one of the node's.
        Link::from_bits(unsafe { simt.load(at.byte_add(links).cast::<u64>(), u64::from(slot), hint) })
    }
}

/// The number of a link's kind.
#[inline(always)]
pub(crate) fn number(link: Link) -> u32 {
    (link.bits() >> 60) as u32
}

/// A byte for each kind of node or leaf on the device, from N4 on.
type ByKind = u64;

/// The byte of a kind.
#[inline(always)]
fn of_kind(bytes: &ByKind, number: u32) -> u64 {
    (bytes >> ((8 * (number - 1)) & 63)) & 0xff
}

/// Units of 16 bytes of an element, for each type.
const fn in_units(bytes: [usize; 8]) -> ByKind {
    let (mut packed, mut kind) = (0, 0);
    while kind < 8 {
        assert!(bytes[kind].is_multiple_of(UNIT) && bytes[kind] / UNIT < 256);
        packed |= ((bytes[kind] / UNIT) as u64) << (8 * kind);
        kind += 1;
    }
    packed
}

/// Bytes of an element.
const STRIDES: ByKind = in_units([
    size_of::<N4>(),
    size_of::<N16>(),
    size_of::<N48>(),
    size_of::<N256>(),
    size_of::<Leaf8>(),
    size_of::<Leaf16>(),
    size_of::<Leaf32>(),
    UNIT,
]);

/// Where a node says which slot is which child's, or where its links are; in an N4 this is after its path.
const PROBES: ByKind = in_units([
    offset_of!(Header, prefix),
    offset_of!(N16, keys),
    offset_of!(N48, slots),
    offset_of!(N256, links),
    0,
    0,
    0,
    0,
]);

/// Where a node's links begin.
const LINKS: ByKind = in_units([
    offset_of!(N4, links),
    offset_of!(N16, links),
    offset_of!(N48, links),
    offset_of!(N256, links),
    0,
    0,
    0,
    0,
]);
