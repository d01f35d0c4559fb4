//! Batches of changes: the tree is built again (section 5.6), unless only values change.

use crate::implicit::leaves::{PackedLeaves, write};
use crate::line::{Leaf, slots};
use crate::structure::{Parts, Structure};
use lanetree_frame::parallel::*;
use lanetree_frame::room::{collected, copied, with_room};
use lanetree_frame::{NetChange, Result, UpdatePath, UpdateReport};
use lanetree_layout::{Key, Word};
use lanetree_runtime::Pages;
use std::time::Instant;

/// Pairs that are merged at a time.
const CHUNK: u64 = 4096;

/// Lines that a task writes.
const LINES: usize = 1 << 14;

/// A change of a batch: the effect of all operations of a key.
type Change<B, V> = (B, NetChange<V>);

/// Applies changes to a tree over full leaves. The new tree is complete, on the device too, before it takes the place of the
/// old one; so the tree is as it was, or as it is to be. A device that has no copy need not take one: where it fails once more
/// the CPU goes on alone.
///
/// # Errors
/// As [`Structure::change`].
pub(crate) fn change<K, V, L>(tree: &mut Parts<K, V, L>, changes: &[Change<K::Bits, V>]) -> Result<UpdateReport>
where
    K: Key,
    V: Word,
    L: Structure<Leaves<K, V> = PackedLeaves<K::Bits, V>>,
{
    let started = Instant::now();
    let chunks = chunks(&tree.leaves, changes)?;
    let mut report = chunks.iter().fold(UpdateReport::default(), |sum, chunk| sum.plus(&chunk.report));
    if report.inserted + report.removed > 0 {
        let leaves = merged(&tree.leaves, &chunks, tree.options.leaf_pages)?;
        let mut changed = Parts::in_main_memory(&tree.device, tree.options, leaves, started.elapsed())?;
        if let Err(error) = changed.upload().and_then(|()| changed.pin()) {
            if tree.copy.is_some() {
                tree.note_refusal(&error);
                return Err(error);
            }
            changed.copy = None;
            changed.note_refusal(&error);
        }
        *tree = changed;
        report.path = UpdatePath::Rebuilt;
    } else if report.replaced > 0 {
        replace(&mut tree.leaves, &chunks)?;
        if tree.copy.is_none()
            && let Err(error) = tree.upload().and_then(|()| tree.pin())
        {
            tree.copy = None;
            tree.note_refusal(&error);
        }
        report.path = UpdatePath::InPlace;
    }
    Ok(report)
}

/// Writes new values of keys that are there.
fn replace<B: Word, V: Word>(leaves: &mut PackedLeaves<B, V>, chunks: &[Chunk<'_, B, V>]) -> Result<()> {
    let parts = chunks.par_iter().try_map_collect(|chunk| chunk.replaced(leaves))?;
    let mut values: Vec<(u64, V)> = with_room(parts.iter().map(Vec::len).sum())?;
    parts.into_iter().for_each(|part| values.extend(part));
    let per_leaf = slots::<B, V>() as u64;
    // Borrowed once: an array checks at each borrow whether the device reads it.
    let lines = &mut leaves.memory_mut()[..];
    lines.par_chunks_mut(LINES).enumerate().for_each(|(task, lines)| {
        let first = (task * LINES) as u64 * per_leaf;
        let end = first + lines.len() as u64 * per_leaf;
        let from = values.partition_point(|value| value.0 < first);
        for &(rank, value) in values[from..].iter().take_while(|value| value.0 < end) {
            let line = &mut lines[((rank - first) / per_leaf) as usize];
            let slot = (rank % per_leaf) as usize;
            let key = line.keys::<B, V>()[slot];
            line.set(slot, key, value);
        }
    });
    Ok(())
}

/// Neighbouring pairs, and the changes that fall among them.
struct Chunk<'a, B, V> {
    /// Ranks of the pairs.
    start: u64,
    end: u64,
    changes: &'a [Change<B, V>],
    /// What they do; the path is not set.
    report: UpdateReport,
}

/// Splits a tree and a batch, and finds out what the batch does.
fn chunks<'a, B: Word, V: Word>(
    leaves: &PackedLeaves<B, V>,
    changes: &'a [Change<B, V>],
) -> Result<Vec<Chunk<'a, B, V>>> {
    let count = leaves.pairs_len().div_ceil(CHUNK).max(1);
    let bound = |chunk: u64| match leaves.pair(chunk * CHUNK) {
        // Before the first pair of all there may be changes, too.
        Some((first, _)) if chunk > 0 => changes.partition_point(|change| change.0 < first),
        _ if chunk == 0 => 0,
        _ => changes.len(),
    };
    let chunk = |chunk: u64| {
        let (start, end) = (chunk * CHUNK, ((chunk + 1) * CHUNK).min(leaves.pairs_len()));
        let mut chunk =
            Chunk { start, end, changes: &changes[bound(chunk)..bound(chunk + 1)], report: UpdateReport::default() };
        let mut from = start;
        for &(key, change) in chunk.changes {
            from = lower_bound(leaves, from, end, key);
            let is_there = from < end && leaves.pair(from).is_some_and(|pair| pair.0 == key);
            *match change {
                NetChange::Put(_) | NetChange::PutIfPresent(_) if is_there => &mut chunk.report.replaced,
                NetChange::Put(_) => &mut chunk.report.inserted,
                NetChange::Remove if is_there => &mut chunk.report.removed,
                NetChange::Remove | NetChange::PutIfPresent(_) => &mut chunk.report.unmatched,
            } += 1;
        }
        chunk
    };
    (0..count).into_par_iter().map(chunk).try_collect()
}

/// The rank of the first pair from `start` to `end` whose key is not below `key`.
fn lower_bound<B: Word, V: Word>(leaves: &PackedLeaves<B, V>, mut start: u64, mut end: u64, key: B) -> u64 {
    while start < end {
        let middle = start.midpoint(end);
        if leaves.pair(middle).is_some_and(|pair| pair.0 < key) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    start
}

impl<B: Word, V: Word> Chunk<'_, B, V> {
    /// Pairs afterwards.
    fn len(&self) -> u64 {
        self.end - self.start + self.report.inserted - self.report.removed
    }

    /// Appends the pairs as they are afterwards.
    fn merge(&self, leaves: &PackedLeaves<B, V>, pairs: &mut Vec<(B, V)>) {
        let mut from = self.start;
        for &(key, change) in self.changes {
            let at = lower_bound(leaves, from, self.end, key);
            pairs.extend((from..at).filter_map(|rank| leaves.pair(rank)));
            let is_there = at < self.end && leaves.pair(at).is_some_and(|pair| pair.0 == key);
            from = at + u64::from(is_there);
            match change {
                NetChange::Put(value) => pairs.push((key, value)),
                NetChange::PutIfPresent(value) if is_there => pairs.push((key, value)),
                NetChange::PutIfPresent(_) | NetChange::Remove => {}
            }
        }
        pairs.extend((from..self.end).filter_map(|rank| leaves.pair(rank)));
    }

    /// The ranks of the keys that are there and get new values, with these.
    fn replaced(&self, leaves: &PackedLeaves<B, V>) -> Result<Vec<(u64, V)>> {
        let rank = |&(key, change): &Change<B, V>| match change {
            NetChange::Put(value) | NetChange::PutIfPresent(value) => {
                let rank = lower_bound(leaves, self.start, self.end, key);
                let is_there = rank < self.end && leaves.pair(rank).is_some_and(|pair| pair.0 == key);
                is_there.then_some((rank, value))
            }
            NetChange::Remove => None,
        };
        collected(self.changes.iter().filter_map(rank))
    }
}

/// The leaves as they are after a batch, in memory of their own.
fn merged<B: Word, V: Word>(
    leaves: &PackedLeaves<B, V>,
    chunks: &[Chunk<'_, B, V>],
    pages: Pages,
) -> Result<PackedLeaves<B, V>> {
    let len = chunks.iter().map(Chunk::len).sum();
    let mut lines = PackedLeaves::<B, V>::lines_with_room(len, pages)?;
    // Groups of chunks, so that there are few lines with pairs of two groups: these are written last.
    let per_leaf = slots::<B, V>() as u64;
    let groups = collected(chunks.chunks(16))?;
    let mut rest = &mut lines[..];
    let (mut tasks, mut rank, mut line) = (with_room(groups.len())?, 0, 0);
    for group in groups {
        let end: u64 = rank + group.iter().map(Chunk::len).sum::<u64>();
        // The lines that begin in this group; the pairs before them go to a line of the group before.
        let (first, last) = (rank.div_ceil(per_leaf), end.div_ceil(per_leaf));
        let own;
        (own, rest) = rest.split_at_mut((last - line) as usize);
        line = last;
        tasks.push((group, (first * per_leaf).min(end) - rank, own));
        rank = end;
    }
    let borders = tasks.into_par_iter().try_map_collect(|(group, before, own)| {
        let mut pairs = with_room(group.iter().map(Chunk::len).sum::<u64>() as usize)?;
        group.iter().for_each(|chunk| chunk.merge(leaves, &mut pairs));
        let (border, own_pairs) = pairs.split_at(before as usize);
        write(own, 0, own_pairs);
        copied(border)
    })?;
    let mut rank = 0;
    for (group, border) in chunks.chunks(16).zip(borders) {
        if !border.is_empty() {
            write(&mut lines, rank, &border);
        }
        rank += group.iter().map(Chunk::len).sum::<u64>();
    }
    Ok(PackedLeaves::new(lines, len))
}
