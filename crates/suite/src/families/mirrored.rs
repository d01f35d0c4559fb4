//! A tree on the host and its copy on a device.

use super::{CuartHooks, cuart_builders, harmonia_builders};
use crate::host;
use crate::model::Range;
use crate::operations::{columns, narrow};
use crate::{Change, Counts, Family, Form, Neighbor, Numbered, OrderedSubject, Pairs, Side, Subject};
use core::marker::PhantomData;
use lanetree::harmonia::{Mirrored, Op};
use lanetree::{ByteKeysBuf, Cuart, Device, DeviceKind, Error, Harmonia, IndexBuilder, Key, Result, Word};
use lanetree::{OrderedIndex, cuart as radix};
use std::sync::Arc;

/// A tree that is kept as it is, and what it holds.
type Version<K, V> = (Arc<Harmonia<K, V>>, Pairs<K>);

/// Harmonia's pairs of trees.
#[derive(Clone, Copy, Debug)]
pub struct MirroredHarmoniaFamily<K, V> {
    name: &'static str,
    words: PhantomData<(K, V)>,
}

/// Harmonia's pairs of trees.
pub fn mirrored_harmonia<K: Key, V: Word>(name: &'static str) -> MirroredHarmoniaFamily<K, V> {
    MirroredHarmoniaFamily { name, words: PhantomData }
}

impl<K: Key + Numbered, V: Word> Family for MirroredHarmoniaFamily<K, V> {
    type Subject = MirroredHarmonia<K, V>;

    fn name(&self) -> &str {
        self.name
    }

    fn ways(&self) -> u8 {
        harmonia_builders::<K, V>().len() as u8
    }

    fn build(&self, device: &Device, options: u8, pairs: &[(K, u64)]) -> Result<MirroredHarmonia<K, V>> {
        let (keys, values): (Vec<K>, Vec<V>) = pairs.iter().map(|&(key, value)| (key, V::truncate(value))).unzip();
        let builders = harmonia_builders();
        let host = builders[usize::from(options) % builders.len()].build(&Device::host(), keys.as_slice(), &values)?;
        Ok(MirroredHarmonia { pair: Mirrored::new(host, device)?, kept: None })
    }
}

/// Harmonia's pair, and a version of the copy that somebody keeps.
#[derive(Debug)]
pub struct MirroredHarmonia<K: Key, V: Word> {
    pair: Mirrored<K, V>,
    kept: Option<Version<K, V>>,
}

impl<K: Key, V: Word> MirroredHarmonia<K, V> {
    fn copy(&self) -> &Harmonia<K, V> {
        self.pair.device_tree()
    }
}

impl<K: Key + Numbered, V: Word> Subject for MirroredHarmonia<K, V> {
    type Key = K;

    fn size(&self) -> u64 {
        self.copy().len()
    }

    fn pairs(&mut self) -> Result<Pairs<K>> {
        let copied = host::pairs(self.copy())?;
        assert_eq!(host::pairs(self.pair.host_tree())?, copied, "the host's tree and its copy");
        if let Some((version, expected)) = &self.kept {
            assert_eq!(&host::pairs(&**version)?, expected, "a version that was kept");
        }
        Ok(copied)
    }

    fn apply(&mut self, change: Change, ops: &[Op<K, u64>], _: Form) -> Result<Counts> {
        let (keys, values): (Vec<K>, Vec<V>) = columns(ops);
        let report = match change {
            Change::Insert => self.pair.insert_many(&keys, &values)?,
            Change::Update => self.pair.update_many(&keys, &values)?,
            Change::Remove => self.pair.remove_many(&keys)?,
            Change::Mixed(_) => self.pair.apply(&ops.iter().map(narrow).collect::<Vec<_>>())?,
        };
        Ok(report.update.into())
    }

    fn get(&self, keys: &[K], _: Form) -> Result<Vec<Option<u64>>> {
        host::get(self.copy(), keys)
    }

    fn rank(&self, keys: &[K], side: Side, _: Form) -> Result<Vec<u64>> {
        host::rank(self.copy(), keys, side)
    }

    fn neighbor(&self, keys: &[K], side: Side, _: Form) -> Result<Vec<Neighbor<K>>> {
        host::neighbor(self.copy(), keys, side)
    }

    fn range(&self, ranges: &[Range<K>], _: Form) -> Result<Vec<Pairs<K>>> {
        host::range(self.copy(), ranges)
    }

    fn count(&self, ranges: &[Range<K>], _: Form) -> Result<Vec<u64>> {
        host::count(self.copy(), ranges)
    }

    /// Somebody keeps the copy as it is.
    fn relocate(mut self) -> Result<Self> {
        let version = self.pair.device_tree().clone();
        let pairs = host::pairs(&*version)?;
        self.kept = Some((version, pairs));
        Ok(self)
    }

    fn device(&self) -> &Device {
        OrderedIndex::device(self.copy())
    }

    fn settle(&mut self) -> Result<bool> {
        // In sync: the batch has failed on the host, and neither tree has it.
        let changed = !self.pair.is_in_sync();
        self.pair.synchronize()?;
        Ok(changed)
    }
}

/// CuART's pairs of trees.
#[derive(Clone, Copy, Debug)]
pub struct MirroredCuartFamily<V> {
    name: &'static str,
    words: PhantomData<V>,
}

/// CuART's pairs of trees.
pub fn mirrored_cuart<V: Word>(name: &'static str) -> MirroredCuartFamily<V> {
    MirroredCuartFamily { name, words: PhantomData }
}

impl<V: Word> Family for MirroredCuartFamily<V> {
    type Subject = MirroredCuart<V>;

    fn name(&self) -> &str {
        self.name
    }

    fn ways(&self) -> u8 {
        cuart_builders::<V>().len() as u8
    }

    fn build(&self, device: &Device, options: u8, pairs: &[(Vec<u8>, u64)]) -> Result<MirroredCuart<V>> {
        let keys: ByteKeysBuf = pairs.iter().map(|pair| &pair.0).collect();
        let values: Vec<V> = pairs.iter().map(|pair| V::truncate(pair.1)).collect();
        let builders = cuart_builders();
        let builder = builders[usize::from(options) % builders.len()];
        let tree = builder.build(&Device::host(), (&keys).into(), &values)?;
        Ok(MirroredCuart::Pair(radix::Mirrored::new(tree, device)?, device.clone()))
    }
}

/// CuART's pair; taken apart, its copy alone.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of it")]
pub enum MirroredCuart<V: Word> {
    /// Both trees.
    Pair(radix::Mirrored<V>, Device),
    /// The copy, which goes on by itself.
    Alone(OrderedSubject<Cuart<V>, CuartHooks>),
}

impl<V: Word> MirroredCuart<V> {
    fn copy(&self) -> &Cuart<V> {
        match self {
            Self::Pair(pair, _) => pair.device_tree().expect("a pair in sync has a copy"),
            Self::Alone(subject) => subject.index(),
        }
    }
}

impl<V: Word> Subject for MirroredCuart<V> {
    type Key = Vec<u8>;

    fn size(&self) -> u64 {
        self.copy().len()
    }

    fn pairs(&mut self) -> Result<Pairs<Vec<u8>>> {
        let copied = host::pairs(self.copy())?;
        if let Self::Pair(pair, _) = self {
            assert_eq!(host::pairs(pair.host_tree())?, copied, "the host's tree and its copy");
        }
        Ok(copied)
    }

    fn apply(&mut self, change: Change, ops: &[Op<Vec<u8>, u64>], form: Form) -> Result<Counts> {
        let pair = match self {
            Self::Alone(subject) => return subject.apply(change, ops, form),
            Self::Pair(pair, _) => pair,
        };
        let (keys, values): (ByteKeysBuf, Vec<V>) = columns(ops);
        let report = match change {
            Change::Insert => pair.insert_many(&keys, &values)?,
            Change::Update => pair.update_many(&keys, &values)?,
            Change::Remove => pair.remove_many(&keys)?,
            Change::Mixed(_) => pair.apply(&ops.iter().map(narrow).collect::<Vec<Op<Vec<u8>, V>>>())?,
        };
        Ok(report.update.into())
    }

    fn get(&self, keys: &[Vec<u8>], _: Form) -> Result<Vec<Option<u64>>> {
        host::get(self.copy(), keys)
    }

    fn rank(&self, keys: &[Vec<u8>], side: Side, _: Form) -> Result<Vec<u64>> {
        host::rank(self.copy(), keys, side)
    }

    fn neighbor(&self, keys: &[Vec<u8>], side: Side, _: Form) -> Result<Vec<Neighbor<Vec<u8>>>> {
        host::neighbor(self.copy(), keys, side)
    }

    fn range(&self, ranges: &[Range<Vec<u8>>], _: Form) -> Result<Vec<Pairs<Vec<u8>>>> {
        host::range(self.copy(), ranges)
    }

    fn count(&self, ranges: &[Range<Vec<u8>>], _: Form) -> Result<Vec<u64>> {
        host::count(self.copy(), ranges)
    }

    fn prefix(&self, prefixes: &[Vec<u8>]) -> Option<Result<Vec<Pairs<Vec<u8>>>>> {
        let found = self.copy().prefix_many(&prefixes.iter().collect::<ByteKeysBuf>());
        Some(found.map(|found| host::rows::<Cuart<V>>(&found)))
    }

    fn restore_order(&mut self) -> Result<()> {
        match self {
            Self::Pair(pair, _) => pair.compact().map(drop),
            Self::Alone(subject) => subject.restore_order(),
        }
    }

    fn relocate(self) -> Result<Self> {
        Ok(match self {
            Self::Pair(pair, _) => {
                let (_, copy) = pair.into_trees();
                Self::Alone(OrderedSubject::of(copy.expect("a pair in sync has a copy"), 0)?)
            }
            Self::Alone(subject) => Self::Alone(subject.relocate()?),
        })
    }

    fn may_refuse(&self, error: &Error) -> bool {
        let tree = self.copy();
        match error {
            Error::NotCompact { .. } => !tree.is_compact(),
            Error::LeavesInMainMemory { .. } => {
                tree.stats().host_leaves > 0 && tree.device().kind() != DeviceKind::Host
            }
            _ => false,
        }
    }

    fn device(&self) -> &Device {
        match self {
            Self::Pair(_, device) => device,
            Self::Alone(subject) => subject.device(),
        }
    }

    fn settle(&mut self) -> Result<bool> {
        let Self::Pair(pair, _) = self else { return Ok(false) };
        let changed = pair.device_tree().is_none();
        pair.synchronize()?;
        Ok(changed)
    }
}
