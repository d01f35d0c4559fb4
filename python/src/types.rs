//! Keys and values as NumPy has them, and what batches of any index return.

use crate::buffers::{part, read};
use crate::errors::{raise, raise_runtime, value_error};
use crate::host::numpy;
use crate::memory::Memory;
use crate::words::Words;
use bytemuck::allocation::TransparentWrapperAlloc as _;
use bytemuck::{TransparentWrapper, Zeroable};
use lanetree::bindings::TASK;
use lanetree::bindings::parallel::*;
use lanetree::primitives::{PairsMut, SelectScratch, select_numbered};
use lanetree::{AnyKey, Buffer, Closed, F32, F64, FloatOrder, KeyWord, Stream, Value};
use numpy::{Element, PyArrayDescr};
use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::prelude::*;
use std::borrow::Cow;

/// A key as NumPy has it, which is not always as an index has it: floats are in ordered words there, and 16 bytes one number.
pub(crate) trait PyKey: AnyKey {
    /// The ordered word of a float of these bits, or the number of these 16 bytes, of which the first one counts most.
    fn order(self) -> Self;
    /// The inverse of [`PyKey::order`].
    fn unorder(self) -> Self;
    /// The ordered words of a device's floats.
    fn order_on(stream: &Stream, floats: &Buffer<Self>, words: &mut Buffer<Self>) -> PyResult<()>;
    /// The inverse of [`PyKey::order_on`], in place.
    fn unorder_on(stream: &Stream, words: &mut Buffer<Self>) -> PyResult<()>;
    /// An array of NumPy, without a copy.
    fn numpy(py: Python<'_>, keys: Vec<Self>) -> Py<PyAny>;
}

macro_rules! key {
    ($($key:ident $float:ident $number:ident)*) => {$(
        impl PyKey for $key {
            fn order(self) -> Self {
                bytemuck::cast($float::new($number::from_bits(self as _)))
            }
            fn unorder(self) -> Self {
                bytemuck::cast::<_, $float>(self).get().to_bits() as _
            }
            fn order_on(stream: &Stream, floats: &Buffer<Self>, words: &mut Buffer<Self>) -> PyResult<()> {
                lanetree::order_floats(stream, FloatOrder::Total, floats, words).map_err(raise)
            }
            fn unorder_on(stream: &Stream, words: &mut Buffer<Self>) -> PyResult<()> {
                lanetree::restore_floats(stream, words).map_err(raise)
            }
            fn numpy(py: Python<'_>, keys: Vec<Self>) -> Py<PyAny> {
                numpy(py, keys)
            }
        }
    )*};
}
key! { u32 F32 f32  i32 F32 f32  u64 F64 f64  i64 F64 f64 }

impl PyKey for u128 {
    fn order(self) -> Self {
        Self::from_be(self)
    }
    fn unorder(self) -> Self {
        self.to_be()
    }
    fn order_on(_: &Stream, _: &Buffer<Self>, _: &mut Buffer<Self>) -> PyResult<()> {
        Err(wide_on_device())
    }
    fn unorder_on(_: &Stream, _: &mut Buffer<Self>) -> PyResult<()> {
        Err(wide_on_device())
    }
    fn numpy(py: Python<'_>, keys: Vec<Self>) -> Py<PyAny> {
        numpy(py, Void16::wrap_vec(keys))
    }
}

/// An element of NumPy's dtype `V16`.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Void16(u128);

// SAFETY: `repr(transparent)` over it.
unsafe impl TransparentWrapper<u128> for Void16 {}

// SAFETY: 16 bytes, which is what the dtype has, and no objects.
unsafe impl Element for Void16 {
    const IS_COPY: bool = true;

    fn get_dtype(py: Python<'_>) -> Bound<'_, PyArrayDescr> {
        PyArrayDescr::new(py, "V16").unwrap_or_else(|error| unreachable!("NumPy has such a dtype: {error}"))
    }

    fn clone_ref(&self, _: Python<'_>) -> Self {
        *self
    }
}

/// Values as NumPy has them.
pub(crate) trait PyValue: Value {
    /// An array of NumPy, without a copy; None of nothing.
    fn array(py: Python<'_>, values: Vec<Self>) -> Py<PyAny>;
    /// A device's array; none of nothing.
    fn memory(values: Buffer<Self>) -> Option<Memory>;
    /// The numbers and the values whose bit is set, in their order, and how many there are. Waits for that.
    fn select(
        stream: &Stream,
        values: (&Buffer<Self>, usize),
        hits: &Buffer<u32>,
    ) -> PyResult<(Buffer<u64>, Buffer<Self>)>;
    /// That from a 64-bit word.
    fn truncate(word: u64) -> Self {
        Self::of(<Self::Word as KeyWord>::truncate(word))
    }
}

macro_rules! value {
    ($($value:ident)*) => {$(
        impl PyValue for $value {
            fn array(py: Python<'_>, values: Vec<Self>) -> Py<PyAny> {
                numpy(py, values)
            }
            fn memory(values: Buffer<Self>) -> Option<Memory> {
                Some(Memory::new(values))
            }
            fn select(
                stream: &Stream,
                (values, count): (&Buffer<Self>, usize),
                hits: &Buffer<u32>,
            ) -> PyResult<(Buffer<u64>, Buffer<Self>)> {
                let device = stream.device();
                let mut left = device.alloc(count).map_err(raise_runtime)?;
                let mut found = device.alloc(count).map_err(raise_runtime)?;
                let mut total = device.alloc(1).map_err(raise_runtime)?;
                let mut scratch = SelectScratch::new(device, count).map_err(raise)?;
                let output = PairsMut { keys: &mut left, values: &mut found, count: &mut total };
                select_numbered(stream, (values, count.into()), hits, output, &mut scratch).map_err(raise)?;
                let total = read(&total)?;
                Ok((part(stream, left, 0..total)?, part(stream, found, 0..total)?))
            }
        }
    )*};
}
value! { u32 u64 }

impl PyValue for () {
    fn array(py: Python<'_>, _: Vec<Self>) -> Py<PyAny> {
        py.None()
    }
    fn memory(_: Buffer<Self>) -> Option<Memory> {
        None
    }
    fn select(_: &Stream, _: (&Buffer<Self>, usize), _: &Buffer<u32>) -> PyResult<(Buffer<u64>, Buffer<Self>)> {
        Err(value_error("a set has no values to join: use how='semi' or 'anti'"))
    }
}

/// Keys as a device's array has them: an error for 16 bytes, which none has.
pub(crate) fn key_words<K: AnyKey>(keys: Buffer<K>) -> PyResult<Words> {
    let keys = match keys.cast::<u32>() {
        Ok(words) => return Ok(words.into()),
        Err(keys) => keys,
    };
    keys.cast::<u64>().map(Words::from).map_err(|_| wide_on_device())
}

fn wide_on_device() -> PyErr {
    PyTypeError::new_err("arrays on a device have no elements of 16 bytes: pass keys in host memory")
}

fn no_memory<T>(len: usize) -> PyErr {
    let bytes = len.saturating_mul(size_of::<T>());
    PyMemoryError::new_err(format!("no {bytes} bytes of host memory for {len} elements: pass smaller batches"))
}

/// An empty vector with room for `len` elements. Host memory in proportion to a caller's arrays is allocated by this function or one of
/// the next three, so that a lack of memory is an error and does not abort the process.
pub(crate) fn room<T>(len: usize) -> PyResult<Vec<T>> {
    let mut made = Vec::new();
    made.try_reserve_exact(len).map_err(|_| no_memory::<T>(len))?;
    Ok(made)
}

/// The first `len` elements of an iterator.
pub(crate) fn gather<T>(len: usize, items: impl Iterator<Item = T>) -> PyResult<Vec<T>> {
    let mut made = room(len)?;
    made.extend(items.take(len));
    Ok(made)
}

pub(crate) fn zeroed<T: Zeroable>(len: usize) -> PyResult<Vec<T>> {
    bytemuck::allocation::try_zeroed_vec(len).map_err(|()| no_memory::<T>(len))
}

/// The elements, to change: a copy unless they are owned already.
pub(crate) fn owned<'a, T: Copy>(elements: &'a mut Cow<'_, [T]>) -> PyResult<&'a mut [T]> {
    if let Cow::Borrowed(borrowed) = elements {
        *elements = Cow::Owned(gather(borrowed.len(), borrowed.iter().copied())?);
    }
    // Owned: this copies nothing.
    Ok(elements.to_mut())
}

pub(crate) fn ordered<K: PyKey>(keys: &[K]) -> PyResult<Vec<K>> {
    let mut own = zeroed::<K>(keys.len())?;
    own.par_chunks_mut(TASK).zip(keys.par_chunks(TASK)).for_each(|(own, keys)| {
        own.iter_mut().zip(keys).for_each(|(own, key)| *own = key.order());
    });
    Ok(own)
}

/// The inclusive bounds of ranges, from bounds that may be exclusive. A range that can have no key ends before it starts.
pub(crate) fn inclusive<K: AnyKey>(starts: &mut [K], ends: &mut [K], closed: Closed) {
    let one = K::Bits::truncate(1);
    starts.par_iter_mut().zip(ends.par_iter_mut()).with_min_len(TASK).for_each(|(start, end)| {
        let mut empty = *start > *end;
        if matches!(closed, Closed::Right | Closed::Neither) {
            empty |= *start == K::MAX;
            *start = K::decode(start.encode().wrapping_add(one));
        }
        if matches!(closed, Closed::Left | Closed::Neither) {
            empty |= *end == K::MIN;
            *end = K::decode(end.encode().wrapping_add(K::Bits::MAX));
        }
        if empty {
            (*start, *end) = (K::MAX, K::MIN);
        }
    });
}

pub(crate) fn check_len(expected: usize, actual: usize) -> PyResult<()> {
    if expected == actual {
        return Ok(());
    }
    Err(value_error(format!("arrays of {expected} and of {actual} elements, where both must have the same number")))
}
