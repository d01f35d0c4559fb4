//! Putting results into a batch's order.

use crate::slots::{Column, read};
use lanetree_frame::{KeyWord, Result, Stream, launch};
use lanetree_kernels_sharded::{BackArgs, THREADS, TILE, calls};
use lanetree_simt::{Global, GlobalMut};

/// A piece's results, in buckets.
pub(crate) struct Back<'a> {
    pub(crate) stream: &'a Stream,
    /// The place of each query.
    pub(crate) places: Global<u32>,
    pub(crate) count: usize,
    pub(crate) remote: usize,
    pub(crate) local_hits: Global<u32>,
    pub(crate) remote_hits: Global<u32>,
}

impl Back<'_> {
    /// Puts a column into the batch's order. With `has_hits_alone` it has nothing for queries without a hit.
    ///
    /// # Safety
    /// The columns have the results, and there is room for them.
    pub(crate) unsafe fn column<W: KeyWord>(
        &self,
        (local, remote): (&Column, &Column),
        plus: Global<W>,
        (others, have_others): (Global<W>, [u32; 2]),
        (out, out_hits): (GlobalMut<W>, GlobalMut<u32>),
        has_hits_alone: bool,
    ) -> Result<()> {
        let args = BackArgs {
            places: self.places,
            count: self.count as u64,
            local_results: read(local, self.stream, 0)?,
            remote_results: read(remote, self.stream, 0)?,
            local_hits: self.local_hits,
            remote_hits: self.remote_hits,
            plus,
            others,
            out,
            out_hits,
            have_others,
            remote: self.remote as u32,
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
