//! [`Sharded`] as an [`OrderedIndex`].

use crate::on_devices::OnDevices;
use crate::ranges;
use crate::route::Route;
use crate::sharded::Sharded;
use lanetree_frame::parallel::*;
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
        self.group().known()[0].device()
    }
    fn len(&self) -> u64 {
        self.parts().len()
    }
    fn bytes(&self) -> u64 {
        self.group().known().iter().map(I::bytes).sum()
    }
    fn host_bytes(&self) -> u64 {
        self.group().known().iter().map(I::host_bytes).sum()
    }
    fn is_lost(&self) -> bool {
        self.group().is_lost()
    }
    fn get_many(&self, keys: &[K]) -> Result<Vec<Option<I::Value>>> {
        if let Some(found) = self.get_staged(keys)? {
            return Ok(found);
        }
        self.parts().answer(keys, |shard, shards, keys| shards[shard].get_many(keys))
    }
    fn lower_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        if let Some(found) = self.rank_staged(keys, false)? {
            return Ok(found);
        }
        self.parts().rank(keys, I::lower_bound_many)
    }
    fn upper_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        if let Some(found) = self.rank_staged(keys, true)? {
            return Ok(found);
        }
        self.parts().rank(keys, I::upper_bound_many)
    }
    fn predecessor_many(&self, keys: &[K]) -> Result<NeighborsOf<Self>> {
        if let Some(found) = self.neighbor_staged(keys, true)? {
            return Ok(found);
        }
        self.parts().neighbor(keys, I::predecessor_many, |shards, shard| {
            match shards[..shard].iter().rev().find(|shard| !shard.is_empty()) {
                Some(shard) => Ok(shard.predecessor_many(&[K::MAX])?[0]),
                None => Ok(None),
            }
        })
    }
    fn successor_many(&self, keys: &[K]) -> Result<NeighborsOf<Self>> {
        if let Some(found) = self.neighbor_staged(keys, false)? {
            return Ok(found);
        }
        self.parts().neighbor(keys, I::successor_many, |shards, shard| {
            match shards[shard + 1..].iter().find(|shard| !shard.is_empty()) {
                Some(shard) => Ok(shard.successor_many(&[K::MIN])?[0]),
                None => Ok(None),
            }
        })
    }
    fn join_many(&self, probes: &[K]) -> Result<Matches> {
        let rows = self.parts().answer(probes, |shard, shards, keys| {
            let matches = shards[shard].join_many(keys)?;
            let row = |&row: &u64| self.before()[shard] + row;
            (0..keys.len())
                .into_par_iter()
                .map(|probe| matches.of(probe).first().map_or(Matches::NO_ROW, row))
                .try_collect()
        })?;
        Matches::of_rows(&rows)
    }
    fn range_many(&self, ranges: &[KeyRange<K>]) -> Result<Ranges<K, I::Value>> {
        ranges::range_many(self.parts(), ranges, I::range_many)
    }
    fn count_range_many(&self, ranges: &[KeyRange<K>]) -> Result<Vec<u64>> {
        ranges::count_range_many(self.parts(), ranges, I::count_range_many)
    }
    fn pairs(&self) -> Result<Vec<(K, I::Value)>> {
        let parts = self.group().ask(|_, index| index.pairs())?;
        let sizes = parts.iter().map(Vec::len).collect();
        Route::of_parts(sizes).merge(parts)
    }
    fn apply(&mut self, ops: &[Op<K, I::Value>]) -> Result<UpdateReport> {
        self.group().get()?;
        let route = Route::new(self.splitters(), ops.len(), |at| *ops[at].key())?;
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
        self.group().get()?;
        let route = Route::new(self.splitters(), keys.len(), |at| keys[at])?;
        let keys = route.split(keys)?;
        self.change(&keys.iter().map(|keys| HostBatch::Remove(&keys[..])).collect::<Vec<_>>())
    }
    fn restore_order(&mut self) -> Result<bool> {
        Ok(self.group_mut().tidy(I::is_lost, I::restore_order)?.contains(&true))
    }
    /// Of all together.
    fn compact(&mut self) -> Result<u64> {
        Ok(self.group_mut().tidy(I::is_lost, I::compact)?.iter().sum())
    }
    fn device_form(&self) -> Option<&dyn DeviceForm<K, I::Value>> {
        let has_one = |shard: &I| shard.launches().is_some() && shard.device().kind() == self.device().kind();
        self.group().known().iter().all(has_one).then_some(self)
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
