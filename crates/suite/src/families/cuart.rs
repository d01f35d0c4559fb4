//! CuART: two ways to build it, changes in device form by each engine, prefixes.

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
    sorted: bool,
}

/// Both ways to store long keys, with and without a root table, from sorted pairs and from others.
pub fn cuart_builders<V: Word>() -> Vec<CuartBuilder<V>> {
    let build = |table, long_keys, sorted| CuartBuilder {
        builder: Cuart::builder().root_table(table).long_keys(long_keys),
        sorted,
    };
    // Few with a table, which takes half a megabyte.
    vec![
        build(RootTable::None, LongKeys::DeviceLeaves, false),
        build(RootTable::None, LongKeys::HostLeaves, false),
        build(RootTable::TwoBytes, LongKeys::DeviceLeaves, false),
        build(RootTable::TwoBytes, LongKeys::HostLeaves, true),
        build(RootTable::None, LongKeys::DeviceLeaves, true),
        build(RootTable::None, LongKeys::HostLeaves, true),
        build(RootTable::Auto, LongKeys::DeviceLeaves, false),
        build(RootTable::Auto, LongKeys::HostLeaves, false),
    ]
}

impl<V: Word> IndexBuilder for CuartBuilder<V> {
    type Index = Cuart<V>;

    fn build(&self, device: &Device, keys: ByteKeys<'_>, values: &[V]) -> Result<Cuart<V>> {
        if !self.sorted || keys.len() != values.len() {
            return self.builder.build(device, keys, values);
        }
        // Stable: of equal keys, the last one stays the last.
        let mut sorted: Vec<(&[u8], V)> = keys.iter().zip(values.iter().copied()).collect();
        sorted.sort_by_key(|pair| pair.0);
        let keys: ByteKeysBuf = sorted.iter().map(|pair| pair.0).collect();
        self.builder.build_sorted(device, &keys, &sorted.iter().map(|pair| pair.1).collect::<Vec<_>>())
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
        index.device().kind() != DeviceKind::Host && index.stats().host_leaves == 0
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
    }

    /// From the host to a device, and back.
    fn relocate(index: Cuart<V>) -> Result<Cuart<V>> {
        index.to_device(&match index.device().kind() {
            DeviceKind::Host => Device::emulated_with_seed(5),
            _ => Device::host(),
        })
    }

    fn may_refuse(&self, index: &Cuart<V>, error: &Error) -> bool {
        let in_main_memory = index.stats().host_leaves > 0 && index.device().kind() != DeviceKind::Host;
        matches!(error, Error::LeavesInMainMemory { .. }) && in_main_memory
    }
}
