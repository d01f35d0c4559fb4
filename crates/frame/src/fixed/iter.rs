//! Pairs in order, from either end, a window at a time.

use super::all::{End, Windows};
use super::{FixedIndex, HostForm};
use core::fmt;
use core::iter::{Copied, FusedIterator, Zip};
use core::ops::Range;
use core::slice;
use lanetree_base::ranges::RangeBatch;
use lanetree_base::{KeyRange, Result};

/// Pairs of the first window, which comes before the caller gets any pair, and the most pairs of a window.
const FIRST: usize = 1 << 12;
const MOST: usize = 1 << 20;

/// The pairs of a window, which are read where the device has put them: a copy of blocks into the CPU's first cache took half as
/// long again per pair.
type Pairs<'a, I> =
    Zip<Copied<slice::Iter<'a, <I as FixedIndex>::Key>>, Copied<slice::Iter<'a, <I as FixedIndex>::Value>>>;

/// Iterates over all pairs of an index, or over the pairs of a range, in ascending order of their keys; with
/// [`rev`](Iterator::rev), in descending order. Fetches them from the device in large windows, the next ones while the
/// caller reads a window; if that fails, the item is an error and the iteration ends. The first item of a lost index is
/// [`Error::Lost`](lanetree_base::Error::Lost).
///
/// It isn't an [`ExactSizeIterator`], since an error ends it early; otherwise
/// [`size_hint`](Iterator::size_hint)'s upper bound is how many pairs there are.
pub struct Iter<'a, I: FixedIndex> {
    index: &'a I,
    /// The pairs of the windows from the front and from the back that were not given out. Their lifetime is a lie: they are gone
    /// when the windows go on.
    front: Pairs<'a, I>,
    back: Pairs<'a, I>,
    /// None before the first pair from that end.
    front_windows: Option<Windows<'a, I>>,
    back_windows: Option<Windows<'a, I>>,
    /// The ranks of the pairs that are in neither window yet; none after an error.
    ranks: Range<u64>,
    is_started: bool,
}

impl<'a, I: FixedIndex> Iter<'a, I> {
    /// An iterator over all of an index's pairs, in ascending order of their keys.
    pub fn new(index: &'a I) -> Self {
        Self::of_ranks(index, 0..index.len())
    }

    /// Over the pairs of a range of keys, at most the first [`limit`](KeyRange::limit) of it. Finds both ends first: two ranks.
    ///
    /// # Errors
    /// [`Error::ReversedRange`](lanetree_base::Error::ReversedRange); the errors of
    /// `lower_bound_many`.
    pub fn of_range(index: &'a I, range: KeyRange<I::Key>) -> Result<Self> {
        let RangeBatch { starts, ends, limits } = RangeBatch::new([range])?;
        let (first, end) = (index.lower_bound_many(&starts)?[0], index.upper_bound_many(&ends)?[0]);
        let limit = limits.first().copied().unwrap_or(u64::MAX);
        // One that has no keys may end before it begins.
        Ok(Self::of_ranks(index, first..end.max(first).min(first.saturating_add(limit))))
    }

    fn of_ranks(index: &'a I, ranks: Range<u64>) -> Self {
        let (front, back) = (of(&[], &[]), of(&[], &[]));
        Self { index, front, back, front_windows: None, back_windows: None, ranks, is_started: false }
    }

    /// Fetches the next window from an end; nothing is left if that fails.
    #[cold]
    fn fetch(&mut self, end: End) -> Result<()> {
        let left = core::mem::replace(&mut self.ranks, 0..0);
        // After an error the other end has none either.
        let other = match end {
            End::Front => core::mem::replace(&mut self.back, of(&[], &[])),
            End::Back => core::mem::replace(&mut self.front, of(&[], &[])),
        };
        let (windows, pairs) = match end {
            End::Front => (&mut self.front_windows, &mut self.front),
            End::Back => (&mut self.back_windows, &mut self.back),
        };
        *pairs = of(&[], &[]);
        let windows = match windows {
            Some(windows) => windows,
            none => none.insert(Windows::new(self.index, left.clone(), end, FIRST, MOST)?),
        };
        windows.advance()?;
        let (keys, values) = windows.pairs();
        // The window may reach into pairs that have come from the other end.
        let len = keys.len().min((left.end - left.start) as usize);
        let taken = match end {
            End::Front => 0..len,
            End::Back => keys.len() - len..keys.len(),
        };
        let (keys, values) = (&keys[taken.clone()], &values[taken]);
        // SAFETY: a window is memory of its own, which does not move with the iterator, and nobody writes or frees it before the
        // windows go on or are dropped. Before they go on, above, these slices are replaced; no slice is given out.
        let (keys, values) = unsafe {
            (slice::from_raw_parts(keys.as_ptr(), keys.len()), slice::from_raw_parts(values.as_ptr(), values.len()))
        };
        *pairs = of(keys, values);
        self.ranks = match end {
            End::Front => left.start + len as u64..left.end,
            End::Back => left.start..left.end - len as u64,
        };
        match end {
            End::Front => self.back = other,
            End::Back => self.front = other,
        }
        Ok(())
    }

    /// Fetches a window if there may be another one; whether the next pair may be in it.
    fn goes_on(&mut self, end: End) -> Result<bool> {
        // The first call asks a lost index even if it has no pairs.
        if self.ranks.is_empty() && self.is_started {
            return Ok(false);
        }
        self.is_started = true;
        self.fetch(end).map(|()| true)
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
        if let Some(pair) = self.front.next() {
            return Some(Ok(pair));
        }
        match self.goes_on(End::Front) {
            Ok(true) => self.front.next().map(Ok),
            // What the other end has fetched.
            Ok(false) => self.back.next().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Fewer only if fetching fails.
        (0, Some(self.left() as usize))
    }
}

impl<I: FixedIndex> DoubleEndedIterator for Iter<'_, I> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if let Some(pair) = self.back.next_back() {
            return Some(Ok(pair));
        }
        match self.goes_on(End::Back) {
            Ok(true) => self.back.next_back().map(Ok),
            Ok(false) => self.front.next_back().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }
}

impl<I: FixedIndex> FusedIterator for Iter<'_, I> {}

impl<I: FixedIndex> Iter<'_, I> {
    fn left(&self) -> u64 {
        self.ranks.end - self.ranks.start + (self.front.len() + self.back.len()) as u64
    }
}

impl<I: FixedIndex> fmt::Debug for Iter<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Iter[{} pairs left]", self.left())
    }
}
