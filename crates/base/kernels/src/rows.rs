//! Outputs in rows that are written one after the other: which row each output is in. Kernels of other crates use it, too.
//!
//! A warp has [`OUTPUTS`] outputs in a row, so one long row takes no longer than many short ones. It searches for the row of the
//! first one, then reads the offsets from there on, a lane each, and notes in shared memory where rows begin. An output's row is the
//! one that was noted last at or before it, which a ballot finds for 64 outputs at once: a search by each output for itself takes as
//! many loads, one waiting for the other, as the number of rows has bits.

use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, LaunchBounds, Shared, Simt, WARP, Word, unroll};

/// Outputs of a warp.
pub const OUTPUTS: u64 = 512;

/// Most threads of a block.
const THREADS: u32 = 256;

/// Bytes of shared memory of a warp: a note for each output.
const NOTES: u32 = 4 * OUTPUTS as u32;

/// Bytes of shared memory that a kernel over outputs needs.
pub const ROWS_SHARED: u32 = NOTES * (THREADS / WARP);

/// What the compiler may assume of such a kernel: registers enough for the loads of [`AT_ONCE`] steps.
pub const ROWS_BOUNDS: LaunchBounds = LaunchBounds { threads: THREADS, blocks: 4 };

/// Outputs of a step: two neighbours per lane.
pub const STEP: u64 = 2 * WARP as u64;

/// Steps whose loads are under way together.
pub const AT_ONCE: usize = 2;

/// Rows of which a warp reads the offsets, at most: where there are more, nearly all are empty, and each output searches.
const MOST_ROWS: u64 = 16 * OUTPUTS;

/// Parts of [`WARP`] rows that a warp reads at once.
const PARTS: usize = 4;

/// Bits of a note below the output at which its row begins: one more than the row's number, counted from the first one.
const ROW_BITS: u32 = 16;
const ROW_MASK: u32 = (1 << ROW_BITS) - 1;
const _: () = assert!(MOST_ROWS + (PARTS as u64 + 1) * (WARP as u64) < ROW_MASK as u64);

/// Where an output is.
#[derive(Clone, Copy, Debug, Default)]
pub struct InRow {
    /// Its row.
    pub row: u64,
    /// Outputs of the row before it.
    pub within: u64,
}

/// What a warp has found out about offsets.
#[derive(Clone, Copy)]
struct Noted {
    /// Whether there are no more rows in the outputs.
    is_done: bool,
    /// Whether the offsets ascend. If not, none of those that were read last are noted.
    ascend: bool,
}

/// The outputs of a warp.
#[derive(Clone, Copy, Debug)]
pub struct WarpOutputs {
    offsets: Global<u64>,
    /// The first one.
    first: u64,
    /// The one past the last one.
    end: u64,
    /// The row of the first one.
    row: u64,
    /// Rows that are searched, from that one on; 0 if there are notes.
    searched: u64,
}

impl WarpOutputs {
    /// Warp collective (all lanes). The calling warp's outputs, of `total`; none if they are past the last output.
    ///
    /// # Safety
    /// There are `rows + 1` offsets, at least two; `total` is at most the last one. The kernel has the first [`ROWS_SHARED`] bytes of
    /// shared memory for this, and blocks of whole warps within [`ROWS_BOUNDS`]. If the offsets descend or do not begin with 0, the
    /// rows of outputs are unspecified, but are rows, and `within` is anything.
    #[inline(always)]
    pub unsafe fn new<S: Simt>(simt: S, offsets: Global<u64>, rows: u64, total: u64) -> Option<Self> {
        let first = simt.global_index() / u64::from(WARP) * OUTPUTS;
        if first >= total {
            return None;
        }
        let end = if total - first < OUTPUTS { total } else { first + OUTPUTS };
        // SAFETY: numbers of rows, and the one past them, which has the last offset; notes are of the warp's outputs.
        unsafe {
            // The first output is the first one of its row among these.
            let vectors = Shared::<u128>::at(NOTES * simt.warp(), NOTES / 16);
            unroll!((NOTES / 16 / WARP) as usize, i => {
                let is_first = i == 0 && simt.lane() == 0;
                simt.shared_store(vectors, simt.lane() + WARP * i as u32, u128::from(is_first));
            });
            simt.sync_warp(FULL_MASK);
            let row = last_at_most(simt, offsets, rows, first);
            let notes = Shared::<u32>::at(NOTES * simt.warp(), OUTPUTS as u32);
            let mut next = row + 1;
            let mut outputs = Self { offsets, first, end, row, searched: 0 };
            let mut noted = outputs.note::<S, 1>(simt, notes, rows, next);
            next += u64::from(WARP);
            while !noted.is_done && noted.ascend && next - row <= MOST_ROWS {
                noted = outputs.note::<S, PARTS>(simt, notes, rows, next);
                next += PARTS as u64 * u64::from(WARP);
            }
            if !(noted.is_done && noted.ascend) {
                outputs.searched = last_at_most(simt, offsets, rows, end - 1).max(row) - row + 1;
            }
            simt.sync_warp(FULL_MASK);
            Some(outputs)
        }
    }

    /// Warp collective (all lanes). Notes where rows begin, of `N` for each lane from one of them on; empty ones do not begin. All
    /// lanes get the same answer.
    ///
    /// # Safety
    /// As [`WarpOutputs::new`]; the notes are the warp's, and the next row is after the first one.
    #[inline(always)]
    unsafe fn note<S: Simt, const N: usize>(&self, simt: S, notes: Shared<u32>, rows: u64, next: u64) -> Noted {
        let (mut begins, mut ends) = ([0; N], [0; N]);
        // SAFETY: numbers of rows, and the one past them. A note is an output of the warp: no row that is noted begins before the first
        // one. No two rows have the same note: all rows from the first one on ascend.
        unsafe {
            let mut descends = false;
            unroll!(N, i => {
                let own = next + u64::from(WARP) * i as u64 + u64::from(simt.lane());
                let past = own + 1;
                begins[i] = simt.load(self.offsets, if own < rows { own } else { rows }, Hint::ReadOnly);
                ends[i] = simt.load(self.offsets, if past < rows { past } else { rows }, Hint::ReadOnly);
                descends |= begins[i] < self.first || begins[i] > ends[i];
            });
            // The offset past all rows is not below the end. Before the stores: a vote after stores by some lanes may become a call.
            let is_done = simt.any(FULL_MASK, begins[N - 1] >= self.end);
            // Offsets may be a caller's.
            let ascend = !simt.any(FULL_MASK, descends);
            unroll!(N, i => {
                if ascend && begins[i] < self.end && begins[i] < ends[i] {
                    let local = (next - self.row) as u32 + WARP * i as u32 + simt.lane();
                    let at = (begins[i] - self.first) as u32;
                    simt.shared_store(notes, at, at << ROW_BITS | (local + 1));
                }
            });
            Noted { is_done, ascend }
        }
    }

    /// Warp collective (all lanes). Calls `body` for each [`AT_ONCE`] steps, with the first of a lane's two outputs of
    /// the first step, and where they are. A lane's output of a step is [`STEP`] after its output of the step before.
    /// Outputs may be past the last one; the row is then unspecified.
    ///
    /// # Safety
    /// The warp made them, and nothing else uses that shared memory.
    #[inline(always)]
    pub unsafe fn each<S: Simt>(self, simt: S, mut body: impl FnMut(u64, [[InRow; 2]; AT_ONCE])) {
        let notes = Shared::<u64>::at(NOTES * simt.warp(), OUTPUTS as u32 / 2);
        // SAFETY: rows, and notes of the warp's outputs.
        unsafe {
            // Outputs of the first row before the warp's.
            let before = self.first.saturating_sub(simt.load(self.offsets, self.row, Hint::ReadOnly));
            // What was noted last.
            let mut last = 1;
            let mut from = 0;
            while self.first + from < self.end {
                let own = from + 2 * u64::from(simt.lane());
                let mut places = [[InRow::default(); 2]; AT_ONCE];
                if self.searched == 0 {
                    unroll!(AT_ONCE, step => {
                        let at = own as u32 + STEP as u32 * step as u32;
                        let pair = simt.shared_load(notes, at / 2);
                        let (even, odd) = (pair as u32, (pair >> 32) as u32);
                        let own_last = if odd != 0 { odd } else { even };
                        let before_own = simt.ballot(FULL_MASK, own_last != 0) & simt.lanes_below();
                        // No branch, into whose sides the shuffle might be copied.
                        let source = (WARP - 1).wrapping_sub(before_own.leading_zeros()) % WARP;
                        let shuffled = simt.shuffle(FULL_MASK, own_last, source);
                        let left = if before_own != 0 { shuffled } else { last };
                        let even = if even != 0 { even } else { left };
                        let odd = if odd != 0 { odd } else { even };
                        last = simt.shuffle(FULL_MASK, odd, WARP - 1);
                        let place = |note: u32, at: u32| {
                            let row = (note & ROW_MASK) - 1;
                            let within = u64::from(at - (note >> ROW_BITS)) + if row == 0 { before } else { 0 };
                            InRow { row: self.row + u64::from(row), within }
                        };
                        places[step] = [place(even, at), place(odd, at + 1)];
                    });
                } else {
                    places = self.search(simt, self.first + own);
                }
                body(self.first + own, places);
                from += STEP * AT_ONCE as u64;
            }
        }
    }

    /// Per thread. Where a lane's outputs are: all are searched at once.
    ///
    /// # Safety
    /// As [`WarpOutputs::each`].
    #[inline(always)]
    unsafe fn search<S: Simt>(&self, simt: S, first: u64) -> [[InRow; 2]; AT_ONCE] {
        // SAFETY: rows.
        let offset = |row| unsafe { simt.load(self.offsets, row, Hint::ReadOnly) };
        let (mut rows, mut left) = ([[self.row; 2]; AT_ONCE], self.searched);
        while left > 1 {
            let half = left / 2;
            unroll!(AT_ONCE, step => {
                let at = first + STEP * step as u64;
                let [even, odd] = rows[step];
                let begin = [offset(even + half), offset(odd + half)];
                rows[step] = [even + if begin[0] <= at { half } else { 0 }, odd + if begin[1] <= at + 1 { half } else { 0 }];
            });
            left -= half;
        }
        let mut places = [[InRow::default(); 2]; AT_ONCE];
        unroll!(AT_ONCE, step => {
            let at = first + STEP * step as u64;
            let [even, odd] = rows[step];
            let place = |row, at: u64| InRow { row, within: at.saturating_sub(offset(row)) };
            places[step] = [place(even, at), place(odd, at + 1)];
        });
        places
    }

    /// Per thread. Whether an output that a body was given, or one some steps further on, is not past the last one.
    #[inline(always)]
    pub fn has(&self, output: u64) -> bool {
        output < self.end
    }

    /// Per thread. Writes what belongs to an output and to the next one, of those that are there: one access if both are.
    ///
    /// # Safety
    /// The array has all outputs; `at` is one that a body was given, or some steps further on.
    #[inline(always)]
    pub unsafe fn store<S: Simt, T: Word>(
        &self,
        simt: S,
        to: GlobalMut<T>,
        at: u64,
        pair: [T; 2],
        [is_first, is_second]: [bool; 2],
    ) {
        let (is_first, is_second) = (is_first && self.has(at), is_second && self.has(at + 1));
        // A caller's memory may begin at any element.
        let is_aligned = to.as_ptr().addr().is_multiple_of(2 * T::BYTES);
        // SAFETY: outputs before the end; both are at a multiple of their size, as the first of them has an even number.
        unsafe {
            if is_first && is_second && is_aligned {
                if T::BITS == 32 {
                    let pair = pair[0].widen() | pair[1].widen() << 32;
                    simt.store(to.cast::<u64>(), at / 2, pair, Hint::Streaming);
                } else {
                    simt.store_vector(to.cast::<u64>(), at, pair.map(T::widen), Hint::Streaming);
                }
            } else {
                if is_first {
                    simt.store(to, at, pair[0], Hint::Streaming);
                }
                if is_second {
                    simt.store(to, at + 1, pair[1], Hint::Streaming);
                }
            }
        }
    }
}

/// Warp collective (all lanes, with the same arguments). The last row whose offset is at most `at`: all lanes search.
///
/// # Safety
/// There are `rows` offsets, at least one. If they descend, or the first is above `at`, the result is unspecified, but is a row.
#[inline(always)]
unsafe fn last_at_most<S: Simt>(simt: S, offsets: Global<u64>, rows: u64, at: u64) -> u64 {
    let (mut base, mut left) = (0, rows);
    while left > 1 {
        let step = left.div_ceil(u64::from(WARP));
        let own = u64::from(simt.lane() + 1) * step;
        let row = base + if own < left { own } else { 0 };
        // SAFETY: the number of a row.
        let begins = unsafe { simt.load(offsets, row, Hint::ReadOnly) } <= at;
        let begins = simt.opaque(u32::from(begins & (own < left))) != 0;
        let passed = u64::from(simt.ballot(FULL_MASK, begins).count_ones()) * step;
        base += passed;
        left = if left - passed < step { left - passed } else { step };
    }
    base
}
