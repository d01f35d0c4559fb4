//! The four sizes of nodes.

use super::child::Child;

/// Bytes of its prefix that a node holds.
pub(super) const PREFIX: usize = 12;

/// What every node begins with.
#[derive(Default)]
pub(super) struct Head {
    /// The leaf of the key that ends here.
    pub(super) here: Option<Child>,
    prefix_len: u32,
    count: u16,
    prefix: [u8; PREFIX],
}

impl Head {
    #[inline(always)]
    pub(super) fn prefix_len(&self) -> usize {
        self.prefix_len as usize
    }

    /// The prefix, or its first bytes.
    #[inline(always)]
    pub(super) fn stored_prefix(&self) -> &[u8] {
        &self.prefix[..self.prefix_len().min(PREFIX)]
    }

    pub(super) fn set_prefix(&mut self, prefix: &[u8]) {
        let stored = prefix.len().min(PREFIX);
        self.prefix_len = prefix.len() as u32;
        self.prefix[..stored].copy_from_slice(&prefix[..stored]);
    }

    /// Puts the prefix of a parent, and the byte that led on from there, in front.
    pub(super) fn prepend(&mut self, parent: &Head, byte: u8) {
        let len = parent.prefix_len + 1 + self.prefix_len;
        let mut path = [parent.stored_prefix(), &[byte], self.stored_prefix()].concat();
        path.truncate(PREFIX);
        self.set_prefix(&path);
        self.prefix_len = len;
    }
}

macro_rules! sorted_node {
    ($node:ident, $slots:literal) => {
        #[derive(Default)]
        pub(super) struct $node {
            pub(super) head: Head,
            keys: [u8; $slots],
            children: [Option<Child>; $slots],
        }

        impl $node {
            #[inline(always)]
            fn find(&self, byte: u8) -> Option<usize> {
                let matches = self
                    .keys
                    .iter()
                    .enumerate()
                    .fold(0_u32, |matches, (slot, &key)| matches | u32::from(key == byte) << slot);
                let matches = matches & ((1 << self.head.count) - 1);
                (matches != 0).then(|| matches.trailing_zeros() as usize)
            }

            pub(super) fn slot(&mut self, byte: u8) -> Option<&mut Option<Child>> {
                self.find(byte).map(|slot| &mut self.children[slot])
            }

            fn insert(&mut self, byte: u8, child: Child) {
                let count = usize::from(self.head.count);
                let slot = self.keys[..count].partition_point(|&key| key < byte);
                self.keys[slot..=count].rotate_right(1);
                self.children[slot..=count].rotate_right(1);
                (self.keys[slot], self.children[slot]) = (byte, Some(child));
                self.head.count += 1;
            }

            fn remove(&mut self, byte: u8) {
                let Some(slot) = self.find(byte) else { return };
                let count = usize::from(self.head.count);
                self.children[slot] = None;
                self.keys[slot..count].rotate_left(1);
                self.children[slot..count].rotate_left(1);
                self.head.count -= 1;
            }
        }
    };
}
sorted_node!(N4, 4);
sorted_node!(N16, 16);

pub(super) struct N48 {
    pub(super) head: Head,
    /// 1 more than a child's slot; 0 for none.
    slots: [u8; 256],
    children: [Option<Child>; 48],
}

impl Default for N48 {
    fn default() -> Self {
        Self { head: Head::default(), slots: [0; 256], children: [const { None }; 48] }
    }
}

impl N48 {
    pub(super) fn slot(&mut self, byte: u8) -> Option<&mut Option<Child>> {
        let slot = usize::from(self.slots[usize::from(byte)]).checked_sub(1)?;
        Some(&mut self.children[slot])
    }

    fn insert(&mut self, byte: u8, child: Child) {
        let free = self.children.iter().position(Option::is_none).expect("there is room");
        self.children[free] = Some(child);
        self.slots[usize::from(byte)] = free as u8 + 1;
        self.head.count += 1;
    }

    fn remove(&mut self, byte: u8) {
        if let Some(slot) = self.slot(byte) {
            *slot = None;
            self.slots[usize::from(byte)] = 0;
            self.head.count -= 1;
        }
    }
}

pub(super) struct N256 {
    pub(super) head: Head,
    pub(super) children: [Option<Child>; 256],
}

impl Default for N256 {
    fn default() -> Self {
        Self { head: Head::default(), children: [const { None }; 256] }
    }
}

impl N256 {
    fn insert(&mut self, byte: u8, child: Child) {
        self.children[usize::from(byte)] = Some(child);
        self.head.count += 1;
    }

    fn remove(&mut self, byte: u8) {
        if self.children[usize::from(byte)].take().is_some() {
            self.head.count -= 1;
        }
    }
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
        let old = core::mem::replace(self, other);
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
        let head = core::mem::take(old.head());
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
