//! Batches of changes on the CPU, in place, after the rules of the device's kernels.
//!
//! A bucket that has room for its changes is changed alone; one that has none shares the pairs of its neighbours. A node in which that is
//! not enough is planned again with its changes, by the code of a build: in its own buckets, or in new ones after all others; if it needs
//! more than a node has, or its keys are too close, as several nodes. Only then are the arrays of nodes and the levels above rebuilt.
//! Everything is planned, and all memory is allocated, while the tree is only read.

mod shift;

use self::shift::{Group, Joined, Lens, UNCHANGED};
use super::new_buckets::NewBuckets;
use crate::LaneTree;
use crate::build::{Planned, build, plan_nodes};
use crate::native::{GROUP, Position, View};
use crate::node::{Buckets, Filling, Plan};
use crate::parts::{HostParts, Parts, Shape};
use crate::tuning::TUNING;
use crate::upper::Child;
use crate::weights::{RANK_BLOCK, Weights, sum, weight};
use core::iter::repeat_n;
use core::ops::Range;
use lanetree_frame::fixed::SortedPairs;
use lanetree_frame::fixed::pairs::walk;
use lanetree_frame::parallel::*;
use lanetree_frame::room::{collected, make_room, with_room, zeroed};
use lanetree_frame::{NetChange, Result, UpdatePath, UpdateReport};
use lanetree_kernels_lane_tree::layout::{
    BITMAP_CHILDREN, FORMAT_BITS, NODE_WORDS, Record, bucket_slots, record_words,
};
use lanetree_kernels_lane_tree::{EVEN, MORE};
use lanetree_layout::{AnyKey, KeyWord, Value};

/// Changes that a thread looks for at a time.
const TASK: usize = 1 << 12;

/// Nodes that a thread plans at a time: fewer take less time than to wake it.
const NODES: usize = 32;

/// How far ahead of a change the bucket of another is fetched.
const AHEAD: usize = 16;

/// More pairs than buckets of a node could share.
const MANY: u64 = 1 << 16;

/// What holds of every buffer here.
const REACHED: &str = "a tree on the host is in main memory";

/// Words of a node in memory.
const NODE: usize = NODE_WORDS as usize;

/// Where a change goes.
#[derive(Clone, Copy, Default)]
struct Target {
    position: Position,
    /// Whether look-ups come to this node. They do not ask how far a key is from others.
    reaches_node: bool,
    /// Whether they come to this bucket.
    reaches_bucket: bool,
}

/// A sorted batch, one change per key, whose changes have found their buckets.
struct Batch<'a, W, V> {
    changes: &'a [(W, NetChange<V>)],
    targets: Vec<Target>,
    /// The bits of values that are weights; none if the tree has no weights.
    mask: u64,
}

/// A node of the lowest level with changes.
struct Touched {
    node: usize,
    changes: Range<usize>,
    report: UpdateReport,
    /// By how much, wrapping, the weight of its pairs grows.
    weight: u64,
    /// Which buckets share pairs, so that each has room for its own; `None` if that is not enough.
    joined: Option<Joined>,
    /// Whether a key is inserted to which the levels above do not lead.
    is_unreached: bool,
}

/// A node that is rewritten.
struct Rewritten<W, V> {
    pairs: SortedPairs<W, V>,
    /// The nodes that it becomes, with the buckets of each: one, or several, or none if no pair is left.
    nodes: Vec<(Planned, u32)>,
    /// Its buckets until now.
    old_buckets: Range<usize>,
    /// Whether it gets new ones.
    is_new: bool,
}

/// What is written at a position among the nodes.
struct Work<'a, W, V> {
    at: usize,
    /// By how much, wrapping, the ranks of all nodes after it grow.
    growth: u64,
    /// The same of the weights before them.
    weight: u64,
    what: What<'a, W, V>,
}

enum What<'a, W, V> {
    /// A node, which was there, is not: the growth begins with the node that is there now.
    Gone,
    /// These changes, each in its bucket or one that shares pairs with it.
    Buckets(Range<usize>, Joined),
    /// A node with these of the pairs.
    Node { pairs: &'a SortedPairs<W, V>, planned: &'a Planned, first_bucket: u32, buckets: u32 },
}

/// Whether anything changes. A set's key that is there stays as it is.
fn has_effect<V: Value>(report: &UpdateReport) -> bool {
    report.inserted + report.removed > 0 || report.replaced > 0 && V::IS_SOME
}

fn growth(report: &UpdateReport) -> u64 {
    report.inserted.wrapping_sub(report.removed)
}

impl<'a, W: KeyWord, V: Value> Batch<'a, W, V> {
    fn new(view: &View<'_, W, V>, changes: &'a [(W, NetChange<V>)]) -> Result<Self> {
        let mut targets = filled(Target::default(), changes.len())?;
        targets.par_chunks_mut(TASK).zip(changes.par_chunks(TASK)).for_each(|(targets, changes)| {
            let last = changes.len() - 1;
            let words = |first: usize, words: &mut [W; GROUP]| {
                words.iter_mut().enumerate().for_each(|(i, word)| *word = changes[(first + i).min(last)].0);
            };
            view.positions::<true>(changes.len(), &words, &mut |first, positions| {
                targets[first..].iter_mut().zip(positions).for_each(|(target, &position)| target.position = position);
            });
            view.positions::<false>(changes.len(), &words, &mut |first, positions| {
                for (target, position) in targets[first..].iter_mut().zip(positions) {
                    target.reaches_node = position.node == target.position.node;
                    target.reaches_bucket = position.bucket == target.position.bucket;
                }
            });
        });
        Ok(Self { changes, targets, mask: view.weights().map_or(0, |weights| weights.mask) })
    }

    /// The changes of each node, in order.
    fn touched(&self, view: &View<'_, W, V>) -> Result<Vec<Touched>> {
        let node = |at: usize| self.targets[at].position.node;
        let is_first = |&at: &usize| at == 0 || node(at - 1) != node(at);
        let firsts = (0..self.targets.len()).into_par_iter().with_min_len(TASK).filter_collect(is_first)?;
        let end = |index: usize| firsts.get(index + 1).copied().unwrap_or(self.targets.len());
        let of_node = |(index, &first): (usize, &usize)| self.of_node(view, first..end(index));
        firsts.par_iter().enumerate().with_min_len(NODES).map(of_node).try_collect()
    }

    /// What the changes of a node do.
    fn of_node(&self, view: &View<'_, W, V>, changes: Range<usize>) -> Touched {
        let node = self.targets[changes.start].position.node as usize;
        let (record, len, end) = (view.record(node), view.len_of(node), view.buckets_of(node).end);
        let mut touched = Touched {
            node,
            changes: changes.clone(),
            report: UpdateReport::default(),
            weight: 0,
            joined: Some(Joined::default()),
            is_unreached: false,
        };
        let (mut lens, mut is_reached, mut fits): (Lens, _, _) = ([UNCHANGED; _], true, true);
        let mut at = changes.start;
        while at < changes.end {
            if let Some(ahead) = self.targets.get(at + AHEAD) {
                view.prefetch(ahead.position);
            }
            let Position { within, bucket, .. } = self.targets[at].position;
            let own = self.before_bucket(at..changes.end, within as usize + 1);
            let ((keys, values), of_bucket) = (view.slots(bucket as usize), record.len(within) as usize);
            let mut new_weight = 0;
            let report = walk(&keys[..of_bucket], &self.changes[own.clone()], |kept, put| {
                if self.mask > 0 {
                    new_weight += sum(&values[kept], self.mask) + put.map_or(0, |put| weight(put.1, self.mask));
                }
            });
            if self.mask > 0 {
                let grown = new_weight.wrapping_sub(sum(&values[..of_bucket], self.mask));
                touched.weight = touched.weight.wrapping_add(grown);
            }
            // Look-ups come to all keys that are there. So what they do not come to is inserted, if it is put.
            let inserted = || {
                let all = self.targets[own.clone()].iter().zip(&self.changes[own.clone()]);
                all.filter(|(_, (_, change))| matches!(change, NetChange::Put(_)))
                    .map(|(target, change)| (target, change.0))
            };
            touched.is_unreached |= inserted().any(|(target, _)| !target.reaches_node);
            // A record has at most the node's first key. The node's last pair is repeated in buckets that are free.
            let has_repeats = record.before::<V>(within) as usize + of_bucket == len && bucket as usize + 1 < end;
            let new_len = (of_bucket as u64).wrapping_add(growth(&report));
            lens[within as usize] = new_len.min(MANY) as u32;
            is_reached &= inserted().all(|(target, key)| target.reaches_bucket && key >= record.first);
            fits &=
                !has_effect::<V>(&report) || (1..=u64::from(bucket_slots::<W, V>())).contains(&new_len) && !has_repeats;
            touched.report = touched.report.plus(&report);
            at = own.end;
        }
        if !is_reached {
            touched.joined = None;
        } else if !fits {
            touched.joined = self.joined(view, &touched, lens);
        }
        touched
    }
}

impl<W: KeyWord, V: Value> Rewritten<W, V> {
    /// Plans a node again with its changes. If it is split, the nodes are filled like this.
    fn new(view: &View<'_, W, V>, batch: &Batch<'_, W, V>, touched: &Touched, filling: Filling) -> Result<Self> {
        let old = view.pairs_of(touched.node)?;
        let (pairs, _) = SortedPairs::merge((&old.keys, &old.values), &batch.changes[touched.changes.clone()])?;
        let (keys, old_buckets) = (&pairs.keys, view.buckets_of(touched.node));
        let (len, room, slots) = (keys.len(), old_buckets.len(), bucket_slots::<W, V>() as usize);
        if len > 0 && len <= BITMAP_CHILDREN as usize * slots {
            let more = (len * MORE as usize).div_ceil(slots * 256).min(BITMAP_CHILDREN as usize);
            for buckets in [room, more] {
                let (even, full) = (
                    filling.with_bucket((len * EVEN as usize).div_ceil(buckets) as u32),
                    filling.with_bucket(u32::MAX),
                );
                let fillings = if even.is_full() { &[full][..] } else { &[even, full] };
                if let Some(plan) = Plan::of(keys, fillings, buckets) {
                    let nodes = vec![((0..len, plan), buckets as u32)];
                    return Ok(Self { pairs, nodes, old_buckets, is_new: buckets > room });
                }
                if more <= room {
                    break;
                }
            }
        }
        let planned = if len == 0 { Vec::new() } else { plan_nodes(keys, filling)? };
        let nodes = collected(planned.into_iter().map(|planned| {
            let buckets = planned.1.buckets_with_spare(filling);
            (planned, buckets)
        }))?;
        Ok(Self { pairs, nodes, old_buckets, is_new: true })
    }

    fn new_buckets(&self) -> NewBuckets {
        match self.is_new {
            false => NewBuckets { new: 0, old: 0 },
            true => NewBuckets {
                new: self.nodes.iter().map(|node| u64::from(node.1)).sum(),
                old: self.old_buckets.len() as u64,
            },
        }
    }
}

impl<K: AnyKey, V: Value> LaneTree<K, V> {
    /// Applies net changes, in strictly ascending order of their keys, to a tree on the host.
    pub(super) fn change_on_host(&mut self, changes: &[(K::Bits, NetChange<V>)]) -> Result<UpdateReport> {
        let parts = self.parts.get()?;
        let old = parts.shape;
        if old.len == 0 {
            return self.rebuild_on_host(changes);
        }
        let view = View::new(parts, self.simd).expect(REACHED);
        let batch = Batch::<K::Bits, V>::new(&view, changes)?;
        let mut touched = batch.touched(&view)?;
        let mut report = touched.iter().fold(UpdateReport::default(), |sum, node| sum.plus(&node.report));
        touched.retain(|node| has_effect::<V>(&node.report));
        if touched.is_empty() {
            return Ok(report);
        }
        let (tuning, leaf_nodes) = (TUNING.on(&self.device)?, u64::from(old.leaf_nodes));
        let new_len = old.len.wrapping_add(growth(&report));
        let listed = touched.par_iter().with_min_len(TASK).filter_collect(|node| node.joined.is_none())?;
        if new_len == 0 || listed.len() as u64 > tuning.most_listed(leaf_nodes) {
            return self.rebuild_on_host(changes);
        }
        let filling = self.split_filling();
        let rewritten = listed
            .into_par_iter()
            .with_min_len(NODES)
            .try_map_collect(|node| Rewritten::new(&view, &batch, node, filling))?;
        let split = rewritten.iter().filter(|node| node.nodes.len() != 1).count() as u64;
        if split > tuning.most_split(leaf_nodes) {
            return self.rebuild_on_host(changes);
        }
        let new_buckets =
            rewritten.iter().map(Rewritten::new_buckets).fold(NewBuckets { new: 0, old: 0 }, |sum, node| NewBuckets {
                new: sum.new + node.new,
                old: sum.old + node.old,
            });
        let plans = rewritten.iter().flat_map(|node| &node.nodes).map(|((_, plan), _)| plan);
        let formats = plans.fold(0, |formats, plan| formats | plan.quantiser.format() as u32);
        let mut moved = None;
        if split > 0 || touched.iter().any(|node| node.is_unreached) {
            let shape = Shape { len: new_len, buckets: old.buckets, unused: old.unused, ..Shape::default() };
            let mut made = HostParts { shape, ..HostParts::default() };
            let (children, before) = moved_aside(&view, &batch, (&touched, &rewritten), &mut made)?;
            let formats = old.formats & ((1 << FORMAT_BITS) - 1) | formats;
            made.finish(&self.device, self.options, children, formats)?;
            let mut parts = made.upload(self.device.alloc(0)?)?;
            if let Some(&Weights { mask, total, .. }) = view.weights() {
                parts.weights = Some(Weights::of(before, mask, total)?);
            }
            moved = Some(parts);
        }
        if new_buckets.new + new_buckets.old > 0 && !self.reserve_buckets(&self.device.stream()?, new_buckets)? {
            return self.rebuild_on_host(changes);
        }
        let works = works(&touched, &rewritten, old.buckets, batch.mask)?;
        let mut growths = with_room(works.len() + 1)?;
        growths.push(0_u64);
        works.iter().for_each(|work| growths.push(growths[growths.len() - 1].wrapping_add(work.growth)));
        report.path = if moved.is_some() { UpdatePath::Moved } else { UpdatePath::InPlace };
        self.parts.change(|parts| {
            if let Some(mut moved) = moved {
                core::mem::swap(&mut moved.buckets, &mut parts.buckets);
                *parts = moved;
            }
            write(parts, &batch, &works, &growths);
            if let Some(weights) = &mut parts.weights {
                weights.grow(works.iter().map(|work| (work.at, matches!(work.what, What::Gone), work.weight)));
            }
            parts.shape.len = new_len;
            new_buckets.add_to(&mut parts.shape);
            parts.shape.formats |= formats;
            Ok(report)
        })
    }

    /// Rebuilds a tree on the host from the pairs that there are after a batch. After an error the tree is what it was.
    fn rebuild_on_host(&mut self, changes: &[(K::Bits, NetChange<V>)]) -> Result<UpdateReport> {
        let parts = self.parts.get()?;
        let len = parts.shape.len as usize;
        let mut old = SortedPairs::<K::Bits, V> { keys: zeroed(len)?, values: zeroed(len)? };
        if len > 0 {
            let view = View::new(parts, self.simd).expect(REACHED);
            let pieces = old.keys.par_chunks_mut(TASK).zip(old.values.par_chunks_mut(TASK)).enumerate();
            pieces.for_each(|(at, (keys, values))| view.copy_pairs((at * TASK) as u64, keys, values, |word| word));
        }
        let (pairs, report) = SortedPairs::merge((&old.keys, &old.values), changes)?;
        if report.path != UpdatePath::Unchanged {
            let options = self.rebuilt_options(len as u64);
            drop(old);
            let mut built = build::<K, V>(&self.device, &pairs, options)?;
            if let Some(Weights { mask, .. }) = self.parts.get()?.weights {
                built.weigh::<V>(mask, self.simd)?;
            }
            self.parts.replace(built);
        }
        Ok(report)
    }
}

/// Copies nodes, records, with whole ranks, and ends to where they are to be: those of a node that is split as often as there will be
/// nodes instead of it. Returns all of them as the levels above will see them, and, of a tree with weights, the weight before each.
fn moved_aside<W: KeyWord, V: Value>(
    view: &View<'_, W, V>,
    batch: &Batch<'_, W, V>,
    (touched, rewritten): (&[Touched], &[Rewritten<W, V>]),
    to: &mut HostParts<W>,
) -> Result<(Vec<Child<W>>, Vec<u64>)> {
    let child = |node: usize| Child { first: view.record(node).first, last: view.last_key(node) };
    let old = (0..view.leaf_nodes()).into_par_iter().with_min_len(TASK).map(child).try_collect()?;
    let split: usize = rewritten.iter().map(|node| node.nodes.len()).sum();
    let (most, words) = (old.len() + split, record_words::<W, V>() as usize);
    make_room(&mut to.nodes, most * NODE)?;
    make_room(&mut to.records, most * words)?;
    make_room(&mut to.ends, most)?;
    let mut children = with_room(most)?;
    let mut before = with_room(view.weights().map_or(0, |_| most))?;
    let (mut touched, mut rewritten) = (touched.iter().peekable(), rewritten.iter());
    for (node, mut child) in old.into_iter().enumerate() {
        let own = touched.next_if(|touched| touched.node == node);
        let new = own.filter(|own| own.joined.is_none()).and_then(|_| rewritten.next());
        let count = new.map_or(1, |new| new.nodes.len());
        match (own, new) {
            (_, Some(Rewritten { pairs, nodes, .. })) => children.extend(
                nodes
                    .iter()
                    .map(|((range, _), _)| Child { first: pairs.keys[range.start], last: pairs.keys[range.end - 1] }),
            ),
            (own, None) => {
                // No key of another node is between the last one and its changes'.
                child.last = own.map_or(child.last, |own| child.last.max(batch.changes[own.changes.end - 1].0));
                children.push(child);
            }
        }
        for _ in 0..count {
            to.nodes.extend(view.node_words(node));
            to.records.extend(&view.whole_record(node).words::<V>()[..words]);
        }
        to.ends.extend(repeat_n(view.buckets_of(node).end as u32, count));
        before.extend(view.weights().into_iter().flat_map(|weights| repeat_n(weights.before(node), count)));
    }
    Ok((children, before))
}

/// What is to be written, in the order of the nodes. New buckets begin with this one.
fn works<'a, W, V: Value>(
    touched: &[Touched],
    rewritten: &'a [Rewritten<W, V>],
    mut new_bucket: u32,
    mask: u64,
) -> Result<Vec<Work<'a, W, V>>> {
    let nodes: usize = rewritten.iter().map(|node| node.nodes.len()).sum();
    let mut works = with_room(touched.len() + nodes)?;
    let mut rewritten = rewritten.iter();
    // By how much nodes move, wrapping.
    let mut by = 0_usize;
    for own in touched {
        let (at, growth, mut weight) = (own.node.wrapping_add(by), growth(&own.report), own.weight);
        let new = if own.joined.is_none() { rewritten.next() } else { None };
        let Some(Rewritten { pairs, nodes, old_buckets, is_new }) = new else {
            let what = What::Buckets(own.changes.clone(), own.joined.unwrap_or_default());
            works.push(Work { at, growth, weight, what });
            continue;
        };
        let mut first_bucket = if *is_new { new_bucket } else { old_buckets.start as u32 };
        for (i, (planned, buckets)) in nodes.iter().enumerate() {
            let what = What::Node { pairs, planned, first_bucket, buckets: *buckets };
            let is_last = i + 1 == nodes.len();
            let growth = if is_last { growth } else { 0 };
            // Weights before a node count those of the nodes that it was split from.
            let of_node = if is_last || mask == 0 { weight } else { sum(&pairs.values[planned.0.clone()], mask) };
            weight = weight.wrapping_sub(of_node);
            works.push(Work { at: at + i, growth, weight: of_node, what });
            first_bucket += buckets;
        }
        if nodes.is_empty() {
            works.push(Work { at, growth, weight, what: What::Gone });
        }
        if *is_new {
            new_bucket = first_bucket;
        }
        by = by.wrapping_add(nodes.len()).wrapping_sub(1);
    }
    Ok(works)
}

/// Writes what was planned. `growths` are the sums of the works' growths before each, and of all.
fn write<W: KeyWord, V: Value>(
    parts: &mut Parts<W>,
    batch: &Batch<'_, W, V>,
    works: &[Work<'_, W, V>],
    growths: &[u64],
) {
    let words = record_words::<W, V>() as usize;
    let nodes = &mut parts.nodes.as_mut_slice().expect(REACHED)[..parts.shape.leaf_nodes as usize * NODE];
    let records = parts.records.as_mut_slice().expect(REACHED).par_chunks_mut(RANK_BLOCK * words);
    let ends = parts.ends.as_mut_slice().expect(REACHED).par_chunks_mut(RANK_BLOCK);
    let buckets = &Buckets::new(parts.buckets.as_mut_slice().expect(REACHED));
    let nodes = nodes.par_chunks_mut(RANK_BLOCK * NODE);
    let steps = parts.rank_steps.par_iter_mut();
    // Blocks without changes take no time that is worth another thread.
    let min_len = steps.items().div_ceil(works.len());
    let blocks = steps.zip(nodes).zip(records).zip(ends).enumerate().with_min_len(min_len);
    blocks.for_each(|(block, (((step, nodes), records), ends))| {
        let start = block * RANK_BLOCK;
        let before = |node: usize| works.partition_point(|work| work.at < node);
        let (from, to) = (before(start), before(start + ends.len()));
        *step = step.wrapping_add(growths[from]);
        let (mut works, mut growth) = (works[from..to].iter().peekable(), 0_u64);
        let mut group = Group::default();
        let Some(first) = works.peek() else { return };
        for at in first.at - start..ends.len() {
            while let Some(gone) = works.next_if(|work| work.at == start + at && matches!(work.what, What::Gone)) {
                growth = growth.wrapping_add(gone.growth);
            }
            let own = works.next_if(|work| work.at == start + at);
            let to_record = &mut records[at * words..][..words];
            if own.is_none() && growth == 0 {
                continue;
            }
            let mut record = Record::<W>::of_slice::<V>(to_record);
            record.rank = record.rank.wrapping_add(growth);
            if let Some(work) = own {
                growth = growth.wrapping_add(work.growth);
                match &work.what {
                    What::Gone => {}
                    What::Buckets(changes, joined) => {
                        let node = &mut nodes[at * NODE..][..NODE];
                        // SAFETY: the buckets are the node's, which no other thread has, and have room.
                        unsafe {
                            batch.write_buckets(changes.clone(), *joined, buckets, node, &mut record, &mut group);
                        }
                    }
                    What::Node { pairs, planned: (range, plan), first_bucket, buckets: count } => {
                        let (keys, values) = (&pairs.keys[range.clone()], &pairs.values[range.clone()]);
                        let rank = record.rank.wrapping_add(range.start as u64);
                        let (own, node) = (*first_bucket..first_bucket + count, &mut nodes[at * NODE..][..NODE]);
                        ends[at] = own.end;
                        // SAFETY: the buckets are the node's own, or new.
                        record = unsafe { plan.write(keys, values, rank, own, node, buckets) };
                    }
                }
            }
            to_record.copy_from_slice(&record.words::<V>()[..words]);
        }
    });
}
