//! Batches of changes in buffers of one device.

use crate::back::tiles;
use crate::group::sum;
use crate::sharded::Sharded;
use crate::slots::{Table, reserve, with_spare};
use crate::view::InShards;
use core::fmt;
use lanetree_frame::error::check_buffer;
use lanetree_frame::{
    AnyKey, Batch, Buffer, Device, DeviceKind, Error, KeyWord, OpKind, Result, Stream, UpdateReport, Word,
};
use lanetree_kernels_sharded::{OwnersArgs, PermuteArgs, calls};
use lanetree_lane_tree::{LaneTree, UpdateScratch};
use lanetree_primitives::{MOST_OPERATIONS, RadixSortScratch, radix_argsort};
use lanetree_runtime::PeerPart;
use std::sync::{Mutex, PoisonError};

/// Scratch memory of [`Sharded::apply_on`], reusable for the next batches of the same index. Made by `default()`, without memory at
/// first: it grows with the batches. For keys and values of 8 bytes it takes about 35 bytes for each operation on the batch's device,
/// and on each shard's what a LaneTree's batches take.
pub struct ShardedUpdateScratch<K: AnyKey, V> {
    divider: Option<Divider<K, V>>,
    /// Each shard's, once it had a part of a batch, and the stream of its changes.
    shards: Vec<OfShard<K>>,
}

/// The stream of a shard's changes and their scratch memory.
type OfShard<K> = Mutex<Option<(Stream, UpdateScratch<K>)>>;

impl<K: AnyKey, V> Default for ShardedUpdateScratch<K, V> {
    fn default() -> Self {
        Self { divider: None, shards: Vec::new() }
    }
}

impl<K: AnyKey, V> fmt::Debug for ShardedUpdateScratch<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardedUpdateScratch[{} shards]", self.shards.len())
    }
}

/// What brings operations into the order of their shards, on a batch's device.
struct Divider<K: AnyKey, V> {
    device: Device,
    splitters: Table<K::Bits>,
    owners: Buffer<u32>,
    sizes: Buffer<u32>,
    sorted: Buffer<u32>,
    /// The number in the batch of each operation in that order.
    order: Buffer<u32>,
    sort: RadixSortScratch<u32, u32>,
    /// Operations that the sort is for.
    sortable: usize,
    keys: Buffer<K>,
    values: Buffer<V>,
    kinds: Buffer<OpKind>,
}

/// A shard's part of a batch, on its device.
struct Part<'a, K, V> {
    keys: Cols<'a, K>,
    values: Cols<'a, V>,
    kinds: Option<Cols<'a, OpKind>>,
}

/// A column of its own, or the caller's.
enum Cols<'a, T> {
    Own(Buffer<T>),
    Callers(&'a Buffer<T>),
}

impl<T> Cols<'_, T> {
    fn get(&self) -> &Buffer<T> {
        match self {
            Self::Own(column) => column,
            Self::Callers(column) => column,
        }
    }
}

impl<K: AnyKey, V: Word> Divider<K, V> {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            splitters: Table::new(device)?,
            owners: device.alloc(0)?,
            sizes: device.alloc(0)?,
            sorted: device.alloc(0)?,
            order: device.alloc(0)?,
            sort: RadixSortScratch::for_one_pass(device, 0)?,
            sortable: 0,
            keys: device.alloc(0)?,
            values: device.alloc(0)?,
            kinds: device.alloc(0)?,
        })
    }

    /// How many operations each shard has; waits for it.
    fn sizes(&mut self, stream: &Stream, splitters: &[K], keys: &Buffer<K>) -> Result<Vec<usize>> {
        let (count, shards) = (keys.len(), splitters.len() + 1);
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
        // SAFETY: so many keys, with room for the shard of each and a size for each shard; all for this stream.
        unsafe { tiles(stream, count)?.run(calls::owners(&args))? };
        Ok(self.sizes.to_vec()?[..shards].iter().map(|&size| size as usize).collect())
    }

    /// Brings a batch into the order of its shards; operations of one shard keep theirs.
    fn divide(&mut self, stream: &Stream, batch: Batch<'_, K, &Buffer<V>>, shards: usize) -> Result<()> {
        let count = batch.keys.len();
        reserve(&mut self.sorted, count)?;
        reserve(&mut self.order, count)?;
        if self.sortable < count {
            self.sortable = 0;
            self.sort = RadixSortScratch::for_one_pass(&self.device, with_spare(count))?;
            self.sortable = with_spare(count);
        }
        let bits = 0..u32::BITS - (shards as u32 - 1).leading_zeros();
        radix_argsort(stream, &self.owners, count, bits, &mut self.sorted, &mut self.order, &mut self.sort)?;
        reserve(&mut self.keys, count)?;
        reserve(&mut self.values, count)?;
        // SAFETY: keys and kinds are of the same size as their words; the order is of so many operations.
        unsafe {
            let keys = (batch.keys.read_on(stream)?.cast(), self.keys.write_on(stream)?.cast());
            permute::<K::Bits>(stream, &self.order, count, keys)?;
            let values = (batch.values.read_on(stream)?, self.values.write_on(stream)?);
            permute::<V>(stream, &self.order, count, values)?;
            if let Some(kinds) = batch.kinds {
                reserve(&mut self.kinds, count)?;
                let kinds = (kinds.read_on(stream)?.cast(), self.kinds.write_on(stream)?.cast());
                permute::<u32>(stream, &self.order, count, kinds)?;
            }
        }
        Ok(())
    }
}

/// # Safety
/// The order is of so many elements, below as many; the addresses have as many, and are for the stream.
unsafe fn permute<W: KeyWord>(
    stream: &Stream,
    order: &Buffer<u32>,
    count: usize,
    (from, out): (lanetree_simt::Global<W>, lanetree_simt::GlobalMut<W>),
) -> Result<()> {
    let args = PermuteArgs { from, order: order.read_on(stream)?, count: count as u64, out };
    // SAFETY: the caller's contract.
    Ok(unsafe { tiles(stream, count)?.run(calls::permute(&args)) }?)
}

impl<K: AnyKey, V: Word> Sharded<LaneTree<K, V>> {
    /// Applies a batch of operations in buffers of one of the shards' devices, to all shards or to none: [`Batch`] says what they
    /// consist of. The effect is that of one operation after another.
    ///
    /// The batch's device brings the operations into the order of their shards, each shard's part is copied to its device, and all
    /// shards change at the same time. None of them writes before each one has found out what the batch does there and has all memory
    /// for it: an invalid batch and a device without room are found before. The call returns when everything is done. Each shard's part
    /// is copied to memory that is allocated for the call, which is fast from a [`Pool`](lanetree_frame::Pool).
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
    /// As [`LaneTree::apply_on`], also where a device has no room: every shard has what it had. [`Error::OptionValue`] if the shards'
    /// devices are of several kinds. [`Error::Lost`] where a device fails while shards write, or has failed before: all of the
    /// index is lost.
    pub fn apply_on(
        &mut self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        scratch: &mut ShardedUpdateScratch<K, V>,
    ) -> Result<UpdateReport> {
        let home = stream.device().clone();
        self.check_batch(stream, batch)?;
        if batch.keys.is_empty() {
            return Ok(UpdateReport::default());
        }
        let shards = self.shards()?.len();
        let divider = match &mut scratch.divider {
            Some(divider) if divider.device == home => divider,
            other => other.insert(Divider::new(&home)?),
        };
        let sizes = divider.sizes(stream, &self.parts.splitters, batch.keys)?;
        scratch.shards.resize_with(shards, Mutex::default);
        for ((size, shard), place) in sizes.iter().zip(self.shards()?).zip(&mut scratch.shards) {
            let (place, device) = (place.get_mut().unwrap_or_else(PoisonError::into_inner), shard.device());
            if *size == 0
                || place.as_ref().is_some_and(|(own, scratch)| own.device() == device && scratch.operations() >= *size)
            {
                continue;
            }
            *place = None;
            *place = Some((device.stream()?, UpdateScratch::new(device, with_spare(*size).min(MOST_OPERATIONS))?));
        }
        let is_alone = sizes.contains(&batch.keys.len());
        let parts = self.parts_of(stream, batch, &sizes, divider, &mut scratch.shards)?;
        // Operations of no kind that there is, and the first one's number and kind.
        let unknown = Mutex::new((0, usize::MAX, 0));
        let (order, places) = (&divider.order, &scratch.shards);
        let apply = |shard: usize, tree: &mut LaneTree<K, V>, ready: &dyn Fn() -> Result<()>| {
            let mut place = places[shard].lock().unwrap_or_else(PoisonError::into_inner);
            let (Some(part), Some((own, scratch))) = (&parts[shard], &mut *place) else {
                return Ok(UpdateReport::default());
            };
            let kinds = part.kinds.as_ref().map(Cols::get);
            let batch = Batch { keys: part.keys.get(), values: part.values.get(), kinds };
            tree.apply_on_after(own, batch, scratch, ready).inspect_err(|error| {
                if let Error::UnknownKinds { operations, index, kind } = error {
                    let mut number = [*index as u32];
                    let first: usize = sizes[..shard].iter().sum();
                    if !is_alone && order.copy_range_to(first + index, &mut number).is_err() {
                        return;
                    }
                    let mut unknown = unknown.lock().unwrap_or_else(PoisonError::into_inner);
                    let number = number[0] as usize;
                    let is_first = number < unknown.1;
                    *unknown =
                        (unknown.0 + operations, number.min(unknown.1), if is_first { *kind } else { unknown.2 });
                }
            })
        };
        let has_part = |shard: usize| parts[shard].is_some();
        let done = self.parts.group.change_when_ready(has_part, apply);
        self.count();
        let reports =
            done.map_err(|error| match (error, unknown.into_inner().unwrap_or_else(PoisonError::into_inner)) {
                (Error::UnknownKinds { .. }, (operations, index, kind)) if operations > 0 => {
                    Error::UnknownKinds { operations, index, kind }
                }
                (error, _) => error,
            })?;
        Ok(sum(&reports))
    }

    fn check_batch(&self, stream: &Stream, Batch { keys, values, kinds }: Batch<'_, K, &Buffer<V>>) -> Result<()> {
        let (home, count) = (stream.device(), keys.len());
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

    /// Each shard's part of a batch, on its device. Waits for the copies, which all go on at the same time: nothing can be done before,
    /// and from then on no device waits for another one.
    fn parts_of<'a>(
        &self,
        stream: &Stream,
        batch: Batch<'a, K, &'a Buffer<V>>,
        sizes: &[usize],
        divider: &mut Divider<K, V>,
        places: &mut [OfShard<K>],
    ) -> Result<Vec<Option<Part<'a, K, V>>>> {
        let (home, count, shards) = (stream.device(), batch.keys.len(), self.shards()?);
        let is_whole = |shard: usize| sizes[shard] == count && shards[shard].device() == home;
        if !(0..shards.len()).any(is_whole) {
            divider.divide(stream, batch, shards.len())?;
        }
        let mut first = 0;
        let mut parts = Vec::with_capacity(shards.len());
        for (shard, place) in places.iter_mut().enumerate() {
            let range = first..first + sizes[shard];
            first = range.end;
            let place = place.get_mut().unwrap_or_else(PoisonError::into_inner);
            let Some((own, _)) = place.as_ref().filter(|_| !range.is_empty()) else {
                parts.push(None);
                continue;
            };
            parts.push(Some(if is_whole(shard) {
                let kinds = batch.kinds.map(Cols::Callers);
                Part { keys: Cols::Callers(batch.keys), values: Cols::Callers(batch.values), kinds }
            } else {
                let to = Copies { own, stream, range };
                let kinds = batch.kinds.map(|_| to.copy(&divider.kinds)).transpose()?;
                Part { keys: to.copy(&divider.keys)?, values: to.copy(&divider.values)?, kinds }
            }));
        }
        for (part, place) in parts.iter().zip(places) {
            let place = place.get_mut().unwrap_or_else(PoisonError::into_inner);
            if let Some((own, _)) = place.as_ref().filter(|_| part.is_some()) {
                own.synchronize()?;
            }
        }
        Ok(parts)
    }
}

/// Copies of a shard's part.
struct Copies<'s> {
    own: &'s Stream,
    stream: &'s Stream,
    range: core::ops::Range<usize>,
}

impl Copies<'_> {
    fn copy<T: bytemuck::Pod>(&self, from: &Buffer<T>) -> Result<Cols<'static, T>> {
        let mut column = self.own.device().alloc(self.range.len())?;
        let part = PeerPart { from, range: self.range.clone(), stream: self.stream, at: 0 };
        column.copy_from_peers(self.own, &[part])?;
        Ok(Cols::Own(column))
    }
}
