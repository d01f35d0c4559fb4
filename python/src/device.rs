//! Devices, pools of memory, and streams.

use crate::errors::{check_not_forked, raise_runtime, value_error};
use crate::memory::Cache;
use core::ffi::c_void;
use lanetree::runtime::DeviceKind;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A device, or a handle of it whose memory comes from a pool.
#[pyclass(frozen, module = "lanetree._native")]
pub(crate) struct Device {
    device: lanetree::Device,
    /// `cuda:0`, `cpu`, `emulated`.
    name: String,
    /// Buffers of its memory for the next results.
    cache: Arc<Cache>,
}

impl Device {
    pub(crate) fn get(&self) -> &lanetree::Device {
        &self.device
    }

    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
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
        Ok(Self { device, name, cache: Arc::default() })
    }

    /// Why there is no GPU; `None` if there is one.
    #[staticmethod]
    fn why_no_gpu(py: Python<'_>) -> PyResult<Option<String>> {
        check_not_forked()?;
        Ok(py.detach(|| lanetree::Device::cuda(0)).err().map(|error| error.to_string()))
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
    fn pool_stats(&self) -> Option<BTreeMap<&'static str, u64>> {
        let stats = self.device.pool()?.stats();
        Some(BTreeMap::from([
            ("in_use", stats.in_use as u64),
            ("cached", stats.cached as u64),
            ("peak", stats.peak as u64),
            ("pinned_in_use", stats.pinned_in_use as u64),
            ("pinned_cached", stats.pinned_cached as u64),
            ("allocations", stats.allocations),
            ("reuses", stats.reuses),
            ("waits", stats.waits),
        ]))
    }

    /// A handle of this device whose memory comes from a new pool, of at most `limit` bytes.
    #[pyo3(signature = (limit=None))]
    fn with_pool(&self, limit: Option<usize>) -> PyResult<Self> {
        check_not_forked()?;
        let pool = match limit {
            Some(limit) => lanetree::Pool::with_limit(&self.device, limit),
            None => lanetree::Pool::new(&self.device),
        };
        Ok(Self { device: pool.device(), name: self.name.clone(), cache: Arc::default() })
    }

    /// Whether both are the same device, whatever pools they have.
    fn same(&self, other: &Self) -> bool {
        self.device == other.device
    }
}

/// A stream: the library's own, or the caller's by its handle.
#[pyclass(frozen, module = "lanetree._native")]
pub(crate) struct Stream {
    stream: lanetree::Stream,
    device: lanetree::Device,
    /// Whether the object lives as long as the process, and so knows of all work that is put into the stream.
    is_kept: bool,
}

impl Stream {
    pub(crate) fn get(&self) -> &lanetree::Stream {
        &self.stream
    }

    pub(crate) fn device(&self) -> &lanetree::Device {
        &self.device
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }
}

#[pymethods]
impl Stream {
    /// The stream of a handle (`CUstream`, 0 for the default stream), which outlives this object; without one, a new stream.
    #[new]
    #[pyo3(signature = (device, handle=None, is_kept=false))]
    fn new(device: &Device, handle: Option<usize>, is_kept: bool) -> PyResult<Self> {
        check_not_forked()?;
        let device = device.device.clone();
        let stream = match handle {
            // SAFETY: the handle is the caller's, who is told that it outlives this object (`stream=` in the documentation); what
            // else is put into it over the memory of arrays has their addresses from `Memory::lend_on`.
            Some(handle) => unsafe { device.stream_from_raw(core::ptr::with_exposed_provenance_mut::<c_void>(handle)) },
            None => device.stream(),
        };
        Ok(Self { stream: stream.map_err(raise_runtime)?, device, is_kept })
    }

    /// The handle; 0 for the default stream, and where there are no streams of a driver.
    #[getter]
    fn handle(&self) -> usize {
        self.stream.as_raw().addr()
    }

    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        check_not_forked()?;
        py.detach(|| self.stream.synchronize()).map_err(raise_runtime)
    }

    /// Lets later work in this stream wait for what is in the other one now.
    fn wait_for(&self, other: &Self) -> PyResult<()> {
        check_not_forked()?;
        let wait = || {
            let event = self.device.event()?;
            event.record(&other.stream)?;
            self.stream.wait(&event)
        };
        wait().map_err(raise_runtime)
    }
}
