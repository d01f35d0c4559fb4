//! LaneTree over keys in groups behind one interface: composite keys of two columns, for as-of look-ups within a group.

use crate::arguments::{Asked, Found, How, Outputs, Report, Request, Results, Sizes};
use crate::buffers::alloc;
use crate::class::{Place, class, with_types};
use crate::errors::{raise, raise_runtime};
use crate::host::numpy;
use crate::input::{In, Input};
use crate::join::{self, Joined};
use crate::keys::{Keys, check_values, found_rows, values_on};
use crate::types::{PyKey, PyValue, check_len, gather, zeroed};
use lanetree::bindings::parallel::*;
use lanetree::lane_tree::UpdateScratch;
use lanetree::primitives::BuildScratch;
use lanetree::{
    AsOf, Batch, Buffer, Composite, FixedIndex, HostForm, Join, LaneTree, OnStream, Op, OpKind, Stream, Word,
    compose_on,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::borrow::Cow;
use std::iter::repeat_n;
use std::ops::Range;

class! {
    /// An index over keys in groups. Queries are groups, of 4 or 8 bytes, and keys, "u32", "u64", "i32" or "i64".
    Groups over AnyGroups, by build(
        group_bytes: usize, key: &str, value_bytes: usize, queries: [Input; 2], values: Input, fill: f64
    );

    /// The values of keys, or as of them, of their neighbours in their groups.
    pieces get(queries: [Input; 2], how: Option<How>, results: Outputs) -> ();
    /// Joins a device's probes as of them, in their groups.
    read join(probes: [Input; 2], asof: How, asked: Request) -> Joined;
    /// Offsets and values of the neighbours of probes in host memory: one each, or two that are equally near.
    read asof_rows(probes: [Input; 2], how: How) -> Found;
    /// Inserts (0), updates (1) or removes (2) keys.
    change apply(kind: u32, keys: [Input; 2], values: Option<Input>) -> Report;
    /// Groups, keys and values, in order.
    read pairs() -> Found;
    {}
}

struct Typed<A: PyKey, B: PyKey, V: Word + PyValue> {
    tree: LaneTree<Composite<A, B>, V>,
    keys: Keys,
}

/// Composite keys of arrays of NumPy.
fn composed<A: PyKey, B: PyKey>([groups, keys]: [In<'_>; 2]) -> PyResult<Vec<Composite<A, B>>> {
    let (groups, keys) = (groups.host::<A>()?, keys.host::<B>()?);
    check_len(groups.len(), keys.len())?;
    let mut made = zeroed::<Composite<A, B>>(keys.len())?;
    made.par_iter_mut().zip(groups).zip(keys).for_each(|((made, &group), &key)| *made = Composite::new(group, key));
    Ok(made)
}

/// Composite keys of a device's arrays, in the stream's order.
fn composed_on<A: PyKey, B: PyKey>(stream: &Stream, [groups, keys]: [In<'_>; 2]) -> PyResult<Buffer<Composite<A, B>>> {
    check_len(groups.len(), keys.len())?;
    let mut made = alloc(stream.device(), keys.len())?;
    compose_on(stream, &*groups.read::<A>()?, &*keys.read::<B>()?, &mut made).map_err(raise)?;
    Ok(made)
}

impl<A: PyKey, B: PyKey, V: Word + PyValue> AnyGroups for Typed<A, B, V> {
    fn device(&self) -> &lanetree::Device {
        &self.keys.device
    }

    fn sizes(&self) -> Sizes {
        Sizes::from([("len", FixedIndex::len(&self.tree)), ("bytes", self.tree.stats().bytes())])
    }

    fn get(&self, queries: [In<'_>; 2], how: Option<AsOf>, results: Results<'_>, stream: &Stream) -> PyResult<()> {
        if queries[1].is_device() {
            let keys = composed_on::<A, B>(stream, queries)?;
            // Of as-of look-ups, whose keys are not wanted.
            let mut near = alloc(&self.keys.device, if how.is_some() { keys.len() } else { 0 })?;
            return results.on(&self.keys, keys.len(), stream, |values, hits, miss| {
                let on = OnStream::new(&self.tree, stream).miss(miss);
                match (how, hits) {
                    (Some(how), Some(hits)) => on.asof(&keys, &how, &mut near, values, hits),
                    (_, hits) => on.hits(hits).get(&keys, values),
                }
            });
        }
        let Some(how) = how else {
            let keys = composed::<A, B>(queries)?;
            return results.put(HostForm::get_many(&self.tree, &keys), |value: V| value);
        };
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
        results.near(&self.tree, keys.len(), part, &searches, None)
    }

    fn join(&self, probes: [In<'_>; 2], asof: AsOf, asked: Asked<'_>, stream: &Stream) -> PyResult<Joined> {
        let probes = composed_on::<A, B>(stream, probes)?;
        let (hits, values) = join::hits_of(&self.tree, &probes, Some(asof), stream)?;
        join::rows_of_hits(stream, &self.keys.cache, asked, (hits, probes.len()), values)
    }

    fn asof_rows(&self, probes: [In<'_>; 2], how: AsOf, _: &Stream) -> PyResult<Found> {
        let keys = composed::<A, B>(probes)?;
        Ok(found_rows(HostForm::asof_join_many(&self.tree, &keys, &how, &Join::inner()).map_err(raise)?))
    }

    fn apply(&mut self, kind: u32, keys: [In<'_>; 2], values: Option<In<'_>>, stream: &Stream) -> PyResult<Report> {
        let (count, device) = (keys[1].len(), &self.keys.device);
        if let Some(values) = values {
            check_values(count, values.len())?;
        }
        let done = if keys[1].is_device() {
            let (keys, values) = (composed_on::<A, B>(stream, keys)?, values_on::<V>(device, count, values)?);
            let kinds = device.upload(&gather(count, repeat_n(OpKind::from(kind), count))?).map_err(raise_runtime)?;
            let mut scratch = UpdateScratch::new(device, count).map_err(raise)?;
            self.tree.apply_on(stream, Batch::of_kinds(&keys, &values, &kinds), &mut scratch)
        } else {
            let keys = composed::<A, B>(keys)?;
            let values = values.map(In::host::<V>).transpose()?;
            let value = |i: usize| values.map_or(V::default(), |values| values[i]);
            let op = |i: usize| match kind {
                0 => Op::Insert(keys[i], value(i)),
                1 => Op::Update(keys[i], value(i)),
                _ => Op::Remove(keys[i]),
            };
            FixedIndex::apply_each(&mut self.tree, count, op)
        };
        Ok(done.map_err(raise)?.into())
    }

    fn pairs(&self, _: &Stream) -> PyResult<Found> {
        let pairs = FixedIndex::pairs(&self.tree).map_err(raise)?;
        let groups = gather(pairs.len(), pairs.iter().map(|(key, _)| key.first()))?;
        let keys = gather(pairs.len(), pairs.iter().map(|(key, _)| key.second()))?;
        let values = gather(pairs.len(), pairs.iter().map(|(_, value)| *value))?;
        Ok(Found::host(move |py| Ok([numpy(py, groups), numpy(py, keys), V::array(py, values)])))
    }
}

fn build(
    place: &Place<'_>,
    group_bytes: usize,
    key: &str,
    value_bytes: usize,
    queries: [In<'_>; 2],
    values: In<'_>,
    fill: f64,
) -> PyResult<Box<dyn AnyGroups>> {
    let of = (queries, values, fill);
    let built = match group_bytes {
        _ if key.starts_with('f') => None,
        4 => with_types!(key, value_bytes, [4 u32, 8 u64], build_of::<u32, K, V>(place, of)),
        _ => with_types!(key, value_bytes, [4 u32, 8 u64], build_of::<u64, K, V>(place, of)),
    };
    built.unwrap_or_else(|| Err(PyTypeError::new_err(format!("no index of groups and keys {key}"))))
}

fn build_of<A: PyKey, B: PyKey, V: Word + PyValue>(
    place: &Place<'_>,
    (queries, values, fill): ([In<'_>; 2], In<'_>, f64),
) -> PyResult<Box<dyn AnyGroups>> {
    let &Place { device, stream, .. } = place;
    let (builder, count) = (LaneTree::<Composite<A, B>, V>::builder().fill(fill), queries[1].len());
    check_values(count, values.len())?;
    let tree = if queries[1].is_device() {
        let (keys, values) = (composed_on::<A, B>(stream, queries)?, values.read::<V>()?);
        BuildScratch::for_unsorted(device, count)
            .and_then(|mut scratch| builder.build_on(stream, &keys, &values, count, &mut scratch))
    } else {
        builder.build(device, &composed::<A, B>(queries)?, values.host::<V>()?)
    };
    Ok(Box::new(Typed { tree: tree.map_err(raise)?, keys: Keys::new(place, "") }))
}
