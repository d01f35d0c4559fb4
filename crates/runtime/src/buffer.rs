//! Arrays in device memory.

use crate::host::ALIGNMENT;
use crate::machine::Direction;
use crate::{Device, DeviceKind, Error, PinnedBuffer, Result, Stream};
use bytemuck::Pod;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use core::slice;
use lanetree_simt::{Global, GlobalMut};

/// An array of `len` elements on a device, aligned to 256 bytes. An empty one has no memory; its pointer
/// is null.
///
/// Dropping it frees the memory; on a GPU that waits for work in flight, so a kernel that was launched
/// may still be running over a buffer that goes out of scope. The memory of a [`Pool`](crate::Pool) goes back
/// there at once, and to nobody else before that work is done.
pub struct Buffer<T> {
    device: Device,
    /// Null exactly if the buffer has no bytes.
    start: *mut T,
    len: usize,
    elements: PhantomData<T>,
}

// SAFETY: the buffer owns its elements, and devices may be used from any thread.
unsafe impl<T: Send> Send for Buffer<T> {}
// SAFETY: through a shared reference elements are only read, by the CPU at least; kernels are launched
// under a contract of their own.
unsafe impl<T: Sync> Sync for Buffer<T> {}

impl<T: Pod> Buffer<T> {
    pub(crate) fn new(device: &Device, len: usize, zeroed: bool) -> Result<Self> {
        const { assert!(align_of::<T>() <= ALIGNMENT, "allocations are not aligned for this type") };
        let start = match bytes_of::<T>(device, len)? {
            0 => null_mut(),
            bytes => device.alloc_bytes(bytes, zeroed)?.as_ptr().cast(),
        };
        Ok(Self { device: device.clone(), start, len, elements: PhantomData })
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The device whose memory it is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The address, for kernels that read. Null if the buffer is empty.
    pub fn global(&self) -> Global<T> {
        Global::new(self.start)
    }

    /// The address, for kernels that read and write. Null if the buffer is empty.
    pub fn global_mut(&mut self) -> GlobalMut<T> {
        GlobalMut::new(self.start)
    }

    /// The elements, if the CPU can reach them: on the host and the emulator.
    pub fn as_slice(&self) -> Option<&[T]> {
        let start = self.reachable()?;
        // SAFETY: `len` elements of this buffer, initialised since host memory is allocated zeroed (a pool's,
        // before its first use), and `T: Pod` takes any bytes; nobody writes them while the buffer is borrowed.
        Some(unsafe { slice::from_raw_parts(start.as_ptr(), self.len) })
    }

    /// The elements, writable, if the CPU can reach them: on the host and the emulator.
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        let start = self.reachable()?;
        // SAFETY: as in `as_slice`; the buffer is borrowed mutably, so nobody else accesses them.
        Some(unsafe { slice::from_raw_parts_mut(start.as_ptr(), self.len) })
    }

    fn reachable(&self) -> Option<NonNull<T>> {
        (self.device.kind() != DeviceKind::Cuda).then(|| NonNull::new(self.start).unwrap_or(NonNull::dangling()))
    }

    /// Overwrites all elements. Complete on return; waits for no stream.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless `data` has exactly [`Buffer::len`] elements.
    pub fn copy_from(&mut self, data: &[T]) -> Result<()> {
        same_length("copying to a buffer", self.len, data.len())?;
        self.copy_range_from(0, data)
    }

    /// Overwrites the elements from `start` on. Complete on return; waits for no stream.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] where they go beyond the end.
    pub fn copy_range_from(&mut self, start: usize, data: &[T]) -> Result<()> {
        let to = self.part("copying to part of a buffer", start, data.len())?;
        if size_of_val(data) == 0 {
            return Ok(());
        }
        // SAFETY: both ranges have the bytes of `data`, which is host memory, and the copy is done on
        // return; the borrows keep others away.
        unsafe { self.device.machine.copy(Direction::ToDevice, to, data.as_ptr().cast(), size_of_val(data), None) }
    }

    /// Reads all elements. Complete on return; waits for no stream: synchronise the one that writes them
    /// first.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless `out` has exactly [`Buffer::len`] elements.
    pub fn copy_to(&self, out: &mut [T]) -> Result<()> {
        same_length("copying from a buffer", self.len, out.len())?;
        self.copy_range_to(0, out)
    }

    /// Reads the elements from `start` on, as many as `out` has. As [`Buffer::copy_to`] otherwise.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] where they go beyond the end.
    pub fn copy_range_to(&self, start: usize, out: &mut [T]) -> Result<()> {
        let from = self.part("copying from part of a buffer", start, out.len())?;
        if size_of_val(out) == 0 {
            return Ok(());
        }
        let bytes = size_of_val(out);
        // SAFETY: both ranges have the bytes of `out`, which is host memory, and the copy is done on
        // return; the borrows keep others away.
        unsafe { self.device.machine.copy(Direction::ToHost, out.as_mut_ptr().cast(), from, bytes, None) }
    }

    /// All elements, in a new vector. As [`Buffer::copy_to`].
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where the host has no room; [`Error::Cuda`] from the copy.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut out = Vec::new();
        if out.try_reserve_exact(self.len).is_err() {
            return Err(Device::host().machine.out_of_memory(self.bytes() as u128));
        }
        out.resize(self.len, T::zeroed());
        self.copy_to(&mut out)?;
        Ok(out)
    }

    /// Overwrites the elements from `at` on with `from[range]`, in the stream's order; may return before
    /// it is done.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::WrongDevice`].
    ///
    /// # Safety
    /// Until the stream has done it, both buffers live, and nobody writes the elements of either, nor
    /// reads those of `self`, but work that comes later in the stream's order.
    pub unsafe fn upload_async(
        &mut self,
        stream: &Stream,
        at: usize,
        from: &PinnedBuffer<T>,
        range: Range<usize>,
    ) -> Result<()> {
        let action = "copying to a buffer asynchronously";
        self.device.check_same(stream.device(), action)?;
        let data = from.get(range.clone()).ok_or_else(|| out_of_range(action, &range, from.len()))?;
        let to = self.part(action, at, data.len())?;
        if size_of_val(data) == 0 {
            return Ok(());
        }
        let bytes = size_of_val(data);
        // SAFETY: both ranges have these bytes; the caller keeps them alive and others away.
        unsafe { self.device.machine.copy(Direction::ToDevice, to, data.as_ptr().cast(), bytes, Some(stream.raw())) }
    }

    /// Copies the elements of `range` to `to[at..]`, in the stream's order; may return before it is done.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::WrongDevice`].
    ///
    /// # Safety
    /// Until the stream has done it, both buffers live, and nobody writes the elements of either, nor
    /// reads those of `to`, but work that comes later in the stream's order.
    pub unsafe fn download_async(
        &self,
        stream: &Stream,
        range: Range<usize>,
        to: &mut PinnedBuffer<T>,
        at: usize,
    ) -> Result<()> {
        let action = "copying from a buffer asynchronously";
        self.device.check_same(stream.device(), action)?;
        let from = self.part(action, range.start, length(&range))?;
        let (to_len, end) = (to.len(), at.saturating_add(length(&range)));
        let out = to.get_mut(at..end).ok_or_else(|| out_of_range(action, &(at..end), to_len))?;
        if size_of_val(out) == 0 {
            return Ok(());
        }
        let bytes = size_of_val(out);
        // SAFETY: both ranges have these bytes; the caller keeps them alive and others away.
        unsafe { self.device.machine.copy(Direction::ToHost, out.as_mut_ptr().cast(), from, bytes, Some(stream.raw())) }
    }

    /// Overwrites the elements from `at` on with `from[range]`, on the device, in the stream's order; may
    /// return before it is done. Either buffer may be dropped at once: its memory outlives the copy.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::WrongDevice`].
    pub fn copy_from_buffer(&mut self, stream: &Stream, at: usize, from: &Self, range: Range<usize>) -> Result<()> {
        let action = "copying between buffers";
        self.device.check_same(stream.device(), action)?;
        self.device.check_same(&from.device, action)?;
        let source = from.part(action, range.start, length(&range))?;
        let to = self.part(action, at, length(&range))?;
        match length(&range) * size_of::<T>() {
            0 => Ok(()),
            // SAFETY: both ranges have these bytes, of two buffers. What else the device does with them at
            // the same time was launched under a contract that covers it.
            bytes => unsafe { self.device.machine.copy(Direction::Within, to, source, bytes, Some(stream.raw())) },
        }
    }

    /// Zeroes all bytes, in the stream's order; may return before it is done.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], and [`Error::Cuda`] from the driver.
    pub fn fill_zero(&mut self, stream: &Stream) -> Result<()> {
        self.fill_zero_range(stream, 0..self.len)
    }

    /// Zeroes the bytes of the elements of `range`, in the stream's order; may return before it is done.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::WrongDevice`], and [`Error::Cuda`] from the driver.
    pub fn fill_zero_range(&mut self, stream: &Stream, range: Range<usize>) -> Result<()> {
        let action = "zeroing a buffer";
        self.device.check_same(stream.device(), action)?;
        let start = self.part(action, range.start, length(&range))?;
        match length(&range) * size_of::<T>() {
            0 => Ok(()),
            // SAFETY: bytes of the buffer; its memory goes to nobody else before the work is done.
            bytes => unsafe { self.device.machine.zero(start, bytes, stream.raw()) },
        }
    }

    /// The address of element `start`, if `len` elements from there on are inside the buffer.
    fn part(&self, action: &'static str, start: usize, len: usize) -> Result<*mut u8> {
        if start > self.len || len > self.len - start {
            return Err(Error::OutOfRange { action, start, len, buffer_len: self.len });
        }
        Ok(self.start.wrapping_add(start).cast())
    }
}

fn same_length(action: &'static str, expected: usize, actual: usize) -> Result<()> {
    if expected == actual { Ok(()) } else { Err(Error::LengthMismatch { action, expected, actual }) }
}

/// Elements of a range; 0 if it ends before it begins.
fn length(range: &Range<usize>) -> usize {
    range.end.saturating_sub(range.start)
}

fn out_of_range(action: &'static str, range: &Range<usize>, buffer_len: usize) -> Error {
    Error::OutOfRange { action, start: range.start, len: length(range), buffer_len }
}

/// Bytes of `len` elements.
pub(crate) fn bytes_of<T>(device: &Device, len: usize) -> Result<usize> {
    let bytes = len as u128 * size_of::<T>() as u128;
    // Beyond `isize::MAX` there is no address space either.
    match usize::try_from(bytes) {
        Ok(bytes) if bytes <= isize::MAX as usize => Ok(bytes),
        _ => Err(device.machine.out_of_memory(bytes)),
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if let Some(start) = NonNull::new(self.start) {
            // SAFETY: allocated with this size in `new`; the buffer is gone.
            unsafe { self.device.free_bytes(start.cast(), self.len * size_of::<T>()) };
        }
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer<{}>[{} on {}]", core::any::type_name::<T>(), self.len, self.device)
    }
}
