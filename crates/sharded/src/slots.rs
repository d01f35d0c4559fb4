//! The memory and the streams of batches' pieces, and where a piece's buckets are.

use lanetree_frame::{Buffer, Device, PinnedBuffer, Result, Stream};
use lanetree_kernels_sharded::MOST_SHARDS;
use lanetree_simt::{Global, GlobalMut};

/// Where buckets may begin: elements of any column begin at whole lines there, and so do the words of hit masks.
pub(crate) const BUCKET: usize = 1 << 10;

/// Where the buckets of pieces are, on the batch's device: each has room for a whole piece, so nothing needs to be known of the
/// queries.
pub(crate) struct Layout {
    /// Where each shard's bucket begins: those of shards on that device first.
    pub(crate) starts: Vec<usize>,
    /// Where those of shards on other devices begin.
    pub(crate) remote: usize,
    pub(crate) end: usize,
}

impl Layout {
    /// For pieces of so many queries, and shards on devices of these numbers; the batch's is 0.
    pub(crate) fn new(piece: usize, devices: &[usize]) -> Self {
        let stride = piece.next_multiple_of(BUCKET);
        let is_local = |shard: &usize| devices[*shard] == 0;
        let (local, remote): (Vec<_>, Vec<_>) = (0..devices.len()).partition(is_local);
        let mut starts = vec![0; devices.len()];
        for (place, shard) in local.iter().chain(&remote).enumerate() {
            starts[*shard] = place * stride;
        }
        Self { starts, remote: local.len() * stride, end: devices.len() * stride }
    }
}

/// Elements of a column, whatever its type: in words of 8 bytes, of which a bucket's begin at a whole one.
pub(crate) type Column = Buffer<u64>;

/// A piece's room on the batch's device, and its streams: all that a piece waits for is in these, so that no piece waits for
/// another one's look-ups or copies.
pub(crate) struct Slot {
    /// What is done on this device: division and look-ups.
    pub(crate) work: Stream,
    /// Copies to shards on other devices and from them.
    pub(crate) send: Stream,
    /// Where the next query of each shard goes.
    pub(crate) next: Buffer<u32>,
    pub(crate) staged_next: PinnedBuffer<u32>,
    pub(crate) keys: Column,
    pub(crate) places: Buffer<u32>,
    pub(crate) local: Found,
    pub(crate) remote: Found,
    /// The other devices', by their numbers.
    pub(crate) remote_slots: Vec<Option<RemoteSlot>>,
}

/// Results in buckets.
pub(crate) struct Found {
    pub(crate) columns: [Column; 2],
    pub(crate) hits: Buffer<u32>,
}

/// A piece's room on another device.
pub(crate) struct RemoteSlot {
    device: Device,
    pub(crate) stream: Stream,
    pub(crate) keys: Column,
    pub(crate) found: Found,
}

/// The bytes of an element of each column of results (0: there is none), and whether there is a hit mask.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) columns: [usize; 2],
    pub(crate) has_hits: bool,
}

/// Makes room for a number of elements, of which nothing is kept. It grows by an eighth at least, so that batches of about one size
/// soon stop to, and never shrinks. Waits for the work that uses the memory, if there is too little.
pub(crate) fn reserve<T: bytemuck::Pod>(buffer: &mut Buffer<T>, len: usize) -> Result<()> {
    if buffer.len() < len {
        let device = buffer.device().clone();
        *buffer = device.alloc(0)?;
        *buffer = device.alloc(with_spare(len))?;
    }
    Ok(())
}

/// So many, and some more.
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

impl Found {
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
    /// For batches on a device.
    pub(crate) fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            work: device.stream()?,
            send: device.stream()?,
            next: device.alloc(MOST_SHARDS as usize)?,
            staged_next: device.pinned(MOST_SHARDS as usize)?,
            keys: device.alloc(0)?,
            places: device.alloc(0)?,
            local: Found::new(device)?,
            remote: Found::new(device)?,
            remote_slots: Vec::new(),
        })
    }

    /// Room for a number of queries on another device, and their results.
    pub(crate) fn remote_slot(
        &mut self,
        (number, device): (usize, &Device),
        len: usize,
        key: usize,
        shape: Shape,
    ) -> Result<&mut RemoteSlot> {
        if self.remote_slots.len() <= number {
            self.remote_slots.resize_with(number + 1, || None);
        }
        let place = &mut self.remote_slots[number];
        // Shards have moved, if it is another one.
        if place.as_ref().is_none_or(|remote| remote.device != *device) {
            *place = None;
        }
        let remote = match place {
            Some(remote) => remote,
            None => place.insert(RemoteSlot {
                device: device.clone(),
                stream: device.stream()?,
                keys: device.alloc(0)?,
                found: Found::new(device)?,
            }),
        };
        reserve(&mut remote.keys, words(len, key))?;
        remote.found.reserve(len, shape)?;
        Ok(remote)
    }

    /// Waits for all that it was given; errors are the next call's.
    pub(crate) fn quiesce(&self) {
        for stream in [&self.work, &self.send] {
            let _ = stream.synchronize();
        }
        for remote in self.remote_slots.iter().flatten() {
            let _ = remote.stream.synchronize();
        }
    }
}

/// A small array on a device, and what it holds.
pub(crate) struct Table<T> {
    here: Vec<T>,
    pub(crate) there: Buffer<T>,
}

impl<T: bytemuck::Pod + PartialEq> Table<T> {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        Ok(Self { here: Vec::new(), there: device.alloc(0)? })
    }

    /// Takes these elements. Waits for work that uses others.
    pub(crate) fn hold(&mut self, elements: impl Iterator<Item = T>) -> Result<()> {
        let elements: Vec<T> = elements.collect();
        if self.here != elements {
            self.here.clear();
            self.there = self.there.device().clone().upload(&elements)?;
            self.here = elements;
        }
        Ok(())
    }
}

/// [`reserve`], of pinned memory.
pub(crate) fn reserve_pinned<T: bytemuck::Pod>(buffer: &mut PinnedBuffer<T>, len: usize) -> Result<()> {
    if buffer.len() < len {
        *buffer = buffer.device().clone().pinned(with_spare(len))?;
    }
    Ok(())
}
