//! [`Sharded`] as an [`OrderedIndex`].

use crate::on_devices::OnDevices;
use crate::ranges;
use crate::route::Route;
use crate::sharded::Sharded;
use lanetree_frame::fixed::Side;
use lanetree_frame::{
    AnyKey, Buffer, Device, DeviceForm, HostBatch, KeyRange, Matches, NeighborsOf, Op, OrderedIndex, Ranges, Result,
    Stream, UpdateReport,
};

impl<K: AnyKey, I: OrderedIndex<Domain = K>> OrderedIndex for Sharded<I> {
    type Domain = K;
    type Value = I::Value;
    const NAME: &'static str = "sharded";

    /// The device of the shard with the smallest keys.
    fn device(&self) -> &Device {
        self.parts.group.known()[0].device()
    }
    fn len(&self) -> u64 {
        self.parts.len()
    }
    fn bytes(&self) -> u64 {
        self.parts.bytes()
    }
    fn host_bytes(&self) -> u64 {
        self.parts.group.known().iter().map(I::host_bytes).sum()
    }
    fn is_lost(&self) -> bool {
        self.parts.group.is_lost()
    }
    fn get_many(&self, keys: &[K]) -> Result<Vec<Option<I::Value>>> {
        self.get_routed(keys)
    }
    fn lower_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.rank_many(Side::Lower, keys)
    }
    fn upper_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.rank_many(Side::Upper, keys)
    }
    fn predecessor_many(&self, keys: &[K]) -> Result<NeighborsOf<Self>> {
        self.neighbor_many(Side::Upper, keys)
    }
    fn successor_many(&self, keys: &[K]) -> Result<NeighborsOf<Self>> {
        self.neighbor_many(Side::Lower, keys)
    }
    fn join_many(&self, probes: &[K]) -> Result<Matches> {
        self.parts.join(probes, I::join_many)
    }
    fn range_many(&self, ranges: &[KeyRange<K>]) -> Result<Ranges<K, I::Value>> {
        ranges::range_many(&self.parts, ranges, I::range_many)
    }
    fn count_range_many(&self, ranges: &[KeyRange<K>]) -> Result<Vec<u64>> {
        ranges::count_range_many(&self.parts, ranges, I::count_range_many)
    }
    fn pairs(&self) -> Result<Vec<(K, I::Value)>> {
        self.parts.all(I::pairs)
    }
    fn apply(&mut self, ops: &[Op<K, I::Value>]) -> Result<UpdateReport> {
        self.parts.group.get()?;
        let route = Route::new(&self.parts.splitters, ops.len(), |at| *ops[at].key())?;
        let ops = route.split(ops)?;
        self.change(&ops.iter().map(|ops| HostBatch::Apply(&ops[..])).collect::<Vec<_>>())
    }
    fn insert_many(&mut self, keys: &[K], values: &[I::Value]) -> Result<UpdateReport> {
        self.change_pairs(keys, values, |keys, values| HostBatch::Insert(keys, values))
    }
    fn update_many(&mut self, keys: &[K], values: &[I::Value]) -> Result<UpdateReport> {
        self.change_pairs(keys, values, |keys, values| HostBatch::Update(keys, values))
    }
    fn remove_many(&mut self, keys: &[K]) -> Result<UpdateReport> {
        let keys = self.parts.route(keys)?.split(keys)?;
        self.change(&keys.iter().map(|keys| HostBatch::Remove(&keys[..])).collect::<Vec<_>>())
    }
    fn restore_order(&mut self) -> Result<bool> {
        Ok(self.parts.group.tidy(I::restore_order)?.contains(&true))
    }
    /// Of all together.
    fn compact(&mut self) -> Result<u64> {
        Ok(self.parts.group.tidy(I::compact)?.iter().sum())
    }
    fn device_form(&self) -> Option<&dyn DeviceForm<K, I::Value>> {
        let has_one = |shard: &I| shard.launches().is_some() && shard.device().kind() == self.device().kind();
        self.parts.group.known().iter().all(has_one).then_some(self)
    }
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> DeviceForm<K, I::Value> for Sharded<I> {
    fn get(
        &self,
        stream: &Stream,
        queries: &Buffer<K>,
        values: &mut Buffer<I::Value>,
        hits: Option<&mut Buffer<u32>>,
        miss: I::Value,
    ) -> Result<()> {
        OnDevices::new(self, stream).hits(hits).miss(miss).get(queries, values)
    }
    fn lower_bound(&self, stream: &Stream, queries: &Buffer<K>, ranks: &mut Buffer<u64>) -> Result<()> {
        OnDevices::new(self, stream).lower_bound(queries, ranks)
    }
    fn upper_bound(&self, stream: &Stream, queries: &Buffer<K>, ranks: &mut Buffer<u64>) -> Result<()> {
        OnDevices::new(self, stream).upper_bound(queries, ranks)
    }
}
