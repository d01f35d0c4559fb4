//! The adaptive radix tree as Leis et al. describe it (ICDE 2013): nodes of four sizes that lie wherever the
//! allocator put them, path compression, lazy expansion. What CuART is compared with on a CPU, and mapped
//! from as in its paper.

mod child;
mod map;
mod node;
mod target;

pub use map::{CuartBuffers, LongLeaves};

use child::{Child, LEAF};
use core::sync::atomic::Ordering;
use lanetree_base::parallel::*;
use node::PREFIX;
use target::{Node, NodeRef, View};

/// Queries of one task, out of `queries`: a thread's share where these are few, as in CuART on the CPU.
pub fn task(queries: usize) -> usize {
    queries.div_ceil(threads()).clamp(1 << 8, 1 << 12)
}

/// An adaptive radix tree from byte strings, of any length and prefixes of each other, to numbers.
///
/// ```
/// use lanetree_baselines::art::Art;
///
/// let mut art = Art::default();
/// assert_eq!(art.insert(b"car", 1), None);
/// assert_eq!(art.insert(b"cargo", 2), None);
/// assert_eq!(art.insert(b"car", 3), Some(1));
/// assert_eq!((art.get(b"car"), art.get(b"ca"), art.len()), (Some(3), None, 2));
/// assert!(art.iter().eq([(&b"car"[..], 3), (b"cargo", 2)]));
/// assert_eq!(art.remove(b"car"), Some(3));
/// ```
#[derive(Default)]
pub struct Art {
    root: Option<Child>,
    len: usize,
}

/// What an insertion does at the node or leaf that it has come to.
enum Insert {
    SetValue,
    SplitLeaf { common: usize },
    SplitPath { common: usize },
    SetHere,
    AddChild { byte: u8 },
    Descend { byte: u8 },
}

impl Art {
    /// Of pairs in any order; of equal keys, the last one's value is kept.
    pub fn new<K: AsRef<[u8]>>(pairs: impl IntoIterator<Item = (K, u64)>) -> Self {
        let mut art = Self::default();
        for (key, value) in pairs {
            art.insert(key.as_ref(), value);
        }
        art
    }

    /// Keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        match self.leaf_of(key)?.view() {
            View::Leaf(leaf) => (leaf.key == key).then_some(leaf.value),
            View::Node(_) => None,
        }
    }

    /// The leaf that the way of a key leads to: of that key, or of another one that begins alike.
    #[inline(always)]
    fn leaf_of(&self, key: &[u8]) -> Option<&Child> {
        let mut depth = 0;
        let mut next = self.root.as_ref();
        while let Some(child) = next {
            // Threads may be writing to a leaf's value, so it is not read here.
            if child.tag() == LEAF {
                return Some(child);
            }
            let View::Node(node) = child.view() else { return Some(child) };
            let head = node.head();
            let len = head.prefix_len();
            if len > 0 {
                // What of a long prefix the node does not hold is compared at the leaf.
                if key.len() < depth + len || !key[depth..].starts_with(head.stored_prefix()) {
                    return None;
                }
                depth += len;
            }
            next = match key.get(depth) {
                Some(&byte) => node.child(byte),
                None => head.here.as_ref(),
            };
            depth += 1;
            // A key that ends at a node goes on to a leaf, where no depth is needed.
            depth = depth.min(key.len());
        }
        None
    }

    /// Sets the values of keys, by all threads at the same time: operation `i` of `count` sets the value of `key(i)`,
    /// if the key is there, to `change(i)`: in the upper half a number above the numbers of all operations before it,
    /// in the lower half the new value. An atomic maximum of both in the leaf keeps the last operation's value, in
    /// whatever order threads come to it.
    pub fn update_in_order<'k>(
        &mut self,
        count: usize,
        key: impl Fn(usize) -> &'k [u8] + Sync,
        change: impl Fn(usize) -> (u32, u32) + Sync,
    ) {
        let (tree, len) = (&*self, task(count));
        (0..count.div_ceil(len)).into_par_iter().for_each(|part| {
            for i in part * len..count.min((part + 1) * len) {
                let key = key(i);
                let Some(leaf) = tree.leaf_of(key) else { continue };
                // SAFETY: the tree is borrowed mutably, and all threads write to values in this way alone.
                let (found, value) = unsafe { leaf.shared_leaf() };
                if found == key {
                    let (number, new) = change(i);
                    value.fetch_max(u64::from(number) << 32 | u64::from(new), Ordering::Relaxed);
                }
            }
        });
    }

    /// Sets `out[i]` to the value of `key(i)`, in parallel.
    pub fn get_into<'k>(&self, key: impl Fn(usize) -> &'k [u8] + Sync, out: &mut [Option<u64>]) {
        let len = task(out.len());
        out.par_chunks_mut(len).enumerate().for_each(|(task, out)| {
            for (i, out) in out.iter_mut().enumerate() {
                *out = self.get(key(task * len + i));
            }
        });
    }

    /// Sets the value of a key, and returns the one that it had.
    pub fn insert(&mut self, key: &[u8], value: u64) -> Option<u64> {
        let mut depth = 0;
        let mut slot = &mut self.root;
        while let Some(change) = slot.as_ref().map(|child| decide_insert(child, key, depth)) {
            match change {
                Insert::SetValue => return slot.as_mut().map(|child| child.set_value(value)),
                Insert::Descend { byte } => {
                    let child = slot.as_mut().expect("it was there just now");
                    depth += child.prefix_len() + 1;
                    slot = child.child_slot(byte);
                }
                change => {
                    self.len += 1;
                    apply_insert(slot, change, key, depth, value);
                    return None;
                }
            }
        }
        *slot = Some(Child::leaf(key, value));
        self.len += 1;
        None
    }

    /// Removes a key, and returns the value that it had.
    pub fn remove(&mut self, key: &[u8]) -> Option<u64> {
        let value = remove(&mut self.root, key)?;
        self.len -= 1;
        Some(value)
    }

    /// All pairs in ascending order of their keys.
    pub fn iter(&self) -> Iter<'_> {
        Iter { stack: self.root().into_iter().collect() }
    }

    /// The topmost node or leaf, to walk the tree from.
    pub fn root(&self) -> Option<ArtRef<'_>> {
        self.root.as_ref().map(ArtRef::new)
    }

    /// Bytes of all nodes and leaves, without what the allocator adds.
    pub fn bytes(&self) -> usize {
        let mut bytes = 0;
        let mut stack: Vec<&Child> = self.root.iter().collect();
        while let Some(child) = stack.pop() {
            bytes += child.bytes();
            if let View::Node(node) = child.view() {
                stack.extend(node.head().here.iter());
                stack.extend(node.children().map(|(_, child)| child));
            }
        }
        bytes
    }
}

fn decide_insert(child: &Child, key: &[u8], depth: usize) -> Insert {
    let node = match child.view() {
        View::Leaf(leaf) if leaf.key == key => return Insert::SetValue,
        View::Leaf(leaf) => return Insert::SplitLeaf { common: common_prefix(&leaf.key[depth..], &key[depth..]) },
        View::Node(node) => node,
    };
    let head = node.head();
    let len = head.prefix_len();
    let mut common = common_prefix(head.stored_prefix(), &key[depth..]);
    if common == PREFIX && len > PREFIX {
        common = common_prefix(&child.any_key()[depth..depth + len], &key[depth..]);
    }
    if common < len {
        return Insert::SplitPath { common };
    }
    match key.get(depth + len) {
        Some(&byte) if node.child(byte).is_some() => Insert::Descend { byte },
        Some(&byte) => Insert::AddChild { byte },
        None if head.here.is_some() => Insert::SetValue,
        None => Insert::SetHere,
    }
}

/// Makes room for a new leaf at a slot in use.
fn apply_insert(slot: &mut Option<Child>, change: Insert, key: &[u8], depth: usize, value: u64) {
    let Some(mut old) = slot.take() else { return };
    let leaf = Child::leaf(key, value);
    *slot = Some(match change {
        Insert::SplitLeaf { common } => {
            let at = depth + common;
            let old_byte = old.any_key().get(at).copied();
            let mut node = Node::new(&key[depth..at]);
            node.place(old_byte, old);
            node.place(key.get(at).copied(), leaf);
            Child::node(node)
        }
        Insert::SplitPath { common } => {
            let at = depth + common;
            let end = depth + old.prefix_len();
            let path = old.any_key()[at..end].to_vec();
            old.set_prefix(&path[1..]);
            let mut node = Node::new(&key[depth..at]);
            node.place(Some(path[0]), old);
            node.place(key.get(at).copied(), leaf);
            Child::node(node)
        }
        Insert::AddChild { byte } => old.with_node(|mut node| {
            node.place(Some(byte), leaf);
            Some(node)
        }),
        Insert::SetHere => old.with_node(|mut node| {
            node.place(None, leaf);
            Some(node)
        }),
        Insert::SetValue | Insert::Descend { .. } => old,
    });
}

fn remove(mut slot: &mut Option<Child>, key: &[u8]) -> Option<u64> {
    let mut depth = 0;
    loop {
        let child = slot.as_ref()?;
        let node = match child.view() {
            View::Leaf(leaf) => {
                let value = (leaf.key == key).then_some(leaf.value)?;
                *slot = None;
                return Some(value);
            }
            View::Node(node) => node,
        };
        let head = node.head();
        depth += head.prefix_len();
        let byte = key.get(depth).copied();
        let next = match byte {
            Some(byte) => node.child(byte)?,
            None => head.here.as_ref()?,
        };
        match (next.view(), byte) {
            (View::Leaf(leaf), _) => {
                let value = (leaf.key == key).then_some(leaf.value)?;
                let old = slot.take()?;
                *slot = Some(old.without(byte));
                return Some(value);
            }
            (View::Node(_), Some(byte)) => {
                depth += 1;
                slot = slot.as_mut()?.child_slot(byte);
            }
            (View::Node(_), None) => return None,
        }
    }
}

/// The length of the common prefix of two strings.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// A node or leaf of a tree, to walk it.
#[derive(Clone, Copy)]
pub enum ArtRef<'a> {
    /// A leaf: its key and value.
    Leaf(&'a [u8], u64),
    /// A node.
    Node(ArtNode<'a>),
}

impl<'a> ArtRef<'a> {
    fn new(child: &'a Child) -> Self {
        match child.view() {
            View::Leaf(leaf) => Self::Leaf(leaf.key, leaf.value),
            View::Node(node) => Self::Node(ArtNode(node)),
        }
    }
}

/// A node of a tree, to walk it.
#[derive(Clone, Copy)]
pub struct ArtNode<'a>(NodeRef<'a>);

impl<'a> ArtNode<'a> {
    /// Bytes that all keys below have in common, from where the node is linked.
    pub fn prefix_len(&self) -> usize {
        self.0.head().prefix_len()
    }

    /// The prefix, or as many of its first bytes as the node holds: 12.
    pub fn stored_prefix(&self) -> &'a [u8] {
        self.0.head().stored_prefix()
    }

    /// The leaf of the key that ends here.
    pub fn here(&self) -> Option<ArtRef<'a>> {
        self.0.head().here.as_ref().map(ArtRef::new)
    }

    /// The children in ascending order of their bytes.
    pub fn children(&self) -> impl Iterator<Item = (u8, ArtRef<'a>)> + use<'a> {
        self.0.children().map(|(byte, child)| (byte, ArtRef::new(child)))
    }
}

/// Iterates over a tree's pairs in ascending order of their keys.
#[derive(Clone)]
pub struct Iter<'a> {
    stack: Vec<ArtRef<'a>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], u64);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.stack.pop()? {
                ArtRef::Leaf(key, value) => return Some((key, value)),
                ArtRef::Node(node) => {
                    let from = self.stack.len();
                    self.stack.extend(node.here());
                    self.stack.extend(node.children().map(|(_, child)| child));
                    self.stack[from..].reverse();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
