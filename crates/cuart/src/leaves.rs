//! Building the leaves: each key's leaf goes into the buffer of its size, in the order of keys.

use super::LongKeys;
use super::region::{LongLeaves, Region};
use core::ops::AddAssign;
use lanetree_frame::Result;
use lanetree_frame::byte_keys::ByteKeys;
use lanetree_frame::parallel::*;
use lanetree_frame::room::zeroed;
use lanetree_kernels_cuart::layout::{Leaf8, Leaf16, Leaf32, Link, LinkType, device_leaf_units, write_device_leaf};
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Device};

/// Keys of one task.
const TASK: usize = 1 << 12;

/// The leaves of a tree.
pub(super) struct LeafBuffers {
    pub(super) leaf8: Region<Leaf8>,
    pub(super) leaf16: Region<Leaf16>,
    pub(super) leaf32: Region<Leaf32>,
    pub(super) long: LongLeaves,
    pub(super) host: HostBuffers,
    pub(super) ranks8: Buffer<u64>,
    pub(super) order: Buffer<Link>,
}

/// The leaves in main memory.
#[derive(Clone, Default)]
pub(super) struct HostBuffers {
    pub(super) offsets: Vec<u64>,
    pub(super) bytes: Vec<u8>,
    pub(super) values: Vec<u64>,
    pub(super) ranks: Vec<u64>,
    /// The indexes that were given back.
    pub(super) free: Vec<u64>,
}

impl HostBuffers {
    pub(super) fn bytes_in_all(&self) -> u64 {
        ((self.offsets.len() + self.values.len() + self.ranks.len() + self.free.len()) * 8 + self.bytes.len()) as u64
    }
}

/// How many elements of each buffer some keys take.
#[derive(Clone, Copy, Default)]
struct Counts {
    leaf8: usize,
    leaf16: usize,
    leaf32: usize,
    units: usize,
    device: usize,
    host: usize,
    host_bytes: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.leaf8 += other.leaf8;
        self.leaf16 += other.leaf16;
        self.leaf32 += other.leaf32;
        self.units += other.units;
        self.device += other.device;
        self.host += other.host;
        self.host_bytes += other.host_bytes;
    }
}

/// The kind of a key's leaf.
pub(super) fn kind(len: usize, long_keys: LongKeys) -> LinkType {
    let long = if long_keys == LongKeys::HostLeaves { LinkType::HostLeaf } else { LinkType::DeviceLeaf };
    LinkType::of_key(len).unwrap_or(long)
}

impl Counts {
    /// Adds a key's leaf. Returns its index in the buffer of its type.
    fn push(&mut self, kind: LinkType, len: usize) -> usize {
        let (count, by) = match kind {
            LinkType::Leaf8 => (&mut self.leaf8, 1),
            LinkType::Leaf16 => (&mut self.leaf16, 1),
            LinkType::Leaf32 => (&mut self.leaf32, 1),
            LinkType::DeviceLeaf => {
                self.device += 1;
                (&mut self.units, device_leaf_units(len))
            }
            _ => {
                self.host_bytes += len;
                (&mut self.host, 1)
            }
        };
        let index = *count;
        *count += by;
        index
    }
}

/// The parts of the buffers that a task fills.
struct Task<'a> {
    rank: usize,
    /// What lies in front of the parts.
    before: Counts,
    leaf8: &'a mut [Leaf8],
    leaf16: &'a mut [Leaf16],
    leaf32: &'a mut [Leaf32],
    units: &'a mut [[u64; 2]],
    host_ends: &'a mut [u64],
    host_bytes: &'a mut [u8],
    host_values: &'a mut [u64],
    host_ranks: &'a mut [u64],
    ranks8: &'a mut [u64],
    order: &'a mut [Link],
}

/// Builds the leaves of ascending keys, and returns the link to the first one if the others follow it.
pub(super) fn build<V: Word>(
    device: &Device,
    keys: ByteKeys<'_>,
    values: &[V],
    long_keys: LongKeys,
) -> Result<(LeafBuffers, Link)> {
    let tasks = keys.len().div_ceil(TASK);
    let range = |task: usize| task * TASK..keys.len().min((task + 1) * TASK);
    let counts: Vec<Counts> = (0..tasks)
        .into_par_iter()
        .map(|task| {
            let mut counts = Counts::default();
            for rank in range(task) {
                let len = keys.at(rank).len();
                counts.push(kind(len, long_keys), len);
            }
            counts
        })
        .collect();
    let mut all = Counts::default();
    counts.iter().for_each(|&counts| all += counts);

    let first = match keys.length_bounds() {
        Some((shortest, longest)) if shortest == longest => {
            LinkType::of_key(longest).map_or(Link::NONE, |kind| Link::new(kind, longest, 0))
        }
        _ => Link::NONE,
    };
    let order_len = if first.is_none() { keys.len() } else { 0 };
    let ranks8_len = if all.leaf8 == keys.len() { 0 } else { all.leaf8 };
    let mut leaves = LeafBuffers {
        leaf8: Region::full(device.alloc(all.leaf8)?)?,
        leaf16: Region::full(device.alloc(all.leaf16)?)?,
        leaf32: Region::full(device.alloc(all.leaf32)?)?,
        long: LongLeaves::full(device.alloc(all.units)?, all.device as u64)?,
        host: HostBuffers {
            offsets: zeroed(if all.host == 0 { 0 } else { all.host + 1 })?,
            bytes: zeroed(all.host_bytes)?,
            values: zeroed(all.host)?,
            ranks: zeroed(all.host)?,
            free: Vec::new(),
        },
        ranks8: device.alloc(ranks8_len)?,
        order: device.alloc(order_len)?,
    };
    split(&mut leaves, &counts).into_par_iter().enumerate().for_each(|(task, part)| {
        part.fill(keys, values, range(task), long_keys);
    });
    Ok((leaves, first))
}

/// Splits the buffers into the tasks' parts.
fn split<'a>(leaves: &'a mut LeafBuffers, counts: &[Counts]) -> Vec<Task<'a>> {
    const HOST: &str = "the host's memory";
    let mut leaf8 = leaves.leaf8.as_mut_slice().expect(HOST);
    let mut leaf16 = leaves.leaf16.as_mut_slice().expect(HOST);
    let mut leaf32 = leaves.leaf32.as_mut_slice().expect(HOST);
    let mut units = leaves.long.as_mut_slice().expect(HOST);
    let mut ranks8 = leaves.ranks8.as_mut_slice().expect(HOST);
    let mut order = leaves.order.as_mut_slice().expect(HOST);
    let host = &mut leaves.host;
    let (mut host_ends, mut host_bytes) = (host.offsets.get_mut(1..).unwrap_or_default(), &mut host.bytes[..]);
    let (mut host_values, mut host_ranks) = (&mut host.values[..], &mut host.ranks[..]);
    let (with_ranks8, with_order) = (!ranks8.is_empty(), !order.is_empty());
    let mut before = Counts::default();
    let mut tasks = Vec::with_capacity(counts.len());
    for (task, &counts) in counts.iter().enumerate() {
        let keys = counts.leaf8 + counts.leaf16 + counts.leaf32 + counts.device + counts.host;
        tasks.push(Task {
            rank: task * TASK,
            before,
            leaf8: take(&mut leaf8, counts.leaf8),
            leaf16: take(&mut leaf16, counts.leaf16),
            leaf32: take(&mut leaf32, counts.leaf32),
            units: take(&mut units, counts.units),
            host_ends: take(&mut host_ends, counts.host),
            host_bytes: take(&mut host_bytes, counts.host_bytes),
            host_values: take(&mut host_values, counts.host),
            host_ranks: take(&mut host_ranks, counts.host),
            ranks8: take(&mut ranks8, if with_ranks8 { counts.leaf8 } else { 0 }),
            order: take(&mut order, if with_order { keys } else { 0 }),
        });
        before += counts;
    }
    tasks
}

/// Takes the first `len` elements off a slice.
pub(super) fn take<'a, T>(slice: &mut &'a mut [T], len: usize) -> &'a mut [T] {
    let (part, rest) = core::mem::take(slice).split_at_mut(len);
    *slice = rest;
    part
}

impl Task<'_> {
    fn fill<V: Word>(self, keys: ByteKeys<'_>, values: &[V], ranks: core::ops::Range<usize>, long_keys: LongKeys) {
        let mut counts = Counts::default();
        for rank in ranks {
            let (key, value) = (keys.at(rank), values[rank].widen());
            let kind = kind(key.len(), long_keys);
            let host_byte = counts.host_bytes;
            let index = counts.push(kind, key.len());
            let before = match kind {
                LinkType::Leaf8 => {
                    self.leaf8[index] = Leaf8::new(key, value);
                    if let Some(leaf_rank) = self.ranks8.get_mut(index) {
                        *leaf_rank = rank as u64;
                    }
                    self.before.leaf8
                }
                LinkType::Leaf16 => {
                    self.leaf16[index] = Leaf16::new(key, value, rank as u64);
                    self.before.leaf16
                }
                LinkType::Leaf32 => {
                    self.leaf32[index] = Leaf32::new(key, value, rank as u64);
                    self.before.leaf32
                }
                LinkType::DeviceLeaf => {
                    write_device_leaf(&mut self.units[index..counts.units], key, value, rank as u64);
                    self.before.units
                }
                _ => {
                    self.host_bytes[host_byte..counts.host_bytes].copy_from_slice(key);
                    self.host_ends[index] = (self.before.host_bytes + counts.host_bytes) as u64;
                    self.host_values[index] = value;
                    self.host_ranks[index] = rank as u64;
                    self.before.host
                }
            };
            if let Some(link) = self.order.get_mut(rank - self.rank) {
                *link = Link::new(kind, key.len(), (before + index) as u64);
            }
        }
    }
}
