//! All pairs in order, a block at a time.

use super::{FixedIndex, HostForm};
use core::ops::Bound;
use lanetree_base::{KeyRange, Ranges, Result};

/// Pairs that are fetched from the device at a time.
const BLOCK: u64 = 1 << 17;

/// Iterates over an index's pairs in ascending order of their keys. Fetches them from the device in large blocks; if that
/// fails, the item is an error and the iteration ends. The first item of a lost index is
/// [`Error::Lost`](lanetree_base::Error::Lost).
#[derive(Debug)]
pub struct Iter<'a, I: FixedIndex> {
    index: &'a I,
    block: Ranges<I::Key, I::Value>,
    /// Pairs of the block that were given out.
    given: usize,
    /// Pairs that were fetched.
    fetched: u64,
    is_done: bool,
}

impl<'a, I: FixedIndex> Iter<'a, I> {
    /// Over all of an index's pairs.
    pub fn new(index: &'a I) -> Self {
        Self { index, block: Ranges::default(), given: 0, fetched: 0, is_done: false }
    }

    fn fetch(&mut self) -> Result<()> {
        let after = self.block.keys.last().map_or(Bound::Unbounded, |&key| Bound::Excluded(key));
        self.given = 0;
        self.index.range_many_into([KeyRange::new((after, Bound::Unbounded)).limit(BLOCK)], &mut self.block)?;
        self.fetched += self.block.keys.len() as u64;
        Ok(())
    }
}

impl<I: FixedIndex> Iterator for Iter<'_, I> {
    type Item = Result<(I::Key, I::Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.given == self.block.keys.len() {
            if self.is_done {
                return None;
            }
            let fetched = self.fetch();
            self.is_done = fetched.is_err() || (self.block.keys.len() as u64) < BLOCK;
            if let Err(error) = fetched {
                self.fetched = self.index.len();
                return Some(Err(error));
            }
        }
        let key = *self.block.keys.get(self.given)?;
        let value = self.block.values[self.given];
        self.given += 1;
        Some(Ok((key, value)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.index.len().saturating_sub(self.fetched) as usize + self.block.keys.len() - self.given;
        // Fewer only if fetching fails.
        (0, Some(left))
    }
}
