//! Aggregates of the values of ranges.

use super::on_stream::OnStream;
use super::options::Uses;
use super::range::locate_rows;
use super::{FixedIndex, Query, RangeScratch, TASK, View};
use core::fmt::Debug;
use lanetree_base::aggregate_steps::{AggregateMemory, AggregateOutputs, divide_ranges, finish};
use lanetree_base::error::{check_bounds, check_buffer};
use lanetree_base::parallel::*;
use lanetree_base::room::{with_room, zeroed};
use lanetree_base::{Error, Result};
use lanetree_layout::{AnyKey, KeyWord, Word};
use lanetree_primitives::exclusive_scan;
use lanetree_runtime::{Buffer, Device, DeviceKind, Stream};
use lanetree_simt::{AggregateBatch, Fold, Global};

/// Ranges of a piece of a host batch on a device.
const PIECE: usize = 1 << 20;

/// What is computed of the values of a range. How many there are says `count_range`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Aggregate {
    /// Their sum. Integers are added exactly; a sum that 64 bits do not hold is an overflow, not a wrong number. Floats are added in
    /// 64 bits: the same call gives the same sum each time, but in which order values are added depends on the index and on the
    /// batch, and is another one on the host than on a device.
    Sum,
    /// The smallest. Floats are ordered by `total_cmp`: a NaN with its sign bit clear is above all numbers, and -0 below 0.
    Min,
    /// The largest, in the same order.
    Max,
    /// That of the range's smallest key.
    First,
    /// That of its largest key.
    Last,
}

/// What a value's word stands for in an aggregate.
///
/// Implemented for [`u32`], [`i32`], [`f32`], [`u64`], [`i64`] and [`f64`].
pub trait Number: Copy + Send + Sync + 'static {
    /// The word in which an index has it.
    type Word: Word;
    /// What aggregates of it are: the number of 64 bits that has all of its values.
    type Wide: bytemuck::Pod + Debug + PartialEq + PartialOrd + Send + Sync;
    /// [`Fold::UNSIGNED`], [`Fold::SIGNED`] or [`Fold::FLOAT`].
    #[doc(hidden)]
    const KIND: u32;
}

macro_rules! numbers {
    ($($number:ident: $word:ident, $wide:ident, $kind:ident;)*) => {$(
        impl Number for $number {
            type Word = $word;
            type Wide = $wide;
            const KIND: u32 = Fold::$kind;
        }
    )*};
}
numbers! {
    u32: u32, u64, UNSIGNED;
    i32: u32, i64, SIGNED;
    f32: u32, f64, FLOAT;
    u64: u64, u64, UNSIGNED;
    i64: u64, i64, SIGNED;
    f64: u64, f64, FLOAT;
}

impl Aggregate {
    /// The fold of numbers of this type.
    #[doc(hidden)]
    pub fn fold<A: Number>(self) -> Fold {
        let op = match self {
            Self::Sum => Fold::SUM,
            Self::Min => Fold::MIN,
            Self::Max => Fold::MAX,
            Self::First | Self::Last => Fold::LAST,
        };
        Fold { op, number: A::KIND }
    }

    /// The most pairs of a range that matter, of those that a limit leaves.
    #[doc(hidden)]
    pub fn limit(self, limit: u64) -> u64 {
        if self == Self::First { limit.min(1) } else { limit }
    }
}

/// Scratch memory of aggregates in device form: 72 bytes per range, the memory of a scan, and 64 KiB; reusable for the next batch.
#[derive(Debug)]
pub struct AggregateScratch {
    ranges: RangeScratch,
    memory: AggregateMemory,
}

impl AggregateScratch {
    /// Memory on `device` for batches of up to `ranges` ranges, allocated now.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room.
    pub fn new(device: &Device, ranges: usize) -> Result<Self> {
        let with_last = ranges.saturating_add(1);
        let (offsets, parts) = (device.alloc(with_last)?, device.alloc(with_last)?);
        let (counts, sums) = (device.alloc(ranges)?, device.alloc(AggregateMemory::words(ranges))?);
        Ok(Self {
            ranges: RangeScratch::new(device, ranges)?,
            memory: AggregateMemory { offsets, counts, parts, sums },
        })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let AggregateMemory { offsets, counts, parts, sums } = &self.memory;
        self.ranges.bytes() + [offsets, counts, parts, sums].map(Buffer::bytes).iter().sum::<usize>()
    }
}

/// Aggregates on the device.
#[derive(Debug)]
pub struct DeviceAggregates<T> {
    /// Out: one for each range; 0 for an empty one.
    pub values: Buffer<T>,
    /// Out: a bit for each range, the lowest of a word first: whether it has pairs.
    pub hits: Buffer<u32>,
    /// Out: a bit for each range: whether its sum overflows, so that its value is nothing but the sum's low 64 bits.
    pub overflowed: Buffer<u32>,
}

impl<T: bytemuck::Pod> DeviceAggregates<T> {
    /// Room for as many ranges.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room.
    pub fn new(device: &Device, ranges: usize) -> Result<Self> {
        let words = ranges.div_ceil(32);
        Ok(Self { values: device.alloc(ranges)?, hits: device.alloc(words)?, overflowed: device.alloc(words)? })
    }

    /// Takes results of the host's.
    #[doc(hidden)]
    pub fn fill(&mut self, results: &[Option<(u64, bool)>]) {
        let values = self.values.as_mut_slice().expect("a buffer of the host");
        let hits = &mut self.hits.as_mut_slice().expect("a buffer of the host")[..results.len().div_ceil(32)];
        let overflowed = &mut self.overflowed.as_mut_slice().expect("a buffer of the host")[..hits.len()];
        hits.fill(0);
        overflowed.fill(0);
        for (i, result) in results.iter().enumerate() {
            let (value, is_over) = result.unwrap_or((0, false));
            values[i] = bytemuck::cast(value);
            hits[i / 32] |= u32::from(result.is_some()) << (i % 32);
            overflowed[i / 32] |= u32::from(is_over) << (i % 32);
        }
    }

    /// Checks that there is an element for each range.
    ///
    /// # Errors
    /// [`Error::OutputLength`]; [`Error::Runtime`] for buffers of another device.
    #[doc(hidden)]
    pub fn check(&self, device: &Device, ranges: usize) -> Result<()> {
        check_buffer(device, "the results' buffer", ranges, &self.values)?;
        check_buffer(device, "the hit mask's buffer", ranges.div_ceil(32), &self.hits)?;
        check_buffer(device, "the mask of overflows", ranges.div_ceil(32), &self.overflowed)
    }
}

impl<I: FixedIndex<Value: Word>> OnStream<'_, I> {
    /// Aggregates the values of the ranges from `starts[i]` to `ends[i]`, both inclusive, as numbers of type `A`, without writing
    /// their pairs: `out.values[i]` becomes the result, and bit `i % 32` of `out.hits[i / 32]` whether the range has pairs. A range
    /// whose end is below its start has none. Uses [`limit`](Self::limit) and [`limits`](Self::limits).
    ///
    /// Ranges of up to thousands of pairs have eight lanes each; longer ones are divided into parts, with a warp each, so that one
    /// long range takes no longer than many short ones of as many pairs.
    ///
    /// ```
    /// use lanetree::{Aggregate, AggregateScratch, Device, DeviceAggregates, LaneTree};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let index = LaneTree::build(&device, &[10_u64, 20, 30, 60], &[1_u32, 2, 3, u32::MAX])?;
    /// let stream = device.stream()?;
    /// let (starts, ends) = (device.upload(&[15_u64, 31, 25])?, device.upload(&[30_u64, 40, 99])?);
    /// let (mut scratch, mut out) = (AggregateScratch::new(&device, 3)?, DeviceAggregates::new(&device, 3)?);
    /// index.on(&stream).aggregate::<i32>(Aggregate::Sum, &starts, &ends, &mut scratch, &mut out)?;
    /// assert_eq!((out.values.to_vec()?, out.hits.to_vec()?), (vec![5_i64, 0, 2], vec![0b101]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputLength`] for a buffer that is too small; [`Error::BoundLengths`] unless there are as many ends as starts;
    /// [`Error::BatchTooLarge`]; [`Error::UnusedOption`]; [`Error::Lost`]; [`Error::Runtime`] for buffers of another device, and
    /// from the launches.
    pub fn aggregate<A: Number<Word = I::Value>>(
        &self,
        aggregate: Aggregate,
        starts: &Buffer<I::Key>,
        ends: &Buffer<I::Key>,
        scratch: &mut AggregateScratch,
        out: &mut DeviceAggregates<A::Wide>,
    ) -> Result<()> {
        self.options.check("aggregate", Uses::Limits)?;
        let mut bounds = self.bounds(starts, ends)?;
        bounds.limit = aggregate.limit(bounds.limit);
        let (stream, count, fold) = (self.stream, bounds.count, aggregate.fold::<A>());
        out.check(self.index.device(), count)?;
        let AggregateScratch { ranges, memory } = scratch;
        self.check("the scratch memory", AggregateMemory::words(count), &memory.sums)?;
        self.locate(bounds, ranges)?;
        if count == 0 {
            return Ok(());
        }
        if stream.device().kind() == DeviceKind::Host {
            let cursors = &ranges.cursors.as_slice().expect("a buffer of the host")[..count];
            let counts = &ranges.counts.as_slice().expect("a buffer of the host")[..count];
            let view = self.index.view().expect("a tree on the host is in main memory");
            out.fill(&fold_rows::<I>(view, fold, cursors, counts)?);
            return Ok(());
        }
        exclusive_scan(stream, &ranges.counts, count, &mut memory.offsets, &mut ranges.scan)?;
        divide_ranges(stream, count, fold, &ranges.counts, memory)?;
        exclusive_scan(stream, &memory.counts, count, &mut memory.parts, &mut ranges.scan)?;
        let whole = AggregateBatch {
            cursors: ranges.cursors.read_on(stream)?,
            counts: ranges.counts.read_on(stream)?,
            offsets: memory.offsets.read_on(stream)?,
            parts: Global::null(),
            count: count as u64,
            sums: memory.sums.write_on(stream)?,
            fold,
        };
        let parts = AggregateBatch { parts: memory.parts.read_on(stream)?, ..whole };
        let DeviceAggregates { values, hits, overflowed } = out;
        // SAFETY: cursors and counts were written just now for this index; the scratch memory is for that many ranges, and for the
        // parts that they have at most; the pointers are for this stream. Each range or part is aggregated before the results
        // are made.
        unsafe {
            self.launch(&Query::Aggregate(whole))?;
            self.launch(&Query::Aggregate(parts))?;
            let out = AggregateOutputs { values, hits, overflowed };
            finish::<I::Value, A::Wide>(stream, count, fold, &ranges.counts, memory, out)
        }
    }
}

/// Aggregates the pairs of ranges on the host, each from a rank on: low 64 bits, and whether a sum has more.
fn fold_rows<I: FixedIndex<Value: Word>>(
    view: I::View<'_>,
    fold: Fold,
    ranks: &[u64],
    counts: &[u64],
) -> Result<Vec<Option<(u64, bool)>>> {
    let of_range = |(&rank, &count): (&u64, &u64)| {
        let (mut keys, mut values) = ([I::Key::MIN; 128], [I::Value::MIN; 128]);
        let (mut sum, mut done) = (fold.start(), if fold.op == Fold::LAST { count.saturating_sub(1) } else { 0 });
        while done < count {
            let len = (count - done).min(keys.len() as u64) as usize;
            view.copy(rank + done, &mut keys[..len], &mut values[..len]);
            sum = values[..len].iter().fold(sum, |sum, &value| fold.combine(sum, fold.of(value)));
            done += len as u64;
        }
        (count > 0).then(|| fold.result::<I::Value>(sum))
    };
    ranks.par_iter().zip(counts).with_min_len(TASK / 64).map(of_range).try_collect()
}

/// Aggregates of ranges, in host form.
pub(super) fn aggregate_many<A: Number<Word = I::Value>, I: FixedIndex<Value: Word>>(
    index: &I,
    aggregate: Aggregate,
    starts: &[I::Key],
    ends: &[I::Key],
) -> Result<Vec<Option<A::Wide>>> {
    index.check_not_lost()?;
    check_bounds(starts.len(), ends.len())?;
    if let Some(view) = index.native() {
        let (mut ranks, mut counts) = (zeroed(starts.len())?, zeroed(starts.len())?);
        locate_rows(view, (starts, ends), None, aggregate.limit(u64::MAX), &mut ranks, &mut counts);
        return aggregates_of(&fold_rows::<I>(view, aggregate.fold::<A>(), &ranks, &counts)?);
    }
    let stream = index.device().stream()?;
    let mut scratch = AggregateScratch::new(index.device(), PIECE.min(starts.len()))?;
    aggregate_in_pieces(&stream, starts, ends, |starts, ends, out| {
        OnStream::new(index, &stream).aggregate::<A>(aggregate, starts, ends, &mut scratch, out)
    })
}

/// Aggregates in host form from results of the host.
///
/// # Errors
/// [`Error::SumOverflow`]; [`Error::Runtime`] if main memory has no room.
#[doc(hidden)]
pub fn aggregates_of<T: bytemuck::Pod>(results: &[Option<(u64, bool)>]) -> Result<Vec<Option<T>>> {
    let mut out = with_room(results.len())?;
    for (range, result) in results.iter().enumerate() {
        out.push(match *result {
            Some((_, true)) => return Err(Error::SumOverflow { range }),
            Some((value, false)) => Some(bytemuck::cast(value)),
            None => None,
        });
    }
    Ok(out)
}

/// Aggregates in host form from the device form.
///
/// # Errors
/// [`Error::SumOverflow`]; [`Error::Runtime`]; those of `aggregate`.
#[doc(hidden)]
pub fn aggregate_in_pieces<K: AnyKey, T: bytemuck::Pod>(
    stream: &Stream,
    starts: &[K],
    ends: &[K],
    mut aggregate: impl FnMut(&Buffer<K>, &Buffer<K>, &mut DeviceAggregates<T>) -> Result<()>,
) -> Result<Vec<Option<T>>> {
    let (device, mut out) = (stream.device(), with_room(starts.len())?);
    let mut results = DeviceAggregates::new(device, PIECE.min(starts.len()))?;
    for (starts, ends) in starts.chunks(PIECE).zip(ends.chunks(PIECE)) {
        aggregate(&device.upload(starts)?, &device.upload(ends)?, &mut results)?;
        let (values, hits) = (results.values.to_vec()?, results.hits.to_vec()?);
        let overflowed = results.overflowed.to_vec()?;
        let bit = |bits: &[u32], i: usize| bits[i / 32] >> (i % 32) & 1 != 0;
        for (i, &value) in values[..starts.len()].iter().enumerate() {
            if bit(&overflowed, i) {
                return Err(Error::SumOverflow { range: out.len() });
            }
            out.push(bit(&hits, i).then_some(value));
        }
    }
    Ok(out)
}
