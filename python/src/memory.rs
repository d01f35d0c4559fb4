//! Arrays of a device.

use crate::device::{Device, Stream};
use crate::errors::{check_not_forked, is_forked, raise_runtime, value_error};
use crate::host::HostSlice;
use crate::words::{Cache, Words, each_width};
use bytemuck::Pod;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut, Range};
use lanetree::Buffer;
use numpy::PyUntypedArray;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// An array of one dimension on a device.
#[pyclass(frozen, module = "lanetree._native")]
pub(crate) struct Memory {
    words: RwLock<Option<Words>>,
    len: usize,
    width: usize,
    address: usize,
    /// Whether the memory's owner frees it in its stream's order, so that nobody waits here for work over it.
    in_order: bool,
    /// Whether it may not be written.
    readonly: bool,
    /// Whether it is a copy of an array that kernels cannot use in place.
    is_copy: bool,
    /// Where the buffer goes in the end, unless another library has its address for a stream that nobody knows.
    cache: Option<Arc<Cache>>,
    is_shared: AtomicBool,
    /// What owns the memory, if it is another library's. Dropped last.
    _owner: Option<Owner>,
}

pub(crate) type Owner = Box<dyn Any + Send + Sync>;

impl Memory {
    /// What a buffer's address is a multiple of.
    const ALIGNMENT: usize = 256;

    /// Whether memory at an address is used in place.
    pub(crate) fn is_aligned(address: usize) -> bool {
        address.is_multiple_of(Self::ALIGNMENT)
    }

    pub(crate) fn new(words: impl Into<Words>) -> Self {
        Self::owned(words.into(), None, false, false)
    }

    fn owned(words: Words, owner: Option<Owner>, in_order: bool, readonly: bool) -> Self {
        let (len, address) = each_width!(&words, buffer => (buffer.len(), buffer.addresses().start));
        let width = words.width();
        Self {
            words: RwLock::new(Some(words)),
            len,
            width,
            address,
            in_order,
            readonly,
            is_copy: false,
            cache: None,
            is_shared: AtomicBool::new(false),
            _owner: owner,
        }
    }

    /// Memory of another library, of `len` elements that are initialised, or where it is not aligned as kernels need, a copy that is made
    /// in the order of the stream.
    ///
    /// # Safety
    /// As [`lanetree::Device::buffer_from_raw`], as long as `owner` lives, and for what comes in the order of `stream`.
    pub(crate) unsafe fn foreign(
        stream: &Stream,
        (address, len, width): (usize, usize, usize),
        (in_order, readonly): (bool, bool),
        owner: Owner,
    ) -> PyResult<Self> {
        /// # Safety
        /// As the function around it.
        unsafe fn adopt<T: Pod>(
            stream: &lanetree::Stream,
            (address, len): (usize, usize),
            in_order: bool,
        ) -> Result<(Buffer<T>, bool), lanetree::runtime::Error>
        where
            Words: From<Buffer<T>>,
        {
            let (device, skipped) = (stream.device(), address % Memory::ALIGNMENT);
            let start = core::ptr::with_exposed_provenance_mut::<T>(address - skipped);
            if skipped == 0 || len == 0 {
                // SAFETY: the caller's contract.
                let mut buffer = unsafe { device.buffer_from_raw(start, len)? };
                if !in_order {
                    // The data are there in the stream's order: others come after it.
                    buffer.lend_mut_on(stream)?;
                }
                return Ok((buffer, false));
            }
            // Allocations begin at multiples of 256 bytes, or more: so what comes before is of the same one, and may be
            // named, though nobody reads it.
            let before = skipped / size_of::<T>();
            // SAFETY: the caller's contract, and the above.
            let from = unsafe { device.buffer_from_raw(start, before + len)? };
            let mut copy = device.alloc(len)?;
            let copied = copy.copy_from_buffer(stream, 0, &from, before..before + len);
            match in_order {
                // SAFETY: the copy is in the stream's order, in which the owner frees the memory.
                true => unsafe { from.release() },
                false => drop(from),
            }
            copied.map(|()| (copy, true))
        }
        if !address.is_multiple_of(width.max(1)) {
            return Err(value_error(format!(
                "elements of {width} bytes at {address:#x} are not aligned: copy the array"
            )));
        }
        let on = stream.enter()?;
        let stream = &*on;
        // SAFETY: the caller's contract.
        let (words, copied) = unsafe {
            match width {
                1 => adopt::<u8>(stream, (address, len), in_order).map(|(buffer, copied)| (Words::W8(buffer), copied)),
                4 => {
                    adopt::<u32>(stream, (address, len), in_order).map(|(buffer, copied)| (Words::W32(buffer), copied))
                }
                8 => {
                    adopt::<u64>(stream, (address, len), in_order).map(|(buffer, copied)| (Words::W64(buffer), copied))
                }
                _ => return Err(value_error(format!("no elements of {width} bytes"))),
            }
        }
        .map_err(raise_runtime)?;
        COPIES.fetch_add(u64::from(copied), Ordering::Relaxed);
        let owner = (!copied).then_some(owner);
        let mut memory = Self::owned(words, owner, in_order && !copied, readonly);
        memory.is_copy = copied;
        Ok(memory)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of the first element, and that of the end.
    fn range(&self) -> Range<usize> {
        self.address..self.address + self.len * self.width
    }

    /// The elements, to read: an error where they have another width.
    pub(crate) fn read<T: Pod>(&self) -> PyResult<Reading<'_, T>> {
        let words = self.words.try_read().map_err(|_| in_use())?;
        let lease = Lease::new(self.range(), false)?;
        words.as_ref().ok_or_else(closed)?.read::<T>()?;
        Ok(InUse { words, _lease: lease, elements: PhantomData })
    }

    /// The elements, to write.
    pub(crate) fn write<T: Pod>(&self) -> PyResult<Writing<'_, T>> {
        if self.readonly {
            return Err(value_error("the output array is read-only"));
        }
        if self.is_copy {
            return Err(value_error(
                "the output array does not begin at a multiple of 256 bytes, so kernels cannot write to it: pass one that is no slice",
            ));
        }
        let words = self.words.try_write().map_err(|_| in_use())?;
        let lease = Lease::new(self.range(), true)?;
        words.as_ref().ok_or_else(closed)?.read::<T>()?;
        Ok(InUse { words, _lease: lease, elements: PhantomData })
    }

    pub(crate) fn is_readonly(&self) -> bool {
        self.readonly && !self.is_copy
    }

    /// The address, for work that another library puts into a stream after what is in it by then.
    pub(crate) fn lend(&self, stream: &lanetree::Stream) -> PyResult<usize> {
        let mut words = self.words.try_write().map_err(|_| in_use())?;
        let Some(words) = &mut *words else { return Err(closed()) };
        each_width!(words, buffer => buffer.lend_mut_on(stream).map(|at| at.expose_provenance())).map_err(raise_runtime)
    }

    pub(crate) fn address(&self) -> usize {
        self.address
    }
}

/// The bytes of devices that calls use now, and whether they write them. Two objects may be views of the same memory, so addresses are
/// compared, which no two devices share.
static LEASES: Mutex<Vec<(Range<usize>, bool)>> = Mutex::new(Vec::new());

/// Bytes that a call uses. They overlap no bytes that another lease writes; if this one writes, they overlap no other lease.
struct Lease {
    bytes: Range<usize>,
    is_write: bool,
}

impl Lease {
    fn all() -> MutexGuard<'static, Vec<(Range<usize>, bool)>> {
        LEASES.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new(bytes: Range<usize>, is_write: bool) -> PyResult<Self> {
        let mut all = Self::all();
        let overlap = |other: &Range<usize>| bytes.start.max(other.start) < bytes.end.min(other.end);
        if let Some((other, is_other_write)) = all.iter().find(|it| (is_write || it.1) && overlap(&it.0)) {
            let name = |bytes: &Range<usize>, is_write: bool| {
                let how = if is_write { "writes" } else { "reads" };
                format!("one of {} bytes at {:#x}, which it {how}", bytes.len(), bytes.start)
            };
            let (own, other) = (name(&bytes, is_write), name(other, *is_other_write));
            return Err(value_error(format!(
                "two arrays of a call, or of calls in two threads, share memory: {own}, and {other}. Pass arrays that do not overlap"
            )));
        }
        all.push((bytes.clone(), is_write));
        Ok(Self { bytes, is_write })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut all = Self::all();
        let at = all.iter().position(|it| *it == (self.bytes.clone(), self.is_write));
        at.map(|at| all.swap_remove(at));
    }
}

/// An array in use, as elements of a type whose width was compared.
pub(crate) struct InUse<G, T> {
    words: G,
    _lease: Lease,
    elements: PhantomData<T>,
}

pub(crate) type Reading<'a, T> = InUse<RwLockReadGuard<'a, Option<Words>>, T>;
pub(crate) type Writing<'a, T> = InUse<RwLockWriteGuard<'a, Option<Words>>, T>;

impl<G: Deref<Target = Option<Words>>, T: Pod> Deref for InUse<G, T> {
    type Target = Buffer<T>;

    fn deref(&self) -> &Buffer<T> {
        let elements = self.words.as_ref().and_then(|words| words.read().ok());
        elements.unwrap_or_else(|| unreachable!("checked where it was made"))
    }
}

impl<G: DerefMut<Target = Option<Words>>, T: Pod> DerefMut for InUse<G, T> {
    fn deref_mut(&mut self) -> &mut Buffer<T> {
        let elements = self.words.as_mut().and_then(|words| words.write().ok());
        elements.unwrap_or_else(|| unreachable!("checked where it was made"))
    }
}

fn in_use() -> PyErr {
    PyRuntimeError::new_err("the array is in use: as input and output of one call, or by another thread")
}

pub(crate) fn closed() -> PyErr {
    PyRuntimeError::new_err("it has been closed")
}

impl Drop for Memory {
    fn drop(&mut self) {
        let words = self.words.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(words) = words else { return };
        if is_forked() {
            // As where `Held` is dropped.
            core::mem::forget(words);
        } else if self.in_order {
            // SAFETY: the owner frees the memory in the order of the stream in which the work over it is.
            each_width!(words, buffer => unsafe { buffer.release() });
        } else if let Some(cache) = &self.cache
            && !self.is_shared.load(Ordering::Relaxed)
        {
            cache.put(words);
        }
    }
}

/// Arrays that were copied on their way in, for tests.
static COPIES: AtomicU64 = AtomicU64::new(0);

/// How many arrays of devices were copied on their way in, because they were not aligned.
#[pyfunction]
pub(crate) fn copies() -> u64 {
    COPIES.load(Ordering::Relaxed)
}

#[pymethods]
impl Memory {
    /// Memory of `len` elements of `width` bytes, of any value.
    #[staticmethod]
    pub(crate) fn empty(py: Python<'_>, device: &Device, len: usize, width: usize) -> PyResult<Self> {
        check_not_forked()?;
        let (device, cache) = (device.get(), device.cache());
        let words = match cache.find(len, width) {
            Some(words) => words,
            None => py.detach(|| cache.alloc(device, len, width))?,
        };
        let mut memory = Self::new(words);
        memory.cache = Some(cache.clone());
        Ok(memory)
    }

    /// A copy of a NumPy array; complete on return.
    #[staticmethod]
    fn upload(py: Python<'_>, device: &Device, array: &Bound<'_, PyUntypedArray>) -> PyResult<Self> {
        check_not_forked()?;
        let (device, host) = (device.get().clone(), HostSlice::new(array)?);
        let words = py.detach(|| -> PyResult<Words> {
            let mut words = Words::alloc(&device, host.len, host.width)?;
            match &mut words {
                Words::W8(buffer) => buffer.copy_from(host.read()?),
                Words::W32(buffer) => buffer.copy_from(host.read()?),
                Words::W64(buffer) => buffer.copy_from(host.read()?),
            }
            .map_err(raise_runtime)?;
            Ok(words)
        })?;
        Ok(Self::new(words))
    }

    /// Copies everything to a NumPy array; complete on return.
    fn download(&self, py: Python<'_>, array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
        check_not_forked()?;
        let host = HostSlice::new(array)?;
        py.detach(|| match self.width {
            1 => self.read::<u8>()?.copy_to(host.write()?).map_err(raise_runtime),
            4 => self.read::<u32>()?.copy_to(host.write()?).map_err(raise_runtime),
            _ => self.read::<u64>()?.copy_to(host.write()?).map_err(raise_runtime),
        })
    }

    /// Memory of another library on the stream's device, as `__cuda_array_interface__` tells of it; `owner` keeps it.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
    fn import_raw(
        py: Python<'_>,
        address: usize,
        len: usize,
        width: usize,
        stream: &Stream,
        in_order: bool,
        readonly: bool,
        owner: Py<PyAny>,
    ) -> PyResult<Self> {
        check_not_forked()?;
        // SAFETY: the producer says that these are that many elements; its object is held. The front end has put the stream after
        // the producer's work.
        py.detach(|| unsafe { Self::foreign(stream, (address, len, width), (in_order, readonly), Box::new(owner)) })
    }

    fn __len__(&self) -> usize {
        self.len
    }

    /// The address of the first element; 0 if there is none.
    #[getter(address)]
    fn get_address(&self) -> usize {
        self.address
    }

    /// Bytes of an element.
    #[getter(width)]
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Makes a stream wait for the work that writes the array, and remembers that another library will use it there; or, if it is
    /// shared, in other streams that wait for this one.
    #[pyo3(signature = (stream, is_shared=false))]
    fn lend_on(&self, py: Python<'_>, stream: &Stream, is_shared: bool) -> PyResult<usize> {
        let on = stream.enter()?;
        if is_shared || !stream.is_kept() {
            self.share();
        }
        py.detach(|| self.lend(&on))
    }

    /// Remembers that another library will use the array in streams that nobody knows.
    fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// Whether another library may use the array in streams that nobody knows: its memory then waits for the device before others get it.
    #[getter]
    fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// Whether it may not be written.
    #[getter(readonly)]
    fn get_readonly(&self) -> bool {
        self.is_readonly()
    }
}
