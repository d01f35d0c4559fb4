//! Aggregates of the values of ranges.

use crate::on_devices::OnDevices;
use crate::on_shards::InShards;
use crate::ranges;
use crate::sharded::Sharded;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::error::check_bounds;
use lanetree_frame::fixed::{Aggregate, DeviceAggregates, Number, Uses, aggregate_in_pieces, aggregates_of, fold_rows};
use lanetree_frame::parallel::*;
use lanetree_frame::room::with_room;
use lanetree_frame::{AnyKey, Buffer, KeyRange, OrderedIndex, Ranges, Result, Word};
use lanetree_simt::Fold;

/// Ranges whose pairs are copied at a time if no kernels run.
const PIECE: usize = 1 << 12;

impl<K: AnyKey, I: OrderedIndex<Domain = K>> OnDevices<'_, I> {
    /// Aggregates the values of the ranges from `starts[i]` to `ends[i]`, both inclusive, over all shards. Otherwise like one index's
    /// [`OnStream::aggregate`](lanetree_frame::fixed::OnStream::aggregate). There is no scratch memory to pass: the index keeps about
    /// 120 bytes per range on each device, and 50 per range and shard.
    ///
    /// Each shard aggregates its pairs on its device; 16 bytes per range and shard go to the batch's device, which merges them. Sums of
    /// floats are added in the order of the shards. The host waits for nothing.
    ///
    /// ```
    /// use lanetree::{Aggregate, Device, DeviceAggregates, LaneTree, Sharded};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// // On a host with two GPUs: [Device::cuda(0)?, Device::cuda(1)?].
    /// let devices = [Device::emulated(), Device::emulated()];
    /// let index = Sharded::build(&devices, LaneTree::builder(), &[10_u64, 20, 30, 60], &[1_u32, 2, 3, u32::MAX])?;
    /// let stream = devices[0].stream()?;
    /// let (starts, ends) = (devices[0].upload(&[15_u64, 31])?, devices[0].upload(&[99_u64, 40])?);
    /// let mut out = DeviceAggregates::new(&devices[0], 2)?;
    /// index.on(&stream).aggregate::<i32>(Aggregate::Sum, &starts, &ends, &mut out)?;
    /// assert_eq!((out.values.to_vec()?, out.hits.to_vec()?), (vec![4_i64, 0], vec![0b01]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`OnDevices::range`]; [`Error::OutputLength`] for outputs of fewer ranges.
    pub fn aggregate<A: Number<Word = I::Value>>(
        &self,
        aggregate: Aggregate,
        starts: &Buffer<K>,
        ends: &Buffer<K>,
        out: &mut DeviceAggregates<A::Wide>,
    ) -> Result<()> {
        self.0.options.check("aggregate", Uses::Limits)?;
        let (index, stream, fold) = (self.0.index, self.0.stream, aggregate.fold::<A>());
        let mut bounds = self.0.bounds(starts, ends)?;
        bounds.limit = aggregate.limit(bounds.limit);
        out.check(stream.device(), bounds.count)?;
        if self.0.is_on_host() {
            out.fill(&fold_on_host(fold, &ranges::on_host(&bounds)?, |ranges| index.range_many(ranges))?);
            return Ok(());
        }
        match InShards::shards(index)? {
            Some(shards) if bounds.count > 0 => index.routers().ranges.aggregate(&shards, stream, bounds, fold, out),
            _ => Ok(()),
        }
    }
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Sharded<I> {
    /// An aggregate of the values of each range from `starts[i]` to `ends[i]`, both inclusive, as numbers of type `A`, over all shards;
    /// `None` for a range without pairs. If no kernels run (on the host), the pairs of some ranges at a time are copied first.
    ///
    /// # Errors
    /// As [`OrderedIndex::count_range_many`]; [`Error::BoundLengths`] unless there are as many ends as starts; [`Error::SumOverflow`]
    /// for a sum that 64 bits do not hold.
    pub fn aggregate_many<A: Number<Word = I::Value>>(
        &self,
        aggregate: Aggregate,
        starts: &[K],
        ends: &[K],
    ) -> Result<Vec<Option<A::Wide>>> {
        self.parts.group.get()?;
        check_bounds(starts.len(), ends.len())?;
        if InShards::shards(self)?.is_some() {
            let stream = self.device().stream()?;
            let of_device = &self.staging.0[0];
            return aggregate_in_pieces((&of_device.device, &of_device.staging), starts, ends, |starts, ends, out| {
                OnDevices::new(self, &stream).aggregate::<A>(aggregate, starts, ends, out)
            });
        }
        let ranges = aggregated(aggregate, starts, ends)?;
        aggregates_of(&fold_on_host(aggregate.fold::<A>(), &ranges, |ranges| self.range_many(ranges))?)
    }
}

/// The ranges with these bounds, as far as their pairs matter.
pub(crate) fn aggregated<K: AnyKey>(aggregate: Aggregate, starts: &[K], ends: &[K]) -> Result<Vec<KeyRange<K>>> {
    let range = |(&start, &end): (&K, &K)| ranges::inclusive(start, end, aggregate.limit(u64::MAX));
    starts.par_iter().zip(ends).map(range).try_collect()
}

/// Low 64 bits of the result of each range that has pairs, and whether a sum has more.
pub(crate) fn fold_on_host<K: AnyKey, V: Word>(
    fold: Fold,
    ranges: &[KeyRange<K>],
    range_many: impl Fn(&[KeyRange<K>]) -> Result<Ranges<K, V>>,
) -> Result<Vec<Option<(u64, bool)>>> {
    let mut results = with_room(ranges.len())?;
    for ranges in ranges.chunks(PIECE) {
        let found = range_many(ranges)?;
        let counts: Vec<u64> = found.offsets.windows(2).map(|row| row[1] - row[0]).collect();
        let read = |at: u64, to: &mut [V]| to.copy_from_slice(&found.values[at as usize..at as usize + to.len()]);
        results.extend(fold_rows(fold, &found.offsets[..counts.len()], &counts, read)?);
    }
    Ok(results)
}
