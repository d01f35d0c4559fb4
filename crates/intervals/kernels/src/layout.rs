//! Intervals in order, the links among them, and the maxima above their ends.
//!
//! Intervals ascend by start; intervals with the same start descend by end, and equal ones are in the reverse order of
//! their input. So all intervals that start at or below a point are a prefix, and the most specific one that contains
//! the point is the last one of the prefix whose end reaches it. A *link* leads from an interval to the last one before
//! it that ends later. It skips only intervals that end no later, and the links of an interval are intervals around it:
//! a chain is as long as intervals are nested.
//!
//! ```text
//!  position        0          1        2     3        4
//!  interval   [0 ───────────────────────────────────── 90]
//!                  [10 ──────────── 50]               [70 ─ 80]
//!                      [15 ─ 20] [30 ─ 40]
//!  ends       90   50   20        40                   80
//!  links      none 0    1         1                    0
//!  point 60: the prefix ends with 3, whose end is 40 ─► link 1: 50 ─► link 0: 90 reaches it
//! ```
//!
//! Above the ends there are levels of maxima, each of [`FANOUT`] words of the level below, in one array with the ends. The last
//! interval that reaches a point is found in them by going up and down, however deep intervals are nested:
//!
//! ```text
//! ┌───────────────┬──────────────────┬─────┬──────────────────┐
//! │ ends, len     │ maxima of 16     │ ... │ top: at most 16  │
//! └───────────────┴──────────────────┴─────┴──────────────────┘
//! ```
//!
//! Ends and maxima are order-preserving words.

/// Words of a level that one word of the level above stands for.
pub const FANOUT: u64 = 1 << FANOUT_BITS;

const FANOUT_BITS: u32 = 4;

/// No position.
pub const NONE: u32 = u32::MAX;

/// The most intervals: positions are below [`NONE`].
pub const MOST: u64 = NONE as u64;

/// A level of the array: the ends, or maxima.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    height: u32,
    /// Where its words begin in the array.
    pub begin: u64,
    /// How many there are.
    pub len: u64,
}

impl Level {
    /// The level of the ends of `intervals` intervals.
    #[inline(always)]
    pub const fn ends(intervals: u64) -> Self {
        Self { height: 0, begin: 0, len: intervals }
    }

    /// Whether this is the level of the ends.
    #[inline(always)]
    pub const fn is_lowest(self) -> bool {
        self.height == 0
    }

    /// Whether there is no level above.
    #[inline(always)]
    pub const fn is_top(self) -> bool {
        self.len <= FANOUT
    }

    /// The level above.
    #[inline(always)]
    pub const fn above(self) -> Self {
        Self { height: self.height + 1, begin: self.begin + self.len, len: self.len.div_ceil(FANOUT) }
    }

    /// The level below this one, which is not the lowest, above `intervals` intervals.
    #[inline(always)]
    pub const fn below(self, intervals: u64) -> Self {
        let height = self.height - 1;
        let len = ((intervals - 1) >> (FANOUT_BITS * height)) + 1;
        Self { height, begin: self.begin - len, len }
    }
}

/// Words of the array of the ends of `intervals` intervals and the maxima above.
pub const fn words(intervals: u64) -> u64 {
    let mut level = Level::ends(intervals);
    while !level.is_top() {
        level = level.above();
    }
    level.begin + level.len
}
