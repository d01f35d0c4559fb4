//! Outputs in rows: the search for the row of an output.

pub use lanetree_kernels_base::rows::OUTPUTS;
use lanetree_simt::{Global, Hint, Simt, WARP, WarpRows};

/// Steps of a warp, each with an output per lane.
pub(crate) const STEPS: u64 = OUTPUTS / WARP as u64;

/// The outputs of a warp, and the rows that they are in.
pub(crate) struct Part {
    /// The first output.
    pub(crate) first: u64,
    /// The output past the last one.
    pub(crate) end: u64,
    rows: WarpRows,
}

impl Part {
    /// Warp collective (all lanes). The warp's outputs, of `total`; none if they are past the last one.
    ///
    /// # Safety
    /// There are `rows + 1` offsets, at least two, which do not descend; `total` is at most the last one.
    #[inline(always)]
    pub(crate) unsafe fn new<S: Simt>(simt: S, offsets: Global<u64>, rows: u64, total: u64) -> Option<Self> {
        let first = simt.global_index() / u64::from(WARP) * OUTPUTS;
        if first >= total {
            return None;
        }
        let end = if total - first < OUTPUTS { total } else { first + OUTPUTS };
        // SAFETY: the same contract.
        let rows = unsafe { WarpRows::of(simt, offsets, rows, first, end) };
        Some(Self { first, end, rows })
    }

    /// Per thread. The row of one of the part's outputs, and the output's place in it.
    ///
    /// # Safety
    /// The offsets are the part's.
    #[inline(always)]
    pub(crate) unsafe fn row<S: Simt>(&self, simt: S, offsets: Global<u64>, at: u64) -> (u64, u64) {
        // SAFETY: the numbers of rows.
        unsafe {
            let row = self.rows.row(simt, offsets, at);
            (row, at - simt.load(offsets, row, Hint::ReadOnly))
        }
    }
}
