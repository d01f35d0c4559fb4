//! What a pointer points to: a leaf, or a node of any of the four sizes.

use super::child::{Child, LEAF, Leaf, LeafHead, TAG, TAG_N4, TAG_N16, TAG_N48, TAG_N256, leaf_layout};
use super::node::{Head, N4, N16, N48, N256};
use core::mem;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use std::alloc::dealloc;

/// What a [`Child`] points to.
#[derive(Clone, Copy)]
pub(super) enum View<'a> {
    Leaf(Leaf<'a>),
    Node(NodeRef<'a>),
}

/// A node to read.
#[derive(Clone, Copy)]
pub(super) enum NodeRef<'a> {
    N4(&'a N4),
    N16(&'a N16),
    N48(&'a N48),
    N256(&'a N256),
}

impl<'a> NodeRef<'a> {
    #[inline(always)]
    pub(super) fn head(self) -> &'a Head {
        match self {
            Self::N4(node) => &node.head,
            Self::N16(node) => &node.head,
            Self::N48(node) => &node.head,
            Self::N256(node) => &node.head,
        }
    }

    #[inline(always)]
    pub(super) fn child(self, byte: u8) -> Option<&'a Child> {
        match self {
            Self::N4(node) => node.children[node.find(byte)?].as_ref(),
            Self::N16(node) => node.children[node.find(byte)?].as_ref(),
            Self::N48(node) => {
                let slot = usize::from(node.slots[usize::from(byte)]).checked_sub(1)?;
                node.children[slot].as_ref()
            }
            Self::N256(node) => node.children[usize::from(byte)].as_ref(),
        }
    }

    /// The children in ascending order of their bytes.
    pub(super) fn children(self) -> impl Iterator<Item = (u8, &'a Child)> + use<'a> {
        let sorted: &[u8] = match self {
            Self::N4(node) => &node.keys[..usize::from(node.head.count)],
            Self::N16(node) => &node.keys[..usize::from(node.head.count)],
            Self::N48(_) | Self::N256(_) => &[],
        };
        let all = sorted.is_empty().then_some(0..=u8::MAX);
        sorted.iter().copied().chain(all.into_iter().flatten()).filter_map(move |byte| Some((byte, self.child(byte)?)))
    }
}

/// A node to change.
pub(super) enum Node {
    N4(Box<N4>),
    N16(Box<N16>),
    N48(Box<N48>),
    N256(Box<N256>),
}

/// Runs a block on a node of any size.
macro_rules! with {
    ($node:expr, $name:ident => $block:expr) => {
        match $node {
            Node::N4($name) => $block,
            Node::N16($name) => $block,
            Node::N48($name) => $block,
            Node::N256($name) => $block,
        }
    };
}

impl Node {
    /// A node without children.
    pub(super) fn new(prefix: &[u8]) -> Self {
        let mut node = Box::<N4>::default();
        node.head.set_prefix(prefix);
        Self::N4(node)
    }

    fn head(&mut self) -> &mut Head {
        with!(self, node => &mut node.head)
    }

    /// Adds a child, or the leaf of the key that ends here.
    pub(super) fn place(&mut self, byte: Option<u8>, child: Child) {
        let Some(byte) = byte else {
            self.head().here = Some(child);
            return;
        };
        let count = self.head().count;
        match self {
            Self::N4(_) if count == 4 => self.become_other(Self::N16(Box::default())),
            Self::N16(_) if count == 16 => self.become_other(Self::N48(Box::default())),
            Self::N48(_) if count == 48 => self.become_other(Self::N256(Box::default())),
            _ => {}
        }
        with!(self, node => node.insert(byte, child));
    }

    /// Becomes a node of another size.
    fn become_other(&mut self, other: Self) {
        let old = mem::replace(self, other);
        self.move_from(old);
    }

    /// Takes all that another node has.
    fn move_from(&mut self, mut old: Self) {
        let bytes: Vec<u8> = (0..=u8::MAX).filter(|&byte| old.slot(byte).is_some_and(|slot| slot.is_some())).collect();
        for byte in bytes {
            if let Some(child) = old.slot(byte).and_then(Option::take) {
                with!(self, node => node.insert(byte, child));
            }
        }
        let head = mem::take(old.head());
        let count = self.head().count;
        *self.head() = Head { count, ..head };
    }

    fn slot(&mut self, byte: u8) -> Option<&mut Option<Child>> {
        match self {
            Self::N4(node) => node.slot(byte),
            Self::N16(node) => node.slot(byte),
            Self::N48(node) => node.slot(byte),
            Self::N256(node) => Some(&mut node.children[usize::from(byte)]),
        }
    }

    /// What is left without a child, or without the leaf of the key that ends here: a smaller node where it
    /// has become much too large, or the last entry itself.
    pub(super) fn without(mut self, byte: Option<u8>) -> Child {
        match byte {
            Some(byte) => with!(&mut self, node => node.remove(byte)),
            None => self.head().here = None,
        }
        let count = self.head().count;
        if count == 0
            && let Some(here) = self.head().here.take()
        {
            return here;
        }
        if count == 1 && self.head().here.is_none() {
            let last = (0..=u8::MAX).find_map(|byte| Some((byte, self.slot(byte)?.take()?)));
            let (byte, mut child) = last.expect("one child is left");
            child.prepend_prefix(self.head(), byte);
            return child;
        }
        // Smaller than the bounds of growth, so that a node does not go back and forth.
        let smaller = match &self {
            Self::N16(_) if count <= 3 => Some(Self::N4(Box::default())),
            Self::N48(_) if count <= 12 => Some(Self::N16(Box::default())),
            Self::N256(_) if count <= 36 => Some(Self::N48(Box::default())),
            _ => None,
        };
        if let Some(smaller) = smaller {
            self.become_other(smaller);
        }
        Child::node(self)
    }

    /// Moves all children out.
    pub(super) fn take_children(&mut self, out: &mut Vec<Child>) {
        let head = self.head();
        head.count = 0;
        out.extend(head.here.take());
        match self {
            Self::N4(node) => out.extend(node.children.iter_mut().filter_map(Option::take)),
            Self::N16(node) => out.extend(node.children.iter_mut().filter_map(Option::take)),
            Self::N48(node) => out.extend(node.children.iter_mut().filter_map(Option::take)),
            Self::N256(node) => out.extend(node.children.iter_mut().filter_map(Option::take)),
        }
    }
}

impl Child {
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

    /// A leaf's key, and its value for threads that write to it at the same time.
    ///
    /// # Safety
    /// It is a leaf, and as long as anybody has such a value, nobody reads or writes the leaf's value in another way.
    pub(super) unsafe fn shared_leaf(&self) -> (&[u8], &AtomicU64) {
        let head = self.block::<LeafHead>();
        // SAFETY: as in `view`; the value, an aligned word of a block that was allocated for writing, is accessed
        // atomically alone, and the length and the key are not written to.
        unsafe {
            let value = AtomicU64::from_ptr(&raw mut (*head.as_ptr()).value);
            let len = (&raw const (*head.as_ptr()).len).read();
            (NonNull::slice_from_raw_parts(head.add(1).cast::<u8>(), len).as_ref(), value)
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
