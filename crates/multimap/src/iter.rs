//! All pairs in order, a block at a time.

use crate::contents::Contents;
use crate::on_stream::values_only;
use core::ops::Bound;
use lanetree_frame::fixed::FixedIndex;
use lanetree_frame::room::{make_room, push};
use lanetree_frame::{KeyRange, Ranges, Result};
use lanetree_kernels_multimap::layout;
use lanetree_layout::{AnyKey, Word};
use lanetree_primitives::{ExpandScratch, Spans, expand};

/// Keys, and values, that are fetched from the device at a time.
const BLOCK: usize = 1 << 16;

/// Iterates over a map's pairs in ascending order of their keys; pairs with the same key in the order in which they
/// were inserted. Fetches keys and values from the device in large blocks; if that fails, the item is an error and the
/// iteration ends.
#[derive(Debug)]
pub struct Iter<'a, K: AnyKey, V: Word> {
    contents: &'a Contents<K, V>,
    /// The keys that no block has had.
    start: Bound<K>,
    end: Bound<K>,
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
            start: Bound::Unbounded,
            end: Bound::Unbounded,
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

    /// # Errors
    /// [`Error::ReversedRange`](lanetree_frame::Error::ReversedRange).
    pub(crate) fn of_range(contents: &'a Contents<K, V>, range: KeyRange<K>) -> Result<Self> {
        let (start, end, limit) = range.resolve(0)?;
        let left = if start <= end { limit.min(contents.len) } else { 0 };
        Ok(Self { start: Bound::Included(start), end: Bound::Included(end), left, ..Self::new(contents) })
    }

    fn pair(&mut self) -> Result<Option<(K, V)>> {
        if self.left == 0 {
            // A lost map says so, even if it has no pairs.
            return self.contents.keys.check_not_lost().map(|()| None);
        }
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
        self.left -= 1;
        Ok(Some(pair))
    }

    /// Fetches the next values, and keys if all of these were given out; false if there are none.
    #[cold]
    fn fetch(&mut self) -> Result<bool> {
        if self.keys_fetched == self.keys.keys.len() {
            // A key has at least one pair.
            let range = KeyRange::new((self.start, self.end)).limit(self.left.min(BLOCK as u64)).empty_if_reversed();
            self.contents.keys.range_many_into([range], &mut self.keys)?;
            (self.keys_done, self.keys_fetched) = (0, 0);
            let Some(&last) = self.keys.keys.last() else { return Ok(false) };
            self.start = Bound::Excluded(last);
        }
        // Where the next values are, a span for each key.
        let (mut spans, mut total) = (Vec::new(), 0);
        let most = self.left.min(BLOCK as u64);
        while let Some(&place) = self.keys.values.get(self.keys_fetched) {
            let left = layout::count(place) - self.of_next;
            let taken = left.min(most - total);
            push(&mut spans, layout::place(layout::begin(place) + self.of_next, taken))?;
            total += taken;
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
            values.copy_range_to(layout::begin(spans[0]) as usize, &mut self.values)?;
            return Ok(true);
        }
        let device = self.contents.keys.device();
        let (stream, count, mut gathered) = (device.stream()?, spans.len(), device.alloc(total)?);
        let begins = device.upload(&spans)?;
        let spans = Spans { begins: &begins, shift: layout::COUNT_BITS, lengths: None, count };
        let mut scratch = ExpandScratch::new(device, count)?;
        expand(&stream, spans, self.contents.spanned(V::MIN), values_only(&mut gathered), &mut scratch)?;
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
