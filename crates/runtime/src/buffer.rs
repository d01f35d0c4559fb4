//! Arrays in device memory.

mod peers;

pub use peers::PeerPart;

use crate::host_memory::ALIGNMENT;
use crate::machine::Direction;
use crate::uses::{Uses, Wait};
use crate::{Device, DeviceKind, Error, PinnedBuffer, Result, Stream};
use bytemuck::Pod;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use core::slice;
use lanetree_simt::{Global, GlobalMut};

/// An array of `len` elements on a device, aligned to 256 bytes, or to an element if the memory is the caller's
/// ([`Device::buffer_from_raw`]). An empty one has no memory; its pointer is null.
///
/// # Several streams
/// Work that a stream has been given goes on after the call that gave it has returned, and the borrow of its buffers has
/// ended. A buffer therefore remembers the streams that use it. The next use is put after those that conflict with
/// it: a stream waits (the calling thread does not) for other streams that write the buffer, and, before it writes the
/// buffer itself, for those that read it; a copy from or to host memory, which is complete on return, waits likewise.
/// Uses in one stream cost nothing. What a *caller's* code does to the memory by its address is not remembered, unless the
/// address is one of [`Buffer::lend_on`] or [`Buffer::lend_mut_on`].
///
/// Dropping the buffer frees the memory; on a GPU that waits for work in flight, also for copies by other GPUs, so a kernel that was
/// launched may still be running over a buffer that goes out of scope. The memory of a [`Pool`](crate::Pool) goes back
/// there at once, and to nobody else before that work is done. Memory of the caller's ([`Device::buffer_from_raw`]) is
/// not freed; dropping the buffer waits for the streams that use it.
// `repr(C)`: a buffer of other elements has the same fields in the same places, as `cast_ref` needs.
#[repr(C)]
pub struct Buffer<T> {
    device: Device,
    /// Null exactly if the buffer has no bytes.
    start: *mut T,
    len: usize,
    /// Whether the memory is the caller's, and only lent to the buffer.
    is_foreign: bool,
    uses: Uses,
    elements: PhantomData<T>,
}

// SAFETY: the buffer owns its elements, and devices may be used from any thread.
unsafe impl<T: Send> Send for Buffer<T> {}
// SAFETY: through a shared reference elements are only read: by the CPU, and by kernels, as `read_on` says.
unsafe impl<T: Sync> Sync for Buffer<T> {}

impl<T: Pod> Buffer<T> {
    pub(crate) fn new(device: &Device, len: usize, zeroed: bool) -> Result<Self> {
        const { assert!(align_of::<T>() <= ALIGNMENT, "allocations are not aligned for this type") };
        let start = match bytes_of::<T>(device, len)? {
            0 => null_mut(),
            bytes => device.alloc_bytes(bytes, zeroed)?.as_ptr().cast(),
        };
        Ok(Self { device: device.clone(), start, len, is_foreign: false, uses: Uses::default(), elements: PhantomData })
    }

    /// A buffer over the caller's memory: see [`Device::buffer_from_raw`].
    ///
    /// # Safety
    /// As [`Device::buffer_from_raw`].
    pub(crate) unsafe fn foreign(device: &Device, start: *mut T, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(device, len)?;
        let start = if bytes == 0 { null_mut() } else { start };
        if bytes > 0 {
            let address = start.addr();
            let at = NonNull::new(start.cast::<u8>()).filter(|_| start.is_aligned());
            let at = at.ok_or(Error::Misaligned { address, needed: align_of::<T>() })?;
            // SAFETY: the caller's contract.
            unsafe { device.machine.adopt(at, bytes)? };
        }
        let device = Device { pool: None, ..device.clone() };
        Ok(Self { device, start, len, is_foreign: true, uses: Uses::default(), elements: PhantomData })
    }

    /// Device memory that another library has allocated through the driver, and that the buffer owns and frees from
    /// here on.
    ///
    /// # Safety
    /// As [`Device::buffer_from_raw`], forever; `cuMemFree` frees it.
    #[cfg(feature = "cust")]
    pub(crate) unsafe fn given(device: &Device, start: *mut T, len: usize) -> Result<Self> {
        // SAFETY: the caller's contract.
        let mut buffer = unsafe { Self::foreign(device, start, len)? };
        buffer.is_foreign = false;
        Ok(buffer)
    }

    /// Whether the memory is the caller's.
    #[cfg(feature = "cust")]
    pub(crate) fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Waits for the streams that use the memory, gives the memory away, and returns the address of the elements; null
    /// if there are none. Memory from [`Device::buffer_from_raw`] goes back to its owner this way. Other memory of a
    /// GPU then belongs to the caller, who frees it with `cuMemFree` or makes a buffer of it again with
    /// [`Device::buffer_from_raw`].
    ///
    /// # Errors
    /// [`Error::NotOwned`] for memory of a [`Pool`](crate::Pool), of the host or of the emulator, which only this crate
    /// can free; [`Error::Cuda`], among others the error of a kernel that failed meanwhile. The buffer is dropped then.
    pub fn into_raw(mut self) -> Result<*mut T> {
        let refuse = |reason| Err(Error::NotOwned { device: self.device.to_string(), reason });
        if !self.is_foreign && self.device.pool().is_some() {
            return refuse("it is a pool's; allocate the buffer on a handle without a pool, or copy it");
        }
        if !self.is_foreign && self.device.kind() != DeviceKind::Cuda {
            return refuse("only this crate can free it; copy it");
        }
        self.uses.synchronize()?;
        let mut this = ManuallyDrop::new(self);
        if this.is_foreign {
            this.disown();
        }
        let start = this.start;
        // SAFETY: `this` is not reused. What it owns in addition to the memory is dropped here.
        unsafe {
            core::ptr::drop_in_place(&raw mut this.device);
            core::ptr::drop_in_place(&raw mut this.uses);
        }
        Ok(start)
    }

    /// Gives a GPU's memory from [`Device::buffer_from_raw`] back to its owner *without waiting* for the streams that use it:
    /// for callers whose memory is freed in the order of a stream, as the allocators of array libraries do. Other memory is
    /// dropped as usual.
    ///
    /// # Safety
    /// The contract of [`Device::buffer_from_raw`] goes on until all work over the memory is done.
    pub unsafe fn release(mut self) {
        if self.is_foreign && self.device.kind() == DeviceKind::Cuda {
            self.uses.forget();
        }
    }

    /// The same elements as another type of the same size and alignment, `i64` as `u64`, say; `None` if these differ.
    ///
    /// ```
    /// # mod lanetree { pub use lanetree_runtime::{self as runtime, *}; }
    /// use lanetree::Device;
    ///
    /// let numbers = Device::host().upload(&[-1_i64, 1])?;
    /// assert_eq!(numbers.cast_ref::<u64>().and_then(|words| words.as_slice()), Some(&[u64::MAX, 1][..]));
    /// assert!(numbers.cast_ref::<u32>().is_none());
    /// # Ok::<(), lanetree::runtime::Error>(())
    /// ```
    pub fn cast_ref<U: Pod>(&self) -> Option<&Buffer<U>> {
        let same = size_of::<T>() == size_of::<U>() && align_of::<T>() == align_of::<U>();
        // SAFETY: the structs differ in the elements' type alone, which is behind a pointer, and are `repr(C)`. Both types
        // have the same size, so the length and the bytes of the allocation stay the same, and take any bytes.
        same.then(|| unsafe { &*(&raw const *self).cast() })
    }

    /// [`Buffer::cast_ref`], of the buffer itself.
    ///
    /// # Errors
    /// The buffer, if the sizes or alignments differ.
    #[expect(clippy::result_large_err, reason = "the buffer itself")]
    pub fn cast<U: Pod>(self) -> Result<Buffer<U>, Self> {
        if size_of::<T>() != size_of::<U>() || align_of::<T>() != align_of::<U>() {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: as in `cast_ref`; what is read moves, since `this` is not dropped.
        Ok(unsafe { (&raw const *this).cast::<Buffer<U>>().read() })
    }

    /// The buffer as elements of another type, to write: see [`Buffer::cast_ref`] for when there is none.
    pub fn cast_mut<U: Pod>(&mut self) -> Option<&mut Buffer<U>> {
        let same = size_of::<T>() == size_of::<U>() && align_of::<T>() == align_of::<U>();
        // SAFETY: as in `cast_ref`.
        same.then(|| unsafe { &mut *(&raw mut *self).cast() })
    }

    /// [`Buffer::read_on`], for work that *another library* puts into `stream` and that reads: into the stream's handle,
    /// [`Stream::as_raw`], or the caller's that it was made of. That work is put there before the buffer is written
    /// again, here or elsewhere; the stream's next users come after all that is in the stream by then.
    ///
    /// # Errors
    /// As [`Buffer::read_on`].
    pub fn lend_on(&self, stream: &Stream) -> Result<*const T> {
        stream.queue().lend();
        self.read_on(stream).map(|global| global.as_ptr())
    }

    /// [`Buffer::write_on`], for work that *another library* puts into `stream` and that writes, or reads and writes;
    /// otherwise like [`Buffer::lend_on`]. That work is put there before the buffer is reused.
    ///
    /// # Errors
    /// As [`Buffer::read_on`].
    pub fn lend_mut_on(&mut self, stream: &Stream) -> Result<*mut T> {
        stream.queue().lend();
        self.write_on(stream).map(|global| global.as_ptr())
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

    /// The address, for a kernel that reads and is launched next on `stream`. Null if the buffer is empty. The stream
    /// waits for other streams that write the buffer.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], and [`Error::Cuda`] from the driver.
    #[inline]
    pub fn read_on(&self, stream: &Stream) -> Result<Global<T>> {
        self.device.check_same(stream.device(), "reading a buffer in a stream")?;
        self.uses.read(stream)?;
        Ok(Global::new(self.start))
    }

    /// The address, for a kernel that writes (and may read) and is launched next on `stream`. Null if the buffer is
    /// empty. The stream waits for other streams that use the buffer.
    ///
    /// # Errors
    /// As [`Buffer::read_on`].
    #[inline]
    pub fn write_on(&mut self, stream: &Stream) -> Result<GlobalMut<T>> {
        self.device.check_same(stream.device(), "writing a buffer in a stream")?;
        self.uses.write(stream)?;
        Ok(GlobalMut::new(self.start))
    }

    /// The addresses of the elements, as numbers: to tell which buffer a kernel has touched.
    pub fn addresses(&self) -> Range<usize> {
        self.start.addr()..self.start.addr() + self.bytes()
    }

    /// The elements, if the CPU can reach them: on the host and the emulator. Waits for streams that write them. The
    /// next call that returns errors reports the error of a kernel that failed.
    pub fn as_slice(&self) -> Option<&[T]> {
        let start = self.reachable()?;
        self.uses.quiesce_write();
        // SAFETY: `len` elements of this buffer, initialised since the memory that the CPU can reach is filled when it
        // is allocated, and `T: Pod` takes any bytes; nobody writes them while the buffer is borrowed: the call has
        // waited for streams that do, and no stream gets new writes without `&mut`.
        Some(unsafe { slice::from_raw_parts(start.as_ptr(), self.len) })
    }

    /// The elements, writable, if the CPU can reach them: on the host and the emulator. Waits for streams that use
    /// them; otherwise like [`Buffer::as_slice`].
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        let start = self.reachable()?;
        self.uses.quiesce();
        // SAFETY: as in `as_slice`; the buffer is borrowed mutably, so nobody else accesses them, and all streams that do
        // have been waited for.
        Some(unsafe { slice::from_raw_parts_mut(start.as_ptr(), self.len) })
    }

    fn reachable(&self) -> Option<NonNull<T>> {
        (self.device.kind() != DeviceKind::Cuda).then(|| NonNull::new(self.start).unwrap_or(NonNull::dangling()))
    }

    /// Overwrites all elements. Complete on return; waits for the streams that use the buffer.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless `data` has exactly [`Buffer::len`] elements; [`Error::Cuda`], among others the
    /// error of a kernel that failed meanwhile.
    pub fn copy_from(&mut self, data: &[T]) -> Result<()> {
        same_length("copying to a buffer", self.len, data.len())?;
        self.copy_range_from(0, data)
    }

    /// Overwrites the elements from `start` on. Otherwise like [`Buffer::copy_from`].
    ///
    /// # Errors
    /// [`Error::OutOfRange`] where they go beyond the end; [`Error::Cuda`].
    pub fn copy_range_from(&mut self, start: usize, data: &[T]) -> Result<()> {
        let to = self.part("copying to part of a buffer", start, data.len())?;
        if size_of_val(data) == 0 {
            return Ok(());
        }
        let wait = self.uses.before_host_write()?;
        // SAFETY: both ranges have the bytes of `data`, which is host memory; the borrows keep others away, and streams
        // that use the buffer come first.
        unsafe { self.copy_now(Direction::ToDevice, to, data.as_ptr().cast(), size_of_val(data), wait)? };
        self.uses.forget();
        Ok(())
    }

    /// Reads all elements. Complete on return; waits for the stream that writes the buffer, if there is one.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless `out` has exactly [`Buffer::len`] elements; [`Error::Cuda`], among others the
    /// error of a kernel that failed meanwhile.
    pub fn copy_to(&self, out: &mut [T]) -> Result<()> {
        same_length("copying from a buffer", self.len, out.len())?;
        self.copy_range_to(0, out)
    }

    /// Reads `out.len()` elements, starting at `start`. Otherwise like [`Buffer::copy_to`].
    ///
    /// # Errors
    /// [`Error::OutOfRange`] where they go beyond the end; [`Error::Cuda`].
    pub fn copy_range_to(&self, start: usize, out: &mut [T]) -> Result<()> {
        let from = self.part("copying from part of a buffer", start, out.len())?;
        if size_of_val(out) == 0 {
            return Ok(());
        }
        let bytes = size_of_val(out);
        // SAFETY: both ranges have the bytes of `out`, which is host memory; the borrows keep others away, and the stream
        // that writes the buffer comes first.
        unsafe { self.copy_now(Direction::ToHost, out.as_mut_ptr().cast(), from, bytes, self.uses.before_host_read()) }
    }

    /// Copies between the buffer and host memory; complete on return.
    ///
    /// # Safety
    /// As [`Machine::copy`](crate::machine::Machine::copy) until the return, but for the work that `wait` is for.
    unsafe fn copy_now(
        &self,
        direction: Direction,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
        wait: Wait,
    ) -> Result<()> {
        let machine = &self.device.machine;
        if let Wait::InOrderOf(queue) = wait {
            if let Some(raw) = queue.open() {
                // One call waits for the stream's work and for the copy.
                // SAFETY: the caller's contract; the queue's stream lives as long as the queue.
                return unsafe {
                    machine.copy(direction, to, from, bytes, Some(raw)).and_then(|()| machine.synchronize_stream(raw))
                };
            }
            queue.synchronize()?;
        }
        // SAFETY: the caller's contract.
        unsafe { machine.copy(direction, to, from, bytes, None) }
    }

    /// All elements, in a new vector. As [`Buffer::copy_to`].
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the host has no room; [`Error::Cuda`] from the copy.
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
    /// it is done. Both buffers remember the stream, so either may be used and dropped meanwhile.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::WrongDevice`], and [`Error::Cuda`] from the driver.
    pub fn upload_async(
        &mut self,
        stream: &Stream,
        at: usize,
        from: &PinnedBuffer<T>,
        range: Range<usize>,
    ) -> Result<()> {
        let data = from.part(&range).ok_or_else(|| out_of_range(UPLOADING, &range, from.len()))?;
        self.upload_bytes(stream, (at, length(&range)), (data.cast(), from.uses()))
    }

    /// Overwrites `len` elements from `at` on with the first bytes of pinned memory, whatever it has; otherwise like
    /// [`Buffer::upload_async`].
    ///
    /// # Errors
    /// As [`Buffer::upload_async`].
    pub fn upload_bytes_async<U: Pod>(
        &mut self,
        stream: &Stream,
        at: usize,
        from: &PinnedBuffer<U>,
        len: usize,
    ) -> Result<()> {
        let range = 0..len.saturating_mul(size_of::<T>()).div_ceil(size_of::<U>().max(1));
        let data = from.part(&range).ok_or_else(|| out_of_range(UPLOADING, &range, from.len()))?;
        self.upload_bytes(stream, (at, len), (data.cast(), from.uses()))
    }

    /// Overwrites `len` elements from `at` on with as many bytes of pinned memory, which has them.
    fn upload_bytes(
        &mut self,
        stream: &Stream,
        (at, len): (usize, usize),
        (data, uses): (*mut u8, &Uses),
    ) -> Result<()> {
        self.device.check_same(stream.device(), UPLOADING)?;
        let to = self.part(UPLOADING, at, len)?;
        match len * size_of::<T>() {
            0 => Ok(()),
            bytes => {
                self.uses.write(stream)?;
                uses.read(stream)?;
                // SAFETY: both have these bytes, and remember that the stream uses them.
                unsafe { self.device.machine.copy(Direction::ToDevice, to, data, bytes, Some(stream.raw()))? };
                stream.queue().count_work();
                Ok(())
            }
        }
    }

    /// Copies the elements of `range` to `to[at..]`, in the stream's order; may return before it is done. Otherwise
    /// like [`Buffer::upload_async`]: reading `to` waits for the copy.
    ///
    /// # Errors
    /// As [`Buffer::upload_async`].
    pub fn download_async(
        &self,
        stream: &Stream,
        range: Range<usize>,
        to: &mut PinnedBuffer<T>,
        at: usize,
    ) -> Result<()> {
        let out = at..at.saturating_add(length(&range));
        let data = to.part(&out).ok_or_else(|| out_of_range(DOWNLOADING, &out, to.len()))?;
        self.download_bytes(stream, range, (data.cast(), to.uses_mut()))
    }

    /// Copies the elements of `range` to the first bytes of pinned memory, whatever it has; otherwise like
    /// [`Buffer::download_async`].
    ///
    /// # Errors
    /// As [`Buffer::upload_async`].
    pub fn download_bytes_async<U: Pod>(
        &self,
        stream: &Stream,
        range: Range<usize>,
        to: &mut PinnedBuffer<U>,
    ) -> Result<()> {
        let out = 0..length(&range).saturating_mul(size_of::<T>()).div_ceil(size_of::<U>().max(1));
        let data = to.part(&out).ok_or_else(|| out_of_range(DOWNLOADING, &out, to.len()))?;
        self.download_bytes(stream, range, (data.cast(), to.uses_mut()))
    }

    /// Copies the elements of `range` to pinned memory, which has room for their bytes.
    fn download_bytes(&self, stream: &Stream, range: Range<usize>, (data, uses): (*mut u8, &mut Uses)) -> Result<()> {
        self.device.check_same(stream.device(), DOWNLOADING)?;
        let from = self.part(DOWNLOADING, range.start, length(&range))?;
        match length(&range) * size_of::<T>() {
            0 => Ok(()),
            bytes => {
                self.uses.read(stream)?;
                uses.write(stream)?;
                // SAFETY: both ranges have these bytes, and remember that the stream uses them.
                unsafe { self.device.machine.copy(Direction::ToHost, data, from, bytes, Some(stream.raw()))? };
                stream.queue().count_work();
                Ok(())
            }
        }
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
            bytes => {
                self.uses.write(stream)?;
                from.uses.read(stream)?;
                // SAFETY: both ranges have these bytes, of two buffers, which remember that the stream uses them.
                unsafe { self.device.machine.copy(Direction::Within, to, source, bytes, Some(stream.raw()))? };
                stream.queue().count_work();
                Ok(())
            }
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
            bytes => {
                self.uses.write(stream)?;
                // SAFETY: bytes of the buffer, which remembers that the stream uses them.
                unsafe { self.device.machine.zero(start, bytes, stream.raw())? };
                stream.queue().count_work();
                Ok(())
            }
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

const UPLOADING: &str = "copying to a buffer asynchronously";
/// What downloads are, in errors.
const DOWNLOADING: &str = "copying from a buffer asynchronously";

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
    // There is no address space beyond `isize::MAX` either.
    match usize::try_from(bytes) {
        Ok(bytes) if bytes <= isize::MAX as usize => Ok(bytes),
        _ => Err(device.machine.out_of_memory(bytes)),
    }
}

impl<T> Buffer<T> {
    /// Ends the use of memory that is the caller's. No work uses it.
    fn disown(&mut self) {
        if let Some(start) = NonNull::new(self.start) {
            self.device.machine.disown(start.cast());
        }
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.is_foreign {
            self.uses.quiesce();
            self.disown();
        } else if let Some(start) = NonNull::new(self.start) {
            // Before the driver waits for anything, it takes the memory from the other GPUs: a copy of theirs that is not done
            // would be an error (719, with a fault of the copy engine), which no later call survives. A pool waits by itself, but for its own
            // device alone.
            if self.device.pool().is_none() || self.uses.are_of_peers(&self.device.machine) {
                self.uses.quiesce_peers();
            }
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
