//! The way of one piece.

use super::{PIECE_BYTES, PieceSlot};
use crate::Result;
use lanetree_runtime::{Buffer, Device, PinnedBuffer, Stream};
use lanetree_simt::{Global, GlobalMut};

/// A stream, and memory at both ends of the bus.
pub(super) struct Slot {
    pub(super) stream: Stream,
    /// In words of 8 bytes, like the others.
    pub(super) input: Buffer<u64>,
    pub(super) output: Buffer<u64>,
    /// What a piece's kernels hand to each other.
    pub(super) scratch: Buffer<u64>,
    pub(super) staged_input: PinnedBuffer<u64>,
    pub(super) staged_output: PinnedBuffer<u64>,
}

impl Slot {
    pub(super) fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            stream: device.stream()?,
            input: device.alloc(0)?,
            output: device.alloc(0)?,
            scratch: device.alloc(0)?,
            staged_input: device.pinned(0)?,
            staged_output: device.pinned(0)?,
        })
    }

    /// Makes room for a piece. Memory grows in powers of two up to a piece's, and never shrinks.
    pub(super) fn reserve(
        &mut self,
        device: &Device,
        input_bytes: usize,
        output_bytes: usize,
        scratch_bytes: usize,
    ) -> Result<()> {
        let words = |bytes: usize| bytes.div_ceil(8).next_power_of_two();
        // Keep both buffers or neither: the next batch takes its size from one of them.
        if self.input.bytes() < input_bytes {
            let words = words(input_bytes);
            (self.input, self.staged_input) = (device.alloc(words)?, device.pinned(words)?);
        }
        if self.output.bytes() < output_bytes {
            let words = words(output_bytes);
            // Whole lines come back; results need not fill the last ones.
            (self.output, self.staged_output) = (device.alloc_zeroed(words)?, device.pinned(words)?);
        }
        if self.scratch.bytes() < scratch_bytes {
            self.scratch = device.alloc(words(scratch_bytes))?;
        }
        Ok(())
    }

    /// Where a kernel of the slot's stream finds queries and leaves results: on the device, or in pinned memory, which has
    /// the same address on a GPU.
    pub(super) fn addresses(&mut self, across_the_bus: bool) -> Result<(Global<u64>, GlobalMut<u8>)> {
        let (input, output) = match across_the_bus {
            true => (self.staged_input.read_on(&self.stream)?, self.staged_output.write_on(&self.stream)?),
            false => (self.input.read_on(&self.stream)?, self.output.write_on(&self.stream)?),
        };
        Ok((input, output.cast()))
    }
}

impl PieceSlot for Slot {
    fn synchronize(&mut self) -> Result<()> {
        self.stream.synchronize()?;
        // SAFETY: the staging memory is used only in the slot's stream, which has been waited for.
        unsafe {
            self.staged_input.forget_uses();
            self.staged_output.forget_uses();
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        2 * (self.input.bytes() + self.output.bytes()) + self.scratch.bytes()
    }

    /// The memory for a single long query is not.
    fn is_kept(&self) -> bool {
        self.input.bytes() <= PIECE_BYTES.next_power_of_two()
    }
}
