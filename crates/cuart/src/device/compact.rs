//! Compaction on a device. The kernels' crate says how (`lanetree_kernels_cuart::compact`).

use super::build::{Room, above, over};
use crate::Builder;
use crate::leaves::LeafBuffers;
use crate::parts::Parts;
use core::ops::Range;
use lanetree_frame::{Error, Result};
use lanetree_kernels_cuart::THREADS;
use lanetree_kernels_cuart::calls;
use lanetree_kernels_cuart::compact::{KINDS, MoveArgs, SpreadArgs};
use lanetree_kernels_cuart::layout::{Link, LinkType};
use lanetree_layout::Word;
use lanetree_primitives::{ScanScratch, exclusive_scan};
use lanetree_runtime::{Buffer, Stream};
use lanetree_simt::{Global, GlobalMut};

impl Parts {
    /// Whether a device can rebuild the tree by itself.
    pub(crate) fn is_rebuilt_there(&self) -> bool {
        self.leaves.host.values.is_empty() && self.len <= u64::from(u32::MAX)
    }

    /// The tree rebuilt from its leaves by the device, after waiting for all work on the device.
    ///
    /// # Errors
    /// [`Error::Runtime`]; [`Error::Lost`] for a tree that is not whole.
    pub(crate) fn rebuilt_there<V: Word>(&self, options: &Builder<V>) -> Result<Self> {
        self.device.synchronize()?;
        let stream = self.device.stream()?;
        let (links, len) = leaves_in_order(self, &stream)?;
        if len as u64 != self.len {
            let reason = format!("it has {len} leaves, and counts {}", self.len);
            return Err(Error::Lost { reason });
        }
        let (leaves, first) = moved::<V>(self, &stream, &links, len)?;
        drop(links);
        // SAFETY: leaves on the device, which were found in the order of their keys and have got their places by
        // it; all of them are in one buffer in that order where keys have one length, and in `order` otherwise.
        unsafe { above(options, &stream, leaves, first, len as u64) }
    }
}

/// Reads one number of a buffer that the stream is done with.
fn number(buffer: &Buffer<u64>, at: usize) -> Result<u64> {
    let mut number = [0];
    buffer.copy_range_to(at, &mut number)?;
    Ok(number[0])
}

/// The links of a tree's leaves in the order of their keys, and how many there are. Each pass waits for the stream,
/// since it finds the length of the next front.
fn leaves_in_order(tree: &Parts, stream: &Stream) -> Result<(Buffer<u64>, usize)> {
    let device = &tree.device;
    let root = tree.root;
    let (mut front, mut len) = (device.upload(&[root.bits()])?, usize::from(!root.is_none()));
    let mut nodes = u64::from(root.kind().is_node());
    while nodes > 0 {
        let (mut counts, mut offsets) = (device.alloc::<u32>(len)?, device.alloc(len + 1)?);
        let mut found = device.alloc_zeroed::<u64>(1)?;
        let mut args = SpreadArgs {
            tree: tree.tree_ref(stream)?,
            front: front.read_on(stream)?,
            count: len as u64,
            counts: counts.write_on(stream)?,
            offsets: Global::null(),
            next: GlobalMut::null(),
            nodes: found.write_on(stream)?,
        };
        // SAFETY: that many links of a valid tree, and a place for a count of each.
        unsafe { over(stream, len as u64)?.run(calls::count(&args))? };
        exclusive_scan(stream, &counts, len, &mut offsets, &mut ScanScratch::new(device, len)?)?;
        stream.synchronize()?;
        let all = number(&offsets, len)? as usize;
        let mut next = device.alloc(all)?;
        (args.offsets, args.next) = (offsets.read_on(stream)?, next.write_on(stream)?);
        // SAFETY: as above; the offsets are the prefix sums of the counts, and there is room for all of them.
        unsafe { over(stream, len as u64)?.run(calls::spread(&args))? };
        stream.synchronize()?;
        nodes = number(&found, 0)?;
        (front, len) = (next, all);
    }
    Ok((front, len))
}

/// The scratch memory for moving leaves.
struct Sifted {
    tile_counts: Buffer<u32>,
    tile_offsets: Buffer<u64>,
    units: Buffer<u32>,
    unit_offsets: Buffer<u64>,
    spans: Buffer<u64>,
}

/// Copies leaves to their new positions, given by their order in `links`. Returns the leaves, and the link of the first
/// one if the others follow it. Returns when the copies are done.
fn moved<V: Word>(tree: &Parts, stream: &Stream, links: &Buffer<u64>, len: usize) -> Result<(LeafBuffers, Link)> {
    let device = &tree.device;
    let blocks = len.div_ceil(THREADS as usize);
    let sized = if tree.leaves.long.count > 0 { len } else { 0 };
    let mut sifted = Sifted {
        tile_counts: device.alloc(KINDS * blocks)?,
        tile_offsets: device.alloc(KINDS * blocks + 1)?,
        units: device.alloc(sized)?,
        unit_offsets: device.alloc(sized + 1)?,
        spans: device.upload(&[u64::MAX, 0])?,
    };
    let mut args = MoveArgs {
        tree: tree.tree_ref(stream)?,
        leaves: links.read_on(stream)?,
        count: len as u64,
        tile_counts: sifted.tile_counts.write_on(stream)?,
        tile_offsets: Global::null(),
        units: sifted.units.write_on(stream)?,
        unit_offsets: Global::null(),
        spans: sifted.spans.write_on(stream)?,
        moved: [GlobalMut::null(); KINDS],
        ranks8: GlobalMut::null(),
        order: GlobalMut::null(),
        value_mask: u64::MAX >> (64 - V::BITS),
    };
    let mut room = Room::default();
    let mut first = Link::NONE;
    if len > 0 {
        // SAFETY: that many links of a valid tree's leaves, and places for their units and for the counts of each
        // block.
        unsafe { over(stream, len as u64)?.run(calls::sift(&args))? };
        let tiles = sifted.tile_counts.len();
        let mut scan = ScanScratch::new(device, tiles.max(sized))?;
        exclusive_scan(stream, &sifted.tile_counts, tiles, &mut sifted.tile_offsets, &mut scan)?;
        if sized > 0 {
            exclusive_scan(stream, &sifted.units, sized, &mut sifted.unit_offsets, &mut scan)?;
        }
        stream.synchronize()?;
        let mut spans = [0; 2];
        sifted.spans.copy_to(&mut spans)?;
        if spans[0] == spans[1] {
            let width = spans[0] as usize;
            first = LinkType::of_key(width).map_or(Link::NONE, |kind| Link::new(kind, width, 0));
        }
        let before = |kind: usize| number(&sifted.tile_offsets, kind * blocks);
        let of = |Range { start, end }: Range<usize>| Ok::<_, Error>((before(end)? - before(start)?) as usize);
        (room.leaf8, room.leaf16, room.leaf32, room.device) = (of(0..1)?, of(1..2)?, of(2..3)?, of(3..4)?);
        room.units = if sized > 0 { number(&sifted.unit_offsets, sized)? as usize } else { 0 };
        room.ranks8 = if room.leaf8 == len { 0 } else { room.leaf8 };
        room.order = if first.is_none() { len } else { 0 };
    }
    let mut leaves = room.alloc(device)?;
    (args.tile_offsets, args.unit_offsets) =
        (sifted.tile_offsets.read_on(stream)?, sifted.unit_offsets.read_on(stream)?);
    args.moved = [
        leaves.leaf8.buffer.write_on(stream)?.cast(),
        leaves.leaf16.buffer.write_on(stream)?.cast(),
        leaves.leaf32.buffer.write_on(stream)?.cast(),
        leaves.long.units.write_on(stream)?.cast(),
    ];
    (args.ranks8, args.order) = (leaves.ranks8.write_on(stream)?, leaves.order.write_on(stream)?.cast());
    if len > 0 {
        // SAFETY: as above; the offsets are the prefix sums of the counts, and there is room for all leaves.
        unsafe { over(stream, len as u64)?.run(calls::move_leaves(&args))? };
        stream.synchronize()?;
    }
    Ok((leaves, first))
}
