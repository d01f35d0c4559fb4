//! The bits of their keys by which batches are sorted.

use crate::telling_bits;
use core::ops::Range;

/// The most batches in a row that are sorted by all bits before fewer bits are tried again.
const LONGEST_REST: u32 = 128;

/// So many batches in a row may need a second sort before fewer bits are given up for a while: once, and once more where a single
/// batch had a higher top.
const FEW_MISSES: u32 = 2;

/// The top goes down after so many batches in a row with a lower one. The tops of batches whose keys begin anywhere differ by a bit or two
/// by chance: a top that is a little too high costs nothing, one that is too low a second sort.
const STEADY: u32 = 8;

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
    /// Batches in a row with a lower top, and the highest of theirs.
    lower: (u32, u32),
}

impl SortRange {
    /// Before the first batch, of keys of that many bits.
    pub(super) fn new(width: u32) -> Self {
        Self { top: width, scale: width.div_ceil(64), misses: 0, rest: 0, lower: (0, 0) }
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
            (true, 0) => {
                self.misses = 0;
                self.settle(top);
            }
            (true, _) => (self.top, self.rest) = (self.top.max(top), self.rest - 1),
            (false, rest) => {
                self.misses += 1;
                self.top = if rest == 0 { top } else { self.top.max(top) };
                self.lower = (0, 0);
                let is_chance = self.misses <= FEW_MISSES;
                let longest = if is_chance { 0 } else { 2_u32.checked_shl(self.misses).unwrap_or(LONGEST_REST) };
                self.rest = rest.saturating_sub(1).max(longest.min(LONGEST_REST));
            }
        }
        0..top
    }

    /// Learns the top of a batch for which few bits were enough.
    fn settle(&mut self, top: u32) {
        let (count, highest) = self.lower;
        self.lower = match top < self.top {
            true => (count + 1, highest.max(top)),
            false => (0, 0),
        };
        if self.lower.0 == STEADY || top > self.top {
            self.top = top.max(self.lower.1);
            self.lower = (0, 0);
        }
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
        for _ in 0..STEADY {
            assert_eq!(range.bits(1 << 16), 48..64);
            range.learn(0, true);
        }
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

    /// Whether keys that are random below a top are sorted by these bits: with 22 of 24 bits, runs of them are short.
    fn are_enough(bits: Range<u32>, top: u32) -> bool {
        bits.end >= top && (bits.start == 0 || top.saturating_sub(bits.start) >= 20)
    }

    #[test]
    fn appended_keys_are_seldom_sorted_twice() {
        let (mut range, mut twice) = (SortRange::new(64), 0);
        for batch in 0_u64..1000 {
            // Batches of 2^22 keys within 2^40, one after another, from where the last one ended.
            let first = 0x1234_5678_9abc_def0 + batch * ((1 << 40) - 12_345_678);
            let differing = first ^ (first + (1 << 40));
            let is_sorted = are_enough(range.bits(1 << 22), 64 - differing.leading_zeros());
            if !is_sorted {
                twice += 1;
                range.learn(differing, false);
                continue;
            }
            range.learn(differing, true);
        }
        assert!(twice < 100, "{twice}");
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
