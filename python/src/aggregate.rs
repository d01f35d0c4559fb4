//! Aggregates of the values of ranges, as numbers of the type that Python gives them.

use crate::arguments::{By, Folding, Found};
use crate::buffers::alloc;
use crate::errors::{raise, raise_runtime, value_error};
use crate::host::numpy;
use crate::input::In;
use crate::keys::Keys;
use crate::memory::Memory;
use crate::types::{PyKey, PyValue};
use bytemuck::Pod;
use lanetree::bindings::unpack_bits;
use lanetree::{Aggregate, Buffer, Closed, DeviceAggregates, Number, Stream, Word};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// An index that aggregates values, if they are words.
pub(crate) trait Aggregates<V> {
    type Key: PyKey;

    fn keys(&self) -> &Keys;
    /// The aggregate of each range between inclusive bounds.
    fn aggregate_many<A: Number<Word = V>>(
        &self,
        how: Aggregate,
        bounds: [&[Self::Key]; 2],
    ) -> lanetree::Result<Vec<Option<A::Wide>>>
    where
        V: Word;
    /// The same in the order of a stream, with scratch memory of its own.
    fn aggregate_on<A: Number<Word = V>>(
        &self,
        stream: &Stream,
        how: Aggregate,
        bounds: [&Buffer<Self::Key>; 2],
        out: &mut DeviceAggregates<A::Wide>,
    ) -> lanetree::Result<()>
    where
        V: Word;
}

/// Values of which there are aggregates, or nothing.
pub(crate) trait Numbers: PyValue {
    /// Whether there are values, and an aggregate of them as numbers of a kind ("u", "i" or "f"): words of 64 bits.
    fn aggregate(
        index: &impl Aggregates<Self>,
        bounds: [In<'_>; 2],
        closed: Closed,
        how: Folding,
        stream: &Stream,
    ) -> PyResult<Found>;
}

macro_rules! numbers {
    ($($word:ident: $signed:ident $float:ident;)*) => {$(
        impl Numbers for $word {
            fn aggregate(
                index: &impl Aggregates<Self>,
                bounds: [In<'_>; 2],
                closed: Closed,
                Folding { how, number }: Folding,
                stream: &Stream,
            ) -> PyResult<Found> {
                match number {
                    'i' => aggregate::<$signed, $word>(index, bounds, closed, how, stream),
                    'f' => aggregate::<$float, $word>(index, bounds, closed, how, stream),
                    _ => aggregate::<$word, $word>(index, bounds, closed, how, stream),
                }
            }
        }
    )*};
}
numbers! {
    u32: i32 f32;
    u64: i64 f64;
}

impl Numbers for () {
    fn aggregate(_: &impl Aggregates<()>, _: [In<'_>; 2], _: Closed, _: Folding, _: &Stream) -> PyResult<Found> {
        Err(PyTypeError::new_err("a set has no values"))
    }
}

fn aggregate<A: Number<Word = V, Wide: Pod>, V: Word>(
    index: &impl Aggregates<V>,
    bounds: [In<'_>; 2],
    closed: Closed,
    how: Aggregate,
    stream: &Stream,
) -> PyResult<Found> {
    if !bounds[0].is_device() {
        let [firsts, lasts] = index.keys().bounds(bounds, By::Ranges(closed))?;
        let results = index.aggregate_many::<A>(how, [&firsts, &lasts]).map_err(raise)?;
        let found: Vec<u8> = results.iter().map(|result| u8::from(result.is_some())).collect();
        let values: Vec<u64> = results.into_iter().map(|result| result.map_or(0, bytemuck::cast)).collect();
        return Ok(Found::host(move |py| Ok([numpy(py, found), numpy(py, values)])));
    }
    let (device, count) = (&index.keys().device, bounds[0].len());
    let mut out = DeviceAggregates::<A::Wide>::new(device, count).map_err(raise)?;
    index.keys().bounds_on(stream, bounds, closed, |starts, ends| {
        index.aggregate_on::<A>(stream, how, [starts, ends], &mut out).map_err(raise)
    })?;
    if how == Aggregate::Sum {
        let overflowed = out.overflowed.to_vec().map_err(raise_runtime)?;
        let bit = |&range: &usize| overflowed[range / 32] >> (range % 32) & 1 != 0;
        if let Some(range) = (0..count).find(bit) {
            return Err(raise(lanetree::Error::SumOverflow { range }));
        }
    }
    // The kernel writes words.
    let mut found = alloc::<u8>(device, count.next_multiple_of(4))?;
    unpack_bits(stream, &out.hits, count, &mut found).map_err(raise)?;
    let values = out.values.cast::<u64>().map_err(|_| value_error("results are words of 64 bits"))?;
    Ok(Found::device(Memory::new(found), None, Some(Memory::new(values))))
}
