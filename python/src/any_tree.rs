//! An index behind one interface, whatever its keys and values are, and what its calls take.

use crate::join::{How, Joined};
use crate::memory::{In, Memory};
use crate::types::Found;
use lanetree::lane_tree::Stats;
use lanetree::{AsOf, Closed, UpdateReport};
use pyo3::prelude::*;
use std::any::Any;

/// Queries after which a call looks whether the user has pressed Ctrl-C.
pub(crate) const PIECE: usize = 1 << 24;

/// Lets a signal end a long call.
pub(crate) fn check_signals() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
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
        keys: In<'_>,
        results: Results<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<()>;
    fn range(&self, bounds: [In<'_>; 2], closed: [bool; 2], limit: u64, stream: &lanetree::Stream) -> PyResult<Found>;
    /// How many pairs a device's ranges have.
    fn count(&self, bounds: [In<'_>; 2], closed: [bool; 2], counts: In<'_>, stream: &lanetree::Stream) -> PyResult<()>;
    fn scan(&self, starts: In<'_>, limit: u32, stream: &lanetree::Stream) -> PyResult<Found>;
    fn pairs(&self, on_device: bool, stream: &lanetree::Stream) -> PyResult<Found>;
    /// Joins a device's probes by key.
    fn join(&self, probes: In<'_>, how: How, stream: &lanetree::Stream) -> PyResult<Joined>;
    /// Joins probes by ranges: offsets, keys, values, and on a device the numbers of matches' probes.
    fn join_between(&self, bounds: [In<'_>; 2], by: By, stream: &lanetree::Stream)
    -> PyResult<(Found, Option<Memory>)>;
    fn apply(
        &mut self,
        kinds: Kinds<'_>,
        keys: In<'_>,
        values: Option<In<'_>>,
        stream: &lanetree::Stream,
    ) -> PyResult<UpdateReport>;
    /// Lays it out anew, without memory that changes have left unused. Returns by how many bytes it is smaller.
    fn compact(&mut self) -> PyResult<u64>;
    fn combine(&self, other: &dyn AnyTree, how: Combination) -> PyResult<Box<dyn AnyTree>>;
    fn as_any(&self) -> &dyn Any;
}
