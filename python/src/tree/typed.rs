//! LaneTree behind one interface, whatever its keys and values are. Keys are instantiated by their words and signs; floats are ordered
//! words, made here, and 16 bytes are numbers; values are words of 32 or 64 bits, or nothing in sets.

use super::{AnyTree, Between};
use crate::aggregate::{Aggregates, Numbers};
use crate::arguments::{Asked, By, Folding, Found, Kinds, Report, Results, Sizes};
use crate::buffers::alloc;
use crate::errors::{raise, raise_runtime, value_error};
use crate::host::numpy;
use crate::input::In;
use crate::join::{self, Joined};
use crate::keys::{Keys, check_values, found_rows, in_two, memory_of, range_of, values_on};
use crate::memory::Memory;
use crate::results::put_numbers;
use crate::types::{PyKey, PyValue, check_len, gather, zeroed};
use lanetree::bindings::parallel::*;
use lanetree::bindings::{Searches, Side, TASK, View, compact};
use lanetree::lane_tree::UpdateScratch;
use lanetree::{
    Aggregate, AggregateScratch, AnyKey, AsOf, Batch, Buffer, Closed, Combine, DeviceAggregates, DeviceRangeMatches,
    FixedIndex, HostForm, Join, JoinKind, LaneTree, NearestScratch, Number, OnStream, Op, OpKind, RangeJoinScratch,
    RangeScratch, Ranges, Scans, Stream, Value, Word,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::any::Any;
use std::borrow::Cow;
use std::iter::repeat_n;

pub(crate) struct Typed<K: AnyKey, V: Value> {
    pub(crate) tree: LaneTree<K, V>,
    pub(crate) keys: Keys,
}

impl<K: PyKey, V: PyValue> Typed<K, V> {
    fn on<'a>(&'a self, stream: &'a Stream) -> OnStream<'a, LaneTree<K, V>> {
        OnStream::new(&self.tree, stream)
    }

    /// The neighbours of queries in host memory.
    fn near(
        &self,
        queries: In<'_>,
        searches: &Searches<K::Bits>,
        keys: Option<In<'_>>,
        results: Results<'_>,
    ) -> PyResult<()> {
        let queries = self.keys.host::<K>(queries)?;
        let keys = keys.map(In::host_mut::<K>).transpose()?;
        let part = |range| Cow::Borrowed(&queries[range]);
        let Some(keys) = keys else { return results.near(&self.tree, queries.len(), part, searches, None) };
        // Where there is none, the key is the float 0.0 too.
        let none = if self.keys.is_other { K::default().order() } else { K::default() };
        results.near(&self.tree, queries.len(), part, searches, Some((keys, none)))?;
        self.keys.give(keys);
        Ok(())
    }
}

impl<K: PyKey, V: PyValue> Aggregates<V> for Typed<K, V> {
    type Key = K;

    fn keys(&self) -> &Keys {
        &self.keys
    }

    fn aggregate_many<A: Number<Word = V>>(
        &self,
        how: Aggregate,
        [firsts, lasts]: [&[K]; 2],
    ) -> lanetree::Result<Vec<Option<A::Wide>>>
    where
        V: Word,
    {
        HostForm::aggregate_many::<A>(&self.tree, how, firsts, lasts)
    }

    fn aggregate_on<A: Number<Word = V>>(
        &self,
        stream: &Stream,
        how: Aggregate,
        [firsts, lasts]: [&Buffer<K>; 2],
        out: &mut DeviceAggregates<A::Wide>,
    ) -> lanetree::Result<()>
    where
        V: Word,
    {
        let mut scratch = AggregateScratch::new(&self.keys.device, firsts.len())?;
        self.on(stream).aggregate::<A>(how, firsts, lasts, &mut scratch, out)
    }
}

impl<K: PyKey, V: Numbers> AnyTree for Typed<K, V>
where
    LaneTree<K, V>: Scans<Key = K, Value = V>,
{
    fn device(&self) -> &lanetree::Device {
        &self.keys.device
    }

    fn sizes(&self) -> Sizes {
        let stats = self.tree.stats();
        Sizes::from([
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
        ])
    }

    fn get(&self, queries: In<'_>, results: Results<'_>, stream: &Stream) -> PyResult<()> {
        if queries.is_device() {
            return self.keys.on(stream, queries, |keys| {
                results.on(&self.keys, keys.len(), stream, |values, hits, miss| {
                    self.on(stream).hits(hits).miss(miss).get(keys, values)
                })
            });
        }
        let queries = self.keys.host(queries)?;
        let Some(view) = self.tree.native() else {
            return results.put(HostForm::get_many(&self.tree, &queries), |value: V| value);
        };
        results.fill(queries.len(), |range, values, found, miss| {
            view.get(&queries[range], |i, hit| {
                found[i] = u8::from(hit.is_some());
                values[i] = hit.unwrap_or(miss);
            });
        })
    }

    fn rank(&self, queries: In<'_>, upper: bool, ranks: In<'_>, stream: &Stream) -> PyResult<()> {
        if queries.is_device() {
            let mut ranks = ranks.write()?;
            return self.keys.on(stream, queries, |keys| {
                let on = self.on(stream);
                if upper { on.upper_bound(keys, &mut ranks) } else { on.lower_bound(keys, &mut ranks) }.map_err(raise)
            });
        }
        let queries = self.keys.host(queries)?;
        let Some(view) = self.tree.native() else {
            let side = if upper { Side::Upper } else { Side::Lower };
            return put_numbers(HostForm::rank_many(&self.tree, &queries, side), ranks);
        };
        let ranks = ranks.host_mut::<u64>()?;
        check_len(queries.len(), ranks.len())?;
        queries.par_chunks(TASK).zip(ranks.par_chunks_mut(TASK)).for_each(|(queries, ranks)| {
            view.rank(queries, upper, |i, rank| ranks[i] = rank);
        });
        Ok(())
    }

    fn neighbor(
        &self,
        queries: In<'_>,
        predecessor: bool,
        keys: In<'_>,
        results: Results<'_>,
        stream: &Stream,
    ) -> PyResult<()> {
        if !queries.is_device() {
            let side = if predecessor { Side::Upper } else { Side::Lower };
            return self.near(queries, &Searches::any(side), Some(keys), results);
        }
        let mut near = keys.write::<K>()?;
        self.keys.on(stream, queries, |queries| {
            results.on(&self.keys, queries.len(), stream, |values, hits, miss| {
                let on = self.on(stream).hits(hits).miss(miss);
                match predecessor {
                    true => on.predecessor(queries, &mut near, values),
                    false => on.successor(queries, &mut near, values),
                }
            })
        })?;
        self.keys.give_on(stream, &mut near)
    }

    fn asof(
        &self,
        queries: In<'_>,
        how: AsOf,
        keys: Option<In<'_>>,
        results: Results<'_>,
        stream: &Stream,
    ) -> PyResult<()> {
        if !queries.is_device() {
            return self.near(queries, &how.searches::<K>().map_err(raise)?, keys, results);
        }
        let missing = || value_error("an output is missing");
        let mut near = keys.ok_or_else(missing)?.write::<K>()?;
        if results.found.is_none() {
            return Err(missing());
        }
        self.keys.on(stream, queries, |queries| {
            results.on(&self.keys, queries.len(), stream, |values, hits, miss| match hits {
                Some(hits) => self.on(stream).miss(miss).asof(queries, &how, &mut near, values, hits),
                None => Ok(()),
            })
        })?;
        self.keys.give_on(stream, &mut near)
    }

    fn range(&self, bounds: [In<'_>; 2], closed: Closed, limit: u64, stream: &Stream) -> PyResult<Found> {
        if bounds[0].is_device() {
            let found = self.keys.bounds_on(stream, bounds, closed, |starts, ends| {
                let mut scratch = RangeScratch::new(&self.keys.device, starts.len()).map_err(raise)?;
                let on = || self.on(stream).limit(limit);
                self.keys.ranges_on(starts.len(), |out| on().range(starts, ends, &mut scratch, out))
            })?;
            return self.keys.found_on(stream, found);
        }
        let [starts, ends] = self.keys.bounds(bounds, By::Ranges(closed))?;
        let mut out = Ranges::default();
        match limit {
            u64::MAX => HostForm::range_between_many_into(&self.tree, &starts, &ends, &mut out),
            _ => HostForm::range_many_into(&self.tree, starts.iter().zip(&ends[..]).map(range_of(limit)), &mut out),
        }
        .map_err(raise)?;
        Ok(self.keys.found(out))
    }

    fn count(&self, bounds: [In<'_>; 2], closed: Closed, counts: In<'_>, stream: &Stream) -> PyResult<()> {
        let mut counts = counts.write()?;
        self.keys.bounds_on(stream, bounds, closed, |starts, ends| {
            self.on(stream).count_range(starts, ends, &mut counts).map_err(raise)
        })
    }

    fn scan(&self, starts: In<'_>, limit: u32, stream: &Stream) -> PyResult<Found> {
        let (device, pairs) = (&self.keys.device, starts.len().saturating_mul(limit as usize));
        let room = || -> lanetree::runtime::Result<_> {
            Ok((device.alloc_zeroed(pairs)?, device.alloc_zeroed(pairs)?, device.alloc_zeroed(starts.len())?))
        };
        let (mut keys, mut values, mut counts) = room().map_err(raise_runtime)?;
        self.keys.on(stream, starts, |starts| {
            self.on(stream).scan(starts, limit, &mut keys, &mut values, &mut counts).map_err(raise)
        })?;
        if starts.is_device() {
            self.keys.give_on(stream, &mut keys)?;
            return Ok(Found::device(Memory::new(counts), Some(memory_of(keys)?), V::memory(values)));
        }
        let download = || -> lanetree::runtime::Result<_> { Ok((keys.to_vec()?, values.to_vec()?, counts.to_vec()?)) };
        let (mut keys, values, counts): (Vec<K>, Vec<V>, Vec<u32>) = download().map_err(raise_runtime)?;
        self.keys.give(&mut keys);
        Ok(Found::host(move |py| Ok([numpy(py, counts), K::numpy(py, keys), V::array(py, values)])))
    }

    fn pairs(&self, on_device: bool, stream: &Stream) -> PyResult<Found> {
        let (device, len) = (&self.keys.device, FixedIndex::len(&self.tree) as usize);
        let offsets = [0, len as u64];
        if let (Some(view), false) = (self.tree.native(), on_device) {
            let (mut keys, mut values) = (zeroed::<K>(len)?, zeroed::<V>(len)?);
            let tasks = keys.par_chunks_mut(TASK).zip(values.par_chunks_mut(TASK)).enumerate();
            tasks.for_each(|(task, (keys, values))| view.copy((task * TASK) as u64, keys, values));
            return Ok(self.keys.found(Ranges { offsets: offsets.into(), keys, values }));
        }
        let (mut keys, mut values) = (alloc::<K>(device, len)?, alloc::<V>(device, len)?);
        self.on(stream).pairs(&mut keys, &mut values).map_err(raise)?;
        if on_device {
            let offsets = device.upload(&offsets).map_err(raise_runtime)?;
            return self.keys.found_on(stream, lanetree::DeviceRanges { offsets, keys, values });
        }
        let (keys, values) = (keys.to_vec().map_err(raise_runtime)?, values.to_vec().map_err(raise_runtime)?);
        Ok(self.keys.found(Ranges { offsets: offsets.into(), keys, values }))
    }

    fn join(&self, probes: In<'_>, asof: Option<AsOf>, asked: Asked<'_>, stream: &Stream) -> PyResult<Joined> {
        let hits = self.keys.on(stream, probes, |keys| join::hits_of(&self.tree, keys, asof, stream))?;
        join::rows_of_hits(stream, asked, (hits.0, probes.len()), hits.1)
    }

    fn asof_rows(&self, probes: In<'_>, how: AsOf, _: &Stream) -> PyResult<Found> {
        let probes = self.keys.host(probes)?;
        Ok(found_rows(HostForm::asof_join_many(&self.tree, &probes, &how, &Join::inner()).map_err(raise)?))
    }

    fn join_between(&self, bounds: [In<'_>; 2], by: By, asked: Asked<'_>, stream: &Stream) -> PyResult<Between> {
        let (device, count, kind) = (&self.keys.device, bounds[0].len(), asked.kind);
        let mut scratch = RangeJoinScratch::new(device, count).map_err(raise)?;
        let valid = asked.valid()?;
        let mut out = self.keys.both_on(stream, bounds, |lows: &Buffer<K>, highs| {
            let mut join = |out: &mut DeviceRangeMatches<K, V>| {
                let mut on = self.on(stream).kind(kind);
                if kind == JoinKind::Left {
                    on = on.miss(V::default());
                }
                if let Some(valid) = &valid {
                    on = on.valid(valid, 0);
                }
                match by {
                    By::Ranges(closed) => on.range_join(lows, highs, closed, &mut scratch, out),
                    By::Bands(distance) => on.band_join(lows, distance, &mut scratch, out),
                }
            };
            let mut out = DeviceRangeMatches::new(device, count, 0).map_err(raise)?;
            if !kind.has_rows() {
                out.probes = alloc(device, count)?;
                join(&mut out).map_err(raise)?;
                return Ok(out);
            }
            let grow = |out: &mut DeviceRangeMatches<K, V>, total| {
                (out.pairs.keys, out.pairs.values) = (device.alloc(total)?, device.alloc(total)?);
                out.probes = device.alloc(total)?;
                Ok(())
            };
            in_two(out, join, |out| (&out.pairs.offsets, count), grow)
        })?;
        if !kind.has_rows() {
            return Ok((join::probes_of(stream, out.probes, count, &out.pairs.offsets)?, None, None, None));
        }
        self.keys.give_on(stream, &mut out.pairs.keys)?;
        let found = join::found_of(stream, kind, (scratch.hits(), count), &out.probes)?;
        let (keys, values) = (memory_of(out.pairs.keys)?, V::memory(out.pairs.values));
        Ok((Memory::new(out.probes), Some(keys), values, found))
    }

    fn rows_between(&self, bounds: [In<'_>; 2], by: By, _: &Stream) -> PyResult<Found> {
        let [firsts, lasts] = self.keys.bounds(bounds, by)?;
        let mut out = Ranges::default();
        HostForm::range_between_many_into(&self.tree, &firsts, &lasts, &mut out).map_err(raise)?;
        Ok(self.keys.found(out))
    }

    fn k_nearest(&self, queries: In<'_>, k: u64, how: AsOf, stream: &Stream) -> PyResult<Found> {
        if !queries.is_device() {
            let queries = self.keys.host(queries)?;
            return Ok(self.keys.found(HostForm::k_nearest_many(&self.tree, &queries, k, &how).map_err(raise)?));
        }
        let found = self.keys.on(stream, queries, |queries| {
            let mut scratch = NearestScratch::new(&self.keys.device, queries.len()).map_err(raise)?;
            let on = || self.on(stream);
            self.keys.ranges_on(queries.len(), |out| on().k_nearest(queries, k, &how, &mut scratch, out))
        })?;
        self.keys.found_on(stream, found)
    }

    fn aggregate(&self, bounds: [In<'_>; 2], closed: Closed, how: Folding, stream: &Stream) -> PyResult<Found> {
        V::aggregate(self, bounds, closed, how, stream)
    }

    fn range_last(&self, bounds: [In<'_>; 2], closed: Closed, k: u64, stream: &Stream) -> PyResult<Found> {
        if !bounds[0].is_device() {
            let [firsts, lasts] = self.keys.bounds(bounds, By::Ranges(closed))?;
            return Ok(self.keys.found(HostForm::range_last_many(&self.tree, &firsts, &lasts, k).map_err(raise)?));
        }
        let found = self.keys.bounds_on(stream, bounds, closed, |starts, ends| {
            let mut scratch = NearestScratch::new(&self.keys.device, starts.len()).map_err(raise)?;
            let on = || self.on(stream);
            self.keys.ranges_on(starts.len(), |out| on().range_last(starts, ends, k, &mut scratch, out))
        })?;
        self.keys.found_on(stream, found)
    }

    fn apply(&mut self, kinds: Kinds<'_>, keys: In<'_>, values: Option<In<'_>>, stream: &Stream) -> PyResult<Report> {
        let (form, count) = (&self.keys, keys.len());
        if keys.is_device() {
            let values = values_on(&form.device, count, values)?;
            let all;
            let each = match kinds {
                Kinds::Each(kinds) => Some(kinds.read::<OpKind>()?),
                Kinds::All(_) => None,
            };
            let kinds = match (&each, kinds) {
                (None, Kinds::All(kind @ 1..)) => {
                    let kinds = gather(count, repeat_n(OpKind::from(kind), count))?;
                    all = form.device.upload(&kinds).map_err(raise_runtime)?;
                    Some(&all)
                }
                (each, _) => each.as_deref(),
            };
            let mut scratch = UpdateScratch::new(&form.device, count).map_err(raise)?;
            let tree = &mut self.tree;
            return form.on(stream, keys, |keys| {
                let batch = Batch { kinds, ..Batch::inserts(keys, &*values) };
                Ok(tree.apply_on(stream, batch, &mut scratch).map_err(raise)?.into())
            });
        }
        let keys = form.host::<K>(keys)?;
        let removes = matches!(kinds, Kinds::All(2)) && values.is_none();
        let values = match values {
            Some(values) => Cow::Borrowed(values.host::<V>()?),
            None if removes => Cow::Owned(Vec::new()),
            // Of sets: they take no memory.
            None if !V::IS_SOME => Cow::Owned(zeroed(count)?),
            None => return Err(value_error("values are missing")),
        };
        if !removes {
            check_values(count, values.len())?;
        }
        let kinds = match &kinds {
            Kinds::All(kind) => core::slice::from_ref(kind),
            Kinds::Each(kinds) => kinds.host::<u32>()?,
        };
        if kinds.len() != 1 {
            check_len(count, kinds.len())?;
        }
        if let Some((index, &kind)) = kinds.iter().enumerate().find(|(_, kind)| **kind > 2) {
            let operations = kinds.iter().filter(|kind| **kind > 2).count() as u64;
            return Err(raise(lanetree::Error::UnknownKinds { operations, index, kind }));
        }
        let one = kinds.len() == 1;
        let op = |i: usize| match kinds[if one { 0 } else { i }] {
            0 => Op::Insert(keys[i], values[i]),
            1 => Op::Update(keys[i], values[i]),
            _ => Op::Remove(keys[i]),
        };
        Ok(self.tree.apply_each(count, op).map_err(raise)?.into())
    }

    fn compact(&mut self, _: &Stream) -> PyResult<u64> {
        compact(&mut self.tree).map_err(raise)
    }

    fn combine(&self, other: &dyn AnyTree, how: &str) -> PyResult<Box<dyn AnyTree>> {
        let same = other.as_any().downcast_ref::<Self>().filter(|other| other.keys.is_other == self.keys.is_other);
        let Some(other) = same else {
            return Err(PyTypeError::new_err(
                "the indexes have other keys or values: build one of them anew with the dtypes of the other",
            ));
        };
        let combine = match how {
            "union" => Combine::union,
            "intersection" => Combine::intersection,
            _ => Combine::difference,
        };
        Ok(Box::new(Self { tree: combine(&self.tree, &other.tree).map_err(raise)?, keys: self.keys.clone() }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
