//! LaneTree and LaneSet as a class of Python's.

use crate::any_tree::{AnyTree, Between, By, Combination, Kinds, Results, in_pieces};
use crate::device::{Device, On, Stream};
use crate::dlpack::Exchange;
use crate::errors::{check_not_forked, raise, raise_runtime};
use crate::held::Held;
use crate::join::{Asked, Joined};
use crate::memory::{Cache, In, Input, Memory, closed};
use crate::typed::Typed;
use crate::types::{self, PyKey, PyValue, ordered, report, zeroed};
use lanetree::primitives::BuildScratch;
use lanetree::{FloatOrder, LaneTree, Scans};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A LaneTree, with or without values.
#[pyclass(frozen, module = "lanetree._native")]
pub(crate) struct Tree {
    tree: Held<Box<dyn AnyTree>>,
    /// The stream of calls that name none.
    stream: lanetree::Stream,
}

struct Options {
    cache: Arc<Cache>,
    floats: bool,
    fill: f64,
    sorted: bool,
}

fn build<K: PyKey, V: PyValue>(
    device: &lanetree::Device,
    keys: In<'_>,
    values: Option<In<'_>>,
    options: &Options,
    stream: &lanetree::Stream,
) -> PyResult<Box<dyn AnyTree>>
where
    LaneTree<K, V>: Scans<Key = K, Value = V>,
{
    let builder = LaneTree::<K, V>::builder().fill(options.fill);
    let len = keys.len();
    if !keys.is_device() {
        let keys = keys.host::<K>()?;
        let own;
        let keys = if options.floats {
            own = ordered(keys)?;
            &own[..]
        } else {
            keys
        };
        let values = match values {
            Some(values) => Cow::Borrowed(values.host::<V>()?),
            None => Cow::Owned(zeroed(len)?),
        };
        let tree = match options.sorted {
            true => builder.build_sorted(device, keys, &values),
            false => builder.build(device, keys, &values),
        };
        return Ok(Box::new(Typed {
            tree: tree.map_err(raise)?,
            floats: options.floats,
            cache: options.cache.clone(),
        }));
    }
    let words = keys.device()?.read()?;
    let words = words.as_ref().ok_or_else(closed)?.read::<K>()?;
    let mut own;
    let keys = if options.floats {
        own = device.alloc::<K>(len).map_err(raise_runtime)?;
        lanetree::order_floats(stream, FloatOrder::Total, words, &mut own).map_err(raise)?;
        &own
    } else {
        words
    };
    let given = match values {
        Some(values) => Some(values.device()?.read()?),
        None => None,
    };
    let none;
    let values = match given.as_ref().map(|values| values.as_ref().ok_or_else(closed)) {
        Some(values) => values?.read::<V>()?,
        None => {
            none = device.alloc::<V>(len).map_err(raise_runtime)?;
            &none
        }
    };
    if values.len() != len {
        return Err(raise(lanetree::Error::LengthMismatch { keys: len, values: values.len() }));
    }
    // In the order of the caller's stream, with memory from the index's device.
    let tree = match options.sorted {
        true => BuildScratch::for_sorted(device)
            .and_then(|mut scratch| builder.build_sorted_on(stream, keys, values, len, &mut scratch)),
        false => BuildScratch::for_unsorted(device, len)
            .and_then(|mut scratch| builder.build_on(stream, keys, values, len, &mut scratch)),
    };
    Ok(Box::new(Typed { tree: tree.map_err(raise)?, floats: options.floats, cache: options.cache.clone() }))
}

impl Tree {
    fn of(tree: Box<dyn AnyTree>) -> PyResult<Self> {
        let stream = tree.device().stream().map_err(raise_runtime)?;
        Ok(Self { tree: Held::new(tree), stream })
    }

    /// Calls a function with the index, without the GIL, on the caller's stream or the index's own.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        stream: Option<&Bound<'_, Stream>>,
        call: impl FnOnce(&dyn AnyTree, &lanetree::Stream) -> PyResult<R> + Send,
    ) -> PyResult<R> {
        let on = On::new(stream, &self.stream)?;
        self.tree.read(py, |tree| call(&**tree, &on))
    }
}

#[pymethods]
impl Tree {
    /// An index over keys ("u32", "u64", "i32", "i64", "f32", "f64") and values of 32 or 64 bits, or no values.
    #[new]
    #[pyo3(signature = (device, key, keys, values, value_bytes, fill, is_sorted, stream=None))]
    #[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
    fn new(
        py: Python<'_>,
        device: &Device,
        key: &str,
        keys: Input<'_>,
        values: Option<Input<'_>>,
        value_bytes: usize,
        fill: f64,
        is_sorted: bool,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<Self> {
        check_not_forked()?;
        let (device, cache) = (device.get(), device.cache().clone());
        let own = device.stream().map_err(raise_runtime)?;
        let on = On::new(stream, &own)?;
        let (keys, values) = (keys.get(), values.as_ref().map(Input::get));
        let options = Options { cache, floats: key.starts_with('f'), fill, sorted: is_sorted };
        let build = match (key, value_bytes) {
            ("u32" | "f32", 0) => build::<u32, ()>,
            ("u32" | "f32", 4) => build::<u32, u32>,
            ("u32" | "f32", 8) => build::<u32, u64>,
            ("i32", 0) => build::<i32, ()>,
            ("i32", 4) => build::<i32, u32>,
            ("i32", 8) => build::<i32, u64>,
            ("u64" | "f64", 0) => build::<u64, ()>,
            ("u64" | "f64", 4) => build::<u64, u32>,
            ("u64" | "f64", 8) => build::<u64, u64>,
            ("i64", 0) => build::<i64, ()>,
            ("i64", 4) => build::<i64, u32>,
            ("i64", 8) => build::<i64, u64>,
            _ => return Err(PyTypeError::new_err(format!("no index of keys {key} and values of {value_bytes} bytes"))),
        };
        Self::of(py.detach(|| build(device, keys, values, &options, &on))?)
    }

    #[pyo3(signature = (queries, values, found, miss, stream=None))]
    fn get(
        &self,
        py: Python<'_>,
        queries: Input<'_>,
        values: Option<Input<'_>>,
        found: Option<Input<'_>>,
        miss: u64,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<()> {
        let results = [values.as_ref().map(Input::get), found.as_ref().map(Input::get)];
        in_pieces(py, [queries.get()], results, |[queries], [values, found]| {
            self.with(py, stream, |tree, stream| tree.get(queries, Results { values, found, miss }, stream))
        })
    }

    /// [`Tree::get`] of a device's array that is taken in the same call, with new memory for its results: values of a
    /// number of bytes (none if it is 0), the hit mask, and the number of queries. `None` for an array that is not
    /// taken so, or whose elements are not of the type of that number.
    #[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
    fn get_of(
        &self,
        py: Python<'_>,
        exchange: &Exchange,
        queries: &Bound<'_, PyAny>,
        device: &Device,
        number: u16,
        value_bytes: usize,
        miss: u64,
    ) -> PyResult<Option<(Option<Memory>, Memory, usize)>> {
        let Some((queries, stream)) = exchange.take_of(queries, device, number)? else { return Ok(None) };
        let count = queries.len();
        let values = match value_bytes {
            0 => None,
            bytes => Some(Memory::empty(py, device, count, bytes)?),
        };
        // Kernels write words.
        let found = Memory::empty(py, device, count.next_multiple_of(4), 1)?;
        let results = Results { values: values.as_ref().map(In::Device), found: Some(In::Device(&found)), miss };
        self.with(py, Some(stream.bind(py)), |tree, stream| tree.get(In::Device(&queries), results, stream))?;
        Ok(Some((values, found, count)))
    }

    /// The same into arrays of the caller's, of values and of hits, which are taken, too. False, with nothing done, unless all three are
    /// taken, of these types and of one length.
    #[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
    fn get_into(
        &self,
        py: Python<'_>,
        exchange: &Exchange,
        queries: &Bound<'_, PyAny>,
        out: (Bound<'_, PyAny>, Bound<'_, PyAny>),
        device: &Device,
        numbers: [u16; 3],
        miss: u64,
    ) -> PyResult<bool> {
        let Some((queries, stream)) = exchange.take_of(queries, device, numbers[0])? else { return Ok(false) };
        // A producer works in one stream at a time: this is that of the queries.
        let Some((values, _)) = exchange.take_of(&out.0, device, numbers[1])? else { return Ok(false) };
        let Some((found, _)) = exchange.take_of(&out.1, device, numbers[2])? else { return Ok(false) };
        if [values.len(), found.len()] != [queries.len(); 2] {
            return Ok(false);
        }
        let results = Results { values: Some(In::Device(&values)), found: Some(In::Device(&found)), miss };
        self.with(py, Some(stream.bind(py)), |tree, stream| tree.get(In::Device(&queries), results, stream))?;
        Ok(true)
    }

    /// [`Tree::rank`] of an array that is taken in the same call, into new memory.
    fn rank_of(
        &self,
        py: Python<'_>,
        exchange: &Exchange,
        queries: &Bound<'_, PyAny>,
        device: &Device,
        number: u16,
        upper: bool,
    ) -> PyResult<Option<Memory>> {
        let Some((queries, stream)) = exchange.take_of(queries, device, number)? else { return Ok(None) };
        let ranks = Memory::empty(py, device, queries.len(), size_of::<u64>())?;
        self.with(py, Some(stream.bind(py)), |tree, stream| {
            tree.rank(In::Device(&queries), upper, In::Device(&ranks), stream)
        })?;
        Ok(Some(ranks))
    }

    #[pyo3(signature = (queries, upper, ranks, stream=None))]
    fn rank(
        &self,
        py: Python<'_>,
        queries: Input<'_>,
        upper: bool,
        ranks: Input<'_>,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<()> {
        in_pieces(py, [queries.get(), ranks.get()], [], |[queries, ranks], []| {
            self.with(py, stream, |tree, stream| tree.rank(queries, upper, ranks, stream))
        })
    }

    #[pyo3(signature = (queries, predecessor, keys, values, found, miss, stream=None))]
    #[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
    fn neighbor(
        &self,
        py: Python<'_>,
        queries: Input<'_>,
        predecessor: bool,
        keys: Input<'_>,
        values: Option<Input<'_>>,
        found: Option<Input<'_>>,
        miss: u64,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<()> {
        let results = [values.as_ref().map(Input::get), found.as_ref().map(Input::get)];
        in_pieces(py, [queries.get(), keys.get()], results, |[queries, keys], [values, found]| {
            let results = Results { values, found, miss };
            self.with(py, stream, |tree, stream| tree.neighbor(queries, predecessor, keys, results, stream))
        })
    }

    #[pyo3(signature = (starts, ends, closed, limit, stream=None))]
    fn range(
        &self,
        py: Python<'_>,
        starts: Input<'_>,
        ends: Input<'_>,
        closed: [bool; 2],
        limit: u64,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<[Py<PyAny>; 3]> {
        let bounds = [starts.get(), ends.get()];
        self.with(py, stream, |tree, stream| tree.range(bounds, closed, limit, stream))?.objects(py)
    }

    /// The neighbour of each query: in a direction ("backward", "forward", "nearest"), with one of ties ("backward", "forward", "both"),
    /// perhaps another one than the query itself, within a tolerance if there is one.
    #[pyo3(signature = (queries, how, keys, values, found, miss, stream=None))]
    #[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
    fn asof(
        &self,
        py: Python<'_>,
        queries: Input<'_>,
        how: (&str, &str, bool, Option<u64>),
        keys: Option<Input<'_>>,
        values: Input<'_>,
        found: Input<'_>,
        miss: u64,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<()> {
        let how = types::asof(how.0, how.1, how.2, how.3)?;
        let results = [keys.as_ref().map(Input::get), Some(values.get()), Some(found.get())];
        in_pieces(py, [queries.get()], results, |[queries], [keys, values, found]| {
            let results = Results { values, found, miss };
            self.with(py, stream, |tree, stream| tree.asof(queries, &how, keys, results, stream))
        })
    }

    #[pyo3(signature = (starts, ends, closed, counts, stream=None))]
    fn count(
        &self,
        py: Python<'_>,
        starts: Input<'_>,
        ends: Input<'_>,
        closed: [bool; 2],
        counts: Input<'_>,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<()> {
        let (bounds, counts) = ([starts.get(), ends.get()], counts.get());
        self.with(py, stream, |tree, stream| tree.count(bounds, closed, counts, stream))
    }

    #[pyo3(signature = (starts, limit, stream=None))]
    fn scan(
        &self,
        py: Python<'_>,
        starts: Input<'_>,
        limit: u32,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<[Py<PyAny>; 3]> {
        let starts = starts.get();
        self.with(py, stream, |tree, stream| tree.scan(starts, limit, stream))?.objects(py)
    }

    /// Joins a device's probes by key, or as of them.
    #[pyo3(signature = (probes, asof, how, valid, stream=None))]
    fn join(
        &self,
        py: Python<'_>,
        probes: Input<'_>,
        asof: Option<(&str, &str, bool, Option<u64>)>,
        how: &str,
        valid: Option<Input<'_>>,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<Joined> {
        let (probes, asked) = (probes.get(), Asked::new(how, valid.as_ref())?);
        let asof = asof.map(|how| types::asof(how.0, how.1, how.2, how.3)).transpose()?;
        self.with(py, stream, |tree, stream| tree.join(probes, asof.as_ref(), &asked, stream))
    }

    /// Offsets and values of the neighbours of probes in host memory.
    fn asof_rows(
        &self,
        py: Python<'_>,
        probes: Input<'_>,
        how: (&str, &str, bool, Option<u64>),
    ) -> PyResult<[Py<PyAny>; 3]> {
        let (probes, how) = (probes.get(), types::asof(how.0, how.1, how.2, how.3)?);
        self.with(py, None, |tree, _| tree.asof_rows(probes, &how))?.objects(py)
    }

    /// Joins a device's probes by ranges of keys, with these bounds inclusive, or by bands, as far as a distance.
    #[pyo3(signature = (lows, highs, closed, distance, how, valid, stream=None))]
    #[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
    fn join_between(
        &self,
        py: Python<'_>,
        lows: Input<'_>,
        highs: Input<'_>,
        closed: [bool; 2],
        distance: Option<u64>,
        how: &str,
        valid: Option<Input<'_>>,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<Between> {
        let (bounds, asked) = ([lows.get(), highs.get()], Asked::new(how, valid.as_ref())?);
        let by = By::new(closed, distance);
        self.with(py, stream, |tree, stream| tree.join_between(bounds, by, &asked, stream))
    }

    /// Offsets, keys and values of the pairs between the bounds of probes in host memory.
    fn rows_between(
        &self,
        py: Python<'_>,
        lows: Input<'_>,
        highs: Input<'_>,
        closed: [bool; 2],
        distance: Option<u64>,
    ) -> PyResult<[Py<PyAny>; 3]> {
        let (bounds, by) = ([lows.get(), highs.get()], By::new(closed, distance));
        self.with(py, None, |tree, _| tree.rows_between(bounds, by))?.objects(py)
    }

    /// Offsets, keys and values of the pairs that are nearest to each query, at most `k`.
    #[pyo3(signature = (queries, k, how, stream=None))]
    fn k_nearest(
        &self,
        py: Python<'_>,
        queries: Input<'_>,
        k: u64,
        how: (&str, &str, bool, Option<u64>),
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<[Py<PyAny>; 3]> {
        let (queries, how) = (queries.get(), types::asof(how.0, how.1, how.2, how.3)?);
        self.with(py, stream, |tree, stream| tree.k_nearest(queries, k, &how, stream))?.objects(py)
    }

    /// Offsets, keys and values of the last pairs of each range, at most `k`, in descending order.
    #[pyo3(signature = (starts, ends, closed, k, stream=None))]
    fn range_last(
        &self,
        py: Python<'_>,
        starts: Input<'_>,
        ends: Input<'_>,
        closed: [bool; 2],
        k: u64,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<[Py<PyAny>; 3]> {
        let bounds = [starts.get(), ends.get()];
        self.with(py, stream, |tree, stream| tree.range_last(bounds, closed, k, stream))?.objects(py)
    }

    #[pyo3(signature = (on_device, stream=None))]
    fn pairs(&self, py: Python<'_>, on_device: bool, stream: Option<&Bound<'_, Stream>>) -> PyResult<[Py<PyAny>; 3]> {
        self.with(py, stream, |tree, stream| tree.pairs(on_device, stream))?.objects(py)
    }

    /// Applies operations; `kinds` is one kind, or an array of 32-bit kinds.
    #[pyo3(signature = (kinds, keys, values, stream=None))]
    fn apply(
        &self,
        py: Python<'_>,
        kinds: &Bound<'_, PyAny>,
        keys: Input<'_>,
        values: Option<Input<'_>>,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<(u64, u64, u64, u64, String)> {
        let each = match kinds.extract::<u32>() {
            Ok(_) => None,
            Err(_) => Some(kinds.extract::<Input<'_>>()?),
        };
        let kinds = match &each {
            Some(kinds) => Kinds::Each(kinds.get()),
            None => Kinds::All(kinds.extract()?),
        };
        let (keys, values) = (keys.get(), values.as_ref().map(Input::get));
        let on = On::new(stream, &self.stream)?;
        Ok(report(&self.tree.change(py, |tree| tree.apply(kinds, keys, values, &on))?))
    }

    fn compact(&self, py: Python<'_>) -> PyResult<u64> {
        self.tree.change(py, |tree| tree.compact())
    }

    /// A new index: "union", "intersection" or "difference".
    fn combine(&self, py: Python<'_>, other: &Bound<'_, Self>, how: &str) -> PyResult<Self> {
        let how = match how {
            "union" => Combination::Union,
            "intersection" => Combination::Intersection,
            _ => Combination::Difference,
        };
        Self::of(self.tree.read_both(&other.get().tree, py, |tree, other| tree.combine(&**other, how))?)
    }

    fn stats(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, u64>> {
        self.with(py, None, |tree, _| {
            let stats = tree.stats();
            Ok(BTreeMap::from([
                ("len", stats.len),
                ("height", stats.height.into()),
                ("leaf_nodes", stats.leaf_nodes),
                ("buckets", stats.buckets),
                ("bucket_bytes", stats.bucket_bytes),
                ("node_bytes", stats.node_bytes),
                ("record_bytes", stats.record_bytes),
                ("upper_bytes", stats.upper_bytes),
                ("top_bytes", stats.top_bytes),
                ("bytes", stats.bytes()),
            ]))
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, None, |tree, _| Ok(tree.stats().len as usize))
    }

    /// Frees its memory. Later calls are errors; a second close is none.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.tree.close(py)
    }

    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.tree.is_closed(py)
    }
}
