//! The bits of their keys by which batches are sorted.

use crate::telling_bits;
use core::ops::Range;

/// The most batches in a row that are sorted by all bits before fewer bits are tried again.
const LONGEST_REST: u32 = 128;

/// What the batches so far say about the next one's keys. The guess may be wrong, which is detected; if it is right, it
/// saves half the time of the sort.
#[derive(Clone, Copy, Debug)]
pub(super) struct SortRange {
    /// One above the highest bit in which keys differed.
    top: u32,
    /// Bits of a key for each bit that says where keys differ.
    scale: u32,
    /// Batches that had to be sorted twice, since the last one that few bits were enough for.
    misses: u32,
    /// Batches that are still to be sorted by all bits below the top.
    rest: u32,
}

impl SortRange {
    /// Before the first batch, of keys of that many bits.
    pub(super) fn new(width: u32) -> Self {
        Self { top: width, scale: width.div_ceil(64), misses: 0, rest: 0 }
    }

    /// The bits by which to sort a batch first.
    pub(super) fn bits(&self, count: usize) -> Range<u32> {
        if self.rest > 0 { 0..self.top } else { telling_bits(count, self.top) }
    }

    /// Learns in which bits the keys of a batch differed, and whether the batch was sorted. If it was not, returns the
    /// bits by which to sort it again.
    pub(super) fn learn(&mut self, differing: u64, is_sorted: bool) -> Range<u32> {
        let top = (u64::BITS - differing.leading_zeros()) * self.scale;
        match (is_sorted, self.rest) {
            (true, 0) => (self.top, self.misses) = (top, 0),
            (true, _) => (self.top, self.rest) = (self.top.max(top), self.rest - 1),
            (false, rest) => {
                // A single time may be chance, or the top was different.
                self.misses += 1;
                self.top = if rest == 0 { top } else { self.top.max(top) };
                let longest = if self.misses > 1 { 4_u32.checked_shl(self.misses).unwrap_or(LONGEST_REST) } else { 0 };
                self.rest = rest.saturating_sub(1).max(longest.min(LONGEST_REST));
            }
        }
        0..top
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_keys_are_sorted_by_few_bits() {
        let mut range = SortRange::new(64);
        for _ in 0..3 {
            assert_eq!(range.bits(1 << 22), 40..64);
            range.learn(u64::MAX, true);
        }
    }

    #[test]
    fn small_keys_are_sorted_twice_once() {
        let mut range = SortRange::new(64);
        assert_eq!(range.learn((1 << 30) - 1, false), 0..30);
        assert_eq!(range.bits(1 << 16), 14..30);
        range.learn((1 << 30) - 1, true);
        // Then larger ones.
        assert_eq!(range.learn(u64::MAX, false), 0..64);
        assert_eq!(range.bits(1 << 16), 48..64);
        // And all the same.
        range.learn(0, true);
        assert_eq!(range.bits(1 << 16), 0..0);
    }

    #[test]
    fn keys_of_128_bits_say_by_two_where_they_differ() {
        let mut range = SortRange::new(128);
        assert_eq!(range.bits(1 << 22), 104..128);
        assert_eq!(range.learn(1 << 40, false), 0..82);
        assert_eq!(range.bits(1 << 16), 66..82);
        assert_eq!(range.learn(u64::MAX, false), 0..128);
    }

    #[test]
    fn clustered_keys_are_seldom_sorted_twice() {
        let mut range = SortRange::new(64);
        let mut twice = Vec::new();
        for batch in 0..1000 {
            let is_sorted = range.bits(1 << 16).start == 0;
            range.learn(1 << 63 | 0xffff, is_sorted);
            if !is_sorted {
                twice.push(batch);
            }
        }
        assert!(twice.len() < 15, "{twice:?}");
        // If keys are random again, this is noticed after at most the longest pause.
        let by_all = (0..1000)
            .filter(|_| {
                let all = range.bits(1 << 16).start == 0;
                range.learn(u64::MAX, true);
                all
            })
            .count();
        assert!(by_all <= LONGEST_REST as usize, "{by_all}");
    }
}
