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

mod group;
mod mixed;
mod plan;
mod send;
mod sorting;

use super::nodes::{Columns, last_lines, parts_mut, upper_lines, write_upper};
use super::pool::NONE;
use super::{BigLeaves, Regular};
use crate::line::prefetch;
use crate::options::{Pinning, UpdateTimes};
use crate::structure::{Inner, Leaves, Parts, Place};
use core::ops::Range;
use group::{Change, Group, Source, Write};
use lanetree_frame::parallel::*;
use lanetree_frame::room::make_room;
use lanetree_frame::{NetChange, Op, Result, UpdatePath, UpdateReport, combine, fold};
use lanetree_layout::{Key, KeyWord, Word};
use plan::Plan;
use sorting::{Sorted, sort_on_device};
use std::time::{Duration, Instant};

/// Changes whose places one task finds at a time.
const TASK: usize = 4096;

/// Changes whose leaves are found before these are searched.
const CHUNK: usize = 256;

/// Big leaves that one task writes at a time.
const WRITES: usize = 64;

/// Big leaves whose sizes are on their way to the caches while another one's is read.
const INFOS_AHEAD: usize = 16;

/// Measures the parts of a batch.
struct Clock(Instant);

impl Clock {
    /// The time since the last call.
    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - core::mem::replace(&mut self.0, now)
    }
}

impl<K: Key, V: Word> Parts<K, V, Regular> {
    /// Applies operations. The device sorts them if it is to, and has the inner levels.
    pub(super) fn apply(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        self.with_all_sent(|parts| parts.apply_all(count, op))
    }

    fn apply_all(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        let mut clock = Clock(Instant::now());
        let is_possible = count > 0 && u32::try_from(count).is_ok();
        let copy = self.copy.as_ref().filter(|_| self.options.device_updates && is_possible);
        let (places, changes, folding) = if let Some(copy) = copy {
            let sorted = match sort_on_device(&mut self.sorting, &self.device, copy, count, |i| *op(i).key()) {
                Ok(sorted) => sorted,
                Err(error) => {
                    // Its memory is the device's, too.
                    self.sorting = None;
                    self.note_refusal(&error);
                    return Err(error);
                }
            };
            let (changes, leaves) = in_order(sorted, op)?;
            let folding = clock.lap();
            (self.places_in(&changes, &leaves)?, changes, folding)
        } else {
            let changes = fold(count, op)?;
            let folding = clock.lap();
            (self.places(&changes)?, changes, folding)
        };
        let finding = clock.lap();
        let report = self.change_at(&changes, &places)?;
        (self.update_times.fold, self.update_times.find) = (folding, finding);
        Ok(report)
    }

    /// Applies changes.
    pub(super) fn change(&mut self, changes: &[Change<K::Bits, V>]) -> Result<UpdateReport> {
        self.with_all_sent(|parts| parts.change_all(changes))
    }

    fn change_all(&mut self, changes: &[Change<K::Bits, V>]) -> Result<UpdateReport> {
        let started = Instant::now();
        let places = self.places(changes)?;
        let finding = started.elapsed();
        let report = self.change_at(changes, &places)?;
        self.update_times.find = finding;
        Ok(report)
    }

    /// Applies changes at these places.
    fn change_at(&mut self, changes: &[Change<K::Bits, V>], places: &[Place]) -> Result<UpdateReport> {
        let (mut clock, mut times) = (Clock(Instant::now()), UpdateTimes::default());
        let groups = self.groups(changes, places)?;
        let of_group = |sum: UpdateReport, group: &Group<'_, K::Bits, V>| sum.plus(&group.report());
        let sums = groups.par_iter().with_min_len(4096).parts(|groups| groups.fold(UpdateReport::default(), of_group));
        let mut report = sums.iter().fold(UpdateReport::default(), |sum, part| sum.plus(part));
        if report.inserted + report.removed + report.replaced == 0 {
            times.plan = clock.lap();
            self.update_times = times;
            return Ok(report);
        }
        let plan = Plan::new(self, &groups)?;
        report.path = if plan.runs.is_empty() { UpdatePath::InPlace } else { UpdatePath::Moved };
        let writes = writes(&groups, &plan)?;
        times.plan = clock.lap();
        let mut options = self.options;
        if self.copy.is_none() && options.pinning == Pinning::Required {
            // A device without inner levels reads no leaves.
            options.pinning = Pinning::IfPossible;
        }
        match self.leaves.reserve(plan.last_numbers.end, &options) {
            Ok(None) => {}
            Ok(Some(refused)) => self.pinned = Some(Err(refused.to_string())),
            Err(error) => {
                self.note_refusal(&error);
                return Err(error);
            }
        }
        self.leaves.pool.make_room(&plan.last_numbers)?;
        self.inner.pool.make_room(&plan.upper_numbers)?;
        self.inner.reserve(self.leaves.room(), plan.upper_numbers.end, self.options.inner_pages)?;
        times.room = clock.lap();
        let copy = self.send(changes.len(), &writes, &plan)?;
        times.device = clock.lap();
        self.write(&writes, &plan, &report);
        if copy.is_some() {
            self.copy = copy;
            if self.no_copy.take().is_some() && self.options.pinning != Pinning::None {
                // The device is back. The batch has taken place whether it can read the leaves again or not.
                self.pinned =
                    Some(Leaves::<K, V>::pin(&mut self.leaves, &self.device).map_err(|error| error.to_string()));
            }
        }
        times.host = clock.lap();
        self.update_times = times;
        Ok(report)
    }

    /// The place of each change's key, in the order of `changes`.
    fn places<T: Sync>(&self, changes: &[(K::Bits, T)]) -> Result<Vec<Place>> {
        let (how, height) = (self.options.descent(), self.inner.height);
        let mut places = filled(Place { leaf: 0, slot: 0, is_hit: false }, changes.len())?;
        places.par_chunks_mut(TASK).zip(changes.par_chunks(TASK)).for_each(|(places, changes)| {
            for (places, changes) in places.chunks_mut(CHUNK).zip(changes.chunks(CHUNK)) {
                let (mut words, mut leaves) = ([K::Bits::MIN; CHUNK], [0; CHUNK]);
                words.iter_mut().zip(changes).for_each(|(word, change)| *word = change.0);
                let (words, leaves) = (&words[..changes.len()], &mut leaves[..changes.len()]);
                Inner::<K>::descend(&self.inner, how, words, 0..height, leaves);
                Leaves::<K, V>::find(&self.leaves, words, leaves, how.in_flight, |i, place| places[i] = place);
            }
        });
        Ok(places)
    }

    /// Where each key belongs whose leaf is known.
    fn places_in(&self, changes: &[Change<K::Bits, V>], leaves: &[u32]) -> Result<Vec<Place>> {
        let ahead = self.options.in_flight;
        let mut places = filled(Place { leaf: 0, slot: 0, is_hit: false }, changes.len())?;
        places.par_chunks_mut(CHUNK).zip(changes.par_chunks(CHUNK).zip(leaves.par_chunks(CHUNK))).for_each(
            |(places, (changes, leaves))| {
                let mut words = [K::Bits::MIN; CHUNK];
                words.iter_mut().zip(changes).for_each(|(word, change)| *word = change.0);
                let words = &words[..changes.len()];
                Leaves::<K, V>::find(&self.leaves, words, leaves, ahead, |i, place| places[i] = place);
            },
        );
        Ok(places)
    }

    /// The changes of each big leaf.
    fn groups<'a>(&self, changes: &'a [Change<K::Bits, V>], places: &'a [Place]) -> Result<Vec<Group<'a, K::Bits, V>>> {
        let number = |at: usize| BigLeaves::<K::Bits, V>::rank_within(places[at]).0;
        let is_first = |at: usize| at == 0 || number(at - 1) != number(at);
        let firsts = kept(places.len(), |at| is_first(at).then_some(at))?;
        let has_parent = self.inner.height > 1;
        let group = |(i, &first): (usize, &usize)| {
            if let Some(&later) = firsts.get(i + INFOS_AHEAD) {
                self.leaves.prefetch_info(number(later));
            }
            let own = first..firsts.get(i + 1).copied().unwrap_or(places.len());
            Group::new(&self.leaves, &changes[own.clone()], &places[own], has_parent)
        };
        firsts.par_iter().with_min_len(64).enumerate().map(group).try_collect()
    }

    /// Writes what was planned.
    fn write(&mut self, writes: &[Write<'_, K::Bits, V>], plan: &Plan<K::Bits, V>, report: &UpdateReport) {
        // The nodes from the first to the last one of a task. No two tasks have one in common, since numbers ascend.
        let tasks = || writes.chunks(WRITES).map(|writes| writes[0].number..writes[writes.len() - 1].number + 1);
        let leaves = parts_mut(self.leaves.lines_mut(), BigLeaves::<K::Bits, V>::STRIDE, tasks());
        let nodes = parts_mut(&mut self.inner.last, last_lines::<K::Bits>(), tasks());
        let tasks: Vec<_> = leaves.zip(nodes).zip(writes.chunks(WRITES)).collect();
        tasks.into_par_iter().parts(|tasks| {
            let mut buffer = Columns::with_capacity(BigLeaves::<K::Bits, V>::CAPACITY);
            for ((leaves, nodes), writes) in tasks {
                let first = writes[0].number;
                let part = |number: u32, stride: usize| -> Range<usize> {
                    let start = (number - first) as usize * stride;
                    start..start + stride
                };
                for (i, write) in writes.iter().enumerate() {
                    if let Some(next) = writes.get(i + 1) {
                        let start = part(next.number, BigLeaves::<K::Bits, V>::STRIDE).start;
                        next.lines().for_each(|line| prefetch(leaves, start + line));
                    }
                    let leaf = &mut leaves[part(write.number, BigLeaves::<K::Bits, V>::STRIDE)];
                    write.write(leaf, &mut nodes[part(write.number, last_lines::<K::Bits>())], &mut buffer);
                }
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

/// Changes, and the leaf of each.
type ChangesAndLeaves<B, V> = (Vec<Change<B, V>>, Vec<u32>);

/// The net changes of operations in the order of their keys, and the leaf of each.
fn in_order<K: Key, V: Word>(
    Sorted { order, leaves }: Sorted<'_>,
    op: impl Fn(usize) -> Op<K, V> + Sync,
) -> Result<ChangesAndLeaves<K::Bits, V>> {
    let change = |&at: &u32| {
        let op = op(at as usize);
        (op.key().encode(), NetChange::from(op))
    };
    let changes = order.par_iter().with_min_len(TASK).map(change).try_collect()?;
    // Equal keys have the same leaf.
    let is_first = |at: usize| at == 0 || changes[at - 1].0 != changes[at].0;
    let leaves = kept(changes.len(), |at| is_first(at).then(|| leaves[at]))?;
    Ok((combine(changes)?, leaves))
}

/// What `keep` returns for the numbers below `count`, without `None`, in their order.
fn kept<T: Copy + Send + Sync>(count: usize, keep: impl Fn(usize) -> Option<T> + Sync) -> Result<Vec<T>> {
    (0..count).into_par_iter().with_min_len(TASK).filter_map_collect(keep)
}

/// What is written, in ascending order of numbers.
fn writes<'a, B: Word, V: Word>(groups: &'a [Group<'a, B, V>], plan: &'a Plan<B, V>) -> Result<Vec<Write<'a, B, V>>> {
    let is_in_run = |at: usize| plan.is_in_run.get(at).copied().unwrap_or(false);
    let of_group = |at: usize| {
        let group = &groups[at];
        let stays = group.acts() && !is_in_run(at);
        stays.then_some(Write { number: group.number, source: Source::Group(group) })
    };
    let mut writes = kept(groups.len(), of_group)?;
    make_room(&mut writes, plan.runs.iter().map(|run| run.pieces.len()).sum())?;
    for run in &plan.runs {
        let piece = |(i, &number): (usize, &u32)| Write { number, source: Source::Pairs(run.piece(i)) };
        writes.extend(run.pieces.iter().enumerate().map(piece));
    }
    // Until the first split they are sorted already.
    if !writes.is_sorted_by_key(|write| write.number) {
        sort_by_word(&mut writes, |write| write.number)?;
    }
    Ok(writes)
}
