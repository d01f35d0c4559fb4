//! Batches that split nodes: their pairs go the way of a build, and the other nodes move aside.

use super::Batch;
use super::new_buckets::NewBuckets;
use super::scratch::{Findings, UpdateScratch};
use crate::bulk::{NOTHING_SPLIT, Outputs, Planned, UpperScratch, make_upper, room};
use crate::options::Options;
use crate::parts::{Parts, Shape};
use crate::{LaneTree, ahead};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Buffer, Result, Stream};
use lanetree_kernels_lane_tree::{
    AssignPartsArgs, EndsArgs, ListSplitArgs, MOVE_WARPS, MovePairsArgs, RanksArgs, RelocateArgs, SPLIT_WORDS,
    SizeSplitArgs, SplitNodes, TARGET_WORDS, TreeRef, calls, move_warps,
};
use lanetree_layout::{AnyKey, KeyWord, Value};
use lanetree_primitives::{DevicePairs, exclusive_scan};
use lanetree_simt::WARP;

/// The nodes that are split.
struct List {
    words: Buffer<u64>,
    count: usize,
    /// Their pairs, after the batch.
    pairs: usize,
    parts: usize,
    /// Their buckets.
    buckets: u64,
}

impl List {
    fn split(&self, stream: &Stream) -> Result<SplitNodes> {
        if self.count == 0 {
            return Ok(NOTHING_SPLIT);
        }
        Ok(SplitNodes { words: self.words.read_on(stream)?, count: self.count as u64 })
    }
}

/// A tree whose nodes are to be where others are not: all but its nodes of the lowest level and what is above them.
pub(super) struct Relocated<'a, K: KeyWord> {
    pub(super) options: Options,
    pub(super) built: &'a mut Parts<K>,
    pub(super) upper: &'a mut UpperScratch<K>,
}

/// Moves the nodes of the lowest level of a tree to where `moves` says, writes those of parts to where their targets are, and makes the levels
/// above. Waits for the stream.
///
/// # Safety
/// Together they are all nodes, and have room.
pub(super) unsafe fn relocate<K: AnyKey, V: Value>(
    stream: &Stream,
    tree: TreeRef<K::Bits>,
    moves: &Buffer<u32>,
    planned: Option<(&mut Planned<'_, K, V>, &Buffer<u64>)>,
    Relocated { options, built, upper }: Relocated<'_, K::Bits>,
) -> Result<()> {
    let args = RelocateArgs {
        tree,
        moves: moves.read_on(stream)?,
        nodes: built.nodes.write_on(stream)?,
        records: built.records.write_on(stream)?,
        ends: built.ends.write_on(stream)?,
    };
    let over_nodes = |nodes: u32, threads: u32| launch::over(stream, u64::from(nodes), threads, THREADS);
    // SAFETY: the caller's.
    unsafe {
        over_nodes(tree.leaf_nodes, RelocateArgs::<K::Bits>::THREADS)?.run(calls::relocate::<_, V>(&args))?;
        if let Some((planned, targets)) = planned {
            let Parts { nodes, records, ends, buckets, .. } = &mut *built;
            planned.write(stream, Some(targets), Outputs { nodes, records, ends, buckets, upper: &mut *upper })?;
        }
    }
    let args = EndsArgs {
        records: built.records.read_on(stream)?,
        ends: built.ends.read_on(stream)?,
        buckets: built.buckets.read_on(stream)?,
        leaf_nodes: u64::from(built.shape.leaf_nodes),
        firsts: upper.firsts.write_on(stream)?,
        lasts: upper.lasts.write_on(stream)?,
    };
    // SAFETY: all nodes are written.
    unsafe { over_nodes(built.shape.leaf_nodes, 1)?.run(calls::ends::<_, V>(&args))? };
    make_upper(stream, options, built, upper)
}

impl<K: AnyKey, V: Value> LaneTree<K, V> {
    /// Lists the nodes that are split. Waits for the stream.
    fn list_split(
        &self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        count: usize,
        scratch: &mut UpdateScratch<K>,
    ) -> Result<List> {
        if count == 0 {
            return Ok(List { words: self.device.alloc(0)?, count, pairs: 0, parts: 0, buckets: 0 });
        }
        let nodes = self.parts.get()?.shape.leaf_nodes as usize;
        scratch.sizes.reserve(&self.device, nodes)?;
        let args = SizeSplitArgs {
            tree: self.tree_ref(stream)?,
            changes: Self::changes(stream, batch, scratch)?,
            found: scratch.notes.must_split(stream)?.as_const(),
            pairs: scratch.sizes.pairs.write_on(stream)?,
            parts: scratch.sizes.parts.write_on(stream)?,
            part: self.split_filling().node as u64,
        };
        // SAFETY: a bit and two words for each node.
        unsafe { launch::over(stream, nodes as u64, 1, THREADS)?.run(calls::size_split(&args))? };
        let sizes = &mut scratch.sizes;
        exclusive_scan(stream, &sizes.pairs, nodes, &mut sizes.pairs_before, &mut sizes.scan)?;
        exclusive_scan(stream, &sizes.parts, nodes, &mut sizes.parts_before, &mut sizes.scan)?;
        let mut words = self.device.alloc((count + 1) * SPLIT_WORDS as usize)?;
        let args = ListSplitArgs {
            found: scratch.notes.must_split(stream)?.as_const(),
            pairs_before: sizes.pairs_before.read_on(stream)?,
            parts_before: sizes.parts_before.read_on(stream)?,
            leaf_nodes: nodes as u64,
            nodes: scratch.nodes.read_on(stream)?,
            count: batch.count as u64,
            words: words.write_on(stream)?,
        };
        // SAFETY: the nodes are the tree's, and there is room for all that are split.
        unsafe { launch::over(stream, nodes as u64 + 1, 1, THREADS)?.run(calls::list_split(&args))? };
        // The last entry's words are the totals.
        let mut all = [0; SPLIT_WORDS as usize];
        words.copy_range_to(count * all.len(), &mut all)?;
        let [pairs, parts, buckets] = SplitNodes::sums(all);
        Ok(List { words, count, pairs: pairs as usize, parts: parts as usize, buckets })
    }

    /// Splits nodes, and changes the others that the batch touches. Does nothing, and says so, if too many buckets would have no node.
    pub(super) fn split(
        &mut self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        found: &Findings,
        scratch: &mut UpdateScratch<K>,
        ready: &dyn Fn() -> Result<()>,
    ) -> Result<bool> {
        let (device, options, old) = (self.device.clone(), self.options, self.parts.get()?.shape);
        let len = old.len.wrapping_add(found.growth());
        ahead::load(&device, ahead::of_divisions::<K, V>);
        let list = self.list_split(stream, batch, found.split as usize, scratch)?;
        let split = list.split(stream)?;
        let changes = Self::changes(stream, batch, scratch)?;
        // Their pairs, in order.
        let (mut keys, mut values) = (device.alloc::<K>(list.pairs)?, device.alloc::<V>(list.pairs)?);
        let mut planned = None;
        // Nodes and buckets that the split nodes become.
        let (mut nodes, mut buckets) = (0, 0);
        if list.pairs > 0 {
            let args = MovePairsArgs {
                tree: self.tree_ref(stream)?,
                changes,
                split,
                keys: keys.write_on(stream)?.cast::<K::Bits>(),
                values: values.write_on(stream)?,
            };
            let warps = move_warps(list.count as u64, args.changes.count);
            // SAFETY: there is room for their pairs.
            unsafe { launch::over(stream, warps, WARP, MOVE_WARPS * WARP)?.run(calls::move_pairs(&args))? };
            let filling = self.split_filling();
            let pairs = DevicePairs { keys: &keys, values: &values, len: list.pairs };
            let mut made = Planned::new(stream, &device, pairs, filling, split, list.parts)?;
            (nodes, buckets) = made.total()?.expect("pairs that ascend strictly");
            planned = Some(made);
        }
        let others = found.new_buckets;
        let new_buckets = NewBuckets { new: others.new + buckets, old: others.old + list.buckets };
        if !self.reserve_buckets(stream, new_buckets)? {
            return Ok(false);
        }
        let leaf_nodes = old.leaf_nodes as usize - list.count + nodes;
        let options = options.on::<K::Bits>(&device, len, leaf_nodes)?;
        let mut built = room::<_, V>(&device, options, leaf_nodes, 0)?;
        let Shape { buckets, unused, formats, .. } = old;
        built.shape = Shape { len, buckets, unused, leaf_nodes: leaf_nodes as u32, formats, ..Shape::default() };
        new_buckets.add_to(&mut built.shape);
        let mut upper = UpperScratch::new(&device, leaf_nodes, options)?;
        let mut targets = device.alloc::<u64>(list.parts * TARGET_WORDS as usize)?;
        let mut moves = device.alloc::<u32>(old.leaf_nodes as usize)?;
        // Nothing comes before the first part, if there is one or not.
        let nothing = device.alloc_zeroed::<u64>(1)?;
        let before = planned.as_ref().map_or(&nothing, Planned::before).read_on(stream)?;
        let tree = self.tree_ref(stream)?;
        if let Some(planned) = &planned {
            let args = AssignPartsArgs {
                tree,
                changes,
                split,
                before,
                cuts: planned.cuts().read_on(stream)?,
                parts: list.parts as u64,
                first_bucket: u64::from(old.buckets) + others.new,
                targets: targets.write_on(stream)?,
            };
            // SAFETY: the nodes and their parts.
            unsafe { launch::over(stream, list.parts as u64, 1, THREADS)?.run(calls::assign_parts(&args))? };
        }
        let mut bucket_changes = self.changes_of_buckets(stream, batch, scratch)?;
        let mut node_changes = self.changes_of_nodes(stream, batch, scratch)?;
        node_changes.formats = upper.formats.write_on(stream)?;
        ready()?;
        self.parts.change(|parts| {
            let (nodes, records, buckets) =
                (parts.nodes.write_on(stream)?, parts.records.write_on(stream)?, parts.buckets.write_on(stream)?);
            (bucket_changes.nodes, bucket_changes.records, bucket_changes.buckets) = (nodes, records, buckets);
            (node_changes.nodes, node_changes.records, node_changes.buckets) = (nodes, records, buckets);
            node_changes.ends = parts.ends.write_on(stream)?;
            let ranks = RanksArgs {
                changes,
                split,
                before,
                leaf_nodes: u64::from(old.leaf_nodes),
                records,
                moves: moves.write_on(stream)?,
            };
            // SAFETY: what is not split has room where it is.
            unsafe {
                Self::launch_changes(stream, &bucket_changes, &node_changes, found)?;
                launch::over(stream, u64::from(old.leaf_nodes), 1, THREADS)?.run(calls::ranks(&ranks))?;
            }
            core::mem::swap(&mut built.buckets, &mut parts.buckets);
            let planned = planned.as_mut().map(|planned| (planned, &targets));
            let to = Relocated { options, built: &mut built, upper: &mut upper };
            // SAFETY: all nodes have room where they are to be.
            unsafe { relocate(stream, tree, &moves, planned, to)? };
            *parts = built;
            Ok(true)
        })
    }
}
