//! Where the lines of a node begin: each has as many pairs as it is to have or, since a node must tell the first key of a line
//! from the key before it, nearly as many.
//!
//! How long a line is depends on where it begins, so lines follow one after the other. A warp finds all of them at once: each
//! lane has a stretch of the pairs, and works out where lines lead that begin with any of its first ones. Maps of this kind
//! are composed, as sums are in a scan; then each lane knows which of its pairs the first line begins with.

use crate::node::PlanMemory;
use lanetree_simt::{FULL_MASK, Simt, WARP, unroll};

/// How lines are to be filled.
#[derive(Clone, Copy)]
pub(crate) struct Filling {
    /// Pairs of a line, in units of 1/256.
    line: u32,
    /// 2^22 divided by that.
    inverse: u32,
}

impl Filling {
    #[inline(always)]
    pub(crate) fn new(line: u32) -> Self {
        Self { line, inverse: (1 << 22) / line.max(1) }
    }

    /// How many pairs a line that begins with a pair is to have: it is to be full, or to end at the next of equal distances.
    #[inline(always)]
    fn from(self, start: u32, slots: u32) -> u32 {
        if self.line == slots * 256 {
            return slots;
        }
        // The division by the distance may be one too low.
        let before = match slots {
            0..=8 => ((start * 256 + 255) * self.inverse) >> 22,
            // Of so many pairs, the product may have more than 32 bits.
            _ => ((u64::from(start * 256 + 255) * u64::from(self.inverse)) >> 22) as u32,
        };
        let end = |distances: u32| (distances * self.line) >> 8;
        let next = if end(before + 1) > start { end(before + 1) } else { end(before + 2) };
        (next - start).min(slots)
    }
}

/// What becomes of a node's pairs.
pub(crate) enum LineCut {
    /// So many lines, whose first pairs are in the memory, with the number of pairs after the last.
    Into(u32),
    /// More lines than there may be.
    TooMany,
    /// A line that begins with one of the pairs may not end within its slots.
    Crowded,
}

/// For each of the first pairs of a stretch, how many pairs past its end the lines lead that begin with it: four bits each.
#[derive(Clone, Copy)]
struct Exits {
    low: u32,
    /// Of the ninth pair and those after it.
    high: u32,
}

impl Exits {
    /// Those of no pairs.
    const NONE: Self = Self { low: 0x7654_3210, high: 0xfedc_ba98 };

    #[inline(always)]
    fn of(self, pair: u32, slots: u32) -> u32 {
        let word = if slots > 8 && pair >= 8 { self.high } else { self.low };
        word >> (pair % 8 * 4) & 15
    }

    /// Those of a stretch with one pair more, the first.
    #[inline(always)]
    fn with(self, exit: u32) -> Self {
        Self { low: self.low << 4 | exit, high: self.high << 4 | self.low >> 28 }
    }

    /// Those of two stretches, of which this is the second.
    #[inline(always)]
    fn after(self, first: Self, slots: u32) -> Self {
        let mut both = Self { low: 0, high: 0 };
        unroll!(16, pair => {
            let pair = pair as u32;
            if pair < slots {
                let exit = self.of(first.of(pair, slots), slots) << (pair % 8 * 4);
                if pair < 8 {
                    both.low |= exit;
                } else {
                    both.high |= exit;
                }
            }
        });
        both
    }
}

/// A lane's part of a node's pairs.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    /// Slots of a line.
    slots: u32,
    /// Pairs of the node.
    len: u32,
    /// Pairs of a stretch; the last ones may have fewer.
    share: u32,
    /// The first of this one.
    first: u32,
    /// Bit `i`: a line may begin with the pair `i` after the first, or it is the node's end. So far as lines of this stretch lead.
    begins: u64,
}

impl Stretch {
    /// Warp collective (all lanes). The lane's stretch. The memory's beginnings may be written again then.
    ///
    /// # Safety
    /// The memory has the beginnings of so many pairs, at least one and at most those of 64 lines and 64, and the word after that
    /// with the end.
    #[inline(always)]
    pub(crate) unsafe fn of<S: Simt>(simt: S, len: u32, slots: u32, memory: PlanMemory) -> Self {
        let share = len.div_ceil(WARP);
        let first = simt.lane() * share;
        let mut begins = 0;
        if first < len {
            let (word, bit) = (first / 32, first % 32);
            // SAFETY: words up to the one after the end's.
            unsafe {
                let (low, high) = (simt.shared_load(memory.begins, word), simt.shared_load(memory.begins, word + 1));
                begins = (u64::from(high) << 32 | u64::from(low)) >> bit;
                // The lines of short stretches lead less than 33 pairs on.
                if slots > 8 && (word + 2) * 32 <= len {
                    let third = simt.shared_load(memory.begins, word + 2);
                    begins |= (u64::from(third) << 32) << (32 - bit);
                }
            }
        }
        simt.sync_warp(FULL_MASK);
        Self { slots, len, share, first, begins }
    }

    /// Pairs of a line that begins with one of the stretch's pairs; 0 if it may not end within its slots.
    #[inline(always)]
    fn line(self, at: u32, filling: Filling) -> u32 {
        // Bit `i`: it may have `i + 1` pairs.
        let after = if self.slots > 8 { (self.begins >> (at + 1)) as u32 } else { self.begins as u32 >> (at + 1) };
        let ends = after & ((1 << self.slots) - 1);
        let short = ends & ((1 << filling.from(self.first + at, self.slots)) - 1);
        if short != 0 {
            32 - short.leading_zeros()
        } else if ends != 0 {
            ends.trailing_zeros() + 1
        } else {
            0
        }
    }

    /// Warp collective (all lanes). Cuts the node's pairs into at most so many lines: the same in all lanes.
    ///
    /// # Safety
    /// The memory is that of the stretch.
    #[inline(always)]
    pub(crate) unsafe fn cut<S: Simt>(self, simt: S, filling: Filling, most: u32, memory: PlanMemory) -> LineCut {
        let (lane, slots) = (simt.lane(), self.slots);
        let mut exits = Exits::NONE;
        let mut at = self.share;
        while at > 0 {
            at -= 1;
            let pairs = self.line(at, filling);
            // What cannot end leads anywhere: it is found below.
            exits = exits.with(exits.of(if pairs == 0 { slots - 1 } else { pairs - 1 }, slots));
        }
        let mut step = 1;
        while step < WARP {
            let low = simt.shuffle_up(FULL_MASK, exits.low, step);
            let high = if slots > 8 { simt.shuffle_up(FULL_MASK, exits.high, step) } else { 0 };
            let both = exits.after(Exits { low, high }, slots);
            exits = if lane >= step { both } else { exits };
            step *= 2;
        }
        let entry = simt.shuffle_up(FULL_MASK, exits.low, 1) & 15;
        let mut at = if lane == 0 { 0 } else { entry };
        let end = self.share.min(self.len.saturating_sub(self.first));
        let (mut begun, mut is_stuck) = (0_u64, false);
        while at < end && !is_stuck {
            begun |= 1 << at;
            let pairs = self.line(at, filling);
            is_stuck = pairs == 0;
            at += pairs;
        }
        let own = begun.count_ones();
        let mut upto = own;
        let mut step = 1;
        while step < WARP {
            let before = simt.shuffle_up(FULL_MASK, upto, step);
            upto += if lane >= step { before } else { 0 };
            step *= 2;
        }
        // After the first lane that is stuck, nothing is right.
        if simt.any(FULL_MASK, is_stuck && upto <= most) {
            return LineCut::Crowded;
        }
        let lines = simt.shuffle(FULL_MASK, upto, WARP - 1);
        if lines > most {
            return LineCut::TooMany;
        }
        let mut line = upto - own;
        // SAFETY: an element for each line, and one more.
        unsafe {
            while begun != 0 {
                simt.shared_store(memory.starts, line, self.first + begun.trailing_zeros());
                begun &= begun - 1;
                line += 1;
            }
            if lane == 0 {
                simt.shared_store(memory.starts, lines, self.len);
            }
        }
        simt.sync_warp(FULL_MASK);
        LineCut::Into(lines)
    }
}
