//! An index behind one interface, whatever its keys and values are, and what its calls take.

use crate::join::{Asked, Joined};
use crate::memory::{In, Memory};
use crate::types::{Found, check_len, closed};
use lanetree::bindings::JoinBounds;
use lanetree::lane_tree::Stats;
use lanetree::{AnyKey, AsOf, Closed, UpdateReport};
use pyo3::prelude::*;
use std::any::Any;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Queries in host memory after which a call lets Python's signal handlers run.
static PIECE: AtomicUsize = AtomicUsize::new(1 << 24);

/// Sets the number of queries in host memory after which a call lets signal handlers run, for tests, and returns the one before.
#[pyfunction]
pub(crate) fn set_piece(queries: NonZeroUsize) -> usize {
    PIECE.swap(queries.get(), Ordering::Relaxed)
}

/// Calls a function with one piece of queries and results in host memory after another; with all of a device's at once.
///
/// Signal handlers run between two pieces, and may use the same index. So the function takes the index's lock for each piece.
pub(crate) fn in_pieces<'a, const Q: usize, const R: usize>(
    py: Python<'_>,
    queries: [In<'a>; Q],
    results: [Option<In<'a>>; R],
    mut call: impl FnMut([In<'a>; Q], [Option<In<'a>>; R]) -> PyResult<()>,
) -> PyResult<()> {
    let (len, most) = (queries[0].len(), PIECE.load(Ordering::Relaxed));
    if len <= most || queries[0].is_device() {
        return call(queries, results);
    }
    for array in queries.iter().chain(results.iter().flatten()) {
        check_len(len, array.len())?;
    }
    for start in (0..len).step_by(most) {
        if start > 0 {
            py.check_signals()?;
        }
        let range = start..len.min(start.saturating_add(most));
        let part = |array: In<'a>| array.part(range.clone());
        call(queries.map(part), results.map(|array| array.map(part)))?;
    }
    Ok(())
}

/// Where a look-up's results go: values, unless they are nothing, and which are found.
#[derive(Clone, Copy)]
pub(crate) struct Results<'a> {
    pub(crate) values: Option<In<'a>>,
    pub(crate) found: Option<In<'a>>,
    pub(crate) miss: u64,
}

/// Operations of a batch: all of one kind, or each its own (0 inserts, 1 updates, 2 removes).
#[derive(Clone, Copy)]
pub(crate) enum Kinds<'a> {
    All(u32),
    Each(In<'a>),
}

/// What a join by ranges asks for.
#[derive(Clone, Copy)]
pub(crate) enum By {
    /// Keys between two bounds.
    Ranges(Closed),
    /// Keys at most so far away.
    Bands(u64),
}

impl By {
    /// By bands if there is a distance, else by ranges with these bounds inclusive.
    pub(crate) fn new(bounds: [bool; 2], distance: Option<u64>) -> Self {
        distance.map_or_else(|| Self::Ranges(closed(bounds)), Self::Bands)
    }

    /// The bounds of each probe's matches, both inclusive.
    pub(crate) fn bounds<K: AnyKey>(self) -> lanetree::Result<JoinBounds<K>> {
        match self {
            Self::Ranges(closed) => Ok(JoinBounds::of_ranges(closed)),
            Self::Bands(distance) => JoinBounds::of_bands(distance),
        }
    }
}

/// What a join by ranges of a device's probes found: the numbers of probes, keys, values, and whether there is a match.
pub(crate) type Between = (Memory, Option<Memory>, Option<Memory>, Option<Memory>);

/// Two indexes made one.
#[derive(Clone, Copy)]
pub(crate) enum Combination {
    Union,
    Intersection,
    Difference,
}

/// An index, whatever its types are. Calls run without the GIL.
pub(crate) trait AnyTree: Send + Sync {
    fn device(&self) -> &lanetree::Device;
    fn stats(&self) -> Stats;
    fn get(&self, queries: In<'_>, results: Results<'_>, stream: &lanetree::Stream) -> PyResult<()>;
    fn rank(&self, queries: In<'_>, upper: bool, ranks: In<'_>, stream: &lanetree::Stream) -> PyResult<()>;
    fn neighbor(
        &self,
        queries: In<'_>,
        predecessor: bool,
        keys: In<'_>,
        results: Results<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<()>;
    fn asof(
        &self,
        queries: In<'_>,
        how: &AsOf,
        keys: Option<In<'_>>,
        results: Results<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<()>;
    fn range(&self, bounds: [In<'_>; 2], closed: [bool; 2], limit: u64, stream: &lanetree::Stream) -> PyResult<Found>;
    /// How many pairs a device's ranges have.
    fn count(&self, bounds: [In<'_>; 2], closed: [bool; 2], counts: In<'_>, stream: &lanetree::Stream) -> PyResult<()>;
    fn scan(&self, starts: In<'_>, limit: u32, stream: &lanetree::Stream) -> PyResult<Found>;
    fn pairs(&self, on_device: bool, stream: &lanetree::Stream) -> PyResult<Found>;
    /// Joins a device's probes by key, or as of them.
    fn join(&self, probes: In<'_>, by: Option<&AsOf>, asked: &Asked<'_>, stream: &lanetree::Stream)
    -> PyResult<Joined>;
    /// Offsets and values of the neighbours of probes in host memory: one each, or two that are equally near.
    fn asof_rows(&self, probes: In<'_>, how: &AsOf) -> PyResult<Found>;
    /// Joins a device's probes by ranges.
    fn join_between(
        &self,
        bounds: [In<'_>; 2],
        by: By,
        asked: &Asked<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<Between>;
    /// Offsets, keys and values of the pairs between the bounds of probes in host memory.
    fn rows_between(&self, bounds: [In<'_>; 2], by: By) -> PyResult<Found>;
    /// The pairs that are nearest to each query, at most `k`.
    fn k_nearest(&self, queries: In<'_>, k: u64, how: &AsOf, stream: &lanetree::Stream) -> PyResult<Found>;
    /// The last pairs of each range, at most `k`, in descending order.
    fn range_last(&self, bounds: [In<'_>; 2], closed: [bool; 2], k: u64, stream: &lanetree::Stream) -> PyResult<Found>;
    fn apply(
        &mut self,
        kinds: Kinds<'_>,
        keys: In<'_>,
        values: Option<In<'_>>,
        stream: &lanetree::Stream,
    ) -> PyResult<UpdateReport>;
    /// Rebuilds the index and frees unused memory. Returns by how many bytes it is smaller.
    fn compact(&mut self) -> PyResult<u64>;
    fn combine(&self, other: &dyn AnyTree, how: Combination) -> PyResult<Box<dyn AnyTree>>;
    fn as_any(&self) -> &dyn Any;
}
