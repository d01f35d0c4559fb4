//! LaneTree behind one interface, whatever its keys and values are. Keys are instantiated by their words and signs; floats are ordered
//! words, made here; values are words of 32 or 64 bits, or nothing in sets.

use crate::any_tree::{AnyTree, Between, By, Combination, Kinds, Results};
use crate::errors::{raise, raise_runtime, value_error};
use crate::join::{self, Asked, Joined};
use crate::memory::{Cache, In, Memory, closed, numpy};
use crate::near::{Near, near};
use crate::types::{self, Found, PyKey, PyValue, check_len, found_rows, inclusive, key_words, ordered, owned, zeroed};
use lanetree::bindings::parallel::*;
use lanetree::bindings::{JoinBounds, Searches, Side, TASK, View, compact};
use lanetree::lane_tree::Stats;
use lanetree::{
    AnyKey, AsOf, Buffer, Combine, DeviceRangeMatches, FixedIndex, HostForm, Join, JoinKind, KeyRange, LaneTree,
    OnStream, Op, RangeJoinScratch, Ranges, Scans, UpdateReport, Value,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

pub(crate) struct Typed<K: AnyKey, V: Value> {
    pub(crate) tree: LaneTree<K, V>,
    /// Whether keys are floats: the tree has their ordered words.
    pub(crate) floats: bool,
    /// Memory of calls on a device.
    pub(crate) cache: Arc<Cache>,
}

impl<K: PyKey, V: PyValue> Typed<K, V> {
    /// Keys of NumPy as the tree has them.
    fn keys<'a>(&self, keys: In<'a>) -> PyResult<Cow<'a, [K]>> {
        let keys = keys.host::<K>()?;
        Ok(if self.floats { ordered(keys)?.into() } else { keys.into() })
    }

    /// Keys of the tree as NumPy has them, in place.
    fn give(&self, keys: &mut [K]) {
        if self.floats {
            keys.par_chunks_mut(TASK).for_each(|keys| keys.iter_mut().for_each(|key| *key = key.unorder()));
        }
    }

    /// The neighbours of queries in host memory.
    fn near_in_host(
        &self,
        queries: In<'_>,
        searches: &Searches<K::Bits>,
        keys: Option<In<'_>>,
        results: Results<'_>,
    ) -> PyResult<()> {
        let (queries, miss) = (self.keys(queries)?, V::truncate(results.miss));
        let mut no_values;
        let values = match results.values {
            Some(values) if V::IS_SOME => values.host_mut::<V>()?,
            _ => {
                no_values = zeroed(queries.len())?;
                &mut no_values[..]
            }
        };
        let found = results.found.ok_or_else(|| value_error("an output is missing"))?.host_mut::<u8>()?;
        let keys = keys.map(|keys| keys.host_mut::<K>()).transpose()?;
        // Where there is none, the key is the float 0.0 too.
        let none = if self.floats { K::default().order() } else { K::default() };
        let mut out = Near { keys, values, found };
        near(&self.tree, queries.len(), &|range| Cow::Borrowed(&queries[range]), searches, &mut out, (none, miss))?;
        if let Some(keys) = out.keys {
            self.give(keys);
        }
        Ok(())
    }

    fn values<'a>(&self, len: usize, values: Option<In<'a>>) -> PyResult<Cow<'a, [V]>> {
        match values {
            Some(values) => Ok(values.host::<V>()?.into()),
            // Of sets: they take no memory.
            None if !V::IS_SOME => Ok(zeroed(len)?.into()),
            None => Err(value_error("values are missing")),
        }
    }

    fn ranges(&self, mut ranges: Ranges<K, V>) -> Found {
        self.give(&mut ranges.keys);
        let Ranges { offsets, keys, values } = ranges;
        Found::Host(Box::new(move |py| {
            [
                numpy(py, bytemuck::allocation::cast_vec::<u64, i64>(offsets)).into_any().unbind(),
                numpy(py, keys).into_any().unbind(),
                V::array(py, values),
            ]
        }))
    }
}

/// Splits look-ups' results into values and whether they were found.
fn split<T: Copy + Send + Sync, V: Copy + Send + Sync>(
    hits: &[Option<T>],
    values: &mut [V],
    found: &mut [u8],
    miss: V,
    value: impl Fn(T) -> V + Sync,
) {
    hits.par_chunks(TASK).zip(values.par_chunks_mut(TASK)).zip(found.par_chunks_mut(TASK)).for_each(
        |((hits, values), found)| {
            for ((hit, to), found) in hits.iter().zip(values).zip(found) {
                (*to, *found) = hit.map_or((miss, 0), |hit| (value(hit), 1));
            }
        },
    );
}

impl<K: PyKey, V: PyValue> AnyTree for Typed<K, V>
where
    LaneTree<K, V>: Scans<Key = K, Value = V>,
{
    fn device(&self) -> &lanetree::Device {
        FixedIndex::device(&self.tree)
    }

    fn stats(&self) -> Stats {
        self.tree.stats()
    }

    fn get(&self, queries: In<'_>, results: Results<'_>, stream: &lanetree::Stream) -> PyResult<()> {
        if queries.is_device() {
            return self.with_keys(
                queries.device()?,
                |keys| {
                    self.with_results(keys.len(), results, stream, |values, hits, miss| {
                        OnStream::new(&self.tree, stream).hits(hits).miss(miss).get(keys, values).map_err(raise)
                    })
                },
                stream,
            );
        }
        let (queries, miss) = (self.keys(queries)?, V::truncate(results.miss));
        let (mut no_values, mut no_found);
        let values = match results.values {
            Some(values) if V::IS_SOME => values.host_mut::<V>()?,
            _ => {
                no_values = zeroed(queries.len())?;
                &mut no_values[..]
            }
        };
        let found = match results.found {
            Some(found) => found.host_mut::<u8>()?,
            None => {
                no_found = zeroed(queries.len())?;
                &mut no_found[..]
            }
        };
        check_len(queries.len(), values.len())?;
        check_len(queries.len(), found.len())?;
        match self.tree.native() {
            Some(view) => {
                queries.par_chunks(TASK).zip(values.par_chunks_mut(TASK)).zip(found.par_chunks_mut(TASK)).for_each(
                    |((queries, values), found)| {
                        view.get(queries, |i, hit| {
                            found[i] = u8::from(hit.is_some());
                            values[i] = hit.unwrap_or(miss);
                        });
                    },
                )
            }
            None => {
                split(&HostForm::get_many(&self.tree, &queries).map_err(raise)?, values, found, miss, |value| value)
            }
        }
        Ok(())
    }

    fn rank(&self, queries: In<'_>, upper: bool, ranks: In<'_>, stream: &lanetree::Stream) -> PyResult<()> {
        if queries.is_device() {
            let mut ranks = ranks.device()?.write()?;
            let ranks = ranks.as_mut().ok_or_else(closed)?.write::<u64>()?;
            return self.with_keys(
                queries.device()?,
                |keys| {
                    let on = OnStream::new(&self.tree, stream);
                    if upper { on.upper_bound(keys, ranks) } else { on.lower_bound(keys, ranks) }.map_err(raise)
                },
                stream,
            );
        }
        let (queries, ranks) = (self.keys(queries)?, ranks.host_mut::<u64>()?);
        check_len(queries.len(), ranks.len())?;
        match self.tree.native() {
            Some(view) => queries.par_chunks(TASK).zip(ranks.par_chunks_mut(TASK)).for_each(|(queries, ranks)| {
                view.rank(queries, upper, |i, rank| ranks[i] = rank);
            }),
            None => {
                let found = match upper {
                    true => HostForm::upper_bound_many(&self.tree, &queries),
                    false => HostForm::lower_bound_many(&self.tree, &queries),
                };
                ranks.copy_from_slice(&found.map_err(raise)?);
            }
        }
        Ok(())
    }

    fn neighbor(
        &self,
        queries: In<'_>,
        predecessor: bool,
        keys: In<'_>,
        results: Results<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<()> {
        if queries.is_device() {
            let mut keys = keys.device()?.write()?;
            let keys = keys.as_mut().ok_or_else(closed)?.write::<K>()?;
            return self.with_keys(
                queries.device()?,
                |queries| {
                    self.with_results(queries.len(), results, stream, |values, hits, miss| {
                        let on = OnStream::new(&self.tree, stream);
                        match predecessor {
                            true => on.hits(hits).miss(miss).predecessor(queries, keys, values),
                            false => on.hits(hits).miss(miss).successor(queries, keys, values),
                        }
                        .map_err(raise)
                    })?;
                    self.give_on(stream, keys)
                },
                stream,
            );
        }
        let side = if predecessor { Side::Upper } else { Side::Lower };
        self.near_in_host(queries, &Searches::any(side), Some(keys), results)
    }

    fn asof(
        &self,
        queries: In<'_>,
        how: &AsOf,
        keys: Option<In<'_>>,
        results: Results<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<()> {
        if queries.is_device() {
            let mut keys = keys.ok_or_else(|| value_error("an output is missing"))?.device()?.write()?;
            let keys = keys.as_mut().ok_or_else(closed)?.write::<K>()?;
            return self.with_keys(
                queries.device()?,
                |queries| {
                    self.with_results(queries.len(), results, stream, |values, hits, miss| {
                        let hits = hits.ok_or_else(|| value_error("an output is missing"))?;
                        let on = OnStream::new(&self.tree, stream);
                        on.miss(miss).asof(queries, how, keys, values, hits).map_err(raise)
                    })?;
                    self.give_on(stream, keys)
                },
                stream,
            );
        }
        self.near_in_host(queries, &how.searches::<K>().map_err(raise)?, keys, results)
    }

    fn range(&self, bounds: [In<'_>; 2], closed: [bool; 2], limit: u64, stream: &lanetree::Stream) -> PyResult<Found> {
        let [starts, ends] = bounds;
        if starts.is_device() {
            return self.range_on([starts, ends], closed, limit, stream);
        }
        let (mut starts, mut ends) = (self.keys(starts)?, self.keys(ends)?);
        check_len(starts.len(), ends.len())?;
        if closed != [true; 2] {
            inclusive(owned(&mut starts)?, owned(&mut ends)?, closed);
        }
        let mut out = Ranges::default();
        match limit {
            u64::MAX => HostForm::range_between_many_into(&self.tree, &starts, &ends, &mut out),
            _ => HostForm::range_many_into(
                &self.tree,
                starts.iter().zip(&ends[..]).map(|(&start, &end)| {
                    let nothing = KeyRange::new(K::MIN..K::MIN);
                    if start > end { nothing } else { KeyRange::new(start..=end).limit(limit) }
                }),
                &mut out,
            ),
        }
        .map_err(raise)?;
        Ok(self.ranges(out))
    }

    fn count(
        &self,
        bounds: [In<'_>; 2],
        inclusive: [bool; 2],
        counts: In<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<()> {
        let mut counts = counts.device()?.write()?;
        let counts = counts.as_mut().ok_or_else(closed)?.write::<u64>()?;
        self.with_bounds(bounds, inclusive, stream, |starts, ends| {
            OnStream::new(&self.tree, stream).count_range(starts, ends, counts).map_err(raise)
        })
    }

    fn scan(&self, starts: In<'_>, limit: u32, stream: &lanetree::Stream) -> PyResult<Found> {
        let (device, on_device) = (self.tree.device().clone(), starts.is_device());
        let pairs = starts.len().saturating_mul(limit as usize);
        let room = || -> lanetree::runtime::Result<_> {
            Ok((
                device.alloc_zeroed::<K>(pairs)?,
                device.alloc_zeroed::<V>(pairs)?,
                device.alloc_zeroed::<u32>(starts.len())?,
            ))
        };
        let (mut keys, mut values, mut counts) = room().map_err(raise_runtime)?;
        let mut run = |starts: &Buffer<K>| {
            OnStream::new(&self.tree, stream).scan(starts, limit, &mut keys, &mut values, &mut counts).map_err(raise)
        };
        if on_device {
            self.with_keys(starts.device()?, run, stream)?;
            self.give_on(stream, &mut keys)?;
            let (keys, counts) = (key_words(keys), Memory::new(counts));
            return Ok(Found::Device(Box::new((counts, Memory::new(keys), V::memory(values)))));
        }
        run(&device.upload(&self.keys(starts)?).map_err(raise_runtime)?)?;
        let download = || -> lanetree::runtime::Result<_> { Ok((keys.to_vec()?, values.to_vec()?, counts.to_vec()?)) };
        let (mut keys, values, counts) = download().map_err(raise_runtime)?;
        self.give(&mut keys);
        Ok(Found::Host(Box::new(move |py| {
            [numpy(py, counts).into_any().unbind(), numpy(py, keys).into_any().unbind(), V::array(py, values)]
        })))
    }

    fn pairs(&self, on_device: bool, stream: &lanetree::Stream) -> PyResult<Found> {
        let (device, len) = (self.tree.device().clone(), FixedIndex::len(&self.tree) as usize);
        if let (Some(view), false) = (self.tree.native(), on_device) {
            let (mut keys, mut values) = (zeroed::<K>(len)?, zeroed::<V>(len)?);
            let tasks = keys.par_chunks_mut(TASK).zip(values.par_chunks_mut(TASK)).enumerate();
            tasks.for_each(|(task, (keys, values))| view.copy((task * TASK) as u64, keys, values));
            return Ok(self.ranges(Ranges { offsets: vec![0, len as u64], keys, values }));
        }
        let room = || -> lanetree::runtime::Result<_> { Ok((device.alloc::<K>(len)?, device.alloc::<V>(len)?)) };
        let (mut keys, mut values) = room().map_err(raise_runtime)?;
        OnStream::new(&self.tree, stream).pairs(&mut keys, &mut values).map_err(raise)?;
        if on_device {
            self.give_on(stream, &mut keys)?;
            let offsets = device.upload(&[0, len as u64]).map_err(raise_runtime)?;
            let keys = Memory::new(key_words(keys));
            return Ok(Found::Device(Box::new((Memory::new(offsets), keys, V::memory(values)))));
        }
        let download = || -> lanetree::runtime::Result<_> { Ok((keys.to_vec()?, values.to_vec()?)) };
        let (keys, values) = download().map_err(raise_runtime)?;
        Ok(self.ranges(Ranges { offsets: vec![0, len as u64], keys, values }))
    }

    fn join(
        &self,
        probes: In<'_>,
        by: Option<&AsOf>,
        asked: &Asked<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<Joined> {
        let (device, count) = (self.tree.device(), probes.len());
        let mut hits = device.alloc::<u32>(count.div_ceil(32)).map_err(raise_runtime)?;
        // Of semi- and anti-joins they are not wanted.
        let mut values = device.alloc::<V>(count).map_err(raise_runtime)?;
        self.with_keys(
            probes.device()?,
            |keys| {
                let on = OnStream::new(&self.tree, stream).miss(V::default());
                let Some(how) = by else { return on.hits(&mut hits).get(keys, &mut values).map_err(raise) };
                // Their keys are not wanted.
                let mut near = device.alloc(count).map_err(raise_runtime)?;
                on.asof(keys, how, &mut near, &mut values, &mut hits).map_err(raise)
            },
            stream,
        )?;
        join::rows_of_hits(stream, &self.cache, asked, (hits, count), values)
    }

    fn asof_rows(&self, probes: In<'_>, how: &AsOf) -> PyResult<Found> {
        let found = HostForm::asof_join_many(&self.tree, &self.keys(probes)?, how, &Join::inner()).map_err(raise)?;
        Ok(found_rows(found))
    }

    fn join_between(
        &self,
        [lows, highs]: [In<'_>; 2],
        by: By,
        asked: &Asked<'_>,
        stream: &lanetree::Stream,
    ) -> PyResult<Between> {
        let (device, count, kind) = (self.tree.device(), lows.len(), asked.kind);
        let find = |lows: &Buffer<K>, highs: &Buffer<K>, valid: Option<&Buffer<u32>>| -> lanetree::Result<_> {
            let mut scratch = RangeJoinScratch::new(device, count)?;
            let mut join = |out: &mut DeviceRangeMatches<K, V>| {
                let mut on = OnStream::new(&self.tree, stream).kind(kind);
                if kind == JoinKind::Left {
                    on = on.miss(V::default());
                }
                if let Some(valid) = valid {
                    on = on.valid(valid, 0);
                }
                match by {
                    By::Ranges(closed) => on.range_join(lows, highs, closed, &mut scratch, out),
                    By::Bands(distance) => on.band_join(lows, distance, &mut scratch, out),
                }
            };
            let mut out = DeviceRangeMatches::new(device, count, 0)?;
            if !kind.has_rows() {
                out.probes = device.alloc(count)?;
                join(&mut out)?;
                return Ok((out, scratch));
            }
            // Offsets alone, which say how many rows there are.
            join(&mut out)?;
            let mut total = [0];
            out.pairs.offsets.copy_range_to(count, &mut total)?;
            let total = total[0] as usize;
            (out.pairs.keys, out.pairs.values) = (device.alloc(total)?, device.alloc(total)?);
            out.probes = device.alloc(total)?;
            join(&mut out)?;
            Ok((out, scratch))
        };
        let (mut out, scratch) = asked.with_valid(|valid| {
            self.with_keys(
                lows.device()?,
                |lows| {
                    let with_both = |highs: &Buffer<K>| find(lows, highs, valid).map_err(raise);
                    self.with_keys(highs.device()?, with_both, stream)
                },
                stream,
            )
        })?;
        if !kind.has_rows() {
            let rows = if count == 0 { 0 } else { join::read(&out.pairs.offsets)? };
            return Ok((Memory::new(join::part(stream, out.probes, 0..rows)?), None, None, None));
        }
        self.give_on(stream, &mut out.pairs.keys)?;
        let found = match kind {
            JoinKind::Left => Some(join::found_of(stream, &self.cache, (scratch.hits(), count), &out.probes)?),
            _ => None,
        };
        let (keys, values) = (Memory::new(key_words(out.pairs.keys)), V::memory(out.pairs.values));
        Ok((Memory::new(out.probes), Some(keys), values, found))
    }

    fn rows_between(&self, [lows, highs]: [In<'_>; 2], by: By) -> PyResult<Found> {
        let (lows, highs) = (self.keys(lows)?, self.keys(highs)?);
        let (firsts, lasts) = by.bounds().and_then(|bounds| bounds.on_host(&lows, &highs)).map_err(raise)?;
        let mut out = Ranges::default();
        HostForm::range_between_many_into(&self.tree, &firsts, &lasts, &mut out).map_err(raise)?;
        Ok(self.ranges(out))
    }

    fn k_nearest(&self, queries: In<'_>, k: u64, how: &AsOf, stream: &lanetree::Stream) -> PyResult<Found> {
        if !queries.is_device() {
            let found = HostForm::k_nearest_many(&self.tree, &self.keys(queries)?, k, how).map_err(raise)?;
            return Ok(self.ranges(found));
        }
        let find = |queries: &Buffer<K>| {
            self.rounds(queries.len(), |scratch, out| {
                OnStream::new(&self.tree, stream).k_nearest(queries, k, how, scratch, out)
            })
        };
        let out = self.with_keys(queries.device()?, find, stream)?;
        self.found_on(stream, out)
    }

    fn range_last(&self, bounds: [In<'_>; 2], closed: [bool; 2], k: u64, stream: &lanetree::Stream) -> PyResult<Found> {
        if !bounds[0].is_device() {
            let (starts, ends) = (self.keys(bounds[0])?, self.keys(bounds[1])?);
            let closed = JoinBounds::of_ranges(types::closed(closed));
            let (firsts, lasts) = closed.on_host(&starts, &ends).map_err(raise)?;
            return Ok(self.ranges(HostForm::range_last_many(&self.tree, &firsts, &lasts, k).map_err(raise)?));
        }
        let out = self.with_bounds(bounds, closed, stream, |starts, ends| {
            self.rounds(starts.len(), |scratch, out| {
                OnStream::new(&self.tree, stream).range_last(starts, ends, k, scratch, out)
            })
        })?;
        self.found_on(stream, out)
    }

    fn apply(
        &mut self,
        kinds: Kinds<'_>,
        keys: In<'_>,
        values: Option<In<'_>>,
        stream: &lanetree::Stream,
    ) -> PyResult<UpdateReport> {
        if keys.is_device() {
            return self.apply_on(kinds, keys.device()?, values, stream);
        }
        let keys = self.keys(keys)?;
        let removes = matches!(kinds, Kinds::All(2)) && values.is_none();
        let values = if removes { Cow::Owned(Vec::new()) } else { self.values(keys.len(), values)? };
        if !removes && keys.len() != values.len() {
            return Err(raise(lanetree::Error::LengthMismatch { keys: keys.len(), values: values.len() }));
        }
        let kinds = match &kinds {
            Kinds::All(kind) => core::slice::from_ref(kind),
            Kinds::Each(kinds) => kinds.host::<u32>()?,
        };
        if kinds.len() > 1 || kinds.is_empty() {
            check_len(keys.len(), kinds.len())?;
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
        self.tree.apply_each(keys.len(), op).map_err(raise)
    }

    fn compact(&mut self) -> PyResult<u64> {
        compact(&mut self.tree).map_err(raise)
    }

    fn combine(&self, other: &dyn AnyTree, how: Combination) -> PyResult<Box<dyn AnyTree>> {
        let differ = || {
            PyTypeError::new_err(
                "the indexes have other keys or values: build one of them anew with the dtypes of the other",
            )
        };
        let other =
            other.as_any().downcast_ref::<Self>().filter(|other| other.floats == self.floats).ok_or_else(differ)?;
        let (first, second) = (&self.tree, &other.tree);
        let tree = match how {
            Combination::Union => Combine::union(first, second),
            Combination::Intersection => Combine::intersection(first, second),
            Combination::Difference => Combine::difference(first, second),
        };
        Ok(Box::new(Self { tree: tree.map_err(raise)?, floats: self.floats, cache: self.cache.clone() }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
