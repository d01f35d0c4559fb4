//! Rows of pairs that are copied one after the other: which pairs a group of lanes copies.

use crate::{FULL_MASK, Global, Hint, Simt, WARP, kernel_args};

kernel_args! {
    /// Rows of pairs, and the window of the outputs that is written. A group of lanes copies a short row whole. Of a longer one it
    /// copies the pairs up to the next multiple of `part`, and for each further multiple there is a group of its own, so one long
    /// row takes no longer than many short ones.
    pub struct GatherRows {
        /// Where each row begins in the index: `[count]`.
        pub cursors: Global<u64>,
        /// How many pairs from there on are left out: `[count]`; null if none are.
        pub skips: Global<u64>,
        /// Where its pairs go: `[count + 1]`, ascending.
        pub offsets: Global<u64>,
        /// How many rows, at least one.
        pub count: u64,
        /// The first output of the window: where a short row begins, or a multiple of `part`. Outputs before it are not written.
        pub first: u64,
        /// The output past the window.
        pub end: u64,
        /// Pairs of a part, a power of two; [`GatherRows::WHOLE`] if no row is longer.
        pub part: u64,
        /// Groups for parts: one for each multiple of `part` in the window; 0 if no row is longer.
        pub parts: u64,
    }
}

/// What a group of lanes copies.
#[derive(Clone, Copy, Debug)]
pub struct RowPart {
    /// Where its row begins in the index; 0 if there is nothing to copy.
    pub cursor: u64,
    /// Pairs from there on that are before its own.
    pub skip: u64,
    /// Where its pairs go, counted from the window's first output.
    pub at: u64,
    /// Where they end; `at` if there are none.
    pub end: u64,
}

impl GatherRows {
    /// The length of a part, if there are none.
    pub const WHOLE: u64 = 1 << 63;

    /// How many groups of lanes copy them.
    pub fn groups(&self) -> u64 {
        self.parts.saturating_add(self.count)
    }

    /// Per thread, the same in all lanes of a group. What the group of a number copies.
    ///
    /// # Safety
    /// There are as many cursors, skips and offsets as the fields say.
    #[inline(always)]
    pub unsafe fn of_group<S: Simt>(&self, simt: S, group: u64) -> RowPart {
        let nothing = RowPart { cursor: 0, skip: 0, at: 0, end: 0 };
        // SAFETY: rows below the count.
        unsafe {
            let offset = |row: u64| simt.load(self.offsets, row, Hint::ReadOnly);
            let (row, begin, at, mut end);
            if group < self.parts {
                at = ((self.first + self.part - 1) & !(self.part - 1)) + group * self.part;
                if at >= self.end {
                    return nothing;
                }
                // The last row that does not begin after this output.
                let (mut last, mut left) = (0, self.count);
                while left > 1 {
                    let half = left / 2;
                    last += if offset(last + half) <= at { half } else { 0 };
                    left -= half;
                }
                (row, begin, end) = (last, offset(last), offset(last + 1));
                // What begins here, and what is short, has its own group; there may be room past the last row.
                if begin >= at || end <= at || end - begin <= self.part {
                    return nothing;
                }
                end = if end - at < self.part { end } else { at + self.part };
            } else {
                row = group - self.parts;
                if row >= self.count {
                    return nothing;
                }
                (begin, end) = (offset(row), offset(row + 1));
                if end - begin > self.part {
                    end = (begin | (self.part - 1)) + 1;
                }
                at = begin;
                if at < self.first {
                    return nothing;
                }
            }
            end = if end < self.end { end } else { self.end };
            if at >= end {
                return nothing;
            }
            let cursor = simt.load(self.cursors, row, Hint::ReadOnly);
            let mut skip = at - begin;
            if !self.skips.is_null() {
                skip += simt.load(self.skips, row, Hint::ReadOnly);
            }
            RowPart { cursor, skip, at: at - self.first, end: end - self.first }
        }
    }
}

/// Per thread. The last of the `count` numbers from `first` on for which something holds; it holds for the first one, and for
/// none after one for which it does not.
#[inline(always)]
pub fn last_where(first: u64, count: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut base, mut left) = (first, count);
    while left > 1 {
        let half = left / 2;
        base += if holds(base + half) { half } else { 0 };
        left -= half;
    }
    base
}

/// The rows in which the outputs of a warp are, of rows that are written one after the other.
#[derive(Clone, Copy, Debug)]
pub struct WarpRows {
    first: u64,
    count: u64,
}

impl WarpRows {
    /// Warp collective (all lanes, with the same arguments). The rows of the outputs from `first` to before `end`, at least one: both
    /// ends are searched at once, each by half of the lanes, sixteen parts at a time.
    ///
    /// # Safety
    /// There are `rows + 1` offsets, at least two, which do not descend; the first is at most `first`, the last at least `end`.
    #[inline(always)]
    pub unsafe fn of<S: Simt>(simt: S, offsets: Global<u64>, rows: u64, first: u64, end: u64) -> Self {
        const PARTS: u32 = WARP / 2;
        let (part, half) = (simt.lane() % PARTS, simt.lane() / PARTS);
        let at = if half == 0 { first } else { end - 1 };
        // The last row that begins at most there is among these.
        let (mut base, mut left) = (0, rows);
        while simt.any(FULL_MASK, left > 1) {
            let step = left.div_ceil(u64::from(PARTS));
            let own = u64::from(part + 1) * step;
            let row = base + if own < left { own } else { 0 };
            // SAFETY: the number of a row.
            let begins = unsafe { simt.load(offsets, row, Hint::ReadOnly) } <= at;
            let begins = simt.opaque(u32::from(begins & (own < left))) != 0;
            let begun = (simt.ballot(FULL_MASK, begins) >> (PARTS * half) & ((1 << PARTS) - 1)).count_ones();
            let passed = u64::from(begun) * step;
            base += passed;
            left = if left - passed < step { left - passed } else { step };
        }
        let (first, last) = (simt.shuffle(FULL_MASK, base, 0), simt.shuffle(FULL_MASK, base, PARTS));
        Self { first, count: last - first + 1 }
    }

    /// Per thread. The row of one of the outputs.
    ///
    /// # Safety
    /// The offsets are those that it was made of.
    #[inline(always)]
    pub unsafe fn row<S: Simt>(&self, simt: S, offsets: Global<u64>, at: u64) -> u64 {
        // SAFETY: the number of a row.
        last_where(self.first, self.count, |row| unsafe { simt.load(offsets, row, Hint::ReadOnly) } <= at)
    }
}
