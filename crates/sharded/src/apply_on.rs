//! Batches of changes in buffers of one device.

use crate::back::tiles;
use crate::group::sum;
use crate::on_shards::InShards;
use crate::sharded::Sharded;
use crate::slots::{Table, reserve, with_spare};
use bytemuck::Pod;
use core::fmt;
use core::ops::Range;
use lanetree_frame::error::check_buffer;
use lanetree_frame::{
    AnyKey, Batch, Buffer, Device, DeviceKind, Error, KeyWord, OpKind, Result, Stream, UpdateReport, Word,
};
use lanetree_kernels_sharded::{OwnersArgs, PermuteArgs, calls};
use lanetree_lane_tree::{LaneTree, UpdateScratch};
use lanetree_primitives::{MOST_OPERATIONS, RadixSortScratch, radix_argsort};
use lanetree_runtime::PeerPart;
use std::sync::{Mutex, PoisonError};

/// Scratch memory of [`Sharded::apply_on`], reusable for the next batches of the same index. `default()` makes it without memory; it
/// grows with the batches. For keys and values of 8 bytes it takes about 35 bytes per operation on the batch's device, and on each
/// shard's device 16 and the scratch memory of a LaneTree's batches.
pub struct ShardedUpdateScratch<K: AnyKey, V> {
    partitioner: Option<Partitioner<K, V>>,
    /// Of each shard that had a part of a batch.
    shards: Vec<Mutex<Option<OfShard<K, V>>>>,
}

/// A shard's stream for changes, their scratch memory, and the shard's part of a batch, on its device.
struct OfShard<K: AnyKey, V> {
    stream: Stream,
    scratch: UpdateScratch<K>,
    keys: Buffer<K>,
    values: Buffer<V>,
    kinds: Buffer<OpKind>,
}

impl<K: AnyKey, V: Word> OfShard<K, V> {
    fn new(device: &Device, operations: usize) -> Result<Self> {
        Ok(Self {
            stream: device.stream()?,
            scratch: UpdateScratch::new(device, operations)?,
            keys: device.alloc(0)?,
            values: device.alloc(0)?,
            kinds: device.alloc(0)?,
        })
    }
}

impl<K: AnyKey, V> Default for ShardedUpdateScratch<K, V> {
    fn default() -> Self {
        Self { partitioner: None, shards: Vec::new() }
    }
}

impl<K: AnyKey, V> fmt::Debug for ShardedUpdateScratch<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardedUpdateScratch[{} shards]", self.shards.len())
    }
}

/// Sorts operations by shard, on the batch's device.
struct Partitioner<K: AnyKey, V> {
    device: Device,
    splitters: Table<K::Bits>,
    owners: Buffer<u32>,
    sizes: Buffer<u32>,
    sorted: Buffer<u32>,
    /// The number in the batch of each sorted operation.
    order: Buffer<u32>,
    sort: RadixSortScratch<u32, u32>,
    /// The most operations that `sort` serves.
    sort_capacity: usize,
    keys: Buffer<K>,
    values: Buffer<V>,
    kinds: Buffer<OpKind>,
}

impl<K: AnyKey, V: Word> Partitioner<K, V> {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            splitters: Table::new(device)?,
            owners: device.alloc(0)?,
            sizes: device.alloc(0)?,
            sorted: device.alloc(0)?,
            order: device.alloc(0)?,
            sort: RadixSortScratch::for_one_pass(device, 0)?,
            sort_capacity: 0,
            keys: device.alloc(0)?,
            values: device.alloc(0)?,
            kinds: device.alloc(0)?,
        })
    }

    /// The number of operations of each shard. Waits for it.
    fn sizes(&mut self, stream: &Stream, splitters: &[K], batch: Batch<'_, K, &Buffer<V>>) -> Result<Vec<usize>> {
        let Batch { keys, count, .. } = batch;
        let shards = splitters.len() + 1;
        self.splitters.set(splitters.iter().map(|key| key.encode()))?;
        reserve(&mut self.owners, count)?;
        reserve(&mut self.sizes, shards)?;
        self.sizes.fill_zero(stream)?;
        let args = OwnersArgs {
            keys: keys.read_on(stream)?.cast::<K::Bits>(),
            count: count as u64,
            splitters: self.splitters.device.read_on(stream)?,
            owners: self.owners.write_on(stream)?,
            sizes: self.sizes.write_on(stream)?,
            shards: shards as u32,
            padding: 0,
            flip: K::FLIP,
        };
        // SAFETY: `count` keys, an element for the shard of each, and a size for each shard; all for this stream.
        unsafe { tiles(stream, count)?.run(calls::owners(&args))? };
        Ok(self.sizes.to_vec()?[..shards].iter().map(|&size| size as usize).collect())
    }

    /// Sorts a batch by shard; operations of one shard keep their order.
    fn partition(&mut self, stream: &Stream, batch: Batch<'_, K, &Buffer<V>>, shards: usize) -> Result<()> {
        let count = batch.count;
        reserve(&mut self.sorted, count)?;
        reserve(&mut self.order, count)?;
        if self.sort_capacity < count {
            self.sort_capacity = 0;
            self.sort = RadixSortScratch::for_one_pass(&self.device, with_spare(count))?;
            self.sort_capacity = with_spare(count);
        }
        let bits = 0..u32::BITS - (shards as u32 - 1).leading_zeros();
        radix_argsort(stream, &self.owners, count, bits, &mut self.sorted, &mut self.order, &mut self.sort)?;
        reserve(&mut self.keys, count)?;
        reserve(&mut self.values, count)?;
        // SAFETY: keys and kinds have the size of their words; `order` has the number of each operation.
        unsafe {
            permute::<K::Bits, _>(stream, &self.order, count, batch.keys, &mut self.keys)?;
            permute::<V, _>(stream, &self.order, count, batch.values, &mut self.values)?;
            if let Some(kinds) = batch.kinds {
                reserve(&mut self.kinds, count)?;
                permute::<u32, _>(stream, &self.order, count, kinds, &mut self.kinds)?;
            }
        }
        Ok(())
    }
}

/// # Safety
/// `order` has `count` numbers below `count`; `from` and `out` have `count` elements of the size of a word.
unsafe fn permute<W: KeyWord, T: Pod>(
    stream: &Stream,
    order: &Buffer<u32>,
    count: usize,
    from: &Buffer<T>,
    out: &mut Buffer<T>,
) -> Result<()> {
    let (from, out) = (from.read_on(stream)?.cast::<W>(), out.write_on(stream)?.cast());
    let args = PermuteArgs { from, order: order.read_on(stream)?, count: count as u64, out };
    // SAFETY: the caller's contract.
    Ok(unsafe { tiles(stream, count)?.run(calls::permute(&args)) }?)
}

impl<K: AnyKey, V: Word> Sharded<LaneTree<K, V>> {
    /// Applies a [`Batch`] of operations in buffers of one of the shards' devices, to all shards or to none. The effect is that of one
    /// operation after another.
    ///
    /// The batch's device sorts the operations by shard, each shard's part is copied to its device, and all shards change at the same
    /// time. No shard writes before each one has planned its part and has all memory for it: an invalid batch or a device without room
    /// changes nothing. The call returns when everything is done.
    ///
    /// ```
    /// use lanetree::{Batch, Device, LaneTree, OpKind, OrderedIndex, Sharded, ShardedUpdateScratch};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// // On a host with two GPUs: [Device::cuda(0)?, Device::cuda(1)?].
    /// let devices = [Device::emulated(), Device::emulated()];
    /// let mut index = Sharded::build(&devices, LaneTree::builder(), &[1_u64, 3, 100, 200], &[10_u32, 30, 1000, 2000])?;
    /// let (stream, mut scratch) = (devices[0].stream()?, ShardedUpdateScratch::default());
    /// // Insert 2, remove 200.
    /// let (keys, values) = (devices[0].upload(&[2, 200])?, devices[0].upload(&[20, 0])?);
    /// let kinds = devices[0].upload(&[OpKind::INSERT, OpKind::REMOVE])?;
    /// let report = index.apply_on(&stream, Batch::of_kinds(&keys, &values, &kinds), &mut scratch)?;
    /// assert_eq!((report.inserted, report.removed), (1, 1));
    /// assert_eq!(index.get_many(&[1, 2, 200])?, [Some(10), Some(20), None]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`LaneTree::apply_on`], also if a device has no room: every shard is unchanged. [`Error::OptionValue`] if the shards'
    /// devices are of several kinds. [`Error::Lost`] if a device fails while shards write, or has failed before: all of the index is
    /// lost.
    pub fn apply_on(
        &mut self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        scratch: &mut ShardedUpdateScratch<K, V>,
    ) -> Result<UpdateReport> {
        let home = stream.device().clone();
        self.check_batch(stream, batch)?;
        if batch.count == 0 {
            return Ok(UpdateReport::default());
        }
        let shards = self.shards()?.len();
        let partitioner = match &mut scratch.partitioner {
            Some(partitioner) if partitioner.device == home => partitioner,
            other => other.insert(Partitioner::new(&home)?),
        };
        let sizes = partitioner.sizes(stream, &self.parts.splitters, batch)?;
        scratch.shards.resize_with(shards, Mutex::default);
        for ((&size, shard), of_shard) in sizes.iter().zip(self.shards()?).zip(&mut scratch.shards) {
            let (of_shard, device) = (known(of_shard), shard.device());
            let fits = |own: &OfShard<K, V>| own.stream.device() == device && own.scratch.operations() >= size;
            if size > 0 && !of_shard.as_ref().is_some_and(fits) {
                *of_shard = None;
                *of_shard = Some(OfShard::new(device, with_spare(size).min(MOST_OPERATIONS))?);
            }
        }
        let is_alone = sizes.contains(&batch.count);
        let callers = self.send_parts(stream, batch, &sizes, partitioner, &mut scratch.shards)?;
        // The number of operations of unknown kinds, the first one's number in the shard's part, and its kind.
        let unknown = Mutex::new(Vec::new());
        let of_shards = &scratch.shards;
        let apply = |shard: usize, tree: &mut LaneTree<K, V>, ready: &dyn Fn() -> Result<()>| {
            let mut of_shard = of_shards[shard].lock().unwrap_or_else(PoisonError::into_inner);
            let Some(own) = of_shard.as_mut().filter(|_| sizes[shard] > 0) else {
                return Ok(UpdateReport::default());
            };
            let part = match callers == Some(shard) {
                true => batch,
                false => {
                    let (kinds, count) = (batch.kinds.map(|_| &own.kinds), sizes[shard]);
                    Batch { keys: &own.keys, values: &own.values, kinds, count }
                }
            };
            tree.apply_on_after(&own.stream, part, &mut own.scratch, ready).inspect_err(|error| {
                if let Error::UnknownKinds { operations, index, kind } = *error {
                    let first: usize = if is_alone { 0 } else { sizes[..shard].iter().sum() };
                    let mut unknown = unknown.lock().unwrap_or_else(PoisonError::into_inner);
                    unknown.push((operations, first + index, kind));
                }
            })
        };
        let done = self.parts.group.change_when_ready(|shard| sizes[shard] > 0, apply);
        self.ends.forget();
        self.parts.count();
        let reports = done.map_err(|error| {
            let mut unknown = unknown.into_inner().unwrap_or_else(PoisonError::into_inner);
            if !is_alone {
                // Numbers in the batch.
                unknown.retain_mut(|(_, index, _)| {
                    let mut number = [0];
                    let done = partitioner.order.copy_range_to(*index, &mut number);
                    *index = number[0] as usize;
                    done.is_ok()
                });
            }
            match (error, unknown.iter().min_by_key(|(_, index, _)| *index)) {
                (Error::UnknownKinds { .. }, Some(&(_, index, kind))) => {
                    let operations = unknown.iter().map(|(operations, ..)| operations).sum();
                    Error::UnknownKinds { operations, index, kind }
                }
                (error, _) => error,
            }
        })?;
        Ok(sum(&reports))
    }

    fn check_batch(&self, stream: &Stream, batch: Batch<'_, K, &Buffer<V>>) -> Result<()> {
        let (home, Batch { keys, values, kinds, count }) = (stream.device(), batch);
        self.check_stream(stream)?;
        if home.kind() == DeviceKind::Host {
            return Err(Error::NoUpdates { device: home.to_string() });
        }
        if count > MOST_OPERATIONS {
            return Err(Error::TooManyOperations { operations: count });
        }
        check_buffer(home, "the keys' buffer", count, keys)?;
        check_buffer(home, "the values' buffer", count, values)?;
        kinds.map_or(Ok(()), |kinds| check_buffer(home, "the kinds' buffer", count, kinds))
    }

    /// Sends each shard its part of a batch. Waits for the copies, which all run at the same time: no shard can begin without its part, and
    /// from then on no device waits for another one. Returns the shard whose part is all of the batch and stays where it is, if there is
    /// one.
    fn send_parts(
        &self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        sizes: &[usize],
        partitioner: &mut Partitioner<K, V>,
        of_shards: &mut [Mutex<Option<OfShard<K, V>>>],
    ) -> Result<Option<usize>> {
        let (home, shards) = (stream.device(), self.shards()?);
        let is_whole = |&shard: &usize| sizes[shard] == batch.count && shards[shard].device() == home;
        if let Some(whole) = (0..shards.len()).find(is_whole) {
            return Ok(Some(whole));
        }
        partitioner.partition(stream, batch, shards.len())?;
        let mut first = 0;
        let mut sent = Vec::with_capacity(shards.len());
        for (&size, of_shard) in sizes.iter().zip(of_shards) {
            let range = first..first + size;
            first = range.end;
            let Some(own) = known(of_shard).as_mut().filter(|_| size > 0) else { continue };
            if batch.kinds.is_some() {
                send(stream, &partitioner.kinds, &range, &own.stream, &mut own.kinds)?;
            }
            send(stream, &partitioner.keys, &range, &own.stream, &mut own.keys)?;
            send(stream, &partitioner.values, &range, &own.stream, &mut own.values)?;
            sent.push(&own.stream);
        }
        sent.into_iter().try_for_each(Stream::synchronize)?;
        Ok(None)
    }
}

fn known<T>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}

/// Copies a shard's part of a column to its device.
fn send<T: Pod>(
    stream: &Stream,
    from: &Buffer<T>,
    range: &Range<usize>,
    own: &Stream,
    to: &mut Buffer<T>,
) -> Result<()> {
    reserve(to, range.len())?;
    Ok(to.copy_from_peers(own, &[PeerPart { from, range: range.clone(), stream, at: 0 }])?)
}
