//! Pairs of a tree on the host and its copy on a device.

use super::harmonia::{all, columns, key_range, narrow, options, pairs, widened};
use super::strings::{all_pairs, byte_range, neighbors, packed, string, values};
use super::{CuartIndex, Index, Number, Pairs, cuart};
use crate::model::Range;
use crate::{Change, Counts, Form, Side};
use lanetree::harmonia::{Mirrored, Op};
use lanetree::{Cuart, Device, Error, Harmonia, Result, Word, cuart as radix};
use std::sync::Arc;

/// A tree that is kept as it is, and what it holds.
type Version<K, V> = (Arc<Harmonia<K, V>>, Pairs<K>);

/// Harmonia's pair, and a version of the copy that somebody keeps.
#[derive(Debug)]
pub struct MirroredHarmonia<K: Number, V: Word> {
    pair: Mirrored<K, V>,
    kept: Option<Version<K, V>>,
}

impl<K: Number, V: Word> MirroredHarmonia<K, V> {
    fn copy(&self) -> &Harmonia<K, V> {
        self.pair.device_tree()
    }
}

impl<K: Number, V: Word> Index for MirroredHarmonia<K, V> {
    type Key = K;

    fn key(number: u16) -> K {
        K::of(number)
    }

    fn build(device: &Device, number: u8, pairs: &[(K, u64)]) -> Result<Self> {
        let (keys, values): (Vec<K>, Vec<V>) = pairs.iter().map(|&(key, value)| (key, V::truncate(value))).unzip();
        let host = options(number).build(&Device::host(), &keys, &values)?;
        Ok(Self { pair: Mirrored::new(host, device)?, kept: None })
    }

    fn size(&self) -> u64 {
        self.copy().len()
    }

    fn pairs(&mut self) -> Result<Vec<(K, u64)>> {
        let copied = all(self.copy())?;
        assert_eq!(all(self.pair.host_tree())?, copied, "the host's tree and its copy");
        if let Some((version, expected)) = &self.kept {
            assert_eq!(&all(version)?, expected, "a version that was kept");
        }
        Ok(copied)
    }

    fn apply(&mut self, change: Change, ops: &[Op<K, u64>], _: Form) -> Result<Counts> {
        let (keys, values) = columns::<K, V>(ops);
        let report = match change {
            Change::Insert => self.pair.insert_many(&keys, &values)?,
            Change::Update => self.pair.update_many(&keys, &values)?,
            Change::Remove => self.pair.remove_many(&keys)?,
            Change::Mixed(_) => self.pair.apply(&ops.iter().map(narrow).collect::<Vec<_>>())?,
        };
        Ok(report.update.into())
    }

    fn get(&self, keys: &[K], _: Form) -> Result<Vec<Option<u64>>> {
        Ok(widened(self.copy().get_many(keys)?))
    }

    fn rank(&self, keys: &[K], side: Side, _: Form) -> Result<Vec<u64>> {
        match side {
            Side::Lower => self.copy().lower_bound_many(keys),
            Side::Upper => self.copy().upper_bound_many(keys),
        }
    }

    fn neighbor(&self, keys: &[K], side: Side, _: Form) -> Result<Vec<Option<(K, u64)>>> {
        let found = match side {
            Side::Upper => self.copy().predecessor_many(keys)?,
            Side::Lower => self.copy().successor_many(keys)?,
        };
        Ok(found.into_iter().map(|pair| pair.map(|(key, value)| (key, value.widen()))).collect())
    }

    fn range(&self, ranges: &[Range<K>], _: Form) -> Result<Vec<Vec<(K, u64)>>> {
        Ok(self.copy().range_many(ranges.iter().map(key_range))?.iter().map(pairs).collect())
    }

    fn count(&self, ranges: &[Range<K>], _: Form) -> Result<Vec<u64>> {
        self.copy().count_many(ranges.iter().map(key_range))
    }

    /// Somebody keeps the copy as it is.
    fn relocate(mut self) -> Result<Self> {
        let version = self.pair.device_tree().clone();
        let pairs = all(&version)?;
        self.kept = Some((version, pairs));
        Ok(self)
    }

    fn device(&self) -> &Device {
        self.copy().device()
    }

    fn settle(&mut self) -> Result<bool> {
        // In step: the batch has failed on the host, and neither has it.
        let changed = !self.pair.is_in_step();
        self.pair.synchronize()?;
        Ok(changed)
    }
}

/// CuART's pair; taken apart, its copy alone.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of it")]
pub enum MirroredCuart<V: Word> {
    /// Both trees.
    Pair(radix::Mirrored<V>, Device),
    /// The copy, which goes on by itself.
    Alone(CuartIndex<V>),
}

impl<V: Word> MirroredCuart<V> {
    fn copy(&self) -> &Cuart<V> {
        match self {
            Self::Pair(pair, _) => pair.device_tree().expect("a pair in sync has a copy"),
            Self::Alone(index) => index.tree(),
        }
    }
}

impl<V: Word> Index for MirroredCuart<V> {
    type Key = Vec<u8>;

    fn key(number: u16) -> Vec<u8> {
        string(number)
    }

    fn build(device: &Device, number: u8, pairs: &[(Vec<u8>, u64)]) -> Result<Self> {
        let CuartIndex { tree, .. } = CuartIndex::build(&Device::host(), number, pairs)?;
        Ok(Self::Pair(radix::Mirrored::new(tree, device)?, device.clone()))
    }

    fn size(&self) -> u64 {
        self.copy().len()
    }

    fn pairs(&mut self) -> Result<Vec<(Vec<u8>, u64)>> {
        let copied = cuart::all(self.copy())?;
        if let Self::Pair(pair, _) = self {
            assert_eq!(cuart::all(pair.host_tree())?, copied, "the host's tree and its copy");
        }
        Ok(copied)
    }

    fn apply(&mut self, change: Change, ops: &[Op<Vec<u8>, u64>], form: Form) -> Result<Counts> {
        let pair = match self {
            Self::Alone(index) => return index.apply(change, ops, form),
            Self::Pair(pair, _) => pair,
        };
        let (keys, found) = cuart::columns(ops);
        let report = match change {
            Change::Insert => pair.insert_many(&keys, &found)?,
            Change::Update => pair.update_many(&keys, &found)?,
            Change::Remove => pair.remove_many(&keys)?,
            Change::Mixed(_) => pair.apply(&cuart::narrow(ops))?,
        };
        Ok(report.update.into())
    }

    fn get(&self, keys: &[Vec<u8>], _: Form) -> Result<Vec<Option<u64>>> {
        Ok(values(self.copy().get_many(&packed(keys))?))
    }

    fn rank(&self, keys: &[Vec<u8>], side: Side, _: Form) -> Result<Vec<u64>> {
        cuart::rank(self.copy(), keys, side)
    }

    fn neighbor(&self, keys: &[Vec<u8>], side: Side, _: Form) -> Result<Vec<Option<(Vec<u8>, u64)>>> {
        Ok(neighbors(match side {
            Side::Upper => self.copy().predecessor_many(&packed(keys))?,
            Side::Lower => self.copy().successor_many(&packed(keys))?,
        }))
    }

    fn range(&self, ranges: &[Range<Vec<u8>>], _: Form) -> Result<Vec<Vec<(Vec<u8>, u64)>>> {
        Ok(all_pairs(&self.copy().range_many(ranges.iter().map(byte_range))?))
    }

    fn count(&self, ranges: &[Range<Vec<u8>>], _: Form) -> Result<Vec<u64>> {
        self.copy().count_many(ranges.iter().map(byte_range))
    }

    fn prefix(&self, prefixes: &[Vec<u8>]) -> Option<Result<Vec<Vec<(Vec<u8>, u64)>>>> {
        Some(self.copy().prefix_many(&packed(prefixes)).map(|found| all_pairs(&found)))
    }

    fn cut(key: Vec<u8>, len: usize) -> Vec<u8> {
        cuart::cut(key, len)
    }

    fn begins_with(key: &Vec<u8>, prefix: &Vec<u8>) -> bool {
        key.starts_with(prefix)
    }

    fn compact(&mut self) -> Result<()> {
        match self {
            Self::Pair(pair, _) => pair.compact().map(drop),
            Self::Alone(index) => index.compact(),
        }
    }

    fn relocate(self) -> Result<Self> {
        Ok(match self {
            Self::Pair(pair, _) => {
                let (_, copy) = pair.into_trees();
                Self::Alone(CuartIndex::new(copy.expect("a pair in sync has a copy"))?)
            }
            Self::Alone(index) => Self::Alone(index.relocate()?),
        })
    }

    fn may_refuse(&self, error: &Error) -> bool {
        cuart::may_refuse(self.copy(), error)
    }

    fn device(&self) -> &Device {
        match self {
            Self::Pair(_, device) => device,
            Self::Alone(index) => index.device(),
        }
    }

    fn settle(&mut self) -> Result<bool> {
        let Self::Pair(pair, _) = self else { return Ok(false) };
        let changed = pair.device_tree().is_none();
        pair.synchronize()?;
        Ok(changed)
    }
}
