//! Changed nodes on their way to the device.

use crate::line::Line;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Device, DeviceKind, Result, Stream};
use lanetree_kernels_hbtree::layout::{LINE, words};
use lanetree_kernels_hbtree::{PutNodesArgs, calls};
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, PinnedBuffer};

/// Most lines of a parcel: a mebibyte, which keeps the bus busy for longer than the driver needs to send the next one.
const MOST_LINES: usize = (1 << 20) / LINE;

/// Pinned memory for some nodes, which a kernel reads across the bus; it grows to the largest number of nodes. Its stream is
/// its own, so that it can be filled again before others have arrived.
#[derive(Debug)]
pub(super) struct Parcel {
    stream: Stream,
    /// Numbers of nodes in the first lines, and then the nodes.
    lines: PinnedBuffer<Line>,
}

/// An array of nodes that parcels go to.
pub(super) struct Goal<'a, B> {
    pub(super) array: &'a mut Buffer<B>,
    /// What parcels go through on the emulator, whose kernels reach only buffers. It grows to the largest one.
    pub(super) emulated: &'a mut Buffer<Line>,
}

impl Parcel {
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(super) fn new(device: &Device) -> Result<Self> {
        Ok(Self { stream: device.stream()?, lines: device.pinned(0)? })
    }

    /// Bytes of pinned memory.
    pub(super) fn bytes(&self) -> usize {
        self.lines.len() * LINE
    }

    /// Most nodes of so many lines.
    pub(super) const fn most(stride: usize) -> usize {
        // A line has the numbers of 16 nodes.
        (MOST_LINES - 1) * 16 / (16 * stride + 1)
    }

    /// Fills it with nodes of so many lines, at most [`Parcel::most`]: `write` gets each node's place among the numbers, and
    /// its lines. Waits until what was in it before is in its place.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where there is no memory.
    pub(super) fn fill(
        &mut self,
        numbers: impl ExactSizeIterator<Item = u32>,
        stride: usize,
        mut write: impl FnMut(usize, &mut [Line]),
    ) -> Result<()> {
        let (head, count) = (Self::head(numbers.len()), numbers.len());
        if self.lines.len() < head + count * stride {
            self.lines = self.stream.device().pinned((head + count * stride).next_power_of_two())?;
        }
        let (head, nodes) = self.lines.split_at_mut(head);
        let places: &mut [u32] = bytemuck::cast_slice_mut(head);
        for (i, (number, node)) in numbers.zip(nodes.chunks_mut(stride)).enumerate() {
            places[i] = number;
            write(i, node);
        }
        Ok(())
    }

    /// Puts the first `count` nodes that it was filled with on their way to their places; no two of them have one number.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    ///
    /// # Safety
    /// The array has all places.
    pub(super) unsafe fn put<B: Word>(&self, count: usize, stride: usize, goal: &mut Goal<'_, B>) -> Result<()> {
        let (stream, head, Goal { array, emulated }) = (&self.stream, Self::head(count), goal);
        let lines = if stream.device().kind() == DeviceKind::Cuda {
            self.lines.read_on(stream)?
        } else {
            if emulated.len() < self.lines.len() {
                **emulated = stream.device().alloc(self.lines.len())?;
            }
            emulated.upload_async(stream, 0, &self.lines, 0..head + count * stride)?;
            emulated.read_on(stream)?
        };
        let args = PutNodesArgs::<B> {
            numbers: lines.cast(),
            nodes: lines.byte_add((head * LINE) as u64).cast(),
            count: count as u32,
            words: stride as u32 * words::<B>(),
            array: array.write_on(stream)?,
        };
        let vectors = count * stride * (LINE / 16);
        // SAFETY: numbers and nodes lie in the parcel, and the array has a place for each; the addresses are for this stream.
        Ok(unsafe { launch::over(stream, vectors as u64, 1, THREADS)?.run(calls::put_nodes(&args)) }?)
    }

    /// Waits until all is in its place.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(super) fn wait(&self) -> Result<()> {
        Ok(self.stream.synchronize()?)
    }

    /// Lines of so many numbers.
    const fn head(count: usize) -> usize {
        count.div_ceil(LINE / size_of::<u32>())
    }
}
