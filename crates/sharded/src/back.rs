//! Results of a piece, from its buckets into the batch's order.

use crate::slots::{Slot, read};
use lanetree_frame::{KeyWord, Result, Stream, launch};
use lanetree_kernels_sharded::{BackArgs, THREADS, TILE, calls};
use lanetree_simt::{Global, GlobalMut};

/// A piece that was looked up.
pub(crate) struct Back<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) slot: &'a Slot,
    pub(crate) count: usize,
    /// Results from this element on are those of shards on other devices.
    pub(crate) remote: usize,
    pub(crate) has_hits: bool,
}

impl Back<'_> {
    /// The arguments for a column of results, with no output yet and no results from elsewhere.
    pub(crate) fn args<W: KeyWord>(&self, column: usize) -> Result<BackArgs<W>> {
        let Self { stream, slot, .. } = *self;
        let (local_hits, remote_hits) = match self.has_hits {
            true => (slot.local.hits.read_on(stream)?, slot.remote.hits.read_on(stream)?),
            false => (Global::null(), Global::null()),
        };
        Ok(BackArgs {
            positions: slot.positions.read_on(stream)?,
            count: self.count as u64,
            local_results: read(&slot.local.columns[column], stream, 0)?,
            remote_results: read(&slot.remote.columns[column], stream, 0)?,
            local_hits,
            remote_hits,
            plus: Global::null(),
            others: Global::null(),
            out: GlobalMut::null(),
            out_hits: GlobalMut::null(),
            have_others: [0; 2],
            remote: self.remote as u32,
            has_hits_alone: 0,
        })
    }

    /// # Safety
    /// The column has the results, as words of this type, and the outputs have an element (or a bit) for each query.
    pub(crate) unsafe fn run<W: KeyWord>(&self, args: &BackArgs<W>) -> Result<()> {
        // SAFETY: the caller's contract.
        Ok(unsafe { tiles(self.stream, self.count)?.run(calls::back(args)) }?)
    }
}

/// A launch of a block for each tile of queries.
pub(crate) fn tiles(stream: &Stream, count: usize) -> Result<lanetree_runtime::Launch<'_>> {
    launch::over(stream, (count as u64).div_ceil(TILE), THREADS, THREADS)
}
