//! CuART: byte strings as keys. A batch is its bytes, one string after another, and offsets, one more than there are strings.

use crate::device::Device;
use crate::errors::{check_not_forked, raise, value_error};
use crate::held::Held;
use crate::memory::{In, Input, numpy};
use crate::types::{check_len, gather, report, room};
use lanetree::{ByteKeys, ByteRange, ByteRanges, Cuart, Offsets, OrderedIndex, Word};
use numpy::Element;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A tree with values of either width.
enum Tree {
    Narrow(Cuart<u32>),
    Wide(Cuart<u64>),
}

macro_rules! each {
    ($tree:expr, $it:ident => $result:expr) => {
        match $tree {
            Tree::Narrow($it) => $result,
            Tree::Wide($it) => $result,
        }
    };
}

/// Strings in arrays of NumPy, whose offsets have 32 bits or 64.
fn strings<'a>(offsets: In<'a>, bytes: In<'a>) -> PyResult<ByteKeys<'a>> {
    let bytes = bytes.host::<u8>()?;
    match offsets.host::<u64>() {
        Ok(offsets) => ByteKeys::new(Offsets::U64(offsets), bytes),
        Err(_) => ByteKeys::new(Offsets::U32(offsets.host()?), bytes),
    }
    .map_err(raise)
}

type Columns = [Py<PyAny>; 4];

/// Offsets of the rows, offsets and bytes of the keys, and values.
fn columns<V: Word + Element>(py: Python<'_>, found: ByteRanges<V>) -> PyResult<Columns> {
    let [offsets, bytes] = packed(py, || found.keys.iter())?;
    let rows = bytemuck::allocation::cast_vec::<u64, i64>(found.offsets);
    Ok([numpy(py, rows).into_any().unbind(), offsets, bytes, numpy(py, found.values).into_any().unbind()])
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
    Ok([numpy(py, offsets).into_any().unbind(), numpy(py, bytes).into_any().unbind()])
}

/// An index over byte strings.
#[pyclass(frozen, module = "lanetree._native")]
pub(crate) struct Strings {
    tree: Held<Tree>,
}

impl Strings {
    fn with<R: Send>(&self, py: Python<'_>, call: impl FnOnce(&Tree) -> PyResult<R> + Send) -> PyResult<R> {
        self.tree.read(py, call)
    }

    /// For calls that need the leaves in their order, which changes disturb: restores it first.
    fn ordered<R: Send>(&self, py: Python<'_>, call: impl Fn(&Tree) -> PyResult<R> + Send + Sync) -> PyResult<R> {
        let if_compact = |tree: &Tree| each!(tree, tree => tree.is_compact()).then(|| call(tree)).transpose();
        if let Some(found) = self.tree.read(py, if_compact)? {
            return Ok(found);
        }
        self.tree.change(py, |tree| {
            each!(tree, tree => OrderedIndex::restore_order(tree)).map_err(raise)?;
            call(tree)
        })
    }
}

#[pymethods]
impl Strings {
    #[new]
    fn new(
        py: Python<'_>,
        device: &Device,
        offsets: Input<'_>,
        bytes: Input<'_>,
        values: Input<'_>,
        value_bytes: usize,
    ) -> PyResult<Self> {
        check_not_forked()?;
        let (device, offsets, bytes, values) = (device.get(), offsets.get(), bytes.get(), values.get());
        let tree = py.detach(|| {
            let keys = strings(offsets, bytes)?;
            match value_bytes {
                4 => Cuart::build(device, keys, values.host()?).map(Tree::Narrow),
                8 => Cuart::build(device, keys, values.host()?).map(Tree::Wide),
                _ => return Err(value_error("values have 4 or 8 bytes")),
            }
            .map_err(raise)
        })?;
        Ok(Self { tree: Held::new(tree) })
    }

    fn get(
        &self,
        py: Python<'_>,
        offsets: Input<'_>,
        bytes: Input<'_>,
        values: Input<'_>,
        found: Input<'_>,
        miss: u64,
    ) -> PyResult<()> {
        fn fill<V: Word>(hits: &[Option<V>], values: &mut [V], found: &mut [u8], miss: V) -> PyResult<()> {
            check_len(hits.len(), values.len())?;
            check_len(hits.len(), found.len())?;
            for ((hit, value), found) in hits.iter().zip(values).zip(found) {
                (*value, *found) = (hit.unwrap_or(miss), u8::from(hit.is_some()));
            }
            Ok(())
        }
        let (offsets, bytes, values, found) = (offsets.get(), bytes.get(), values.get(), found.get());
        self.with(py, |tree| {
            let (keys, found) = (strings(offsets, bytes)?, found.host_mut()?);
            match tree {
                Tree::Narrow(tree) => {
                    fill(&tree.get_many(keys).map_err(raise)?, values.host_mut()?, found, miss as u32)
                }
                Tree::Wide(tree) => fill(&tree.get_many(keys).map_err(raise)?, values.host_mut()?, found, miss),
            }
        })
    }

    fn rank(
        &self,
        py: Python<'_>,
        offsets: Input<'_>,
        bytes: Input<'_>,
        upper: bool,
        ranks: Input<'_>,
    ) -> PyResult<()> {
        let (offsets, bytes, ranks) = (offsets.get(), bytes.get(), ranks.get());
        self.ordered(py, |tree| {
            let keys = strings(offsets, bytes)?;
            let found =
                each!(tree, tree => if upper { tree.upper_bound_many(keys) } else { tree.lower_bound_many(keys) });
            let (found, ranks) = (found.map_err(raise)?, ranks.host_mut::<u64>()?);
            check_len(found.len(), ranks.len())?;
            ranks.copy_from_slice(&found);
            Ok(())
        })
    }

    /// Offsets and bytes of the keys, values, and which there are.
    fn neighbor(&self, py: Python<'_>, offsets: Input<'_>, bytes: Input<'_>, predecessor: bool) -> PyResult<Columns> {
        type Pairs<V> = Vec<Option<(Vec<u8>, V)>>;
        enum Either {
            Narrow(Pairs<u32>),
            Wide(Pairs<u64>),
        }
        fn give<V: Word + Element>(py: Python<'_>, pairs: &Pairs<V>) -> PyResult<Columns> {
            let keys = || pairs.iter().map(|pair| pair.as_ref().map_or(&[][..], |(key, _)| key));
            let [offsets, bytes] = packed(py, keys)?;
            let value = |pair: &Option<(_, V)>| pair.as_ref().map_or(V::default(), |(_, value)| *value);
            let values = gather(pairs.len(), pairs.iter().map(value))?;
            let found = gather(pairs.len(), pairs.iter().map(Option::is_some))?;
            Ok([offsets, bytes, numpy(py, values).into_any().unbind(), numpy(py, found).into_any().unbind()])
        }
        let (offsets, bytes) = (offsets.get(), bytes.get());
        let pairs = self.ordered(py, |tree| {
            let keys = strings(offsets, bytes)?;
            let pairs = match tree {
                Tree::Narrow(tree) if predecessor => tree.predecessor_many(keys).map(Either::Narrow),
                Tree::Narrow(tree) => tree.successor_many(keys).map(Either::Narrow),
                Tree::Wide(tree) if predecessor => tree.predecessor_many(keys).map(Either::Wide),
                Tree::Wide(tree) => tree.successor_many(keys).map(Either::Wide),
            };
            pairs.map_err(raise)
        })?;
        match pairs {
            Either::Narrow(pairs) => give(py, &pairs),
            Either::Wide(pairs) => give(py, &pairs),
        }
    }

    /// The pairs of ranges between strings; or, without ends, of strings that begin with `starts`; or, without both, all.
    #[pyo3(signature = (starts, ends, closed, limit))]
    fn range(
        &self,
        py: Python<'_>,
        starts: Option<[Input<'_>; 2]>,
        ends: Option<[Input<'_>; 2]>,
        closed: [bool; 2],
        limit: u64,
    ) -> PyResult<Columns> {
        enum Either {
            Narrow(ByteRanges<u32>),
            Wide(ByteRanges<u64>),
        }
        fn bound(key: &[u8], closed: bool) -> Bound<&[u8]> {
            if closed { Bound::Included(key) } else { Bound::Excluded(key) }
        }
        let starts = starts.as_ref().map(|[offsets, bytes]| (offsets.get(), bytes.get()));
        let ends = ends.as_ref().map(|[offsets, bytes]| (offsets.get(), bytes.get()));
        let found = self.ordered(py, |tree| {
            let key = |(offsets, bytes)| strings(offsets, bytes);
            let ranges: Vec<ByteRange<'_>> = match (starts, ends) {
                (None, _) => vec![ByteRange::new(Bound::Unbounded, Bound::Unbounded)],
                (Some(prefixes), None) => {
                    let prefixes = key(prefixes)?;
                    let found = match tree {
                        Tree::Narrow(tree) => tree.prefix_many(prefixes).map(Either::Narrow),
                        Tree::Wide(tree) => tree.prefix_many(prefixes).map(Either::Wide),
                    };
                    return found.map_err(raise);
                }
                (Some(starts), Some(ends)) => {
                    let (starts, ends) = (key(starts)?, key(ends)?);
                    check_len(starts.len(), ends.len())?;
                    let range = |(start, end)| match start > end {
                        // As with numbers, one that ends before it starts is empty.
                        true => ByteRange::new(Bound::Included(&[][..]), Bound::Excluded(&[][..])),
                        false => ByteRange::new(bound(start, closed[0]), bound(end, closed[1])).limit(limit),
                    };
                    gather(starts.len(), starts.iter().zip(ends.iter()).map(range))?
                }
            };
            let found = match tree {
                Tree::Narrow(tree) => tree.range_many(ranges).map(Either::Narrow),
                Tree::Wide(tree) => tree.range_many(ranges).map(Either::Wide),
            };
            found.map_err(raise)
        })?;
        match found {
            Either::Narrow(found) => columns(py, found),
            Either::Wide(found) => columns(py, found),
        }
    }

    /// Inserts (0), updates (1) or removes (2) keys.
    fn apply(
        &self,
        py: Python<'_>,
        kind: u32,
        offsets: Input<'_>,
        bytes: Input<'_>,
        values: Option<Input<'_>>,
    ) -> PyResult<(u64, u64, u64, u64, String)> {
        let (offsets, bytes, values) = (offsets.get(), bytes.get(), values.as_ref().map(Input::get));
        let done = self.tree.change(py, |tree| {
            let keys = strings(offsets, bytes)?;
            let done = match (kind, values) {
                (0, Some(values)) => each!(tree, tree => tree.insert_many(keys, values.host()?)),
                (1, Some(values)) => each!(tree, tree => tree.update_many(keys, values.host()?)),
                _ => each!(tree, tree => tree.remove_many(keys)),
            };
            done.map_err(raise)
        })?;
        Ok(report(&done))
    }

    fn stats(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, u64>> {
        self.with(py, |tree| {
            let stats = each!(tree, tree => tree.stats());
            Ok(BTreeMap::from([
                ("len", stats.len),
                ("nodes", stats.nodes.iter().sum()),
                ("leaves", stats.leaves.iter().sum::<u64>() + stats.device_leaves + stats.host_leaves),
                ("node_bytes", stats.node_bytes),
                ("leaf_bytes", stats.leaf_bytes),
                ("table_bytes", stats.table_bytes),
                ("order_bytes", stats.order_bytes),
                ("host_bytes", stats.host_bytes),
                ("bytes", stats.bytes()),
            ]))
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |tree| Ok(each!(tree, tree => tree.len()) as usize))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.tree.close(py)
    }

    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.tree.is_closed(py)
    }
}
