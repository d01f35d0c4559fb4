//! LaneTree and LaneSet as a class of Python's.

mod typed;

use crate::aggregate::Numbers;
use crate::arguments::{By, Ends, Folding, Found, How, KindsGiven, Outputs, Report, Request, Results};
use crate::class::{Place, class, with_all_types};
use crate::device::Device;
use crate::dlpack::Exchange;
use crate::errors::raise;
use crate::input::{In, Input};
use crate::join::Joined;
use crate::keys::{Keys, values_on};
use crate::memory::Memory;
use crate::types::{PyKey, zeroed};
use lanetree::primitives::BuildScratch;
use lanetree::{LaneTree, Scans, Stream};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::any::Any;
use std::borrow::Cow;
use typed::Typed;

/// What a join by ranges of a device's probes found: the numbers of probes, keys, values, and whether there is a match.
pub(crate) type Between = (Memory, Option<Memory>, Option<Memory>, Option<Memory>);

class! {
    /// A LaneTree, with or without values. Keys are "u32", "u64", "i32", "i64", "f32", "f64" or "bytes16", values have 4 or 8 bytes, or 0.
    Tree over AnyTree, by build(
        key: &str, keys: Input, values: Option<Input>, value_bytes: usize, fill: f64, is_sorted: bool
    );

    pieces get(queries: Input, results: Outputs) -> ();
    pieces rank(queries: Input, upper: bool, ranks: Input) -> ();
    pieces neighbor(queries: Input, predecessor: bool, keys: Input, results: Outputs) -> ();
    /// The neighbour of each query.
    pieces asof(queries: Input, how: How, keys: Option<Input>, results: Outputs) -> ();
    read range(bounds: [Input; 2], closed: Ends, limit: u64) -> Found;
    /// How many pairs a device's ranges have.
    read count(bounds: [Input; 2], closed: Ends, counts: Input) -> ();
    /// Counts, and for each of these as many keys and values as the limit.
    read scan(starts: Input, limit: u32) -> Found;
    read pairs(on_device: bool) -> Found;
    /// Joins a device's probes by key, or as of them.
    read join(probes: Input, asof: Option<How>, asked: Request) -> Joined;
    /// Offsets and values of the neighbours of probes in host memory: one each, or two that are equally near.
    read asof_rows(probes: Input, how: How) -> Found;
    /// Joins a device's probes by ranges.
    read join_between(bounds: [Input; 2], by: By, asked: Request) -> Between;
    /// The pairs between the bounds of probes in host memory.
    read rows_between(bounds: [Input; 2], by: By) -> Found;
    /// The pairs that are nearest to each query, at most `k`.
    read k_nearest(queries: Input, k: u64, how: How) -> Found;
    /// The last pairs of each range, at most `k`, in descending order.
    read range_last(bounds: [Input; 2], closed: Ends, k: u64) -> Found;
    /// Whether there are values, and an aggregate of them as numbers of a kind ("u", "i" or "f") of 64 bits.
    read aggregate(bounds: [Input; 2], closed: Ends, how: Folding) -> Found;
    change apply(kinds: KindsGiven, keys: Input, values: Option<Input>) -> Report;
    /// Rebuilds the index and frees unused memory. Returns by how many bytes it is smaller.
    change compact() -> u64;
    {
        /// "union", "intersection" or "difference".
        fn combine(&self, other: &dyn AnyTree, how: &str) -> PyResult<Box<dyn AnyTree>>;
        fn as_any(&self) -> &dyn Any;
    }
}

fn build(
    place: &Place<'_>,
    key: &str,
    keys: In<'_>,
    values: Option<In<'_>>,
    value_bytes: usize,
    fill: f64,
    is_sorted: bool,
) -> PyResult<Box<dyn AnyTree>> {
    let form = Keys::new(place, key);
    let pairs = (keys, values);
    let built =
        with_all_types!(key, value_bytes, [0 (), 4 u32, 8 u64], build_of::<K, V>(place, form, pairs, fill, is_sorted));
    built.unwrap_or_else(|| {
        Err(PyTypeError::new_err(format!("no index of keys {key} and values of {value_bytes} bytes")))
    })
}

fn build_of<K: PyKey, V: Numbers>(
    place: &Place<'_>,
    form: Keys,
    (keys, values): (In<'_>, Option<In<'_>>),
    fill: f64,
    is_sorted: bool,
) -> PyResult<Box<dyn AnyTree>>
where
    LaneTree<K, V>: Scans<Key = K, Value = V>,
{
    let (builder, len) = (LaneTree::<K, V>::builder().fill(fill), keys.len());
    let &Place { device, stream, .. } = place;
    let tree = if keys.is_device() {
        let values = values_on(device, len, values)?;
        // In the order of the caller's stream, with memory from the index's device.
        form.on(stream, keys, |keys| {
            match is_sorted {
                true => BuildScratch::for_sorted(device)
                    .and_then(|mut scratch| builder.build_sorted_on(stream, keys, &values, len, &mut scratch)),
                false => BuildScratch::for_unsorted(device, len)
                    .and_then(|mut scratch| builder.build_on(stream, keys, &values, len, &mut scratch)),
            }
            .map_err(raise)
        })?
    } else {
        let keys = form.host::<K>(keys)?;
        let values = match values {
            Some(values) => Cow::Borrowed(values.host::<V>()?),
            None => Cow::Owned(zeroed(len)?),
        };
        match is_sorted {
            true => builder.build_sorted(device, &keys, &values),
            false => builder.build(device, &keys, &values),
        }
        .map_err(raise)?
    };
    Ok(Box::new(Typed { tree, keys: form }))
}

/// A new index: "union", "intersection" or "difference".
#[pyfunction]
pub(crate) fn combine(py: Python<'_>, tree: &Tree, other: &Tree, how: &str) -> PyResult<Tree> {
    Tree::of(tree.index.read_both(&other.index, py, |tree, other| tree.combine(&**other, how))?)
}

/// How arrays of a device are taken in a call's own native call: by what, to which device, and the numbers of their types: of keys,
/// values (0 for none) and hits.
type Taking<'py> = (Bound<'py, Exchange>, Bound<'py, Device>, (u16, u16, u16));

/// Takes queries, and calls a function with them and the index; None for an array that is not taken so, or is not of keys.
fn with_taken<R: Send + Sync>(
    tree: &Tree,
    queries: &Bound<'_, PyAny>,
    (exchange, device, numbers): &Taking<'_>,
    results: impl FnOnce(usize) -> PyResult<Option<R>>,
    call: impl FnOnce(&dyn AnyTree, In<'_>, &R, &Stream) -> PyResult<()> + Send,
) -> PyResult<Option<R>> {
    let Some((queries, stream)) = exchange.get().take_of(queries, device.get(), numbers.0)? else { return Ok(None) };
    let Some(results) = results(queries.len())? else { return Ok(None) };
    let py = exchange.py();
    let stream = stream.bind(py).get().enter()?;
    tree.index.read(py, |tree| call(&**tree, In::Device(&queries), &results, &stream))?;
    Ok(Some(results))
}

/// [`Tree::get`] of a device's array that is taken in the same call, into arrays of values and of hits that are taken, too, or new memory.
/// Returns the values, unless there are none, the hits, and the number of queries; None, with nothing done, unless all arrays are taken,
/// of these types and of one length.
#[pyfunction]
pub(crate) fn get_of(
    tree: &Tree,
    queries: &Bound<'_, PyAny>,
    out: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    taking: Taking<'_>,
    miss: u64,
) -> PyResult<Option<(Option<Memory>, Memory, usize)>> {
    let (exchange, device, numbers) = &taking;
    let results = |count: usize| -> PyResult<_> {
        let Some((values, found)) = out else {
            let (py, width) = (exchange.py(), usize::from(numbers.1 & 255) / 8);
            let values = if width == 0 { None } else { Some(Memory::empty(py, device.get(), count, width)?) };
            // Kernels write words.
            let found = Memory::empty(py, device.get(), count.next_multiple_of(4), 1)?;
            return Ok(Some((values, found, count)));
        };
        // A producer works in one stream at a time: this is that of the queries.
        let take = |array, number| exchange.get().take_of(array, device.get(), number);
        let Some((values, _)) = take(&values, numbers.1)? else { return Ok(None) };
        let Some((found, _)) = take(&found, numbers.2)? else { return Ok(None) };
        let is_one_length = [values.len(), found.len()] == [count; 2];
        Ok(is_one_length.then_some((Some(values), found, count)))
    };
    with_taken(tree, queries, &taking, results, |tree, queries, (values, found, _), stream| {
        let (values, found) = (values.as_ref().map(In::Device), Some(In::Device(found)));
        tree.get(queries, Results { values, found, miss }, stream)
    })
}

/// [`Tree::rank`] of an array that is taken in the same call, into new memory.
#[pyfunction]
pub(crate) fn rank_of(
    tree: &Tree,
    queries: &Bound<'_, PyAny>,
    upper: bool,
    taking: Taking<'_>,
) -> PyResult<Option<Memory>> {
    let (py, device) = (taking.0.py(), taking.1.get());
    let results = |count| Memory::empty(py, device, count, size_of::<u64>()).map(Some);
    with_taken(tree, queries, &taking, results, |tree, queries, ranks, stream| {
        tree.rank(queries, upper, In::Device(ranks), stream)
    })
}
