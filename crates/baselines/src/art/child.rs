//! Pointers to nodes and leaves: one word, the type in the lowest bits. All of the tree's unsafe code.

use super::node::{Head, N4, N16, N48, N256, Node, NodeRef};
use core::mem;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

/// The bits of an address that are the type: nodes and leaves are aligned to 8.
const TAG: usize = 7;
const LEAF: usize = 0;
const TAG_N4: usize = 1;
const TAG_N16: usize = 2;
const TAG_N48: usize = 3;
const TAG_N256: usize = 4;

/// An owned node or leaf.
pub(super) struct Child(NonNull<u8>);

// SAFETY: a `Child` owns what it points to, which is plain data and further such pointers.
unsafe impl Send for Child {}
// SAFETY: through a shared reference nothing is written.
unsafe impl Sync for Child {}

/// What a [`Child`] points to.
#[derive(Clone, Copy)]
pub(super) enum View<'a> {
    Leaf(Leaf<'a>),
    Node(NodeRef<'a>),
}

/// A leaf: one block of memory, so that a look-up reads it at once.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: u64,
}

/// What a leaf's block begins with; the key follows.
#[repr(C)]
struct LeafHead {
    value: u64,
    len: usize,
}

fn leaf_layout(len: usize) -> Layout {
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

    pub(super) fn node(node: Node) -> Self {
        fn tagged<T>(node: Box<T>, tag: usize) -> Child {
            const { assert!(align_of::<T>() > TAG) };
            let start = NonNull::from(Box::leak(node)).cast::<u8>();
            // Inside the block, which is larger than the tag.
            Child(start.map_addr(|address| address | tag))
        }
        match node {
            Node::N4(node) => tagged(node, TAG_N4),
            Node::N16(node) => tagged(node, TAG_N16),
            Node::N48(node) => tagged(node, TAG_N48),
            Node::N256(node) => tagged(node, TAG_N256),
        }
    }

    #[inline(always)]
    fn tag(&self) -> usize {
        self.0.addr().get() & TAG
    }

    /// The block, as a type that the tag says.
    #[inline(always)]
    fn block<T>(&self) -> NonNull<T> {
        // SAFETY: the tag was added to the block's address, which it does not lead out of.
        unsafe { self.0.sub(self.tag()) }.cast()
    }

    #[inline(always)]
    pub(super) fn view(&self) -> View<'_> {
        // SAFETY: the tag says what `leaf` or `node` put there, which lives as long as this owner, and nobody
        // writes to while it is borrowed.
        unsafe {
            match self.tag() {
                LEAF => {
                    let head = self.block::<LeafHead>();
                    let LeafHead { value, len } = *head.as_ref();
                    let key = NonNull::slice_from_raw_parts(head.add(1).cast::<u8>(), len);
                    View::Leaf(Leaf { key: key.as_ref(), value })
                }
                TAG_N4 => View::Node(NodeRef::N4(self.block::<N4>().as_ref())),
                TAG_N16 => View::Node(NodeRef::N16(self.block::<N16>().as_ref())),
                TAG_N48 => View::Node(NodeRef::N48(self.block::<N48>().as_ref())),
                _ => View::Node(NodeRef::N256(self.block::<N256>().as_ref())),
            }
        }
    }

    /// The head of a node; `None` for a leaf.
    fn head_mut(&mut self) -> Option<&mut Head> {
        // SAFETY: as in `view`; this owner is borrowed mutably, so nobody else accesses the node.
        unsafe {
            Some(match self.tag() {
                LEAF => return None,
                TAG_N4 => &mut self.block::<N4>().as_mut().head,
                TAG_N16 => &mut self.block::<N16>().as_mut().head,
                TAG_N48 => &mut self.block::<N48>().as_mut().head,
                _ => &mut self.block::<N256>().as_mut().head,
            })
        }
    }

    /// The slot of a node's child, which there is.
    pub(super) fn child_slot(&mut self, byte: u8) -> &mut Option<Child> {
        const CHILD: &str = "a child that was found";
        // SAFETY: as in `head_mut`.
        unsafe {
            match self.tag() {
                LEAF => unreachable!("leaves have no children"),
                TAG_N4 => self.block::<N4>().as_mut().slot(byte).expect(CHILD),
                TAG_N16 => self.block::<N16>().as_mut().slot(byte).expect(CHILD),
                TAG_N48 => self.block::<N48>().as_mut().slot(byte).expect(CHILD),
                _ => &mut self.block::<N256>().as_mut().children[usize::from(byte)],
            }
        }
    }

    /// Takes the node or, with `None`, the leaf apart; a leaf is given back.
    fn into_node(self) -> Result<Node, Self> {
        // SAFETY: the block was a box of that type, and is not this owner's any more.
        let node = unsafe {
            match self.tag() {
                LEAF => return Err(self),
                TAG_N4 => Node::N4(Box::from_raw(self.block().as_ptr())),
                TAG_N16 => Node::N16(Box::from_raw(self.block().as_ptr())),
                TAG_N48 => Node::N48(Box::from_raw(self.block().as_ptr())),
                _ => Node::N256(Box::from_raw(self.block().as_ptr())),
            }
        };
        mem::forget(self);
        Ok(node)
    }

    /// Sets the value of a leaf, or of a node's own leaf, and returns the one before.
    pub(super) fn set_value(&mut self, value: u64) -> u64 {
        if self.tag() != LEAF {
            let here = self.head_mut().and_then(|head| head.here.as_mut());
            return here.expect("a key that was found ends here").set_value(value);
        }
        // SAFETY: as in `head_mut`; the block of a leaf begins with its head.
        let head = unsafe { self.block::<LeafHead>().as_mut() };
        mem::replace(&mut head.value, value)
    }

    /// The length of a node's prefix; 0 for a leaf.
    pub(super) fn prefix_len(&self) -> usize {
        match self.view() {
            View::Leaf(_) => 0,
            View::Node(node) => node.head().prefix_len(),
        }
    }

    /// Sets a node's prefix.
    pub(super) fn set_prefix(&mut self, prefix: &[u8]) {
        if let Some(head) = self.head_mut() {
            head.set_prefix(prefix);
        }
    }

    /// Puts a node's parent's prefix and its own byte in front of its prefix.
    pub(super) fn prepend_prefix(&mut self, parent: &Head, byte: u8) {
        if let Some(head) = self.head_mut() {
            head.prepend(parent, byte);
        }
    }

    /// Any key below, or the leaf's own.
    pub(super) fn any_key(&self) -> &[u8] {
        let mut child = self;
        loop {
            let node = match child.view() {
                View::Leaf(leaf) => return leaf.key,
                View::Node(node) => node,
            };
            let first = node.head().here.as_ref().or_else(|| node.children().next().map(|(_, child)| child));
            child = first.expect("no node is empty");
        }
    }

    /// The node changed; a leaf as it is.
    pub(super) fn with_node(self, change: impl FnOnce(Node) -> Option<Node>) -> Self {
        match self.into_node() {
            Ok(node) => Self::node(change(node).expect("no node is empty")),
            Err(leaf) => leaf,
        }
    }

    /// A node without one of its children, or without its own leaf; what is left of it.
    pub(super) fn without(self, byte: Option<u8>) -> Self {
        match self.into_node() {
            Ok(node) => node.without(byte),
            Err(leaf) => leaf,
        }
    }

    /// Bytes of the node or leaf itself.
    pub(super) fn bytes(&self) -> usize {
        match self.view() {
            View::Leaf(leaf) => leaf_layout(leaf.key.len()).size(),
            View::Node(NodeRef::N4(_)) => size_of::<N4>(),
            View::Node(NodeRef::N16(_)) => size_of::<N16>(),
            View::Node(NodeRef::N48(_)) => size_of::<N48>(),
            View::Node(NodeRef::N256(_)) => size_of::<N256>(),
        }
    }
}

impl Drop for Child {
    /// Level by level, without recursion: a tree may be as deep as its longest key.
    fn drop(&mut self) {
        if self.tag() == LEAF {
            let View::Leaf(leaf) = self.view() else { return };
            let layout = leaf_layout(leaf.key.len());
            // SAFETY: allocated with this layout, and not reused.
            unsafe { dealloc(self.block::<u8>().as_ptr(), layout) };
            return;
        }
        let mut stack = vec![Self(self.0)];
        while let Some(child) = stack.pop() {
            if let Ok(mut node) = child.into_node() {
                node.take_children(&mut stack);
            }
        }
    }
}
