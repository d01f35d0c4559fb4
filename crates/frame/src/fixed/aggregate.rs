//! Aggregates of the values of ranges.

use super::on_stream::OnStream;
use super::options::Uses;
use super::range::locate_rows;
use super::{FixedIndex, Query, RangeScratch, TASK, View};
use core::fmt::Debug;
use lanetree_base::aggregate_steps::{AggregateMemory, DeviceAggregates, divide_ranges, finish};
use lanetree_base::error::{check_bounds, check_buffer};
use lanetree_base::parallel::*;
use lanetree_base::room::{with_room, zeroed};
use lanetree_base::staging::{Staging, is_set};
use lanetree_base::uninit::append;
use lanetree_base::{Error, Result};
use lanetree_layout::{AnyKey, Word};
use lanetree_primitives::{ScanScratch, exclusive_scan};
use lanetree_runtime::{Buffer, Device, DeviceKind, Stream};
use lanetree_simt::{AggregateBatch, Fold, Global};

/// Ranges of a piece of a host batch on a device.
#[doc(hidden)]
pub const AGGREGATE_PIECE: usize = 1 << 20;

/// Values that the host reads at a time.
const ROW: usize = 128;

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

/// Ranges that were located on a device.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct LocatedRanges<'a> {
    /// Where each begins.
    pub cursors: &'a Buffer<u64>,
    /// The number of pairs of each.
    pub counts: &'a Buffer<u64>,
    /// The number of ranges: the first of the buffers.
    pub count: usize,
}

impl LocatedRanges<'_> {
    /// Makes an accumulator of each range, at least one, or of each part of a long one: `launch` aggregates a batch. Returns the
    /// batch of the parts.
    ///
    /// # Errors
    /// As [`divide_ranges`]; from the launches.
    pub fn accumulate(
        self,
        stream: &Stream,
        fold: Fold,
        memory: &mut AggregateMemory,
        scan: &mut ScanScratch,
        mut launch: impl FnMut(AggregateBatch) -> Result<()>,
    ) -> Result<AggregateBatch> {
        let Self { cursors, counts, count } = self;
        exclusive_scan(stream, counts, count, &mut memory.offsets, scan)?;
        divide_ranges(stream, count, fold, counts, memory)?;
        exclusive_scan(stream, &memory.counts, count, &mut memory.parts, scan)?;
        let whole = AggregateBatch {
            cursors: cursors.read_on(stream)?,
            counts: counts.read_on(stream)?,
            offsets: memory.offsets.read_on(stream)?,
            parts: Global::null(),
            count: count as u64,
            sums: memory.sums.write_on(stream)?,
            fold,
        };
        let parts = AggregateBatch { parts: memory.parts.read_on(stream)?, ..whole };
        launch(whole)?;
        launch(parts)?;
        Ok(parts)
    }
}

impl AggregateScratch {
    /// Checks that it is for as many ranges.
    ///
    /// # Errors
    /// [`Error::OutputLength`]; [`Error::Runtime`] for memory of another device.
    #[doc(hidden)]
    pub fn check(&self, device: &Device, ranges: usize) -> Result<()> {
        check_buffer(device, "the scratch memory", AggregateMemory::words(ranges), &self.memory.sums)
    }

    /// Where ranges begin, and the number of pairs of each: to be written by what locates them.
    #[doc(hidden)]
    pub fn located_mut(&mut self) -> (&mut Buffer<u64>, &mut Buffer<u64>) {
        (&mut self.ranges.cursors, &mut self.ranges.counts)
    }

    /// Aggregates the first `count` ranges, which were located. On the host `read` copies values from a rank on; on a device `launch`
    /// aggregates a batch.
    ///
    /// # Errors
    /// From the launches; [`Error::Runtime`] if main memory has no room.
    ///
    /// # Safety
    /// After its launches each range or part of a batch has its accumulator.
    #[doc(hidden)]
    pub unsafe fn aggregate<V: Word, T: bytemuck::Pod>(
        &mut self,
        (stream, count): (&Stream, usize),
        fold: Fold,
        out: &mut DeviceAggregates<T>,
        read: impl Fn(u64, &mut [V]) + Sync,
        launch: impl FnMut(AggregateBatch) -> Result<()>,
    ) -> Result<()> {
        let Self { ranges: RangeScratch { cursors, counts, scan }, memory } = self;
        if count == 0 {
            return Ok(());
        }
        if let (Some(cursors), Some(counts)) = (cursors.as_slice(), counts.as_slice())
            && stream.device().kind() == DeviceKind::Host
        {
            out.fill(&fold_rows(fold, &cursors[..count], &counts[..count], read)?);
            return Ok(());
        }
        LocatedRanges { cursors, counts, count }.accumulate(stream, fold, memory, scan, launch)?;
        // SAFETY: the caller's contract.
        unsafe { finish::<V, T>(stream, count, fold, counts, memory, out) }
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
        scratch.check(self.index.device(), count)?;
        self.locate(bounds, &mut scratch.ranges)?;
        let read = |rank, values: &mut [I::Value]| copy_values::<I>(self.index.view(), rank, values);
        // SAFETY: cursors and counts were written just now for this index; the scratch memory is for that many ranges, and for the
        // parts that they have at most; the pointers are for this stream.
        unsafe { scratch.aggregate((stream, count), fold, out, read, |batch| self.launch(&Query::Aggregate(batch))) }
    }
}

/// Copies values from a rank on, at most [`ROW`] of them; of an index on the host.
fn copy_values<I: FixedIndex>(view: Option<I::View<'_>>, rank: u64, values: &mut [I::Value]) {
    if let Some(view) = view {
        view.copy(rank, &mut [I::Key::MIN; ROW][..values.len()], values);
    }
}

/// Aggregates the values of ranges on the host, each from a rank on: low 64 bits, and whether a sum has more. `read` copies values,
/// some at a time.
///
/// # Errors
/// [`Error::Runtime`] if main memory has no room.
#[doc(hidden)]
pub fn fold_rows<V: Word>(
    fold: Fold,
    ranks: &[u64],
    counts: &[u64],
    read: impl Fn(u64, &mut [V]) + Sync,
) -> Result<Vec<Option<(u64, bool)>>> {
    let of_range = |(&rank, &count): (&u64, &u64)| {
        let mut values = [V::MIN; ROW];
        let (mut sum, mut done) = (fold.start(), if fold.op == Fold::LAST { count.saturating_sub(1) } else { 0 });
        while done < count {
            let len = (count - done).min(ROW as u64) as usize;
            read(rank + done, &mut values[..len]);
            sum = values[..len].iter().fold(sum, |sum, &value| fold.combine(sum, fold.of(value)));
            done += len as u64;
        }
        (count > 0).then(|| fold.result::<V>(sum))
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
        let read = |rank, values: &mut [I::Value]| copy_values::<I>(Some(view), rank, values);
        return aggregates_of(&fold_rows(aggregate.fold::<A>(), &ranks, &counts, read)?);
    }
    let stream = index.device().stream()?;
    let mut scratch = AggregateScratch::new(index.device(), AGGREGATE_PIECE.min(starts.len()))?;
    let staging = (index.device(), &index.staging().queries);
    aggregate_in_pieces(staging, starts, ends, |starts, ends, out| {
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
pub fn aggregate_in_pieces<K: AnyKey, T: bytemuck::Pod + Send + Sync>(
    (device, staging): (&Device, &Staging),
    starts: &[K],
    ends: &[K],
    mut aggregate: impl FnMut(&Buffer<K>, &Buffer<K>, &mut DeviceAggregates<T>) -> Result<()>,
) -> Result<Vec<Option<T>>> {
    let mut out = with_room(starts.len())?;
    let mut results = DeviceAggregates::new(device, AGGREGATE_PIECE.min(starts.len()))?;
    for (starts, ends) in starts.chunks(AGGREGATE_PIECE).zip(ends.chunks(AGGREGATE_PIECE)) {
        aggregate(&staging.uploaded(device, starts)?, &staging.uploaded(device, ends)?, &mut results)?;
        let values = staging.downloaded(&results.values, 0..starts.len())?;
        let (hits, overflowed) = (results.hits.to_vec()?, results.overflowed.to_vec()?);
        if let Some(first) = (0..starts.len()).find(|&i| is_set(&overflowed, i)) {
            return Err(Error::SumOverflow { range: out.len() + first });
        }
        append(&mut out, starts.len(), |out| Ok(out.fill_in_parallel(|i| is_set(&hits, i).then_some(values[i]))))?;
    }
    Ok(out)
}
