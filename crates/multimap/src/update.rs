//! Batches of changes: in place, or a second map is made of the first one and the batch, and takes its place.

use crate::MultiMap;
use crate::build::{Builder, check_len, sorted};
use crate::contents::{Contents, Counted, Found, offsets_of, read};
use crate::gather::RowsOf;
use crate::on_stream::values_only;
use crate::places::{count_values, is_host, slice};
use crate::removal::{WantedValues, compact, keep, mark_keys, match_values, remove_pairs};
use crate::wanted::Wanted;
use lanetree_frame::error::same_device;
use lanetree_frame::fixed::FixedIndex;
use lanetree_frame::fixed::pairs::check_lengths;
use lanetree_frame::{Buffer, DeviceKind, Error, Result, Stream, UpdatePath, UpdateReport};
use lanetree_kernels_multimap::layout::COUNT_BITS;
use lanetree_layout::{AnyKey, Word};
use lanetree_primitives::{
    ExpandScratch, Expanded, MergeRule, MergeScratch, Pairs, RadixSortScratch, RunScratch, SelectScratch, SpanValues,
    Spans, expand, merge, radix_sort, select, sum_by_key,
};

/// Keys and numbers on a device.
type Numbered<'a, K> = (&'a Buffer<K>, &'a Buffer<u64>);

impl<K: AnyKey, V: Word> MultiMap<K, V> {
    /// Inserts pairs: each value goes after those that its key has, and values of equal keys in the order of the batch. All or
    /// nothing. Sorts the batch on the device, and rebuilds the map, or changes it in place, on the host or where it has
    /// [room](crate::Builder::room), as the [module](crate) says.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::TooManyValues`], [`Error::TooManyElements`]; [`Error::Runtime`] if the device has no
    /// room or fails: the map is as it was. [`Error::Lost`] if the device failed half-way in place, now or in an earlier call.
    pub fn insert_many(&mut self, keys: &[K], values: &[V]) -> Result<UpdateReport> {
        check_lengths(keys, values)?;
        if keys.is_empty() {
            return Ok(UpdateReport::default());
        }
        let (stream, batch) = (self.device.stream()?, (self.device.upload(keys)?, self.device.upload(values)?));
        self.insert_on(&stream, &batch.0, &batch.1)
    }

    /// [`MultiMap::insert_many`] of a batch that is on the device. Returns when the changed map is complete, whose memory comes
    /// from the stream's device.
    ///
    /// # Errors
    /// As [`MultiMap::insert_many`]; [`Error::Runtime`] for a stream or buffers of another device.
    pub fn insert_on(&mut self, stream: &Stream, keys: &Buffer<K>, values: &Buffer<V>) -> Result<UpdateReport> {
        if keys.len() != values.len() {
            return Err(Error::LengthMismatch { keys: keys.len(), values: values.len() });
        }
        self.check_device(stream, "the keys' buffer", keys)?;
        self.check_device(stream, "the values' buffer", values)?;
        let (device, batch, old) = (stream.device(), keys.len(), self.len() as usize);
        if batch == 0 {
            return Ok(UpdateReport::default());
        }
        let len = old.checked_add(batch).ok_or(Error::TooManyElements { elements: usize::MAX })?;
        check_len(len)?;
        let (keys, batch_values) = sorted(stream, (keys, values), batch, batch)?;
        let second = Counted::runs(stream, &keys, batch)?;
        drop(keys);
        let inserted = UpdateReport { inserted: batch as u64, ..UpdateReport::default() };
        let is_in_place = match is_host(stream) {
            true => {
                let (keys, counts) = (&slice(&second.keys)[..second.len], &slice(&second.counts)[..second.len]);
                self.insert_on_host(keys, counts, slice(&batch_values))?
            }
            false => self.insert_in_place(stream, &second, (&batch_values, batch as u64))?,
        };
        if is_in_place {
            return Ok(UpdateReport { path: UpdatePath::InPlace, ..inserted });
        }
        // The batch's values are at positions past the map's values.
        let (batch_values, base) = self.contents.beside_more(batch_values)?;
        check_len((base as usize).saturating_add(batch))?;
        let places = second.places(stream, base, self.options.most)?;

        // A key of both has two places in the merged list, first the map's: copied one after the other.
        let (first_keys, first_places) = self.contents.list(stream)?;
        let (first, both) = (first_keys.len(), first_keys.len() + second.len);
        let mut merged = Found::new(device, both)?;
        merge(
            stream,
            MergeRule::KeepBoth,
            Pairs { keys: &first_keys, values: &first_places, count: first.into() },
            Pairs { keys: &second.keys, values: &places, count: second.len.into() },
            merged.output(),
            &mut MergeScratch::new(device, both)?,
        )?;
        drop((first_keys, first_places, second));
        let merged = merged.read()?;
        let mut counts = device.alloc(both)?;
        count_values(stream, &merged.counts, both, &mut counts)?;
        let values = self.copied(stream, &merged.counts, both, Some(&batch_values))?;
        let mut sums = Found::new(device, both)?;
        let pairs = Pairs { keys: &merged.keys, values: &counts, count: both.into() };
        sum_by_key(stream, pairs, sums.output(), &mut RunScratch::new(device, both)?)?;
        drop((merged, counts, batch_values));
        self.contents = Contents::of(stream, &sums.read()?, values, &self.options)?;
        Ok(UpdateReport { path: UpdatePath::Rebuilt, ..inserted })
    }

    /// Removes all pairs of each key. A key that is absent, or was removed by an earlier element of the batch, is unmatched. All or
    /// nothing. On the host in place; on a device it rebuilds the map, as the [module](crate) says, unless nothing is removed.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room or fails. The map is as it was.
    pub fn remove_all_many(&mut self, keys: &[K]) -> Result<UpdateReport> {
        if keys.is_empty() || self.is_empty() {
            return Ok(UpdateReport { unmatched: keys.len() as u64, ..UpdateReport::default() });
        }
        let (stream, keys) = (self.device.stream()?, self.device.upload(keys)?);
        self.remove_all_on(&stream, &keys)
    }

    /// [`MultiMap::remove_all_many`] of a batch that is on the device, as [`MultiMap::insert_on`].
    ///
    /// # Errors
    /// As [`MultiMap::remove_all_many`]; [`Error::Runtime`] for a stream or a buffer of another device.
    pub fn remove_all_on(&mut self, stream: &Stream, keys: &Buffer<K>) -> Result<UpdateReport> {
        self.check_device(stream, "the keys' buffer", keys)?;
        let (device, batch) = (stream.device(), keys.len());
        if batch == 0 || self.is_empty() {
            return Ok(UpdateReport { unmatched: batch as u64, ..UpdateReport::default() });
        }
        if is_host(stream) {
            return self.remove_all_on_host(slice(keys));
        }
        let (places, ranks) = self.found(stream, keys)?;
        let (listed, listed_places) = self.contents.list(stream)?;
        let mut counts = device.alloc(listed.len())?;
        count_values(stream, &listed_places, listed.len(), &mut counts)?;
        mark_keys(stream, (&places, &ranks), batch, &mut counts, listed.len())?;
        let mut kept = self.kept(stream, (&listed, &listed_places), &counts)?;
        let removed_keys = (listed.len() - kept.len) as u64;
        let mut report = UpdateReport { unmatched: batch as u64 - removed_keys, ..UpdateReport::default() };
        if removed_keys == 0 {
            return Ok(report);
        }
        drop((listed, listed_places));
        count_values(stream, &kept.counts, kept.len, &mut counts)?;
        let values = self.copied(stream, &kept.counts, kept.len, None)?;
        kept.counts = counts;
        report.removed = self.len() - values.1;
        report.path = UpdatePath::Rebuilt;
        self.contents = Contents::of(stream, &kept, values, &self.options)?;
        Ok(report)
    }

    /// Removes one pair for each element of the batch: the first one of its key with an equal value, as if one element after
    /// another was applied. An element that finds no pair any more is unmatched. All or nothing. On the host in place; on a device it
    /// rebuilds the map, as the [module](crate) says, unless nothing is removed.
    ///
    /// The CPU sorts the batch. The device compares all values of the batch's keys, whatever number of them is to be removed. After
    /// inserts in place on a device, [the order is restored](MultiMap::restore_order) first.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room or fails: the map has the pairs that it had. [`Error::Lost`] after a batch that
    /// failed half-way.
    pub fn remove_pairs_many(&mut self, pairs: &[(K, V)]) -> Result<UpdateReport> {
        let unchanged = UpdateReport { unmatched: pairs.len() as u64, ..UpdateReport::default() };
        if pairs.is_empty() || self.is_empty() {
            return Ok(unchanged);
        }
        let batch = Wanted::new(pairs)?;
        if self.device.kind() == DeviceKind::Host {
            return self.remove_pairs_on_host(&batch);
        }
        self.restore_order()?;
        let device = &self.device;
        let stream = device.stream()?;
        let (places, ranks) = self.found(&stream, &device.upload(&batch.keys)?)?;
        let wanted = WantedValues {
            offsets: device.upload(&batch.offsets)?,
            values: device.upload(&batch.values)?,
            times: device.upload(&batch.times)?,
            rows: device.upload(&batch.rows)?,
        };
        let rows = batch.keys.len();
        let mut counts = device.alloc(rows)?;
        count_values(&stream, &places, rows, &mut counts)?;
        let offsets = offsets_of(&stream, &counts, rows)?;
        let total = read(&offsets, rows)? as usize;
        if total == 0 {
            return Ok(unchanged);
        }
        // The matches in the order of wanted values; the matches of one value in the order of positions.
        let rows = RowsOf { begins: &places, shift: COUNT_BITS, offsets: &offsets, rows };
        let matches = match_values(&stream, &self.contents.values, rows, total, &wanted)?;
        let mut selected = Found::<u64>::new(device, total)?;
        let all = Pairs { keys: &matches.wanted, values: &matches.positions, count: total.into() };
        select(&stream, all, &matches.hits, selected.output(), &mut SelectScratch::new(device, total)?)?;
        let selected = selected.read()?;
        drop(matches);
        if selected.len == 0 {
            return Ok(unchanged);
        }
        let (mut ordered, mut positions) = (device.alloc(selected.len)?, device.alloc(selected.len)?);
        let mut scratch = RadixSortScratch::for_pairs(device, selected.len)?;
        let bits = 0..u64::BITS - (batch.values.len() as u64).leading_zeros();
        let unordered = (&selected.keys, &selected.counts);
        radix_sort(&stream, unordered, selected.len, bits, (&mut ordered, &mut positions), &mut scratch)?;

        let (listed, listed_places) = self.contents.list(&stream)?;
        let (keys, len) = (listed.len(), self.contents.len as usize);
        let (mut counts, mut removed) = (device.alloc(keys)?, device.alloc(len.div_ceil(32))?);
        count_values(&stream, &listed_places, keys, &mut counts)?;
        removed.fill_zero(&stream)?;
        let found = (&ordered, &positions, selected.len);
        remove_pairs(&stream, found, &wanted, &ranks, (&mut counts, keys), (&mut removed, len))?;
        let kept = self.kept(&stream, (&listed, &counts), &counts)?;
        let values =
            compact(&stream, (&self.contents.values, len), &removed, |kept| self.options.positions(device, kept))?;
        let removed = len as u64 - values.1;
        self.contents = Contents::of(&stream, &kept, values, &self.options)?;
        let unmatched = unchanged.unmatched - removed;
        Ok(UpdateReport { removed, unmatched, path: UpdatePath::Rebuilt, ..UpdateReport::default() })
    }

    /// Brings the values into the order of the keys, which changes in place disturb: a rebuild. Ranks, ranges and scans on a device need it;
    /// on the host they become faster.
    /// Returns whether there was anything to restore.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room or fails: the map is as it was. [`Error::Lost`].
    pub fn restore_order(&mut self) -> Result<bool> {
        self.contents.keys.check_not_lost()?;
        let is_ordered = self.contents.is_ordered();
        if !is_ordered {
            self.contents = self.rebuilt(&self.device.stream()?)?;
        }
        Ok(!is_ordered)
    }

    /// Rebuilds the map from its pairs, with its options, in new memory, and so restores the order, too. Returns by how many bytes it
    /// has become smaller; 0 if it has not. Meanwhile there are both maps.
    ///
    /// # Errors
    /// As [`MultiMap::restore_order`].
    pub fn compact(&mut self) -> Result<u64> {
        let before = self.bytes();
        self.contents = self.rebuilt(&self.device.stream()?)?;
        Ok(before.saturating_sub(self.bytes()))
    }

    /// A second map with the same pairs and options, on the same device.
    ///
    /// # Errors
    /// As [`MultiMap::restore_order`].
    pub fn try_clone(&self) -> Result<Self> {
        let contents = self.rebuilt(&self.device.stream()?)?;
        Ok(Self::of(self.device.clone(), contents, self.options))
    }

    /// Removes all pairs and gives back their memory; the map keeps its options.
    ///
    /// # Errors
    /// [`Error::Runtime`] from the device: the map is as it was. [`Error::Lost`].
    pub fn clear(&mut self) -> Result<()> {
        self.contents.keys.check_not_lost()?;
        *self = Builder::of(self.options).build(&self.device, &[], &[])?;
        Ok(())
    }

    pub(crate) fn rebuilt(&self, stream: &Stream) -> Result<Contents<K, V>> {
        let (keys, places) = self.contents.list(stream)?;
        let len = keys.len();
        let mut counts = self.device.alloc(len)?;
        count_values(stream, &places, len, &mut counts)?;
        let values = self.copied(stream, &places, len, None)?;
        Contents::of(stream, &Counted { keys, counts, len }, values, &self.options)
    }

    /// The places of keys, and their ranks among the distinct keys.
    fn found(&self, stream: &Stream, keys: &Buffer<K>) -> Result<(Buffer<u64>, Buffer<u64>)> {
        let (mut places, mut ranks) = (stream.device().alloc(keys.len())?, stream.device().alloc(keys.len())?);
        let on = || self.contents.keys.on(stream);
        on().miss(0).get(keys, &mut places)?;
        on().lower_bound(keys, &mut ranks)?;
        Ok((places, ranks))
    }

    /// Checks that a batch and its stream are on the map's device.
    fn check_device<T: bytemuck::Pod>(&self, stream: &Stream, what: &'static str, buffer: &Buffer<T>) -> Result<()> {
        same_device(&self.device, stream.device(), "the stream")?;
        same_device(&self.device, buffer.device(), what)
    }

    /// The keys, and their numbers, whose count is not 0. Waits for the stream.
    fn kept(&self, stream: &Stream, (keys, numbers): Numbered<'_, K>, counts: &Buffer<u64>) -> Result<Counted<K>> {
        let len = keys.len();
        let flags = keep(stream, counts, len)?;
        let mut kept = Found::new(&self.device, len)?;
        let pairs = Pairs { keys, values: numbers, count: len.into() };
        select(stream, pairs, &flags, kept.output(), &mut SelectScratch::new(&self.device, len)?)?;
        kept.read()
    }

    /// The values of the first `rows` value spans, one after another, in a buffer with room for more; and how many values they are. Positions past the map's values are positions in `more`. Waits for the
    /// stream.
    fn copied(
        &self,
        stream: &Stream,
        places: &Buffer<u64>,
        rows: usize,
        more: Option<&Buffer<V>>,
    ) -> Result<(Buffer<V>, u64)> {
        let spans = Spans { begins: places, shift: COUNT_BITS, lengths: None, count: rows };
        let of = self.contents.spanned(V::MIN);
        let of = SpanValues { more: more.or(of.more), ..of };
        let (mut len, mut scratch) = (self.device.alloc(1)?, ExpandScratch::new(&self.device, rows)?);
        let counted = Expanded::<V> { offsets: None, count: Some(&mut len), values: None, numbers: None };
        expand(stream, spans, of, counted, &mut scratch)?;
        let len = read(&len, 0)?;
        let mut values = self.device.alloc(self.options.positions(&self.device, len as usize))?;
        expand(stream, spans, of, values_only(&mut values), &mut scratch)?;
        Ok((values, len))
    }
}
