//! Results with an element for each query: values, and whether they are found.

use crate::arguments::Results;
use crate::buffers::alloc;
use crate::errors::{raise, raise_runtime, value_error};
use crate::input::In;
use crate::keys::Keys;
use crate::types::{PyValue, check_len, zeroed};
use crate::words::Words;
use bytemuck::Pod;
use lanetree::bindings::parallel::*;
use lanetree::bindings::{Neighbors, Searches, TASK, unpack_bits};
use lanetree::{AnyKey, Buffer, FixedIndex, HostForm, Stream};
use pyo3::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// A column in host memory; one that is not wanted, or of nothing, is made and dropped.
fn column<'a, T: Pod>(to: Option<In<'a>>, len: usize, unwanted: &'a mut Vec<T>) -> PyResult<&'a mut [T]> {
    let column = match to {
        Some(to) if size_of::<T>() > 0 => to.host_mut()?,
        _ => {
            *unwanted = zeroed(len)?;
            &mut unwanted[..]
        }
    };
    check_len(len, column.len())?;
    Ok(column)
}

/// Numbers, to an array of NumPy.
pub(crate) fn put_numbers(found: lanetree::Result<Vec<u64>>, to: In<'_>) -> PyResult<()> {
    let (found, to) = (found.map_err(raise)?, to.host_mut::<u64>()?);
    check_len(found.len(), to.len())?;
    to.copy_from_slice(&found);
    Ok(())
}

/// Takes what is found for a query, if there is something.
type Each<'a, I> = &'a mut dyn FnMut(usize, Option<(<I as FixedIndex>::Key, <I as FixedIndex>::Value)>);

impl Results<'_> {
    /// Writes what was found for each query to arrays of NumPy.
    pub(crate) fn put<T: Copy + Send + Sync, V: PyValue>(
        self,
        found: lanetree::Result<Vec<Option<T>>>,
        value: impl Fn(T) -> V + Sync,
    ) -> PyResult<()> {
        let hits = found.map_err(raise)?;
        self.fill(hits.len(), |task, values: &mut [V], found, miss| {
            for ((hit, to), found) in hits[task].iter().zip(values).zip(found) {
                (*to, *found) = hit.map_or((miss, 0), |hit| (value(hit), 1));
            }
        })
    }

    /// Lets a function write the values of one range of queries after another to arrays of NumPy, which are found, and what is not found.
    pub(crate) fn fill<V: PyValue>(
        self,
        len: usize,
        write: impl Fn(Range<usize>, &mut [V], &mut [u8], V) + Sync,
    ) -> PyResult<()> {
        let (mut no_values, mut no_found, miss) = (Vec::new(), Vec::new(), V::truncate(self.miss));
        let values = column(self.values, len, &mut no_values)?;
        let found = column(self.found, len, &mut no_found)?;
        values.par_chunks_mut(TASK).zip(found.par_chunks_mut(TASK)).enumerate().for_each(|(task, (values, found))| {
            let start = task * TASK;
            write(start..start + values.len(), values, found, miss);
        });
        Ok(())
    }

    /// Calls a function with buffers on the device for values and a hit mask, and what is not found.
    pub(crate) fn on<V: PyValue>(
        self,
        keys: &Keys,
        count: usize,
        stream: &Stream,
        call: impl FnOnce(&mut Buffer<V>, Option<&mut Buffer<u32>>, V) -> lanetree::Result<()>,
    ) -> PyResult<()> {
        let Keys { device, cache, .. } = keys;
        // Before anything is written.
        let mut found = self.found.map(In::write::<u8>).transpose()?;
        let mut hits = match found {
            Some(_) => Some(cache.alloc(device, count.div_ceil(32), 4)?),
            None => None,
        };
        let bits = hits.as_mut().map(Words::write::<u32>).transpose()?;
        let miss = V::truncate(self.miss);
        match self.values {
            Some(values) if V::IS_SOME => call(&mut *values.write::<V>()?, bits, miss).map_err(raise)?,
            // Nothing, or not wanted.
            _ if !V::IS_SOME => call(&mut alloc(device, count)?, bits, miss).map_err(raise)?,
            _ => {
                let mut values = cache.alloc(device, count, size_of::<V>())?;
                call(values.write::<V>()?, bits, miss).map_err(raise)?;
                cache.put(values);
            }
        }
        let (Some(hits), Some(found)) = (hits, &mut found) else { return Ok(()) };
        // The kernel writes words.
        let room = count.next_multiple_of(4);
        if found.len() >= room {
            unpack_bits(stream, hits.read()?, count, found).map_err(raise)?;
        } else {
            let mut bytes = cache.alloc(device, room, 1)?;
            unpack_bits(stream, hits.read()?, count, bytes.write()?).map_err(raise)?;
            let copied = found.copy_from_buffer(stream, 0, bytes.read()?, 0..count);
            copied.map_err(raise_runtime)?;
            cache.put(bytes);
        }
        cache.put(hits);
        Ok(())
    }

    /// Writes what searches find for `len` queries in host memory, and the keys of what is found, if they are wanted. `part` makes the
    /// queries of a range: of a task, if the tree is on the CPU, else of all.
    pub(crate) fn near<'q, I: FixedIndex<Value: PyValue>>(
        self,
        tree: &I,
        len: usize,
        part: impl Fn(Range<usize>) -> Cow<'q, [I::Key]> + Sync,
        searches: &Searches<<I::Key as AnyKey>::Bits>,
        near: Option<(&mut [I::Key], I::Key)>,
    ) -> PyResult<()> {
        if self.found.is_none() {
            return Err(value_error("an output is missing"));
        }
        // Without the tree on the CPU, its device's answers come in main memory, in pairs.
        let pairs = match tree.native() {
            Some(_) => Neighbors::new(),
            None => HostForm::neighbor_many(tree, &part(0..len), searches, |key, value| (key, value)).map_err(raise)?,
        };
        let answer = |range: Range<usize>, each: Each<'_, I>| match tree.native() {
            Some(view) => searches.on_host(view, &part(range), each),
            None => pairs[range].iter().enumerate().for_each(|(i, pair)| each(i, *pair)),
        };
        let Some((keys, none)) = near else {
            return self.fill(len, |range, values, found, miss| {
                answer(range, &mut |i, pair| {
                    found[i] = u8::from(pair.is_some());
                    values[i] = pair.map_or(miss, |pair| pair.1);
                });
            });
        };
        check_len(len, keys.len())?;
        let (mut no_values, mut no_found, miss) = (Vec::new(), Vec::new(), PyValue::truncate(self.miss));
        let values = column(self.values, len, &mut no_values)?.par_chunks_mut(TASK);
        let found = column(self.found, len, &mut no_found)?.par_chunks_mut(TASK);
        keys.par_chunks_mut(TASK).zip(values.zip(found)).enumerate().for_each(|(task, (keys, (values, found)))| {
            answer(task * TASK..task * TASK + keys.len(), &mut |i, pair| {
                found[i] = u8::from(pair.is_some());
                (keys[i], values[i]) = pair.unwrap_or((none, miss));
            });
        });
        Ok(())
    }
}
