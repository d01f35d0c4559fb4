//! The tree as an [`OrderedIndex`].

use crate::sorting::Sorting;
use crate::structure::{Inner, InnerOnDevice, Leaves, Structure};
use crate::{Builder, HbTree};
use lanetree_frame::fixed::pairs::check_lengths;
use lanetree_frame::parallel::*;
use lanetree_frame::{Device, KeyRange, Op, OrderedIndex, Ranges, Result, UpdateReport};
use lanetree_layout::{Key, Word};
use std::sync::PoisonError;

impl<K: Key, V: Word, L: Structure> OrderedIndex for HbTree<K, V, L> {
    type Domain = K;
    type Value = V;
    const NAME: &'static str = L::NAME;

    fn device(&self) -> &Device {
        &self.parts.device
    }
    fn len(&self) -> u64 {
        self.parts.leaves.len()
    }
    fn bytes(&self) -> u64 {
        self.bytes_on_both().0
    }
    fn host_bytes(&self) -> u64 {
        self.bytes_on_both().1
    }
    fn is_lost(&self) -> bool {
        false
    }
    fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        self.get_many(keys)
    }
    fn lower_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.lower_bound_many(keys)
    }
    fn upper_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.upper_bound_many(keys)
    }
    fn predecessor_many(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.predecessor_many(keys)
    }
    fn successor_many(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.successor_many(keys)
    }
    fn range_many(&self, ranges: &[KeyRange<K>]) -> Result<Ranges<K, V>> {
        self.range_many(ranges.iter().copied())
    }
    fn count_range_many(&self, ranges: &[KeyRange<K>]) -> Result<Vec<u64>> {
        self.count_range_many(ranges.iter().copied())
    }
    fn pairs(&self) -> Result<Vec<(K, V)>> {
        self.parts.leaves.pairs()
    }
    fn apply(&mut self, ops: &[Op<K, V>]) -> Result<UpdateReport> {
        self.change(ops.len(), |i| ops[i])
    }
    fn insert_many(&mut self, keys: &[K], values: &[V]) -> Result<UpdateReport> {
        check_lengths(keys, values)?;
        self.change(keys.len(), |i| Op::Insert(keys[i], values[i]))
    }
    fn update_many(&mut self, keys: &[K], values: &[V]) -> Result<UpdateReport> {
        check_lengths(keys, values)?;
        self.change(keys.len(), |i| Op::Update(keys[i], values[i]))
    }
    fn remove_many(&mut self, keys: &[K]) -> Result<UpdateReport> {
        self.change(keys.len(), |i| Op::Remove(keys[i]))
    }
    fn compact(&mut self) -> Result<u64> {
        self.compact()
    }
}

impl<K: Key, V: Word, L: Structure> HbTree<K, V, L> {
    fn change(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        let report = L::apply(&mut self.parts, count, op)?;
        self.note_height();
        Ok(report)
    }

    /// A batch may have changed the height.
    pub(crate) fn note_height(&mut self) {
        let discovery = self.discovery.get_mut().unwrap_or_else(PoisonError::into_inner);
        discovery.set_height(self.parts.inner.height());
    }
}

/// What every index has in addition to its queries.
impl<K: Key, V: Word, L: Structure> HbTree<K, V, L> {
    /// The device that has the inner levels.
    pub fn device(&self) -> &Device {
        &self.parts.device
    }

    /// How many pairs it has.
    pub fn len(&self) -> u64 {
        OrderedIndex::len(self)
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Always `false`: batches change the leaves in main memory, and a copy of the inner levels that is no longer right is made again.
    pub fn is_lost(&self) -> bool {
        OrderedIndex::is_lost(self)
    }

    /// Bytes of the device's memory that it takes: on a GPU, for its inner levels.
    pub fn bytes(&self) -> u64 {
        OrderedIndex::bytes(self)
    }

    /// Bytes of main memory that it takes, in addition to its device memory: inner levels and leaves; 0 on the host,
    /// whose device memory is main memory.
    pub fn host_bytes(&self) -> u64 {
        OrderedIndex::host_bytes(self)
    }

    /// Bytes, including pinned memory, that batches have allocated and that are kept for the next ones.
    pub fn staging_bytes(&self) -> usize {
        let sorting = self.parts.sorting.as_ref().map_or(0, Sorting::bytes);
        let changes = self.parts.copy.as_ref().map_or(0, InnerOnDevice::staging_bytes);
        self.slots.bytes() + self.wide_slots.bytes() + self.spare.bytes() + sorting + changes
    }

    /// Rebuilds the tree from its pairs, with its options, in new memory: so it gives back the memory that
    /// changes have left unused. Returns by how many bytes it has become smaller, on the device and in main memory; 0 if it has
    /// not. Meanwhile there are both layouts and a copy of the pairs.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if there is no room, or from the device: the tree is unchanged.
    pub fn compact(&mut self) -> Result<u64> {
        let bytes = |tree: &Self| tree.bytes() + tree.host_bytes();
        let before = bytes(self);
        let pairs = self.parts.leaves.pairs()?;
        let pairs = pairs.into_par_iter().map(|(key, value)| (key.encode(), value)).try_collect()?;
        let builder: Builder<K, V, L> = Builder::with(self.parts.options);
        self.parts = builder.of(&self.parts.device, pairs)?.parts;
        self.note_height();
        Ok(before.saturating_sub(bytes(self)))
    }

    /// All pairs in ascending order of their keys, from the leaves in main memory.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if main memory has no room for them.
    pub fn pairs(&self) -> Result<Vec<(K, V)>> {
        OrderedIndex::pairs(self)
    }

    /// Applies a batch of operations, with the effect of one after another in the batch's order: all of them, or none. Returns
    /// what they did, when it is done.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if there is no memory, [`Error::TooManyLeaves`](lanetree_frame::Error::TooManyLeaves):
    /// the tree is as it was.
    pub fn apply(&mut self, ops: &[Op<K, V>]) -> Result<UpdateReport> {
        OrderedIndex::apply(self, ops)
    }

    /// Inserts pairs, in any order: `keys[i]` gets `values[i]`. The value of a key that is present is replaced. If a key is in
    /// the batch more than once, its last value is kept. All or nothing.
    ///
    /// # Errors
    /// As [`HbTree::apply`]; [`Error::LengthMismatch`](lanetree_frame::Error::LengthMismatch) unless there is one value per key.
    pub fn insert_many(&mut self, keys: &[K], values: &[V]) -> Result<UpdateReport> {
        OrderedIndex::insert_many(self, keys, values)
    }

    /// Replaces the values of the keys in `keys` that are present; absent keys stay absent. If a key is in the batch
    /// more than once, its last value is kept. All or nothing.
    ///
    /// # Errors
    /// As [`HbTree::insert_many`].
    pub fn update_many(&mut self, keys: &[K], values: &[V]) -> Result<UpdateReport> {
        OrderedIndex::update_many(self, keys, values)
    }

    /// Removes the keys in `keys` that are present, with their values. All or nothing.
    ///
    /// # Errors
    /// As [`HbTree::apply`].
    pub fn remove_many(&mut self, keys: &[K]) -> Result<UpdateReport> {
        OrderedIndex::remove_many(self, keys)
    }
}
