//! Aggregates of the values of ranges: what the kernel of each index computes of the values that it finds, so that the rule stands
//! once. A range is aggregated by a group of lanes; a long one in parts, whose results are combined.

use crate::{FULL_MASK, Global, GlobalMut, Hint, Simt, WARP, last_where};
use lanetree_layout::{Word, kernel_args};

kernel_args! {
    /// What is computed of values, and what numbers they are.
    pub struct Fold {
        /// [`Fold::SUM`] and so on.
        pub op: u32,
        /// [`Fold::UNSIGNED`] and so on.
        pub number: u32,
    }
}

impl Fold {
    /// The sum: of integers in 128 bits, of floats in 64.
    pub const SUM: u32 = 0;
    /// The smallest.
    pub const MIN: u32 = 1;
    /// The largest.
    pub const MAX: u32 = 2;
    /// The last one.
    pub const LAST: u32 = 3;

    /// Values are unsigned integers.
    pub const UNSIGNED: u32 = 0;
    /// They are signed integers.
    pub const SIGNED: u32 = 1;
    /// They are floats, which are ordered by `total_cmp`.
    pub const FLOAT: u32 = 2;

    /// What an accumulator is before the first value.
    #[inline(always)]
    pub fn start(&self) -> u128 {
        if self.op == Self::MIN { u128::MAX } else { 0 }
    }

    /// The accumulator of one value.
    #[inline(always)]
    pub fn of<V: Word>(&self, value: V) -> u128 {
        let (word, sign) = (value.widen(), 1 << (V::BITS - 1));
        if self.op == Self::LAST || self.number == Self::UNSIGNED {
            return word.into();
        }
        if self.op != Self::SUM {
            let is_negative_float = self.number == Self::FLOAT && word & sign != 0;
            return (word ^ if is_negative_float { sign | (sign - 1) } else { sign }).into();
        }
        match self.number {
            Self::SIGNED if V::BITS == 32 => i128::from(word as u32 as i32) as u128,
            Self::SIGNED => i128::from(word as i64) as u128,
            _ => Self::wide_float::<V>(word).to_bits().into(),
        }
    }

    #[inline(always)]
    fn wide_float<V: Word>(word: u64) -> f64 {
        if V::BITS == 32 { f64::from(f32::from_bits(word as u32)) } else { f64::from_bits(word) }
    }

    /// The accumulator of the values of two.
    #[inline(always)]
    pub fn combine(&self, a: u128, b: u128) -> u128 {
        match self.op {
            Self::SUM if self.number == Self::FLOAT => {
                (f64::from_bits(a as u64) + f64::from_bits(b as u64)).to_bits().into()
            }
            Self::SUM => a.wrapping_add(b),
            Self::MIN => {
                if a < b {
                    a
                } else {
                    b
                }
            }
            Self::MAX => {
                if a < b {
                    b
                } else {
                    a
                }
            }
            // Only one of them has a value.
            _ => a | b,
        }
    }

    /// The result of an accumulator of at least one value: an unsigned or signed integer or a float of 64 bits, and whether a sum has
    /// more bits.
    #[inline(always)]
    pub fn result<V: Word>(&self, sum: u128) -> (u64, bool) {
        let (low, high, sign) = (sum as u64, (sum >> 64) as u64, 1 << (V::BITS - 1));
        if self.op == Self::SUM {
            let extension = if self.number == Self::SIGNED { (low as i64 >> 63) as u64 } else { 0 };
            return (low, high != extension);
        }
        let mut word = low;
        if self.op != Self::LAST && self.number != Self::UNSIGNED {
            let is_negative_float = self.number == Self::FLOAT && word & sign == 0;
            word ^= if is_negative_float { sign | (sign - 1) } else { sign };
        }
        let wide = match self.number {
            Self::SIGNED if V::BITS == 32 => i64::from(word as u32 as i32) as u64,
            Self::FLOAT => Self::wide_float::<V>(word).to_bits(),
            _ => word,
        };
        (wide, false)
    }
}

kernel_args! {
    /// Ranges whose values are aggregated: those up to the length of a part by themselves, or the parts of the others.
    pub struct AggregateBatch {
        /// Where each range begins: `[count]`.
        pub cursors: Global<u64>,
        /// How many pairs each range has: `[count]`.
        pub counts: Global<u64>,
        /// The prefix sums of the counts: `[count + 1]`.
        pub offsets: Global<u64>,
        /// The prefix sums of the numbers of parts: `[count + 1]`; null if ranges are aggregated by themselves.
        pub parts: Global<u64>,
        /// How many ranges.
        pub count: u64,
        /// Out: an accumulator, as two words, for each range, and from `count` on for each part. Of empty ranges none is written.
        pub sums: GlobalMut<u64>,
        /// What is computed.
        pub fold: Fold,
    }
}

/// The pairs that a group of lanes aggregates.
#[derive(Clone, Copy, Debug)]
pub struct AggregatePart {
    /// Where the range begins in the index.
    pub cursor: u64,
    /// Pairs from there on that are before its own.
    pub skip: u64,
    /// How many pairs; 0 if there is nothing to do.
    pub len: u64,
    /// The number of its accumulator.
    pub to: u64,
}

impl AggregateBatch {
    /// Fewest pairs of a part.
    pub const PART: u64 = 1 << 10;
    /// About how many parts there are of all long ranges, and groups of lanes for them.
    pub const PARTS: u64 = 1 << 12;

    /// The pairs of a part, if the ranges have so many pairs: longer ranges have parts. There are fewer than [`Self::PARTS`] and one
    /// for each range.
    #[inline(always)]
    pub fn part_len(total: u64) -> u64 {
        let share = total / Self::PARTS + 1;
        if share < Self::PART { Self::PART } else { share }
    }

    /// Warp collective (all lanes), with `G` lanes per range or part. Aggregates all: `walk` gives a lane's accumulator of what it
    /// finds of its group's pairs.
    ///
    /// # Safety
    /// The arrays are as long as their descriptions say.
    #[inline(always)]
    pub unsafe fn run<S: Simt, const G: u32>(&self, simt: S, walk: impl Fn(AggregatePart) -> u128) {
        let groups = u64::from(simt.grid_dim()) * u64::from(simt.block_dim() / G);
        let (mut group, member) = (simt.global_index() / u64::from(G), simt.lane() % G);
        // SAFETY: the caller's contract.
        unsafe {
            let len = Self::part_len(simt.load(self.offsets, self.count, Hint::ReadOnly));
            let is_parts = !self.parts.is_null();
            let all = if is_parts { simt.load(self.parts, self.count, Hint::ReadOnly) } else { self.count };
            // The same for all lanes of a warp.
            while group - u64::from(simt.lane() / G) < all {
                let mut part = AggregatePart { cursor: 0, skip: 0, len: 0, to: group };
                if group < all {
                    part = if is_parts { self.part(simt, group, len) } else { self.range(simt, group, len) };
                }
                let mut sum = walk(part);
                let mut lanes = 1;
                while lanes < G {
                    sum = self.fold.combine(sum, simt.shuffle_xor(FULL_MASK, sum, lanes));
                    lanes *= 2;
                }
                if member == 0 && simt.opaque(part.len) > 0 {
                    simt.store(self.sums, 2 * part.to, sum as u64, Hint::Default);
                    simt.store(self.sums, 2 * part.to + 1, (sum >> 64) as u64, Hint::Default);
                }
                group += groups;
            }
        }
    }

    /// What is aggregated of a range by itself.
    #[inline(always)]
    unsafe fn range<S: Simt>(&self, simt: S, range: u64, part: u64) -> AggregatePart {
        // SAFETY: a range.
        let (cursor, len) = unsafe {
            (simt.load(self.cursors, range, Hint::Streaming), simt.load(self.counts, range, Hint::Streaming))
        };
        let nothing = AggregatePart { cursor, skip: 0, len: 0, to: range };
        if self.fold.op == Fold::LAST {
            return if len == 0 { nothing } else { AggregatePart { skip: len - 1, len: 1, ..nothing } };
        }
        AggregatePart { len: if len > part { 0 } else { len }, ..nothing }
    }

    /// A part of a range.
    #[inline(always)]
    unsafe fn part<S: Simt>(&self, simt: S, part: u64, len: u64) -> AggregatePart {
        // SAFETY: the parts' range, which has a part, and is the last one that does not begin after it.
        unsafe {
            let begin = |range: u64| simt.load(self.parts, range, Hint::ReadOnly);
            let range = last_where(0, self.count, |range| begin(range) <= part);
            let skip = (part - begin(range)) * len;
            let left = simt.load(self.counts, range, Hint::ReadOnly) - skip;
            let cursor = simt.load(self.cursors, range, Hint::ReadOnly);
            AggregatePart { cursor, skip, len: if left < len { left } else { len }, to: self.count + part }
        }
    }
}

/// Warp collective (all lanes). The accumulator of some accumulators, from one of them on.
///
/// # Safety
/// There are as many.
#[inline(always)]
pub unsafe fn combine_all<S: Simt>(simt: S, fold: Fold, sums: Global<u64>, first: u64, count: u64) -> u128 {
    const AT_ONCE: usize = 4;
    let (mut sum, mut at) = (fold.start(), u64::from(simt.lane()));
    while at < count {
        let mut own = [fold.start(); AT_ONCE];
        for (i, own) in own.iter_mut().enumerate() {
            let at = at + i as u64 * u64::from(WARP);
            if at < count {
                // SAFETY: the caller's contract.
                let words =
                    unsafe { [0, 1].map(|word| u128::from(simt.load(sums, 2 * (first + at) + word, Hint::Default))) };
                *own = words[0] | words[1] << 64;
            }
        }
        sum = own.into_iter().fold(sum, |sum, own| fold.combine(sum, own));
        at += u64::from(WARP) * AT_ONCE as u64;
    }
    let mut lanes = 1;
    while lanes < WARP {
        sum = fold.combine(sum, simt.shuffle_xor(FULL_MASK, sum, lanes));
        lanes *= 2;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::Fold;

    fn all<V: lanetree_layout::Word>(op: u32, number: u32, values: &[V]) -> (u64, bool) {
        let fold = Fold { op, number };
        fold.result::<V>(values.iter().fold(fold.start(), |sum, &value| fold.combine(sum, fold.of(value))))
    }

    #[test]
    fn sums_of_integers_say_when_they_overflow() {
        assert_eq!(all(Fold::SUM, Fold::UNSIGNED, &[u32::MAX, u32::MAX]), (2 * u64::from(u32::MAX), false));
        assert_eq!(all(Fold::SUM, Fold::UNSIGNED, &[u64::MAX, 1]), (0, true));
        assert_eq!(all(Fold::SUM, Fold::SIGNED, &[-3_i32 as u32, 1]), (-2_i64 as u64, false));
        assert_eq!(all(Fold::SUM, Fold::SIGNED, &[i64::MAX as u64, 1, -1_i64 as u64]), (i64::MAX as u64, false));
        assert_eq!(all(Fold::SUM, Fold::SIGNED, &[i64::MIN as u64, -1_i64 as u64]), (i64::MAX as u64, true));
    }

    #[test]
    fn numbers_are_ordered_as_what_they_are() {
        let floats = [-0.5_f32, f32::NAN, 2.0, -0.0, 0.0, f32::NEG_INFINITY].map(f32::to_bits);
        assert_eq!(all(Fold::MIN, Fold::FLOAT, &floats), (f64::NEG_INFINITY.to_bits(), false));
        assert!(f64::from_bits(all(Fold::MAX, Fold::FLOAT, &floats).0).is_nan());
        assert_eq!(all(Fold::MAX, Fold::FLOAT, &floats[3..5]), (0, false));
        let numbers = [5_i64, -7, 3].map(|number| number as u64);
        assert_eq!(all(Fold::MIN, Fold::SIGNED, &numbers), (-7_i64 as u64, false));
        assert_eq!(all(Fold::MAX, Fold::SIGNED, &numbers), (5, false));
        assert_eq!(all(Fold::MAX, Fold::UNSIGNED, &numbers), (-7_i64 as u64, false));
        assert_eq!(
            all(Fold::SUM, Fold::FLOAT, &[0.5_f32.to_bits(), (-2.0_f32).to_bits()]),
            ((-1.5_f64).to_bits(), false)
        );
        assert_eq!(all(Fold::LAST, Fold::SIGNED, &[-9_i32 as u32]), (-9_i64 as u64, false));
    }
}
