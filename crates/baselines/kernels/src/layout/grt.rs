//! GRT, the adaptive radix tree in one untyped buffer (Alam et al., HPCC 2016), as the CuART paper describes its
//! starting point and competitor (Koppehel et al., ICPP 2021, sections 2.1, 3.1 and 3.2.1, figures 1 and 2): CuART's
//! baseline.
//!
//! ```text
//! the buffer: a node, then all that lies below it, in the order of the keys; the root at 0, tightly packed
//! ┌──────────┬──────┬─────────────┬───────┬────────┬── ... ──┬─────────┬──────┐
//! │ N16      │ leaf │ N4          │ leaf  │ leaf   │         │ N4      │ leaf │
//! └──────────┴──────┴─────────────┴───────┴────────┴── ... ──┴─────────┴──────┘
//! 0
//!
//! header, the first 24 bytes of every node; in words of 8 bytes, numbers are byte offsets
//! 0               8               16              24
//! ┌───────┬──┬──┬─┬───────────────┬───────────────┐
//! │ length│ty│co│p│ prefix 0..8   │ here          │   ty: type, co: count, p: prefix 8..10
//! └───────┴──┴──┴─┴───────────────┴───────────────┘
//! 0       4  5  6
//!
//! N4, 64 bytes                     up to 4 children
//! ┌────────┬───────┬───────────────────────────────┐
//! │ header │keys, 0│ 4 links                       │
//! └────────┴───────┴───────────────────────────────┘
//! 0        24      32                              64
//!
//! N16, 168 bytes                   5 to 16 children
//! ┌────────┬───────────────┬──────────── ... ──────┐
//! │ header │ 16 keys       │ 16 links              │
//! └────────┴───────────────┴──────────── ... ──────┘
//! 0        24              40                      168
//!
//! N48, 664 bytes                   17 to 48 children
//! ┌────────┬────────────── ... ────┬────── ... ────┐
//! │ header │ a slot for each byte  │ 48 links      │   slot 0: no child; slot s: link s - 1
//! └────────┴────────────── ... ────┴────── ... ────┘
//! 0        24                      280             664
//!
//! N256, 2072 bytes                 49 to 256 children
//! ┌────────┬────────────────────── ... ────────────┐
//! │ header │ a link for each byte                  │
//! └────────┴────────────────────── ... ────────────┘
//! 0        24                                      2072
//!
//! leaf, dynamically sized          8 n + 24 bytes
//! ┌───────┬──┬────┬── ... ─────────┬───────┬───────┐
//! │ length│ty│ 0  │ key, zeros     │ value │ stamp │
//! └───────┴──┴────┴── ... ─────────┴───────┴───────┘
//! 0       4  5    8                8 + 8 n 16 + 8 n
//! ```
//!
//! * **A link is a byte offset** into the buffer, 64 bits wide, and does not say what it leads to: the *type* is in the
//!   header at that offset. So a look-up reads a header, and only then knows what to read next: at least two accesses
//!   per node, and the second depends on the first. This is exactly what CuART avoids. Since the root is never a child,
//!   link 0 means none.
//! * **Tightly packed** means to 8 bytes, for links of 8 bytes that a GPU can read at once. Nodes and leaves may
//!   straddle sectors and lines.
//! * **length** is that of the prefix (path compression): bytes that all keys below have in common, from
//!   where the node is linked. The header holds the first 10 of them, one less than CuART's in its paper,
//!   which won the type's byte. A look-up compares these and skips the others, like ART's hybrid of its pessimistic and
//!   optimistic variants; the leaf, which holds the whole key, decides.
//! * **here** links the leaf of the key that ends at the node, if there is one: so any byte may be in a key,
//!   and a key may be a prefix of others.
//! * **count** is the number of children, without `here`; 256 is written as 0, and never read. Keys of N4 and N16
//!   ascend, followed by zeros.
//! * A leaf's **length** is its key's; a key takes at least one word, so that the first 16 bytes at any link can be
//!   read and are never written. Values are 64 bits wide; 32-bit values use the low half.
//! * **stamp** is the number of the update that wrote the value, counted over all batches from 1 on, or 0;
//!   if its highest bit is set, [`LOCKED`], a thread is about to write the value. In the CuART paper updates of GRT are
//!   globally visible and atomic (section 4.5), but it does not say how. A lock in the leaf that also records the last
//!   update needs no second buffer and no words wider than 64 bits.

/// Bytes of its prefix that a node holds.
pub const PREFIX: usize = 10;

/// Byte offset in a node of the first 8 bytes of its prefix.
pub const PREFIX_OFFSET: u64 = 8;

/// Byte offset in a node of the link to the leaf of the key that ends there.
pub const HERE_OFFSET: u64 = 16;

/// Byte offset in a node of what follows its header: keys, slots or links.
pub const KEYS_OFFSET: u64 = 24;

/// Byte offset in a leaf of its key.
pub const LEAF_KEY_OFFSET: u64 = 8;

/// The bit of a stamp that says that the leaf's value is being written.
pub const LOCKED: u64 = 1 << 63;

/// The type of a header: a number, with arithmetic on it. The device's compiler would turn a `match` into a table in
/// memory or an indirect branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeType(u32);

impl NodeType {
    /// A node of up to 4 children.
    pub const N4: Self = Self(1);
    /// A node of up to 16 children.
    pub const N16: Self = Self(2);
    /// A node of up to 48 children.
    pub const N48: Self = Self(3);
    /// A node of up to 256 children.
    pub const N256: Self = Self(4);
    /// A leaf.
    pub const LEAF: Self = Self(5);

    /// The smallest node for that many children.
    #[inline]
    pub const fn of_children(count: usize) -> Self {
        match count {
            0..=4 => Self::N4,
            5..=16 => Self::N16,
            17..=48 => Self::N48,
            _ => Self::N256,
        }
    }

    /// One of four numbers of 16 bits: of an N256, an N4, an N16 or an N48, the first one lowest.
    #[inline(always)]
    const fn choose(self, of: [u64; 4]) -> u64 {
        (of[0] | of[1] << 16 | of[2] << 32 | of[3] << 48) >> (16 * (self.0 & 3)) & 0xffff
    }

    /// Byte offset in a node of its first link to a child.
    #[inline(always)]
    pub const fn links_offset(self) -> u64 {
        self.choose([KEYS_OFFSET, KEYS_OFFSET + 8, KEYS_OFFSET + 16, KEYS_OFFSET + 256])
    }

    /// Byte offset in a node of the word that says where the link of a byte's child is: the keys, (an N16 has a second
    /// word after it), or the slot; or of the link itself.
    #[inline(always)]
    pub const fn probe_offset(self, byte: u32) -> u64 {
        let scaled = (byte as u64) << if self.0 == Self::N256.0 { 3 } else { 0 };
        KEYS_OFFSET + (scaled & self.choose([0xff << 3, 0, 0, 0xff & !7]))
    }

    /// Bytes of a node; of a leaf, [`leaf_bytes`].
    #[inline]
    pub const fn node_bytes(self) -> u64 {
        self.links_offset() + 8 * self.choose([256, 4, 16, 48])
    }
}

/// The first 8 bytes of a node or leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header(u64);

impl Header {
    /// The header of a node with a number of children: its first word, and the first 8 bytes of the prefix. `prefix`
    /// has the whole prefix, or more than [`PREFIX`] bytes of it.
    pub fn node(kind: NodeType, children: usize, prefix_len: u32, prefix: &[u8]) -> [u64; 2] {
        let mut stored = [0; 16];
        let kept = prefix.len().min(PREFIX);
        stored[..kept].copy_from_slice(&prefix[..kept]);
        let [first, after] = [0, 8].map(|from| stored[from..from + 8].iter().rev().fold(0, push_byte));
        let count = u64::from(children as u8);
        [u64::from(prefix_len) | u64::from(kind.0) << 32 | count << 40 | after << 48, first]
    }

    /// The header of a leaf with a key of that many bytes.
    #[inline]
    pub const fn leaf(len: u32) -> Self {
        Self(len as u64 | (NodeType::LEAF.0 as u64) << 32)
    }

    /// From the bits in the buffer.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// As they lie in the buffer.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Bytes of a node's prefix, or of a leaf's key.
    #[inline(always)]
    pub const fn len(self) -> u32 {
        self.0 as u32
    }

    /// Whether a node has no prefix, or a leaf an empty key.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// What it is of.
    #[inline(always)]
    pub const fn kind(self) -> NodeType {
        NodeType((self.0 >> 32) as u32 & 0xff)
    }

    /// Children of a node; of 256, 0.
    #[inline(always)]
    pub const fn count(self) -> u32 {
        (self.0 >> 40) as u32 & 0xff
    }

    /// The prefix's bytes from the eighth on, the first one lowest: as many as a node holds.
    #[inline(always)]
    pub const fn prefix_rest(self) -> u64 {
        self.0 >> 48
    }
}

fn push_byte(word: u64, byte: &u8) -> u64 {
    word << 8 | u64::from(*byte)
}

/// Byte offset in a leaf of its value.
#[inline(always)]
pub const fn leaf_value_offset(key_len: u32) -> u64 {
    let padded = (key_len as u64 + 7) & !7;
    LEAF_KEY_OFFSET + if padded == 0 { 8 } else { padded }
}

/// Byte offset in a leaf of its stamp.
#[inline(always)]
pub const fn leaf_stamp_offset(key_len: u32) -> u64 {
    leaf_value_offset(key_len) + 8
}

/// Bytes of a leaf.
#[inline(always)]
pub const fn leaf_bytes(key_len: u32) -> u64 {
    leaf_stamp_offset(key_len) + 8
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [NodeType; 4] = [NodeType::N4, NodeType::N16, NodeType::N48, NodeType::N256];

    #[test]
    fn nodes_and_leaves_are_as_drawn() {
        assert_eq!(NODES.map(NodeType::node_bytes), [64, 168, 664, 2072]);
        assert_eq!(NODES.map(NodeType::links_offset), [32, 40, 280, 24]);
        assert_eq!([0, 1, 8, 9, 32, 33].map(leaf_value_offset), [16, 16, 16, 24, 40, 48]);
        assert_eq!([0, 8, 16, 32].map(leaf_bytes), [32, 32, 40, 56]);
        for kind in NODES {
            assert_eq!((kind.node_bytes() % 8, kind.links_offset() % 8), (0, 0), "{kind:?}");
        }
    }

    #[test]
    fn probes_lead_to_keys_slots_and_links() {
        for byte in 0..256 {
            let slot = KEYS_OFFSET + u64::from(byte / 8 * 8);
            let expected = [KEYS_OFFSET, KEYS_OFFSET, slot, KEYS_OFFSET + 8 * u64::from(byte)];
            assert_eq!(NODES.map(|kind| kind.probe_offset(byte)), expected, "byte {byte}");
        }
    }

    #[test]
    fn headers_say_what_they_were_told() {
        for (kind, children) in [(NodeType::N4, 1), (NodeType::N16, 16), (NodeType::N48, 48), (NodeType::N256, 255)] {
            assert_eq!(NodeType::of_children(children), kind);
            let [word, first] = Header::node(kind, children, 12, b"abcdefghijkl");
            let header = Header::from_bits(word);
            assert_eq!((header.kind(), header.count(), header.len()), (kind, children as u32, 12));
            assert_eq!((&first.to_le_bytes(), header.prefix_rest()), (b"abcdefgh", 0x6a69));
            let [word, first] = Header::node(kind, children, 3, b"abc");
            assert_eq!((Header::from_bits(word).len(), &first.to_le_bytes()), (3, b"abc\0\0\0\0\0"));
        }
        for len in [0, 7, u32::MAX] {
            let header = Header::from_bits(Header::leaf(len).bits());
            assert_eq!((header.kind(), header.len(), header.is_empty()), (NodeType::LEAF, len, len == 0));
        }
    }

    #[test]
    fn the_first_16_bytes_of_a_leaf_are_not_written() {
        for len in 0..70 {
            assert!(leaf_value_offset(len) >= 16 && leaf_value_offset(len) >= LEAF_KEY_OFFSET + u64::from(len));
        }
    }
}
