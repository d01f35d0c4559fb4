//! Arrays in host memory that kernels can read across the bus.

use crate::buffer::bytes_of;
use crate::pages::{GrantedPages, Mapping, Pages, SMALL};
use crate::uses::Uses;
use crate::{Device, Error, Result, Stream};
use bytemuck::Pod;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;
use lanetree_simt::Global;

/// An array of `len` elements in host memory, in pages of a chosen size. After [`HostArray::pin`] the kernels of a device
/// can read it across the bus; none can write it.
///
/// It begins at a multiple of 2 MiB if it was to have huge pages and has at least 2 MiB; else of 4096 bytes. (See
/// [`PinnedBuffer`](crate::PinnedBuffer) for memory that is page-locked from the start, and that streams copy from and to.)
///
/// It remembers the streams that read it, as a [`Buffer`](crate::Buffer) does. Reading the slice waits for nothing. Writing
/// it, unpinning it and dropping it wait for all streams that read it.
///
/// ```
/// # mod lanetree { pub use lanetree_runtime::{self as runtime, *}; }
/// use lanetree::runtime::{HostArray, Pages};
/// use lanetree::Device;
///
/// let mut keys = HostArray::<u64>::zeroed(1000, Pages::Transparent)?;
/// keys[0] = 7;
/// let device = Device::host();
/// keys.pin(&device)?;
/// assert_eq!(keys.pinned_for(), Some(&device));
/// assert_eq!(keys[..2], [7, 0]);
/// println!("{}", keys.pages());
/// # Ok::<(), lanetree::runtime::Error>(())
/// ```
pub struct HostArray<T> {
    /// Dangling exactly if the array has no bytes.
    start: NonNull<T>,
    len: usize,
    asked: Pages,
    /// `None` exactly if the array has no bytes.
    mapping: Option<Mapping>,
    pinned: Option<Pinned<T>>,
    uses: Uses,
}

/// That an array is pinned.
struct Pinned<T> {
    /// Without a pool, which has no part in it.
    device: Device,
    /// Where its kernels read the array; null if it has no bytes.
    start: *const T,
}

// SAFETY: the array owns its elements, and devices may be used from any thread.
unsafe impl<T: Send> Send for HostArray<T> {}
// SAFETY: through a shared reference elements are only read: by the CPU, and by kernels.
unsafe impl<T: Sync> Sync for HostArray<T> {}

impl<T: Pod> HostArray<T> {
    /// An array of `len` elements of zero bytes. The system commits its memory when it is first touched.
    ///
    /// Where the system does not have the pages asked for, the array has the next smaller kind. [`HostArray::pages`] says
    /// which.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] of the host, with the bytes asked for, if the system refuses them.
    pub fn zeroed(len: usize, pages: Pages) -> Result<Self> {
        const { assert!(align_of::<T>() <= SMALL, "mappings are not aligned for this type") };
        let host = Device::host();
        let mapping = match bytes_of::<T>(&host, len)? {
            0 => None,
            bytes => {
                let mapping = Mapping::new(bytes, pages);
                Some(mapping.map_err(|_| host.machine.out_of_memory(bytes as u128))?)
            }
        };
        let start = mapping.as_ref().map_or(NonNull::dangling(), |mapping| mapping.start().cast());
        Ok(Self { start, len, asked: pages, mapping, pinned: None, uses: Uses::default() })
    }

    /// Page-locks the array and maps it for the device, so that its kernels can read it. Touches all pages that have not been
    /// touched yet. Does nothing if the array is pinned for this device already, and unpins it first if it is for another:
    /// that waits for the streams that read it. A pool of the handle has no part in it. On the host nothing is page-locked.
    ///
    /// # Errors
    /// [`Error::CannotPin`] if the driver refuses; [`Error::Cuda`], among others the error of a kernel that failed
    /// meanwhile. Then the array is not pinned for any device, and remains usable.
    pub fn pin(&mut self, device: &Device) -> Result<()> {
        if self.pinned_for() == Some(device) {
            return Ok(());
        }
        self.unpin();
        let start = match self.bytes() {
            0 => Global::null().as_ptr(),
            // SAFETY: initialised bytes of a mapping of this array's own, which stays until the array is unpinned. The array
            // is not pinned.
            bytes => unsafe { device.machine.pin(self.start.cast(), bytes)? }.cast().as_ptr(),
        };
        self.pinned = Some(Pinned { device: Device { pool: None, ..device.clone() }, start });
        Ok(())
    }

    /// The address, for a kernel that reads and is launched next on `stream`; null if the array is empty. Returns at once.
    ///
    /// # Errors
    /// [`Error::NotPinned`] unless the array is pinned for the stream's device.
    pub fn read_on(&self, stream: &Stream) -> Result<Global<T>> {
        match &self.pinned {
            Some(Pinned { device, start }) if device == stream.device() => {
                self.uses.read(stream)?;
                Ok(Global::new(*start))
            }
            _ => Err(Error::NotPinned { bytes: self.bytes(), device: stream.device().to_string() }),
        }
    }
}

impl<T> HostArray<T> {
    /// Lets the system move the pages again, and ends the device's access. Waits for the streams that read the array. Does
    /// nothing if the array is not pinned.
    pub fn unpin(&mut self) {
        self.uses.quiesce();
        let bytes = self.bytes();
        if let Some(Pinned { device, .. }) = self.pinned.take()
            && bytes > 0
        {
            // SAFETY: `pin` of this machine took these bytes, and all work that reads them has been waited for.
            unsafe { device.machine.unpin(self.start.cast(), bytes) };
        }
    }

    /// The device whose kernels can read the array, if it is pinned.
    pub fn pinned_for(&self) -> Option<&Device> {
        self.pinned.as_ref().map(|pinned| &pinned.device)
    }

    /// Which pages the array has. Asks the system (on Linux by `/proc/self/smaps`), which looks at all memory of the process
    /// for the answer: milliseconds, or more in a large process with small pages.
    pub fn pages(&self) -> GrantedPages {
        match &self.mapping {
            Some(mapping) => {
                let (granted, huge_bytes) = (mapping.granted(), mapping.huge_bytes());
                GrantedPages { asked: self.asked, granted, huge_bytes }
            }
            // Nothing was refused, as there are no pages.
            None => GrantedPages { asked: self.asked, granted: self.asked, huge_bytes: None },
        }
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
}

impl<T> Deref for HostArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements, zeroed at first, of a type that takes any bytes (`zeroed` asks for `Pod`). Streams only
        // ever read them.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for HostArray<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.uses.quiesce();
        // SAFETY: as in `deref`, borrowed mutably. No stream reads them: the call has waited for those that did, and
        // `read_on` borrows the array.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for HostArray<T> {
    fn drop(&mut self) {
        // Before the memory is unmapped: the driver does not promise to wait for work that reads it.
        self.unpin();
    }
}

impl<T> fmt::Debug for HostArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostArray<{}>[{} in ", core::any::type_name::<T>(), self.len)?;
        write!(f, "{}", self.mapping.as_ref().map_or(self.asked, Mapping::granted))?;
        match self.pinned_for() {
            Some(device) => write!(f, ", pinned for {device}]"),
            None => write!(f, "]"),
        }
    }
}
