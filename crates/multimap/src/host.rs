//! Batches of changes on the host, in place: what a batch touches, whatever the size of the map. Memory is taken, and all is planned,
//! before the tree of keys changes, which is the only step that others see and which takes place as a whole or not at all. What is
//! written before it nobody reads, and what comes after it does not fail.

use crate::contents::Contents;
use crate::options::Options;
use crate::places::slice;
use crate::wanted::Wanted;
use crate::{MOST_PAIRS, MultiMap};
use core::ops::Range;
use lanetree_frame::fixed::FixedIndex;
use lanetree_frame::parallel::*;
use lanetree_frame::room::{copied, with_room, zeroed};
use lanetree_frame::{Buffer, Error, Op, Result, UpdatePath, UpdateReport};
use lanetree_kernels_multimap::layout::{begin, count, place, room};
use lanetree_layout::{AnyKey, Word};

/// A part of a map's values for which there is memory for runs that move. It is not touched, and so hardly there, before it is used.
const ROOM: f64 = 0.5;

/// Positions for runs that move, at least, so that small maps have some.
const LEAST: u64 = 1 << 12;

/// After removals a map is rebuilt if it has more positions than this for each value.
const MOST_POSITIONS: u64 = 4;

/// Keys of a batch that a thread takes at a time.
const TASK: usize = 1 << 10;

impl<K: AnyKey, V: Word> Contents<K, V> {
    /// The places of keys, 0 for those that are absent.
    fn places_of(&self, keys: &[K]) -> Result<Vec<u64>> {
        let mut places = zeroed(keys.len())?;
        self.keys.get_many_or(keys, 0, &mut places)?;
        Ok(places)
    }

    /// Makes room for runs that move; false if there is too little.
    fn has_room(&mut self, end: u64, options: &Options<K>) -> Result<bool> {
        if self.more.is_none() && end > self.values.len() as u64 {
            let room = (self.values.len() as f64 * options.room.max(ROOM)).ceil() as u64;
            self.more = Some(self.keys.device().alloc(room.max(LEAST) as usize)?);
        }
        Ok(end <= self.positions().min(MOST_PAIRS))
    }
}

impl<K: AnyKey, V: Word> MultiMap<K, V> {
    /// Inserts the sorted values of a batch's distinct keys in place; false if there is no room.
    ///
    /// # Errors
    /// As [`MultiMap::insert_many`].
    pub(crate) fn insert_on_host(&mut self, keys: &[K], added: &[u64], values: &[V]) -> Result<bool> {
        let contents = &mut self.contents;
        let old = contents.places_of(keys)?;
        let (mut new, mut used) = (with_room(keys.len())?, contents.used.max(contents.values.len() as u64));
        for ((key, &old), &added) in keys.iter().zip(&old).zip(added) {
            let values = count(old) + added;
            if values > self.options.most {
                return Err(Error::TooManyValues { key: key.to_string(), values, most: self.options.most });
            }
            let stays = begin(old) >= contents.dense && count(old) > 0 && values <= room(count(old));
            new.push(place(if stays { begin(old) } else { used }, values));
            used += if stays { 0 } else { room(values) };
        }
        if !contents.has_room(used, &self.options)? {
            return Ok(false);
        }
        let mut from = values;
        for ((&old, &new), &added) in old.iter().zip(&new).zip(added) {
            let own;
            (own, from) = from.split_at(added as usize);
            contents.append(old, new, own);
        }
        contents.keys.insert_many(keys, &new)?;
        contents.used = used;
        contents.len += values.len() as u64;
        Ok(true)
    }

    /// Removes all pairs of each key: [`MultiMap::remove_all_many`].
    pub(crate) fn remove_all_on_host(&mut self, keys: &[K]) -> Result<UpdateReport> {
        let mut keys = copied(keys)?;
        let batch = keys.len() as u64;
        keys.sort_unstable();
        keys.dedup();
        let places = self.contents.places_of(&keys)?;
        let removed: u64 = places.iter().map(|&place| count(place)).sum();
        let removed_keys = places.iter().filter(|&&place| place > 0).count() as u64;
        let report = UpdateReport { removed, unmatched: batch - removed_keys, ..UpdateReport::default() };
        if removed_keys > 0 {
            self.contents.keys.remove_many(&keys)?;
        }
        self.removed(report)
    }

    /// Removes pairs: [`MultiMap::remove_pairs_many`].
    pub(crate) fn remove_pairs_on_host(&mut self, batch: &Wanted<K, V>) -> Result<UpdateReport> {
        let old = self.contents.places_of(&batch.keys)?;
        let rows = (0..old.len().div_ceil(TASK)).into_par_iter();
        let removed = rows.try_map_collect(|task| {
            let rows = task * TASK..old.len().min(task * TASK + TASK);
            let first = batch.offsets[rows.start] as usize;
            let mut left = copied(&batch.times[first..batch.offsets[rows.end] as usize])?;
            let mut removed = with_room(rows.len())?;
            for row in rows {
                let own = batch.own(row);
                let left = &mut left[own.start - first..own.end - first];
                let goes = |value: &&V| batch.takes(own.clone(), **value, left);
                removed.push(self.contents.run(old[row]).iter().filter(goes).count() as u64);
            }
            Ok(removed)
        })?;
        let mut removed_of = with_room(old.len())?;
        removed.iter().for_each(|rows| removed_of.extend_from_slice(rows));
        let removed: Vec<u64> = removed_of;
        let new = |row: usize| place(begin(old[row]), count(old[row]) - removed[row]);
        let touched = (0..old.len()).into_par_iter().with_min_len(TASK).filter_collect(|&row| removed[row] > 0)?;
        let mut left = copied(&batch.times)?;
        let change = |at: usize| match (batch.keys[touched[at]], new(touched[at])) {
            (key, place) if count(place) == 0 => Op::Remove(key),
            (key, place) => Op::Insert(key, place),
        };
        if !touched.is_empty() {
            self.contents.keys.apply_each(touched.len(), change)?;
        }
        for &row in touched.iter().filter(|&&row| count(new(row)) > 0) {
            let (own, run, mut kept) = (batch.own(row), self.contents.run_mut(old[row]), 0);
            for at in 0..run.len() {
                if !batch.takes(own.clone(), run[at], &mut left[own.clone()]) {
                    run[kept] = run[at];
                    kept += 1;
                }
            }
        }
        let (removed, all) = (removed.iter().sum(), batch.times.iter().sum::<u64>());
        self.removed(UpdateReport { removed, unmatched: all - removed, ..UpdateReport::default() })
    }

    /// Notes what was removed, and rebuilds a map that has become small.
    fn removed(&mut self, report: UpdateReport) -> Result<UpdateReport> {
        if report.removed == 0 {
            return Ok(report);
        }
        self.contents.len -= report.removed;
        let (positions, len) = (self.contents.used, self.contents.len);
        if positions > LEAST + MOST_POSITIONS * len {
            // The pairs are removed. Where memory is lacking, the map stays as large as it is.
            if let Ok(contents) = self.device.stream().map_err(Error::from).and_then(|stream| self.rebuilt(&stream)) {
                self.contents = contents;
                return Ok(UpdateReport { path: UpdatePath::Rebuilt, ..report });
            }
        }
        Ok(UpdateReport { path: UpdatePath::InPlace, ..report })
    }
}

impl<K: AnyKey, V: Word> Contents<K, V> {
    /// Writes values after those of a run, which moves if its new place is another one. The tree of keys does not know yet.
    fn append(&mut self, old: u64, new: u64, values: &[V]) {
        let had = count(old) as usize;
        if begin(old) != begin(new) && had > 0 {
            let from = begin(old) as usize;
            let to = begin(new) as usize - self.values.len();
            let more = self.more.as_mut().map_or(&mut [][..], crate::places::slice_mut);
            match from.checked_sub(self.values.len()) {
                None => more[to..to + had].copy_from_slice(&slice(&self.values)[from..from + had]),
                Some(from) => more.copy_within(from..from + had, to),
            }
        }
        self.run_mut(new)[had..].copy_from_slice(values);
    }

    /// A batch's values after those of runs that were moved: from position `base` on, which is returned, they are past all of the map's.
    pub(crate) fn beside_more(&self, batch: Buffer<V>) -> Result<(Buffer<V>, u64)> {
        let base = self.values.len() as u64;
        let Some(more) = &self.more else { return Ok((batch, base)) };
        let moved = &slice(more)[..self.used.saturating_sub(base) as usize];
        let mut joined = self.keys.device().alloc(moved.len() + batch.len())?;
        joined.copy_range_from(0, moved)?;
        joined.copy_range_from(moved.len(), slice(&batch))?;
        Ok((joined, base + moved.len() as u64))
    }
}

impl<K: AnyKey, V: Word> Wanted<K, V> {
    /// The wanted values of a key, by its place in `keys`.
    fn own(&self, row: usize) -> Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    /// Whether a value of a key is removed, of whose wanted values so many are left.
    fn takes(&self, own: Range<usize>, value: V, left: &mut [u64]) -> bool {
        let at = self.values[own].binary_search(&value);
        at.is_ok_and(|at| {
            let takes = left[at] > 0;
            left[at] -= u64::from(takes);
            takes
        })
    }
}
