//! CuART: byte strings as keys. A batch is its bytes, one string after another, and offsets, one more than there are strings.

use crate::arguments::{Report, Results, Sizes};
use crate::device::Device;
use crate::errors::{check_not_forked, raise, value_error};
use crate::held::Held;
use crate::host::numpy;
use crate::input::{In, Input};
use crate::keys::signed;
use crate::results::put_numbers;
use crate::types::{PyValue, check_len, gather, room};
use lanetree::{ByteKeys, ByteRange, ByteRanges, Cuart, Offsets, OrderedIndex, Word};
use pyo3::prelude::*;
use std::ops::Bound;

/// Offsets of the rows, offsets and bytes of the keys, and values: made under the GIL.
type Columns = Box<dyn FnOnce(Python<'_>) -> PyResult<[Py<PyAny>; 4]> + Send>;

/// A tree, whatever its values are. Queries are offsets and bytes.
trait AnyStrings: Send + Sync {
    fn is_ordered(&self) -> bool;
    fn restore_order(&mut self) -> PyResult<()>;
    fn sizes(&self) -> Sizes;
    fn get(&self, queries: [In<'_>; 2], results: Results<'_>) -> PyResult<()>;
    fn rank(&self, queries: [In<'_>; 2], upper: bool, ranks: In<'_>) -> PyResult<()>;
    fn neighbor(&self, queries: [In<'_>; 2], predecessor: bool) -> PyResult<Columns>;
    fn range(&self, bounds: [Option<[In<'_>; 2]>; 2], closed: [bool; 2], limit: u64) -> PyResult<Columns>;
    fn apply(&mut self, kind: u32, keys: [In<'_>; 2], values: Option<In<'_>>) -> PyResult<Report>;
}

/// Strings in arrays of NumPy, whose offsets have 32 bits or 64.
fn strings<'a>([offsets, bytes]: [In<'a>; 2]) -> PyResult<ByteKeys<'a>> {
    let bytes = bytes.host::<u8>()?;
    match offsets.host::<u64>() {
        Ok(offsets) => ByteKeys::new(Offsets::U64(offsets), bytes),
        Err(_) => ByteKeys::new(Offsets::U32(offsets.host()?), bytes),
    }
    .map_err(raise)
}

/// Offsets and bytes of strings.
fn packed<'k, I: Iterator<Item = &'k [u8]>>(py: Python<'_>, keys: impl Fn() -> I) -> PyResult<[Py<PyAny>; 2]> {
    let (count, total) = keys().fold((0, 0), |(count, total), key| (count + 1, total + key.len()));
    let (mut offsets, mut bytes) = (room(count + 1)?, room(total)?);
    offsets.push(0_i64);
    for key in keys() {
        bytes.extend_from_slice(key);
        offsets.push(bytes.len() as i64);
    }
    Ok([numpy(py, offsets), numpy(py, bytes)])
}

impl<V: Word + PyValue> AnyStrings for Cuart<V> {
    fn is_ordered(&self) -> bool {
        self.is_compact()
    }

    fn restore_order(&mut self) -> PyResult<()> {
        OrderedIndex::restore_order(self).map(drop).map_err(raise)
    }

    fn sizes(&self) -> Sizes {
        let stats = self.stats();
        Sizes::from([
            ("len", stats.len),
            ("nodes", stats.nodes.iter().sum()),
            ("leaves", stats.leaves.iter().sum::<u64>() + stats.device_leaves + stats.host_leaves),
            ("node_bytes", stats.node_bytes),
            ("leaf_bytes", stats.leaf_bytes),
            ("table_bytes", stats.table_bytes),
            ("order_bytes", stats.order_bytes),
            ("host_bytes", stats.host_bytes),
            ("bytes", stats.bytes()),
        ])
    }

    fn get(&self, queries: [In<'_>; 2], results: Results<'_>) -> PyResult<()> {
        results.put(self.get_many(strings(queries)?), |value: V| value)
    }

    fn rank(&self, queries: [In<'_>; 2], upper: bool, ranks: In<'_>) -> PyResult<()> {
        let keys = strings(queries)?;
        put_numbers(if upper { self.upper_bound_many(keys) } else { self.lower_bound_many(keys) }, ranks)
    }

    fn neighbor(&self, queries: [In<'_>; 2], predecessor: bool) -> PyResult<Columns> {
        let keys = strings(queries)?;
        let pairs = if predecessor { self.predecessor_many(keys) } else { self.successor_many(keys) };
        let pairs = pairs.map_err(raise)?;
        Ok(Box::new(move |py| {
            let [offsets, bytes] =
                packed(py, || pairs.iter().map(|pair| pair.as_ref().map_or(&[][..], |pair| &pair.0)))?;
            let value = |pair: &Option<(_, V)>| pair.as_ref().map_or(V::default(), |(_, value)| *value);
            let values = gather(pairs.len(), pairs.iter().map(value))?;
            let found = gather(pairs.len(), pairs.iter().map(Option::is_some))?;
            Ok([offsets, bytes, V::array(py, values), numpy(py, found)])
        }))
    }

    fn range(&self, bounds: [Option<[In<'_>; 2]>; 2], closed: [bool; 2], limit: u64) -> PyResult<Columns> {
        fn bound(key: &[u8], closed: bool) -> Bound<&[u8]> {
            if closed { Bound::Included(key) } else { Bound::Excluded(key) }
        }
        let found = match bounds {
            [None, _] => self.range_many([ByteRange::new(Bound::Unbounded, Bound::Unbounded)]),
            [Some(prefixes), None] => self.prefix_many(strings(prefixes)?),
            [Some(starts), Some(ends)] => {
                let (starts, ends) = (strings(starts)?, strings(ends)?);
                check_len(starts.len(), ends.len())?;
                let range = |(start, end)| match start > end {
                    // As with numbers, one that ends before it starts is empty.
                    true => ByteRange::new(Bound::Included(&[][..]), Bound::Excluded(&[][..])),
                    false => ByteRange::new(bound(start, closed[0]), bound(end, closed[1])).limit(limit),
                };
                self.range_many(gather(starts.len(), starts.iter().zip(ends.iter()).map(range))?)
            }
        };
        let ByteRanges { offsets, keys, values } = found.map_err(raise)?;
        Ok(Box::new(move |py| {
            let [bounds, bytes] = packed(py, || keys.iter())?;
            Ok([numpy(py, signed(offsets)), bounds, bytes, V::array(py, values)])
        }))
    }

    fn apply(&mut self, kind: u32, keys: [In<'_>; 2], values: Option<In<'_>>) -> PyResult<Report> {
        let keys = strings(keys)?;
        let done = match (kind, values) {
            (0, Some(values)) => self.insert_many(keys, values.host()?),
            (1, Some(values)) => self.update_many(keys, values.host()?),
            _ => self.remove_many(keys),
        };
        Ok(done.map_err(raise)?.into())
    }
}

/// An index over byte strings.
#[pyclass(frozen, module = "lanetree._native")]
pub(crate) struct Strings {
    tree: Held<Box<dyn AnyStrings>>,
}

impl Strings {
    /// For calls that need the leaves in their order, which changes disturb: restores it first.
    fn ordered<R: Send>(
        &self,
        py: Python<'_>,
        call: impl Fn(&dyn AnyStrings) -> PyResult<R> + Send + Sync,
    ) -> PyResult<R> {
        if let Some(found) = self.tree.read(py, |tree| tree.is_ordered().then(|| call(&**tree)).transpose())? {
            return Ok(found);
        }
        self.tree.change(py, |tree| {
            tree.restore_order()?;
            call(&**tree)
        })
    }
}

#[pymethods]
impl Strings {
    #[new]
    fn new(py: Python<'_>, device: &Device, keys: [Input; 2], values: Input, value_bytes: usize) -> PyResult<Self> {
        check_not_forked()?;
        let (device, keys, values) = (device.get(), keys.each_ref().map(Input::get), values.get());
        let tree = py.detach(|| -> PyResult<Box<dyn AnyStrings>> {
            let keys = strings(keys)?;
            Ok(match value_bytes {
                4 => Box::new(Cuart::<u32>::build(device, keys, values.host()?).map_err(raise)?),
                8 => Box::new(Cuart::<u64>::build(device, keys, values.host()?).map_err(raise)?),
                _ => return Err(value_error("values have 4 or 8 bytes")),
            })
        })?;
        Ok(Self { tree: Held::new(tree) })
    }

    fn get(&self, py: Python<'_>, queries: [Input; 2], values: Input, found: Input, miss: u64) -> PyResult<()> {
        let results = Results { values: Some(values.get()), found: Some(found.get()), miss };
        let queries = queries.each_ref().map(Input::get);
        self.tree.read(py, |tree| tree.get(queries, results))
    }

    fn rank(&self, py: Python<'_>, queries: [Input; 2], upper: bool, ranks: Input) -> PyResult<()> {
        let (queries, ranks) = (queries.each_ref().map(Input::get), ranks.get());
        self.ordered(py, |tree| tree.rank(queries, upper, ranks))
    }

    /// Offsets and bytes of the keys, values, and which there are.
    fn neighbor(&self, py: Python<'_>, queries: [Input; 2], predecessor: bool) -> PyResult<[Py<PyAny>; 4]> {
        let queries = queries.each_ref().map(Input::get);
        self.ordered(py, |tree| tree.neighbor(queries, predecessor))?(py)
    }

    /// The pairs of ranges between strings; or, without ends, of strings that begin with `starts`; or, without both, all.
    #[pyo3(signature = (starts, ends, inclusive, limit))]
    fn range(
        &self,
        py: Python<'_>,
        starts: Option<[Input; 2]>,
        ends: Option<[Input; 2]>,
        inclusive: [bool; 2],
        limit: u64,
    ) -> PyResult<[Py<PyAny>; 4]> {
        let bounds = [&starts, &ends].map(|strings| strings.as_ref().map(|strings| strings.each_ref().map(Input::get)));
        self.ordered(py, |tree| tree.range(bounds, inclusive, limit))?(py)
    }

    /// Inserts (0), updates (1) or removes (2) keys.
    fn apply(&self, py: Python<'_>, kind: u32, keys: [Input; 2], values: Option<Input>) -> PyResult<Report> {
        let (keys, values) = (keys.each_ref().map(Input::get), values.as_ref().map(Input::get));
        self.tree.change(py, |tree| tree.apply(kind, keys, values))
    }

    fn stats(&self, py: Python<'_>) -> PyResult<Sizes> {
        self.tree.read(py, |tree| Ok(tree.sizes()))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.stats(py)?["len"] as usize)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.tree.close(py)
    }

    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.tree.is_closed(py)
    }
}
