//! Removing leaves (section 3.3 of the paper).

use super::edit::Edit;
use super::path::{End, Slot, descend};
use lanetree_kernels_cuart::layout::{Leaf8, Leaf16, Leaf32, Link, LinkType, device_leaf_units};

impl Edit<'_> {
    /// Removes a key that is present, and the nodes that then have no leaf: every node keeps at least one leaf below
    /// it, whose key gives the node's path.
    pub(super) fn remove(&mut self, key: &[u8], path: &mut Vec<Slot>) {
        self.remove_leaf(key, path);
        while let Some(slot) = path.pop() {
            if slot.is_root() || !self.is_vacant(slot.node) {
                return;
            }
            self.give_back_node(slot.node);
            if let Some(&above) = path.last() {
                self.link(above, key, Link::NONE);
            }
        }
    }

    /// Removes the leaf of a key that is present, and the link to it, and nothing else, as a device does. `path` then
    /// holds all slots on the way.
    pub(super) fn remove_leaf(&mut self, key: &[u8], path: &mut Vec<Slot>) {
        if let End::Leaf(leaf) = descend(&self.regions(), key, path)
            && let Some(&slot) = path.last()
        {
            self.clear(leaf);
            self.link(slot, key, Link::NONE);
        }
    }

    fn is_vacant(&self, node: Link) -> bool {
        let index = node.index() as usize;
        match node.kind() {
            LinkType::N4 => self.n4.elements[index].is_vacant(),
            LinkType::N16 => self.n16.elements[index].is_vacant(),
            LinkType::N48 => self.n48.elements[index].is_vacant(),
            _ => self.n256.elements[index].is_vacant(),
        }
    }

    /// Zeroes a leaf and gives it back.
    fn clear(&mut self, leaf: Link) {
        let index = leaf.index();
        match leaf.kind() {
            LinkType::Leaf8 => {
                *self.leaf8.at(index) = Leaf8::default();
                self.leaf8.give_back(index);
            }
            LinkType::Leaf16 => {
                *self.leaf16.at(index) = Leaf16::default();
                self.leaf16.give_back(index);
            }
            LinkType::Leaf32 => {
                *self.leaf32.at(index) = Leaf32::default();
                self.leaf32.give_back(index);
            }
            LinkType::DeviceLeaf => {
                let (long, first) = (&mut self.long, index as usize);
                let [_, len] = long.units[first];
                let units = first..first + device_leaf_units(len as usize);
                long.units[units.clone()].fill([0; 2]);
                // The length stays: code that reuses the leaf has to know its size.
                long.units[first] = [0, len];
                *long.free_units += units.len() as u64;
                *long.count -= 1;
                long.note(units);
                long.free.push(index);
            }
            _ => {
                let (host, at) = (self.host_mut(), index as usize);
                let bytes = host.offsets[at] as usize..host.offsets[at + 1] as usize;
                host.bytes[bytes].fill(0);
                host.values[at] = 0;
                host.free.push(index);
            }
        }
    }
}
