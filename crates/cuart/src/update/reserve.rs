//! The memory that a batch may take, before its first change.

use super::batch::{NetBatch, Work};
use super::edit::HOST;
use super::path::{End, Slot, descend};
use crate::LongKeys;
use crate::leaves::kind;
use crate::parts::Parts;
use crate::region::{FreeList, Region};
use bytemuck::Pod;
use lanetree_frame::Result;
use lanetree_frame::parallel::*;
use lanetree_frame::room::{collected, make_room};
use lanetree_kernels_cuart::layout::{Link, LinkType, device_leaf_units};
use lanetree_layout::Word;
use lanetree_runtime::Buffer;
use std::collections::BTreeMap;

/// Elements of a region that a batch takes, and that it frees.
#[derive(Clone, Copy, Default)]
struct Traffic {
    taken: usize,
    given_back: usize,
}

impl Parts {
    /// Makes room for what a batch may write. A buffer that may be too small
    /// becomes at least twice as large.
    pub(super) fn reserve<V: Word>(&mut self, batch: &NetBatch<'_, V>, work: &Work, long_keys: LongKeys) -> Result<()> {
        let (mut leaf8, mut leaf16, mut leaf32) = (Traffic::default(), Traffic::default(), Traffic::default());
        let (mut host_leaves, mut host_bytes) = (0, 0);
        // New device leaves, by their size in units, less the leaves of the same size that are free by then.
        let mut rooms = BTreeMap::<usize, isize>::new();
        for &(at, _) in &work.inserts {
            let len = batch.keys().at(at).len();
            match kind(len, long_keys) {
                LinkType::Leaf8 => leaf8.taken += 1,
                LinkType::Leaf16 => leaf16.taken += 1,
                LinkType::Leaf32 => leaf32.taken += 1,
                LinkType::DeviceLeaf => *rooms.entry(device_leaf_units(len)).or_default() += 1,
                _ => (host_leaves, host_bytes) = (host_leaves + 1, host_bytes + len),
            }
        }
        let long = self.leaves.long.units.as_slice().expect(HOST);
        let units = |leaf: u64| device_leaf_units(long[leaf as usize][1] as usize);
        let mut removed = 0;
        for &(_, leaf) in &work.removals {
            match leaf.kind() {
                LinkType::Leaf8 => leaf8.given_back += 1,
                LinkType::Leaf16 => leaf16.given_back += 1,
                LinkType::Leaf32 => leaf32.given_back += 1,
                LinkType::DeviceLeaf => {
                    rooms.entry(units(leaf.index())).and_modify(|count| *count -= 1);
                    removed += 1;
                }
                _ => {}
            }
        }
        if !rooms.is_empty() {
            let FreeList { indexes, len } = &self.leaves.long.free;
            for &leaf in &indexes.as_slice().expect(HOST)[..*len] {
                rooms.entry(units(leaf)).and_modify(|count| *count -= 1);
            }
        }
        let taken = rooms.into_iter().map(|(units, count)| units * usize::try_from(count).unwrap_or(0)).sum::<usize>();
        let leaves = &mut self.leaves;
        leaves.leaf8.reserve(leaf8)?;
        leaves.leaf16.reserve(leaf16)?;
        leaves.leaf32.reserve(leaf32)?;
        let long = &mut leaves.long;
        grow(&mut long.units, long.used, long.used + taken)?;
        long.free.reserve(removed)?;
        if long_keys == LongKeys::HostLeaves {
            let host = &mut leaves.host;
            make_room(&mut host.offsets, host_leaves + 1)?;
            make_room(&mut host.bytes, host_bytes)?;
            make_room(&mut host.values, host_leaves)?;
            make_room(&mut host.ranks, host_leaves)?;
        }
        self.reserve_nodes(batch, work)
    }

    fn reserve_nodes<V: Word>(&mut self, batch: &NetBatch<'_, V>, work: &Work) -> Result<()> {
        // A key takes a new N4, or lets one node grow.
        let inserts = work.inserts.len();
        let [to16, to48, to256] = self.outgrown(batch, work)?;
        let nodes = &mut self.nodes;
        let vacated = |live: u64| if work.removals.is_empty() { 0 } else { live as usize };
        nodes.n4.reserve(Traffic { taken: inserts, given_back: to16 + vacated(nodes.n4.live()) })?;
        nodes.n16.reserve(Traffic { taken: to16, given_back: to48 + vacated(nodes.n16.live()) })?;
        nodes.n48.reserve(Traffic { taken: to48, given_back: to256 + vacated(nodes.n48.live()) })?;
        nodes.n256.reserve(Traffic { taken: to256, given_back: vacated(nodes.n256.live()) })
    }

    /// The most nodes of types N4, N16 and N48 that may have to grow in a batch.
    fn outgrown<V: Word>(&self, batch: &NetBatch<'_, V>, work: &Work) -> Result<[usize; 3]> {
        let regions = self.view().regions;
        let node = |path: &mut Vec<Slot>, &(at, _): &(usize, u64)| {
            let end = descend(&regions, batch.keys().at(at), path);
            let slot = path.last().filter(|slot| end == End::Vacant && slot.byte.is_some());
            slot.map(|slot| slot.node.bits())
        };
        // The nodes that get children, once for each key, which is at least as often as once for each child.
        let mut nodes = work.inserts.par_iter().flat_parts(|inserts| {
            let mut path = Vec::new();
            collected(inserts.filter_map(|insert| node(&mut path, insert)))
        })?;
        sort_by_word(&mut nodes, |&node| node)?;
        // New nodes of the batch grow only after 3, 12 and 32 more keys than they were made from.
        let inserts = work.inserts.len();
        let mut outgrown = [inserts / 3, inserts / 12, inserts / 32];
        for keys in nodes.chunk_by(|a, b| a == b) {
            let node = Link::from_bits(keys[0]);
            let children = regions.header(node).map_or(0, |header| usize::from(header.count)) + keys.len();
            let kinds = [(LinkType::N4, 4), (LinkType::N16, 16), (LinkType::N48, 48)];
            for (outgrown, (kind, room)) in outgrown.iter_mut().zip(kinds) {
                *outgrown += usize::from(node.kind() as u8 <= kind as u8 && children > room);
            }
        }
        Ok(outgrown.map(|nodes| nodes.min(inserts)))
    }
}

impl<T: Pod> Region<T> {
    fn reserve(&mut self, traffic: Traffic) -> Result<()> {
        let needed = self.needed(traffic.taken);
        grow(&mut self.buffer, self.used, needed)?;
        self.free.reserve(traffic.given_back)
    }
}

impl FreeList {
    fn reserve(&mut self, given_back: usize) -> Result<()> {
        grow(&mut self.indexes, self.len, self.len + given_back)
    }
}

/// Grows a buffer to at least `needed` elements, and keeps the first `used`.
fn grow<T: Pod>(buffer: &mut Buffer<T>, used: usize, needed: usize) -> Result<()> {
    if needed <= buffer.len() {
        return Ok(());
    }
    let mut larger = buffer.device().alloc(needed.max(buffer.len().saturating_mul(2)))?;
    larger.copy_range_from(0, &buffer.as_slice().expect(HOST)[..used])?;
    *buffer = larger;
    Ok(())
}
