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
//! As long as a map is in order, keys and values are in the same order, so the values of a range of keys are adjacent, too. A
//! place of 0 has no values: it is the answer for an absent key.
//!
//! The values of a key are a *run*. After an insert in place, runs that it has changed are past all others, each with a little
//! room after its values ([`room`]), and where they were nobody reads any more:
//!
//! ```text
//!  keys, in an index   3 ─► (0, 2)    5 ─► (7, 3)    9 ─► (3, 4)        5 has got h and i
//!  values              a  b  .  d  e  f  g │ c  h  i  _ │
//!                      dense: room for none │ with room  │ free
//! ```

/// Bits of the number of values.
pub const COUNT_BITS: u32 = 28;

/// The most values of a key.
pub const MOST_VALUES: u64 = (1 << COUNT_BITS) - 1;

/// The most pairs of a map: no pair is at the largest position, which stands for the first one past all of them.
pub const MOST_PAIRS: u64 = (1 << (64 - COUNT_BITS)) - 1;

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

/// The positions that a run of `values` values takes where it has room to grow: a quarter more at most. All numbers of values up
/// to a run's room have that room, so a place says it.
#[inline(always)]
pub const fn room(values: u64) -> u64 {
    // A quarter of the power of two at or below it, and at least 2; the most values of a key fit into 32 bits.
    let values32 = if values > u32::MAX as u64 { u32::MAX } else { values as u32 };
    let step = 1_u64 << (29 - (values32 | 8).leading_zeros());
    (values + step - 1) & !(step - 1)
}
