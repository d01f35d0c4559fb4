//! Where the ranges of a batch come from.

use super::lanes::Locating;
use crate::Result;
use crate::ranges::KeyRange;
use core::iter::Fuse;
use lanetree_layout::Key;
use lanetree_runtime::Device;
use rayon::prelude::*;

/// Bounds that a thread copies at a time, where several copy.
const COPY: usize = 1 << 15;

/// What a batch's ranges are taken from.
pub(super) trait Source<K: Key> {
    /// Ranges that are left, at least.
    fn left(&self) -> usize;

    /// Takes as many ranges as there are and there is room for.
    fn fill(&mut self, lane: &mut Locating<K>, device: &Device, room: usize) -> Result<Filled>;
}

/// What was taken.
pub(super) struct Filled {
    pub(super) count: usize,
    /// Whether any of them has a limit.
    pub(super) limited: bool,
}

/// Ranges of any kind.
pub(super) struct Each<I> {
    ranges: Fuse<I>,
    taken: usize,
}

impl<I: Iterator> Each<I> {
    pub(super) fn new(ranges: I) -> Self {
        Self { ranges: ranges.fuse(), taken: 0 }
    }
}

impl<K: Key, I: Iterator<Item: Into<KeyRange<K>>>> Source<K> for Each<I> {
    fn left(&self) -> usize {
        self.ranges.size_hint().0
    }

    fn fill(&mut self, lane: &mut Locating<K>, device: &Device, room: usize) -> Result<Filled> {
        let mut filled = Filled { count: 0, limited: false };
        while filled.count < room {
            let Some(range) = self.ranges.next() else { break };
            let (start, end, limit) = range.into().resolve(self.taken)?;
            let at = filled.count;
            (lane.staged_starts[at], lane.staged_ends[at]) = (start, end);
            if limit != u64::MAX && !filled.limited {
                filled.limited = true;
                lane.reserve_limits(device)?;
                lane.staged_limits[..at].fill(u64::MAX);
            }
            if filled.limited {
                lane.staged_limits[at] = limit;
            }
            (filled.count, self.taken) = (at + 1, self.taken + 1);
        }
        Ok(filled)
    }
}

/// Inclusive bounds, apart.
pub(super) struct Between<'a, K> {
    pub(super) starts: &'a [K],
    pub(super) ends: &'a [K],
}

impl<K: Key> Source<K> for Between<'_, K> {
    fn left(&self) -> usize {
        self.starts.len()
    }

    fn fill(&mut self, lane: &mut Locating<K>, _: &Device, room: usize) -> Result<Filled> {
        let count = room.min(self.starts.len());
        let (starts, ends);
        (starts, self.starts) = self.starts.split_at(count);
        (ends, self.ends) = self.ends.split_at(count);
        copy(starts, &mut lane.staged_starts[..count]);
        copy(ends, &mut lane.staged_ends[..count]);
        Ok(Filled { count, limited: false })
    }
}

/// Copies bounds, with several threads where there are many.
fn copy<K: Key>(from: &[K], to: &mut [K]) {
    if from.len() <= COPY {
        return to.copy_from_slice(from);
    }
    to.par_chunks_mut(COPY).zip(from.par_chunks(COPY)).for_each(|(to, from)| to.copy_from_slice(from));
}
