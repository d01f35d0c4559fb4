//! Ranges in host form.

use crate::contents::read;
use crate::on_stream::RangeScratch;
use crate::queries::total;
use crate::{Iter, MultiMap};
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::error::check_bounds;
use lanetree_frame::fixed::{Bounds, DeviceRanges};
use lanetree_frame::ranges::RangeBatch;
use lanetree_frame::{KeyRange, Ranges, Result};
use lanetree_layout::{AnyKey, Word};

/// Inclusive bounds of ranges, and limits if one of them has any.
type HostBounds<'a, K> = (&'a [K], &'a [K], Option<&'a [u64]>);

impl<K: AnyKey, V: Word> MultiMap<K, V> {
    /// The pairs of each range of keys, in ascending order of the keys; pairs with the same key in the order in which
    /// they were inserted. A range's limit is a number of pairs, and may end among the values of a key.
    ///
    /// # Errors
    /// As [`MultiMap::lower_bound_many`]; [`Error::ReversedRange`].
    pub fn range_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<Ranges<K, V>> {
        let mut out = Ranges::default();
        self.range_many_into(ranges, &mut out)?;
        Ok(out)
    }

    /// As [`range_many`](Self::range_many), in place of other results, whose memory is reused, whatever their contents. After an
    /// error `out` is empty.
    ///
    /// # Errors
    /// As [`MultiMap::range_many`].
    pub fn range_many_into(
        &self,
        ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>,
        out: &mut Ranges<K, V>,
    ) -> Result<()> {
        let found = RangeBatch::new(ranges).and_then(|batch| self.ranges_into(bounds_of(&batch), out));
        if found.is_err() {
            *out = Ranges::default();
        }
        found
    }

    /// As [`range_many_into`](Self::range_many_into), for ranges in two columns: from `starts[i]` to `ends[i]`, both inclusive. A
    /// range whose end is below its start is empty.
    ///
    /// # Errors
    /// As [`MultiMap::lower_bound_many`]; [`Error::BoundLengths`] unless there is one end per start.
    pub fn range_between_many_into(&self, starts: &[K], ends: &[K], out: &mut Ranges<K, V>) -> Result<()> {
        let found = check_bounds(starts.len(), ends.len()).and_then(|()| self.ranges_into((starts, ends, None), out));
        if found.is_err() {
            *out = Ranges::default();
        }
        found
    }

    fn ranges_into(&self, (starts, ends, limits): HostBounds<'_, K>, out: &mut Ranges<K, V>) -> Result<()> {
        let (device, count) = (&self.device, starts.len());
        let stream = device.stream()?;
        let (starts, ends) = (self.staging.uploaded(device, starts)?, self.staging.uploaded(device, ends)?);
        let limits = limits.map(|limits| self.staging.uploaded(device, limits)).transpose()?;
        let bounds = Bounds { count, starts: &starts, ends: &ends, limits: limits.as_ref(), limit: u64::MAX };
        let mut scratch = RangeScratch::new(device, count, 0)?;
        let mut found = DeviceRanges::new(device, count, 0)?;
        self.on(&stream).locate_ranges(bounds, &mut scratch, &mut found.offsets)?;
        let pairs = total(read(&found.offsets, count)?);
        // There are no more distinct keys than pairs.
        scratch.reserve(device, count, pairs)?;
        (found.keys, found.values) = (device.alloc(pairs)?, device.alloc(pairs)?);
        self.on(&stream).copy_ranges(bounds, &mut scratch, &mut found)?;
        out.offsets.clear();
        out.keys.clear();
        out.values.clear();
        self.staging.append(&found.offsets, 0..count + 1, &mut out.offsets)?;
        self.staging.append(&found.keys, 0..pairs, &mut out.keys)?;
        self.staging.append(&found.values, 0..pairs, &mut out.values)
    }

    /// The number of pairs of each range of keys, in the order of the ranges: every value counts. Returns when the
    /// results are complete.
    ///
    /// # Errors
    /// As [`MultiMap::range_many`].
    pub fn count_range_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<Vec<u64>> {
        let batch = RangeBatch::new(ranges)?;
        self.counts(bounds_of(&batch))
    }

    /// As [`count_range_many`](Self::count_range_many), for ranges in two columns: from `starts[i]` to `ends[i]`, both inclusive. A
    /// range whose end is below its start has no pairs.
    ///
    /// ```
    /// use lanetree::{Device, MultiMap};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let map = MultiMap::build(&Device::host(), &[10_u64, 20, 10], &[1_u32, 2, 3])?;
    /// assert_eq!(map.count_between_many(&[10, 30], &[15, 10])?, [2, 0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`MultiMap::range_between_many_into`].
    pub fn count_between_many(&self, starts: &[K], ends: &[K]) -> Result<Vec<u64>> {
        check_bounds(starts.len(), ends.len())?;
        self.counts((starts, ends, None))
    }

    fn counts(&self, (starts, ends, limits): HostBounds<'_, K>) -> Result<Vec<u64>> {
        let (device, count) = (&self.device, starts.len());
        let stream = device.stream()?;
        let (starts, ends) = (self.staging.uploaded(device, starts)?, self.staging.uploaded(device, ends)?);
        let limits = limits.map(|limits| self.staging.uploaded(device, limits)).transpose()?;
        let (mut scratch, mut counts) = (RangeScratch::new(device, count, 0)?, device.alloc(count)?);
        self.on(&stream).limits(limits.as_ref()).count_range(&starts, &ends, &mut counts, &mut scratch)?;
        self.staging.downloaded(&counts, 0..count)
    }

    /// Iterates over the pairs of a range of keys, as [`iter`](Self::iter) does over all: `3..7`, `..=7`, or a [`KeyRange`] with a
    /// limit. Of many short ranges [`range_many`](Self::range_many) is far faster.
    ///
    /// ```
    /// use lanetree::{Device, KeyRange, MultiMap};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let map = MultiMap::build(&Device::host(), &[10_u64, 20, 10, 30], &[1_u32, 2, 3, 4])?;
    /// let pairs: lanetree::Result<Vec<(u64, u32)>> = map.range(KeyRange::new(10..30).limit(2))?.collect();
    /// assert_eq!(pairs?, [(10, 1), (10, 3)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::ReversedRange`].
    pub fn range(&self, range: impl Into<KeyRange<K>>) -> Result<Iter<'_, K, V>> {
        Iter::of_range(&self.contents, range.into())
    }

    /// The first pair of the smallest key; `None` if there are no pairs.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn first(&self) -> Result<Option<(K, V)>> {
        Ok(self.successor_many(&[K::MIN])?[0])
    }

    /// The last pair of the largest key; `None` if there are no pairs.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn last(&self) -> Result<Option<(K, V)>> {
        Ok(self.predecessor_many(&[K::MAX])?[0])
    }
}

fn bounds_of<K>(batch: &RangeBatch<K>) -> HostBounds<'_, K> {
    (&batch.starts, &batch.ends, (!batch.limits.is_empty()).then_some(&batch.limits[..]))
}
