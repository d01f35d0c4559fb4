//! Batches of changes (section 5.6).
//!
//! The changes of a big leaf are a group, and all groups are written in parallel. The paper locks the inner node for each
//! change; here one task has all changes of a big leaf, and with them `&mut` to this leaf and to its node of the last inner
//! level, so there is nothing to lock. Big leaves that would overflow, or become too small, are the exception: one thread
//! plans them and the levels above (`plan`).
//!
//! A batch takes place as a whole, or not at all:
//!
//! 1. It is planned. The tree is only read.
//! 2. There is room for all new nodes, on the host and on the device. What the tree holds stays as it is.
//! 3. The device gets the nodes as they are to be, of which the host has none yet. If that fails, its copy is dropped, and the
//!    host has the tree as it was.
//! 4. The host writes its own. Nothing in this can fail.

mod plan;

use super::device::{Patch, Target};
use super::nodes::{last_lines, parts_mut, upper_lines, write_last, write_pairs, write_upper};
use super::pool::NONE;
use super::{BigLeaves, Regular, RegularOnDevice};
use crate::line::{Line, slots};
use crate::structure::{Inner, Leaves, Parts, Place};
use lanetree_frame::{DeviceKind, NetChange, Result, UpdatePath, UpdateReport};
use lanetree_layout::{Key, Word};
use plan::Plan;
use rayon::prelude::*;

/// A change of a batch: the effect of all operations of a key.
type Change<B, V> = (B, NetChange<V>);

/// Changes whose places one task finds at a time.
const TASK: usize = 4096;

/// Changes whose leaves are found before these are searched.
const CHUNK: usize = 256;

/// The changes of a big leaf.
struct Group<'a, B, V> {
    number: u32,
    changes: &'a [Change<B, V>],
    places: &'a [Place],
    /// What they do; the path is not set.
    report: UpdateReport,
    /// The rank in the big leaf from which on something changes.
    from: usize,
    /// Pairs before and afterwards.
    size: usize,
    after: usize,
    /// Whether the big leaf is laid out anew together with its neighbours.
    is_deferred: bool,
}

impl<'a, B: Word, V: Word> Group<'a, B, V> {
    fn new(leaves: &BigLeaves<B, V>, changes: &'a [Change<B, V>], places: &'a [Place], has_parent: bool) -> Self {
        let (number, _) = BigLeaves::<B, V>::rank_within(places[0]);
        let (size, mut from, mut report) = (leaves.info(number).size as usize, usize::MAX, UpdateReport::default());
        for (&(_, change), &place) in changes.iter().zip(places) {
            *match change {
                NetChange::Put(_) | NetChange::PutIfPresent(_) if place.is_hit => &mut report.replaced,
                NetChange::Put(_) => &mut report.inserted,
                NetChange::Remove if place.is_hit => &mut report.removed,
                NetChange::Remove | NetChange::PutIfPresent(_) => {
                    report.unmatched += 1;
                    continue;
                }
            } += 1;
            from = from.min(BigLeaves::<B, V>::rank_within(place).1);
        }
        let after = size + report.inserted as usize - report.removed as usize;
        let capacity = BigLeaves::<B, V>::CAPACITY;
        let is_too_small = after == 0 || report.removed > 0 && after < capacity / 4;
        let is_deferred = after > capacity || has_parent && is_too_small;
        Self { number, changes, places, report, from, size, after, is_deferred }
    }

    /// Whether pairs move.
    fn moves(&self) -> bool {
        self.report.inserted + self.report.removed > 0
    }

    /// Whether it has any effect.
    fn acts(&self) -> bool {
        self.moves() || self.report.replaced > 0
    }

    /// Appends the pairs of the big leaf as they are afterwards, from a rank on which is not above the first change's.
    fn merge(&self, leaf: &[Line], from: usize, pairs: &mut Vec<(B, V)>) {
        let mut at = from;
        for (&(key, change), &place) in self.changes.iter().zip(self.places) {
            let put = match change {
                NetChange::Put(value) => Some(value),
                NetChange::PutIfPresent(value) if place.is_hit => Some(value),
                NetChange::Remove if place.is_hit => None,
                NetChange::PutIfPresent(_) | NetChange::Remove => continue,
            };
            let (_, rank) = BigLeaves::<B, V>::rank_within(place);
            BigLeaves::<B, V>::read(leaf, at..rank, pairs);
            pairs.extend(put.map(|value| (key, value)));
            at = rank + usize::from(place.is_hit);
        }
        BigLeaves::<B, V>::read(leaf, at..self.size, pairs);
    }

    /// Writes new values of keys that are present.
    fn replace(&self, leaf: &mut [Line]) {
        for (&(key, change), &place) in self.changes.iter().zip(self.places) {
            if let NetChange::Put(value) | NetChange::PutIfPresent(value) = change
                && place.is_hit
            {
                let (_, rank) = BigLeaves::<B, V>::rank_within(place);
                leaf[rank / slots::<B, V>()].set(rank % slots::<B, V>(), key, value);
            }
        }
    }
}

/// A big leaf that is written, and its node of the last inner level.
struct Write<'a, B, V> {
    number: u32,
    source: Source<'a, B, V>,
}

enum Source<'a, B, V> {
    /// What it has, changed.
    Group(&'a Group<'a, B, V>),
    /// These pairs.
    Pairs(&'a [(B, V)]),
}

impl<B: Word, V: Word> Write<'_, B, V> {
    /// Whether the node's separators change.
    fn moves(&self) -> bool {
        match self.source {
            Source::Group(group) => group.moves(),
            Source::Pairs(_) => true,
        }
    }

    /// The first line that is written, and the pairs from there on.
    fn pairs<'b>(&'b self, leaf: &[Line], buffer: &'b mut Vec<(B, V)>) -> (usize, &'b [(B, V)]) {
        match self.source {
            Source::Pairs(pairs) => (0, pairs),
            Source::Group(group) => {
                // The line before, too: if it was the last one its separator changes.
                let base = (group.from / slots::<B, V>()).saturating_sub(1);
                buffer.clear();
                group.merge(leaf, base * slots::<B, V>(), buffer);
                (base, buffer)
            }
        }
    }
}

/// Writes the separators of a big leaf that has these pairs from line `base` on.
fn write_separators<B: Word, V: Word>(node: &mut [Line], base: usize, pairs: &[(B, V)]) {
    let per_line = slots::<B, V>();
    let used = base + pairs.len().div_ceil(per_line);
    write_last(node, base, used, |line| pairs[(line - base + 1) * per_line - 1].0);
}

impl<K: Key, V: Word> Parts<K, V, Regular> {
    /// Applies changes.
    pub(super) fn change(&mut self, changes: &[Change<K::Bits, V>]) -> Result<UpdateReport> {
        let places = self.places(changes);
        let groups = self.groups(changes, &places);
        let mut report = groups.iter().fold(UpdateReport::default(), |sum, group| sum.plus(&group.report));
        if report.inserted + report.removed + report.replaced == 0 {
            return Ok(report);
        }
        let plan = Plan::new(self, &groups);
        report.path = if plan.runs.is_empty() { UpdatePath::InPlace } else { UpdatePath::Moved };
        self.leaves.reserve(plan.last_numbers.end, self.options.leaf_pages)?;
        self.inner.reserve(self.leaves.room(), plan.upper_numbers.end, self.options.inner_pages)?;
        let writes = writes(&groups, &plan);
        let copy = self.send(&writes, &plan)?;
        self.write(&writes, &plan, &report);
        if copy.is_some() {
            self.copy = copy;
        }
        Ok(report)
    }

    /// Where each change belongs.
    fn places(&self, changes: &[Change<K::Bits, V>]) -> Vec<Place> {
        let (how, height) = (self.options.descent(), self.inner.height);
        let mut places = vec![Place { leaf: 0, slot: 0, is_hit: false }; changes.len()];
        places.par_chunks_mut(TASK).zip(changes.par_chunks(TASK)).for_each(|(places, changes)| {
            for (places, changes) in places.chunks_mut(CHUNK).zip(changes.chunks(CHUNK)) {
                let (mut words, mut leaves) = ([K::Bits::MIN; CHUNK], [0; CHUNK]);
                words.iter_mut().zip(changes).for_each(|(word, change)| *word = change.0);
                let (words, leaves) = (&words[..changes.len()], &mut leaves[..changes.len()]);
                Inner::<K>::descend(&self.inner, how, words, 0..height, leaves);
                Leaves::<K, V>::find(&self.leaves, words, leaves, how.in_flight, |i, place| places[i] = place);
            }
        });
        places
    }

    /// The changes of each big leaf.
    fn groups<'a>(&self, changes: &'a [Change<K::Bits, V>], places: &'a [Place]) -> Vec<Group<'a, K::Bits, V>> {
        let number = |place: &Place| BigLeaves::<K::Bits, V>::rank_within(*place).0;
        let mut rest = changes;
        let of_leaf: Vec<_> = places
            .chunk_by(|a, b| number(a) == number(b))
            .map(|places| {
                let (own, others) = rest.split_at(places.len());
                rest = others;
                (own, places)
            })
            .collect();
        let has_parent = self.inner.height > 1;
        let group = |(changes, places)| Group::new(&self.leaves, changes, places, has_parent);
        of_leaf.into_par_iter().with_min_len(64).map(group).collect()
    }

    /// Sends the device what changes. Returns a new copy if there is none, or none with room enough.
    fn send(
        &mut self,
        writes: &[Write<'_, K::Bits, V>],
        plan: &Plan<K::Bits, V>,
    ) -> Result<Option<RegularOnDevice<K::Bits>>> {
        let moving: Vec<_> = writes.iter().filter(|write| write.moves()).collect();
        let is_the_same = moving.is_empty() && plan.runs.is_empty();
        if self.device.kind() == DeviceKind::Host || self.copy.is_some() && is_the_same {
            return Ok(None);
        }
        let stride = last_lines::<K::Bits>();
        let mut last = Patch { nodes: moving.iter().map(|write| write.number).collect(), lines: Vec::new() };
        last.lines.resize(moving.len() * stride, Line::EMPTY);
        let tasks = last.lines.par_chunks_mut(stride).zip(&moving).with_min_len(16);
        tasks.for_each_init(Vec::new, |buffer, (node, write)| {
            node.copy_from_slice(&self.inner.last[write.number as usize * stride..][..stride]);
            let (base, pairs) = write.pairs(self.leaves.leaf(write.number), buffer);
            write_separators(node, base, pairs);
        });
        let stride = upper_lines::<K::Bits>();
        let mut upper = Patch { nodes: plan.upper.keys().copied().collect(), lines: Vec::new() };
        upper.lines.resize(plan.upper.len() * stride, Line::EMPTY);
        for (node, write) in upper.lines.chunks_mut(stride).zip(plan.upper.values()) {
            write_upper(node, &write.entries);
        }
        let (upper_end, last_end) = (plan.upper_numbers.end as u32, plan.last_numbers.end as u32);
        let (inner, root, height) = (&self.inner, plan.root, plan.height);
        let target = Target { inner, upper: &upper, last: &last, upper_end, last_end, root, height };
        match self.copy.take() {
            Some(mut copy) if copy.has_room_for(inner) => {
                // An error drops the copy: part of it may be new.
                copy.patch(&target)?;
                self.copy = Some(copy);
                Ok(None)
            }
            copy => {
                // Until there is another one it remains what the host has.
                self.copy = copy;
                RegularOnDevice::of(&self.device, &target).map(Some)
            }
        }
    }

    /// Writes what was planned.
    fn write(&mut self, writes: &[Write<'_, K::Bits, V>], plan: &Plan<K::Bits, V>, report: &UpdateReport) {
        let numbers = || writes.iter().map(|write| write.number);
        let leaves = parts_mut(self.leaves.lines_mut(), BigLeaves::<K::Bits, V>::STRIDE, numbers());
        let nodes = parts_mut(&mut self.inner.last, last_lines::<K::Bits>(), numbers());
        let tasks = leaves.into_par_iter().zip(nodes).zip(writes).with_min_len(16);
        tasks.for_each_init(Vec::new, |buffer, ((leaf, node), write)| {
            if let (false, Source::Group(group)) = (write.moves(), &write.source) {
                return group.replace(leaf);
            }
            let (base, pairs) = write.pairs(leaf, buffer);
            let at = base * slots::<K::Bits, V>();
            write_separators(node, base, pairs);
            write_pairs(leaf, at, pairs);
            BigLeaves::<K::Bits, V>::set_size(leaf, at + pairs.len());
            if at + pairs.len() == 0 {
                leaf[0] = Line::EMPTY;
            }
        });
        if report.inserted + report.removed == 0 {
            return;
        }
        let len = Leaves::<K, V>::len(&self.leaves) + report.inserted - report.removed;
        for run in &plan.runs {
            self.leaves.splice(&run.members, &run.pieces);
        }
        self.leaves.moved(&plan.last_numbers, len);
        let inner = &mut self.inner;
        for (&number, write) in &plan.upper {
            write_upper(
                &mut inner.upper[number as usize * upper_lines::<K::Bits>()..][..upper_lines::<K::Bits>()],
                &write.entries,
            );
            inner.facts[number as usize].size = write.entries.len() as u32;
            write.entries.iter().for_each(|&(_, child)| inner.set_parent(write.is_above_leaves, child, number));
        }
        for (members, pieces) in &plan.splices {
            inner.splice(members, pieces);
        }
        inner.pool.change(&plan.upper_numbers);
        (inner.last_nodes, inner.last_end) = (self.leaves.pool.len(), self.leaves.pool.end);
        (inner.root, inner.height) = (plan.root, plan.height);
        inner.set_parent(plan.height == 1, plan.root, NONE);
    }
}

/// What is written, in ascending order of numbers.
fn writes<'a, B: Word, V: Word>(groups: &'a [Group<'a, B, V>], plan: &'a Plan<B, V>) -> Vec<Write<'a, B, V>> {
    let of_group = |group: &'a Group<'a, B, V>| Write { number: group.number, source: Source::Group(group) };
    let mut writes: Vec<_> =
        groups.iter().filter(|group| group.acts() && !plan.deferred.contains(&group.number)).map(of_group).collect();
    for run in &plan.runs {
        let piece = |(i, &number): (usize, &u32)| Write { number, source: Source::Pairs(run.piece(i)) };
        writes.extend(run.pieces.iter().enumerate().map(piece));
    }
    writes.sort_unstable_by_key(|write| write.number);
    writes
}
