//! What a LaneTree does with a device's arrays: their keys as the tree has them, results, ranges, changes.

use crate::any_tree::{Kinds, Results};
use crate::errors::{raise, raise_runtime};
use crate::memory::{Cache, In, Memory, Words, closed};
use crate::typed::Typed;
use crate::types::{Found, PyKey, PyValue, check_len, gather, key_words};
use lanetree::bindings::{JoinBounds, unpack_bits};
use lanetree::lane_tree::UpdateScratch;
use lanetree::{
    Batch, Buffer, DeviceRanges, FixedIndex, FloatOrder, NearestScratch, OnStream, OpKind, RangeScratch, UpdateReport,
};
use pyo3::prelude::*;
use std::iter::repeat_n;

impl<K: PyKey, V: PyValue> Typed<K, V> {
    /// Calls a function with a buffer of keys as the tree has them.
    pub(crate) fn with_keys<R>(
        &self,
        keys: &Memory,
        call: impl FnOnce(&Buffer<K>) -> PyResult<R>,
        stream: &lanetree::Stream,
    ) -> PyResult<R> {
        let words = keys.read()?;
        let words = words.as_ref().ok_or_else(closed)?.read::<K>()?;
        if !self.floats {
            return call(words);
        }
        let mut own = self.cache.alloc(self.tree.device(), words.len(), size_of::<K>())?;
        lanetree::order_floats(stream, FloatOrder::Total, words, own.write::<K>()?).map_err(raise)?;
        let result = call(own.read()?);
        self.cache.put(own);
        result
    }

    /// Makes the tree's keys floats again, on the device.
    pub(crate) fn give_on(&self, stream: &lanetree::Stream, keys: &mut Buffer<K>) -> PyResult<()> {
        if !self.floats {
            return Ok(());
        }
        lanetree::restore_floats(stream, keys).map_err(raise)
    }

    /// Calls a function with the buffers of a look-up's results.
    pub(crate) fn with_results(
        &self,
        count: usize,
        results: Results<'_>,
        stream: &lanetree::Stream,
        call: impl FnOnce(&mut Buffer<V>, Option<&mut Buffer<u32>>, V) -> PyResult<()>,
    ) -> PyResult<()> {
        with_results((self.tree.device(), &self.cache), count, results, stream, call)
    }

    /// The pairs of ranges on the device, whose keys are the tree's. Waits, to learn how many there are.
    pub(crate) fn ranges_on(
        &self,
        starts: &Buffer<K>,
        ends: &Buffer<K>,
        limit: u64,
        stream: &lanetree::Stream,
    ) -> PyResult<DeviceRanges<K, V>> {
        check_len(starts.len(), ends.len())?;
        let (device, count) = (self.tree.device(), starts.len());
        let find = || -> lanetree::Result<DeviceRanges<K, V>> {
            let on = OnStream::new(&self.tree, stream).limit(limit);
            let mut scratch = RangeScratch::new(device, count)?;
            // Offsets alone, which say how many pairs there are.
            let mut out = DeviceRanges::new(device, count, 0)?;
            on.range(starts, ends, &mut scratch, &mut out)?;
            let mut total = [0];
            out.offsets.copy_range_to(count, &mut total)?;
            let total = total[0] as usize;
            (out.keys, out.values) = (device.alloc(total)?, device.alloc(total)?);
            on.range(starts, ends, &mut scratch, &mut out)?;
            Ok(out)
        };
        find().map_err(raise)
    }

    /// Calls a function with the inclusive bounds of ranges whose bounds are a device's arrays.
    pub(crate) fn with_bounds<R>(
        &self,
        [starts, ends]: [In<'_>; 2],
        closed: [bool; 2],
        stream: &lanetree::Stream,
        call: impl FnOnce(&Buffer<K>, &Buffer<K>) -> PyResult<R>,
    ) -> PyResult<R> {
        let (starts, ends) = (starts.device()?, ends.device()?);
        check_len(starts.len(), ends.len())?;
        let with_both = |starts: &Buffer<K>, ends: &Buffer<K>| {
            if closed == [true; 2] {
                return call(starts, ends);
            }
            let (device, count) = (self.tree.device(), starts.len());
            let mut firsts = device.alloc::<K>(count).map_err(raise_runtime)?;
            let mut lasts = device.alloc::<K>(count).map_err(raise_runtime)?;
            let bounds = JoinBounds::of_ranges(crate::types::closed(closed));
            bounds.on_stream(stream, starts, ends, &mut firsts, &mut lasts).map_err(raise)?;
            call(&firsts, &lasts)
        };
        self.with_keys(starts, |starts| self.with_keys(ends, |ends| with_both(starts, ends), stream), stream)
    }

    pub(crate) fn range_on(
        &self,
        bounds: [In<'_>; 2],
        closed: [bool; 2],
        limit: u64,
        stream: &lanetree::Stream,
    ) -> PyResult<Found> {
        let out =
            self.with_bounds(bounds, closed, stream, |starts, ends| self.ranges_on(starts, ends, limit, stream))?;
        self.found_on(stream, out)
    }

    /// Ranges as arrays on the device.
    pub(crate) fn found_on(&self, stream: &lanetree::Stream, mut out: DeviceRanges<K, V>) -> PyResult<Found> {
        self.give_on(stream, &mut out.keys)?;
        let offsets = Memory::new(out.offsets);
        Ok(Found::Device(Box::new((offsets, Memory::new(key_words(out.keys)), V::memory(out.values)))))
    }

    /// The pairs that rounds of look-ups find for `count` queries. Waits, to learn how many there are.
    pub(crate) fn rounds(
        &self,
        count: usize,
        find: impl Fn(&mut NearestScratch<K, V>, &mut DeviceRanges<K, V>) -> lanetree::Result<()>,
    ) -> PyResult<DeviceRanges<K, V>> {
        let device = self.tree.device();
        let find_all = || -> lanetree::Result<DeviceRanges<K, V>> {
            let mut scratch = NearestScratch::new(device, count)?;
            // Offsets alone, which say how many pairs there are.
            let mut out = DeviceRanges::new(device, count, 0)?;
            find(&mut scratch, &mut out)?;
            let mut total = [0];
            out.offsets.copy_range_to(count, &mut total)?;
            let total = total[0] as usize;
            (out.keys, out.values) = (device.alloc(total)?, device.alloc(total)?);
            find(&mut scratch, &mut out)?;
            Ok(out)
        };
        find_all().map_err(raise)
    }

    pub(crate) fn apply_on(
        &mut self,
        kinds: Kinds<'_>,
        keys: &Memory,
        values: Option<In<'_>>,
        stream: &lanetree::Stream,
    ) -> PyResult<UpdateReport> {
        let device = self.tree.device().clone();
        let (words, count) = (keys.read()?, keys.len());
        let words = words.as_ref().ok_or_else(closed)?.read::<K>()?;
        let mut own;
        let keys = if self.floats {
            own = device.alloc::<K>(count).map_err(raise_runtime)?;
            lanetree::order_floats(stream, FloatOrder::Total, words, &mut own).map_err(raise)?;
            &own
        } else {
            words
        };
        let given = match values {
            Some(values) if V::IS_SOME => Some(values.device()?.read()?),
            _ => None,
        };
        let none;
        let values = match given.as_ref().map(|values| values.as_ref().ok_or_else(closed)) {
            Some(values) => values?.read::<V>()?,
            None => {
                // Of sets, or not read by removals.
                none = device.alloc_zeroed::<V>(count).map_err(raise_runtime)?;
                &none
            }
        };
        if values.len() != count {
            return Err(raise(lanetree::Error::LengthMismatch { keys: count, values: values.len() }));
        }
        let all;
        let each = match kinds {
            Kinds::Each(kinds) => Some(kinds.device()?.read()?),
            Kinds::All(_) => None,
        };
        let kinds = match (&each, kinds) {
            (Some(each), _) => Some(each.as_ref().ok_or_else(closed)?.read::<OpKind>()?),
            (None, Kinds::All(kind @ 1..)) => {
                let kinds = gather(count, repeat_n(OpKind::from(kind), count))?;
                all = device.upload(&kinds).map_err(raise_runtime)?;
                Some(&all)
            }
            _ => None,
        };
        let mut scratch = UpdateScratch::new(&device, count).map_err(raise)?;
        self.tree.apply_on(stream, Batch { keys, values, kinds }, &mut scratch).map_err(raise)
    }
}

/// Calls a function with the buffers of a look-up's results.
pub(crate) fn with_results<V: PyValue>(
    (device, cache): (&lanetree::Device, &Cache),
    count: usize,
    results: Results<'_>,
    stream: &lanetree::Stream,
    call: impl FnOnce(&mut Buffer<V>, Option<&mut Buffer<u32>>, V) -> PyResult<()>,
) -> PyResult<()> {
    // Before anything is written.
    let mut found = match results.found {
        Some(found) => Some(found.device()?.write()?),
        None => None,
    };
    let mut hits = match found {
        Some(_) => Some(cache.alloc(device, count.div_ceil(32), 4)?),
        None => None,
    };
    let bits = hits.as_mut().map(Words::write::<u32>).transpose()?;
    let miss = V::truncate(results.miss);
    match results.values {
        Some(values) if V::IS_SOME => {
            let mut values = values.device()?.write()?;
            call(values.as_mut().ok_or_else(closed)?.write::<V>()?, bits, miss)?;
        }
        // Nothing, or not wanted.
        _ if !V::IS_SOME => call(&mut device.alloc::<V>(count).map_err(raise_runtime)?, bits, miss)?,
        _ => {
            let mut values = cache.alloc(device, count, size_of::<V>())?;
            call(values.write::<V>()?, bits, miss)?;
            cache.put(values);
        }
    }
    if let (Some(hits), Some(found)) = (hits, &mut found) {
        let found = found.as_mut().ok_or_else(closed)?.write::<u8>()?;
        // The kernel writes words.
        let room = count.next_multiple_of(4);
        if found.len() >= room {
            unpack_bits(stream, hits.read()?, count, found).map_err(raise)?;
        } else {
            let mut bytes = cache.alloc(device, room, 1)?;
            unpack_bits(stream, hits.read()?, count, bytes.write()?).map_err(raise)?;
            found.copy_from_buffer(stream, 0, bytes.read()?, 0..count).map_err(raise_runtime)?;
            cache.put(bytes);
        }
        cache.put(hits);
    }
    Ok(())
}
