//! All pairs in order, a block at a time.

use crate::contents::Contents;
use core::ops::Bound;
use lanetree_frame::room::make_room;
use lanetree_frame::{KeyRange, Ranges, Result};
use lanetree_kernels_multimap::layout;
use lanetree_layout::{AnyKey, Word};

/// Keys, and values, that are fetched from the device at a time.
const BLOCK: usize = 1 << 16;

/// Iterates over a map's pairs in order. Fetches keys and values from the device in large blocks; if that fails, the item is an
/// error and the iteration ends.
#[derive(Debug)]
pub struct Iter<'a, K: AnyKey, V: Word> {
    contents: &'a Contents<K, V>,
    /// A block of keys and their places.
    keys: Ranges<K, u64>,
    /// Keys of the block that are done; the last of them has values left.
    keys_done: usize,
    values_left: u64,
    /// A block of values, and those that were given out.
    values: Vec<V>,
    given: usize,
    /// Values that were fetched.
    fetched: usize,
    is_done: bool,
}

impl<'a, K: AnyKey, V: Word> Iter<'a, K, V> {
    pub(crate) fn new(contents: &'a Contents<K, V>) -> Self {
        Self {
            contents,
            keys: Ranges::default(),
            keys_done: 0,
            values_left: 0,
            values: Vec::new(),
            given: 0,
            fetched: 0,
            is_done: false,
        }
    }

    fn pair(&mut self) -> Result<Option<(K, V)>> {
        if self.given == self.values.len() {
            let left = self.contents.values.len() - self.fetched;
            if left == 0 {
                return Ok(None);
            }
            let (block, had) = (left.min(BLOCK), self.values.len());
            make_room(&mut self.values, block.saturating_sub(had))?;
            self.values.resize(block, V::MIN);
            self.contents.values.copy_range_to(self.fetched, &mut self.values)?;
            (self.fetched, self.given) = (self.fetched + self.values.len(), 0);
        }
        while self.values_left == 0 {
            if self.keys_done == self.keys.keys.len() {
                let after = self.keys.keys.last().map_or(Bound::Unbounded, |&key| Bound::Excluded(key));
                let range = KeyRange::new((after, Bound::Unbounded)).limit(BLOCK as u64);
                self.contents.keys.range_many_into([range], &mut self.keys)?;
                self.keys_done = 0;
                if self.keys.keys.is_empty() {
                    return Ok(None);
                }
            }
            self.values_left = layout::count(self.keys.values[self.keys_done]);
            self.keys_done += 1;
        }
        let pair = (self.keys.keys[self.keys_done - 1], self.values[self.given]);
        self.values_left -= 1;
        self.given += 1;
        Ok(Some(pair))
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
        let left =
            if self.is_done { 0 } else { self.contents.values.len() - self.fetched + self.values.len() - self.given };
        // Fewer only if fetching fails.
        (0, Some(left))
    }
}
