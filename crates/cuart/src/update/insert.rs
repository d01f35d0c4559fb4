//! Leaves that come.

use super::edit::{Edit, LongArea, Rooms};
use super::path::{End, Slot, descend};
use crate::leaves;
use core::mem::swap;
use lanetree_kernels_cuart::layout::{
    Header, Leaf8, Leaf16, Leaf32, Link, LinkType, N4, device_leaf_units, write_device_leaf,
};

impl Edit<'_> {
    /// Inserts a key that is not there.
    pub(super) fn insert(&mut self, key: &[u8], value: u64, path: &mut Vec<Slot>) {
        match descend(&self.regions(), key, path) {
            End::Leaf(leaf) => self.set_values(&[(leaf, value)]),
            End::Vacant => {
                let leaf = self.new_leaf(key, value);
                self.add(path, key, leaf);
            }
            End::Fork { at, old, byte } => {
                let leaf = self.new_leaf(key, value);
                let slot = path[path.len() - 1];
                self.fork(slot, key, at, (byte, old), leaf);
            }
        }
    }

    /// Puts a node at a slot, above the slot's current content and a key's leaf, which differ in byte `at`. If that
    /// content is a node, it is not written: its link has less to skip.
    fn fork(&mut self, slot: Slot, key: &[u8], at: usize, old: (Option<u8>, Link), leaf: Link) {
        let mut header = Header::new(key, at, Link::NONE);
        let mut children = [(0, Link::NONE); 2];
        let mut count = 0;
        for (byte, link) in [old, (key.get(at).copied(), leaf)] {
            match byte {
                Some(byte) => {
                    children[count] = (byte, link);
                    count += 1;
                }
                None => header.here = link,
            }
        }
        let [first, second] = &mut children;
        if count == 2 && second.0 < first.0 {
            swap(first, second);
        }
        let (bytes, links) = (children.map(|child| child.0), children.map(|child| child.1));
        let index = self.n4.take();
        *self.n4.at(index) = N4::new(header, &bytes[..count], &links[..count]);
        let node = Link::new(LinkType::N4, at - slot.from, index);
        self.link(slot, key, node);
        self.enter(Slot { node, byte: key.get(at).copied(), from: at + 1 }, key, leaf);
    }

    fn new_leaf(&mut self, key: &[u8], value: u64) -> Link {
        let kind = leaves::kind(key.len(), self.long_keys);
        let index = match kind {
            LinkType::Leaf8 => {
                let index = self.leaf8.take();
                *self.leaf8.at(index) = Leaf8::new(key, value);
                index
            }
            LinkType::Leaf16 => {
                let index = self.leaf16.take();
                *self.leaf16.at(index) = Leaf16::new(key, value, 0);
                index
            }
            LinkType::Leaf32 => {
                let index = self.leaf32.take();
                *self.leaf32.at(index) = Leaf32::new(key, value, 0);
                index
            }
            LinkType::DeviceLeaf => self.new_device_leaf(key, value),
            _ => self.new_host_leaf(key, value),
        };
        Link::new(kind, key.len(), index)
    }

    fn new_device_leaf(&mut self, key: &[u8], value: u64) -> u64 {
        let units = device_leaf_units(key.len());
        let long = &mut self.long;
        let index = match long.room(units) {
            Some(index) => {
                *long.free_units -= units as u64;
                index
            }
            None => long.take_units(units),
        };
        let first = index as usize;
        write_device_leaf(&mut long.units[first..first + units], key, value, 0);
        long.note(first..first + units);
        *long.count += 1;
        index
    }

    fn new_host_leaf(&mut self, key: &[u8], value: u64) -> u64 {
        if let Some(index) = self.host_room(key.len()) {
            let host = self.host_mut();
            let at = index as usize;
            let first = host.offsets[at] as usize;
            host.bytes[first..first + key.len()].copy_from_slice(key);
            host.values[at] = value;
            return index;
        }
        let host = self.host_mut();
        if host.offsets.is_empty() {
            host.offsets.push(0);
        }
        host.bytes.extend_from_slice(key);
        host.offsets.push(host.bytes.len() as u64);
        host.values.push(value);
        host.ranks.push(0);
        host.values.len() as u64 - 1
    }

    /// A free leaf in main memory for a key of exactly this many bytes.
    fn host_room(&mut self, bytes: usize) -> Option<u64> {
        if self.host_rooms.is_none() {
            let host = self.host();
            let len = |index: u64| (host.offsets[index as usize + 1] - host.offsets[index as usize]) as usize;
            self.host_rooms = Some(rooms(&host.free, len));
        }
        self.host_rooms.as_mut()?.get_mut(&bytes)?.pop()
    }

    /// Ends the changes: the long leaves that are still free are on their list again.
    pub(super) fn finish(mut self) {
        let long = &mut self.long;
        if let Some(rooms) = long.rooms.take() {
            long.free.clear();
            rooms.into_values().flatten().for_each(|index| long.free.push(index));
        }
        if let Some(rooms) = self.host_rooms.take() {
            self.host_mut().free = rooms.into_values().flatten().collect();
        }
    }
}

impl LongArea<'_> {
    /// A free leaf of exactly this many units.
    fn room(&mut self, units: usize) -> Option<u64> {
        let Self { units: all, free, .. } = self;
        // A cleared leaf keeps its length.
        let of = |leaf: u64| device_leaf_units(all[leaf as usize][1] as usize);
        self.rooms.get_or_insert_with(|| rooms(free.as_slice(), of)).get_mut(&units)?.pop()
    }
}

/// Free leaves by their sizes.
fn rooms(free: &[u64], size: impl Fn(u64) -> usize) -> Rooms {
    let mut rooms = Rooms::new();
    for &leaf in free {
        rooms.entry(size(leaf)).or_default().push(leaf);
    }
    rooms
}
