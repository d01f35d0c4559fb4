//! Memory and streams of batches' pieces, and where a piece's buckets are.

use bytemuck::Pod;
use lanetree_frame::{Buffer, Device, PinnedBuffer, Result, Stream};
use lanetree_kernels_sharded::MOST_SHARDS;
use lanetree_simt::{Global, GlobalMut};

/// Buckets begin at multiples of this: there elements of any column begin at whole cache lines, and so do the words of hit masks.
pub(crate) const BUCKET: usize = 1 << 10;

/// Where a piece's buckets are on the batch's device. Each can hold the whole piece, so the layout does not depend on the queries.
pub(crate) struct Layout {
    /// The start of each shard's bucket; buckets of shards on the batch's device come first.
    pub(crate) starts: Vec<usize>,
    /// The start of the buckets of shards on other devices.
    pub(crate) remote: usize,
    pub(crate) end: usize,
}

impl Layout {
    /// The layout for pieces of `piece` queries, and shards on devices of these numbers; the batch's device is 0.
    pub(crate) fn new(piece: usize, devices: &[usize]) -> Self {
        let stride = piece.next_multiple_of(BUCKET);
        let is_local = |shard: &usize| devices[*shard] == 0;
        let (local, remote): (Vec<_>, Vec<_>) = (0..devices.len()).partition(is_local);
        let mut starts = vec![0; devices.len()];
        for (bucket, shard) in local.iter().chain(&remote).enumerate() {
            starts[*shard] = bucket * stride;
        }
        Self { starts, remote: local.len() * stride, end: devices.len() * stride }
    }
}

/// A column of elements of any type, as words of 8 bytes; a bucket begins at a whole word.
pub(crate) type Column = Buffer<u64>;

/// A piece's memory on the batch's device, and its streams. No piece waits for another one's look-ups or copies.
pub(crate) struct Slot {
    /// The stream for work on this device: partitioning and look-ups.
    pub(crate) work: Stream,
    /// The stream for copies to shards on other devices and from them.
    pub(crate) send: Stream,
    /// Where the next query of each shard goes.
    pub(crate) next: Buffer<u32>,
    pub(crate) staged_next: PinnedBuffer<u32>,
    pub(crate) keys: Column,
    /// The position of each query in the buckets.
    pub(crate) positions: Buffer<u32>,
    /// BucketResults of shards on the batch's device.
    pub(crate) local: BucketResults,
    /// BucketResults of shards on other devices.
    pub(crate) remote: BucketResults,
    /// Memory on the other devices, by their numbers.
    pub(crate) remote_slots: Vec<Option<RemoteSlot>>,
    /// Of a piece that goes straight to its shards: the planes, where each tile's queries begin in the boxes, and each shard's box.
    pub(crate) planes: Buffer<u32>,
    pub(crate) bases: Buffer<u32>,
    pub(crate) inboxes: Vec<Inbox>,
}

/// A shard's queries of a piece and their results, on its device.
pub(crate) struct Inbox {
    pub(crate) keys: Column,
    pub(crate) results: BucketResults,
}

impl Inbox {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        Ok(Self { keys: device.alloc(0)?, results: BucketResults::new(device)? })
    }

    /// Makes it hold `len` queries, of `key` bytes each, and their results.
    pub(crate) fn reserve(&mut self, len: usize, key: usize, shape: Shape) -> Result<()> {
        reserve(&mut self.keys, words(len, key))?;
        self.results.reserve(len, shape)
    }
}

/// BucketResults in buckets.
pub(crate) struct BucketResults {
    pub(crate) columns: [Column; 2],
    pub(crate) hits: Buffer<u32>,
}

/// A piece's memory on another device.
pub(crate) struct RemoteSlot {
    device: Device,
    pub(crate) stream: Stream,
    pub(crate) inbox: Inbox,
}

/// The bytes of an element of each column of results (0: no such column), and whether there is a hit mask.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) columns: [usize; 2],
    pub(crate) has_hits: bool,
}

/// Makes a buffer hold at least `len` elements; its contents are lost. It grows by an eighth at least, so that batches of about one
/// size soon allocate nothing, and never shrinks. If it is too small, waits for the work that uses it.
pub(crate) fn reserve<T: Pod>(buffer: &mut Buffer<T>, len: usize) -> Result<()> {
    if buffer.len() < len {
        let device = buffer.device().clone();
        *buffer = device.alloc(0)?;
        *buffer = device.alloc(with_spare(len))?;
    }
    Ok(())
}

/// [`reserve`], of pinned memory.
pub(crate) fn reserve_pinned<T: Pod>(buffer: &mut PinnedBuffer<T>, len: usize) -> Result<()> {
    if buffer.len() < len {
        *buffer = buffer.device().clone().pinned(with_spare(len))?;
    }
    Ok(())
}

/// A capacity for `len` elements and an eighth more.
pub(crate) fn with_spare(len: usize) -> usize {
    len + len / 8
}

/// Words of a number of elements.
pub(crate) fn words(elements: usize, bytes: usize) -> usize {
    (elements * bytes).div_ceil(8)
}

/// The elements of a column from one on, for reading.
pub(crate) fn read<T>(column: &Column, stream: &Stream, first: usize) -> Result<Global<T>> {
    Ok(column.read_on(stream)?.cast::<T>().byte_add((first * size_of::<T>()) as u64))
}

/// The elements of a column from one on, for writing.
pub(crate) fn write<T>(column: &mut Column, stream: &Stream, first: usize) -> Result<GlobalMut<T>> {
    Ok(column.write_on(stream)?.cast::<T>().byte_add((first * size_of::<T>()) as u64))
}

impl BucketResults {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self { columns: [device.alloc(0)?, device.alloc(0)?], hits: device.alloc(0)? })
    }

    pub(crate) fn reserve(&mut self, elements: usize, shape: Shape) -> Result<()> {
        for (column, bytes) in self.columns.iter_mut().zip(shape.columns) {
            reserve(column, words(elements, bytes))?;
        }
        reserve(&mut self.hits, if shape.has_hits { elements.div_ceil(32) } else { 0 })
    }
}

impl Slot {
    /// A slot for batches on a device.
    pub(crate) fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            work: device.stream()?,
            send: device.stream()?,
            next: device.alloc(MOST_SHARDS as usize)?,
            staged_next: device.pinned(MOST_SHARDS as usize)?,
            keys: device.alloc(0)?,
            positions: device.alloc(0)?,
            local: BucketResults::new(device)?,
            remote: BucketResults::new(device)?,
            remote_slots: Vec::new(),
            planes: device.alloc(0)?,
            bases: device.alloc(0)?,
            inboxes: Vec::new(),
        })
    }

    /// Makes the slot on another device hold `len` queries, of `key` bytes each, and their results.
    pub(crate) fn reserve_remote(
        &mut self,
        number: usize,
        device: &Device,
        len: usize,
        key: usize,
        shape: Shape,
    ) -> Result<()> {
        if self.remote_slots.len() <= number {
            self.remote_slots.resize_with(number + 1, || None);
        }
        let slot = &mut self.remote_slots[number];
        // The number may stand for another device than before.
        slot.take_if(|remote| remote.device != *device);
        let remote = match slot {
            Some(remote) => remote,
            None => {
                slot.insert(RemoteSlot { device: device.clone(), stream: device.stream()?, inbox: Inbox::new(device)? })
            }
        };
        remote.inbox.reserve(len, key, shape)
    }

    /// Makes a box for each of some devices hold `len` queries, and the slot have a stream on each.
    pub(crate) fn reserve_inboxes(
        &mut self,
        devices: &[Device],
        numbers: &[usize],
        len: usize,
        key: usize,
        shape: Shape,
    ) -> Result<()> {
        for (number, device) in devices.iter().enumerate().skip(1) {
            self.reserve_remote(number, device, 0, key, shape)?;
        }
        self.inboxes.truncate(numbers.len());
        for (shard, &number) in numbers.iter().enumerate() {
            let device = &devices[number];
            // The shard may be on another device than before.
            match self.inboxes.get_mut(shard) {
                Some(inbox) if inbox.keys.device() == device => {}
                Some(inbox) => *inbox = Inbox::new(device)?,
                None => self.inboxes.push(Inbox::new(device)?),
            }
            self.inboxes[shard].reserve(len, key, shape)?;
        }
        Ok(())
    }

    /// Waits for all its streams; errors are the next call's.
    pub(crate) fn synchronize(&self) {
        let remote = self.remote_slots.iter().flatten().map(|remote| &remote.stream);
        remote.chain([&self.work, &self.send]).for_each(|stream| _ = stream.synchronize());
    }
}

/// A small array on a device, with a copy in main memory.
pub(crate) struct Table<T> {
    host: Vec<T>,
    pub(crate) device: Buffer<T>,
}

impl<T: Pod + PartialEq> Table<T> {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        Ok(Self { host: Vec::new(), device: device.alloc(0)? })
    }

    /// Uploads these elements unless the device has them. Waits for work that uses the old ones.
    pub(crate) fn set(&mut self, elements: impl Iterator<Item = T>) -> Result<()> {
        let elements: Vec<T> = elements.collect();
        if self.host != elements {
            self.host.clear();
            self.device = self.device.device().clone().upload(&elements)?;
            self.host = elements;
        }
        Ok(())
    }
}
