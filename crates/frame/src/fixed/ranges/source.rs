//! Where the ranges of a batch come from.

use lanetree_base::Result;
use lanetree_base::ranges::{KeyRange, RangeBatch};
use lanetree_layout::AnyKey;
use std::sync::{Mutex, PoisonError};

/// Inclusive bounds.
pub(in crate::fixed) enum Bounds<'b, K> {
    /// The caller's.
    Given(&'b [K], &'b [K]),
    /// Made of the caller's ranges.
    Made(RangeBatch<K>),
}

impl<K> Bounds<'_, K> {
    pub(in crate::fixed) fn len(&self) -> usize {
        self.parts().0.len()
    }

    /// The starts, the ends, and the limits, if there are any.
    pub(in crate::fixed) fn parts(&self) -> (&[K], &[K], &[u64]) {
        match self {
            Self::Given(starts, ends) => (starts, ends, &[]),
            Self::Made(RangeBatch { starts, ends, limits }) => (starts, ends, limits),
        }
    }
}

/// What a batch's ranges are taken from.
pub(in crate::fixed) trait Source<'b, K: AnyKey> {
    /// About how many ranges are left. An iterator may claim anything.
    fn left(&self) -> usize;

    /// By which number chunks are shorter than they can be: what is made of a caller's ranges is to stay in the caches.
    const SHORTER: usize;

    /// Takes all ranges that are left, up to `most`. They may be put into the memory of earlier ones.
    fn take(&mut self, most: usize, used: Option<Bounds<'b, K>>) -> Result<Bounds<'b, K>>;

    /// Takes back what is no longer needed.
    fn keep(&mut self, _used: Bounds<'b, K>) {}
}

/// Ranges of any kind.
pub(in crate::fixed) struct Each<'s, I, K> {
    ranges: I,
    taken: usize,
    /// Memory of earlier batches: the system takes longer to find new memory than the ranges take.
    used: &'s Mutex<Vec<RangeBatch<K>>>,
}

impl<'s, I: Iterator, K> Each<'s, I, K> {
    pub(in crate::fixed) fn new(ranges: I, used: &'s Mutex<Vec<RangeBatch<K>>>) -> Each<'s, core::iter::Fuse<I>, K> {
        Each { ranges: ranges.fuse(), taken: 0, used }
    }
}

impl<'b, K: AnyKey, I: Iterator<Item: Into<KeyRange<K>>>> Source<'b, K> for Each<'_, I, K> {
    const SHORTER: usize = 2;

    fn left(&self) -> usize {
        self.ranges.size_hint().0
    }

    fn take(&mut self, most: usize, used: Option<Bounds<'b, K>>) -> Result<Bounds<'b, K>> {
        let mut batch = match used {
            Some(Bounds::Made(batch)) => batch,
            _ => self.used.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default(),
        };
        batch.take(&mut self.ranges, self.taken, most)?;
        self.taken += batch.starts.len();
        Ok(Bounds::Made(batch))
    }

    fn keep(&mut self, used: Bounds<'b, K>) {
        if let Bounds::Made(batch) = used {
            self.used.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
        }
    }
}

/// Inclusive bounds, apart.
pub(in crate::fixed) struct Between<'b, K> {
    pub(in crate::fixed) starts: &'b [K],
    pub(in crate::fixed) ends: &'b [K],
}

impl<'b, K: AnyKey> Source<'b, K> for Between<'b, K> {
    const SHORTER: usize = 1;

    fn left(&self) -> usize {
        self.starts.len()
    }

    fn take(&mut self, most: usize, _: Option<Bounds<'b, K>>) -> Result<Bounds<'b, K>> {
        let count = most.min(self.starts.len());
        let (starts, ends);
        (starts, self.starts) = self.starts.split_at(count);
        (ends, self.ends) = self.ends.split_at(count);
        Ok(Bounds::Given(starts, ends))
    }
}
