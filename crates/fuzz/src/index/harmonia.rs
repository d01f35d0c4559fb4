//! Harmonia, in both forms.

use super::{Index, Number};
use crate::model::Range;
use crate::{Change, Counts, Form, Side};
use core::ops::Bound;
use lanetree::harmonia::{BuildScratch, DeviceRanges, FANOUTS, Mirrored, Op, RangeScratch, UpdateScratch};
use lanetree::{Buffer, Device, DeviceKind, Error, Harmonia, KeyRange, Result, Stream, Word};
use std::sync::Arc;

/// Room of the scratch memory that all batches of an index in device form share.
const MOST_OPERATIONS: usize = 160;

/// A tree, and what its device form takes.
#[derive(Debug)]
pub struct HarmoniaIndex<K: Number, V: Word> {
    tree: Harmonia<K, V>,
    stream: Stream,
    scratch: UpdateScratch<K, V>,
}

impl<K: Number, V: Word> HarmoniaIndex<K, V> {
    fn new(tree: Harmonia<K, V>) -> Result<Self> {
        let device = tree.device().clone();
        Ok(Self { tree, stream: device.stream()?, scratch: UpdateScratch::new(&device, MOST_OPERATIONS)? })
    }

    /// Whether a call is to be in device form.
    fn in_buffers(&self, form: Form, keys: usize) -> bool {
        form == Form::Device && keys > 0
    }
}

pub(super) fn options<K: Number, V: Word>(options: u8) -> lanetree::harmonia::Builder<K, V> {
    let fill = [1.0, 0.75, 0.5][usize::from(options / 5 % 3)];
    Harmonia::builder().fanout(FANOUTS[usize::from(options % 5)]).fill(fill)
}

pub(super) fn narrow<K: Copy, V: Word>(op: &Op<K, u64>) -> Op<K, V> {
    match *op {
        Op::Insert(key, value) => Op::Insert(key, V::truncate(value)),
        Op::Update(key, value) => Op::Update(key, V::truncate(value)),
        Op::Remove(key) => Op::Remove(key),
    }
}

/// Keys and values of operations; those of removals do not matter.
pub(super) fn columns<K: Copy, V: Word>(ops: &[Op<K, u64>]) -> (Vec<K>, Vec<V>) {
    let value = |op: &Op<K, u64>| match *op {
        Op::Insert(_, value) | Op::Update(_, value) => V::truncate(value),
        Op::Remove(_) => V::MIN,
    };
    ops.iter().map(|op| (op.key(), value(op))).unzip()
}

pub(super) fn key_range<K: Number>(&(start, end, limit): &Range<K>) -> KeyRange<K> {
    KeyRange::new((start, end)).limit(limit.unwrap_or(u64::MAX))
}

pub(super) fn widened<V: Word>(found: Vec<Option<V>>) -> Vec<Option<u64>> {
    found.into_iter().map(|value| value.map(V::widen)).collect()
}

pub(super) fn pairs<K: Copy, V: Word>((keys, values): (&[K], &[V])) -> Vec<(K, u64)> {
    keys.iter().copied().zip(values.iter().map(|value| value.widen())).collect()
}

/// The tree's pairs.
pub(super) fn all<K: Number, V: Word>(tree: &Harmonia<K, V>) -> Result<Vec<(K, u64)>> {
    tree.iter().map(|pair| pair.map(|(key, value)| (key, value.widen()))).collect()
}

/// Of results and a bitmap of those that are there.
fn hits<T>(values: Vec<T>, found: &[u32]) -> Vec<Option<T>> {
    let hit = |(i, value)| (found[i / 32] >> (i % 32) & 1 == 1).then_some(value);
    values.into_iter().enumerate().map(hit).collect()
}

impl<K: Number, V: Word> Index for HarmoniaIndex<K, V> {
    type Key = K;

    fn key(number: u16) -> K {
        K::of(number)
    }

    fn build(device: &Device, number: u8, pairs: &[(K, u64)]) -> Result<Self> {
        let builder = options::<K, V>(number);
        let unzip = |pairs: &[(K, u64)]| -> (Vec<K>, Vec<V>) {
            pairs.iter().map(|&(key, value)| (key, V::truncate(value))).unzip()
        };
        let (keys, values) = unzip(pairs);
        Self::new(match number / 15 % 4 {
            0 => builder.build(device, &keys, &values)?,
            1 => {
                // Stable: of equal keys, the last one stays the last.
                let mut sorted = pairs.to_vec();
                sorted.sort_by_key(|pair| pair.0);
                let (keys, values) = unzip(&sorted);
                builder.build_sorted(device, &keys, &values)?
            }
            _ => {
                let (keys, values) = (device.upload(&keys)?, device.upload(&values)?);
                let mut scratch = BuildScratch::for_unsorted(device, pairs.len())?;
                builder.build_on(&device.stream()?, (&keys, &values), pairs.len(), &mut scratch)?
            }
        })
    }

    fn size(&self) -> u64 {
        self.tree.len()
    }

    fn pairs(&mut self) -> Result<Vec<(K, u64)>> {
        all(&self.tree)
    }

    fn apply(&mut self, change: Change, ops: &[Op<K, u64>], form: Form) -> Result<Counts> {
        let Self { tree, stream, scratch } = self;
        let (keys, values) = columns::<K, V>(ops);
        if form == Form::Host || tree.device().kind() == DeviceKind::Host || ops.len() > MOST_OPERATIONS {
            let report = match change {
                Change::Insert => tree.insert_many(&keys, &values)?,
                Change::Update => tree.update_many(&keys, &values)?,
                Change::Remove => tree.remove_many(&keys)?,
                Change::Mixed(_) => tree.apply(&ops.iter().map(narrow).collect::<Vec<_>>())?,
            };
            return Ok(report.into());
        }
        let kind = |op: &Op<K, u64>| match op {
            Op::Insert(..) => 0_u32,
            Op::Update(..) => 1,
            Op::Remove(_) => 2,
        };
        let device = tree.device().clone();
        let (keys, values) = (device.upload(&keys)?, device.upload(&values)?);
        let kinds = match change {
            Change::Insert => None,
            _ => Some(device.upload(&ops.iter().map(kind).collect::<Vec<_>>())?),
        };
        Ok(tree.apply_on(stream, &keys, &values, kinds.as_ref(), scratch)?.into())
    }

    fn get(&self, keys: &[K], form: Form) -> Result<Vec<Option<u64>>> {
        if !self.in_buffers(form, keys.len()) {
            return Ok(widened(self.tree.get_many(keys)?));
        }
        let device = self.tree.device();
        let (queries, mut values) = (device.upload(keys)?, device.alloc::<V>(keys.len())?);
        let mut found = device.alloc(keys.len().div_ceil(32))?;
        self.tree.on(&self.stream).get(&queries, &mut values, Some(&mut found), V::MAX)?;
        self.stream.synchronize()?;
        Ok(widened(hits(values.to_vec()?, &found.to_vec()?)))
    }

    fn rank(&self, keys: &[K], side: Side, form: Form) -> Result<Vec<u64>> {
        if !self.in_buffers(form, keys.len()) {
            return match side {
                Side::Lower => self.tree.lower_bound_many(keys),
                Side::Upper => self.tree.upper_bound_many(keys),
            };
        }
        let device = self.tree.device();
        let (queries, mut ranks) = (device.upload(keys)?, device.alloc(keys.len())?);
        match side {
            Side::Lower => self.tree.on(&self.stream).lower_bound(&queries, &mut ranks)?,
            Side::Upper => self.tree.on(&self.stream).upper_bound(&queries, &mut ranks)?,
        }
        self.stream.synchronize()?;
        Ok(ranks.to_vec()?)
    }

    fn neighbor(&self, keys: &[K], side: Side, form: Form) -> Result<Vec<Option<(K, u64)>>> {
        let wide = |(key, value): (K, V)| (key, value.widen());
        if !self.in_buffers(form, keys.len()) {
            let found = match side {
                Side::Upper => self.tree.predecessor_many(keys)?,
                Side::Lower => self.tree.successor_many(keys)?,
            };
            return Ok(found.into_iter().map(|pair| pair.map(wide)).collect());
        }
        let (device, on) = (self.tree.device(), self.tree.on(&self.stream));
        let queries = device.upload(keys)?;
        let (mut found_keys, mut values) = (device.alloc::<K>(keys.len())?, device.alloc::<V>(keys.len())?);
        let mut found = device.alloc(keys.len().div_ceil(32))?;
        match side {
            Side::Upper => on.predecessor(&queries, &mut found_keys, &mut values, Some(&mut found), V::MAX)?,
            Side::Lower => on.successor(&queries, &mut found_keys, &mut values, Some(&mut found), V::MAX)?,
        }
        self.stream.synchronize()?;
        let values = hits(values.to_vec()?, &found.to_vec()?);
        let pairs = found_keys.to_vec()?.into_iter().zip(values);
        Ok(pairs.map(|(key, value)| value.map(|value| wide((key, value)))).collect())
    }

    fn range(&self, ranges: &[Range<K>], form: Form) -> Result<Vec<Vec<(K, u64)>>> {
        let Some((starts, ends, limits)) =
            inclusive(&self.tree, ranges).filter(|_| self.in_buffers(form, ranges.len()))
        else {
            return Ok(self.tree.range_many(ranges.iter().map(key_range))?.iter().map(pairs).collect());
        };
        let (device, count) = (self.tree.device(), ranges.len());
        let mut scratch = RangeScratch::new(device, count)?;
        // First without room for pairs, which tells how many there are.
        let mut out = DeviceRanges::<K, V>::new(device, count, 0)?;
        for _ in 0..2 {
            let on = self.tree.on(&self.stream);
            on.range(&starts, &ends, Some(&limits), u64::MAX, &mut scratch, &mut out)?;
            self.stream.synchronize()?;
            let pairs = out.offsets.to_vec()?[count] as usize;
            if pairs > out.keys.len() {
                out = DeviceRanges::new(device, count, pairs)?;
            }
        }
        let (offsets, keys, values) = (out.offsets.to_vec()?, out.keys.to_vec()?, out.values.to_vec()?);
        let row = |ends: &[u64]| {
            pairs((&keys[ends[0] as usize..ends[1] as usize], &values[ends[0] as usize..ends[1] as usize]))
        };
        Ok(offsets.windows(2).map(row).collect())
    }

    fn count(&self, ranges: &[Range<K>], form: Form) -> Result<Vec<u64>> {
        let Some((starts, ends, limits)) =
            inclusive(&self.tree, ranges).filter(|_| self.in_buffers(form, ranges.len()))
        else {
            return self.tree.count_many(ranges.iter().map(key_range));
        };
        let mut counts = self.tree.device().alloc(ranges.len())?;
        self.tree.on(&self.stream).count(&starts, &ends, Some(&limits), u64::MAX, &mut counts)?;
        self.stream.synchronize()?;
        Ok(counts.to_vec()?)
    }

    /// A tree on the host becomes one on a device.
    fn relocate(self) -> Result<Self> {
        if self.tree.device().kind() != DeviceKind::Host {
            return Ok(self);
        }
        let (_, copy) = Mirrored::new(self.tree, &Device::emulated_with_seed(5))?.into_trees();
        Self::new(Arc::into_inner(copy).expect("nobody else has it"))
    }

    fn device(&self) -> &Device {
        self.tree.device()
    }
}

/// Bounds of a batch in buffers.
type Bounds<K> = (Buffer<K>, Buffer<K>, Buffer<u64>);

/// The bounds of ranges that all include both.
fn inclusive<K: Number, V: Word>(tree: &Harmonia<K, V>, ranges: &[Range<K>]) -> Option<Bounds<K>> {
    let bounds = ranges.iter().map(|&(start, end, limit)| match (start, end) {
        (Bound::Included(start), Bound::Included(end)) => Some((start, (end, limit.unwrap_or(u64::MAX)))),
        _ => None,
    });
    let (starts, rest): (Vec<K>, Vec<(K, u64)>) = bounds.collect::<Option<Vec<_>>>()?.into_iter().unzip();
    let (ends, limits): (Vec<K>, Vec<u64>) = rest.into_iter().unzip();
    let device = tree.device();
    Some((device.upload(&starts).ok()?, device.upload(&ends).ok()?, device.upload(&limits).ok()?))
}

/// Whether an error says that the tree is lost.
pub(crate) fn is_lost(error: &Error) -> bool {
    matches!(error, Error::Lost { .. })
}
