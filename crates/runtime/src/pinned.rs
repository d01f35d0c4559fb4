//! Host memory that a GPU copies from and to at full speed.

use crate::buffer::bytes_of;
use crate::host::ALIGNMENT;
use crate::{Device, Result};
use bytemuck::Pod;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

/// An array of `len` elements in host memory, page-locked if the device is a GPU: asynchronous copies
/// need it. Otherwise a slice.
pub struct PinnedBuffer<T> {
    device: Device,
    /// Dangling exactly if the buffer has no bytes.
    start: NonNull<T>,
    len: usize,
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
        Ok(Self { device: device.clone(), start, len })
    }

    /// The device that copies from and to it.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl<T> Deref for PinnedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements, zeroed at first, of a type that takes any bytes (`new` asks for `Pod`).
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for PinnedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        let bytes = self.len * size_of::<T>();
        if bytes > 0 {
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
