//! The multi-map behind one interface, whatever its keys and values are.

use crate::aggregate::{Aggregates, Numbers};
use crate::arguments::{Asked, By, Ends, Folding, Found, Outputs, Report, Request, Results, Sizes};
use crate::class::{Place, class, with_all_types};
use crate::errors::{raise, value_error};
use crate::host::numpy;
use crate::input::{In, Input};
use crate::join::{self, Joined};
use crate::keys::{Keys, check_values, found_rows, in_two, range_of, signed, values_on};
use crate::memory::Memory;
use crate::results::put_numbers;
use crate::types::{PyKey, PyValue, check_len, gather};
use lanetree::multimap::{
    AggregateScratch, DeviceJoin, DeviceRows, JoinScratch, OnStream, RangeJoinScratch, RangeScratch, Scratch,
};
use lanetree::{
    Aggregate, Buffer, Closed, DeviceAggregates, Join, JoinKind, KeyRange, MultiMap, Number, Ranges, Stream, Word,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

class! {
    /// A multi-map.
    Multi over AnyMap, by build(key: &str, keys: Input, values: Input, value_bytes: usize);

    /// Offsets, nothing of keys, and values of all keys.
    read get(queries: Input) -> Found;
    read count(queries: Input, counts: Input) -> ();
    /// Joins a device's probes by key.
    read join(probes: Input, asked: Request) -> Joined;
    /// Joins a device's probes by ranges.
    read join_between(bounds: [Input; 2], by: By, asked: Request) -> Joined;
    /// Offsets and values of the pairs between the bounds of probes in host memory; without rows one for each probe that has any.
    read rows_between(bounds: [Input; 2], by: By, has_rows: bool) -> Found;
    /// The value of each key that was inserted first, or last.
    read one(queries: Input, is_last: bool, results: Outputs) -> ();
    read rank(queries: Input, upper: bool, ranks: Input) -> ();
    read neighbor(queries: Input, predecessor: bool, keys: Input, results: Outputs) -> ();
    read range(bounds: [Input; 2], closed: Ends, limit: u64) -> Found;
    read count_range(bounds: [Input; 2], closed: Ends, counts: Input) -> ();
    /// Whether there are values, and an aggregate of them as numbers of a kind ("u", "i" or "f") of 64 bits.
    read aggregate(bounds: [Input; 2], closed: Ends, how: Folding) -> Found;
    change insert(keys: Input, values: Input) -> Report;
    /// Removes all pairs of keys, or one pair for each key and value, which are in host memory.
    change remove(keys: Input, values: Option<Input>) -> Report;
    read pairs() -> Found;
    {}
}

struct Typed<K: PyKey, V: Word> {
    map: MultiMap<K, V>,
    keys: Keys,
}

impl<K: PyKey, V: Word + PyValue> Typed<K, V> {
    /// A join of a device's probes.
    fn joining<'a>(&'a self, kind: JoinKind, valid: Option<&'a Buffer<u32>>, stream: &'a Stream) -> OnStream<'a, K, V> {
        let on = self.map.on(stream).kind(kind);
        let on = if kind == JoinKind::Left { on.miss(V::default()) } else { on };
        match valid {
            Some(valid) => on.valid(valid, 0),
            None => on,
        }
    }

    /// The rows of a join of `probes` probes on the device. Waits, to learn how many there are.
    fn joined(
        &self,
        probes: usize,
        kind: JoinKind,
        mut join: impl FnMut(&mut DeviceJoin<V>) -> lanetree::Result<()>,
    ) -> PyResult<DeviceJoin<V>> {
        let device = &self.keys.device;
        if !kind.has_rows() {
            let mut out = DeviceJoin::of_probes(device, probes).map_err(raise)?;
            join(&mut out).map_err(raise)?;
            return Ok(out);
        }
        let grow = |out: &mut DeviceJoin<V>, rows| {
            (out.probes, out.rows) = (device.alloc(rows)?, device.alloc(rows)?);
            Ok(())
        };
        in_two(DeviceJoin::new(device, probes, 0).map_err(raise)?, join, |out| (&out.count, 0), grow)
    }

    /// A join's columns; `hits` is the mask of the probes that have a match.
    fn columns(
        &self,
        stream: &Stream,
        probes: usize,
        kind: JoinKind,
        out: DeviceJoin<V>,
        hits: &Buffer<u32>,
    ) -> PyResult<Joined> {
        if !kind.has_rows() {
            return Ok((join::probes_of(stream, out.probes, probes, &out.count)?, None, None));
        }
        let found = join::found_of(stream, kind, (hits, probes), &out.probes)?;
        Ok((Memory::new(out.probes), V::memory(out.rows), found))
    }

    fn ranges(&self, bounds: [In<'_>; 2], closed: Closed, limit: u64) -> PyResult<Vec<KeyRange<K>>> {
        let [starts, ends] = self.keys.bounds(bounds, By::Ranges(closed))?;
        gather(starts.len(), starts.iter().zip(&ends[..]).map(range_of(limit)))
    }
}

impl<K: PyKey, V: Word + PyValue> Aggregates<V> for Typed<K, V> {
    type Key = K;

    fn keys(&self) -> &Keys {
        &self.keys
    }

    fn aggregate_many<A: Number<Word = V>>(
        &self,
        how: Aggregate,
        [firsts, lasts]: [&[K]; 2],
    ) -> lanetree::Result<Vec<Option<A::Wide>>> {
        self.map.aggregate_many::<A>(how, firsts, lasts)
    }

    fn aggregate_on<A: Number<Word = V>>(
        &self,
        stream: &Stream,
        how: Aggregate,
        [firsts, lasts]: [&Buffer<K>; 2],
        out: &mut DeviceAggregates<A::Wide>,
    ) -> lanetree::Result<()> {
        let mut scratch = AggregateScratch::new(&self.keys.device, firsts.len())?;
        self.map.on(stream).aggregate::<A>(how, firsts, lasts, &mut scratch, out)
    }
}

impl<K: PyKey, V: Word + Numbers> AnyMap for Typed<K, V> {
    fn device(&self) -> &lanetree::Device {
        &self.keys.device
    }

    fn sizes(&self) -> Sizes {
        let stats = self.map.stats();
        Sizes::from([
            ("len", stats.len),
            ("keys", stats.keys),
            ("key_bytes", stats.key_bytes),
            ("value_bytes", stats.value_bytes),
            ("room", stats.room),
            ("bytes", stats.bytes()),
        ])
    }

    fn get(&self, queries: In<'_>, stream: &Stream) -> PyResult<Found> {
        let (device, count) = (&self.keys.device, queries.len());
        if !queries.is_device() {
            let rows = self.map.get_all_many(&self.keys.host(queries)?).map_err(raise)?;
            return Ok(Found::host(move |py| {
                Ok([numpy(py, signed(rows.offsets)), py.None(), V::array(py, rows.values)])
            }));
        }
        let rows = self.keys.on(stream, queries, |keys| {
            let mut scratch = Scratch::new(device, count).map_err(raise)?;
            let find = |rows: &mut DeviceRows<V>| self.map.on(stream).get_all(keys, &mut scratch, rows);
            let grow = |rows: &mut DeviceRows<V>, total| {
                rows.values = device.alloc(total)?;
                Ok(())
            };
            in_two(DeviceRows::new(device, count, 0).map_err(raise)?, find, |rows| (&rows.offsets, count), grow)
        })?;
        Ok(Found::device(Memory::new(rows.offsets), None, V::memory(rows.values)))
    }

    fn count(&self, queries: In<'_>, counts: In<'_>, stream: &Stream) -> PyResult<()> {
        if !queries.is_device() {
            return put_numbers(self.map.count_many(&self.keys.host(queries)?), counts);
        }
        let mut counts = counts.write()?;
        let mut scratch = Scratch::new(&self.keys.device, queries.len()).map_err(raise)?;
        self.keys.on(stream, queries, |keys| self.map.on(stream).count(keys, &mut counts, &mut scratch).map_err(raise))
    }

    fn join(&self, probes: In<'_>, asked: Asked<'_>, stream: &Stream) -> PyResult<Joined> {
        let (count, kind, valid) = (probes.len(), asked.kind, asked.valid()?);
        self.keys.on(stream, probes, |keys| {
            let mut scratch = JoinScratch::new(&self.keys.device, count).map_err(raise)?;
            let out = self.joined(count, kind, |out| {
                self.joining(kind, valid.as_deref(), stream).join(keys, &mut scratch, out)
            })?;
            self.columns(stream, count, kind, out, scratch.hits())
        })
    }

    fn join_between(&self, bounds: [In<'_>; 2], by: By, asked: Asked<'_>, stream: &Stream) -> PyResult<Joined> {
        let (count, kind, valid) = (bounds[0].len(), asked.kind, asked.valid()?);
        self.keys.both_on(stream, bounds, |lows, highs| {
            let mut scratch = RangeJoinScratch::new(&self.keys.device, count).map_err(raise)?;
            let out = self.joined(count, kind, |out| {
                let on = self.joining(kind, valid.as_deref(), stream);
                match by {
                    By::Ranges(closed) => on.range_join(lows, highs, closed, &mut scratch, out),
                    By::Bands(distance) => on.band_join(lows, distance, &mut scratch, out),
                }
            })?;
            self.columns(stream, count, kind, out, scratch.hits())
        })
    }

    fn rows_between(&self, bounds: [In<'_>; 2], by: By, has_rows: bool, _: &Stream) -> PyResult<Found> {
        let [firsts, lasts] = self.keys.bounds(bounds, by)?;
        // One row for each probe with a match is enough to know which these are.
        let join = if has_rows { Join::inner() } else { Join::semi() };
        Ok(found_rows(self.map.range_join_many(&firsts, &lasts, Closed::Both, &join).map_err(raise)?))
    }

    fn one(&self, queries: In<'_>, is_last: bool, results: Results<'_>, stream: &Stream) -> PyResult<()> {
        if !queries.is_device() {
            let queries = self.keys.host(queries)?;
            let found = if is_last { self.map.last_many(&queries) } else { self.map.first_many(&queries) };
            return results.put(found, |value: V| value);
        }
        let mut scratch = Scratch::new(&self.keys.device, queries.len()).map_err(raise)?;
        self.keys.on(stream, queries, |keys| {
            results.on(&self.keys, keys.len(), stream, |values, hits, miss| {
                let on = self.map.on(stream).hits(hits).miss(miss);
                match is_last {
                    true => on.last(keys, values, &mut scratch),
                    false => on.first(keys, values, &mut scratch),
                }
            })
        })
    }

    fn rank(&self, queries: In<'_>, upper: bool, ranks: In<'_>, stream: &Stream) -> PyResult<()> {
        if !queries.is_device() {
            let queries = self.keys.host(queries)?;
            let found = if upper { self.map.upper_bound_many(&queries) } else { self.map.lower_bound_many(&queries) };
            return put_numbers(found, ranks);
        }
        let mut ranks = ranks.write()?;
        let mut scratch = RangeScratch::new(&self.keys.device, queries.len(), 0).map_err(raise)?;
        self.keys.on(stream, queries, |keys| {
            let on = self.map.on(stream);
            match upper {
                true => on.upper_bound(keys, &mut ranks, &mut scratch),
                false => on.lower_bound(keys, &mut ranks, &mut scratch),
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
        stream: &Stream,
    ) -> PyResult<()> {
        if queries.is_device() {
            let mut near = keys.write::<K>()?;
            let mut scratch = Scratch::new(&self.keys.device, queries.len()).map_err(raise)?;
            self.keys.on(stream, queries, |keys| {
                results.on(&self.keys, keys.len(), stream, |values, hits, miss| {
                    let on = self.map.on(stream).hits(hits).miss(miss);
                    match predecessor {
                        true => on.predecessor(keys, &mut near, values, &mut scratch),
                        false => on.successor(keys, &mut near, values, &mut scratch),
                    }
                })
            })?;
            return self.keys.give_on(stream, &mut near);
        }
        let (queries, near) = (self.keys.host(queries)?, keys.host_mut::<K>()?);
        check_len(queries.len(), near.len())?;
        let pairs = if predecessor { self.map.predecessor_many(&queries) } else { self.map.successor_many(&queries) };
        let pairs = pairs.map_err(raise)?;
        let key = |key: K| if self.keys.is_other { key.unorder() } else { key };
        near.iter_mut().zip(&pairs).for_each(|(to, pair)| *to = pair.map_or(K::default(), |pair| key(pair.0)));
        results.put(Ok(pairs), |pair: (K, V)| pair.1)
    }

    fn range(&self, bounds: [In<'_>; 2], closed: Closed, limit: u64, stream: &Stream) -> PyResult<Found> {
        if !bounds[0].is_device() {
            return Ok(self.keys.found(self.map.range_many(self.ranges(bounds, closed, limit)?).map_err(raise)?));
        }
        let found = self.keys.bounds_on(stream, bounds, closed, |starts, ends| {
            self.keys.ranges_on(starts.len(), |out| {
                let mut scratch = RangeScratch::new(&self.keys.device, starts.len(), out.keys.len())?;
                self.map.on(stream).limit(limit).range(starts, ends, &mut scratch, out)
            })
        })?;
        self.keys.found_on(stream, found)
    }

    fn count_range(&self, bounds: [In<'_>; 2], closed: Closed, counts: In<'_>, stream: &Stream) -> PyResult<()> {
        if !bounds[0].is_device() {
            return put_numbers(self.map.count_range_many(self.ranges(bounds, closed, u64::MAX)?), counts);
        }
        let mut counts = counts.write()?;
        self.keys.bounds_on(stream, bounds, closed, |starts, ends| {
            let mut scratch = RangeScratch::new(&self.keys.device, starts.len(), 0).map_err(raise)?;
            self.map.on(stream).count_range(starts, ends, &mut counts, &mut scratch).map_err(raise)
        })
    }

    fn aggregate(&self, bounds: [In<'_>; 2], closed: Closed, how: Folding, stream: &Stream) -> PyResult<Found> {
        V::aggregate(self, bounds, closed, how, stream)
    }

    fn insert(&mut self, keys: In<'_>, values: In<'_>, stream: &Stream) -> PyResult<Report> {
        let Self { map, keys: form } = self;
        if !keys.is_device() {
            return Ok(map.insert_many(&form.host(keys)?, values.host()?).map_err(raise)?.into());
        }
        let values = values_on(&form.device, keys.len(), Some(values))?;
        form.on(stream, keys, |keys| Ok(map.insert_on(stream, keys, &values).map_err(raise)?.into()))
    }

    fn remove(&mut self, keys: In<'_>, values: Option<In<'_>>, stream: &Stream) -> PyResult<Report> {
        let Self { map, keys: form } = self;
        let done = match values {
            None if keys.is_device() => form.on(stream, keys, |keys| map.remove_all_on(stream, keys).map_err(raise))?,
            None => map.remove_all_many(&form.host(keys)?).map_err(raise)?,
            Some(values) if keys.is_device() || values.is_device() => {
                return Err(value_error("pairs to remove are arrays in host memory"));
            }
            Some(values) => {
                let (keys, values) = (form.host::<K>(keys)?, values.host::<V>()?);
                check_values(keys.len(), values.len())?;
                let pairs = gather(keys.len(), keys.iter().copied().zip(values.iter().copied()))?;
                map.remove_pairs_many(&pairs).map_err(raise)?
            }
        };
        Ok(done.into())
    }

    fn pairs(&self, _: &Stream) -> PyResult<Found> {
        let pairs = self.map.pairs().map_err(raise)?;
        let keys = gather(pairs.len(), pairs.iter().map(|pair| pair.0))?;
        let values = gather(pairs.len(), pairs.iter().map(|pair| pair.1))?;
        Ok(self.keys.found(Ranges { offsets: vec![0, keys.len() as u64], keys, values }))
    }
}

fn build(place: &Place<'_>, key: &str, keys: In<'_>, values: In<'_>, value_bytes: usize) -> PyResult<Box<dyn AnyMap>> {
    let form = Keys::new(place, key);
    let built = with_all_types!(key, value_bytes, [4 u32, 8 u64], build_of::<K, V>(place.stream, form, keys, values));
    built.unwrap_or_else(|| {
        Err(PyTypeError::new_err(format!("no index of keys {key} and values of {value_bytes} bytes")))
    })
}

fn build_of<K: PyKey, V: Word + Numbers>(
    stream: &Stream,
    form: Keys,
    keys: In<'_>,
    values: In<'_>,
) -> PyResult<Box<dyn AnyMap>> {
    let map = if keys.is_device() {
        let values = values_on(&form.device, keys.len(), Some(values))?;
        form.on(stream, keys, |keys| MultiMap::build_on(stream, keys, &values, keys.len()).map_err(raise))?
    } else {
        MultiMap::build(&form.device, &form.host::<K>(keys)?, values.host::<V>()?).map_err(raise)?
    };
    Ok(Box::new(Typed { map, keys: form }))
}
