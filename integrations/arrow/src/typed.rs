//! An index over keys of one type.

use crate::error::{Result, filled, room};
use crate::trees::{NO_ROW, Tree};
use arrow_array::Array;
#[cfg(any(feature = "ipc", feature = "parquet"))]
use arrow_array::{ArrayRef, UInt64Array};
use arrow_buffer::ScalarBuffer;
#[cfg(any(feature = "ipc", feature = "parquet"))]
use arrow_schema::DataType;
use core::cmp::Ordering;
use core::ops::Bound;
use lanetree::Device;

/// Pairs that are written at a time, at most.
#[cfg(any(feature = "ipc", feature = "parquet"))]
pub(crate) const BATCH: usize = 1 << 16;

/// Which probes a join answers with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// Those that match.
    #[default]
    Inner,
    /// All: those without a match once, with a null for the row.
    Left,
}

/// A tree of the distinct keys, and the rows in their order.
pub(crate) struct Typed<T> {
    /// A key's value is its row; the last one, if it has several.
    tree: T,
    order: Order,
}

/// The rows in the order of their keys, in main memory, where results are wanted.
struct Order {
    /// Where the rows of each key begin, and the end of the last; none if each key has one row.
    starts: Option<Vec<u64>>,
    /// Row numbers, in the order of their keys; the rows of one key ascend.
    rows: ScalarBuffer<u64>,
}

impl Order {
    /// From each row's number and its key's number, of `keys` keys.
    fn new(keys: usize, key_of_each: &[u64], rows: &[u64]) -> Result<Self> {
        let mut ordered = filled(0, rows.len())?;
        if keys == rows.len() {
            key_of_each.iter().zip(rows).for_each(|(key, row)| ordered[*key as usize] = *row);
            return Ok(Self { starts: None, rows: ordered.into() });
        }
        let mut starts = filled(0, keys + 1)?;
        for &key in key_of_each {
            starts[key as usize + 1] += 1;
        }
        for key in 0..keys {
            starts[key + 1] += starts[key];
        }
        let mut next: Vec<u64> = room(keys)?;
        next.extend_from_slice(&starts[..keys]);
        for (&key, &row) in key_of_each.iter().zip(rows) {
            let at = &mut next[key as usize];
            ordered[*at as usize] = row;
            *at += 1;
        }
        Ok(Self { starts: Some(starts), rows: ordered.into() })
    }

    /// Where the rows of the keys from this one on begin.
    fn start(&self, key: u64) -> usize {
        self.starts.as_ref().map_or(key, |starts| starts[key as usize]) as usize
    }

    /// The rows of the keys with these numbers; none of a reversed range.
    fn between(&self, start: u64, end: u64) -> &[u64] {
        &self.rows[self.start(start)..self.start(end.max(start))]
    }
}

/// The bounds of ranges; both are of one length, if they are arrays.
pub(crate) struct Bounds<'a> {
    pub(crate) starts: Bound<&'a dyn Array>,
    pub(crate) ends: Bound<&'a dyn Array>,
    /// How many ranges there are.
    pub(crate) count: usize,
}

impl<T: Tree> Typed<T> {
    /// Over an array, less its nulls.
    pub(crate) fn build(device: &Device, column: &dyn Array) -> Result<Self> {
        let mut keys = T::keys(column)?;
        let mut rows = room(column.len() - column.null_count())?;
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => rows.extend(0..column.len() as u64),
            Some(nulls) => {
                rows.extend(nulls.valid_indices().map(|row| row as u64));
                keys = T::picked(&keys, &rows)?;
            }
        }
        let keys = T::batch(&keys)?;
        let tree = T::build(device, keys, &rows)?;
        let order = Order::new(tree.len() as usize, &tree.rank(keys, false)?, &rows)?;
        Ok(Self { tree, order })
    }

    /// Over an array whose rows, less its nulls, are given in the order of their keys, those of one key ascending; `None` if they are others
    /// or in another order.
    pub(crate) fn build_ordered(device: &Device, column: &dyn Array, rows: ScalarBuffer<u64>) -> Result<Option<Self>> {
        let is_row = |row: &u64| usize::try_from(*row).is_ok_and(|row| row < column.len() && column.is_valid(row));
        if rows.len() != column.len() - column.null_count() || !rows.iter().all(is_row) {
            return Ok(None);
        }
        let ordered = T::picked(&T::keys(column)?, &rows)?;
        let keys = T::batch(&ordered)?;
        // Where the rows of each key begin.
        let mut starts: Vec<u64> = room(rows.len() + 1)?;
        for at in 0..rows.len() {
            let before = at.checked_sub(1);
            match before.map_or(Ordering::Less, |before| T::compare(keys, before, at)) {
                Ordering::Less => starts.push(at as u64),
                // No row is there twice: it has one key.
                Ordering::Equal if rows[at - 1] < rows[at] => {}
                _ => return Ok(None),
            }
        }
        let count = starts.len();
        if count == rows.len() {
            let tree = T::build(device, keys, &rows)?;
            return Ok(Some(Self { tree, order: Order { starts: None, rows } }));
        }
        starts.push(rows.len() as u64);
        let mut last_rows: Vec<u64> = room(count)?;
        last_rows.extend(starts[1..].iter().map(|end| rows[*end as usize - 1]));
        let distinct = T::picked(&ordered, &starts[..count])?;
        let tree = T::build(device, T::batch(&distinct)?, &last_rows)?;
        Ok(Some(Self { tree, order: Order { starts: Some(starts), rows } }))
    }

    pub(crate) fn device(&self) -> &Device {
        self.tree.device()
    }

    pub(crate) fn len(&self) -> u64 {
        self.order.rows.len() as u64
    }

    pub(crate) fn keys_len(&self) -> u64 {
        self.tree.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.tree.bytes()
    }

    pub(crate) fn host_bytes(&self) -> u64 {
        let starts = self.order.starts.as_ref().map_or(0, |starts| size_of_val(&starts[..]));
        (starts + size_of_val(&self.order.rows[..])) as u64
    }

    /// For each probe its row, if each key has one, else the number of its key; or [`NO_ROW`].
    fn find(&self, probes: &dyn Array) -> Result<Vec<u64>> {
        let keys = T::keys(probes)?;
        let keys = T::batch(&keys)?;
        let mut found = self.tree.get(keys)?;
        if self.order.starts.is_some() {
            let numbers = self.tree.rank(keys, false)?;
            let hits = found.iter_mut().zip(numbers).filter(|(row, _)| **row != NO_ROW);
            hits.for_each(|(row, number)| *row = number);
        }
        Ok(found)
    }

    /// The first row of each probe, or [`NO_ROW`].
    pub(crate) fn get(&self, probes: &dyn Array) -> Result<Vec<u64>> {
        let mut found = self.find(probes)?;
        if self.order.starts.is_some() {
            let hits = found.iter_mut().filter(|key| **key != NO_ROW);
            hits.for_each(|key| *key = self.order.rows[self.order.start(*key)]);
        }
        Ok(found)
    }

    /// Pairs of probes and rows, in the order of the probes.
    pub(crate) fn join(&self, probes: &dyn Array, join: Join) -> Result<(Vec<u64>, Vec<u64>)> {
        let found = self.find(probes)?;
        let rows_of = |probe: usize| -> &[u64] {
            match &found[probe] {
                key if *key == NO_ROW || probes.is_null(probe) => match join {
                    Join::Inner => &[],
                    Join::Left => &[NO_ROW],
                },
                row if self.order.starts.is_none() => core::slice::from_ref(row),
                key => self.order.between(*key, *key + 1),
            }
        };
        let total = (0..found.len()).map(|probe| rows_of(probe).len()).sum();
        let (mut matched, mut rows) = (room(total)?, room(total)?);
        for probe in 0..found.len() {
            let of_probe = rows_of(probe);
            matched.extend(core::iter::repeat_n(probe as u64, of_probe.len()));
            rows.extend_from_slice(of_probe);
        }
        Ok((matched, rows))
    }

    /// The last row whose key is not above each probe, or the first one whose key is not below it; or [`NO_ROW`].
    pub(crate) fn neighbor(&self, probes: &dyn Array, predecessor: bool) -> Result<Vec<u64>> {
        // All rows before the place, or all from it on.
        let mut places = self.tree.rank(T::batch(&T::keys(probes)?)?, predecessor)?;
        for place in &mut places {
            let at = self.order.start(*place);
            let at = if predecessor { at.checked_sub(1) } else { Some(at) };
            *place = at.and_then(|at| self.order.rows.get(at)).map_or(NO_ROW, |row| *row);
        }
        Ok(places)
    }

    /// The rows of each range, in the order of their keys: where each range's begin and the last one's end, and rows, of which
    /// not all need be of a range.
    pub(crate) fn range(
        &self,
        bounds: &Bounds<'_>,
        is_null: impl Fn(usize) -> bool,
    ) -> Result<(Vec<u64>, ScalarBuffer<u64>)> {
        let (first, last) = self.places(bounds)?;
        if let ([first], [last]) = (&first[..], &last[..]) {
            // In place.
            let places = [*first, *first.max(last)].map(|key| self.order.start(key) as u64);
            return Ok((places.into(), self.order.rows.clone()));
        }
        let rows_of = |i: usize| if is_null(i) { &[] } else { self.order.between(first[i], last[i]) };
        let mut offsets = room(bounds.count + 1)?;
        let mut total = 0;
        offsets.push(0);
        for i in 0..bounds.count {
            total += rows_of(i).len();
            offsets.push(total as u64);
        }
        let mut rows = room(total)?;
        (0..bounds.count).for_each(|i| rows.extend_from_slice(rows_of(i)));
        Ok((offsets, rows.into()))
    }

    /// Where the rows of each range begin in [`Typed::rows`], and how many there are.
    pub(crate) fn range_views(&self, bounds: &Bounds<'_>) -> Result<(Vec<u64>, Vec<u64>)> {
        let (mut first, mut last) = self.places(bounds)?;
        for (first, last) in first.iter_mut().zip(&mut last) {
            let (start, end) = (self.order.start(*first), self.order.start((*last).max(*first)));
            (*first, *last) = (start as u64, (end - start) as u64);
        }
        Ok((first, last))
    }

    /// Where the rows of each key of the ranges begin in [`Typed::rows`], and how many there are.
    pub(crate) fn key_views(
        &self,
        bounds: &Bounds<'_>,
        is_null: impl Fn(usize) -> bool,
    ) -> Result<(Vec<u64>, Vec<u64>)> {
        let (first, last) = self.places(bounds)?;
        let ranges = || (0..bounds.count).filter(|range| !is_null(*range)).map(|range| first[range]..last[range]);
        let count = ranges().map(|keys| keys.end.saturating_sub(keys.start)).sum::<u64>() as usize;
        let (mut offsets, mut sizes) = (room(count)?, room(count)?);
        for key in ranges().flatten() {
            let start = self.order.start(key);
            offsets.push(start as u64);
            sizes.push((self.order.start(key + 1) - start) as u64);
        }
        Ok((offsets, sizes))
    }

    /// How many keys each range has.
    pub(crate) fn count_keys(&self, bounds: &Bounds<'_>) -> Result<Vec<u64>> {
        let (mut first, last) = self.places(bounds)?;
        first.iter_mut().zip(last).for_each(|(first, last)| *first = last.saturating_sub(*first));
        Ok(first)
    }

    /// All rows, in the order of their keys.
    pub(crate) fn rows(&self) -> &ScalarBuffer<u64> {
        &self.order.rows
    }

    /// How many rows each range has.
    pub(crate) fn count_range(&self, bounds: &Bounds<'_>) -> Result<Vec<u64>> {
        Ok(self.range_views(bounds)?.1)
    }

    /// Calls a function with all keys and their rows in order, some at a time, as arrays; keys of this type.
    #[cfg(any(feature = "ipc", feature = "parquet"))]
    pub(crate) fn each_batch(
        &self,
        data_type: &DataType,
        mut f: impl FnMut(ArrayRef, UInt64Array) -> Result<()>,
    ) -> Result<()> {
        let mut first = 0;
        self.tree.each_window(|keys, last_rows| {
            let (mut places, mut rows) = (Vec::new(), Vec::new());
            for at in 0..last_rows.len() {
                let number = first + at as u64;
                for &row in self.order.between(number, number + 1) {
                    places.push(at);
                    rows.push(row);
                    if rows.len() == BATCH {
                        f(T::array(data_type, keys, &places)?, core::mem::take(&mut rows).into())?;
                        places.clear();
                    }
                }
            }
            first += last_rows.len() as u64;
            if rows.is_empty() { Ok(()) } else { f(T::array(data_type, keys, &places)?, rows.into()) }
        })
    }

    /// The numbers of the first key of each range and of the first key past it.
    fn places(&self, bounds: &Bounds<'_>) -> Result<(Vec<u64>, Vec<u64>)> {
        let place = |bound: Bound<&dyn Array>, is_start: bool| match bound {
            Bound::Included(array) => self.tree.rank(T::batch(&T::keys(array)?)?, !is_start),
            Bound::Excluded(array) => self.tree.rank(T::batch(&T::keys(array)?)?, is_start),
            Bound::Unbounded => filled(if is_start { 0 } else { self.tree.len() }, bounds.count),
        };
        Ok((place(bounds.starts, true)?, place(bounds.ends, false)?))
    }
}
