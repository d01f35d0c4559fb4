//! Memory as callers of the device form have it: slices of a larger array, which begin at any element.

use bytemuck::Pod;
use core::any::Any;
use core::cell::RefCell;
use core::fmt;
use core::ptr::with_exposed_provenance_mut;
use lanetree::{Buffer, Device, Result};

/// Makes buffers in arrays that are one element longer, from the second element on: they begin at no larger multiple
/// than an element's size. The emulator refuses wider accesses to them, as a GPU does.
///
/// Declare it before the buffers: it owns their memory.
pub struct Lender {
    device: Device,
    owners: RefCell<Vec<Box<dyn Any>>>,
}

impl fmt::Debug for Lender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lender").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Lender {
    /// A lender of a device's memory.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), owners: RefCell::default() }
    }

    /// A buffer of these elements.
    ///
    /// # Errors
    /// As [`Device::upload`].
    pub fn upload<T: Pod>(&self, elements: &[T]) -> Result<Buffer<T>> {
        let with_first: Vec<T> = core::iter::once(T::zeroed()).chain(elements.iter().copied()).collect();
        self.slice(self.device.upload(&with_first)?)
    }

    /// A buffer with room for `len` elements.
    ///
    /// # Errors
    /// As [`Device::alloc`].
    pub fn alloc<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        self.slice(self.device.alloc(len + 1)?)
    }

    /// A buffer of zeros.
    ///
    /// # Errors
    /// As [`Device::alloc`].
    pub fn alloc_zeroed<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        self.slice(self.device.alloc_zeroed(len + 1)?)
    }

    /// All elements of an array but the first.
    fn slice<T: Pod>(&self, owner: Buffer<T>) -> Result<Buffer<T>> {
        let (start, len) = (owner.addresses().start + size_of::<T>(), owner.len() - 1);
        // SAFETY: elements of an array that the lender owns until it is dropped, and nobody else uses.
        let slice = unsafe { self.device.buffer_from_raw(with_exposed_provenance_mut(start), len)? };
        self.owners.borrow_mut().push(Box::new(owner));
        Ok(slice)
    }
}
