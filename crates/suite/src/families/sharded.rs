//! Indexes over several devices.

use crate::fixed::{Unsigned, aggregates_in_buffers};
use crate::memory::{Memory, in_buffers, miss, wide};
use crate::operations::Columns;
use crate::{Answer, Change, Combination, Counts, Form, Hooks, Numbered, Question, Side, fixed};
use core::cell::Cell;
use lanetree::{
    AnyKey, Buffer, Device, DeviceKind, DeviceRanges, IndexBuilder, JoinKind, LaneTree, OnDevices, Op, OrderedIndex,
    Replicated, Result, Sharded, ShardedUpdateScratch, Stream, Word,
};
use lanetree_frame::fixed::FixedIndex;

/// Where three shards or copies are.
#[derive(Clone, Copy, Debug)]
pub enum Three {
    /// All on the device: a failure of it comes to any of them.
    Together,
    /// On the emulator, each on a device of its own; on a GPU, the others on the host's first two GPUs, if it has two.
    Apart,
}

impl Three {
    pub(crate) fn devices(self, device: &Device) -> [Device; 3] {
        match (self, device.kind()) {
            (Self::Apart, DeviceKind::Emulated) => {
                [device.clone(), Device::emulated_with_seed(11), Device::emulated_with_seed(12)]
            }
            (Self::Apart, DeviceKind::Cuda) => {
                let gpu = |ordinal| Device::cuda(ordinal).unwrap_or_else(|_| device.clone());
                [device.clone(), gpu(0), gpu(1)]
            }
            _ => [device.clone(), device.clone(), device.clone()],
        }
    }
}

/// Three shards, each of which a builder makes.
#[derive(Clone, Debug)]
pub struct ShardedBuilder<B>(B, Three);

/// Three copies, each of which a builder makes.
#[derive(Clone, Debug)]
pub struct ReplicatedBuilder<B>(B, Three);

/// Together and apart.
pub fn sharded_builders<B: Clone>(builder: B) -> [ShardedBuilder<B>; 2] {
    [Three::Together, Three::Apart].map(|three| ShardedBuilder(builder.clone(), three))
}

/// Together and apart.
pub fn replicated_builders<B: Clone>(builder: B) -> [ReplicatedBuilder<B>; 2] {
    [Three::Together, Three::Apart].map(|three| ReplicatedBuilder(builder.clone(), three))
}

impl<K: AnyKey, B: IndexBuilder<Index: OrderedIndex<Domain = K>> + 'static> IndexBuilder for ShardedBuilder<B> {
    type Index = Sharded<B::Index>;

    fn build(&self, device: &Device, keys: &[K], values: &[<B::Index as OrderedIndex>::Value]) -> Result<Self::Index> {
        Sharded::build(&self.1.devices(device), self.0.clone(), keys, values)
    }
}

impl<K: AnyKey, B: IndexBuilder<Index: OrderedIndex<Domain = K>>> IndexBuilder for ReplicatedBuilder<B> {
    type Index = Replicated<B::Index>;

    fn build(&self, device: &Device, keys: &[K], values: &[<B::Index as OrderedIndex>::Value]) -> Result<Self::Index> {
        Replicated::build(&self.1.devices(device), self.0.clone(), keys, values)
    }
}

/// The hooks of LaneTrees in shards: scratch memory, and whether the next batch is called sorted, which most are not.
#[derive(Debug)]
pub struct ShardedHooks<K: AnyKey, V> {
    scratch: ShardedUpdateScratch<K, V>,
    is_sorted: Cell<bool>,
}

impl<K: AnyKey + Numbered, V: Word> Hooks<Sharded<LaneTree<K, V>>> for ShardedHooks<K, V> {
    fn start(_: &Sharded<LaneTree<K, V>>, _: u8) -> Result<Self> {
        Ok(Self { scratch: ShardedUpdateScratch::default(), is_sorted: Cell::new(false) })
    }

    fn apply(
        &mut self,
        index: &mut Sharded<LaneTree<K, V>>,
        stream: &Stream,
        change: Change,
        ops: &[Op<K, V>],
    ) -> Option<Result<Counts>> {
        let apply = || {
            let columns = Columns::upload(stream.device(), change, ops)?;
            Ok(index.apply_on(stream, columns.batch(), &mut self.scratch)?.into())
        };
        (stream.device().kind() != DeviceKind::Host).then(apply)
    }

    fn ask(
        &self,
        index: &Sharded<LaneTree<K, V>>,
        stream: &Stream,
        question: &Question<K>,
        form: Form,
    ) -> Option<Result<Answer<K>>> {
        let is_sorted = self.is_sorted.replace(!self.is_sorted.get());
        let on = || if is_sorted { index.on(stream).sorted() } else { index.on(stream) };
        if let Question::Aggregate(spans, folding) = question {
            let (starts, ends): (Vec<K>, Vec<K>) = spans.iter().copied().unzip();
            let found = match form {
                Form::Host => index.aggregate_many::<Unsigned<V>>(folding.aggregate(), &starts, &ends),
                Form::Device => aggregates_in_buffers(stream, spans, |starts, ends, out| {
                    on().aggregate::<Unsigned<V>>(folding.aggregate(), starts, ends, out)
                }),
            };
            return Some(found.map(Answer::Values));
        }
        let in_buffers = if form == Form::Device { on_devices(index, on, stream, question).transpose() } else { None };
        in_buffers.or_else(|| match question {
            Question::AsOf(keys, near) => {
                let pair = |(key, value): (K, V)| (key, wide(value));
                let found = index.asof_many(keys, &near.as_of());
                Some(found.map(|found| Answer::Neighbors(found.into_iter().map(|found| found.map(pair)).collect())))
            }
            Question::Combine(how, pairs) => Some(combine(index, *how, pairs).map(Answer::Pairs)),
            _ => None,
        })
    }
}

/// In device form.
fn on_devices<'a, K: AnyKey, V: Word>(
    index: &Sharded<LaneTree<K, V>>,
    on: impl Fn() -> OnDevices<'a, LaneTree<K, V>>,
    stream: &Stream,
    question: &Question<K>,
) -> Result<Option<Answer<K>>> {
    if let Question::Scan(starts, limit) = question {
        let memory = Memory::new(stream);
        let queries = memory.lender.upload(starts)?;
        let scan =
            |keys: &mut _, values: &mut Buffer<V>, counts: &mut _| on().scan(&queries, *limit, keys, values, counts);
        return memory.scan(starts.len(), *limit, scan).map(Some);
    }
    let on = &on;
    let ranges =
        |starts, ends, limits| move |out: &mut DeviceRanges<K, V>| on().limits(limits).range(starts, ends, out);
    in_buffers!(question, stream, on, ranges, |keys: &[K]| index.get_many(keys))
}

/// With pairs in shards on the same devices, and on one alone.
fn combine<K: AnyKey, V: Word>(
    index: &Sharded<LaneTree<K, V>>,
    how: Combination,
    pairs: &[(K, u64)],
) -> Result<Vec<(K, u64)>> {
    let (keys, values): (Vec<K>, Vec<V>) = pairs.iter().map(|&(key, value)| (key, V::truncate(value))).unzip();
    let devices: Vec<Device> = index.shards()?.iter().map(|shard| shard.device().clone()).collect();
    let devices = if pairs.len().is_multiple_of(2) { &devices[..] } else { &devices[..1] };
    let other = Sharded::build(devices, LaneTree::builder(), &keys, &values)?;
    let combined = match how {
        Combination::Union => index.union(&other)?,
        Combination::Intersection => index.intersection(&other)?,
        Combination::Difference => index.difference(&other)?,
    };
    Ok(combined.pairs()?.into_iter().map(|(key, value)| (key, value.widen())).collect())
}

/// The hooks of copies: what one of them answers.
#[derive(Clone, Copy, Debug)]
pub struct ReplicatedHooks;

impl<I: FixedIndex<Key: Numbered, Value: Word>> Hooks<Replicated<I>> for ReplicatedHooks {
    fn start(_: &Replicated<I>, _: u8) -> Result<Self> {
        Ok(Self)
    }

    fn ask(
        &self,
        index: &Replicated<I>,
        stream: &Stream,
        question: &Question<I::Key>,
        form: Form,
    ) -> Option<Result<Answer<I::Key>>> {
        if form == Form::Host {
            return None;
        }
        match index.on(stream) {
            Ok(on) => fixed::ask_of_map(on.index(), stream, question, form),
            Err(error) => Some(Err(error)),
        }
    }
}
