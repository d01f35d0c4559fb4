//! The memory of batches' pieces, and how a piece is divided.

use core::ops::Range;
use lanetree_frame::{Buffer, Device, Result, Stream};
use lanetree_simt::{Global, GlobalMut};

/// Where buckets may begin: elements of any column begin at whole lines there, and so do the words of hit masks.
pub(crate) const BUCKET: usize = 1 << 10;

/// A part of a piece's room, on a device: its shards' buckets, one after another.
pub(crate) struct Region {
    /// The device, among those of the shards; the first one is the batch's.
    pub(crate) device: usize,
    pub(crate) range: Range<usize>,
}

/// How a piece is divided.
pub(crate) struct Plan {
    /// Its queries.
    pub(crate) count: usize,
    /// The queries of each shard.
    pub(crate) sizes: Vec<usize>,
    /// Where each shard's bucket begins.
    pub(crate) starts: Vec<usize>,
    /// Those of devices that have any queries.
    pub(crate) regions: Vec<Region>,
    /// Where the region of the batch's own device ends; it is the first.
    pub(crate) near: usize,
    pub(crate) end: usize,
}

impl Plan {
    /// From the queries of each shard, and the number of each one's device.
    pub(crate) fn new(sizes: &[usize], devices: &[usize]) -> Self {
        let (count, starts, regions) = (sizes.iter().sum(), vec![0; sizes.len()], Vec::new());
        let mut plan = Self { count, sizes: sizes.to_vec(), starts, regions, near: 0, end: 0 };
        let devices_in_all = devices.iter().max().map_or(0, |&most| most + 1);
        for device in 0..devices_in_all {
            let start = plan.end;
            for shard in (0..sizes.len()).filter(|&shard| devices[shard] == device) {
                plan.starts[shard] = plan.end;
                plan.end += sizes[shard].next_multiple_of(BUCKET);
            }
            if plan.end > start {
                plan.regions.push(Region { device, range: start..plan.end });
            }
            if device == 0 {
                plan.near = plan.end;
            }
        }
        plan
    }

    /// The queries of each region that is on another device, with the space between buckets.
    fn abroad(&self) -> impl Iterator<Item = (usize, usize)> {
        self.regions.iter().filter(|region| region.device != 0).map(|region| (region.device, region.range.len()))
    }
}

/// Elements that a slot needs for any piece of a batch.
pub(crate) struct Room {
    count: usize,
    near: usize,
    far: usize,
    end: usize,
    /// On each device: none on the first one.
    abroad: Vec<usize>,
}

impl Room {
    /// For pieces over so many devices.
    pub(crate) fn new(plans: &[Plan], devices: usize) -> Self {
        let most = |of: fn(&Plan) -> usize| plans.iter().map(of).max().unwrap_or(0);
        let mut abroad = vec![0; devices];
        for (device, len) in plans.iter().flat_map(Plan::abroad) {
            abroad[device] = len.max(abroad[device]);
        }
        let (near, far) = (most(|plan| plan.near), most(|plan| plan.end - plan.near));
        Self { count: most(|plan| plan.count), near, far, end: most(|plan| plan.end), abroad }
    }
}

/// Elements of a column, whatever its type: in words of 8 bytes, of which a bucket's begin at a whole one.
pub(crate) type Column = Buffer<u64>;

/// A piece's room.
pub(crate) struct Slot {
    pub(crate) keys: Column,
    pub(crate) places: Buffer<u32>,
    pub(crate) near: Found,
    pub(crate) far: Found,
    /// The other devices', by their numbers.
    pub(crate) abroad: Vec<Option<Abroad>>,
}

/// Results in buckets.
pub(crate) struct Found {
    pub(crate) columns: [Column; 2],
    pub(crate) hits: Buffer<u32>,
}

/// A piece's room on another device.
pub(crate) struct Abroad {
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
    fn bytes(&self) -> usize {
        self.columns.iter().map(Buffer::bytes).sum::<usize>() + self.hits.bytes()
    }

    fn new(device: &Device) -> Result<Self> {
        Ok(Self { columns: [device.alloc(0)?, device.alloc(0)?], hits: device.alloc(0)? })
    }

    fn reserve(&mut self, elements: usize, shape: Shape) -> Result<()> {
        for (column, bytes) in self.columns.iter_mut().zip(shape.columns) {
            reserve(column, words(elements, bytes))?;
        }
        reserve(&mut self.hits, if shape.has_hits { elements.div_ceil(32) } else { 0 })
    }
}

impl Slot {
    pub(crate) fn new(home: &Device) -> Result<Self> {
        Ok(Self {
            keys: home.alloc(0)?,
            places: home.alloc(0)?,
            near: Found::new(home)?,
            far: Found::new(home)?,
            abroad: Vec::new(),
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        let abroad = |abroad: &Abroad| abroad.keys.bytes() + abroad.found.bytes();
        let own = self.keys.bytes() + self.places.bytes() + self.near.bytes() + self.far.bytes();
        own + self.abroad.iter().flatten().map(abroad).sum::<usize>()
    }

    /// Makes room for any piece of a batch, whose keys have so many bytes.
    pub(crate) fn reserve(&mut self, devices: &[Device], room: &Room, key: usize, shape: Shape) -> Result<()> {
        reserve(&mut self.keys, words(room.end, key))?;
        reserve(&mut self.places, room.count)?;
        self.near.reserve(room.near, shape)?;
        self.far.reserve(room.far, shape)?;
        if self.abroad.len() < devices.len() {
            self.abroad.resize_with(devices.len(), || None);
        }
        let needed = room.abroad.iter().enumerate().filter(|(_, len)| **len > 0);
        for (number, &len) in needed {
            let (device, place) = (&devices[number], &mut self.abroad[number]);
            let abroad = match place {
                // Shards have moved, if it is another one.
                Some(abroad) if abroad.device == *device => abroad,
                _ => place.insert(Abroad {
                    device: device.clone(),
                    stream: device.stream()?,
                    keys: device.alloc(0)?,
                    found: Found::new(device)?,
                }),
            };
            reserve(&mut abroad.keys, words(len, key))?;
            abroad.found.reserve(len, shape)?;
        }
        Ok(())
    }
}
