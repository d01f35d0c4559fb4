//! The multi-map behind one interface, whatever its keys and values are.

use crate::any_tree::{By, Results};
use crate::device::{Device, On, Stream};
use crate::errors::{check_not_forked, raise, raise_runtime, value_error};
use crate::held::Held;
use crate::join::{self, Asked, Joined};
use crate::memory::{self, Cache, HostSlice, In, Input, Memory, closed, numpy};
use crate::on_device::with_results;
use crate::types::{self, Found, PyKey, PyValue, check_len, found_rows, gather, inclusive, key_words, ordered, owned};
use lanetree::bindings::JoinBounds;
use lanetree::multimap::{
    DeviceJoin, DeviceRows, JoinScratch, OnStream, RangeJoinScratch, RangeScratch, Scratch, Stats,
};
use lanetree::{
    Buffer, Closed, DeviceRanges, FloatOrder, Join, JoinKind, KeyRange, MultiMap, Ranges, UpdateReport, Word,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A multi-map, whatever its types are. Calls run without the GIL.
trait AnyMap: Send + Sync {
    fn device(&self) -> &lanetree::Device;
    fn stats(&self) -> Stats;
    /// Offsets and values of all keys.
    fn get(&self, queries: In<'_>, stream: &lanetree::Stream) -> PyResult<Found>;
    fn count(&self, queries: In<'_>, counts: In<'_>, stream: &lanetree::Stream) -> PyResult<()>;
    /// Joins a device's probes by key.
    fn join(&self, probes: In<'_>, asked: &Asked<'_>, stream: &lanetree::Stream) -> PyResult<Joined>;
    /// Joins a device's probes by ranges.
    fn join_between(
        &self,
        bounds: [In<'_>; 2],
        by: By,
        asked: &Asked<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<Joined>;
    /// Offsets and values of the pairs between the bounds of probes in host memory; without `has_rows`, as a semi-join
    /// has them.
    fn rows_between(&self, bounds: [In<'_>; 2], by: By, has_rows: bool) -> PyResult<Found>;
    /// The value of each key that was inserted first, or last, and whether there is one.
    fn one(&self, queries: In<'_>, is_last: bool, results: Results<'_>, stream: &lanetree::Stream) -> PyResult<()>;
    fn rank(&self, queries: In<'_>, upper: bool, ranks: In<'_>, stream: &lanetree::Stream) -> PyResult<()>;
    fn neighbor(
        &self,
        queries: In<'_>,
        predecessor: bool,
        keys: In<'_>,
        results: Results<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<()>;
    fn range(&self, bounds: [In<'_>; 2], closed: [bool; 2], limit: u64, stream: &lanetree::Stream) -> PyResult<Found>;
    fn count_range(
        &self,
        bounds: [In<'_>; 2],
        closed: [bool; 2],
        counts: In<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<()>;
    fn insert(&mut self, keys: In<'_>, values: In<'_>, stream: &lanetree::Stream) -> PyResult<UpdateReport>;
    fn remove(&mut self, keys: In<'_>, values: Option<HostSlice>, stream: &lanetree::Stream) -> PyResult<UpdateReport>;
    fn pairs(&self) -> PyResult<Found>;
}

struct Typed<K: PyKey, V: Word> {
    map: MultiMap<K, V>,
    floats: bool,
    /// Memory of calls on a device.
    cache: Arc<Cache>,
}

impl<K: PyKey, V: Word + PyValue> Typed<K, V> {
    fn keys<'a>(&self, keys: In<'a>) -> PyResult<Cow<'a, [K]>> {
        let keys = keys.host::<K>()?;
        Ok(if self.floats { ordered(keys)?.into() } else { keys.into() })
    }

    /// Keys on the device, in the form that the map has them; keys in host memory are copied there.
    fn with_keys<R>(
        &self,
        keys: In<'_>,
        stream: &lanetree::Stream,
        call: impl FnOnce(&Buffer<K>) -> PyResult<R>,
    ) -> PyResult<R> {
        with_keys(self.map.device(), self.floats, keys, stream, call)
    }

    /// Offsets and values of keys on the device. Waits, to learn how many values there are.
    fn rows_on(&self, keys: &Buffer<K>, stream: &lanetree::Stream) -> PyResult<DeviceRows<V>> {
        let (device, count) = (self.map.device(), keys.len());
        let find = || -> lanetree::Result<DeviceRows<V>> {
            let (on, mut scratch) = (self.map.on(stream), Scratch::new(device, count)?);
            // Offsets alone, which say how many values there are.
            let mut rows = DeviceRows::new(device, count, 0)?;
            on.get_all(keys, &mut scratch, &mut rows)?;
            let mut total = [0];
            rows.offsets.copy_range_to(count, &mut total)?;
            rows.values = device.alloc(total[0] as usize)?;
            on.get_all(keys, &mut scratch, &mut rows)?;
            Ok(rows)
        };
        find().map_err(raise)
    }

    /// A join of a device's probes.
    fn joining<'a>(
        &'a self,
        asked: &Asked<'_>,
        valid: Option<&'a Buffer<u32>>,
        stream: &'a lanetree::Stream,
    ) -> OnStream<'a, K, V> {
        let on = self.map.on(stream).kind(asked.kind);
        let on = if asked.kind == JoinKind::Left { on.miss(V::default()) } else { on };
        match valid {
            Some(valid) => on.valid(valid, 0),
            None => on,
        }
    }

    /// The rows of a join of `probes` probes on the device. Waits, to learn how many there are.
    fn joined(
        &self,
        probes: usize,
        asked: &Asked<'_>,
        join: &mut dyn FnMut(&mut DeviceJoin<V>) -> lanetree::Result<()>,
    ) -> lanetree::Result<DeviceJoin<V>> {
        let device = self.map.device();
        if !asked.kind.has_rows() {
            let mut out = DeviceJoin::of_probes(device, probes)?;
            join(&mut out)?;
            return Ok(out);
        }
        // The number of rows alone.
        let mut out = DeviceJoin::new(device, probes, 0)?;
        join(&mut out)?;
        let mut total = [0];
        out.count.copy_range_to(0, &mut total)?;
        (out.probes, out.rows) = (device.alloc(total[0] as usize)?, device.alloc(total[0] as usize)?);
        join(&mut out)?;
        Ok(out)
    }

    /// A join's columns; `hits` is the mask of the probes that have a match.
    fn columns(
        &self,
        stream: &lanetree::Stream,
        probes: usize,
        asked: &Asked<'_>,
        out: DeviceJoin<V>,
        hits: &Buffer<u32>,
    ) -> PyResult<Joined> {
        if !asked.kind.has_rows() {
            let rows = if probes == 0 { 0 } else { join::read(&out.count)? };
            return Ok((Memory::new(join::part(stream, out.probes, 0..rows)?), None, None));
        }
        let found = match asked.kind {
            JoinKind::Left => Some(join::found_of(stream, &self.cache, (hits, probes), &out.probes)?),
            _ => None,
        };
        Ok((Memory::new(out.probes), V::memory(out.rows), found))
    }

    /// Calls a function with the inclusive bounds, as the map has them, of ranges whose bounds are a device's arrays.
    fn with_bounds<R>(
        &self,
        [starts, ends]: [In<'_>; 2],
        closed: [bool; 2],
        stream: &lanetree::Stream,
        call: impl FnOnce(&Buffer<K>, &Buffer<K>) -> PyResult<R>,
    ) -> PyResult<R> {
        let (device, count) = (self.map.device(), starts.len());
        check_len(count, ends.len())?;
        let bounds = JoinBounds::of_ranges(types::closed(closed));
        self.with_keys(starts, stream, |starts| {
            self.with_keys(ends, stream, |ends| {
                let mut firsts = device.alloc(count).map_err(raise_runtime)?;
                let mut lasts = device.alloc(count).map_err(raise_runtime)?;
                bounds.on_stream(stream, starts, ends, &mut firsts, &mut lasts).map_err(raise)?;
                call(&firsts, &lasts)
            })
        })
    }

    fn ranges(&self, bounds: [In<'_>; 2], closed: [bool; 2], limit: u64) -> PyResult<Vec<KeyRange<K>>> {
        let (mut starts, mut ends) = (self.keys(bounds[0])?, self.keys(bounds[1])?);
        check_len(starts.len(), ends.len())?;
        if closed != [true; 2] {
            inclusive(owned(&mut starts)?, owned(&mut ends)?, closed);
        }
        let nothing = || KeyRange::new(K::MIN..K::MIN);
        let range =
            |(&start, &end): (&K, &K)| if start > end { nothing() } else { KeyRange::new(start..=end).limit(limit) };
        gather(starts.len(), starts.iter().zip(&ends[..]).map(range))
    }

    fn found(&self, ranges: Ranges<K, V>) -> Found {
        let Ranges { offsets, mut keys, values } = ranges;
        if self.floats {
            keys.iter_mut().for_each(|key| *key = key.unorder());
        }
        Found::Host(Box::new(move |py| {
            let offsets = bytemuck::allocation::cast_vec::<u64, i64>(offsets);
            [numpy(py, offsets).into_any().unbind(), numpy(py, keys).into_any().unbind(), V::array(py, values)]
        }))
    }
}

pub(crate) fn with_keys<K: PyKey, R>(
    device: &lanetree::Device,
    floats: bool,
    keys: In<'_>,
    stream: &lanetree::Stream,
    call: impl FnOnce(&Buffer<K>) -> PyResult<R>,
) -> PyResult<R> {
    if let In::Host(_) = keys {
        let keys = keys.host::<K>()?;
        let keys = if floats { Cow::Owned(ordered(keys)?) } else { Cow::Borrowed(keys) };
        return call(&device.upload(&keys).map_err(raise_runtime)?);
    }
    let words = keys.device()?.read()?;
    let words = words.as_ref().ok_or_else(closed)?.read::<K>()?;
    if !floats {
        return call(words);
    }
    let mut own = device.alloc::<K>(words.len()).map_err(raise_runtime)?;
    lanetree::order_floats(stream, FloatOrder::Total, words, &mut own).map_err(raise)?;
    call(&own)
}

pub(crate) fn with_values<V: Word, R>(
    device: &lanetree::Device,
    values: In<'_>,
    call: impl FnOnce(&Buffer<V>) -> PyResult<R>,
) -> PyResult<R> {
    if let In::Host(_) = values {
        return call(&device.upload(values.host::<V>()?).map_err(raise_runtime)?);
    }
    let words = values.device()?.read()?;
    call(words.as_ref().ok_or_else(closed)?.read::<V>()?)
}

/// Writes values, if they are wanted, and which are found, to arrays of NumPy.
fn write_found<V: PyValue>(hits: &[Option<V>], results: Results<'_>) -> PyResult<()> {
    let miss = V::truncate(results.miss);
    if let Some(values) = results.values {
        let values = values.host_mut::<V>()?;
        check_len(hits.len(), values.len())?;
        values.iter_mut().zip(hits).for_each(|(value, hit)| *value = hit.unwrap_or(miss));
    }
    if let Some(found) = results.found {
        let found = found.host_mut::<u8>()?;
        check_len(hits.len(), found.len())?;
        found.iter_mut().zip(hits).for_each(|(found, hit)| *found = u8::from(hit.is_some()));
    }
    Ok(())
}

impl<K: PyKey, V: Word + PyValue> AnyMap for Typed<K, V> {
    fn device(&self) -> &lanetree::Device {
        self.map.device()
    }

    fn stats(&self) -> Stats {
        self.map.stats()
    }

    fn get(&self, queries: In<'_>, stream: &lanetree::Stream) -> PyResult<Found> {
        if !queries.is_device() {
            let rows = self.map.get_all_many(&self.keys(queries)?).map_err(raise)?;
            return Ok(Found::Host(Box::new(move |py| {
                let offsets = bytemuck::allocation::cast_vec::<u64, i64>(rows.offsets);
                [numpy(py, offsets).into_any().unbind(), py.None(), V::array(py, rows.values)]
            })));
        }
        let rows = self.with_keys(queries, stream, |keys| self.rows_on(keys, stream))?;
        // Of keys there is nothing to tell.
        let none = self.map.device().alloc::<u64>(0).map_err(raise_runtime)?;
        let columns = (Memory::new(rows.offsets), Memory::new(key_words(none)), V::memory(rows.values));
        Ok(Found::Device(Box::new(columns)))
    }

    fn count(&self, queries: In<'_>, counts: In<'_>, stream: &lanetree::Stream) -> PyResult<()> {
        if !queries.is_device() {
            let found = self.map.count_many(&self.keys(queries)?).map_err(raise)?;
            let counts = counts.host_mut::<u64>()?;
            check_len(found.len(), counts.len())?;
            counts.copy_from_slice(&found);
            return Ok(());
        }
        let mut counts = counts.device()?.write()?;
        let counts = counts.as_mut().ok_or_else(closed)?.write::<u64>()?;
        let mut scratch = Scratch::new(self.map.device(), queries.len()).map_err(raise)?;
        self.with_keys(queries, stream, |keys| self.map.on(stream).count(keys, counts, &mut scratch).map_err(raise))
    }

    fn join(&self, probes: In<'_>, asked: &Asked<'_>, stream: &lanetree::Stream) -> PyResult<Joined> {
        let count = probes.len();
        asked.with_valid(|valid| {
            self.with_keys(probes, stream, |keys| {
                let mut scratch = JoinScratch::new(self.map.device(), count).map_err(raise)?;
                let mut join =
                    |out: &mut DeviceJoin<V>| self.joining(asked, valid, stream).join(keys, &mut scratch, out);
                let out = self.joined(count, asked, &mut join).map_err(raise)?;
                self.columns(stream, count, asked, out, scratch.hits())
            })
        })
    }

    fn join_between(
        &self,
        [lows, highs]: [In<'_>; 2],
        by: By,
        asked: &Asked<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<Joined> {
        let count = lows.len();
        asked.with_valid(|valid| {
            self.with_keys(lows, stream, |lows| {
                self.with_keys(highs, stream, |highs| {
                    let mut scratch = RangeJoinScratch::new(self.map.device(), count).map_err(raise)?;
                    let mut join = |out: &mut DeviceJoin<V>| {
                        let on = self.joining(asked, valid, stream);
                        match by {
                            By::Ranges(closed) => on.range_join(lows, highs, closed, &mut scratch, out),
                            By::Bands(distance) => on.band_join(lows, distance, &mut scratch, out),
                        }
                    };
                    let out = self.joined(count, asked, &mut join).map_err(raise)?;
                    self.columns(stream, count, asked, out, scratch.hits())
                })
            })
        })
    }

    fn rows_between(&self, bounds: [In<'_>; 2], by: By, has_rows: bool) -> PyResult<Found> {
        let (lows, highs) = (self.keys(bounds[0])?, self.keys(bounds[1])?);
        let (firsts, lasts) = by.bounds().and_then(|bounds| bounds.on_host(&lows, &highs)).map_err(raise)?;
        // One row for each probe with a match is enough to know which these are.
        let join = if has_rows { Join::inner() } else { Join::semi() };
        let rows = self.map.range_join_many(&firsts, &lasts, Closed::Both, &join).map_err(raise)?;
        Ok(found_rows(rows))
    }

    fn one(&self, queries: In<'_>, is_last: bool, results: Results<'_>, stream: &lanetree::Stream) -> PyResult<()> {
        let (device, count) = (self.map.device(), queries.len());
        if queries.is_device() {
            let mut scratch = Scratch::new(device, count).map_err(raise)?;
            return self.with_keys(queries, stream, |keys| {
                with_results((device, &self.cache), count, results, stream, |values, hits, miss| {
                    let on = self.map.on(stream).hits(hits).miss(miss);
                    match is_last {
                        true => on.last(keys, values, &mut scratch),
                        false => on.first(keys, values, &mut scratch),
                    }
                    .map_err(raise)
                })
            });
        }
        let queries = self.keys(queries)?;
        let found = if is_last { self.map.last_many(&queries) } else { self.map.first_many(&queries) };
        write_found(&found.map_err(raise)?, results)
    }

    fn rank(&self, queries: In<'_>, upper: bool, ranks: In<'_>, stream: &lanetree::Stream) -> PyResult<()> {
        if !queries.is_device() {
            let queries = self.keys(queries)?;
            let found = if upper { self.map.upper_bound_many(&queries) } else { self.map.lower_bound_many(&queries) };
            let ranks = ranks.host_mut::<u64>()?;
            check_len(queries.len(), ranks.len())?;
            ranks.copy_from_slice(&found.map_err(raise)?);
            return Ok(());
        }
        let mut ranks = ranks.device()?.write()?;
        let ranks = ranks.as_mut().ok_or_else(closed)?.write::<u64>()?;
        let mut scratch = RangeScratch::new(self.map.device(), queries.len(), 0).map_err(raise)?;
        self.with_keys(queries, stream, |keys| {
            let on = self.map.on(stream);
            match upper {
                true => on.upper_bound(keys, ranks, &mut scratch),
                false => on.lower_bound(keys, ranks, &mut scratch),
            }
            .map_err(raise)
        })
    }

    fn neighbor(
        &self,
        queries: In<'_>,
        predecessor: bool,
        keys: In<'_>,
        results: Results<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<()> {
        let (device, count) = (self.map.device(), queries.len());
        if queries.is_device() {
            let mut near = keys.device()?.write()?;
            let near = near.as_mut().ok_or_else(closed)?.write::<K>()?;
            let mut scratch = Scratch::new(device, count).map_err(raise)?;
            self.with_keys(queries, stream, |keys| {
                with_results((device, &self.cache), count, results, stream, |values, hits, miss| {
                    let on = self.map.on(stream).hits(hits).miss(miss);
                    match predecessor {
                        true => on.predecessor(keys, near, values, &mut scratch),
                        false => on.successor(keys, near, values, &mut scratch),
                    }
                    .map_err(raise)
                })
            })?;
            return match self.floats {
                true => lanetree::restore_floats(stream, near).map_err(raise),
                false => Ok(()),
            };
        }
        let (queries, near) = (self.keys(queries)?, keys.host_mut::<K>()?);
        check_len(count, near.len())?;
        let pairs = if predecessor { self.map.predecessor_many(&queries) } else { self.map.successor_many(&queries) };
        let pairs = pairs.map_err(raise)?;
        let key = |key: K| if self.floats { key.unorder() } else { key };
        near.iter_mut().zip(&pairs).for_each(|(to, pair)| *to = pair.map_or(K::default(), |pair| key(pair.0)));
        write_found(&gather(count, pairs.iter().map(|pair| pair.map(|pair| pair.1)))?, results)
    }

    fn range(&self, bounds: [In<'_>; 2], closed: [bool; 2], limit: u64, stream: &lanetree::Stream) -> PyResult<Found> {
        if !bounds[0].is_device() {
            let ranges = self.map.range_many(self.ranges(bounds, closed, limit)?).map_err(raise)?;
            return Ok(self.found(ranges));
        }
        let (device, count) = (self.map.device(), bounds[0].len());
        let mut out = self.with_bounds(bounds, closed, stream, |starts, ends| {
            let find = || -> lanetree::Result<DeviceRanges<K, V>> {
                let (on, mut scratch) = (self.map.on(stream).limit(limit), RangeScratch::new(device, count, 0)?);
                // Offsets alone, which say how many pairs there are.
                let mut out = DeviceRanges::new(device, count, 0)?;
                on.range(starts, ends, &mut scratch, &mut out)?;
                let mut total = [0];
                out.offsets.copy_range_to(count, &mut total)?;
                let total = total[0] as usize;
                drop(scratch);
                let mut scratch = RangeScratch::new(device, count, total)?;
                (out.keys, out.values) = (device.alloc(total)?, device.alloc(total)?);
                on.range(starts, ends, &mut scratch, &mut out)?;
                Ok(out)
            };
            find().map_err(raise)
        })?;
        if self.floats {
            lanetree::restore_floats(stream, &mut out.keys).map_err(raise)?;
        }
        let (offsets, keys) = (Memory::new(out.offsets), Memory::new(key_words(out.keys)));
        Ok(Found::Device(Box::new((offsets, keys, V::memory(out.values)))))
    }

    fn count_range(
        &self,
        bounds: [In<'_>; 2],
        closed: [bool; 2],
        counts: In<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<()> {
        if !bounds[0].is_device() {
            let found = self.map.count_range_many(self.ranges(bounds, closed, u64::MAX)?).map_err(raise)?;
            let counts = counts.host_mut::<u64>()?;
            check_len(found.len(), counts.len())?;
            counts.copy_from_slice(&found);
            return Ok(());
        }
        let mut counts = counts.device()?.write()?;
        let counts = counts.as_mut().ok_or_else(memory::closed)?.write::<u64>()?;
        self.with_bounds(bounds, closed, stream, |starts, ends| {
            let mut scratch = RangeScratch::new(self.map.device(), starts.len(), 0).map_err(raise)?;
            self.map.on(stream).count_range(starts, ends, counts, &mut scratch).map_err(raise)
        })
    }

    fn insert(&mut self, keys: In<'_>, values: In<'_>, stream: &lanetree::Stream) -> PyResult<UpdateReport> {
        if let (In::Host(_), In::Host(_)) = (keys, values) {
            let keys = self.keys(keys)?;
            return self.map.insert_many(&keys, values.host()?).map_err(raise);
        }
        let device = self.map.device().clone();
        let map = &mut self.map;
        with_keys(&device, self.floats, keys, stream, |keys| {
            with_values(&device, values, |values| map.insert_on(stream, keys, values).map_err(raise))
        })
    }

    fn remove(&mut self, keys: In<'_>, values: Option<HostSlice>, stream: &lanetree::Stream) -> PyResult<UpdateReport> {
        match (keys, values) {
            (In::Host(_), None) => {
                let keys = self.keys(keys)?;
                self.map.remove_all_many(&keys).map_err(raise)
            }
            (In::Host(_), Some(values)) => {
                let (keys, values) = (self.keys(keys)?, In::Host(values).host::<V>()?);
                if keys.len() != values.len() {
                    return Err(raise(lanetree::Error::LengthMismatch { keys: keys.len(), values: values.len() }));
                }
                let pairs = gather(keys.len(), keys.iter().copied().zip(values.iter().copied()))?;
                self.map.remove_pairs_many(&pairs).map_err(raise)
            }
            (In::Device(_), None) => {
                let device = self.map.device().clone();
                let map = &mut self.map;
                with_keys(&device, self.floats, keys, stream, |keys| map.remove_all_on(stream, keys).map_err(raise))
            }
            (In::Device(_), Some(_)) => Err(value_error("pairs to remove are arrays in host memory")),
        }
    }

    fn pairs(&self) -> PyResult<Found> {
        let pairs = self.map.pairs().map_err(raise)?;
        let keys = gather(pairs.len(), pairs.iter().map(|pair| pair.0))?;
        let values = gather(pairs.len(), pairs.iter().map(|pair| pair.1))?;
        Ok(self.found(Ranges { offsets: vec![0, keys.len() as u64], keys, values }))
    }
}

fn build<K: PyKey, V: Word + PyValue>(
    (device, cache): (&lanetree::Device, Arc<Cache>),
    floats: bool,
    keys: In<'_>,
    values: In<'_>,
    stream: &lanetree::Stream,
) -> PyResult<Box<dyn AnyMap>> {
    let map = match (keys, values) {
        (In::Host(_), In::Host(_)) => {
            let keys = keys.host::<K>()?;
            let keys = if floats { Cow::Owned(ordered(keys)?) } else { Cow::Borrowed(keys) };
            MultiMap::build(device, &keys, values.host::<V>()?).map_err(raise)?
        }
        _ => with_keys(device, floats, keys, stream, |keys| {
            with_values(device, values, |values| {
                if keys.len() != values.len() {
                    return Err(raise(lanetree::Error::LengthMismatch { keys: keys.len(), values: values.len() }));
                }
                MultiMap::build_on(stream, keys, values, keys.len()).map_err(raise)
            })
        })?,
    };
    Ok(Box::new(Typed { map, floats, cache }))
}

/// A multi-map.
#[pyclass(frozen, module = "lanetree._native")]
pub(crate) struct Multi {
    map: Held<Box<dyn AnyMap>>,
    /// The stream of calls that name none.
    stream: lanetree::Stream,
}

impl Multi {
    fn with<R: Send>(&self, py: Python<'_>, call: impl FnOnce(&dyn AnyMap) -> PyResult<R> + Send) -> PyResult<R> {
        self.map.read(py, |map| call(&**map))
    }

    fn change(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut dyn AnyMap) -> PyResult<UpdateReport> + Send,
    ) -> PyResult<(u64, u64, u64)> {
        let report = self.map.change(py, |map| call(&mut **map))?;
        Ok((report.inserted, report.removed, report.unmatched))
    }

    fn on<'a>(&'a self, stream: Option<&'a Bound<'_, Stream>>) -> PyResult<On<'a>> {
        On::new(stream, &self.stream)
    }
}

fn in_host(input: &Input<'_>) -> PyResult<HostSlice> {
    match input.get() {
        In::Host(slice) => Ok(slice),
        In::Device(_) => Err(value_error("this call takes arrays in host memory")),
    }
}

#[pymethods]
impl Multi {
    #[new]
    #[pyo3(signature = (device, key, keys, values, value_bytes, stream=None))]
    fn new(
        py: Python<'_>,
        device: &Device,
        key: &str,
        keys: Input<'_>,
        values: Input<'_>,
        value_bytes: usize,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<Self> {
        check_not_forked()?;
        let (device, cache) = (device.get(), device.cache().clone());
        let own = device.stream().map_err(raise_runtime)?;
        let on = On::new(stream, &own)?;
        let (keys, values, floats) = (keys.get(), values.get(), key.starts_with('f'));
        let build = match (key, value_bytes) {
            ("u32" | "f32", 4) => build::<u32, u32>,
            ("u32" | "f32", 8) => build::<u32, u64>,
            ("i32", 4) => build::<i32, u32>,
            ("i32", 8) => build::<i32, u64>,
            ("u64" | "f64", 4) => build::<u64, u32>,
            ("u64" | "f64", 8) => build::<u64, u64>,
            ("i64", 4) => build::<i64, u32>,
            ("i64", 8) => build::<i64, u64>,
            _ => return Err(PyTypeError::new_err(format!("no index of keys {key} and values of {value_bytes} bytes"))),
        };
        let map = py.detach(|| build((device, cache), floats, keys, values, &on))?;
        let stream = map.device().stream().map_err(raise_runtime)?;
        Ok(Self { map: Held::new(map), stream })
    }

    /// Offsets, nothing, and values.
    #[pyo3(signature = (queries, stream=None))]
    fn get(&self, py: Python<'_>, queries: Input<'_>, stream: Option<&Bound<'_, Stream>>) -> PyResult<[Py<PyAny>; 3]> {
        let (queries, stream) = (queries.get(), self.on(stream)?);
        self.with(py, |map| map.get(queries, &stream))?.objects(py)
    }

    #[pyo3(signature = (queries, counts, stream=None))]
    fn count(
        &self,
        py: Python<'_>,
        queries: Input<'_>,
        counts: Input<'_>,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<()> {
        let (queries, counts, stream) = (queries.get(), counts.get(), self.on(stream)?);
        self.with(py, |map| map.count(queries, counts, &stream))
    }

    /// Joins a device's probes by key.
    #[pyo3(signature = (probes, how, valid, stream=None))]
    fn join(
        &self,
        py: Python<'_>,
        probes: Input<'_>,
        how: &str,
        valid: Option<Input<'_>>,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<Joined> {
        let (probes, asked, stream) = (probes.get(), Asked::new(how, valid.as_ref())?, self.on(stream)?);
        self.with(py, |map| map.join(probes, &asked, &stream))
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
    ) -> PyResult<Joined> {
        let (bounds, asked) = ([lows.get(), highs.get()], Asked::new(how, valid.as_ref())?);
        let (by, stream) = (By::new(closed, distance), self.on(stream)?);
        self.with(py, |map| map.join_between(bounds, by, &asked, &stream))
    }

    /// Offsets and values of the pairs between the bounds of probes in host memory; without rows one for each probe that has any.
    fn rows_between(
        &self,
        py: Python<'_>,
        lows: Input<'_>,
        highs: Input<'_>,
        closed: [bool; 2],
        distance: Option<u64>,
        has_rows: bool,
    ) -> PyResult<[Py<PyAny>; 3]> {
        let (bounds, by) = ([lows.get(), highs.get()], By::new(closed, distance));
        self.with(py, |map| map.rows_between(bounds, by, has_rows))?.objects(py)
    }

    /// The value of each key that was inserted first, or last.
    #[pyo3(signature = (queries, is_last, values, found, miss, stream=None))]
    #[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
    fn one(
        &self,
        py: Python<'_>,
        queries: Input<'_>,
        is_last: bool,
        values: Option<Input<'_>>,
        found: Input<'_>,
        miss: u64,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<()> {
        let results = Results { values: values.as_ref().map(Input::get), found: Some(found.get()), miss };
        let (queries, stream) = (queries.get(), self.on(stream)?);
        self.with(py, |map| map.one(queries, is_last, results, &stream))
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
        let (queries, ranks, stream) = (queries.get(), ranks.get(), self.on(stream)?);
        self.with(py, |map| map.rank(queries, upper, ranks, &stream))
    }

    #[pyo3(signature = (queries, predecessor, keys, values, found, miss, stream=None))]
    #[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
    fn neighbor(
        &self,
        py: Python<'_>,
        queries: Input<'_>,
        predecessor: bool,
        keys: Input<'_>,
        values: Input<'_>,
        found: Input<'_>,
        miss: u64,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<()> {
        let results = Results { values: Some(values.get()), found: Some(found.get()), miss };
        let (queries, keys, stream) = (queries.get(), keys.get(), self.on(stream)?);
        self.with(py, |map| map.neighbor(queries, predecessor, keys, results, &stream))
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
        let (bounds, stream) = ([starts.get(), ends.get()], self.on(stream)?);
        self.with(py, |map| map.range(bounds, closed, limit, &stream))?.objects(py)
    }

    #[pyo3(signature = (starts, ends, closed, counts, stream=None))]
    fn count_range(
        &self,
        py: Python<'_>,
        starts: Input<'_>,
        ends: Input<'_>,
        closed: [bool; 2],
        counts: Input<'_>,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<()> {
        let (bounds, counts, stream) = ([starts.get(), ends.get()], counts.get(), self.on(stream)?);
        self.with(py, |map| map.count_range(bounds, closed, counts, &stream))
    }

    #[pyo3(signature = (keys, values, stream=None))]
    fn insert(
        &self,
        py: Python<'_>,
        keys: Input<'_>,
        values: Input<'_>,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<(u64, u64, u64)> {
        let (keys, values, stream) = (keys.get(), values.get(), self.on(stream)?);
        self.change(py, |map| map.insert(keys, values, &stream))
    }

    /// Removes all pairs of keys, or one pair for each key and value.
    #[pyo3(signature = (keys, values, stream=None))]
    fn remove(
        &self,
        py: Python<'_>,
        keys: Input<'_>,
        values: Option<Input<'_>>,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<(u64, u64, u64)> {
        let values = values.as_ref().map(in_host).transpose()?;
        let (keys, stream) = (keys.get(), self.on(stream)?);
        self.change(py, |map| map.remove(keys, values, &stream))
    }

    fn pairs(&self, py: Python<'_>) -> PyResult<[Py<PyAny>; 3]> {
        self.with(py, |map| map.pairs())?.objects(py)
    }

    fn stats(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, u64>> {
        self.with(py, |map| {
            let stats = map.stats();
            Ok(BTreeMap::from([
                ("len", stats.len),
                ("keys", stats.keys),
                ("key_bytes", stats.key_bytes),
                ("value_bytes", stats.value_bytes),
                ("room", stats.room),
                ("bytes", stats.bytes()),
            ]))
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |map| Ok(map.stats().len as usize))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.map.close(py)
    }

    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.map.is_closed(py)
    }
}
