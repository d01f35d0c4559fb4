//! The tree with short keys on a device and long ones on the host, as an [`OrderedIndex`].

use crate::Hooks;
use lanetree::cuart::{Hybrid, HybridBuilder, Op};
use lanetree::{
    ByteKeys, ByteKeysBuf, ByteRange, ByteRanges, ByteString, Device, IndexBuilder, OrderedIndex, Result, UpdateReport,
    Word,
};

/// Both trees as one.
#[derive(Debug)]
pub struct HybridIndex<V: Word>(Hybrid<V>);

/// Options of the two trees.
#[derive(Clone, Copy, Debug)]
pub struct HybridBuild<V: Word>(HybridBuilder<V>);

/// Lengths up to which the device has a key: the longest, the shortest, and others.
pub fn hybrid_builders<V: Word>() -> Vec<HybridBuild<V>> {
    [32, 8, 1, 13].map(|max| HybridBuild(Hybrid::builder().max_device_key(max))).to_vec()
}

impl<V: Word> IndexBuilder for HybridBuild<V> {
    type Index = HybridIndex<V>;

    fn build(&self, device: &Device, keys: ByteKeys<'_>, values: &[V]) -> Result<HybridIndex<V>> {
        self.0.build(device, keys, values).map(HybridIndex)
    }
}

impl<V: Word> OrderedIndex for HybridIndex<V> {
    type Domain = ByteString;
    type Value = V;
    const NAME: &'static str = "hybrid";

    fn device(&self) -> &Device {
        self.0.device()
    }
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn bytes(&self) -> u64 {
        self.0.stats().device.bytes()
    }
    fn is_lost(&self) -> bool {
        self.0.is_lost()
    }
    fn get_many(&self, keys: ByteKeys<'_>) -> Result<Vec<Option<V>>> {
        self.0.get_many(keys)
    }
    fn lower_bound_many(&self, keys: ByteKeys<'_>) -> Result<Vec<u64>> {
        self.0.lower_bound_many(keys)
    }
    fn upper_bound_many(&self, keys: ByteKeys<'_>) -> Result<Vec<u64>> {
        self.0.upper_bound_many(keys)
    }
    fn predecessor_many(&self, keys: ByteKeys<'_>) -> Result<Vec<Option<(Vec<u8>, V)>>> {
        self.0.predecessor_many(keys)
    }
    fn successor_many(&self, keys: ByteKeys<'_>) -> Result<Vec<Option<(Vec<u8>, V)>>> {
        self.0.successor_many(keys)
    }
    fn range_many(&self, ranges: &[ByteRange<'_>]) -> Result<ByteRanges<V>> {
        self.0.range_many(ranges.iter().copied())
    }
    fn count_many(&self, ranges: &[ByteRange<'_>]) -> Result<Vec<u64>> {
        self.0.count_many(ranges.iter().copied())
    }
    fn pairs(&self) -> Result<Vec<(Vec<u8>, V)>> {
        let mut pairs = self.0.device_tree().pairs()?;
        pairs.extend(self.0.host_tree().pairs()?);
        pairs.sort();
        Ok(pairs)
    }
    fn apply(&mut self, ops: &[Op<Vec<u8>, V>]) -> Result<UpdateReport> {
        self.0.apply(ops)
    }
    fn insert_many(&mut self, keys: ByteKeys<'_>, values: &[V]) -> Result<UpdateReport> {
        self.0.insert_many(keys, values)
    }
    fn update_many(&mut self, keys: ByteKeys<'_>, values: &[V]) -> Result<UpdateReport> {
        self.0.update_many(keys, values)
    }
    fn remove_many(&mut self, keys: ByteKeys<'_>) -> Result<UpdateReport> {
        self.0.remove_many(keys)
    }
    fn restore_order(&mut self) -> Result<()> {
        self.0.compact()
    }
}

/// The prefixes of both trees.
#[derive(Clone, Copy, Debug)]
pub struct HybridHooks;

impl<V: Word> Hooks<HybridIndex<V>> for HybridHooks {
    fn start(_: &HybridIndex<V>, _: u8) -> Result<Self> {
        Ok(Self)
    }

    fn prefix(&self, index: &HybridIndex<V>, prefixes: &[Vec<u8>]) -> Option<Result<ByteRanges<V>>> {
        Some(index.0.prefix_many(&prefixes.iter().collect::<ByteKeysBuf>()))
    }
}
