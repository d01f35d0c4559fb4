//! The path from the root to where a key is or would be.

use crate::native::View;
use crate::nodes::common_prefix;
use lanetree_kernels_cuart::layout::{Link, Regions};

/// A place for a link: the root's, a node's for a child, or a node's for the key that ends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// The node; none for the root's place.
    pub(super) node: Link,
    /// The child's byte.
    pub(super) byte: Option<u8>,
    /// Bytes of the key in front of it.
    pub(super) from: usize,
}

impl Slot {
    const ROOT: Self = Self { node: Link::NONE, byte: None, from: 0 };

    pub(super) fn is_root(&self) -> bool {
        self.node.is_none()
    }

    /// Whether it is for the key that ends at the node.
    pub(super) fn is_here(&self) -> bool {
        !self.is_root() && self.byte.is_none()
    }
}

/// What is at the last slot of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The key's leaf.
    Leaf(Link),
    /// Nothing, or nodes without leaves.
    Vacant,
    /// The slot's content differs from the key in byte `at`, or one of them ends there.
    Fork {
        at: usize,
        /// The slot's content, as linked from a node that branches there.
        old: Link,
        /// Its byte there; none for a leaf whose key ends there.
        byte: Option<u8>,
    },
}

/// Goes from the root to the slot where a key's leaf is or would be. `path` is then all slots that the key
/// passes, the root's first.
pub(super) fn descend(tree: &Regions<'_>, key: &[u8], path: &mut Vec<Slot>) -> End {
    path.clear();
    path.push(Slot::ROOT);
    let (mut link, mut from) = (tree.root, 0);
    loop {
        let Some(header) = tree.header(link) else {
            let Some(leaf) = tree.leaf(link) else { return End::Vacant };
            let at = from + common_prefix(&leaf.key[from..], &key[from..]);
            if at == key.len() && at == leaf.key.len() {
                return End::Leaf(link);
            }
            return End::Fork { at, old: link, byte: leaf.key.get(at).copied() };
        };
        let depth = tree.depth(link, from);
        let len = depth - from;
        let path_bytes = if len <= header.prefix.len() {
            header.prefix(len)
        } else {
            // If no leaf is left below, a longer path is unknown.
            let Some(leaf) = View::new(*tree).first_under(link) else { return End::Vacant };
            &leaf.key[from..depth]
        };
        let alike = common_prefix(path_bytes, &key[from..]);
        if alike < len {
            let at = from + alike;
            let old = Link::new(link.kind(), depth - at - 1, link.index());
            return End::Fork { at, old, byte: Some(path_bytes[alike]) };
        }
        let byte = key.get(depth).copied();
        let (child, after) = match byte {
            Some(byte) => (tree.child(link, byte), depth + 1),
            None => (header.here, depth),
        };
        path.push(Slot { node: link, byte, from: after });
        (link, from) = (child, after);
    }
}
