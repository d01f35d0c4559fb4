//! Arrays: of NumPy in host memory, and of a device.

use crate::device::{Device, Stream};
use crate::errors::{check_not_forked, is_forked, raise_runtime, value_error};
use bytemuck::Pod;
use core::ops::{Deref, DerefMut, Range};
use lanetree::Buffer;
use numpy::prelude::*;
use numpy::{PyArray1, PyUntypedArray};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// An array in host memory, of NumPy, whose object the caller of the call holds. What its elements are, the front end knows.
#[derive(Clone, Copy)]
pub(crate) struct HostSlice {
    start: *mut u8,
    len: usize,
    width: usize,
}

// SAFETY: an address. NumPy's arrays may be read by any thread; nobody changes them while a call reads them, which the
// documentation demands, as NumPy does for its own calls that release the GIL.
unsafe impl Send for HostSlice {}
// SAFETY: as above.
unsafe impl Sync for HostSlice {}

impl HostSlice {
    fn new(array: &Bound<'_, PyUntypedArray>) -> PyResult<Self> {
        if !array.is_c_contiguous() || array.ndim() != 1 {
            return Err(value_error("an array for the native code must be contiguous and of one dimension"));
        }
        // SAFETY: a live array.
        let start: *mut u8 = unsafe { (*array.as_array_ptr()).fields.data }.cast();
        let width = array.dtype().itemsize();
        if !start.addr().is_multiple_of(width.max(1)) {
            return Err(value_error("an array for the native code must be aligned"));
        }
        Ok(Self { start, len: array.len(), width })
    }

    fn start_of<T: Pod>(self) -> PyResult<*mut T> {
        match size_of::<T>() {
            0 => Ok(core::ptr::dangling_mut()),
            width if width != self.width => Err(wrong_width(width, self.width)),
            _ if self.len == 0 => Ok(core::ptr::dangling_mut()),
            _ => Ok(self.start.cast()),
        }
    }

    /// The elements as words of their size, or, without a size, as units.
    fn read<'a, T: Pod>(self) -> PyResult<&'a [T]> {
        // SAFETY: that many elements of this size, aligned; the array is held by the caller of the call.
        Ok(unsafe { core::slice::from_raw_parts(self.start_of()?, self.len) })
    }

    /// The elements of a range, none of which is past the end.
    fn part(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len);
        Self { start: self.start.wrapping_add(range.start * self.width), len: range.len(), width: self.width }
    }

    /// The elements, to write.
    fn write<'a, T: Pod>(self) -> PyResult<&'a mut [T]> {
        // SAFETY: as in `read`. The front end passes arrays that it has made itself, or the caller's `out`, which it has
        // found to be writable and to share no memory with the inputs or with each other (`_outputs`).
        Ok(unsafe { core::slice::from_raw_parts_mut(self.start_of()?, self.len) })
    }
}

fn wrong_width(expected: usize, actual: usize) -> PyErr {
    PyTypeError::new_err(format!("elements of {actual} bytes, where {expected} are needed"))
}

/// What a device's array is made of: words of 1, 4 or 8 bytes.
pub(crate) enum Words {
    W8(Buffer<u8>),
    W32(Buffer<u32>),
    W64(Buffer<u64>),
}

macro_rules! each {
    ($words:expr, $buffer:ident => $result:expr) => {
        match $words {
            Words::W8($buffer) => $result,
            Words::W32($buffer) => $result,
            Words::W64($buffer) => $result,
        }
    };
}

impl From<Buffer<u8>> for Words {
    fn from(buffer: Buffer<u8>) -> Self {
        Self::W8(buffer)
    }
}
impl From<Buffer<u32>> for Words {
    fn from(buffer: Buffer<u32>) -> Self {
        Self::W32(buffer)
    }
}
impl From<Buffer<u64>> for Words {
    fn from(buffer: Buffer<u64>) -> Self {
        Self::W64(buffer)
    }
}

impl Words {
    fn alloc(device: &lanetree::Device, len: usize, width: usize) -> PyResult<Self> {
        match width {
            1 => device.alloc(len).map(Self::W8),
            4 => device.alloc(len).map(Self::W32),
            8 => device.alloc(len).map(Self::W64),
            _ => return Err(value_error(format!("no elements of {width} bytes"))),
        }
        .map_err(raise_runtime)
    }

    fn len(&self) -> usize {
        each!(self, buffer => buffer.len())
    }

    fn bytes(&self) -> usize {
        self.len() * self.width()
    }

    pub(crate) fn read<T: Pod>(&self) -> PyResult<&Buffer<T>> {
        let width = self.width();
        each!(self, buffer => buffer.cast_ref()).ok_or_else(|| wrong_width(size_of::<T>(), width))
    }

    pub(crate) fn write<T: Pod>(&mut self) -> PyResult<&mut Buffer<T>> {
        let width = self.width();
        each!(self, buffer => buffer.cast_mut()).ok_or_else(|| wrong_width(size_of::<T>(), width))
    }

    fn width(&self) -> usize {
        match self {
            Self::W8(_) => 1,
            Self::W32(_) => 4,
            Self::W64(_) => 8,
        }
    }
}

/// Buffers that earlier calls had, for the next ones of the same size. A pool hands memory out again only when the device has been
/// waited for; a buffer knows which streams use it, so it is used again at once, and the next stream waits.
#[derive(Default)]
pub(crate) struct Cache {
    /// The last one is the one that came back last.
    free: Mutex<VecDeque<Words>>,
    /// 0, 1, 2 and so on: the rows of probes, for joins.
    numbers: Mutex<Option<Arc<Buffer<u64>>>>,
}

impl Cache {
    /// The most buffers, and the most bytes of all.
    const MOST: (usize, usize) = (16, 1 << 30);

    fn free(&self) -> MutexGuard<'_, VecDeque<Words>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer that it keeps.
    fn find(&self, len: usize, width: usize) -> Option<Words> {
        let mut free = self.free();
        let last = free.iter().rposition(|words| (words.len(), words.width()) == (len, width));
        last.and_then(|at| free.remove(at))
    }

    pub(crate) fn alloc(&self, device: &lanetree::Device, len: usize, width: usize) -> PyResult<Words> {
        match self.find(len, width) {
            Some(words) => Ok(words),
            None => Words::alloc(device, len, width).or_else(|error| {
                // There may be room without what is kept here.
                if self.clear() == 0 { Err(error) } else { Words::alloc(device, len, width) }
            }),
        }
    }

    /// Keeps a buffer, which no other library uses in a stream that it does not know.
    pub(crate) fn put(&self, words: Words) {
        let mut dropped = Vec::new();
        let mut free = self.free();
        free.push_back(words);
        let mut bytes: usize = free.iter().map(Words::bytes).sum();
        while free.len() > Self::MOST.0 || bytes > Self::MOST.1 {
            let Some(oldest) = free.pop_front() else { break };
            bytes -= oldest.bytes();
            dropped.push(oldest);
        }
        drop(free);
    }

    /// The numbers from 0 on, `len` or more. Made at the first call and when more are needed.
    pub(crate) fn numbers(&self, device: &lanetree::Device, len: usize) -> PyResult<Arc<Buffer<u64>>> {
        /// Numbers that the host makes at a time.
        const PIECE: usize = 1 << 20;
        let mut known = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(numbers) = known.as_ref().filter(|numbers| numbers.len() >= len) {
            return Ok(numbers.clone());
        }
        *known = None;
        let mut numbers = device.alloc::<u64>(len).map_err(raise_runtime)?;
        for start in (0..len).step_by(PIECE) {
            let piece: Vec<u64> = (start..len.min(start + PIECE)).map(|number| number as u64).collect();
            numbers.copy_range_from(start, &piece).map_err(raise_runtime)?;
        }
        Ok(known.insert(Arc::new(numbers)).clone())
    }

    /// Frees what it keeps, and returns the bytes.
    pub(crate) fn clear(&self) -> usize {
        let free = core::mem::take(&mut *self.free());
        let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner).take();
        free.iter().map(Words::bytes).sum::<usize>() + numbers.map_or(0, |numbers| numbers.bytes())
    }
}

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
        let (len, address) = each!(&words, buffer => (buffer.len(), buffer.addresses().start));
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

    pub(crate) fn read(&self) -> PyResult<InUse<RwLockReadGuard<'_, Option<Words>>>> {
        let words = self.words.try_read().map_err(|_| in_use())?;
        Ok(InUse { words, _lease: Lease::new(self.range(), false)? })
    }

    pub(crate) fn write(&self) -> PyResult<InUse<RwLockWriteGuard<'_, Option<Words>>>> {
        if self.readonly {
            return Err(value_error("the output array is read-only"));
        }
        if self.is_copy {
            return Err(value_error(
                "the output array does not begin at a multiple of 256 bytes, so kernels cannot write to it: pass one that is no slice",
            ));
        }
        let words = self.words.try_write().map_err(|_| in_use())?;
        Ok(InUse { words, _lease: Lease::new(self.range(), true)? })
    }

    pub(crate) fn is_readonly(&self) -> bool {
        self.readonly && !self.is_copy
    }

    /// The address, for work that another library puts into a stream after what is in it by then.
    pub(crate) fn lend(&self, stream: &lanetree::Stream) -> PyResult<usize> {
        let mut words = self.words.try_write().map_err(|_| in_use())?;
        let Some(words) = &mut *words else { return Err(closed()) };
        each!(words, buffer => buffer.lend_mut_on(stream).map(|at| at.expose_provenance())).map_err(raise_runtime)
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

/// An array's words in use.
pub(crate) struct InUse<G> {
    words: G,
    _lease: Lease,
}

impl<G: Deref<Target = Option<Words>>> Deref for InUse<G> {
    type Target = Option<Words>;

    fn deref(&self) -> &Option<Words> {
        &self.words
    }
}

impl<G: DerefMut<Target = Option<Words>>> DerefMut for InUse<G> {
    fn deref_mut(&mut self) -> &mut Option<Words> {
        &mut self.words
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
            each!(words, buffer => unsafe { buffer.release() });
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
        py.detach(|| match &*self.read()? {
            Some(Words::W8(buffer)) => buffer.copy_to(host.write()?).map_err(raise_runtime),
            Some(Words::W32(buffer)) => buffer.copy_to(host.write()?).map_err(raise_runtime),
            Some(Words::W64(buffer)) => buffer.copy_to(host.write()?).map_err(raise_runtime),
            None => Err(closed()),
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

/// An input of a call: an array of NumPy, or of a device.
pub(crate) enum Input<'py> {
    Host(HostSlice),
    Device(Bound<'py, Memory>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Input<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(memory) = object.cast::<Memory>() {
            return Ok(Self::Device(memory.to_owned()));
        }
        Ok(Self::Host(HostSlice::new(&*object.cast::<PyUntypedArray>()?)?))
    }
}

/// An input, for a thread that does not hold the GIL.
#[derive(Clone, Copy)]
pub(crate) enum In<'a> {
    Host(HostSlice),
    Device(&'a Memory),
}

impl Input<'_> {
    pub(crate) fn get(&self) -> In<'_> {
        match self {
            Self::Host(slice) => In::Host(*slice),
            Self::Device(memory) => In::Device(memory.get()),
        }
    }
}

impl<'a> In<'a> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Host(slice) => slice.len,
            Self::Device(memory) => memory.len(),
        }
    }

    /// The elements of a range, none of which is past the end, in host memory; all elements of a device.
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        match self {
            Self::Host(slice) => Self::Host(slice.part(range)),
            Self::Device(_) => self,
        }
    }

    /// The elements in host memory.
    pub(crate) fn host<T: Pod>(self) -> PyResult<&'a [T]> {
        match self {
            Self::Host(slice) => slice.read(),
            Self::Device(_) => Err(mixed()),
        }
    }

    pub(crate) fn host_mut<T: Pod>(self) -> PyResult<&'a mut [T]> {
        match self {
            Self::Host(slice) => slice.write(),
            Self::Device(_) => Err(mixed()),
        }
    }

    pub(crate) fn device(self) -> PyResult<&'a Memory> {
        match self {
            Self::Host(_) => Err(mixed()),
            Self::Device(memory) => Ok(memory),
        }
    }

    pub(crate) fn is_device(self) -> bool {
        matches!(self, Self::Device(_))
    }
}

fn mixed() -> PyErr {
    PyTypeError::new_err("arrays of NumPy and arrays of a device in one call: use one kind for all")
}

/// A vector as an array of NumPy, without a copy.
pub(crate) fn numpy<'py, T: numpy::Element>(py: Python<'py>, elements: Vec<T>) -> Bound<'py, PyArray1<T>> {
    PyArray1::from_vec(py, elements)
}
