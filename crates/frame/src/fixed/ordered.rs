//! Indexes over keys of a fixed size as [`OrderedIndex`]es.

use super::pairs::check_lengths;
use super::{BitsOf, FixedIndex, HostForm, OnStream, Query, compact};
use crate::{DeviceForm, Launches, OrderedIndex};
use lanetree_base::{BatchOrder, KeyRange, Matches, Op, Ranges, Result, UpdateReport};
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::Global;

impl<I: FixedIndex<Value: Word>> OrderedIndex for I {
    type Domain = I::Key;
    type Value = I::Value;
    const NAME: &'static str = I::NAME;

    fn device(&self) -> &Device {
        FixedIndex::device(self)
    }
    fn len(&self) -> u64 {
        FixedIndex::len(self)
    }
    fn bytes(&self) -> u64 {
        FixedIndex::bytes(self)
    }
    fn is_lost(&self) -> bool {
        self.check_not_lost().is_err()
    }
    fn get_many(&self, keys: &[I::Key]) -> Result<Vec<Option<I::Value>>> {
        HostForm::get_many(self, keys)
    }
    fn contains_many(&self, keys: &[I::Key]) -> Result<Vec<bool>> {
        HostForm::contains_many(self, keys)
    }
    fn lower_bound_many(&self, keys: &[I::Key]) -> Result<Vec<u64>> {
        HostForm::lower_bound_many(self, keys)
    }
    fn upper_bound_many(&self, keys: &[I::Key]) -> Result<Vec<u64>> {
        HostForm::upper_bound_many(self, keys)
    }
    fn predecessor_many(&self, keys: &[I::Key]) -> Result<Vec<Option<(I::Key, I::Value)>>> {
        HostForm::predecessor_many(self, keys)
    }
    fn successor_many(&self, keys: &[I::Key]) -> Result<Vec<Option<(I::Key, I::Value)>>> {
        HostForm::successor_many(self, keys)
    }
    fn join_many(&self, probes: &[I::Key]) -> Result<Matches> {
        HostForm::join_many(self, probes)
    }
    fn range_many(&self, ranges: &[KeyRange<I::Key>]) -> Result<Ranges<I::Key, I::Value>> {
        HostForm::range_many(self, ranges.iter().copied())
    }
    fn count_range_many(&self, ranges: &[KeyRange<I::Key>]) -> Result<Vec<u64>> {
        HostForm::count_range_many(self, ranges.iter().copied())
    }
    fn pairs(&self) -> Result<Vec<(I::Key, I::Value)>> {
        FixedIndex::pairs(self)
    }
    fn apply(&mut self, ops: &[Op<I::Key, I::Value>]) -> Result<UpdateReport> {
        self.apply_each(ops.len(), |i| ops[i])
    }
    fn insert_many(&mut self, keys: &[I::Key], values: &[I::Value]) -> Result<UpdateReport> {
        check_lengths(keys, values)?;
        self.apply_each(keys.len(), |i| Op::Insert(keys[i], values[i]))
    }
    fn update_many(&mut self, keys: &[I::Key], values: &[I::Value]) -> Result<UpdateReport> {
        check_lengths(keys, values)?;
        self.apply_each(keys.len(), |i| Op::Update(keys[i], values[i]))
    }
    fn remove_many(&mut self, keys: &[I::Key]) -> Result<UpdateReport> {
        self.apply_each(keys.len(), |i| Op::Remove(keys[i]))
    }
    fn compact(&mut self) -> Result<u64> {
        compact(self)
    }
    fn device_form(&self) -> Option<&dyn DeviceForm<I::Key, I::Value>> {
        Some(self)
    }
    fn launches(&self) -> Option<&dyn Launches<I::Key, I::Value>> {
        Some(self)
    }
}

// SAFETY: the contract of `FixedIndex`.
unsafe impl<I: FixedIndex<Value: Word>> Launches<I::Key, I::Value> for I {
    unsafe fn launch(&self, stream: &Stream, is_sorted: bool, query: &Query<BitsOf<I>, I::Value>) -> Result<()> {
        let order = if is_sorted { BatchOrder::Sorted } else { BatchOrder::default() };
        let tuning = I::in_order(I::Tuning::default(), order);
        // SAFETY: the caller's contract.
        unsafe { FixedIndex::launch(self, stream, &tuning, query) }
    }
    fn reads_counts(&self) -> bool {
        I::READS_COUNTS
    }
    unsafe fn launch_counted(
        &self,
        stream: &Stream,
        query: &Query<BitsOf<I>, I::Value>,
        count: Global<u32>,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { FixedIndex::launch_counted(self, stream, query, count) }
    }
}

impl<I: FixedIndex<Value: Word>> DeviceForm<I::Key, I::Value> for I {
    fn get(
        &self,
        stream: &Stream,
        queries: &Buffer<I::Key>,
        values: &mut Buffer<I::Value>,
        hits: Option<&mut Buffer<u32>>,
        miss: I::Value,
    ) -> Result<()> {
        OnStream::new(self, stream).hits(hits).miss(miss).get(queries, values)
    }
    fn lower_bound(&self, stream: &Stream, queries: &Buffer<I::Key>, ranks: &mut Buffer<u64>) -> Result<()> {
        OnStream::new(self, stream).lower_bound(queries, ranks)
    }
    fn upper_bound(&self, stream: &Stream, queries: &Buffer<I::Key>, ranks: &mut Buffer<u64>) -> Result<()> {
        OnStream::new(self, stream).upper_bound(queries, ranks)
    }
}
