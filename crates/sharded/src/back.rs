//! The way back of results into a batch's order.

use crate::slots::{Column, read};
use lanetree_frame::{KeyWord, Result, Stream, launch};
use lanetree_kernels_sharded::{BackArgs, THREADS, TILE, calls};
use lanetree_simt::{Global, GlobalMut};

/// The way back of a piece's results.
pub(crate) struct Back<'a> {
    pub(crate) stream: &'a Stream,
    /// The place of each query.
    pub(crate) places: Global<u32>,
    pub(crate) count: usize,
    pub(crate) near: usize,
    pub(crate) near_hits: Global<u32>,
    pub(crate) far_hits: Global<u32>,
}

impl Back<'_> {
    /// Puts a column into the batch's order. With `has_hits_alone` it has nothing for queries without a hit.
    ///
    /// # Safety
    /// The columns have the results, and there is room for them.
    pub(crate) unsafe fn column<W: KeyWord>(
        &self,
        (near, far): (&Column, &Column),
        plus: Global<W>,
        (others, have_others): (Global<W>, [u32; 2]),
        (out, out_hits): (GlobalMut<W>, GlobalMut<u32>),
        has_hits_alone: bool,
    ) -> Result<()> {
        let args = BackArgs {
            places: self.places,
            count: self.count as u64,
            near_results: read(near, self.stream, 0)?,
            far_results: read(far, self.stream, 0)?,
            near_hits: self.near_hits,
            far_hits: self.far_hits,
            plus,
            others,
            out,
            out_hits,
            have_others,
            near: self.near as u32,
            has_hits_alone: has_hits_alone.into(),
        };
        // SAFETY: the caller's contract.
        Ok(unsafe { tiles(self.stream, self.count)?.run(calls::back(&args)) }?)
    }
}

/// A launch of a block for each tile of queries.
pub(crate) fn tiles(stream: &Stream, count: usize) -> Result<lanetree_runtime::Launch<'_>> {
    launch::over(stream, (count as u64).div_ceil(TILE), THREADS, THREADS)
}
