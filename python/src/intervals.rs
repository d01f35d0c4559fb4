//! The index of intervals behind one interface, whatever its bounds and rows are.

use crate::device::{Device, On, Stream};
use crate::errors::{check_not_forked, raise, raise_runtime};
use crate::held::Held;
use crate::join;
use crate::memory::{In, Input, Memory, closed, numpy};
use crate::multi::{with_keys, with_values};
use crate::types::{Found, PyKey, PyValue, check_len, gather, key_words, ordered};
use lanetree::intervals::{DeviceRows, Scratch};
use lanetree::{AnyKey, Buffer, IntervalIndex, JoinRows, Word};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::borrow::Cow;

/// An index of intervals, whatever its types are. Calls run without the GIL. Probes are points if they have no highs.
trait AnyIntervals: Send + Sync {
    fn device(&self) -> &lanetree::Device;
    fn len(&self) -> u64;
    fn bytes(&self) -> u64;
    /// The row of the most specific interval around each point, and whether there is one.
    fn most_specific(&self, points: In<'_>, miss: u64, stream: &lanetree::Stream) -> PyResult<Found>;
    /// Offsets and rows.
    fn find(&self, lows: In<'_>, highs: Option<In<'_>>, stream: &lanetree::Stream) -> PyResult<Found>;
    fn count(&self, lows: In<'_>, highs: Option<In<'_>>, counts: In<'_>, stream: &lanetree::Stream) -> PyResult<()>;
    /// Starts, ends and rows.
    fn intervals(&self) -> PyResult<Found>;
}

struct Typed<K: PyKey, V: Word> {
    index: IntervalIndex<K, V>,
    floats: bool,
}

impl<K: PyKey, V: Word + PyValue + AnyKey> Typed<K, V> {
    /// Keys of NumPy as the index has them.
    fn keys<'a>(&self, keys: In<'a>) -> PyResult<Cow<'a, [K]>> {
        let keys = keys.host::<K>()?;
        Ok(if self.floats { ordered(keys)?.into() } else { keys.into() })
    }

    /// Calls a function with a device's probes as the index has them.
    fn with_probes<R>(
        &self,
        (lows, highs): (In<'_>, Option<In<'_>>),
        stream: &lanetree::Stream,
        call: impl FnOnce(&Buffer<K>, Option<&Buffer<K>>) -> PyResult<R>,
    ) -> PyResult<R> {
        let device = self.index.device();
        with_keys(device, self.floats, lows, stream, |lows| match highs {
            None => call(lows, None),
            Some(highs) => with_keys(device, self.floats, highs, stream, |highs| call(lows, Some(highs))),
        })
    }
}

impl<K: PyKey, V: Word + PyValue + AnyKey> AnyIntervals for Typed<K, V> {
    fn device(&self) -> &lanetree::Device {
        self.index.device()
    }

    fn len(&self) -> u64 {
        self.index.len()
    }

    fn bytes(&self) -> u64 {
        self.index.bytes()
    }

    fn most_specific(&self, points: In<'_>, miss: u64, stream: &lanetree::Stream) -> PyResult<Found> {
        let (device, count, miss) = (self.index.device(), points.len(), <V as PyValue>::truncate(miss));
        if !points.is_device() {
            let rows = self.index.most_specific_many(&self.keys(points)?).map_err(raise)?;
            let found = gather(count, rows.iter().map(Option::is_some))?;
            let rows = gather(count, rows.iter().map(|row| row.unwrap_or(miss)))?;
            return Ok(Found::Host(Box::new(move |py| {
                [V::array(py, rows), numpy(py, found).into_any().unbind(), py.None()]
            })));
        }
        let mut rows = device.alloc(count).map_err(raise_runtime)?;
        let mut hits = device.alloc(count.div_ceil(32)).map_err(raise_runtime)?;
        let mut scratch = Scratch::new(device, count).map_err(raise)?;
        self.with_probes((points, None), stream, |points, _| {
            let on = self.index.on(stream);
            on.hits(&mut hits).miss(miss).most_specific(points, &mut rows, &mut scratch).map_err(raise)
        })?;
        Ok(Found::Device(Box::new((Memory::new(key_words(rows)), join::bytes_of(stream, &hits, count)?, None))))
    }

    fn find(&self, lows: In<'_>, highs: Option<In<'_>>, stream: &lanetree::Stream) -> PyResult<Found> {
        if !lows.is_device() {
            let found = match highs {
                None => self.index.stab_many(&self.keys(lows)?),
                Some(highs) => self.index.overlap_many(&self.keys(lows)?, &self.keys(highs)?),
            };
            let JoinRows { offsets, rows, .. } = found.map_err(raise)?;
            return Ok(Found::Host(Box::new(move |py| {
                let offsets = bytemuck::allocation::cast_vec::<u64, i64>(offsets);
                [numpy(py, offsets).into_any().unbind(), V::array(py, rows), py.None()]
            })));
        }
        let (device, count) = (self.index.device(), lows.len());
        let find = |lows: &Buffer<K>, highs: Option<&Buffer<K>>| -> lanetree::Result<DeviceRows<V>> {
            let mut scratch = Scratch::new(device, count)?;
            let mut run = |out: &mut DeviceRows<V>| match highs {
                None => self.index.on(stream).stab(lows, &mut scratch, out),
                Some(highs) => self.index.on(stream).overlap(lows, highs, &mut scratch, out),
            };
            // Offsets alone, which say how many intervals there are.
            let mut out = DeviceRows::new(device, count, 0)?;
            run(&mut out)?;
            let mut total = [0];
            out.offsets.copy_range_to(count, &mut total)?;
            out.rows = device.alloc(total[0] as usize)?;
            run(&mut out)?;
            Ok(out)
        };
        let out = self.with_probes((lows, highs), stream, |lows, highs| find(lows, highs).map_err(raise))?;
        Ok(Found::Device(Box::new((Memory::new(out.offsets), Memory::new(key_words(out.rows)), None))))
    }

    fn count(&self, lows: In<'_>, highs: Option<In<'_>>, counts: In<'_>, stream: &lanetree::Stream) -> PyResult<()> {
        if !lows.is_device() {
            let found = match highs {
                None => self.index.count_many(&self.keys(lows)?),
                Some(highs) => self.index.count_overlaps_many(&self.keys(lows)?, &self.keys(highs)?),
            };
            let (found, counts) = (found.map_err(raise)?, counts.host_mut::<u64>()?);
            check_len(found.len(), counts.len())?;
            counts.copy_from_slice(&found);
            return Ok(());
        }
        let mut counts = counts.device()?.write()?;
        let counts = counts.as_mut().ok_or_else(closed)?.write::<u64>()?;
        let mut scratch = Scratch::new(self.index.device(), lows.len()).map_err(raise)?;
        self.with_probes((lows, highs), stream, |lows, highs| {
            match highs {
                None => self.index.on(stream).count(lows, counts, &mut scratch),
                Some(highs) => self.index.on(stream).count_overlaps(lows, highs, counts, &mut scratch),
            }
            .map_err(raise)
        })
    }

    fn intervals(&self) -> PyResult<Found> {
        let (mut starts, mut ends, rows) = self.index.intervals().map_err(raise)?;
        if self.floats {
            starts.iter_mut().chain(&mut ends).for_each(|bound| *bound = bound.unorder());
        }
        Ok(Found::Host(Box::new(move |py| {
            [numpy(py, starts).into_any().unbind(), numpy(py, ends).into_any().unbind(), V::array(py, rows)]
        })))
    }
}

fn build<K: PyKey, V: Word + PyValue + AnyKey>(
    device: &lanetree::Device,
    floats: bool,
    (starts, ends, rows): (In<'_>, In<'_>, In<'_>),
    stream: &lanetree::Stream,
) -> PyResult<Box<dyn AnyIntervals>> {
    let len = starts.len();
    check_len(len, ends.len())?;
    check_len(len, rows.len())?;
    let index = with_keys(device, floats, starts, stream, |starts| {
        with_keys(device, floats, ends, stream, |ends| {
            with_values(device, rows, |rows| {
                IntervalIndex::<K, V>::build_on(stream, starts, ends, Some(rows), len).map_err(raise)
            })
        })
    })?;
    Ok(Box::new(Typed { index, floats }))
}

/// An index of intervals.
#[pyclass(frozen, module = "lanetree._native")]
pub(crate) struct Intervals {
    index: Held<Box<dyn AnyIntervals>>,
    /// The stream of calls that name none.
    stream: lanetree::Stream,
}

impl Intervals {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        stream: Option<&Bound<'_, Stream>>,
        call: impl FnOnce(&dyn AnyIntervals, &lanetree::Stream) -> PyResult<R> + Send,
    ) -> PyResult<R> {
        let on = On::new(stream, &self.stream)?;
        self.index.read(py, |index| call(&**index, &on))
    }
}

#[pymethods]
impl Intervals {
    /// An index over bounds ("u32", "u64", "i32", "i64", "f32", "f64") and rows of 32 or 64 bits.
    #[new]
    #[pyo3(signature = (device, key, starts, ends, rows, row_bytes, stream=None))]
    #[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
    fn new(
        py: Python<'_>,
        device: &Device,
        key: &str,
        starts: Input<'_>,
        ends: Input<'_>,
        rows: Input<'_>,
        row_bytes: usize,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<Self> {
        check_not_forked()?;
        let device = device.get();
        let own = device.stream().map_err(raise_runtime)?;
        let on = On::new(stream, &own)?;
        let (arrays, floats) = ((starts.get(), ends.get(), rows.get()), key.starts_with('f'));
        let build = match (key, row_bytes) {
            ("u32" | "f32", 4) => build::<u32, u32>,
            ("u32" | "f32", 8) => build::<u32, u64>,
            ("i32", 4) => build::<i32, u32>,
            ("i32", 8) => build::<i32, u64>,
            ("u64" | "f64", 4) => build::<u64, u32>,
            ("u64" | "f64", 8) => build::<u64, u64>,
            ("i64", 4) => build::<i64, u32>,
            ("i64", 8) => build::<i64, u64>,
            _ => return Err(PyTypeError::new_err(format!("no index of bounds {key} and rows of {row_bytes} bytes"))),
        };
        let index = py.detach(|| build(device, floats, arrays, &on))?;
        let stream = index.device().stream().map_err(raise_runtime)?;
        Ok(Self { index: Held::new(index), stream })
    }

    /// Rows, and whether there is one.
    #[pyo3(signature = (points, miss, stream=None))]
    fn most_specific(
        &self,
        py: Python<'_>,
        points: Input<'_>,
        miss: u64,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<[Py<PyAny>; 3]> {
        let points = points.get();
        self.with(py, stream, |index, stream| index.most_specific(points, miss, stream))?.objects(py)
    }

    /// All intervals around points, or that overlap ranges: offsets and rows.
    #[pyo3(signature = (lows, highs, stream=None))]
    fn find(
        &self,
        py: Python<'_>,
        lows: Input<'_>,
        highs: Option<Input<'_>>,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<[Py<PyAny>; 3]> {
        let (lows, highs) = (lows.get(), highs.as_ref().map(Input::get));
        self.with(py, stream, |index, stream| index.find(lows, highs, stream))?.objects(py)
    }

    #[pyo3(signature = (lows, highs, counts, stream=None))]
    fn count(
        &self,
        py: Python<'_>,
        lows: Input<'_>,
        highs: Option<Input<'_>>,
        counts: Input<'_>,
        stream: Option<&Bound<'_, Stream>>,
    ) -> PyResult<()> {
        let (lows, highs, counts) = (lows.get(), highs.as_ref().map(Input::get), counts.get());
        self.with(py, stream, |index, stream| index.count(lows, highs, counts, stream))
    }

    /// Starts, ends and rows, the most specific interval first.
    fn intervals(&self, py: Python<'_>) -> PyResult<[Py<PyAny>; 3]> {
        self.with(py, None, |index, _| index.intervals())?.objects(py)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, None, |index, _| Ok(index.len() as usize))
    }

    /// Bytes of the device's memory that it takes.
    #[getter]
    fn bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, None, |index, _| Ok(index.bytes()))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.index.close(py)
    }

    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.index.is_closed(py)
    }
}
