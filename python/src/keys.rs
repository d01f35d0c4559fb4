//! Keys between NumPy or a device's arrays and the indexes, and what is found there.

use crate::arguments::{By, Found};
use crate::buffers::alloc;
use crate::class::Place;
use crate::errors::{raise, raise_runtime};
use crate::host::numpy;
use crate::input::In;
use crate::memory::{Memory, Reading};
use crate::types::{PyKey, PyValue, check_len, inclusive, key_words, ordered, owned};
use crate::words::Cache;
use bytemuck::Pod;
use core::ops::Deref;
use lanetree::bindings::parallel::*;
use lanetree::bindings::{JoinBounds, TASK};
use lanetree::{Buffer, Closed, DeviceRanges, JoinRows, KeyRange, Ranges, Stream, Value};
use pyo3::PyResult;
use std::borrow::Cow;
use std::sync::Arc;

/// How an index has keys, and memory of its calls on a device.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) device: lanetree::Device,
    /// Whether the index has keys in another form than NumPy: floats, and 16 bytes.
    pub(crate) is_other: bool,
    pub(crate) cache: Arc<Cache>,
}

impl Keys {
    /// Of an index of keys of the type of this name.
    pub(crate) fn new(place: &Place<'_>, key: &str) -> Self {
        Self { device: place.device.clone(), is_other: is_other(key), cache: place.cache.clone() }
    }

    /// Keys of NumPy as the index has them.
    pub(crate) fn host<'a, K: PyKey>(&self, keys: In<'a>) -> PyResult<Cow<'a, [K]>> {
        let keys = keys.host::<K>()?;
        Ok(if self.is_other { ordered(keys)?.into() } else { keys.into() })
    }

    /// The inclusive bounds of ranges or bands as the index has them; those that can have no key end before they start.
    pub(crate) fn bounds<'a, K: PyKey>(&self, [lows, highs]: [In<'a>; 2], by: By) -> PyResult<[Cow<'a, [K]>; 2]> {
        let (mut lows, mut highs) = (self.host(lows)?, self.host(highs)?);
        check_len(lows.len(), highs.len())?;
        match by {
            By::Ranges(Closed::Both) => {}
            By::Ranges(closed) => inclusive(owned(&mut lows)?, owned(&mut highs)?, closed),
            By::Bands(distance) => {
                let bounds = JoinBounds::of_bands(distance).and_then(|bounds| bounds.on_host(&lows, &highs));
                let (firsts, lasts) = bounds.map_err(raise)?;
                return Ok([firsts.into(), lasts.into()]);
            }
        }
        Ok([lows, highs])
    }

    /// Keys of the index as NumPy has them, in place.
    pub(crate) fn give<K: PyKey>(&self, keys: &mut [K]) {
        if self.is_other {
            keys.par_chunks_mut(TASK).for_each(|keys| keys.iter_mut().for_each(|key| *key = key.unorder()));
        }
    }

    /// Calls a function with a device's keys as the index has them; keys in host memory are copied there.
    pub(crate) fn on<K: PyKey, R>(
        &self,
        stream: &Stream,
        keys: In<'_>,
        call: impl FnOnce(&Buffer<K>) -> PyResult<R>,
    ) -> PyResult<R> {
        if !keys.is_device() {
            return call(&self.device.upload(&self.host::<K>(keys)?).map_err(raise_runtime)?);
        }
        let words = keys.read::<K>()?;
        if !self.is_other {
            return call(&words);
        }
        let mut own = self.cache.alloc(&self.device, words.len(), size_of::<K>())?;
        K::order_on(stream, &words, own.write::<K>()?)?;
        let result = call(own.read()?);
        self.cache.put(own);
        result
    }

    /// The same with two columns of keys.
    pub(crate) fn both_on<K: PyKey, R>(
        &self,
        stream: &Stream,
        [first, second]: [In<'_>; 2],
        call: impl FnOnce(&Buffer<K>, &Buffer<K>) -> PyResult<R>,
    ) -> PyResult<R> {
        self.on(stream, first, |first| self.on(stream, second, |second| call(first, second)))
    }

    /// The same with the inclusive bounds of ranges.
    pub(crate) fn bounds_on<K: PyKey, R>(
        &self,
        stream: &Stream,
        bounds: [In<'_>; 2],
        closed: Closed,
        call: impl FnOnce(&Buffer<K>, &Buffer<K>) -> PyResult<R>,
    ) -> PyResult<R> {
        let count = bounds[0].len();
        check_len(count, bounds[1].len())?;
        self.both_on(stream, bounds, |starts, ends| {
            if closed == Closed::Both {
                return call(starts, ends);
            }
            let (mut firsts, mut lasts) = (alloc(&self.device, count)?, alloc(&self.device, count)?);
            let bounds = JoinBounds::of_ranges(closed);
            bounds.on_stream(stream, starts, ends, &mut firsts, &mut lasts).map_err(raise)?;
            call(&firsts, &lasts)
        })
    }

    /// Makes the index's keys floats again, on the device.
    pub(crate) fn give_on<K: PyKey>(&self, stream: &Stream, keys: &mut Buffer<K>) -> PyResult<()> {
        if self.is_other { K::unorder_on(stream, keys) } else { Ok(()) }
    }

    /// Ranges as arrays of NumPy.
    pub(crate) fn found<K: PyKey, V: PyValue>(&self, mut ranges: Ranges<K, V>) -> Found {
        self.give(&mut ranges.keys);
        let Ranges { offsets, keys, values } = ranges;
        Found::host(move |py| Ok([numpy(py, signed(offsets)), K::numpy(py, keys), V::array(py, values)]))
    }

    /// Ranges as arrays on the device.
    pub(crate) fn found_on<K: PyKey, V: PyValue>(
        &self,
        stream: &Stream,
        mut found: DeviceRanges<K, V>,
    ) -> PyResult<Found> {
        self.give_on(stream, &mut found.keys)?;
        Ok(Found::device(Memory::new(found.offsets), Some(memory_of(found.keys)?), V::memory(found.values)))
    }

    /// The ranges that a function finds for `count` queries on the device.
    pub(crate) fn ranges_on<K: PyKey, V: Value>(
        &self,
        count: usize,
        find: impl FnMut(&mut DeviceRanges<K, V>) -> lanetree::Result<()>,
    ) -> PyResult<DeviceRanges<K, V>> {
        let out = DeviceRanges::new(&self.device, count, 0).map_err(raise)?;
        let grow = |out: &mut DeviceRanges<K, V>, total| {
            (out.keys, out.values) = (self.device.alloc(total)?, self.device.alloc(total)?);
            Ok(())
        };
        in_two(out, find, |out| (&out.offsets, count), grow)
    }
}

/// Whether indexes have keys of the type of this name in another form than NumPy.
pub(crate) fn is_other(key: &str) -> bool {
    key.starts_with('f') || key == "bytes16"
}

/// A range with these inclusive bounds, which is empty if it ends before it starts.
pub(crate) fn range_of<K: PyKey>(limit: u64) -> impl Fn((&K, &K)) -> KeyRange<K> {
    move |(&start, &end)| match start > end {
        true => KeyRange::new(K::MIN..K::MIN),
        false => KeyRange::new(start..=end).limit(limit),
    }
}

/// What a function finds in two calls: the first one tells how many rows there are, by the element that `total` names, and the second one
/// has room for them. Waits for the first one.
pub(crate) fn in_two<O>(
    mut out: O,
    mut find: impl FnMut(&mut O) -> lanetree::Result<()>,
    total: impl FnOnce(&O) -> (&Buffer<u64>, usize),
    grow: impl FnOnce(&mut O, usize) -> lanetree::Result<()>,
) -> PyResult<O> {
    let run = || -> lanetree::Result<()> {
        find(&mut out)?;
        let (numbers, at) = total(&out);
        let mut rows = [0];
        numbers.copy_range_to(at, &mut rows)?;
        grow(&mut out, rows[0] as usize)?;
        find(&mut out)
    };
    run().map_err(raise)?;
    Ok(out)
}

/// Keys on a device as its array has them.
pub(crate) fn memory_of<K: PyKey>(keys: Buffer<K>) -> PyResult<Memory> {
    key_words(keys).map(Memory::new)
}

/// Offsets as NumPy's users have them.
pub(crate) fn signed(offsets: Vec<u64>) -> Vec<i64> {
    bytemuck::allocation::cast_vec(offsets)
}

/// Offsets and values of rows, without keys.
pub(crate) fn found_rows<V: PyValue>(rows: JoinRows<V>) -> Found {
    Found::host(move |py| Ok([numpy(py, signed(rows.offsets)), py.None(), V::array(py, rows.rows)]))
}

/// Values on a device: a caller's array, or a buffer of this call.
pub(crate) enum Values<'a, V> {
    Given(Reading<'a, V>),
    Made(Buffer<V>),
}

impl<V: Pod> Deref for Values<'_, V> {
    type Target = Buffer<V>;

    fn deref(&self) -> &Buffer<V> {
        match self {
            Self::Given(values) => values,
            Self::Made(values) => values,
        }
    }
}

/// A value for each of `len` keys; those of sets and of removals, which nobody reads, are made.
pub(crate) fn values_on<'a, V: PyValue>(
    device: &lanetree::Device,
    len: usize,
    values: Option<In<'a>>,
) -> PyResult<Values<'a, V>> {
    let values = match values {
        Some(values) if V::IS_SOME && values.is_device() => Values::Given(values.read()?),
        Some(values) if V::IS_SOME => Values::Made(device.upload(values.host()?).map_err(raise_runtime)?),
        _ => Values::Made(device.alloc_zeroed(len).map_err(raise_runtime)?),
    };
    check_values(len, values.len())?;
    Ok(values)
}

/// An error unless there is one value for each key.
pub(crate) fn check_values(keys: usize, values: usize) -> PyResult<()> {
    if keys == values { Ok(()) } else { Err(raise(lanetree::Error::LengthMismatch { keys, values })) }
}
