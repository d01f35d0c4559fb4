//! CuART: byte strings as keys. A batch is its bytes, one string after another, and offsets, one more than there are strings.

use crate::arguments::{Ends, Found, Outputs, Report, Results, Sizes};
use crate::class::{Place, class};
use crate::errors::{raise, value_error};
use crate::host::numpy;
use crate::input::{In, Input};
use crate::keys::signed;
use crate::results::put_numbers;
use crate::types::{PyValue, check_len, gather, room};
use lanetree::{ByteKeys, ByteRange, ByteRanges, Closed, Cuart, Offsets, OrderedIndex, Stream, Word};
use pyo3::prelude::*;
use std::ops::Bound;

class! {
    /// An index over byte strings. Batches are offsets and bytes.
    Strings over AnyStrings, by build(keys: [Input; 2], values: Input, value_bytes: usize);

    read get(queries: [Input; 2], results: Outputs) -> ();
    ordered rank(queries: [Input; 2], upper: bool, ranks: Input) -> ();
    /// Offsets and bytes of the keys, values, and which there are.
    ordered neighbor(queries: [Input; 2], predecessor: bool) -> Found;
    /// The pairs of ranges between strings; or, without ends, of strings that begin with `starts`; or, without both, all: offsets of the
    /// rows, offsets and bytes of the keys, and values.
    ordered range(starts: Option<[Input; 2]>, ends: Option<[Input; 2]>, closed: Ends, limit: u64) -> Found;
    /// Inserts (0), updates (1) or removes (2) keys.
    change apply(kind: u32, keys: [Input; 2], values: Option<Input>) -> Report;
    {
        /// Whether the leaves are in their order, which changes disturb.
        fn is_ordered(&self) -> bool;
        fn restore_order(&mut self) -> PyResult<()>;
    }
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
    fn device(&self) -> &lanetree::Device {
        OrderedIndex::device(self)
    }

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

    fn get(&self, queries: [In<'_>; 2], results: Results<'_>, _: &Stream) -> PyResult<()> {
        results.put(self.get_many(strings(queries)?), |value: V| value)
    }

    fn rank(&self, queries: [In<'_>; 2], upper: bool, ranks: In<'_>, _: &Stream) -> PyResult<()> {
        let keys = strings(queries)?;
        put_numbers(if upper { self.upper_bound_many(keys) } else { self.lower_bound_many(keys) }, ranks)
    }

    fn neighbor(&self, queries: [In<'_>; 2], predecessor: bool, _: &Stream) -> PyResult<Found> {
        let keys = strings(queries)?;
        let pairs = if predecessor { self.predecessor_many(keys) } else { self.successor_many(keys) };
        let pairs = pairs.map_err(raise)?;
        Ok(Found::host(move |py| {
            let [offsets, bytes] =
                packed(py, || pairs.iter().map(|pair| pair.as_ref().map_or(&[][..], |pair| &pair.0)))?;
            let value = |pair: &Option<(_, V)>| pair.as_ref().map_or(V::default(), |(_, value)| *value);
            let values = gather(pairs.len(), pairs.iter().map(value))?;
            let found = gather(pairs.len(), pairs.iter().map(Option::is_some))?;
            Ok([offsets, bytes, V::array(py, values), numpy(py, found)])
        }))
    }

    fn range(
        &self,
        starts: Option<[In<'_>; 2]>,
        ends: Option<[In<'_>; 2]>,
        closed: Closed,
        limit: u64,
        _: &Stream,
    ) -> PyResult<Found> {
        fn bound(key: &[u8], closed: bool) -> Bound<&[u8]> {
            if closed { Bound::Included(key) } else { Bound::Excluded(key) }
        }
        let has = [Closed::Left, Closed::Right].map(|end| closed == Closed::Both || closed == end);
        let found = match [starts, ends] {
            [None, _] => self.range_many([ByteRange::new(Bound::Unbounded, Bound::Unbounded)]),
            [Some(prefixes), None] => self.prefix_many(strings(prefixes)?),
            [Some(starts), Some(ends)] => {
                let (starts, ends) = (strings(starts)?, strings(ends)?);
                check_len(starts.len(), ends.len())?;
                let range = |(start, end)| match start > end {
                    // As with numbers, one that ends before it starts is empty.
                    true => ByteRange::new(Bound::Included(&[][..]), Bound::Excluded(&[][..])),
                    false => ByteRange::new(bound(start, has[0]), bound(end, has[1])).limit(limit),
                };
                self.range_many(gather(starts.len(), starts.iter().zip(ends.iter()).map(range))?)
            }
        };
        let ByteRanges { offsets, keys, values } = found.map_err(raise)?;
        Ok(Found::host(move |py| {
            let [bounds, bytes] = packed(py, || keys.iter())?;
            Ok([numpy(py, signed(offsets)), bounds, bytes, V::array(py, values)])
        }))
    }

    fn apply(&mut self, kind: u32, keys: [In<'_>; 2], values: Option<In<'_>>, _: &Stream) -> PyResult<Report> {
        let keys = strings(keys)?;
        let done = match (kind, values) {
            (0, Some(values)) => self.insert_many(keys, values.host()?),
            (1, Some(values)) => self.update_many(keys, values.host()?),
            _ => self.remove_many(keys),
        };
        Ok(done.map_err(raise)?.into())
    }
}

fn build(place: &Place<'_>, keys: [In<'_>; 2], values: In<'_>, value_bytes: usize) -> PyResult<Box<dyn AnyStrings>> {
    let keys = strings(keys)?;
    Ok(match value_bytes {
        4 => Box::new(Cuart::<u32>::build(place.device, keys, values.host()?).map_err(raise)?),
        8 => Box::new(Cuart::<u64>::build(place.device, keys, values.host()?).map_err(raise)?),
        _ => return Err(value_error("values have 4 or 8 bytes")),
    })
}
