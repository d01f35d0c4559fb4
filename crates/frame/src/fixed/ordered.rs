//! Indexes over keys of a fixed size as [`OrderedIndex`]es.

use super::asof::Searches;
use super::pairs::check_lengths;
use super::range::first_pairs_of;
use super::{BitsOf, FixedIndex, HostForm, NeighborOutputs, OnStream, Side, compact};
use crate::{DeviceForm, Launches, OrderedIndex};
use lanetree_base::{KeyRange, Matches, Op, Ranges, Result, UpdateReport};
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::{Global, GlobalMut};

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
    unsafe fn get(
        &self,
        stream: &Stream,
        is_sorted: bool,
        queries: Global<u8>,
        count: usize,
        values: GlobalMut<I::Value>,
        hits: GlobalMut<u32>,
        miss: I::Value,
    ) -> Result<()> {
        let tuning = if is_sorted { I::tuning_for_sorted() } else { I::Tuning::default() };
        // SAFETY: the caller's contract.
        unsafe { self.launch_get(stream, &tuning, queries.cast(), count, values, hits, miss) }
    }
    unsafe fn rank(
        &self,
        stream: &Stream,
        queries: Global<u8>,
        count: usize,
        ranks: GlobalMut<u64>,
        upper: bool,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.launch_rank(stream, queries.cast(), count, ranks, side(upper)) }
    }
    unsafe fn neighbor(
        &self,
        stream: &Stream,
        queries: Global<u8>,
        count: usize,
        (keys, values, hits): (GlobalMut<u8>, GlobalMut<I::Value>, GlobalMut<u32>),
        miss: I::Value,
        upper: bool,
    ) -> Result<()> {
        let outputs = NeighborOutputs { keys: keys.cast(), values, hits };
        Searches::<BitsOf<I>>::any(side(upper)).iter().try_for_each(|search| {
            // SAFETY: the caller's contract.
            unsafe { self.launch_neighbor(stream, queries.cast(), count, outputs, miss, search) }
        })
    }
    unsafe fn locate(
        &self,
        stream: &Stream,
        count: usize,
        (starts, ends): (Global<u8>, Global<u8>),
        limits: Global<u64>,
        limit: u64,
        found: (GlobalMut<u64>, GlobalMut<u64>),
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.launch_locate(stream, count, (starts.cast(), ends.cast()), limits, limit, found) }
    }
    unsafe fn gather(
        &self,
        stream: &Stream,
        rows: (Global<u64>, Global<u64>),
        count: usize,
        pairs: usize,
        (keys, values): (GlobalMut<u8>, GlobalMut<I::Value>),
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.launch_gather(stream, &first_pairs_of(rows, count, pairs), pairs, (keys.cast(), values)) }
    }
}

fn side(upper: bool) -> Side {
    if upper { Side::Upper } else { Side::Lower }
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
