//! Results into the batch's order: of a piece, from its buckets.

use crate::slots::{Slot, read};
use lanetree_frame::{KeyWord, Result, Stream, launch};
use lanetree_kernels_sharded::{Amends, BackArgs, THREADS, TILE, calls};
use lanetree_simt::{Global, GlobalMut};

/// The column of neighbours' keys; where there is no neighbour, shards write no key. The other column, 0, has values or ranks.
pub(crate) const KEYS: usize = 1;

/// Where a column of results goes, and the hit mask with it; null for what is not wanted.
pub(crate) struct Outputs<W> {
    pub(crate) results: GlobalMut<W>,
    pub(crate) hits: GlobalMut<u32>,
}

/// A way to bring a column of results to the batch's, in the caller's stream.
pub(crate) trait Finish {
    /// # Errors
    /// Those of the launch.
    ///
    /// # Safety
    /// The column has results of this type, and the outputs have an element (or a bit) for each query.
    unsafe fn column<W: KeyWord>(&self, column: usize, amends: Amends<W>, out: Outputs<W>) -> Result<()>;
}

/// A piece that was looked up.
pub(crate) struct Back<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) slot: &'a Slot,
    pub(crate) count: usize,
    /// Results from this element on are those of shards on other devices.
    pub(crate) remote: usize,
    pub(crate) has_hits: bool,
}

impl Finish for Back<'_> {
    unsafe fn column<W: KeyWord>(&self, column: usize, amends: Amends<W>, out: Outputs<W>) -> Result<()> {
        let Self { stream, slot, .. } = *self;
        let (local_hits, remote_hits) = match self.has_hits {
            true => (slot.local.hits.read_on(stream)?, slot.remote.hits.read_on(stream)?),
            false => (Global::null(), Global::null()),
        };
        let args = BackArgs {
            positions: slot.positions.read_on(stream)?,
            count: self.count as u64,
            local_results: read(&slot.local.columns[column], stream, 0)?,
            remote_results: read(&slot.remote.columns[column], stream, 0)?,
            local_hits,
            remote_hits,
            amends,
            out: out.results,
            out_hits: out.hits,
            remote: self.remote as u32,
            has_hits_alone: u32::from(column == KEYS),
        };
        // SAFETY: the caller's contract.
        Ok(unsafe { tiles(stream, self.count)?.run(calls::back(&args)) }?)
    }
}

/// A launch of a block for each tile of queries.
pub(crate) fn tiles(stream: &Stream, count: usize) -> Result<lanetree_runtime::Launch<'_>> {
    launch::over(stream, (count as u64).div_ceil(TILE), THREADS, THREADS)
}
