//! Links: the pointers of a tree of typed buffers.

use bytemuck::{Pod, Zeroable};
use core::fmt;

/// What a [`Link`] leads to, with the paper's numbers, including its two ways to store long keys.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// Nothing.
    None = 0,
    /// A node of up to 4 children.
    N4 = 1,
    /// A node of up to 16 children.
    N16 = 2,
    /// A node of up to 48 children.
    N48 = 3,
    /// A node of up to 256 children.
    N256 = 4,
    /// A leaf with a key of up to 8 bytes.
    Leaf8 = 5,
    /// A leaf with a key of up to 16 bytes.
    Leaf16 = 6,
    /// A leaf with a key of up to 32 bytes.
    Leaf32 = 7,
    /// A dynamically sized leaf; its index counts units of 16 bytes.
    DeviceLeaf = 8,
    /// A leaf in main memory, which the CPU compares.
    HostLeaf = 9,
}

impl LinkType {
    /// The node for that many children.
    #[inline(always)]
    pub const fn of_children(count: usize) -> Self {
        match count {
            0..=4 => Self::N4,
            5..=16 => Self::N16,
            17..=48 => Self::N48,
            _ => Self::N256,
        }
    }

    /// The type of the fixed-size leaf for a key of this many bytes; `None` if the key is too long for one.
    #[inline(always)]
    pub const fn of_key(len: usize) -> Option<Self> {
        match len {
            0..=8 => Some(Self::Leaf8),
            9..=16 => Some(Self::Leaf16),
            17..=32 => Some(Self::Leaf32),
            _ => None,
        }
    }

    /// Whether it is one of the four types of nodes.
    #[inline(always)]
    pub const fn is_node(self) -> bool {
        (self as u8).wrapping_sub(1) < 4
    }
}

/// A link: the type of what it leads to in the upper 4 bits, then 12 bits of *span*, then the index in the
/// buffer of that type. 0 is no link.
///
/// ```text
/// 63   60 59          48 47                                              0
/// ┌──────┬──────────────┬─────────────────────────────────────────────────┐
/// │ kind │ span         │ index                                           │
/// └──────┴──────────────┴─────────────────────────────────────────────────┘
/// ```
///
/// The span of a link to a node is the length of the node's prefix: the number of bytes between where the link is
/// followed and where the node branches. The span of a link to a leaf is the length of its key. A span of
/// [`Link::LONG`] means this length or more; the node or leaf itself has the exact length.
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Link(u64);

// SAFETY: a transparent wrapper of a `u64`, of which all bits may be zero.
unsafe impl Zeroable for Link {}
// SAFETY: as above; any bits are a link, though perhaps not a valid one, and there is no padding.
unsafe impl Pod for Link {}

const INDEX_BITS: u32 = 48;
const KIND_SHIFT: u32 = 60;

impl Link {
    /// No link.
    pub const NONE: Self = Self(0);
    /// The span that stands for this length and all larger ones.
    pub const LONG: u32 = 0xfff;
    /// The largest index.
    pub const MAX_INDEX: u64 = (1 << INDEX_BITS) - 1;

    /// The link to a node or leaf; `span` is the length of its prefix or key.
    #[inline(always)]
    pub const fn new(kind: LinkType, span: usize, index: u64) -> Self {
        debug_assert!(index <= Self::MAX_INDEX);
        let span = if span < Self::LONG as usize { span as u64 } else { Self::LONG as u64 };
        Self((kind as u64) << KIND_SHIFT | span << INDEX_BITS | index)
    }

    /// The link whose bits these are.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The link as a word.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether it leads nowhere.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// What the link leads to; [`LinkType::None`] also for bits that are not a link.
    #[inline(always)]
    pub const fn kind(self) -> LinkType {
        match self.0 >> KIND_SHIFT {
            1 => LinkType::N4,
            2 => LinkType::N16,
            3 => LinkType::N48,
            4 => LinkType::N256,
            5 => LinkType::Leaf8,
            6 => LinkType::Leaf16,
            7 => LinkType::Leaf32,
            8 => LinkType::DeviceLeaf,
            9 => LinkType::HostLeaf,
            _ => LinkType::None,
        }
    }

    /// The length of the node's prefix or of the leaf's key, if below [`Link::LONG`].
    #[inline(always)]
    pub const fn span(self) -> u32 {
        (self.0 >> INDEX_BITS) as u32 & Self::LONG
    }

    /// The index in the buffer of its type.
    #[inline(always)]
    pub const fn index(self) -> u64 {
        self.0 & Self::MAX_INDEX
    }

    /// The link to the element `by` places further on, with the same type and span.
    #[inline(always)]
    pub const fn offset(self, by: u64) -> Self {
        Self(self.0 + by)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            LinkType::None => write!(f, "Link({:#x})", self.0),
            kind => write!(f, "{kind:?}[{}; {}]", self.index(), self.span()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_keep_what_they_are_made_of() {
        use LinkType::*;
        for (number, kind) in (1_u8..).zip([N4, N16, N48, N256, Leaf8, Leaf16, Leaf32, DeviceLeaf, HostLeaf]) {
            assert_eq!(kind as u8, number, "the paper's numbers");
            let link = Link::new(kind, 17, Link::MAX_INDEX);
            assert_eq!((link.kind(), link.span(), link.index()), (kind, 17, Link::MAX_INDEX));
            assert_eq!(Link::from_bits(link.bits()), link);
            assert_eq!(kind.is_node(), number <= 4);
        }
        assert_eq!(Link::new(N4, 1 << 20, 3).span(), Link::LONG);
        assert!(Link::NONE.is_none() && Link::NONE.kind() == None && !None.is_node());
        assert_eq!(Link::from_bits(u64::MAX).kind(), None);
        assert_eq!(Link::new(Leaf32, 20, 5).offset(6), Link::new(Leaf32, 20, 11));
    }

    #[test]
    fn kinds_follow_from_numbers() {
        let kinds = [0, 4, 5, 16, 17, 48, 49, 256].map(LinkType::of_children);
        assert_eq!(
            kinds,
            [
                LinkType::N4,
                LinkType::N4,
                LinkType::N16,
                LinkType::N16,
                LinkType::N48,
                LinkType::N48,
                LinkType::N256,
                LinkType::N256
            ]
        );
        let leaves = [0, 8, 9, 16, 17, 32].map(|len| LinkType::of_key(len).unwrap());
        assert_eq!(
            leaves,
            [LinkType::Leaf8, LinkType::Leaf8, LinkType::Leaf16, LinkType::Leaf16, LinkType::Leaf32, LinkType::Leaf32]
        );
        assert_eq!(LinkType::of_key(33), None);
    }
}
