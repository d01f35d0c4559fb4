//! Where the ranges of a batch come from.

use lanetree_base::Result;
use lanetree_base::ranges::{KeyRange, RangeBatch};
use lanetree_layout::AnyKey;

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
}

/// Ranges of any kind.
pub(in crate::fixed) struct Each<I> {
    ranges: I,
    taken: usize,
}

impl<I: Iterator> Each<I> {
    pub(in crate::fixed) fn new(ranges: I) -> Each<core::iter::Fuse<I>> {
        Each { ranges: ranges.fuse(), taken: 0 }
    }
}

impl<'b, K: AnyKey, I: Iterator<Item: Into<KeyRange<K>>>> Source<'b, K> for Each<I> {
    const SHORTER: usize = 2;

    fn left(&self) -> usize {
        self.ranges.size_hint().0
    }

    fn take(&mut self, most: usize, used: Option<Bounds<'b, K>>) -> Result<Bounds<'b, K>> {
        let mut batch = match used {
            Some(Bounds::Made(batch)) => batch,
            _ => RangeBatch::default(),
        };
        batch.take(&mut self.ranges, self.taken, most)?;
        self.taken += batch.starts.len();
        Ok(Bounds::Made(batch))
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
