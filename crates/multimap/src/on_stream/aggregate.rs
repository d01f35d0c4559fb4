//! Aggregates of the values of ranges of keys. Values of a range are adjacent, so the kernel over an array aggregates them.

use super::OnStream;
use super::scratch::EndScratch;
use crate::MultiMap;
use crate::places::{Ends, slice, spans};
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::aggregate_steps::fold_values;
use lanetree_frame::error::check_bounds;
use lanetree_frame::fixed::{
    self, AGGREGATE_PIECE, Aggregate, DeviceAggregates, FixedIndex, Number, Uses, aggregate_in_pieces,
};
use lanetree_frame::{Buffer, Device, Result};
use lanetree_layout::{AnyKey, Word};

/// Scratch memory of aggregates in device form: 88 bytes and a key per range, the memory of a scan, and 64 KiB; reusable for the next
/// batch.
#[derive(Debug)]
pub struct AggregateScratch<K: AnyKey> {
    ends: EndScratch<K>,
    aggregates: fixed::AggregateScratch,
}

impl<K: AnyKey> AggregateScratch<K> {
    /// Memory on `device` for batches of up to `ranges` ranges, allocated now.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room.
    pub fn new(device: &Device, ranges: usize) -> Result<Self> {
        Ok(Self { ends: EndScratch::new(device, ranges)?, aggregates: fixed::AggregateScratch::new(device, ranges)? })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        self.ends.bytes() + self.aggregates.bytes()
    }
}

impl<K: AnyKey, V: Word> OnStream<'_, K, V> {
    /// Aggregates all values of all keys from `starts[i]` to `ends[i]`, both inclusive, as numbers of type `A`. The first value of a
    /// range is the one of its smallest key that was inserted first; a [limit](Self::limit) is a number of pairs. Otherwise like
    /// [`fixed::OnStream::aggregate`].
    ///
    /// ```
    /// use lanetree::multimap::AggregateScratch;
    /// use lanetree::{Aggregate, Device, DeviceAggregates, MultiMap};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let map = MultiMap::build(&device, &[7_u32, 5, 7], &[1_u64, 2, 3])?;
    /// let (stream, starts, ends) = (device.stream()?, device.upload(&[0, 6, 8])?, device.upload(&[9, 7, 9])?);
    /// let (mut scratch, mut out) = (AggregateScratch::new(&device, 3)?, DeviceAggregates::new(&device, 3)?);
    /// map.on(&stream).aggregate::<u64>(Aggregate::Sum, &starts, &ends, &mut scratch, &mut out)?;
    /// assert_eq!((out.values.to_vec()?, out.hits.to_vec()?), (vec![6, 4, 0], vec![0b011]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`OnStream::range`]; [`Error::OutputLength`] for outputs of fewer ranges.
    pub fn aggregate<A: Number<Word = V>>(
        &self,
        aggregate: Aggregate,
        starts: &Buffer<K>,
        ends: &Buffer<K>,
        scratch: &mut AggregateScratch<K>,
        out: &mut DeviceAggregates<A::Wide>,
    ) -> Result<()> {
        self.options.check("aggregate", Uses::Limits)?;
        self.contents.check_order("aggregate")?;
        let bounds = self.bounds(starts, ends)?;
        let (stream, count, values) = (self.stream, starts.len(), &self.contents.values);
        let AggregateScratch { ends: found, aggregates } = scratch;
        out.check(self.contents.keys.device(), count)?;
        aggregates.check(self.contents.keys.device(), count)?;
        let found = self.ends(bounds, found)?;
        let (begins, counts) = aggregates.located_mut();
        spans(stream, Ends { limit: aggregate.limit(found.limit), ..found }, Some(begins), counts)?;
        let read = |at: u64, to: &mut [V]| match self.contents.is_by_rank() {
            true => drop(self.contents.copy_from_rank(at, &mut [], to)),
            false => to.copy_from_slice(&slice(values)[at as usize..at as usize + to.len()]),
        };
        // SAFETY: ranges between the places of two keys are in the array of values; the scratch memory is for that many ranges, and for
        // the parts that they have at most; the pointers are for this stream.
        unsafe {
            aggregates.aggregate((stream, count), aggregate.fold::<A>(), out, read, |batch| {
                fold_values(stream, values.read_on(stream)?, batch)
            })
        }
    }
}

impl<K: AnyKey, V: Word> MultiMap<K, V> {
    /// An aggregate of all values of all keys from `starts[i]` to `ends[i]`, both inclusive, as numbers of type `A`; `None` for a range
    /// without keys.
    ///
    /// ```
    /// use lanetree::{Aggregate, Device, MultiMap};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let payments = MultiMap::build(&Device::host(), &[10_u64, 20, 10], &[1_i32 as u32, -2_i32 as u32, 3])?;
    /// assert_eq!(payments.aggregate_many::<i32>(Aggregate::Sum, &[10, 0, 30], &[10, 99, 40])?, [Some(4), Some(2), None]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`MultiMap::range_between_many_into`]; [`Error::SumOverflow`] for a sum that 64 bits do not hold.
    pub fn aggregate_many<A: Number<Word = V>>(
        &self,
        aggregate: Aggregate,
        starts: &[K],
        ends: &[K],
    ) -> Result<Vec<Option<A::Wide>>> {
        self.contents.keys.check_not_lost()?;
        self.contents.check_order("aggregate")?;
        check_bounds(starts.len(), ends.len())?;
        let stream = self.device.stream()?;
        let mut scratch = AggregateScratch::new(&self.device, AGGREGATE_PIECE.min(starts.len()))?;
        aggregate_in_pieces((&self.device, &self.staging), starts, ends, |starts, ends, out| {
            self.on(&stream).aggregate::<A>(aggregate, starts, ends, &mut scratch, out)
        })
    }
}
