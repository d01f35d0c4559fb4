//! Devices, pools of memory, and streams.

use crate::errors::{check_not_forked, raise_runtime, value_error};
use crate::words::Cache;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ops::Deref;
use lanetree::runtime::DeviceKind;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A device, or a handle of it whose memory comes from a pool.
#[pyclass(frozen, module = "lanetree._native")]
pub(crate) struct Device {
    device: lanetree::Device,
    /// `cuda:0`, `cpu`, `emulated`.
    name: String,
    /// The number of a GPU; 0 for other devices.
    ordinal: i32,
    /// Buffers of its memory for the next results.
    cache: Arc<Cache>,
    /// Streams whose handles live as long as the process: the default stream, and the streams of torch, which never
    /// frees them. One object per stream, shared by all handles of the device, so that it knows of all work in the
    /// stream.
    streams: Arc<Mutex<HashMap<usize, Py<Stream>>>>,
}

impl Device {
    pub(crate) fn get(&self) -> &lanetree::Device {
        &self.device
    }

    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Whether it is a GPU, and its number.
    pub(crate) fn number(&self) -> (bool, i32) {
        (self.device.kind() == DeviceKind::Cuda, self.ordinal)
    }
}

#[pymethods]
impl Device {
    /// The device of a kind: "cuda" with its ordinal, "cpu", or "emulated" with its seed. A GPU's memory comes from a pool.
    #[new]
    fn new(py: Python<'_>, kind: &str, number: u64) -> PyResult<Self> {
        check_not_forked()?;
        let name = if kind == "cuda" { format!("cuda:{number}") } else { kind.to_owned() };
        let device = match kind {
            "cpu" => lanetree::Device::host(),
            "cuda" => {
                let ordinal = u32::try_from(number).map_err(|_| value_error("no such GPU"))?;
                let device = py.detach(|| lanetree::Device::cuda(ordinal)).map_err(raise_runtime)?;
                // The driver's own allocation takes longer than most calls, and freeing waits for the GPU.
                lanetree::Pool::new(&device).device()
            }
            #[cfg(feature = "emulator")]
            "emulated" => lanetree::Device::emulated_with_seed(number),
            #[cfg(not(feature = "emulator"))]
            "emulated" => return Err(value_error("this build has no emulator: build it with `--features emulator`")),
            _ => {
                return Err(value_error(format!("no device \"{kind}\": there are \"cuda\", \"cpu\" and \"emulated\"")));
            }
        };
        let ordinal = if kind == "cuda" { i32::try_from(number).map_err(|_| value_error("no such GPU"))? } else { 0 };
        Ok(Self { device, name, ordinal, cache: Arc::default(), streams: Arc::default() })
    }

    /// Why there is no GPU; `None` if there is one.
    #[staticmethod]
    fn why_no_gpu(py: Python<'_>) -> PyResult<Option<String>> {
        check_not_forked()?;
        // Not of `Device::cuda`: the best one warns if there is a GPU.
        Ok(py.detach(lanetree::Device::best).why_no_gpu().map(ToString::to_string))
    }

    /// GPUs of this process.
    #[staticmethod]
    fn count(py: Python<'_>) -> PyResult<u32> {
        check_not_forked()?;
        // The driver counts from 0 without gaps.
        Ok(py.detach(|| (0..).find(|&ordinal| lanetree::Device::cuda(ordinal).is_err()).unwrap_or(0)))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn kind(&self) -> &'static str {
        match self.device.kind() {
            DeviceKind::Cuda => "cuda",
            DeviceKind::Host => "cpu",
            DeviceKind::Emulated => "emulated",
        }
    }

    #[getter]
    fn description(&self) -> String {
        self.device.to_string()
    }

    /// What the device is, by name.
    fn properties(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, Py<PyAny>>> {
        check_not_forked()?;
        let known = py.detach(|| self.device.properties()).map_err(raise_runtime)?;
        Ok(BTreeMap::from([
            ("name", known.name.into_pyobject(py)?.into_any().unbind()),
            ("multiprocessors", known.multiprocessors.into_pyobject(py)?.into_any().unbind()),
            ("l2_bytes", known.l2_bytes.into_pyobject(py)?.into_any().unbind()),
            ("compute_capability", known.compute_capability.into_pyobject(py)?.into_any().unbind()),
            ("total_memory", known.total_memory.into_pyobject(py)?.into_any().unbind()),
            ("driver_version", known.driver_version.into_pyobject(py)?.into_any().unbind()),
        ]))
    }

    /// Free and total bytes of its memory; 0 if unknown.
    fn memory(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        check_not_forked()?;
        let memory = py.detach(|| self.device.memory()).map_err(raise_runtime)?;
        Ok((memory.free, memory.total))
    }

    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        check_not_forked()?;
        py.detach(|| self.device.synchronize()).map_err(raise_runtime)
    }

    /// Gives memory that its pool caches back to the driver, and returns the bytes.
    fn trim(&self, py: Python<'_>) -> PyResult<usize> {
        check_not_forked()?;
        Ok(py.detach(|| {
            let kept = self.cache.clear();
            self.device.pool().map_or(kept, lanetree::Pool::trim)
        }))
    }

    /// What its pool holds and has done; `None` without one.
    fn pool_stats(&self) -> PyResult<Option<BTreeMap<&'static str, u64>>> {
        check_not_forked()?;
        let Some(stats) = self.device.pool().map(lanetree::Pool::stats) else { return Ok(None) };
        Ok(Some(BTreeMap::from([
            ("in_use", stats.in_use as u64),
            ("cached", stats.cached as u64),
            ("peak", stats.peak as u64),
            ("pinned_in_use", stats.pinned_in_use as u64),
            ("pinned_cached", stats.pinned_cached as u64),
            ("allocations", stats.allocations),
            ("reuses", stats.reuses),
            ("waits", stats.waits),
        ])))
    }

    /// A handle of this device whose memory comes from a new pool, of at most `limit` bytes.
    #[pyo3(signature = (limit=None))]
    fn with_pool(&self, limit: Option<usize>) -> PyResult<Self> {
        check_not_forked()?;
        let pool = match limit {
            Some(limit) => lanetree::Pool::with_limit(&self.device, limit),
            None => lanetree::Pool::new(&self.device),
        };
        let (ordinal, streams) = (self.ordinal, self.streams.clone());
        Ok(Self { device: pool.device(), name: self.name.clone(), ordinal, cache: Arc::default(), streams })
    }

    /// The stream of a handle (`CUstream`, 0 and 1 for the default stream), which outlives the object, and the process's other uses of
    /// it if it is kept. The per-thread default stream is never kept: its handle names another stream in each thread.
    #[pyo3(signature = (handle, is_kept=false))]
    pub(crate) fn stream(&self, py: Python<'_>, handle: usize, is_kept: bool) -> PyResult<Py<Stream>> {
        check_not_forked()?;
        let handle = Stream::canonical(handle);
        if handle == PER_THREAD {
            // SAFETY: the handle is valid in every thread. `On` alone uses it, in the thread of a native call: it records an event
            // there and lets it wait for one, so that no buffer or queue remembers it for another thread.
            let theirs = unsafe { self.device.stream_from_raw(core::ptr::with_exposed_provenance_mut(handle)) };
            let per_thread = Some(theirs.map_err(raise_runtime)?);
            let stream = self.device.stream().map_err(raise_runtime)?;
            return Py::new(py, Stream { stream, per_thread, handle, is_kept: false });
        }
        let mut known = self.streams.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = known.get(&handle) {
            return Ok(stream.clone_ref(py));
        }
        // SAFETY: the handle is the caller's, who is told that it outlives this object (`stream=` in the documentation); what else is
        // put into it over the memory of arrays has their addresses from `Memory::lend_on`.
        let stream = unsafe { self.device.stream_from_raw(core::ptr::with_exposed_provenance_mut::<c_void>(handle)) };
        let is_kept = is_kept || handle == 0;
        let stream = stream.map_err(raise_runtime)?;
        let stream = Py::new(py, Stream { stream, per_thread: None, handle, is_kept })?;
        if is_kept {
            known.insert(handle, stream.clone_ref(py));
        }
        Ok(stream)
    }

    /// Whether both are the same device, whatever pools they have.
    fn same(&self, other: &Self) -> bool {
        self.device == other.device
    }
}

/// The handle of the default stream of each thread (`CU_STREAM_PER_THREAD`).
const PER_THREAD: usize = 2;

/// A caller's stream, by its handle.
#[pyclass(frozen, module = "lanetree._native")]
pub(crate) struct Stream {
    /// The stream of the handle; for the per-thread default stream one of our own, which takes its place.
    stream: lanetree::Stream,
    /// The per-thread default stream, of whichever thread uses it.
    per_thread: Option<lanetree::Stream>,
    handle: usize,
    /// Whether the object lives as long as the process, and so knows of all work that is put into the stream.
    is_kept: bool,
}

/// A stream for the time of a native call, in the thread of the call. In place of the per-thread default stream it is one of our own,
/// which comes after the caller's work so far; when this is dropped, the caller's later work comes after it.
pub(crate) struct On<'a> {
    stream: &'a lanetree::Stream,
    per_thread: Option<&'a lanetree::Stream>,
    /// Is not sent to another thread, whose per-thread default stream is another one.
    _thread: PhantomData<MutexGuard<'a, ()>>,
}

impl<'a> On<'a> {
    /// The caller's stream, or the index's own.
    pub(crate) fn new(stream: Option<&'a Bound<'_, Stream>>, own: &'a lanetree::Stream) -> PyResult<Self> {
        match stream {
            Some(stream) => stream.get().enter(),
            None => Ok(Self { stream: own, per_thread: None, _thread: PhantomData }),
        }
    }
}

impl Deref for On<'_> {
    type Target = lanetree::Stream;

    fn deref(&self) -> &lanetree::Stream {
        self.stream
    }
}

impl Drop for On<'_> {
    fn drop(&mut self) {
        if let Some(theirs) = self.per_thread
            && put_after(theirs, self.stream).is_err()
        {
            // What is done is in order, too. The next call reports the error.
            let _ = self.stream.synchronize();
        }
    }
}

/// Lets later work in a stream wait for what is in another one now.
fn put_after(stream: &lanetree::Stream, other: &lanetree::Stream) -> lanetree::runtime::Result<()> {
    let event = stream.device().event()?;
    event.record(other)?;
    stream.wait(&event)
}

impl Stream {
    /// The stream for a native call.
    pub(crate) fn enter(&self) -> PyResult<On<'_>> {
        check_not_forked()?;
        if let Some(theirs) = &self.per_thread {
            put_after(&self.stream, theirs).map_err(raise_runtime)?;
        }
        Ok(On { stream: &self.stream, per_thread: self.per_thread.as_ref(), _thread: PhantomData })
    }

    /// A handle; 0 and 1 are both the default stream.
    fn canonical(handle: usize) -> usize {
        if handle == 1 { 0 } else { handle }
    }

    /// Whether it is the stream of a handle.
    pub(crate) fn has(&self, handle: usize) -> bool {
        self.handle == Self::canonical(handle)
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }
}

#[pymethods]
impl Stream {
    /// A new stream.
    #[new]
    fn new(device: &Device) -> PyResult<Self> {
        check_not_forked()?;
        let stream = device.device.stream().map_err(raise_runtime)?;
        let handle = stream.as_raw().addr();
        Ok(Self { stream, per_thread: None, handle, is_kept: false })
    }

    /// The handle; 0 for the default stream, and where there are no streams of a driver.
    #[getter]
    fn handle(&self) -> usize {
        if self.per_thread.is_some() { PER_THREAD } else { self.stream.as_raw().addr() }
    }

    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        let on = self.enter()?;
        py.detach(|| on.synchronize()).map_err(raise_runtime)
    }

    /// Lets later work in this stream wait for what is in the other one now.
    fn wait_for(&self, other: &Self) -> PyResult<()> {
        put_after(&*self.enter()?, &*other.enter()?).map_err(raise_runtime)
    }
}
