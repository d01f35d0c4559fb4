//! All pairs in order, a block at a time.

use crate::contents::Contents;
use crate::gather::{RowsOf, gather_values};
use core::ops::Bound;
use lanetree_frame::room::{make_room, push};
use lanetree_frame::{KeyRange, Ranges, Result};
use lanetree_kernels_multimap::layout;
use lanetree_layout::{AnyKey, Word};

/// Keys, and values, that are fetched from the device at a time.
const BLOCK: usize = 1 << 16;

/// Iterates over a map's pairs in ascending order of their keys, those of one key in the order in which they were inserted. Fetches
/// keys and values from the device in large blocks; if that fails, the item is an error and the iteration ends.
#[derive(Debug)]
pub struct Iter<'a, K: AnyKey, V: Word> {
    contents: &'a Contents<K, V>,
    /// A block of keys and their places.
    keys: Ranges<K, u64>,
    /// Keys of the block that are done; the last of them has values left.
    keys_done: usize,
    values_left: u64,
    /// Keys of the block of which all values were fetched, and values that were fetched of the next one.
    keys_fetched: usize,
    of_next: u64,
    /// A block of values, and those that were given out.
    values: Vec<V>,
    given: usize,
    /// Pairs that were not given out, at most.
    left: u64,
    is_done: bool,
}

impl<'a, K: AnyKey, V: Word> Iter<'a, K, V> {
    pub(crate) fn new(contents: &'a Contents<K, V>) -> Self {
        Self {
            contents,
            keys: Ranges::default(),
            keys_done: 0,
            values_left: 0,
            keys_fetched: 0,
            of_next: 0,
            values: Vec::new(),
            given: 0,
            left: contents.len,
            is_done: false,
        }
    }

    fn pair(&mut self) -> Result<Option<(K, V)>> {
        if self.given == self.values.len() && !self.fetch()? {
            return Ok(None);
        }
        while self.values_left == 0 {
            self.values_left = layout::count(self.keys.values[self.keys_done]);
            self.keys_done += 1;
        }
        let pair = (self.keys.keys[self.keys_done - 1], self.values[self.given]);
        self.values_left -= 1;
        self.given += 1;
        self.left = self.left.saturating_sub(1);
        Ok(Some(pair))
    }

    /// Fetches the next values, and keys if all of these were given out; false if there are none.
    #[cold]
    fn fetch(&mut self) -> Result<bool> {
        if self.keys_fetched == self.keys.keys.len() {
            let after = self.keys.keys.last().map_or(Bound::Unbounded, |&key| Bound::Excluded(key));
            let range = KeyRange::new((after, Bound::Unbounded)).limit(BLOCK as u64);
            self.contents.keys.range_many_into([range], &mut self.keys)?;
            (self.keys_done, self.keys_fetched) = (0, 0);
            if self.keys.keys.is_empty() {
                return Ok(false);
            }
        }
        // Where the next values are, a row for each key.
        let (mut begins, mut offsets, mut total) = (Vec::new(), vec![0], 0);
        while let Some(&place) = self.keys.values.get(self.keys_fetched) {
            let left = layout::count(place) - self.of_next;
            let taken = left.min(BLOCK as u64 - total);
            push(&mut begins, layout::begin(place) + self.of_next)?;
            total += taken;
            push(&mut offsets, total)?;
            if taken < left {
                self.of_next += taken;
                break;
            }
            (self.keys_fetched, self.of_next) = (self.keys_fetched + 1, 0);
        }
        let (had, total) = (self.values.len(), total as usize);
        make_room(&mut self.values, total.saturating_sub(had))?;
        self.values.resize(total, V::MIN);
        self.given = 0;
        let values = &self.contents.values;
        if self.contents.is_ordered() {
            // They are adjacent.
            values.copy_range_to(begins[0] as usize, &mut self.values)?;
            return Ok(true);
        }
        let device = self.contents.keys.device();
        let (stream, rows, mut gathered) = (device.stream()?, begins.len(), device.alloc(total)?);
        let (begins, offsets) = (device.upload(&begins)?, device.upload(&offsets)?);
        let rows = RowsOf { begins: &begins, are_places: false, offsets: &offsets, rows };
        gather_values(&stream, (values, None), rows, &mut gathered)?;
        gathered.copy_to(&mut self.values)?;
        Ok(true)
    }
}

impl<K: AnyKey, V: Word> Iterator for Iter<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let pair = self.pair();
        self.is_done = !matches!(pair, Ok(Some(_)));
        pair.transpose()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Fewer only if fetching fails.
        (0, Some(if self.is_done { 0 } else { self.left as usize }))
    }
}
