//! Pointers to nodes and leaves: one word, the type in the lowest bits. The tree's unsafe code is here and in
//! [`target`](super::target), which says what they point to.

use core::ptr::NonNull;
use std::alloc::{Layout, alloc, handle_alloc_error};

/// The bits of an address that are the type: nodes and leaves are aligned to 8.
pub(super) const TAG: usize = 7;
pub(super) const LEAF: usize = 0;
pub(super) const TAG_N4: usize = 1;
pub(super) const TAG_N16: usize = 2;
pub(super) const TAG_N48: usize = 3;
pub(super) const TAG_N256: usize = 4;

/// An owned node or leaf.
pub(super) struct Child(pub(super) NonNull<u8>);

// SAFETY: a `Child` owns what it points to, which is plain data and further such pointers.
unsafe impl Send for Child {}
// SAFETY: through a shared reference nothing is written.
unsafe impl Sync for Child {}

/// A leaf: one block of memory, so that a look-up reads it at once.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: u64,
}

/// What a leaf's block begins with; the key follows.
#[repr(C)]
pub(super) struct LeafHead {
    pub(super) value: u64,
    pub(super) len: usize,
}

/// The layout of a leaf's block, for a key of `len` bytes.
pub(super) fn leaf_layout(len: usize) -> Layout {
    let bytes = size_of::<LeafHead>() + len;
    Layout::from_size_align(bytes, align_of::<LeafHead>()).expect("a key that is in memory")
}

impl Child {
    pub(super) fn leaf(key: &[u8], value: u64) -> Self {
        let layout = leaf_layout(key.len());
        // SAFETY: the layout's size is not zero, since the head is part of it.
        let Some(block) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        // SAFETY: the block has room for the head and then the key, and is aligned for the head.
        unsafe {
            block.cast::<LeafHead>().write(LeafHead { value, len: key.len() });
            block.add(size_of::<LeafHead>()).copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
        }
        Self(block)
    }

    /// The type of what it points to: [`LEAF`] or one of the others.
    #[inline(always)]
    pub(super) fn tag(&self) -> usize {
        self.0.addr().get() & TAG
    }

    /// The block, as a type that the tag says.
    #[inline(always)]
    pub(super) fn block<T>(&self) -> NonNull<T> {
        // SAFETY: the tag was added to the block's address, which it does not lead out of.
        unsafe { self.0.sub(self.tag()) }.cast()
    }
}
