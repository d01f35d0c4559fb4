//! Where the ranges of a batch come from.

use super::slots::Locating;
use core::iter::{Fuse, Peekable};
use lanetree_base::Result;
use lanetree_base::parallel::*;
use lanetree_base::ranges::KeyRange;
use lanetree_layout::AnyKey;
use lanetree_runtime::Device;

/// Bounds that a thread copies at a time, if several threads copy.
const COPY: usize = 1 << 15;

/// The smallest room, in ranges, once there is any.
const FEW: usize = 32;

/// What a batch's ranges are taken from.
pub(in crate::fixed) trait Source<K: AnyKey> {
    /// About how many ranges are left. An iterator may claim anything.
    fn left(&self) -> usize;

    /// Whether none is left.
    fn is_done(&mut self) -> bool;

    /// Takes all ranges that are left, up to `most`.
    fn fill(&mut self, slot: &mut Locating<K>, device: &Device, most: usize) -> Result<Filled>;
}

/// What was taken.
#[derive(Clone, Copy, Default)]
pub(in crate::fixed) struct Filled {
    pub(in crate::fixed) count: usize,
    /// Whether any of them has a limit.
    pub(in crate::fixed) limited: bool,
}

/// Ranges of any kind.
pub(in crate::fixed) struct Each<I: Iterator> {
    ranges: Peekable<Fuse<I>>,
    taken: usize,
}

impl<I: Iterator> Each<I> {
    pub(in crate::fixed) fn new(ranges: I) -> Self {
        Self { ranges: ranges.fuse().peekable(), taken: 0 }
    }
}

impl<I: Iterator> Each<I> {
    /// Takes ranges while there is room, but stops at the first limit in a batch that had none, and returns that limit.
    fn fill_room<K: AnyKey>(&mut self, slot: &mut Locating<K>, filled: &mut Filled, most: usize) -> Result<Option<u64>>
    where
        I::Item: Into<KeyRange<K>>,
    {
        let most = most.min(slot.room());
        // Borrowed once: a pinned buffer checks at each borrow which streams use it.
        let (starts, ends) = (&mut slot.staged_starts[..most], &mut slot.staged_ends[..most]);
        let limits = &mut slot.staged_limits[..];
        // Local variables stay in registers; the fields would not.
        let (mut at, mut taken, mut first_limit) = (filled.count, self.taken, None);
        for range in self.ranges.by_ref().take(most.saturating_sub(at)) {
            let (start, end, limit) = range.into().resolve(taken)?;
            (starts[at], ends[at]) = (start, end);
            if filled.limited {
                limits[at] = limit;
            }
            (at, taken) = (at + 1, taken + 1);
            if !filled.limited && limit != u64::MAX {
                first_limit = Some(limit);
                break;
            }
        }
        (filled.count, self.taken) = (at, taken);
        Ok(first_limit)
    }
}

impl<K: AnyKey, I: Iterator<Item: Into<KeyRange<K>>>> Source<K> for Each<I> {
    fn left(&self) -> usize {
        self.ranges.size_hint().0
    }

    fn is_done(&mut self) -> bool {
        self.ranges.peek().is_none()
    }

    fn fill(&mut self, slot: &mut Locating<K>, device: &Device, most: usize) -> Result<Filled> {
        let mut filled = Filled::default();
        while filled.count < most && !self.is_done() {
            if filled.count == slot.room() {
                // More ranges than expected, or nothing was expected: double the room.
                slot.reserve_bounds(device, most.min((2 * filled.count).max(FEW)), filled.count)?;
            }
            if filled.limited {
                slot.reserve_limits(device, filled.count)?;
            }
            if let Some(limit) = self.fill_room(slot, &mut filled, most)? {
                let at = filled.count - 1;
                slot.reserve_limits(device, 0)?;
                slot.staged_limits[..at].fill(u64::MAX);
                slot.staged_limits[at] = limit;
                filled.limited = true;
            }
        }
        Ok(filled)
    }
}

/// Inclusive bounds, apart.
pub(in crate::fixed) struct Between<'a, K> {
    pub(in crate::fixed) starts: &'a [K],
    pub(in crate::fixed) ends: &'a [K],
}

impl<K: AnyKey> Source<K> for Between<'_, K> {
    fn left(&self) -> usize {
        self.starts.len()
    }

    fn is_done(&mut self) -> bool {
        self.starts.is_empty()
    }

    fn fill(&mut self, slot: &mut Locating<K>, device: &Device, most: usize) -> Result<Filled> {
        let count = most.min(self.starts.len());
        slot.reserve_bounds(device, count, 0)?;
        let (starts, ends);
        (starts, self.starts) = self.starts.split_at(count);
        (ends, self.ends) = self.ends.split_at(count);
        copy(starts, &mut slot.staged_starts[..count]);
        copy(ends, &mut slot.staged_ends[..count]);
        Ok(Filled { count, limited: false })
    }
}

/// Copies bounds, with several threads if there are many.
fn copy<K: AnyKey>(from: &[K], to: &mut [K]) {
    if from.len() <= COPY {
        return to.copy_from_slice(from);
    }
    to.par_chunks_mut(COPY).zip(from.par_chunks(COPY)).for_each(|(to, from)| to.copy_from_slice(from));
}
