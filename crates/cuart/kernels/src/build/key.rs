//! Keys as leaves hold them.

use crate::layout::{Leaf8, Leaf16, Leaf32, Link, LinkType, UNIT};
use crate::tree::TreeRef;
use lanetree_simt::{Global, Hint, Simt, lowest_one};

/// Bytes of a device leaf before its key.
const DEVICE_HEADER: u64 = 24;

/// A key in a leaf: 8-byte words, with zeros past its end.
#[derive(Clone, Copy)]
pub(super) struct LeafKey {
    words: Global<u64>,
    pub(super) len: u32,
}

/// Per thread. The link of the leaf of a rank.
///
/// # Safety
/// There is such a leaf.
#[inline(always)]
pub(super) unsafe fn leaf_at<S: Simt>(simt: S, tree: &TreeRef, rank: u32) -> Link {
    if tree.first != 0 {
        return Link::from_bits(tree.first).offset(u64::from(rank));
    }
    // SAFETY: the caller's promise.
    Link::from_bits(unsafe { simt.load(tree.order, u64::from(rank), Hint::ReadOnly) })
}

/// The address of a leaf on the device. By a chain of comparisons, which become selections if lanes differ; LLVM would
/// turn a `match` into a jump table.
#[inline(always)]
fn address(tree: &TreeRef, leaf: Link) -> Global<u64> {
    let kind = (leaf.bits() >> 60) as u32;
    let (mut base, mut shift) = (tree.device_leaves, const { lowest_one(UNIT as u64) });
    for (known, own, bits) in [
        (LinkType::Leaf8, tree.leaf8, const { lowest_one(size_of::<Leaf8>() as u64) }),
        (LinkType::Leaf16, tree.leaf16, const { lowest_one(size_of::<Leaf16>() as u64) }),
        (LinkType::Leaf32, tree.leaf32, const { lowest_one(size_of::<Leaf32>() as u64) }),
    ]
    .into_iter()
    .rev()
    {
        let is_known = kind <= known as u32;
        base = if is_known { own } else { base };
        shift = if is_known { bits } else { shift };
    }
    base.byte_add(leaf.index() << shift).cast()
}

#[expect(clippy::disallowed_methods, reason = "on the host, by its compiler")]
const _: () = {
    assert!(size_of::<Leaf8>().is_power_of_two() && size_of::<Leaf16>().is_power_of_two());
    assert!(size_of::<Leaf32>().is_power_of_two() && UNIT.is_power_of_two());
};

impl LeafKey {
    /// Per thread. The key of a leaf on the device.
    ///
    /// # Safety
    /// It is a leaf of the tree.
    #[inline(always)]
    pub(super) unsafe fn of<S: Simt>(simt: S, tree: &TreeRef, leaf: Link) -> Self {
        let at = address(tree, leaf);
        if leaf.kind() != LinkType::DeviceLeaf {
            return Self { words: at, len: leaf.span() };
        }
        let len = if leaf.span() < Link::LONG {
            leaf.span()
        } else {
            // SAFETY: the second word of a device leaf is the key's length.
            unsafe { simt.load(at, 1, Hint::ReadOnly) as u32 }
        };
        Self { words: at.byte_add(DEVICE_HEADER), len }
    }

    /// Per thread. The key of a rank.
    ///
    /// # Safety
    /// There is such a leaf.
    #[inline(always)]
    pub(super) unsafe fn at<S: Simt>(simt: S, tree: &TreeRef, rank: u32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::of(simt, tree, leaf_at(simt, tree, rank)) }
    }

    /// # Safety
    /// The word has a byte of the key.
    #[inline(always)]
    unsafe fn word<S: Simt>(self, simt: S, index: u32) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { simt.load(self.words, u64::from(index), Hint::ReadOnly) }
    }

    /// Per thread. The first 8 bytes, the first one lowest, zeros past the end.
    ///
    /// # Safety
    /// The key has a byte.
    #[inline(always)]
    pub(super) unsafe fn head<S: Simt>(self, simt: S) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.word(simt, 0) }
    }

    /// Per thread. One byte.
    ///
    /// # Safety
    /// `at < len`.
    #[inline(always)]
    pub(super) unsafe fn byte<S: Simt>(self, simt: S, at: u32) -> u32 {
        // SAFETY: the caller's promise.
        let word = unsafe { simt.load(self.words.cast::<u32>(), u64::from(at / 4), Hint::ReadOnly) };
        word >> (at % 4 * 8) & 0xff
    }

    /// Per thread. The last 8 bytes before `end`, the first one lowest, preceded by zeros if there are fewer.
    ///
    /// # Safety
    /// `end <= len`.
    #[inline(always)]
    pub(super) unsafe fn bytes_before<S: Simt>(self, simt: S, end: u32) -> u64 {
        if end == 0 {
            return 0;
        }
        // SAFETY: every word that is read has a byte before `end`.
        unsafe {
            if end <= 8 {
                return self.word(simt, 0) << (64 - 8 * end);
            }
            let (index, bits) = ((end - 8) / 8, end % 8 * 8);
            let word = self.word(simt, index);
            if bits == 0 { word } else { word >> bits | self.word(simt, index + 1) << (64 - bits) }
        }
    }

    /// Per thread. The length of the common prefix of two keys.
    ///
    /// # Safety
    /// They are keys of leaves.
    #[inline(always)]
    pub(super) unsafe fn common_prefix<S: Simt>(self, simt: S, other: Self) -> u32 {
        let len = if self.len < other.len { self.len } else { other.len };
        let words = len.div_ceil(8);
        let mut index = 0;
        while index < words {
            // SAFETY: both have a byte in the word.
            let differences = unsafe { self.word(simt, index) ^ other.word(simt, index) };
            if differences != 0 {
                let alike = 8 * index + lowest_one(differences) / 8;
                return if alike < len { alike } else { len };
            }
            index += 1;
        }
        len
    }
}
