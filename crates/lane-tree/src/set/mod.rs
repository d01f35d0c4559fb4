//! LaneSet: an ordered set of keys, as LaneTree with buckets of keys alone.

mod builder;
mod combine;
mod on_stream;
mod ranges;

pub use builder::SetBuilder;
pub use on_stream::SetOnStream;
pub use ranges::SetRanges;

use crate::{Handle, LaneTree, Stats, UpdateScratch};
use core::fmt;
use core::iter::FusedIterator;
use core::slice;
use lanetree_frame::fixed::{self, FixedIndex, HostForm, Iter, Query, Searches, Side, compact, copied};
use lanetree_frame::{
    Batch, BatchOrder, Buffer, Device, Join, KeyRange, Launches, Matches, Op, Result, Stream, UpdateReport,
};
use lanetree_layout::AnyKey;
use lanetree_runtime::Simd;

/// An ordered set of keys `K`, on a device: to [`LaneTree`] what std's `BTreeSet` is to `BTreeMap`.
///
/// It is a LaneTree without values: a bucket of 64 bytes holds 16 keys of 32 bits, 8 of 64, or 4 of 128. So it takes about half of
/// a map's memory, and look-ups have fewer buckets to read.
///
/// ```
/// use lanetree::{Device, LaneSet};
///
/// # fn main() -> lanetree::Result<()> {
/// let mut set = LaneSet::build(&Device::emulated(), &[30_u64, 10, 20, 10])?;
/// assert_eq!(set.contains_many(&[10, 15])?, [true, false]);
/// assert_eq!(set.successor_many(&[15, 31])?, [Some(20), None]);
/// assert_eq!(set.range_many([10..=20])?.get(0), [10, 20]);
///
/// let report = set.insert_many(&[15, 30])?;
/// assert_eq!((report.inserted, report.replaced), (1, 1));
/// assert_eq!(set.remove_many(&[10, 11])?.removed, 1);
/// assert_eq!(set.keys()?, [15, 20, 30]);
/// # Ok(())
/// # }
/// ```
///
/// [`LaneSet::on`] has the device form of the queries.
pub struct LaneSet<K: AnyKey> {
    tree: LaneTree<K, ()>,
}

impl<K: AnyKey> LaneSet<K> {
    /// The tree that it is: for code over any [`FixedIndex`].
    pub fn as_tree(&self) -> &LaneTree<K, ()> {
        &self.tree
    }

    /// A builder with the default options, to change them before a build.
    pub fn builder() -> SetBuilder<K> {
        SetBuilder::default()
    }

    /// Builds a set of keys in any order. Equal keys count once.
    ///
    /// # Errors
    /// As [`SetBuilder::build`].
    pub fn build(device: &Device, keys: &[K]) -> Result<Self> {
        Self::builder().build(device, keys)
    }

    /// The device that holds the set.
    pub fn device(&self) -> &Device {
        FixedIndex::device(&self.tree)
    }

    /// How many keys it has; if it is lost, how many it had.
    pub fn len(&self) -> u64 {
        FixedIndex::len(&self.tree)
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a change failed half-way on the device, so that the set's contents are unknown: then every call that returns a
    /// result returns [`Error::Lost`](lanetree_frame::Error::Lost).
    pub fn is_lost(&self) -> bool {
        self.tree.check_not_lost().is_err()
    }

    /// Bytes of the device's memory that it takes.
    pub fn bytes(&self) -> u64 {
        FixedIndex::bytes(&self.tree)
    }

    /// Bytes of main memory that the set takes, in addition to its device memory: 0, since the whole set is on its
    /// device.
    pub fn host_bytes(&self) -> u64 {
        0
    }

    /// Bytes, including pinned memory, that host batches on a device have allocated and that are kept for the next batches.
    pub fn staging_bytes(&self) -> usize {
        self.tree.staging_bytes()
    }

    /// The size of the set, by part; if it is lost, what it was.
    pub fn stats(&self) -> Stats {
        self.tree.stats()
    }

    /// Has queries of a set on the host searched with these instructions from now on, as [`LaneTree::set_simd`] does.
    pub fn set_simd(&mut self, simd: Simd) {
        self.tree.set_simd(simd);
    }

    /// Rebuilds the set from its own keys, with its options, and gives back memory that removals have left. Returns the bytes
    /// freed.
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_frame::Error::Lost); [`Error::Runtime`](lanetree_frame::Error::Runtime) if the device has no room
    /// for the keys and a second set, or from the device: the set is as it was.
    pub fn compact(&mut self) -> Result<u64> {
        compact(&mut self.tree)
    }

    /// A second set with the same keys and options, on the same device, laid out as a build lays it out. Returns when it is complete.
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_frame::Error::Lost); [`Error::Runtime`](lanetree_frame::Error::Runtime) if the device has no room
    /// for a copy of the keys and the second set, or from the device.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Self { tree: fixed::copy(&self.tree)? })
    }

    /// Removes all keys and gives back their memory; the set keeps its options. Returns when it is done.
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_frame::Error::Lost); [`Error::Runtime`](lanetree_frame::Error::Runtime) from the device: the set is
    /// as it was.
    pub fn clear(&mut self) -> Result<()> {
        fixed::clear(&mut self.tree)
    }

    /// The set's queries on a stream of the same device: the device form of every call.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> SetOnStream<'a, K> {
        SetOnStream::new(&self.tree, stream)
    }

    /// The set for a kernel of your own that is launched next on `stream`, as [`LaneTree::handle_on`]: a
    /// [`Probe`](lanetree_kernels_lane_tree::Probe) of it says whether keys are [contained](lanetree_kernels_lane_tree::Probe::contains),
    /// and walks along the keys from a bound on.
    ///
    /// # Errors
    /// As [`LaneTree::handle_on`].
    pub fn handle_on(&self, stream: &Stream) -> Result<Handle<K::Bits, ()>> {
        self.tree.handle_on(stream)
    }

    /// Whether one key is in the set. On a GPU one key costs a launch and two trips over the bus: ask for many with
    /// [`LaneSet::contains_many`].
    ///
    /// # Errors
    /// As [`LaneSet::contains_many`].
    pub fn contains(&self, key: &K) -> Result<bool> {
        Ok(self.contains_many(slice::from_ref(key))?[0])
    }

    /// The smallest key; `None` if the set is empty.
    ///
    /// # Errors
    /// As [`LaneSet::contains_many`].
    pub fn first(&self) -> Result<Option<K>> {
        Ok(self.successor_many(&[K::MIN])?[0])
    }

    /// The largest key; `None` if the set is empty.
    ///
    /// # Errors
    /// As [`LaneSet::contains_many`].
    pub fn last(&self) -> Result<Option<K>> {
        Ok(self.predecessor_many(&[K::MAX])?[0])
    }

    /// Whether each of `keys` is in the set. Returns when the results are complete; on a GPU a large batch goes through in
    /// pieces, several on their way at a time, and a bit for each key comes back.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if the device has no room for the batch, or from its driver;
    /// [`Error::Lost`](lanetree_frame::Error::Lost).
    pub fn contains_many(&self, keys: &[K]) -> Result<Vec<bool>> {
        HostForm::contains_many(&self.tree, keys)
    }

    /// The number of keys below each of `keys`: the rank that the key has, or would have if inserted.
    ///
    /// # Errors
    /// As [`LaneSet::contains_many`].
    pub fn lower_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.tree.lower_bound_many(keys)
    }

    /// How many of the set's keys are at or below each of `keys`, in the order of `keys`. Returns when the results are
    /// complete.
    ///
    /// # Errors
    /// As [`LaneSet::contains_many`].
    pub fn upper_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.tree.upper_bound_many(keys)
    }

    /// The set's last key at or below each of `keys`; `None` if there is none. Returns when the results are complete.
    ///
    /// # Errors
    /// As [`LaneSet::contains_many`].
    pub fn predecessor_many(&self, keys: &[K]) -> Result<Vec<Option<K>>> {
        self.tree.neighbor_many(keys, &Searches::any(Side::Upper), |key, ()| key)
    }

    /// The set's first key at or above each of `keys`; `None` if there is none. Returns when the results are complete.
    ///
    /// # Errors
    /// As [`LaneSet::contains_many`].
    pub fn successor_many(&self, keys: &[K]) -> Result<Vec<Option<K>>> {
        self.tree.neighbor_many(keys, &Searches::any(Side::Lower), |key, ()| key)
    }

    /// Which of `probes` are in the set, and the rank of each that is. Otherwise like
    /// [`LaneTree::join_many`].
    ///
    /// # Errors
    /// As [`LaneSet::contains_many`].
    pub fn join_many(&self, probes: &[K]) -> Result<Matches> {
        self.tree.join_many(probes)
    }

    /// [`LaneSet::join_many`] in place of other matches, whose memory is reused; otherwise like
    /// [`LaneTree::join_many_into`].
    ///
    /// # Errors
    /// As [`LaneSet::contains_many`].
    pub fn join_many_into(&self, probes: &[K], out: &mut Matches) -> Result<()> {
        self.tree.join_many_into(probes, out)
    }

    /// [`LaneSet::join_many`] of any kind, with null probes or without.
    ///
    /// # Errors
    /// As [`LaneTree::join_as_many`].
    pub fn join_as_many(&self, probes: &[K], join: &Join<'_>) -> Result<Matches> {
        self.tree.join_as_many(probes, join)
    }

    /// The keys of each range, in ascending order. Takes range expressions (`3..7`, `..=7`, pairs of
    /// [`Bound`](core::ops::Bound)s) or [`KeyRange`]s, which can have a limit. Returns when the results are complete.
    ///
    /// # Errors
    /// As [`LaneSet::contains_many`]; [`Error::ReversedRange`](lanetree_frame::Error::ReversedRange) for a range whose end is
    /// below its start.
    pub fn range_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<SetRanges<K>> {
        Ok(self.tree.range_many(ranges)?.into())
    }

    /// The number of keys of each range, in the order of the ranges, without copying keys. Returns when the results are
    /// complete.
    ///
    /// # Errors
    /// As [`LaneSet::range_many`].
    pub fn count_range_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<Vec<u64>> {
        self.tree.count_range_many(ranges)
    }

    /// All keys in ascending order.
    ///
    /// # Errors
    /// As [`LaneSet::contains_many`].
    pub fn keys(&self) -> Result<Vec<K>> {
        Ok(copied(&self.tree)?.0)
    }

    /// All keys in ascending order. Fetches them from the device in large blocks; if that fails, the item is an error and the
    /// iteration ends.
    pub fn iter(&self) -> SetIter<'_, K> {
        SetIter(Iter::new(&self.tree))
    }

    /// Iterates over the keys of a range in ascending order, or from the last one on (`.rev()`). Two ranks find its ends; then keys
    /// come in windows, as from [`LaneSet::iter`].
    ///
    /// # Errors
    /// [`Error::ReversedRange`](lanetree_frame::Error::ReversedRange); as [`LaneSet::lower_bound_many`].
    pub fn range(&self, range: impl Into<KeyRange<K>>) -> Result<SetIter<'_, K>> {
        Ok(SetIter(Iter::of_range(&self.tree, range.into())?))
    }

    /// Inserts keys. In the report those that are new are `inserted`, and those that were there `replaced`.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime), [`Error::TooManyOperations`](lanetree_frame::Error::TooManyOperations),
    /// [`Error::TooManyLeaves`](lanetree_frame::Error::TooManyLeaves): the set is as it was.
    /// [`Error::Lost`](lanetree_frame::Error::Lost) if the device failed half-way, now or earlier.
    pub fn insert_many(&mut self, keys: &[K]) -> Result<UpdateReport> {
        self.tree.change(keys.len(), |i| Op::Insert(keys[i], ()))
    }

    /// Removes the keys in `keys` that are present. All or nothing; returns when it is done.
    ///
    /// # Errors
    /// As [`LaneSet::insert_many`].
    pub fn remove_many(&mut self, keys: &[K]) -> Result<UpdateReport> {
        self.tree.change(keys.len(), |i| Op::Remove(keys[i]))
    }

    /// Inserts and removes keys, with the effect of one operation after another: `Op::Insert(key, ())`, `Op::Remove(key)`. An
    /// update changes nothing.
    ///
    /// # Errors
    /// As [`LaneSet::insert_many`].
    pub fn apply(&mut self, ops: &[Op<K, ()>]) -> Result<UpdateReport> {
        self.tree.change(ops.len(), |i| ops[i])
    }

    /// Applies a batch of operations in buffers. Each inserts its key ([`OpKind::INSERT`](lanetree_frame::OpKind::INSERT)) or removes it
    /// ([`OpKind::REMOVE`](lanetree_frame::OpKind::REMOVE)); an `OpKind::UPDATE` changes nothing. Otherwise like [`LaneTree::apply_on`].
    ///
    /// ```
    /// use lanetree::lane_tree::UpdateScratch;
    /// use lanetree::{Batch, Device, LaneSet, OpKind};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let mut set = LaneSet::build(&device, &[1_u64, 3])?;
    /// let mut scratch = UpdateScratch::new(&device, 2)?;
    /// // Insert 2, remove 3.
    /// let (keys, kinds) = (device.upload(&[2, 3])?, device.upload(&[OpKind::INSERT, OpKind::REMOVE])?);
    /// let report = set.apply_on(&device.stream()?, Batch::keys_of_kinds(&keys, &kinds), &mut scratch)?;
    /// assert_eq!((report.inserted, report.removed), (1, 1));
    /// assert_eq!(set.keys()?, [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`LaneTree::apply_on`].
    pub fn apply_on(
        &mut self,
        stream: &Stream,
        Batch { keys, values: (), kinds, count }: Batch<'_, K>,
        scratch: &mut UpdateScratch<K>,
    ) -> Result<UpdateReport> {
        self.tree.apply_on(stream, Batch { keys, values: &none(keys)?, kinds, count }, scratch)
    }
}

/// As many values as keys. They take no memory.
fn none<K: AnyKey>(keys: &Buffer<K>) -> Result<Buffer<()>> {
    Ok(keys.device().alloc(keys.len())?)
}

/// For code that knows maps alone: values are words that no kernel reads or writes.
// SAFETY: the contract of `FixedIndex`; nobody asks for values.
#[doc(hidden)]
unsafe impl<K: AnyKey> Launches<K, u32> for LaneSet<K> {
    unsafe fn launch(&self, stream: &Stream, is_sorted: bool, query: &Query<K::Bits, u32>) -> Result<()> {
        let order = if is_sorted { BatchOrder::Sorted } else { BatchOrder::default() };
        // SAFETY: the caller's contract.
        unsafe { self.tree.launch(stream, &order, &query.without_values()) }
    }
}

impl<K: AnyKey> fmt::Debug for LaneSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LaneSet<{}>[{} keys, on {}]", K::NAME, self.len(), self.device())
    }
}

/// Iterates over a set's keys: see [`LaneSet::iter`].
#[derive(Debug)]
pub struct SetIter<'a, K: AnyKey>(Iter<'a, LaneTree<K, ()>>);

impl<K: AnyKey> Iterator for SetIter<'_, K> {
    type Item = Result<K>;

    fn next(&mut self) -> Option<Result<K>> {
        Some(self.0.next()?.map(|(key, ())| key))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<K: AnyKey> DoubleEndedIterator for SetIter<'_, K> {
    fn next_back(&mut self) -> Option<Result<K>> {
        Some(self.0.next_back()?.map(|(key, ())| key))
    }
}

impl<K: AnyKey> FusedIterator for SetIter<'_, K> {}

impl<'a, K: AnyKey> IntoIterator for &'a LaneSet<K> {
    type Item = Result<K>;
    type IntoIter = SetIter<'a, K>;

    fn into_iter(self) -> SetIter<'a, K> {
        self.iter()
    }
}
