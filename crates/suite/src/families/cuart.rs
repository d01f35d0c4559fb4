//! CuART: two ways to build it, changes in device form by each engine, prefixes.

use crate::families::batched::Way;
use crate::host::rows;
use crate::operations::value_of;
use crate::{Answer, Change, Counts, Form, Hooks, Question};
use lanetree::cuart::{Builder, ChangeScratch, LongKeys, RootTable, UpdateEngine};
use lanetree::{
    ByteKeys, ByteKeysBuf, Cuart, Device, DeviceKeys, DeviceKind, Error, IndexBuilder, Op, Result, Stream, Word,
};

/// Builds by one of the builder's calls.
#[derive(Clone, Copy, Debug)]
pub struct CuartBuilder<V> {
    builder: Builder<V>,
    way: Way,
    refuses: bool,
}

/// All ways to treat long keys, with and without a root table, from sorted pairs and from others.
pub fn cuart_builders<V: Word>() -> Vec<CuartBuilder<V>> {
    let build = |table, long_keys, way| {
        let builder = Cuart::builder().root_table(table).long_keys(long_keys);
        CuartBuilder { builder, way, refuses: long_keys == LongKeys::Refuse }
    };
    // Few with a table, which takes half a megabyte.
    vec![
        build(RootTable::None, LongKeys::DeviceLeaves, Way::Unsorted),
        build(RootTable::None, LongKeys::HostLeaves, Way::Unsorted),
        build(RootTable::TwoBytes, LongKeys::HostLeaves, Way::Unsorted),
        build(RootTable::TwoBytes, LongKeys::DeviceLeaves, Way::Unsorted),
        build(RootTable::TwoBytes, LongKeys::HostLeaves, Way::Sorted),
        build(RootTable::None, LongKeys::DeviceLeaves, Way::Sorted),
        build(RootTable::None, LongKeys::HostLeaves, Way::Sorted),
        build(RootTable::Auto, LongKeys::DeviceLeaves, Way::Unsorted),
        build(RootTable::Auto, LongKeys::HostLeaves, Way::Unsorted),
        build(RootTable::None, LongKeys::Refuse, Way::Unsorted),
    ]
}

impl<V: Word> IndexBuilder for CuartBuilder<V> {
    type Index = Cuart<V>;

    fn build(&self, device: &Device, keys: ByteKeys<'_>, values: &[V]) -> Result<Cuart<V>> {
        // A tree that would refuse some takes them: what it is to refuse comes later.
        let is_long = keys.iter().any(|key| key.len() > 32);
        let builder =
            if is_long && self.refuses { self.builder.long_keys(LongKeys::DeviceLeaves) } else { self.builder };
        match self.way {
            Way::Sorted if keys.len() == values.len() => {
                // Stable: of equal keys, the last one stays the last.
                let mut sorted: Vec<(&[u8], V)> = keys.iter().zip(values.iter().copied()).collect();
                sorted.sort_by_key(|pair| pair.0);
                let keys: ByteKeysBuf = sorted.iter().map(|pair| pair.0).collect();
                builder.build_sorted(device, &keys, &sorted.iter().map(|pair| pair.1).collect::<Vec<_>>())
            }
            _ => builder.build(device, keys, values),
        }
    }
}

/// Changes in device form by one engine, and prefixes.
#[derive(Clone, Copy, Debug)]
pub struct CuartHooks {
    engine: UpdateEngine,
}

impl CuartHooks {
    fn change<V: Word>(
        self,
        tree: &mut Cuart<V>,
        stream: &Stream,
        change: Change,
        ops: &[Op<Vec<u8>, V>],
    ) -> Result<Counts> {
        let device = tree.device().clone();
        let keys: ByteKeysBuf = ops.iter().map(Op::key).collect();
        let keys = DeviceKeys::upload(&device, &keys)?;
        let values = device.upload(&ops.iter().map(value_of).collect::<Vec<_>>())?;
        let mut counts = Counts::default();
        match change {
            Change::Insert => {
                let mut scratch = ChangeScratch::for_inserts(&device, ops.len(), self.engine)?;
                counts.inserted = Some(tree.insert_on(stream, &keys, &values, &mut scratch)?);
            }
            Change::Update => {
                let mut scratch = ChangeScratch::for_updates(&device, ops.len(), self.engine)?;
                tree.update_on(stream, &keys, &values, None, &mut scratch)?;
            }
            _ => counts.removed = Some(tree.remove_on(stream, &keys)?),
        }
        stream.synchronize()?;
        Ok(counts)
    }
}

impl<V: Word> Hooks<Cuart<V>> for CuartHooks {
    fn start(_: &Cuart<V>, options: u8) -> Result<Self> {
        let engine = match options % 4 {
            0 => UpdateEngine::Auto,
            1 => UpdateEngine::HashTable,
            2 => UpdateEngine::Stamps,
            _ => UpdateEngine::Sort,
        };
        Ok(Self { engine })
    }

    fn takes_buffers(&self, index: &Cuart<V>) -> bool {
        index.device().kind() != DeviceKind::Host && !has_host_leaves(index)
    }

    fn apply(
        &mut self,
        index: &mut Cuart<V>,
        stream: &Stream,
        change: Change,
        ops: &[Op<Vec<u8>, V>],
    ) -> Option<Result<Counts>> {
        match change {
            Change::Mixed(_) => None,
            _ => Some(self.change(index, stream, change, ops)),
        }
    }

    fn ask(
        &self,
        index: &Cuart<V>,
        _: &Stream,
        question: &Question<Vec<u8>>,
        _: Form,
    ) -> Option<Result<Answer<Vec<u8>>>> {
        let Question::Prefix(prefixes) = question else { return None };
        let found = index.prefix_many(&prefixes.iter().collect::<ByteKeysBuf>());
        Some(found.map(|found| Answer::Rows(rows::<Cuart<V>>(&found))))
    }

    fn check_structure(&self, index: &Cuart<V>) {
        index.check_structure();
        let stats = index.stats();
        let leaves = stats.leaves.iter().sum::<u64>() + stats.device_leaves + stats.host_leaves;
        assert_eq!(leaves, index.len(), "the leaves that {stats:?} counts");
    }

    /// From the host to a device, and back.
    fn relocate(index: Cuart<V>) -> Result<Cuart<V>> {
        index.to_device(&match index.device().kind() {
            DeviceKind::Host => Device::emulated_with_seed(5),
            _ => Device::host(),
        })
    }

    fn may_refuse(&self, index: &Cuart<V>, error: &Error) -> bool {
        let in_main_memory = has_host_leaves(index) && index.device().kind() != DeviceKind::Host;
        match error {
            Error::LeavesInMainMemory { .. } => in_main_memory,
            Error::KeyTooLong { max, .. } => *max == 32,
            _ => false,
        }
    }
}

/// Whether a tree has, or had, leaves in main memory.
fn has_host_leaves<V: Word>(index: &Cuart<V>) -> bool {
    let stats = index.stats();
    stats.host_leaves > 0 || stats.host_bytes > 0
}
