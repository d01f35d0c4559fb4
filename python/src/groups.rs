//! LaneTree over keys in groups behind one interface: composite keys of two columns, for as-of look-ups within a group.

use crate::arguments::{Asked, Found, How, Outputs, Report, Request, Results, Sizes};
use crate::buffers::alloc;
use crate::class::{Place, class, with_types};
use crate::errors::{raise, raise_runtime, value_error};
use crate::input::{In, Input};
use crate::join::{self, Joined};
use crate::keys::{Keys, check_values, found_rows, values_on};
use crate::types::{PyKey, PyValue, check_len, gather, zeroed};
use lanetree::bindings::TASK;
use lanetree::bindings::parallel::*;
use lanetree::lane_tree::UpdateScratch;
use lanetree::primitives::BuildScratch;
use lanetree::{
    AsOf, Batch, Buffer, Composite, FixedIndex, HostForm, Join, Key, LaneTree, OnStream, Op, OpKind, Stream, Word,
    compose_on,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::borrow::Cow;
use std::iter::repeat_n;
use std::ops::Range;

class! {
    /// An index over keys in groups. Queries are groups, of 4 or 8 bytes, and keys, "u32", "u64", "i32", "i64", "f32" or "f64".
    Groups over AnyGroups, by build(
        group_bytes: usize, key: &str, value_bytes: usize, queries: [Input; 2], values: Input, fill: f64
    );

    /// The values of keys, or as of them, of their neighbours in their groups; in host memory also the keys of neighbours.
    pieces get(queries: [Input; 2], how: Option<How>, keys: Option<Input>, results: Outputs) -> ();
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

struct Typed<A: PyKey + Key, B: PyKey + Key, V: Word + PyValue> {
    tree: LaneTree<Composite<A, B>, V>,
    keys: Keys,
}

/// Composite keys of arrays of NumPy.
fn composed<A: PyKey + Key, B: PyKey + Key>(
    form: &Keys,
    [groups, keys]: [In<'_>; 2],
) -> PyResult<Vec<Composite<A, B>>> {
    let (groups, keys) = (groups.host::<A>()?, form.host::<B>(keys)?);
    check_len(groups.len(), keys.len())?;
    let mut made = zeroed::<Composite<A, B>>(keys.len())?;
    let rows = made.par_iter_mut().zip(groups).zip(&keys[..]).with_min_len(TASK);
    rows.for_each(|((made, &group), &key)| *made = Composite::new(group, key));
    Ok(made)
}

/// Composite keys of a device's arrays, in the stream's order.
fn composed_on<A: PyKey + Key, B: PyKey + Key>(
    form: &Keys,
    stream: &Stream,
    [groups, keys]: [In<'_>; 2],
) -> PyResult<Buffer<Composite<A, B>>> {
    check_len(groups.len(), keys.len())?;
    let (mut made, groups) = (alloc(stream.device(), keys.len())?, groups.read::<A>()?);
    form.on(stream, keys, |keys: &Buffer<B>| compose_on(stream, &*groups, keys, &mut made).map_err(raise))?;
    Ok(made)
}

impl<A: PyKey + Key, B: PyKey + Key, V: Word + PyValue> AnyGroups for Typed<A, B, V> {
    fn device(&self) -> &lanetree::Device {
        &self.keys.device
    }

    fn sizes(&self) -> Sizes {
        Sizes::from([("len", FixedIndex::len(&self.tree)), ("bytes", self.tree.stats().bytes())])
    }

    fn get(
        &self,
        queries: [In<'_>; 2],
        how: Option<AsOf>,
        near: Option<In<'_>>,
        results: Results<'_>,
        stream: &Stream,
    ) -> PyResult<()> {
        if queries[1].is_device() {
            if near.is_some() {
                return Err(value_error("keys of neighbours are for queries in host memory"));
            }
            let keys = composed_on::<A, B>(&self.keys, stream, queries)?;
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
            let keys = composed::<A, B>(&self.keys, queries)?;
            return results.put(HostForm::get_many(&self.tree, &keys), |value: V| value);
        };
        let (groups, keys) = (queries[0].host::<A>()?, self.keys.host::<B>(queries[1])?);
        check_len(groups.len(), keys.len())?;
        // On the CPU they are made task by task; a device takes all at once.
        let all = match self.tree.native() {
            Some(_) => Vec::new(),
            None => composed::<A, B>(&self.keys, queries)?,
        };
        let part = |range: Range<usize>| {
            if !all.is_empty() {
                return Cow::Borrowed(&all[range]);
            }
            let rows = groups[range.clone()].iter().zip(&keys[range]);
            Cow::Owned(rows.map(|(&group, &key)| Composite::new(group, key)).collect())
        };
        let searches = how.searches::<Composite<A, B>>().map_err(raise)?;
        let Some(near) = near.map(In::host_mut::<B>).transpose()? else {
            return results.near(&self.tree, keys.len(), part, &searches, None);
        };
        check_len(keys.len(), near.len())?;
        let none = if self.keys.is_other { B::default().order() } else { B::default() };
        let mut pairs = zeroed::<Composite<A, B>>(keys.len())?;
        results.near(
            &self.tree,
            keys.len(),
            part,
            &searches,
            Some((&mut pairs, Composite::new(A::default(), none))),
        )?;
        near.par_iter_mut().zip(&pairs).with_min_len(TASK).for_each(|(near, pair)| *near = pair.second());
        self.keys.give(near);
        Ok(())
    }

    fn join(&self, probes: [In<'_>; 2], asof: AsOf, asked: Asked<'_>, stream: &Stream) -> PyResult<Joined> {
        let probes = composed_on::<A, B>(&self.keys, stream, probes)?;
        let (hits, values) = join::hits_of(&self.tree, &probes, Some(asof), stream)?;
        join::rows_of_hits(stream, asked, (hits, probes.len()), values)
    }

    fn asof_rows(&self, probes: [In<'_>; 2], how: AsOf, _: &Stream) -> PyResult<Found> {
        let keys = composed::<A, B>(&self.keys, probes)?;
        Ok(found_rows(HostForm::asof_join_many(&self.tree, &keys, &how, &Join::inner()).map_err(raise)?))
    }

    fn apply(&mut self, kind: u32, keys: [In<'_>; 2], values: Option<In<'_>>, stream: &Stream) -> PyResult<Report> {
        let Self { tree, keys: form } = self;
        let (count, device) = (keys[1].len(), &form.device);
        if let Some(values) = values {
            check_values(count, values.len())?;
        }
        let done = if keys[1].is_device() {
            let (keys, values) = (composed_on::<A, B>(form, stream, keys)?, values_on::<V>(device, count, values)?);
            let kinds = device.upload(&gather(count, repeat_n(OpKind::from(kind), count))?).map_err(raise_runtime)?;
            let mut scratch = UpdateScratch::new(device, count).map_err(raise)?;
            tree.apply_on(stream, Batch::of_kinds(&keys, &values, &kinds), &mut scratch)
        } else {
            let keys = composed::<A, B>(form, keys)?;
            let values = values.map(In::host::<V>).transpose()?;
            let value = |i: usize| values.map_or(V::default(), |values| values[i]);
            let op = |i: usize| match kind {
                0 => Op::Insert(keys[i], value(i)),
                1 => Op::Update(keys[i], value(i)),
                _ => Op::Remove(keys[i]),
            };
            FixedIndex::apply_each(tree, count, op)
        };
        Ok(done.map_err(raise)?.into())
    }

    fn pairs(&self, _: &Stream) -> PyResult<Found> {
        let pairs = FixedIndex::pairs(&self.tree).map_err(raise)?;
        let groups = gather(pairs.len(), pairs.iter().map(|(key, _)| key.first()))?;
        let mut keys = gather(pairs.len(), pairs.iter().map(|(key, _)| key.second()))?;
        self.keys.give(&mut keys);
        let values = gather(pairs.len(), pairs.iter().map(|(_, value)| *value))?;
        Ok(Found::host(move |py| Ok([A::numpy(py, groups), B::numpy(py, keys), V::array(py, values)])))
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
    let (form, of) = (Keys::new(place, key), (queries, values, fill));
    let built = match group_bytes {
        4 => with_types!(key, value_bytes, [4 u32, 8 u64], build_of::<u32, K, V>(place, form, of)),
        _ => with_types!(key, value_bytes, [4 u32, 8 u64], build_of::<u64, K, V>(place, form, of)),
    };
    built.unwrap_or_else(|| Err(PyTypeError::new_err(format!("no index of groups and keys {key}"))))
}

fn build_of<A: PyKey + Key, B: PyKey + Key, V: Word + PyValue>(
    place: &Place<'_>,
    form: Keys,
    (queries, values, fill): ([In<'_>; 2], In<'_>, f64),
) -> PyResult<Box<dyn AnyGroups>> {
    let &Place { device, stream, .. } = place;
    let (builder, count) = (LaneTree::<Composite<A, B>, V>::builder().fill(fill), queries[1].len());
    check_values(count, values.len())?;
    let tree = if queries[1].is_device() {
        let (keys, values) = (composed_on::<A, B>(&form, stream, queries)?, values.read::<V>()?);
        BuildScratch::for_unsorted(device, count)
            .and_then(|mut scratch| builder.build_on(stream, &keys, &values, count, &mut scratch))
    } else {
        builder.build(device, &composed::<A, B>(&form, queries)?, values.host::<V>()?)
    };
    Ok(Box::new(Typed { tree: tree.map_err(raise)?, keys: form }))
}
