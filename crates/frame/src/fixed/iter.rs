//! All pairs in order, a block at a time.

use super::FixedIndex;
use super::all::Windows;
use lanetree_base::Result;

/// Pairs of the first window, which comes before the caller gets any pair, and the most pairs of a window.
const FIRST: usize = 1 << 12;
const MOST: usize = 1 << 20;

/// Pairs of a block, which stay in the CPU's first cache.
const BLOCK: usize = 1 << 10;

/// Iterates over an index's pairs in ascending order of their keys. Fetches them from the device in large windows, the next
/// ones while the caller has the pairs of one; if that fails, the item is an error and the iteration ends. The first item of a
/// lost index is [`Error::Lost`](lanetree_base::Error::Lost).
#[derive(Debug)]
pub struct Iter<'a, I: FixedIndex> {
    index: &'a I,
    /// None before the first pair.
    windows: Option<Windows<'a, I>>,
    /// Pairs of the window that are in the block, or were.
    taken: usize,
    block: Vec<(I::Key, I::Value)>,
    /// Pairs of the block that were given out.
    given: usize,
    /// Pairs that there are after the block; 0 after an error.
    left: u64,
    is_started: bool,
}

impl<'a, I: FixedIndex> Iter<'a, I> {
    /// Over all of an index's pairs.
    pub fn new(index: &'a I) -> Self {
        Self { index, windows: None, taken: 0, block: Vec::new(), given: 0, left: index.len(), is_started: false }
    }

    /// Fetches the next block; none are left if that fails.
    fn fetch(&mut self) -> Result<()> {
        let left = core::mem::take(&mut self.left);
        self.block.clear();
        self.given = 0;
        let windows = match &mut self.windows {
            Some(windows) => windows,
            none => none.insert(Windows::new(self.index, FIRST, MOST)?),
        };
        if self.taken == windows.pairs().0.len() {
            self.taken = 0;
            windows.advance()?;
        }
        let (keys, values) = windows.pairs();
        let taken = self.taken..keys.len().min(self.taken + BLOCK);
        self.block.extend(keys[taken.clone()].iter().copied().zip(values[taken.clone()].iter().copied()));
        self.taken = taken.end;
        self.left = left.saturating_sub(self.block.len() as u64);
        Ok(())
    }
}

impl<I: FixedIndex> Iterator for Iter<'_, I> {
    type Item = Result<(I::Key, I::Value)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.given == self.block.len() {
            if self.left == 0 && self.is_started {
                return None;
            }
            self.is_started = true;
            if let Err(error) = self.fetch() {
                return Some(Err(error));
            }
        }
        let pair = *self.block.get(self.given)?;
        self.given += 1;
        Some(Ok(pair))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Fewer only if fetching fails.
        (0, Some(self.left as usize + self.block.len() - self.given))
    }
}
