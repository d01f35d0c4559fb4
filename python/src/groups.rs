//! LaneTree over keys in groups behind one interface: composite keys of two columns, for as-of look-ups within a group.

use crate::any_tree::{Results, in_pieces};
use crate::device::{Device, On, Stream};
use crate::errors::{check_not_forked, raise, raise_runtime, value_error};
use crate::held::Held;
use crate::join::{self, Asked, Joined};
use crate::memory::{Cache, In, Input, Memory, closed, numpy};
use crate::near::{Near, near};
use crate::on_device::with_results;
use crate::types::{self, Found, PyKey, PyValue, check_len, found_rows, gather, report, zeroed};
use lanetree::bindings::parallel::*;
use lanetree::lane_tree::UpdateScratch;
use lanetree::primitives::BuildScratch;
use lanetree::{
    AsOf, Batch, Buffer, Composite, FixedIndex, HostForm, Join, LaneTree, OnStream, Op, OpKind, UpdateReport, Word,
    compose_on,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::borrow::Cow;
use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;

/// Groups and keys: the two columns of composite keys.
type Columns<'a> = [In<'a>; 2];

/// An index of groups, whatever its types are. Calls run without the GIL.
trait AnyGroups: Send + Sync {
    fn device(&self) -> &lanetree::Device;
    fn len(&self) -> u64;
    fn bytes(&self) -> u64;
    /// Look-ups: as-of ones, or without `how` of the keys themselves.
    fn get(
        &self,
        queries: Columns<'_>,
        how: Option<&AsOf>,
        results: Results<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<()>;
    /// Joins a device's probes as of them.
    fn join(&self, probes: Columns<'_>, by: &AsOf, asked: &Asked<'_>, stream: &lanetree::Stream) -> PyResult<Joined>;
    /// Offsets and values of the neighbours of probes in host memory: one each, or two that are equally near.
    fn asof_rows(&self, probes: Columns<'_>, how: &AsOf) -> PyResult<Found>;
    fn apply(
        &mut self,
        kind: u32,
        keys: Columns<'_>,
        values: Option<In<'_>>,
        stream: &lanetree::Stream,
    ) -> PyResult<UpdateReport>;
    /// Groups, keys and values.
    fn pairs(&self) -> PyResult<Found>;
}

struct Typed<A: PyKey, B: PyKey, V: Word + PyValue> {
    tree: LaneTree<Composite<A, B>, V>,
    /// Memory of calls on a device.
    cache: Arc<Cache>,
}

/// Composite keys of arrays of NumPy.
fn composed<A: PyKey, B: PyKey>([groups, keys]: Columns<'_>) -> PyResult<Vec<Composite<A, B>>> {
    let (groups, keys) = (groups.host::<A>()?, keys.host::<B>()?);
    check_len(groups.len(), keys.len())?;
    let mut made = zeroed::<Composite<A, B>>(keys.len())?;
    made.par_iter_mut().zip(groups).zip(keys).for_each(|((made, &group), &key)| *made = Composite::new(group, key));
    Ok(made)
}

/// Composite keys of a device's arrays, in the stream's order.
fn composed_on<A: PyKey, B: PyKey>(
    stream: &lanetree::Stream,
    [groups, keys]: Columns<'_>,
) -> PyResult<Buffer<Composite<A, B>>> {
    let (groups, keys) = (groups.device()?, keys.device()?);
    check_len(groups.len(), keys.len())?;
    let mut made = stream.device().alloc(keys.len()).map_err(raise_runtime)?;
    let (groups, keys) = (groups.read()?, keys.read()?);
    let groups = groups.as_ref().ok_or_else(closed)?.read::<A>()?;
    let keys = keys.as_ref().ok_or_else(closed)?.read::<B>()?;
    compose_on(stream, groups, keys, &mut made).map_err(raise)?;
    Ok(made)
}

impl<A: PyKey, B: PyKey, V: Word + PyValue> AnyGroups for Typed<A, B, V> {
    fn device(&self) -> &lanetree::Device {
        FixedIndex::device(&self.tree)
    }

    fn len(&self) -> u64 {
        FixedIndex::len(&self.tree)
    }

    fn bytes(&self) -> u64 {
        self.tree.stats().bytes()
    }

    fn get(
        &self,
        queries: Columns<'_>,
        how: Option<&AsOf>,
        results: Results<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<()> {
        let device = FixedIndex::device(&self.tree);
        if queries[1].is_device() {
            let keys = composed_on::<A, B>(stream, queries)?;
            return with_results((device, &self.cache), keys.len(), results, stream, |values, hits, miss| {
                let on = OnStream::new(&self.tree, stream);
                match (how, hits) {
                    (Some(how), Some(hits)) => {
                        // Their keys are not wanted.
                        let mut near = device.alloc(keys.len()).map_err(raise_runtime)?;
                        on.miss(miss).asof(&keys, how, &mut near, values, hits)
                    }
                    (_, hits) => on.hits(hits).miss(miss).get(&keys, values),
                }
                .map_err(raise)
            });
        }
        let miss = <V as PyValue>::truncate(results.miss);
        let (Some(values), Some(found)) = (results.values, results.found) else {
            return Err(value_error("an output is missing"));
        };
        let (values, found) = (values.host_mut::<V>()?, found.host_mut::<u8>()?);
        if let Some(how) = how {
            let (groups, keys) = (queries[0].host::<A>()?, queries[1].host::<B>()?);
            check_len(groups.len(), keys.len())?;
            // On the CPU they are made task by task; a device takes all at once.
            let all = if self.tree.native().is_none() { composed::<A, B>(queries)? } else { Vec::new() };
            let part = |range: Range<usize>| {
                if !all.is_empty() {
                    return Cow::Borrowed(&all[range]);
                }
                let rows = groups[range.clone()].iter().zip(&keys[range]);
                Cow::Owned(rows.map(|(&group, &key)| Composite::new(group, key)).collect())
            };
            let searches = how.searches::<Composite<A, B>>().map_err(raise)?;
            let mut out = Near { keys: None, values, found };
            return near(&self.tree, keys.len(), &part, &searches, &mut out, (Composite::default(), miss));
        }
        let keys = composed::<A, B>(queries)?;
        check_len(keys.len(), values.len())?;
        check_len(keys.len(), found.len())?;
        let hits = HostForm::get_many(&self.tree, &keys).map_err(raise)?;
        for (i, value) in hits.into_iter().enumerate() {
            (values[i], found[i]) = value.map_or((miss, 0), |value| (value, 1));
        }
        Ok(())
    }

    fn join(&self, probes: Columns<'_>, by: &AsOf, asked: &Asked<'_>, stream: &lanetree::Stream) -> PyResult<Joined> {
        let (device, keys) = (FixedIndex::device(&self.tree), composed_on::<A, B>(stream, probes)?);
        let count = keys.len();
        let find = || -> lanetree::Result<_> {
            let (mut hits, mut values) = (device.alloc(count.div_ceil(32))?, device.alloc(count)?);
            // Their keys are not wanted.
            let mut near = device.alloc(count)?;
            let on = OnStream::new(&self.tree, stream).miss(V::default());
            on.asof(&keys, by, &mut near, &mut values, &mut hits)?;
            Ok((hits, values))
        };
        let (hits, values) = find().map_err(raise)?;
        join::rows_of_hits(stream, &self.cache, asked, (hits, count), values)
    }

    fn asof_rows(&self, probes: Columns<'_>, how: &AsOf) -> PyResult<Found> {
        let keys = composed::<A, B>(probes)?;
        Ok(found_rows(HostForm::asof_join_many(&self.tree, &keys, how, &Join::inner()).map_err(raise)?))
    }

    fn apply(
        &mut self,
        kind: u32,
        keys: Columns<'_>,
        values: Option<In<'_>>,
        stream: &lanetree::Stream,
    ) -> PyResult<UpdateReport> {
        let count = keys[1].len();
        if let Some(values) = values.filter(|values| values.len() != count) {
            return Err(raise(lanetree::Error::LengthMismatch { keys: count, values: values.len() }));
        }
        if !keys[1].is_device() {
            let keys = composed::<A, B>(keys)?;
            let values = values.map(In::host::<V>).transpose()?;
            let value = |i: usize| values.map_or(V::default(), |values| values[i]);
            let op = |i: usize| match kind {
                0 => Op::Insert(keys[i], value(i)),
                1 => Op::Update(keys[i], value(i)),
                _ => Op::Remove(keys[i]),
            };
            return FixedIndex::apply_each(&mut self.tree, count, op).map_err(raise);
        }
        let device = FixedIndex::device(&self.tree).clone();
        let keys = composed_on::<A, B>(stream, keys)?;
        let given = values.map(In::device).transpose()?.map(Memory::read).transpose()?;
        let none;
        let values = match &given {
            Some(values) => values.as_ref().ok_or_else(closed)?.read::<V>()?,
            None => {
                // Of removals, which do not read them.
                none = device.alloc_zeroed::<V>(count).map_err(raise_runtime)?;
                &none
            }
        };
        let kinds = device.upload(&gather(count, repeat_n(OpKind::from(kind), count))?).map_err(raise_runtime)?;
        let mut scratch = UpdateScratch::new(&device, count).map_err(raise)?;
        self.tree.apply_on(stream, Batch::of_kinds(&keys, values, &kinds), &mut scratch).map_err(raise)
    }

    fn pairs(&self) -> PyResult<Found> {
        let pairs = FixedIndex::pairs(&self.tree).map_err(raise)?;
        let groups = gather(pairs.len(), pairs.iter().map(|(key, _)| key.first()))?;
        let keys = gather(pairs.len(), pairs.iter().map(|(key, _)| key.second()))?;
        let values = gather(pairs.len(), pairs.iter().map(|(_, value)| *value))?;
        Ok(Found::Host(Box::new(move |py| {
            [numpy(py, groups).into_any().unbind(), numpy(py, keys).into_any().unbind(), V::array(py, values)]
        })))
    }
}

fn build<A: PyKey, B: PyKey, V: Word + PyValue>(
    (device, cache): (&lanetree::Device, Arc<Cache>),
    fill: f64,
    (keys, values): (Columns<'_>, In<'_>),
    stream: &lanetree::Stream,
) -> PyResult<Box<dyn AnyGroups>> {
    let (builder, count) = (LaneTree::<Composite<A, B>, V>::builder().fill(fill), keys[1].len());
    if values.len() != count {
        return Err(raise(lanetree::Error::LengthMismatch { keys: count, values: values.len() }));
    }
    let tree = if keys[1].is_device() {
        let keys = composed_on::<A, B>(stream, keys)?;
        let values = values.device()?.read()?;
        let values = values.as_ref().ok_or_else(closed)?.read::<V>()?;
        BuildScratch::for_unsorted(device, count)
            .and_then(|mut scratch| builder.build_on(stream, &keys, values, count, &mut scratch))
    } else {
        builder.build(device, &composed::<A, B>(keys)?, values.host::<V>()?)
    };
    Ok(Box::new(Typed { tree: tree.map_err(raise)?, cache }))
}

/// An index over keys in groups.
#[pyclass(frozen, module = "lanetree._native")]
pub(crate) struct Groups {
    index: Held<Box<dyn AnyGroups>>,
    /// The stream of calls that name none.
    stream: lanetree::Stream,
}

impl Groups {
    fn with<R: Send>(&self, py: Python<'_>, call: impl FnOnce(&dyn AnyGroups) -> PyResult<R> + Send) -> PyResult<R> {
        self.index.read(py, |index| call(&**index))
    }

    fn on<'a>(&'a self, stream: Option<&'a Bound<'_, Stream>>) -> PyResult<On<'a>> {
        On::new(stream, &self.stream)
    }
}

#[pymethods]
impl Groups {
    /// An index over groups of 32 or 64 bits, keys ("u32", "u64", "i32", "i64") and values of 32 or 64 bits.
    #[new]
    #[pyo3(signature = (device, types, groups, keys, values, fill, stream=None))]
    #[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
    fn new(
        py: Python<'_>,
        device: &Device,
        types: (usize, &str, usize),
        groups: Input<'_>,
        keys: Input<'_>,
        values: Input<'_>,
        fill: f64,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<Self> {
        check_not_forked()?;
        let (device, cache) = (device.get(), device.cache().clone());
        let own = device.stream().map_err(raise_runtime)?;
        let on = On::new(stream, &own)?;
        let pairs = ([groups.get(), keys.get()], values.get());
        let build = match types {
            (4, "u32", 4) => build::<u32, u32, u32>,
            (4, "u32", 8) => build::<u32, u32, u64>,
            (4, "i32", 4) => build::<u32, i32, u32>,
            (4, "i32", 8) => build::<u32, i32, u64>,
            (4, "u64", 4) => build::<u32, u64, u32>,
            (4, "u64", 8) => build::<u32, u64, u64>,
            (4, "i64", 4) => build::<u32, i64, u32>,
            (4, "i64", 8) => build::<u32, i64, u64>,
            (8, "u32", 4) => build::<u64, u32, u32>,
            (8, "u32", 8) => build::<u64, u32, u64>,
            (8, "i32", 4) => build::<u64, i32, u32>,
            (8, "i32", 8) => build::<u64, i32, u64>,
            (8, "u64", 4) => build::<u64, u64, u32>,
            (8, "u64", 8) => build::<u64, u64, u64>,
            (8, "i64", 4) => build::<u64, i64, u32>,
            (8, "i64", 8) => build::<u64, i64, u64>,
            (_, key, _) => return Err(PyTypeError::new_err(format!("no index of groups and keys {key}"))),
        };
        let index = py.detach(|| build((device, cache), fill, pairs, &on))?;
        let stream = index.device().stream().map_err(raise_runtime)?;
        Ok(Self { index: Held::new(index), stream })
    }

    /// The values of keys, or, as of them, of their neighbours in their groups.
    #[pyo3(signature = (groups, keys, how, values, found, miss, stream=None))]
    #[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
    fn get(
        &self,
        py: Python<'_>,
        groups: Input<'_>,
        keys: Input<'_>,
        how: Option<(&str, &str, bool, Option<u64>)>,
        values: Input<'_>,
        found: Input<'_>,
        miss: u64,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<()> {
        let how = how.map(|how| types::asof(how.0, how.1, how.2, how.3)).transpose()?;
        let (results, on) = ([Some(values.get()), Some(found.get())], self.on(stream)?);
        in_pieces(py, [groups.get(), keys.get()], results, |queries, [values, found]| {
            let results = Results { values, found, miss };
            self.with(py, |index| index.get(queries, how.as_ref(), results, &on))
        })
    }

    /// Joins a device's probes as of them, in their groups.
    #[pyo3(signature = (groups, keys, asof, how, valid, stream=None))]
    #[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
    fn join(
        &self,
        py: Python<'_>,
        groups: Input<'_>,
        keys: Input<'_>,
        asof: (&str, &str, bool, Option<u64>),
        how: &str,
        valid: Option<Input<'_>>,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<Joined> {
        let (probes, asked) = ([groups.get(), keys.get()], Asked::new(how, valid.as_ref())?);
        let (asof, stream) = (types::asof(asof.0, asof.1, asof.2, asof.3)?, self.on(stream)?);
        self.with(py, |index| index.join(probes, &asof, &asked, &stream))
    }

    /// Offsets and values of the neighbours of probes in host memory.
    fn asof_rows(
        &self,
        py: Python<'_>,
        groups: Input<'_>,
        keys: Input<'_>,
        how: (&str, &str, bool, Option<u64>),
    ) -> PyResult<[Py<PyAny>; 3]> {
        let (probes, how) = ([groups.get(), keys.get()], types::asof(how.0, how.1, how.2, how.3)?);
        self.with(py, |index| index.asof_rows(probes, &how))?.objects(py)
    }

    /// Inserts (0), updates (1) or removes (2) keys.
    #[pyo3(signature = (kind, groups, keys, values, stream=None))]
    fn apply(
        &self,
        py: Python<'_>,
        kind: u32,
        groups: Input<'_>,
        keys: Input<'_>,
        values: Option<Input<'_>>,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<(u64, u64, u64, u64, String)> {
        let (keys, values, stream) = ([groups.get(), keys.get()], values.as_ref().map(Input::get), self.on(stream)?);
        Ok(report(&self.index.change(py, |index| index.apply(kind, keys, values, &stream))?))
    }

    /// Groups, keys and values, in order.
    fn pairs(&self, py: Python<'_>) -> PyResult<[Py<PyAny>; 3]> {
        self.with(py, |index| index.pairs())?.objects(py)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |index| Ok(index.len() as usize))
    }

    /// Bytes of the device's memory that it takes.
    #[getter]
    fn bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |index| Ok(index.bytes()))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.index.close(py)
    }

    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.index.is_closed(py)
    }
}
