//! Host memory that a GPU copies from and to at full speed.

use crate::buffer::bytes_of;
use crate::host_memory::ALIGNMENT;
use crate::uses::Uses;
use crate::{Device, Result, Stream};
use bytemuck::Pod;
use core::fmt;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use core::slice;
use lanetree_simt::{Global, GlobalMut};

/// An array of `len` elements in host memory, pinned (page-locked) if the device is a GPU: asynchronous copies
/// need it. Otherwise a slice.
///
/// It remembers the streams that use it, as a [`Buffer`](crate::Buffer) does. Reading the slice waits for streams that
/// write it; writing or dropping it waits for all streams that use it, even if a panic ends a batch.
pub struct PinnedBuffer<T> {
    device: Device,
    /// Dangling exactly if the buffer has no bytes.
    start: NonNull<T>,
    len: usize,
    uses: Uses,
    /// Whether the memory is that of another buffer.
    is_part: bool,
}

// SAFETY: the buffer owns its elements.
unsafe impl<T: Send> Send for PinnedBuffer<T> {}
// SAFETY: through a shared reference elements are only read.
unsafe impl<T: Sync> Sync for PinnedBuffer<T> {}

impl<T: Pod> PinnedBuffer<T> {
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self> {
        const { assert!(align_of::<T>() <= ALIGNMENT, "allocations are not aligned for this type") };
        let start = match bytes_of::<T>(device, len)? {
            0 => NonNull::dangling(),
            bytes => device.alloc_pinned_bytes(bytes)?.cast(),
        };
        Ok(Self { device: device.clone(), start, len, uses: Uses::default(), is_part: false })
    }

    /// The device that copies from and to it.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A part of the memory as a buffer for a device, with a list of its streams of its own: so that streams which use other parts
    /// are not waited for. Dropping it waits for the streams that use it, and frees nothing.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange).
    ///
    /// # Safety
    /// The part is gone before this buffer is used again or dropped. No stream uses this buffer any more, except to read it, if
    /// the part is only read. Parts that overlap are only read.
    pub unsafe fn part_for(&self, device: &Device, range: Range<usize>) -> Result<Self> {
        let out_of_range = || crate::Error::OutOfRange {
            action: "taking a part of pinned memory",
            start: range.start,
            len: range.end.saturating_sub(range.start),
            buffer_len: self.len,
        };
        let start = self.part(&range).and_then(NonNull::new).ok_or_else(out_of_range)?;
        Ok(Self { device: device.clone(), start, len: range.len(), uses: Uses::default(), is_part: true })
    }

    /// The address, for a kernel that reads across the bus and is launched next on `stream`; otherwise like
    /// [`Buffer::read_on`](crate::Buffer::read_on). On a GPU only: the emulator's kernels reach only buffers.
    ///
    /// # Errors
    /// As [`Buffer::read_on`](crate::Buffer::read_on).
    pub fn read_on(&self, stream: &Stream) -> Result<Global<T>> {
        self.device.check_same(stream.device(), "reading pinned memory in a stream")?;
        self.uses.read(stream)?;
        Ok(Global::new(self.start.as_ptr()))
    }

    /// The address, for a kernel that writes across the bus and is launched next on `stream`; otherwise like
    /// [`PinnedBuffer::read_on`].
    ///
    /// # Errors
    /// As [`Buffer::write_on`](crate::Buffer::write_on).
    pub fn write_on(&mut self, stream: &Stream) -> Result<GlobalMut<T>> {
        self.device.check_same(stream.device(), "writing pinned memory in a stream")?;
        self.uses.write(stream)?;
        Ok(GlobalMut::new(self.start.as_ptr()))
    }
}

impl<T> PinnedBuffer<T> {
    /// Elements.
    // Not through the slice, which waits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets the streams that use the memory: the caller has waited for them.
    ///
    /// For callers that own a stream and its memory and have just waited for that stream. Otherwise reading the slice
    /// asks the driver once more.
    ///
    /// # Safety
    /// All work on the memory in any stream is done.
    pub unsafe fn forget_uses(&mut self) {
        self.uses.forget();
    }

    /// The address of the first element of a range, if all of it is inside.
    pub(crate) fn part(&self, range: &Range<usize>) -> Option<*mut T> {
        let inside = range.start <= range.end && range.end <= self.len;
        inside.then(|| self.start.as_ptr().wrapping_add(range.start))
    }

    pub(crate) fn uses(&self) -> &Uses {
        &self.uses
    }

    pub(crate) fn uses_mut(&mut self) -> &mut Uses {
        &mut self.uses
    }
}

impl<T> Deref for PinnedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.uses.quiesce_write();
        // SAFETY: `len` elements, zeroed at first, of a type that takes any bytes (`new` asks for `Pod`). No stream
        // writes them: the call has waited for those that did, and giving a stream new writes takes `&mut`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for PinnedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.uses.quiesce();
        // SAFETY: as in `deref`, borrowed mutably, and no stream reads them.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        let bytes = self.len * size_of::<T>();
        if self.is_part {
            self.uses.quiesce();
        } else if bytes > 0 {
            // A pool keeps the memory until the work on it is done. The driver does not promise to wait for that.
            if self.device.pool().is_none() {
                self.uses.quiesce();
            }
            // SAFETY: allocated with this size in `new`; the buffer is gone.
            unsafe { self.device.free_pinned_bytes(self.start.cast(), bytes) };
        }
    }
}

impl<T> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer<{}>[{} for {}]", core::any::type_name::<T>(), self.len, self.device)
    }
}
