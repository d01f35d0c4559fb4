//! A tree's buffers, to be written: links, root table, free lists.

use super::path::Slot;
use crate::LongKeys;
use crate::leaves::HostBuffers;
use crate::parts::Parts;
use crate::region::{FreeList, Region, Unit};
use bytemuck::Pod;
use core::ops::Range;
use lanetree_kernels_cuart::layout::{
    HostLeaves, Leaf8, Leaf16, Leaf32, Link, LinkType, N4, N16, N48, N256, Regions, table_index,
};
use std::collections::BTreeMap;

/// A free list that the CPU writes.
pub(super) struct Free<'a> {
    indexes: &'a mut [u64],
    len: &'a mut usize,
    /// The first entry of the list that was written.
    log: Option<&'a mut usize>,
}

impl<'a> Free<'a> {
    fn new(list: &'a mut FreeList, log: Option<&'a mut usize>) -> Self {
        Self { indexes: list.indexes.as_mut_slice().expect(HOST), len: &mut list.len, log }
    }

    pub(super) fn as_slice(&self) -> &[u64] {
        &self.indexes[..*self.len]
    }

    fn note(&mut self, entry: usize) {
        if let Some(log) = &mut self.log {
            **log = entry.min(**log);
        }
    }

    fn pop(&mut self) -> Option<u64> {
        let last = self.len.checked_sub(1)?;
        self.note(last);
        *self.len = last;
        Some(self.indexes[last])
    }

    /// There is room, as reserved.
    pub(super) fn push(&mut self, index: u64) {
        self.note(*self.len);
        self.indexes[*self.len] = index;
        *self.len += 1;
    }

    pub(super) fn clear(&mut self) {
        self.note(0);
        *self.len = 0;
    }
}

/// A region whose buffer the CPU writes.
pub(super) struct Area<'a, T> {
    pub(super) elements: &'a mut [T],
    used: &'a mut usize,
    free: Free<'a>,
    log: Option<&'a mut Vec<u64>>,
}

impl<T> Area<'_, T> {
    /// An element that is going to be written.
    pub(super) fn at(&mut self, index: u64) -> &mut T {
        self.note(index);
        &mut self.elements[index as usize]
    }

    pub(super) fn note(&mut self, index: u64) {
        if let Some(log) = &mut self.log {
            log.push(index);
        }
    }

    /// The index of an unused element. There is one, since it was reserved.
    pub(super) fn take(&mut self) -> u64 {
        self.free.pop().unwrap_or_else(|| {
            *self.used += 1;
            *self.used as u64 - 1
        })
    }

    /// Puts an element on the free list, which has reserved room.
    pub(super) fn give_back(&mut self, index: u64) {
        self.free.push(index);
    }
}

/// The free leaves of various sizes: the leaves of each size, in the owner's units.
pub(super) type Rooms = BTreeMap<usize, Vec<u64>>;

/// The leaves of dynamic size, whose buffer the CPU writes.
pub(super) struct LongArea<'a> {
    pub(super) units: &'a mut [Unit],
    used: &'a mut usize,
    pub(super) count: &'a mut u64,
    pub(super) free: Free<'a>,
    pub(super) free_units: &'a mut u64,
    /// The free leaves by their units, made when one is first needed; from then on the list is out of date until the
    /// end.
    pub(super) rooms: Option<Rooms>,
    log: Option<&'a mut Vec<u64>>,
}

impl LongArea<'_> {
    pub(super) fn note(&mut self, units: Range<usize>) {
        if let Some(log) = &mut self.log {
            log.extend(units.map(|unit| unit as u64));
        }
    }

    /// The first of some units past the used ones.
    pub(super) fn take_units(&mut self, units: usize) -> u64 {
        *self.used += units;
        (*self.used - units) as u64
    }
}

/// The indexes of written elements, in the order of the writes.
#[derive(Default)]
pub struct WrittenElements {
    pub(crate) n4: Vec<u64>,
    pub(crate) n16: Vec<u64>,
    pub(crate) n48: Vec<u64>,
    pub(crate) n256: Vec<u64>,
    pub(crate) leaf8: Vec<u64>,
    pub(crate) leaf16: Vec<u64>,
    pub(crate) leaf32: Vec<u64>,
    pub(crate) units: Vec<u64>,
    pub(crate) table: Vec<u64>,
    /// The first written entry of each free list: of nodes and leaves in the order above.
    pub(crate) free: WrittenFreeLists,
    /// Whether leaves in main memory were written.
    pub(crate) host_leaves: bool,
}

/// The first written entry of each free list: of nodes of each type, and of leaves.
pub(crate) struct WrittenFreeLists(pub(crate) [usize; 8]);

impl Default for WrittenFreeLists {
    fn default() -> Self {
        Self([usize::MAX; 8])
    }
}

/// A tree that is being changed.
pub(super) struct Edit<'a> {
    pub(super) root: &'a mut Link,
    pub(super) n4: Area<'a, N4>,
    pub(super) n16: Area<'a, N16>,
    pub(super) n48: Area<'a, N48>,
    pub(super) n256: Area<'a, N256>,
    pub(super) leaf8: Area<'a, Leaf8>,
    pub(super) leaf16: Area<'a, Leaf16>,
    pub(super) leaf32: Area<'a, Leaf32>,
    pub(super) long: LongArea<'a>,
    pub(super) host: &'a mut HostBuffers,
    host_log: Option<&'a mut bool>,
    /// The free leaves in main memory by the length of their keys, made when one is first needed.
    pub(super) host_rooms: Option<Rooms>,
    pub(super) long_keys: LongKeys,
    table: &'a mut [Link],
    table_bytes: u32,
    table_log: Option<&'a mut Vec<u64>>,
}

/// Where a tree that is changed lies: in main memory.
pub(super) const HOST: &str = "trees are changed on the host only";

impl<'a> Edit<'a> {
    pub(super) fn new(tree: &'a mut Parts, long_keys: LongKeys, changes: Option<&'a mut WrittenElements>) -> Self {
        let (nodes, leaves) = (&mut tree.nodes, &mut tree.leaves);
        let (logs, free, host_log) = match changes {
            Some(changes) => {
                let (logs, free, host_leaves) = changes.logs();
                (logs.map(Some), free.each_mut().map(Some), Some(host_leaves))
            }
            None => ([const { None }; 9], [const { None }; 8], None),
        };
        let [n4, n16, n48, n256, leaf8, leaf16, leaf32, units, table] = logs;
        let [free4, free16, free48, free256, free_leaf8, free_leaf16, free_leaf32, free_long] = free;
        let long = &mut leaves.long;
        Self {
            root: &mut tree.root,
            n4: area(&mut nodes.n4, n4, free4),
            n16: area(&mut nodes.n16, n16, free16),
            n48: area(&mut nodes.n48, n48, free48),
            n256: area(&mut nodes.n256, n256, free256),
            leaf8: area(&mut leaves.leaf8, leaf8, free_leaf8),
            leaf16: area(&mut leaves.leaf16, leaf16, free_leaf16),
            leaf32: area(&mut leaves.leaf32, leaf32, free_leaf32),
            long: LongArea {
                units: long.units.as_mut_slice().expect(HOST),
                used: &mut long.used,
                count: &mut long.count,
                free: Free::new(&mut long.free, free_long),
                free_units: &mut long.free_units,
                rooms: None,
                log: units,
            },
            host: &mut leaves.host,
            host_log,
            host_rooms: None,
            long_keys,
            table: tree.table.as_mut_slice().expect(HOST),
            table_bytes: tree.table_bytes,
            table_log: table,
        }
    }

    /// The tree as it is now. Without ranks.
    pub(super) fn regions(&self) -> Regions<'_> {
        Regions {
            root: *self.root,
            n4: self.n4.elements,
            n16: self.n16.elements,
            n48: self.n48.elements,
            n256: self.n256.elements,
            leaf8: self.leaf8.elements,
            leaf16: self.leaf16.elements,
            leaf32: self.leaf32.elements,
            device_leaves: self.long.units,
            host_leaves: HostLeaves {
                offsets: &self.host.offsets,
                bytes: &self.host.bytes,
                values: &self.host.values,
                ranks: &self.host.ranks,
            },
            ..Regions::default()
        }
    }

    /// WrittenElements the link of an existing slot, and of the table with it. `key` is a key whose path passes the slot.
    pub(super) fn link(&mut self, slot: Slot, key: &[u8], link: Link) {
        let (node, index) = (slot.node, slot.node.index());
        match (node.kind(), slot.byte) {
            (LinkType::N4, Some(byte)) => _ = self.n4.at(index).set(byte, link),
            (LinkType::N16, Some(byte)) => _ = self.n16.at(index).set(byte, link),
            (LinkType::N48, Some(byte)) => _ = self.n48.at(index).set(byte, link),
            (LinkType::N256, Some(byte)) => _ = self.n256.at(index).set(byte, link),
            (LinkType::N4, None) => self.n4.at(index).header.here = link,
            (LinkType::N16, None) => self.n16.at(index).header.here = link,
            (LinkType::N48, None) => self.n48.at(index).header.here = link,
            (LinkType::N256, None) => self.n256.at(index).header.here = link,
            _ => *self.root = link,
        }
        self.enter(slot, key, link);
    }

    /// Sets the root table's entry for the link of a slot, if it has one: if the link is followed before the table's
    /// last byte or right after it, and what it leads to begins after that byte.
    pub(super) fn enter(&mut self, slot: Slot, key: &[u8], link: Link) {
        let bytes = self.table_bytes as usize;
        // The leaf of a key that ends at a node is found through the node.
        if slot.is_here() || slot.from > bytes {
            return;
        }
        let index = match (self.table_bytes, key) {
            (2, [a, b, ..]) => table_index(*a, *b, None),
            (3, [a, b, c, ..]) => table_index(*a, *b, Some(*c)),
            _ => return,
        };
        let mut entry = link;
        if link.kind().is_node() {
            let depth = self.regions().depth(link, slot.from);
            if depth < bytes {
                return;
            }
            entry = Link::new(link.kind(), depth - bytes, link.index());
        }
        self.table[index] = entry;
        if let Some(log) = &mut self.table_log {
            log.push(index as u64);
        }
    }

    /// The leaves in main memory, as they are.
    pub(super) fn host(&self) -> &HostBuffers {
        self.host
    }

    /// The leaves in main memory, to be written.
    pub(super) fn host_mut(&mut self) -> &mut HostBuffers {
        if let Some(log) = &mut self.host_log {
            **log = true;
        }
        self.host
    }

    /// Gives a node back.
    pub(super) fn give_back_node(&mut self, node: Link) {
        match node.kind() {
            LinkType::N4 => self.n4.give_back(node.index()),
            LinkType::N16 => self.n16.give_back(node.index()),
            LinkType::N48 => self.n48.give_back(node.index()),
            _ => self.n256.give_back(node.index()),
        }
    }
}

impl WrittenElements {
    fn logs(&mut self) -> ([&mut Vec<u64>; 9], &mut [usize; 8], &mut bool) {
        let Self { n4, n16, n48, n256, leaf8, leaf16, leaf32, units, table, free, host_leaves } = self;
        ([n4, n16, n48, n256, leaf8, leaf16, leaf32, units, table], &mut free.0, host_leaves)
    }
}

fn area<'a, T: Pod>(
    region: &'a mut Region<T>,
    log: Option<&'a mut Vec<u64>>,
    free_log: Option<&'a mut usize>,
) -> Area<'a, T> {
    Area {
        elements: region.buffer.as_mut_slice().expect(HOST),
        used: &mut region.used,
        free: Free::new(&mut region.free, free_log),
        log,
    }
}
