//! CuART, in both forms.

use super::Index;
use super::strings::{all_pairs, byte_range, neighbors, packed, string, values};
use crate::model::Range;
use crate::{Change, Counts, Form, Side};
use lanetree::cuart::{ChangeScratch, LongKeys, Op, RootTable, UpdateEngine};
use lanetree::{ByteKeysBuf, Cuart, Device, DeviceKeys, DeviceKind, Error, Result, Stream, Word};

/// A tree, and what its device form takes.
#[derive(Debug)]
pub struct CuartIndex<V: Word> {
    pub(super) tree: Cuart<V>,
    stream: Stream,
    engine: UpdateEngine,
}

impl<V: Word> CuartIndex<V> {
    pub(super) fn new(tree: Cuart<V>) -> Result<Self> {
        let stream = tree.device().stream()?;
        Ok(Self { tree, stream, engine: UpdateEngine::Auto })
    }

    pub(super) fn tree(&self) -> &Cuart<V> {
        &self.tree
    }

    fn in_buffers(&self, form: Form, keys: usize) -> bool {
        let on_device = self.tree.device().kind() != DeviceKind::Host && self.tree.stats().host_leaves == 0;
        form == Form::Device && on_device && keys > 0
    }
}

pub(super) fn columns<V: Word>(ops: &[Op<Vec<u8>, u64>]) -> (ByteKeysBuf, Vec<V>) {
    let (mut keys, mut values) = (ByteKeysBuf::new(), Vec::new());
    for op in ops {
        let (key, value) = match op {
            Op::Insert(key, value) | Op::Update(key, value) => (key, *value),
            Op::Remove(key) => (key, 0),
        };
        keys.push(key);
        values.push(V::truncate(value));
    }
    (keys, values)
}

pub(super) fn narrow<V: Word>(ops: &[Op<Vec<u8>, u64>]) -> Vec<Op<&[u8], V>> {
    fn one<V: Word>(op: &Op<Vec<u8>, u64>) -> Op<&[u8], V> {
        match op {
            Op::Insert(key, value) => Op::Insert(key, V::truncate(*value)),
            Op::Update(key, value) => Op::Update(key, V::truncate(*value)),
            Op::Remove(key) => Op::Remove(key),
        }
    }
    ops.iter().map(one).collect()
}

pub(super) fn cut(mut key: Vec<u8>, len: usize) -> Vec<u8> {
    key.truncate(len);
    key
}

pub(super) fn rank<V: Word>(tree: &Cuart<V>, keys: &[Vec<u8>], side: Side) -> Result<Vec<u64>> {
    match side {
        Side::Lower => tree.lower_bound_many(&packed(keys)),
        Side::Upper => tree.upper_bound_many(&packed(keys)),
    }
}

/// All pairs: of a tree on a device that is not compact, those of its copy on the host.
pub(super) fn all<V: Word>(tree: &Cuart<V>) -> Result<Vec<(Vec<u8>, u64)>> {
    let copy;
    let tree = if tree.is_compact() || tree.device().kind() == DeviceKind::Host {
        tree
    } else {
        copy = tree.to_device(&Device::host())?;
        &copy
    };
    Ok(all_pairs(&tree.range_many([..])?).remove(0))
}

pub(super) fn may_refuse<V: Word>(tree: &Cuart<V>, error: &Error) -> bool {
    match error {
        Error::NotCompact { .. } => !tree.is_compact(),
        Error::LeavesInMainMemory { .. } => tree.stats().host_leaves > 0 && tree.device().kind() != DeviceKind::Host,
        _ => false,
    }
}

impl<V: Word> Index for CuartIndex<V> {
    type Key = Vec<u8>;

    fn key(number: u16) -> Vec<u8> {
        string(number)
    }

    fn build(device: &Device, options: u8, pairs: &[(Vec<u8>, u64)]) -> Result<Self> {
        let long_keys = if options & 1 == 0 { LongKeys::DeviceLeaves } else { LongKeys::HostLeaves };
        let table = if options & 6 == 2 { RootTable::TwoBytes } else { RootTable::None };
        let engine = match options >> 3 & 3 {
            0 => UpdateEngine::Auto,
            1 => UpdateEngine::HashTable,
            2 => UpdateEngine::Stamps,
            _ => UpdateEngine::Sort,
        };
        let keys = packed(pairs.iter().map(|pair| &pair.0));
        let values: Vec<V> = pairs.iter().map(|pair| V::truncate(pair.1)).collect();
        let tree = Cuart::builder().root_table(table).long_keys(long_keys).build(device, &keys, &values)?;
        Ok(Self { engine, ..Self::new(tree)? })
    }

    fn size(&self) -> u64 {
        self.tree.len()
    }

    fn pairs(&mut self) -> Result<Vec<(Vec<u8>, u64)>> {
        all(&self.tree)
    }

    fn apply(&mut self, change: Change, ops: &[Op<Vec<u8>, u64>], form: Form) -> Result<Counts> {
        let (keys, found) = columns::<V>(ops);
        let Self { tree, stream, engine } = self;
        let in_buffers = form == Form::Device && tree.device().kind() != DeviceKind::Host && !ops.is_empty();
        if let (true, Change::Insert | Change::Update | Change::Remove) = (in_buffers, change) {
            let device = tree.device().clone();
            let keys = DeviceKeys::upload(&device, &keys)?;
            let found = device.upload(&found)?;
            let mut counts = Counts::default();
            match change {
                Change::Insert => {
                    let mut scratch = ChangeScratch::for_inserts(&device, ops.len(), *engine)?;
                    counts.inserted = Some(tree.insert_on(stream, &keys, &found, &mut scratch)?.inserted);
                }
                Change::Update => {
                    let mut scratch = ChangeScratch::for_updates(&device, ops.len(), *engine)?;
                    tree.update_on(stream, &keys, &found, None, &mut scratch)?;
                }
                _ => counts.removed = Some(tree.remove_on(stream, &keys)?),
            }
            stream.synchronize()?;
            return Ok(counts);
        }
        let report = match change {
            Change::Insert => tree.insert_many(&keys, &found)?,
            Change::Update => tree.update_many(&keys, &found)?,
            Change::Remove => tree.remove_many(&keys)?,
            Change::Mixed(_) => tree.apply(&narrow(ops))?,
        };
        Ok(report.into())
    }

    fn get(&self, keys: &[Vec<u8>], form: Form) -> Result<Vec<Option<u64>>> {
        if !self.in_buffers(form, keys.len()) {
            return Ok(values(self.tree.get_many(&packed(keys))?));
        }
        let device = self.tree.device();
        let (queries, mut out) = (DeviceKeys::upload(device, &packed(keys))?, device.alloc::<V>(keys.len())?);
        let mut found = device.alloc(keys.len().div_ceil(32))?;
        self.tree.on(&self.stream).get(&queries, &mut out, Some(&mut found), V::MAX)?;
        self.stream.synchronize()?;
        let (out, found) = (out.to_vec()?, found.to_vec()?);
        let hit = |(i, value): (usize, V)| (found[i / 32] >> (i % 32) & 1 == 1).then(|| value.widen());
        Ok(out.into_iter().enumerate().map(hit).collect())
    }

    fn rank(&self, keys: &[Vec<u8>], side: Side, form: Form) -> Result<Vec<u64>> {
        if !self.in_buffers(form, keys.len()) {
            return rank(&self.tree, keys, side);
        }
        let device = self.tree.device();
        let (queries, mut ranks) = (DeviceKeys::upload(device, &packed(keys))?, device.alloc(keys.len())?);
        match side {
            Side::Lower => self.tree.on(&self.stream).lower_bound(&queries, &mut ranks)?,
            Side::Upper => self.tree.on(&self.stream).upper_bound(&queries, &mut ranks)?,
        }
        self.stream.synchronize()?;
        Ok(ranks.to_vec()?)
    }

    fn neighbor(&self, keys: &[Vec<u8>], side: Side, _: Form) -> Result<Vec<Option<(Vec<u8>, u64)>>> {
        Ok(neighbors(match side {
            Side::Upper => self.tree.predecessor_many(&packed(keys))?,
            Side::Lower => self.tree.successor_many(&packed(keys))?,
        }))
    }

    fn range(&self, ranges: &[Range<Vec<u8>>], _: Form) -> Result<Vec<Vec<(Vec<u8>, u64)>>> {
        Ok(all_pairs(&self.tree.range_many(ranges.iter().map(byte_range))?))
    }

    fn count(&self, ranges: &[Range<Vec<u8>>], _: Form) -> Result<Vec<u64>> {
        self.tree.count_many(ranges.iter().map(byte_range))
    }

    fn prefix(&self, prefixes: &[Vec<u8>]) -> Option<Result<Vec<Vec<(Vec<u8>, u64)>>>> {
        Some(self.tree.prefix_many(&packed(prefixes)).map(|found| all_pairs(&found)))
    }

    fn cut(key: Vec<u8>, len: usize) -> Vec<u8> {
        cut(key, len)
    }

    fn begins_with(key: &Vec<u8>, prefix: &Vec<u8>) -> bool {
        key.starts_with(prefix)
    }

    fn compact(&mut self) -> Result<()> {
        self.tree.compact()
    }

    /// From the host to a device, and back.
    fn relocate(self) -> Result<Self> {
        let device = match self.tree.device().kind() {
            DeviceKind::Host => Device::emulated_with_seed(5),
            _ => Device::host(),
        };
        Ok(Self { engine: self.engine, ..Self::new(self.tree.to_device(&device)?)? })
    }

    fn may_refuse(&self, error: &Error) -> bool {
        may_refuse(&self.tree, error)
    }

    fn device(&self) -> &Device {
        self.tree.device()
    }
}
