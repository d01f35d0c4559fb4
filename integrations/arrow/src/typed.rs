//! An index over keys of one type.

use crate::error::{Error, Result, filled, room};
use crate::keys::Source;
use core::ops::Bound;
use lanetree::{Device, HostForm, KeyRange, LaneTree, Matches};

/// No row has this number: a miss.
pub(crate) const NO_ROW: u64 = u64::MAX;

/// Which probes a join answers with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// Those that match.
    #[default]
    Inner,
    /// All: those without a match once, with a null for the row.
    Left,
}

/// A tree of the distinct keys, and the rows of each.
pub(crate) struct Typed<K: Source> {
    /// A key's value is its row; the last one, if it has several.
    tree: LaneTree<K, u64>,
    /// Only if a key has several rows.
    groups: Option<Groups>,
}

/// The rows of each key, in main memory, where results are wanted.
struct Groups {
    /// Where the rows of each key begin, in the order of the keys; and the end of the last.
    starts: Vec<u64>,
    /// Row numbers in the order of their keys; those of one key ascend.
    rows: Vec<u64>,
}

impl Groups {
    /// From the number of each row's key.
    fn new(keys: usize, key_of_each: &[u64], rows: &[u64]) -> Result<Self> {
        let mut starts = filled(0, keys + 1)?;
        for &key in key_of_each {
            starts[key as usize + 1] += 1;
        }
        for key in 0..keys {
            starts[key + 1] += starts[key];
        }
        let mut next = room(keys)?;
        next.extend_from_slice(&starts[..keys]);
        let mut ordered = filled(0, rows.len())?;
        for (&key, &row) in key_of_each.iter().zip(rows) {
            let at: &mut u64 = &mut next[key as usize];
            ordered[*at as usize] = row;
            *at += 1;
        }
        Ok(Self { starts, rows: ordered })
    }

    /// The rows of the key with this number.
    fn of(&self, key: u64) -> &[u64] {
        self.between(key, key + 1)
    }

    /// The rows of the keys with these numbers; none of a reversed range.
    fn between(&self, start: u64, end: u64) -> &[u64] {
        let (start, end) = (self.starts[start as usize], self.starts[end.max(start) as usize]);
        &self.rows[start as usize..end as usize]
    }
}

impl<K: Source> Typed<K> {
    /// Over keys, the row of each; rows ascend.
    pub(crate) fn build(device: &Device, keys: &[K], rows: &[u64]) -> Result<Self> {
        let tree = LaneTree::build(device, keys, rows)?;
        let distinct = tree.len() as usize;
        let groups = match distinct == keys.len() {
            true => None,
            false => Some(Groups::new(distinct, &tree.lower_bound_many(keys)?, rows)?),
        };
        Ok(Self { tree, groups })
    }

    pub(crate) fn device(&self) -> &Device {
        self.tree.device()
    }

    pub(crate) fn len(&self) -> u64 {
        self.groups.as_ref().map_or(self.tree.len(), |groups| groups.rows.len() as u64)
    }

    pub(crate) fn keys_len(&self) -> u64 {
        self.tree.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.tree.bytes()
    }

    pub(crate) fn host_bytes(&self) -> u64 {
        self.groups.as_ref().map_or(0, |groups| size_of_val(&groups.starts[..]) + size_of_val(&groups.rows[..])) as u64
    }

    /// The number of each key, or [`NO_ROW`].
    fn numbers(&self, probes: &[K]) -> Result<Vec<u64>> {
        const { assert!(NO_ROW == Matches::NO_ROW) };
        let mut out = filled(NO_ROW, probes.len())?;
        self.tree.rows_of_many(probes, &mut out)?;
        Ok(out)
    }

    /// The first row of each probe, or [`NO_ROW`].
    pub(crate) fn get(&self, probes: &[K]) -> Result<Vec<u64>> {
        let Some(groups) = &self.groups else {
            let mut out = filled(NO_ROW, probes.len())?;
            self.tree.get_many_or(probes, NO_ROW, &mut out)?;
            return Ok(out);
        };
        let mut out = self.numbers(probes)?;
        for row in out.iter_mut().filter(|row| **row != NO_ROW) {
            *row = groups.of(*row)[0];
        }
        Ok(out)
    }

    /// Pairs of probes and rows, in the order of the probes; `is_null` says which probes match nothing.
    pub(crate) fn join(
        &self,
        probes: &[K],
        is_null: impl Fn(usize) -> bool,
        join: Join,
    ) -> Result<(Vec<u64>, Vec<u64>)> {
        let found = match &self.groups {
            None => self.get(probes)?,
            Some(_) => self.numbers(probes)?,
        };
        let rows_of = |probe: usize| -> &[u64] {
            match (&found[probe], &self.groups) {
                (row, _) if *row == NO_ROW || is_null(probe) => match join {
                    Join::Inner => &[],
                    Join::Left => &[NO_ROW],
                },
                (row, None) => core::slice::from_ref(row),
                (&key, Some(groups)) => groups.of(key),
            }
        };
        let total = (0..probes.len()).map(|probe| rows_of(probe).len()).sum();
        let (mut matched, mut rows) = (room(total)?, room(total)?);
        for probe in 0..probes.len() {
            let of_probe = rows_of(probe);
            matched.extend(core::iter::repeat_n(probe as u64, of_probe.len()));
            rows.extend_from_slice(of_probe);
        }
        Ok((matched, rows))
    }

    /// The last row whose key is not above each probe, or the first one whose key is not below it; or [`NO_ROW`].
    pub(crate) fn neighbor(&self, probes: &[K], predecessor: bool) -> Result<Vec<u64>> {
        let Some(groups) = &self.groups else {
            let pairs = match predecessor {
                true => self.tree.predecessor_many(probes)?,
                false => self.tree.successor_many(probes)?,
            };
            let mut rows = room(probes.len())?;
            rows.extend(pairs.into_iter().map(|pair| pair.map_or(NO_ROW, |(_, row)| row)));
            return Ok(rows);
        };
        // All rows before the place, or all from it on.
        let mut places = match predecessor {
            true => self.tree.upper_bound_many(probes)?,
            false => self.tree.lower_bound_many(probes)?,
        };
        for place in &mut places {
            let at = groups.starts[*place as usize];
            let row = if predecessor { at.checked_sub(1) } else { Some(at) };
            *place = row.and_then(|row| groups.rows.get(row as usize)).map_or(NO_ROW, |row| *row);
        }
        Ok(places)
    }

    /// The rows of each range, in the order of their keys: where each range's begin and the last one's end, and rows.
    pub(crate) fn range(
        &self,
        count: usize,
        starts: Bound<&[K]>,
        ends: Bound<&[K]>,
        is_null: impl Fn(usize) -> bool,
    ) -> Result<(Vec<u64>, Vec<u64>)> {
        let Some(groups) = &self.groups else {
            let mut ranges = room(count)?;
            ranges.extend((0..count).map(|i| match is_null(i) {
                true => nothing(),
                false => range(starts.map(|keys| keys[i]), ends.map(|keys| keys[i])),
            }));
            let found = self.tree.range_many(ranges)?;
            return Ok((found.offsets, found.values));
        };
        let (first, last) = self.places(count, starts, ends)?;
        let rows_of = |i: usize| if is_null(i) { &[] } else { groups.between(first[i], last[i]) };
        let mut offsets = room(count + 1)?;
        let mut total = 0;
        offsets.push(0);
        for i in 0..count {
            total += rows_of(i).len();
            offsets.push(total as u64);
        }
        let mut rows = room(total)?;
        (0..count).for_each(|i| rows.extend_from_slice(rows_of(i)));
        Ok((offsets, rows))
    }

    /// How many rows each range has.
    pub(crate) fn count_range(&self, count: usize, starts: Bound<&[K]>, ends: Bound<&[K]>) -> Result<Vec<u64>> {
        let (mut first, last) = self.places(count, starts, ends)?;
        for (first, last) in first.iter_mut().zip(last) {
            *first = match &self.groups {
                None => last.saturating_sub(*first),
                Some(groups) => groups.between(*first, last).len() as u64,
            };
        }
        Ok(first)
    }

    /// The numbers of the first key of each range and of the first key past it.
    fn places(&self, count: usize, starts: Bound<&[K]>, ends: Bound<&[K]>) -> Result<(Vec<u64>, Vec<u64>)> {
        let starts = match starts {
            Bound::Included(keys) => self.tree.lower_bound_many(keys)?,
            Bound::Excluded(keys) => self.tree.upper_bound_many(keys)?,
            Bound::Unbounded => filled(0, count)?,
        };
        let ends = match ends {
            Bound::Included(keys) => self.tree.upper_bound_many(keys)?,
            Bound::Excluded(keys) => self.tree.lower_bound_many(keys)?,
            Bound::Unbounded => filled(self.tree.len(), count)?,
        };
        match (starts.len(), ends.len()) {
            (starts, ends) if starts == ends => {}
            (starts, ends) => return Err(Error::BoundLengths { starts, ends }),
        }
        Ok((starts, ends))
    }
}

/// The range between two bounds; one that is reversed is empty, as in SQL.
fn range<K: Source>(start: Bound<K>, end: Bound<K>) -> KeyRange<K> {
    match (start, end) {
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) if a > b => nothing(),
        bounds => KeyRange::new(bounds),
    }
}

/// The range above the largest key.
fn nothing<K: Source>() -> KeyRange<K> {
    KeyRange::new((Bound::Excluded(K::MAX), Bound::Unbounded))
}
