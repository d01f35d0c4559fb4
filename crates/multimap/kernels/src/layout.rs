//! A key's place: where its values begin in the values array, and how many there are, in one word.
//!
//! ```text
//!  63                                    28 27                          0
//! ┌────────────────────────────────────────┬─────────────────────────────┐
//! │ position of the first value            │ number of values            │
//! └────────────────────────────────────────┴─────────────────────────────┘
//!
//!  keys, in an index   3 ─► (0, 2)    5 ─► (2, 1)    9 ─► (3, 4)
//!  values              a  b           c              d  e  f  g
//! ```
//!
//! Keys and values are in the same order, so the values of a range of keys are adjacent, too. A place of 0 has no values:
//! it is the answer for an absent key.

/// Bits of the number of values.
pub const COUNT_BITS: u32 = 28;

/// The most values of a key.
pub const MOST_VALUES: u64 = (1 << COUNT_BITS) - 1;

/// The most pairs of a map: no pair is at the largest position, which stands for the first one past all of them.
pub const MOST_PAIRS: u64 = (1 << (64 - COUNT_BITS)) - 1;

/// Keys of a sample: see [`Sample`](crate::Sample).
pub const SAMPLE: u64 = 256;

/// The place of values.
#[inline(always)]
pub const fn place(begin: u64, count: u64) -> u64 {
    begin << COUNT_BITS | count & MOST_VALUES
}

/// The position of the first value.
#[inline(always)]
pub const fn begin(place: u64) -> u64 {
    place >> COUNT_BITS
}

/// The number of values.
#[inline(always)]
pub const fn count(place: u64) -> u64 {
    place & MOST_VALUES
}
