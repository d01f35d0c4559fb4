//! All pairs in order, a window at a time.

use super::FixedIndex;
use super::all::Windows;
use core::fmt;
use core::iter::{Copied, Zip};
use core::slice;
use lanetree_base::Result;

/// Pairs of the first window, which comes before the caller gets any pair, and the most pairs of a window.
const FIRST: usize = 1 << 12;
const MOST: usize = 1 << 20;

/// The pairs of a window, which are read where the device has put them: a copy of blocks into the CPU's first cache took half as
/// long again per pair.
type Pairs<'a, I> =
    Zip<Copied<slice::Iter<'a, <I as FixedIndex>::Key>>, Copied<slice::Iter<'a, <I as FixedIndex>::Value>>>;

/// Iterates over an index's pairs in ascending order of their keys. Fetches them from the device in large windows, the next
/// ones while the caller has the pairs of one; if that fails, the item is an error and the iteration ends. The first item of a
/// lost index is [`Error::Lost`](lanetree_base::Error::Lost).
pub struct Iter<'a, I: FixedIndex> {
    index: &'a I,
    /// Those of the current window that were not given out. Their lifetime is a lie: they are gone when the windows go on.
    pairs: Pairs<'a, I>,
    /// None before the first pair.
    windows: Option<Windows<'a, I>>,
    /// Pairs that there are after the window; 0 after an error.
    left: u64,
    is_started: bool,
}

impl<'a, I: FixedIndex> Iter<'a, I> {
    /// Over all of an index's pairs.
    pub fn new(index: &'a I) -> Self {
        Self { index, pairs: of(&[], &[]), windows: None, left: index.len(), is_started: false }
    }

    /// Fetches the next window; nothing is left if that fails.
    #[cold]
    fn fetch(&mut self) -> Result<()> {
        let left = core::mem::take(&mut self.left);
        self.pairs = of(&[], &[]);
        let windows = match &mut self.windows {
            Some(windows) => windows,
            none => none.insert(Windows::new(self.index, FIRST, MOST)?),
        };
        windows.advance()?;
        let (keys, values) = windows.pairs();
        self.left = left.saturating_sub(keys.len() as u64);
        // SAFETY: a window is memory of its own, which does not move with the iterator, and nobody writes or frees it before the
        // windows go on or are dropped. Before they go on, above, these slices are replaced; no slice is given out.
        let (keys, values) = unsafe {
            (slice::from_raw_parts(keys.as_ptr(), keys.len()), slice::from_raw_parts(values.as_ptr(), values.len()))
        };
        self.pairs = of(keys, values);
        Ok(())
    }
}

fn of<'a, K: Copy, V: Copy>(
    keys: &'a [K],
    values: &'a [V],
) -> Zip<Copied<slice::Iter<'a, K>>, Copied<slice::Iter<'a, V>>> {
    keys.iter().copied().zip(values.iter().copied())
}

impl<I: FixedIndex> Iterator for Iter<'_, I> {
    type Item = Result<(I::Key, I::Value)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(pair) = self.pairs.next() {
            return Some(Ok(pair));
        }
        if self.left == 0 && self.is_started {
            return None;
        }
        self.is_started = true;
        match self.fetch() {
            Ok(()) => self.pairs.next().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Fewer only if fetching fails.
        (0, Some(self.left as usize + self.pairs.len()))
    }
}

impl<I: FixedIndex> fmt::Debug for Iter<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Iter[{} pairs left]", self.left + self.pairs.len() as u64)
    }
}
