//! Both trees as one [`OrderedIndex`].

use super::{Hybrid, HybridBuilder};
use lanetree_frame::{
    ByteKeys, ByteRange, ByteRanges, ByteString, Device, IndexBuilder, Op, OrderedIndex, Result, UpdateReport,
};
use lanetree_layout::Word;

impl<V: Word> OrderedIndex for Hybrid<V> {
    type Domain = ByteString;
    type Value = V;
    const NAME: &'static str = "hybrid";

    fn device(&self) -> &Device {
        self.device()
    }
    fn len(&self) -> u64 {
        self.len()
    }
    fn bytes(&self) -> u64 {
        self.stats().device.bytes() + self.stats().host.bytes()
    }
    fn is_lost(&self) -> bool {
        self.is_lost()
    }
    fn get_many(&self, keys: ByteKeys<'_>) -> Result<Vec<Option<V>>> {
        self.get_many(keys)
    }
    fn lower_bound_many(&self, keys: ByteKeys<'_>) -> Result<Vec<u64>> {
        self.lower_bound_many(keys)
    }
    fn upper_bound_many(&self, keys: ByteKeys<'_>) -> Result<Vec<u64>> {
        self.upper_bound_many(keys)
    }
    fn predecessor_many(&self, keys: ByteKeys<'_>) -> Result<Vec<Option<(Vec<u8>, V)>>> {
        self.predecessor_many(keys)
    }
    fn successor_many(&self, keys: ByteKeys<'_>) -> Result<Vec<Option<(Vec<u8>, V)>>> {
        self.successor_many(keys)
    }
    fn range_many(&self, ranges: &[ByteRange<'_>]) -> Result<ByteRanges<V>> {
        self.range_many(ranges.iter().copied())
    }
    fn count_many(&self, ranges: &[ByteRange<'_>]) -> Result<Vec<u64>> {
        self.count_many(ranges.iter().copied())
    }
    fn pairs(&self) -> Result<Vec<(Vec<u8>, V)>> {
        let mut pairs = self.device_tree().pairs()?;
        pairs.extend(self.host_tree().pairs()?);
        pairs.sort();
        Ok(pairs)
    }
    fn apply(&mut self, ops: &[Op<Vec<u8>, V>]) -> Result<UpdateReport> {
        self.apply(ops)
    }
    fn insert_many(&mut self, keys: ByteKeys<'_>, values: &[V]) -> Result<UpdateReport> {
        self.insert_many(keys, values)
    }
    fn update_many(&mut self, keys: ByteKeys<'_>, values: &[V]) -> Result<UpdateReport> {
        self.update_many(keys, values)
    }
    fn remove_many(&mut self, keys: ByteKeys<'_>) -> Result<UpdateReport> {
        self.remove_many(keys)
    }
    fn restore_order(&mut self) -> Result<bool> {
        let was_out_of_order = !self.is_compact();
        self.compact()?;
        Ok(was_out_of_order)
    }
}

impl<V: Word> IndexBuilder for HybridBuilder<V> {
    type Index = Hybrid<V>;

    fn build(&self, device: &Device, keys: ByteKeys<'_>, values: &[V]) -> Result<Hybrid<V>> {
        self.build(device, keys, values)
    }
}
