//! The leaves in the order of their keys, and their ranks.

use crate::storage::Storage;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Device, Result, Stream};
use lanetree_kernels_cubpt::{
    FirstArgs, GrowArgs, LensArgs, LinkArgs, PiecesArgs, ReorderArgs, TouchedNodes, VanishArgs, calls,
};
use lanetree_primitives::{ScanScratch, exclusive_scan};
use lanetree_runtime::Buffer;
use lanetree_simt::{Global, GlobalMut};

/// The leaves of a tree in the order of their keys.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) leaves: Buffer<u32>,
    /// The rank of each leaf's first pair, and past the last one how many pairs there are.
    pub(crate) ranks: Buffer<u64>,
    /// The position of each leaf, by its number: as long as there is room for nodes.
    pub(crate) positions: Buffer<u32>,
}

impl Order {
    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        (self.leaves.bytes() + self.ranks.bytes() + self.positions.bytes()) as u64
    }

    /// For leaves numbered from 0, over which pairs are spread evenly. In the stream's order.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room.
    pub(crate) fn first(stream: &Stream, storage: &Storage, count: u64, len: u64) -> Result<Self> {
        let device = storage.device();
        let (mut leaves, mut ranks) = (device.alloc(count as usize)?, device.alloc(count as usize + 1)?);
        let mut positions = device.alloc(storage.room() as usize)?;
        let args = FirstArgs {
            count,
            len,
            leaves: leaves.write_on(stream)?,
            ranks: ranks.write_on(stream)?,
            positions: positions.write_on(stream)?,
        };
        // SAFETY: a place for each leaf.
        unsafe { launch::over(stream, count + 1, 1, THREADS)?.run(calls::first(&args)) }?;
        Ok(Self { leaves, ranks, positions })
    }

    /// Makes room for the positions of `nodes` nodes. The positions are kept, also if this fails.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room.
    pub(crate) fn reserve(&mut self, stream: &Stream, device: &Device, nodes: u64) -> Result<()> {
        if self.positions.len() as u64 >= nodes {
            return Ok(());
        }
        let mut positions = device.alloc(nodes as usize)?;
        positions.copy_from_buffer(stream, 0, &self.positions, 0..self.positions.len())?;
        stream.synchronize()?;
        self.positions = positions;
        Ok(())
    }
}

/// The memory in which leaves are put in a new order.
pub(crate) struct NewOrder {
    /// How many leaves come behind each one or vanish, their sums, and the leaves in their new order; `None` if they stay.
    moved: Option<(Buffer<u64>, Buffer<u64>, Buffer<u32>)>,
    lens: Buffer<u32>,
    ranks: Buffer<u64>,
    scan: ScanScratch,
}

/// What has become of leaves.
#[derive(Clone, Copy)]
pub(crate) enum Outcome<'a> {
    /// The leaves that were changed, and maybe split; and the number of new leaves.
    Split(TouchedNodes, u64),
    /// Some were changed, and some are gone.
    Merged { changed: &'a Buffer<u32>, gone: (&'a Buffer<u32>, u64) },
}

impl NewOrder {
    /// For a tree that has `now` leaves before the batch and `then` leaves after it.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room.
    pub(crate) fn new(stream: &Stream, device: &Device, now: u64, then: u64) -> Result<Self> {
        let (now, then) = (now as usize, then as usize);
        let mut moved = None;
        if now != then {
            let mut grown = device.alloc(now)?;
            grown.fill_zero(stream)?;
            moved = Some((grown, device.alloc(now + 1)?, device.alloc(then)?));
        }
        let scan = ScanScratch::new(device, now.max(then))?;
        Ok(Self { moved, lens: device.alloc(then)?, ranks: device.alloc(then + 1)?, scan })
    }

    /// Puts the leaves in their new order, and ranks them. In the stream's order; allocates nothing.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) from the launches.
    ///
    /// # Safety
    /// The nodes are changed so in the stream's order, and there are as many leaves then as this was made for.
    pub(crate) unsafe fn apply(
        mut self,
        stream: &Stream,
        storage: &mut Storage,
        order: &mut Order,
        outcome: Outcome<'_>,
    ) -> Result<()> {
        let (mut grown_at, mut before_at, mut leaves_at) = (Global::null(), Global::null(), GlobalMut::null());
        if let Some((grown, before, leaves)) = &mut self.moved {
            let positions = order.positions.read_on(stream)?;
            match outcome {
                Outcome::Split(touched, _) => {
                    let args = GrowArgs { touched, positions, grown: grown.write_on(stream)? };
                    // SAFETY: the caller's contract; a place for each leaf.
                    unsafe { launch::over(stream, touched.count, 1, THREADS)?.run(calls::grow(&args)) }?;
                }
                Outcome::Merged { gone: (numbers, count), .. } => {
                    let numbers = numbers.read_on(stream)?;
                    let args = VanishArgs { numbers, count, positions, grown: grown.write_on(stream)? };
                    // SAFETY: as above.
                    unsafe { launch::over(stream, count, 1, THREADS)?.run(calls::vanish(&args)) }?;
                }
            }
            exclusive_scan(stream, grown, order.leaves.len(), before, &mut self.scan)?;
            (grown_at, before_at) = (grown.read_on(stream)?, before.read_on(stream)?);
            leaves_at = leaves.write_on(stream)?;
        }
        let args = ReorderArgs {
            leaves: order.leaves.read_on(stream)?,
            ranks: order.ranks.read_on(stream)?,
            count: order.leaves.len() as u64,
            grown: grown_at,
            before: before_at,
            new_leaves: leaves_at,
            positions: order.positions.write_on(stream)?,
            lens: self.lens.write_on(stream)?,
        };
        // SAFETY: as above; the sums count the nodes that are inserted or removed.
        unsafe { launch::over(stream, args.count, 1, THREADS)?.run(calls::reorder(&args)) }?;
        match outcome {
            Outcome::Split(touched, taken) => {
                let args = PiecesArgs {
                    touched,
                    taken,
                    leaves: leaves_at,
                    positions: order.positions.write_on(stream)?,
                    lens: self.lens.write_on(stream)?,
                };
                // SAFETY: as above.
                unsafe { launch::over(stream, touched.count + taken, 1, THREADS)?.run(calls::pieces(&args)) }?;
            }
            Outcome::Merged { changed, .. } => {
                let args = LensArgs {
                    nodes: storage.nodes(stream)?,
                    numbers: changed.read_on(stream)?,
                    count: changed.len() as u64,
                    positions: order.positions.read_on(stream)?,
                    lens: self.lens.write_on(stream)?,
                };
                // SAFETY: as above.
                unsafe { launch::over(stream, args.count, 1, THREADS)?.run(calls::lens(&args)) }?;
            }
        }
        exclusive_scan(stream, &self.lens, self.lens.len(), &mut self.ranks, &mut self.scan)?;
        order.ranks = self.ranks;
        if let Some((.., leaves)) = self.moved {
            order.leaves = leaves;
        }
        Ok(())
    }
}

impl Order {
    /// Tells each leaf its next one. In the stream's order.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) from the launch.
    pub(crate) fn link(&self, stream: &Stream, storage: &mut Storage) -> Result<()> {
        let (leaves, count) = (self.leaves.read_on(stream)?, self.leaves.len() as u64);
        let args = LinkArgs { leaves, count, nodes: storage.nodes_mut(stream)? };
        // SAFETY: leaves of the tree, each once.
        Ok(unsafe { launch::over(stream, count, 1, THREADS)?.run(calls::link(&args)) }?)
    }
}
