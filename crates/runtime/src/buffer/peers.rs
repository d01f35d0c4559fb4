//! Copies between the memory of devices.

use super::{Buffer, length};
use crate::machine::Direction;
use crate::{Device, Error, Result, Stream};
use bytemuck::Pod;
use core::ops::Range;
use lanetree_simt::{Global, GlobalMut};

/// A part of a buffer of another device: see [`Buffer::copy_from_peers`].
#[derive(Debug)]
pub struct PeerPart<'a, T> {
    /// The buffer.
    pub from: &'a Buffer<T>,
    /// Its elements.
    pub range: Range<usize>,
    /// The stream of its device that makes the copy.
    pub stream: &'a Stream,
    /// Where the first of them goes.
    pub at: usize,
}

impl<T: Pod> Buffer<T> {
    /// Overwrites parts of the buffer with parts of buffers of other devices of the same kind (or of the same device); may return
    /// before it is done. Each copy comes after all work in its own stream, which is one of its device's, and in `stream`; it is
    /// made in its own stream's order, at the same time as the others. Later work in `stream` comes after all of them.
    ///
    /// Two GPUs copy directly if they have peer access; otherwise the driver moves the bytes through host memory. Either buffer
    /// may be used and dropped meanwhile, as after [`Buffer::copy_from_buffer`].
    ///
    /// ```
    /// # mod lanetree { pub use lanetree_runtime::{self as runtime, *}; }
    /// use lanetree::runtime::PeerPart;
    /// use lanetree::Device;
    ///
    /// let (here, there) = (Device::emulated(), Device::emulated());
    /// let (to_stream, from_stream) = (here.stream()?, there.stream()?);
    /// let (from, mut to) = (there.upload(&[1_u32, 2, 3, 4])?, here.upload(&[9_u32, 9, 9])?);
    /// to.copy_from_peers(&to_stream, &[PeerPart { from: &from, range: 1..3, stream: &from_stream, at: 1 }])?;
    /// assert_eq!(to.to_vec()?, [9, 2, 3]);
    /// # Ok::<(), lanetree::runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::WrongDevice`] for a stream of another device than its buffer, and between devices of
    /// different kinds; [`Error::Cuda`] from the driver. Nothing is copied after the first two; after an error of the driver's,
    /// some parts may have been.
    ///
    /// # Panics
    /// If two parts overlap where they go to.
    pub fn copy_from_peers(&mut self, stream: &Stream, parts: &[PeerPart<'_, T>]) -> Result<()> {
        let action = "copying between devices";
        self.device.check_same(stream.device(), action)?;
        let mut copies = Vec::with_capacity(parts.len());
        for part in parts {
            let (from, len) = (part.from, length(&part.range));
            from.device.check_same(part.stream.device(), action)?;
            if from.device.kind() != self.device.kind() {
                let (expected, actual) = (self.device.to_string(), from.device.to_string());
                return Err(Error::WrongDevice { action, expected, actual });
            }
            let (source, to) = (from.part(action, part.range.start, len)?, self.part(action, part.at, len)?);
            if len * size_of::<T>() > 0 {
                copies.push((part, source, to, len * size_of::<T>()));
            }
        }
        let mut places: Vec<_> = copies.iter().map(|&(_, _, to, bytes)| (to.addr(), bytes)).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "parts that overlap");
        if copies.is_empty() {
            return Ok(());
        }
        self.uses.write(stream)?;
        self.uses.come_from_peers();
        // What the stream waits for now is new to the streams that come after it.
        stream.queue().count_work();
        let begun = copies.iter().try_for_each(|&(part, source, to, bytes)| {
            let (own, peer) = (&part.from.device.machine, &self.device.machine);
            part.from.uses.read(part.stream)?;
            part.stream.queue().run_after(stream.queue())?;
            // SAFETY: both ranges have these bytes, of two buffers. The source remembers the stream of the copy. This buffer
            // remembers `stream`, which the copy comes after, and which waits for the copy below.
            unsafe {
                if part.from.device == self.device {
                    own.copy(Direction::Within, to, source, bytes, Some(part.stream.raw()))?;
                } else {
                    own.copy_to_peer(&**peer, to, source, bytes, part.stream.raw())?;
                }
            }
            part.stream.queue().count_work();
            Ok(())
        });
        // Copies that were begun are waited for, whether or not others failed.
        let wait = |(part, ..): &(&PeerPart<'_, T>, _, _, _)| stream.queue().run_after(part.stream.queue());
        let arrive = |&(part, _, to, _): &(&PeerPart<'_, T>, _, *mut u8, _)| match part.from.device == self.device {
            true => Ok(()),
            // SAFETY: the stream is of this buffer's device.
            false => unsafe { self.device.machine.arrive(stream.raw(), to) },
        };
        let waits = copies.iter().try_for_each(wait).and_then(|()| copies.iter().try_for_each(arrive));
        stream.queue().count_work();
        if waits.is_err() {
            // The buffer would not know of the copies.
            copies.iter().for_each(|(part, ..)| part.stream.queue().quiesce());
        }
        begun.and(waits)
    }

    /// [`Buffer::copy_from_peers`], of `bytes` bytes at an address of `from_stream`'s device, to the beginning of the buffer.
    ///
    /// # Errors
    /// As [`Buffer::copy_from_peers`].
    ///
    /// # Safety
    /// `from_stream` may read these bytes, and they stay as they are until the copy is done.
    pub unsafe fn copy_from_address(
        &mut self,
        stream: &Stream,
        from: Global<u8>,
        bytes: usize,
        from_stream: &Stream,
    ) -> Result<()> {
        let action = "copying from an address of a device";
        self.device.check_same(stream.device(), action)?;
        let to = self.part(action, 0, bytes.div_ceil(size_of::<T>().max(1)))?;
        if bytes == 0 {
            return Ok(());
        }
        self.uses.write(stream)?;
        self.uses.come_from_peers();
        stream.queue().count_work();
        from_stream.queue().run_after(stream.queue())?;
        // SAFETY: the caller's contract; the buffer remembers `stream`, which the copy comes after, and which waits for it below.
        let waits = unsafe {
            from_stream.copy_to_device(&self.device, from, to, bytes)?;
            stream.wait_for_copies(from_stream, GlobalMut::new(to))
        };
        if waits.is_err() {
            // The buffer would not know of the copy.
            from_stream.queue().quiesce();
        }
        waits
    }

    /// Copies the first `bytes` bytes to an address of a device of the same kind, in the order of `stream`, a stream of this buffer's
    /// device; may return before it is done. Streams of the other device come after it by [`Stream::wait_for_copies`].
    ///
    /// # Errors
    /// As [`Buffer::copy_from_peers`].
    ///
    /// # Safety
    /// Nobody else uses the bytes at the address from the time when the work before in `stream` is done to the time when the copy
    /// is; the memory is not freed before that.
    pub unsafe fn copy_to_address(
        &self,
        stream: &Stream,
        bytes: usize,
        to: GlobalMut<u8>,
        device: &Device,
    ) -> Result<()> {
        let action = "copying to an address of a device";
        self.device.check_same(stream.device(), action)?;
        let from = self.part(action, 0, bytes.div_ceil(size_of::<T>().max(1)))?;
        if bytes == 0 {
            return Ok(());
        }
        self.uses.read(stream)?;
        // SAFETY: the caller's contract; this buffer remembers that the stream reads it.
        unsafe { stream.copy_to_device(device, Global::new(from), to.as_ptr(), bytes) }
    }

    /// [`Buffer::read_on`], in a stream of any device that [reaches](Device::reaches) this one. The next use of the buffer waits for
    /// it, whichever device's stream that is in.
    ///
    /// # Errors
    /// [`Error::WrongDevice`] for a stream of a device of which the buffer is [not in reach](Self::is_in_reach_of); [`Error::Cuda`]
    /// from the driver.
    pub fn read_on_peer(&self, stream: &Stream) -> Result<Global<T>> {
        self.check_reached(stream, "reading another device's buffer in a stream")?;
        self.uses.read(stream)?;
        Ok(Global::new(self.start))
    }

    /// [`Buffer::write_on`], in a stream of any device that [reaches](Device::reaches) this one; otherwise like
    /// [`Buffer::read_on_peer`].
    ///
    /// # Errors
    /// As [`Buffer::read_on_peer`].
    pub fn write_on_peer(&mut self, stream: &Stream) -> Result<GlobalMut<T>> {
        self.check_reached(stream, "writing another device's buffer in a stream")?;
        self.uses.write(stream)?;
        Ok(GlobalMut::new(self.start))
    }

    /// Whether kernels of a device can use the buffer's memory. Memory that Lanetree has allocated they can if the device
    /// [reaches](Device::reaches) the buffer's; a caller's, of a pool of the driver's, say, may be for its own device only.
    pub fn is_in_reach_of(&self, device: &Device) -> bool {
        let is_open = || !self.is_foreign || self.start.is_null() || device.machine.reaches_address(self.start.cast());
        device.reaches(&self.device) && (*device == self.device || is_open())
    }

    /// Checks that a stream's device reaches the buffer, and notes that it is another one.
    fn check_reached(&self, stream: &Stream, action: &'static str) -> Result<()> {
        if stream.device() == &self.device {
            return Ok(());
        }
        if !self.is_in_reach_of(stream.device()) {
            return self.device.check_same(stream.device(), action);
        }
        self.uses.come_from_peers();
        Ok(())
    }

    /// [`Buffer::read_on`], for other devices too, for which `stream` waits later: the memory is not freed before they are done.
    ///
    /// # Errors
    /// As [`Buffer::read_on`].
    pub fn read_on_for_peers(&self, stream: &Stream) -> Result<Global<T>> {
        let start = self.read_on(stream)?;
        self.uses.come_from_peers();
        Ok(start)
    }

    /// [`Buffer::write_on`], for other devices' copies too, for which `stream` waits later: the memory is not freed before they are
    /// done.
    ///
    /// # Errors
    /// As [`Buffer::write_on`].
    pub fn write_on_from_peers(&mut self, stream: &Stream) -> Result<GlobalMut<T>> {
        let start = self.write_on(stream)?;
        self.uses.come_from_peers();
        Ok(start)
    }
}
