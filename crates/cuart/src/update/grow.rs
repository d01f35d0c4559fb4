//! Children for nodes, and larger nodes for more children.

use super::edit::Edit;
use super::path::Slot;
use lanetree_kernels_cuart::layout::{Children, Link, LinkType, N16, N48, N256};

impl Edit<'_> {
    /// Links a leaf at the last slot of its key's path, which is empty.
    pub(super) fn add(&mut self, path: &[Slot], key: &[u8], leaf: Link) {
        let [above @ .., slot] = path else { return };
        let Some(byte) = slot.byte else {
            return self.link(*slot, key, leaf);
        };
        if !self.add_child(slot.node, byte, leaf)
            && let [.., above] = above
        {
            let larger = self.grow(slot.node, above.from, byte, leaf);
            self.link(*above, key, larger);
            self.give_back_node(slot.node);
        }
        self.enter(*slot, key, leaf);
    }

    /// Adds a child to a node if it has room; false if it has none.
    fn add_child(&mut self, node: Link, byte: u8, child: Link) -> bool {
        let index = node.index();
        match node.kind() {
            LinkType::N4 => self.n4.at(index).add(byte, child),
            LinkType::N16 => self.n16.at(index).add(byte, child),
            LinkType::N48 => self.n48.at(index).add(byte, child),
            _ => self.n256.at(index).add(byte, child),
        }
    }

    /// The node of the next larger type with the children of a full one and one more; its link is followed after `from`
    /// bytes.
    fn grow(&mut self, node: Link, from: usize, byte: u8, child: Link) -> Link {
        let tree = self.regions();
        let depth = tree.depth(node, from);
        let header = tree.header(node).copied().unwrap_or_default().without_children();
        let mut children = Children::default();
        children.fill(|from| tree.child_from(node, from));
        children.insert(byte, child);
        let (bytes, links) = (children.bytes(), children.links());
        let (kind, index) = match node.kind() {
            LinkType::N4 => {
                let index = self.n16.take();
                *self.n16.at(index) = N16::new(header, bytes, links);
                (LinkType::N16, index)
            }
            LinkType::N16 => {
                let index = self.n48.take();
                *self.n48.at(index) = N48::new(header, bytes, links);
                (LinkType::N48, index)
            }
            _ => {
                let index = self.n256.take();
                *self.n256.at(index) = N256::new(header, bytes, links);
                (LinkType::N256, index)
            }
        };
        Link::new(kind, depth - from, index)
    }
}
