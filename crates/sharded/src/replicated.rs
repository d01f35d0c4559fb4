//! [`Replicated`]: the same index on several devices.

use crate::group::{Group, Undo, apply, keys_of, undo};
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use lanetree_frame::error::same_device;
use lanetree_frame::fixed::pairs::check_lengths;
use lanetree_frame::fixed::{FixedIndex, OnStream};
use lanetree_frame::{
    AnyKey, Buffer, Device, DeviceForm, HostBatch, IndexBuilder, KeyRange, Matches, NeighborsOf, Op, OrderedIndex,
    Ranges, Result, Stream, UpdateReport, Word,
};

/// A copy of an index on each of several devices. Every change is made in all of them, or in none. The copy that is least busy
/// answers a batch of queries, so several threads use several devices; the copy on a device answers batches in that device's memory
/// ([`Replicated::on`]).
///
/// ```
/// use lanetree::{Device, LaneTree, OrderedIndex, Replicated};
///
/// # fn main() -> lanetree::Result<()> {
/// let devices = [Device::emulated(), Device::emulated()];
/// let mut index = Replicated::build(&devices, LaneTree::builder(), &[1_u64, 2, 3], &[10_u64, 20, 30])?;
/// index.insert_many(&[4], &[40])?;
/// assert_eq!(index.get_many(&[4, 5])?, [Some(40), None]);
/// assert!(index.copies()?.iter().all(|copy| copy.len() == 4));
/// # Ok(())
/// # }
/// ```
pub struct Replicated<I> {
    group: Group<I>,
    /// The queries that each copy is answering.
    busy: Vec<AtomicUsize>,
    /// After the last complete change.
    len: u64,
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Replicated<I> {
    /// Builds an index over pairs in any order, on each of `devices`, 1 to 64; a device may be named more than once. Of equal keys,
    /// the last one's value is kept.
    ///
    /// # Errors
    /// [`Error::OptionValue`](lanetree_frame::Error::OptionValue) for no devices, or more than 64;
    /// [`Error::LengthMismatch`](lanetree_frame::Error::LengthMismatch); those of the index's build.
    pub fn build(
        devices: &[Device],
        builder: impl IndexBuilder<Index = I>,
        keys: &[K],
        values: &[I::Value],
    ) -> Result<Self> {
        check_lengths(keys, values)?;
        let group = Group::build(devices, I::is_lost, |_, device| builder.build(device, keys, values))?;
        let len = group.known()[0].len();
        Ok(Self { group, busy: devices.iter().map(|_| AtomicUsize::new(0)).collect(), len })
    }

    /// The copies, in the order of the devices.
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_frame::Error::Lost).
    pub fn copies(&self) -> Result<&[I]> {
        self.group.get()
    }

    /// The copy that answers batches on a device: the first one there.
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_frame::Error::Lost); [`Error::Runtime`](lanetree_frame::Error::Runtime) for a device without a copy.
    pub fn copy_on(&self, device: &Device) -> Result<&I> {
        let copies = self.group.get()?;
        if let Some(copy) = copies.iter().find(|copy| copy.device() == device) {
            return Ok(copy);
        }
        same_device(copies[0].device(), device, "the stream")?;
        Ok(&copies[0])
    }

    /// Asks the copy that is least busy.
    fn ask<T>(&self, queries: usize, ask: impl FnOnce(&I) -> Result<T>) -> Result<T> {
        /// Takes the queries back, after a panic too.
        struct Asked<'a>(&'a AtomicUsize, usize);
        impl Drop for Asked<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(self.1, Ordering::Relaxed);
            }
        }
        let copies = self.group.get()?;
        // Numbers only: two threads may choose the same copy, which answers both.
        let least = |copy: &usize| self.busy[*copy].load(Ordering::Relaxed);
        let copy = (0..copies.len()).min_by_key(least).unwrap_or(0);
        self.busy[copy].fetch_add(queries, Ordering::Relaxed);
        let _asked = Asked(&self.busy[copy], queries);
        ask(&copies[copy])
    }

    /// Applies a batch to each copy.
    fn change(&mut self, batch: HostBatch<'_, I>) -> Result<UpdateReport> {
        let copies = self.group.get()?;
        let keys = keys_of(&batch)?;
        let undo = if copies.len() > 1 { undo(&copies[0], &keys)? } else { Undo::Ops(Vec::new()) };
        if keys.is_empty() {
            return Ok(UpdateReport::default());
        }
        let take_back = |_, copy: &mut I| copy.apply(&undo.ops(&keys)?).map(drop);
        let reports = self.group.change(|_, copy| apply(copy, &batch), take_back)?;
        self.len = self.group.known()[0].len();
        Ok(reports[0])
    }
}

impl<I: FixedIndex<Value: Word>> Replicated<I> {
    /// The queries in device form, of the copy on the stream's device: a batch is answered where it is.
    ///
    /// ```
    /// use lanetree::{Device, LaneTree, Replicated};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let devices = [Device::emulated(), Device::emulated()];
    /// let index = Replicated::build(&devices, LaneTree::builder(), &[1_u64, 2, 3], &[10_u64, 20, 30])?;
    /// let stream = devices[1].stream()?;
    /// let (queries, mut found) = (devices[1].upload(&[3_u64, 4])?, devices[1].alloc(2)?);
    /// index.on(&stream)?.miss(0).get(&queries, &mut found)?;
    /// assert_eq!(found.to_vec()?, [30, 0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Replicated::copy_on`].
    pub fn on<'a>(&'a self, stream: &'a Stream) -> Result<OnStream<'a, I>> {
        Ok(OnStream::new(self.copy_on(stream.device())?, stream))
    }
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Replicated<I> {
    /// The device form of the copy on a stream's device.
    fn form(&self, stream: &Stream) -> Result<&dyn DeviceForm<K, I::Value>> {
        // All copies have one, or this index has none.
        Ok(self.copy_on(stream.device())?.device_form().expect("an index with a device form"))
    }
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> DeviceForm<K, I::Value> for Replicated<I> {
    fn get(
        &self,
        stream: &Stream,
        queries: &Buffer<K>,
        values: &mut Buffer<I::Value>,
        hits: Option<&mut Buffer<u32>>,
        miss: I::Value,
    ) -> Result<()> {
        self.form(stream)?.get(stream, queries, values, hits, miss)
    }
    fn lower_bound(&self, stream: &Stream, queries: &Buffer<K>, ranks: &mut Buffer<u64>) -> Result<()> {
        self.form(stream)?.lower_bound(stream, queries, ranks)
    }
    fn upper_bound(&self, stream: &Stream, queries: &Buffer<K>, ranks: &mut Buffer<u64>) -> Result<()> {
        self.form(stream)?.upper_bound(stream, queries, ranks)
    }
}

/// Queries that one copy answers.
macro_rules! ask_copies {
    ($($query:ident($batch:ident: $Batch:ty) -> $Found:ty;)*) => {$(
        fn $query(&self, $batch: $Batch) -> Result<$Found> {
            self.ask($batch.len(), |copy| copy.$query($batch))
        }
    )*};
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> OrderedIndex for Replicated<I> {
    type Domain = K;
    type Value = I::Value;
    const NAME: &'static str = "replicated";

    /// The first copy's device.
    fn device(&self) -> &Device {
        self.group.known()[0].device()
    }
    fn len(&self) -> u64 {
        self.len
    }
    /// Of all copies.
    fn bytes(&self) -> u64 {
        self.group.known().iter().map(I::bytes).sum()
    }
    fn host_bytes(&self) -> u64 {
        self.group.known().iter().map(I::host_bytes).sum()
    }
    fn is_lost(&self) -> bool {
        self.group.is_lost()
    }
    ask_copies! {
        get_many(keys: &[K]) -> Vec<Option<I::Value>>;
        lower_bound_many(keys: &[K]) -> Vec<u64>;
        upper_bound_many(keys: &[K]) -> Vec<u64>;
        predecessor_many(keys: &[K]) -> NeighborsOf<Self>;
        successor_many(keys: &[K]) -> NeighborsOf<Self>;
        join_many(probes: &[K]) -> Matches;
        range_many(ranges: &[KeyRange<K>]) -> Ranges<K, I::Value>;
        count_range_many(ranges: &[KeyRange<K>]) -> Vec<u64>;
    }
    fn pairs(&self) -> Result<Vec<(K, I::Value)>> {
        self.ask(self.len as usize, I::pairs)
    }
    fn apply(&mut self, ops: &[Op<K, I::Value>]) -> Result<UpdateReport> {
        self.change(HostBatch::Apply(ops))
    }
    fn insert_many(&mut self, keys: &[K], values: &[I::Value]) -> Result<UpdateReport> {
        self.group.get()?;
        check_lengths(keys, values)?;
        self.change(HostBatch::Insert(keys, values))
    }
    fn update_many(&mut self, keys: &[K], values: &[I::Value]) -> Result<UpdateReport> {
        self.group.get()?;
        check_lengths(keys, values)?;
        self.change(HostBatch::Update(keys, values))
    }
    fn remove_many(&mut self, keys: &[K]) -> Result<UpdateReport> {
        self.change(HostBatch::Remove(keys))
    }
    fn restore_order(&mut self) -> Result<bool> {
        Ok(self.group.tidy(I::restore_order)?.contains(&true))
    }
    /// Of all together.
    fn compact(&mut self) -> Result<u64> {
        Ok(self.group.tidy(I::compact)?.iter().sum())
    }
    fn device_form(&self) -> Option<&dyn DeviceForm<K, I::Value>> {
        self.group.known().iter().all(|copy| copy.device_form().is_some()).then_some(self)
    }
}

impl<I: OrderedIndex> fmt::Debug for Replicated<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replicated[{} of {}, {} pairs each]", self.busy.len(), I::NAME, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree::SortedArray;

    #[test]
    fn a_copy_that_is_not_busy_answers() -> Result<()> {
        let devices = [Device::host(), Device::host(), Device::host()];
        let index = Replicated::build(&devices, SortedArray::<u64, u64>::builder(), &[1, 2], &[3, 4])?;
        index.ask(5, |first| {
            index.ask(4, |second| {
                assert!(!core::ptr::eq(first, second));
                index.ask(1, |third| {
                    assert!(!core::ptr::eq(first, third) && !core::ptr::eq(second, third));
                    index.ask(1, |again| {
                        assert!(core::ptr::eq(third, again), "the one with fewest queries");
                        Ok(())
                    })
                })
            })
        })?;
        assert!(index.busy.iter().all(|busy| busy.load(Ordering::Relaxed) == 0));
        Ok(())
    }
}
