//! The index of intervals behind one interface, whatever its bounds and rows are.

use crate::arguments::{Found, Sizes};
use crate::buffers::alloc;
use crate::class::{Place, class, with_all_types};
use crate::errors::raise;
use crate::host::numpy;
use crate::input::{In, Input};
use crate::join;
use crate::keys::{Keys, found_rows, in_two, values_on};
use crate::memory::Memory;
use crate::results::put_numbers;
use crate::types::{PyKey, PyValue, check_len, gather, key_words};
use lanetree::intervals::{DeviceRows, Scratch};
use lanetree::{AnyKey, Buffer, IntervalIndex, Stream, Word};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

class! {
    /// An index of intervals. Probes are points if they have no highs.
    Intervals over AnyIntervals, by build(key: &str, bounds: [Input; 2], rows: Input, row_bytes: usize);

    /// The row of the most specific interval around each point, and whether there is one.
    read most_specific(points: Input, miss: u64) -> Found;
    /// All intervals around points, or that overlap ranges: offsets, nothing, and rows.
    read find(lows: Input, highs: Option<Input>) -> Found;
    read count(lows: Input, highs: Option<Input>, counts: Input) -> ();
    /// Starts, ends and rows, the most specific interval first.
    read intervals() -> Found;
    {}
}

struct Typed<K: PyKey, V: Word> {
    index: IntervalIndex<K, V>,
    keys: Keys,
}

impl<K: PyKey, V: Word + PyValue + AnyKey> Typed<K, V> {
    /// Calls a function with a device's probes as the index has them.
    fn with_probes<R>(
        &self,
        lows: In<'_>,
        highs: Option<In<'_>>,
        stream: &Stream,
        call: impl FnOnce(&Buffer<K>, Option<&Buffer<K>>) -> PyResult<R>,
    ) -> PyResult<R> {
        match highs {
            None => self.keys.on(stream, lows, |lows| call(lows, None)),
            Some(highs) => self.keys.both_on(stream, [lows, highs], |lows, highs| call(lows, Some(highs))),
        }
    }
}

impl<K: PyKey, V: Word + PyValue + AnyKey> AnyIntervals for Typed<K, V> {
    fn device(&self) -> &lanetree::Device {
        &self.keys.device
    }

    fn sizes(&self) -> Sizes {
        Sizes::from([("len", self.index.len()), ("bytes", self.index.bytes())])
    }

    fn most_specific(&self, points: In<'_>, miss: u64, stream: &Stream) -> PyResult<Found> {
        let (device, count, miss) = (&self.keys.device, points.len(), <V as PyValue>::truncate(miss));
        if !points.is_device() {
            let rows = self.index.most_specific_many(&self.keys.host(points)?).map_err(raise)?;
            let found = gather(count, rows.iter().map(Option::is_some))?;
            let rows = gather(count, rows.iter().map(|row| row.unwrap_or(miss)))?;
            return Ok(Found::host(move |py| Ok([V::array(py, rows), numpy(py, found), py.None()])));
        }
        let (mut rows, mut hits) = (alloc(device, count)?, alloc(device, count.div_ceil(32))?);
        let mut scratch = Scratch::new(device, count).map_err(raise)?;
        self.keys.on(stream, points, |points| {
            let on = self.index.on(stream);
            on.hits(&mut hits).miss(miss).most_specific(points, &mut rows, &mut scratch).map_err(raise)
        })?;
        Ok(Found::device(Memory::new(key_words(rows)?), Some(join::bytes_of(stream, &hits, count)?), None))
    }

    fn find(&self, lows: In<'_>, highs: Option<In<'_>>, stream: &Stream) -> PyResult<Found> {
        let (device, count) = (&self.keys.device, lows.len());
        if !lows.is_device() {
            let found = match highs {
                None => self.index.stab_many(&self.keys.host(lows)?),
                Some(highs) => self.index.overlap_many(&self.keys.host(lows)?, &self.keys.host(highs)?),
            };
            return Ok(found_rows(found.map_err(raise)?));
        }
        let found = self.with_probes(lows, highs, stream, |lows, highs| {
            let mut scratch = Scratch::new(device, count).map_err(raise)?;
            let find = |out: &mut DeviceRows<V>| match highs {
                None => self.index.on(stream).stab(lows, &mut scratch, out),
                Some(highs) => self.index.on(stream).overlap(lows, highs, &mut scratch, out),
            };
            let grow = |out: &mut DeviceRows<V>, total| {
                out.rows = device.alloc(total)?;
                Ok(())
            };
            in_two(DeviceRows::new(device, count, 0).map_err(raise)?, find, |out| (&out.offsets, count), grow)
        })?;
        Ok(Found::device(Memory::new(found.offsets), None, V::memory(found.rows)))
    }

    fn count(&self, lows: In<'_>, highs: Option<In<'_>>, counts: In<'_>, stream: &Stream) -> PyResult<()> {
        if !lows.is_device() {
            let found = match highs {
                None => self.index.count_many(&self.keys.host(lows)?),
                Some(highs) => self.index.count_overlaps_many(&self.keys.host(lows)?, &self.keys.host(highs)?),
            };
            return put_numbers(found, counts);
        }
        let mut counts = counts.write()?;
        let mut scratch = Scratch::new(&self.keys.device, lows.len()).map_err(raise)?;
        self.with_probes(lows, highs, stream, |lows, highs| {
            match highs {
                None => self.index.on(stream).count(lows, &mut counts, &mut scratch),
                Some(highs) => self.index.on(stream).count_overlaps(lows, highs, &mut counts, &mut scratch),
            }
            .map_err(raise)
        })
    }

    fn intervals(&self, _: &Stream) -> PyResult<Found> {
        let (mut starts, mut ends, rows) = self.index.intervals().map_err(raise)?;
        self.keys.give(&mut starts);
        self.keys.give(&mut ends);
        Ok(Found::host(move |py| Ok([K::numpy(py, starts), K::numpy(py, ends), V::array(py, rows)])))
    }
}

fn build(
    place: &Place<'_>,
    key: &str,
    bounds: [In<'_>; 2],
    rows: In<'_>,
    row_bytes: usize,
) -> PyResult<Box<dyn AnyIntervals>> {
    let form = Keys::new(place, key);
    let built = with_all_types!(key, row_bytes, [4 u32, 8 u64], build_of::<K, V>(place.stream, form, bounds, rows));
    built
        .unwrap_or_else(|| Err(PyTypeError::new_err(format!("no index of bounds {key} and rows of {row_bytes} bytes"))))
}

fn build_of<K: PyKey, V: Word + PyValue + AnyKey>(
    stream: &Stream,
    keys: Keys,
    bounds: [In<'_>; 2],
    rows: In<'_>,
) -> PyResult<Box<dyn AnyIntervals>> {
    let len = bounds[0].len();
    check_len(len, bounds[1].len())?;
    check_len(len, rows.len())?;
    let rows = values_on(&keys.device, len, Some(rows))?;
    let index = keys.both_on(stream, bounds, |starts, ends| {
        IntervalIndex::<K, V>::build_on(stream, starts, ends, Some(&rows), len).map_err(raise)
    })?;
    Ok(Box::new(Typed { index, keys }))
}
