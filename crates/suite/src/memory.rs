//! The memory of queries in device form, and answers from it: whatever answers, one index on a stream or one over several
//! devices, its call is a function here.

use crate::lent::Lender;
use crate::{Answer, Joining, Pairs};
use lanetree::{
    AnyKey, Buffer, DeviceMatches, DeviceRangeMatches, DeviceRanges, JoinScratch, NearestScratch, RangeJoinScratch,
    Result, Stream,
};
use lanetree_frame::{Value, Word};

/// The value that queries without a pair get here: no pair has it.
const MISS: u64 = 0xfeed_beef;

/// A value of any width.
pub(crate) fn wide<V: Value>(value: V) -> u64 {
    let mut word = [0; 8];
    word[..size_of::<V>()].copy_from_slice(bytemuck::bytes_of(&value));
    u64::from_le_bytes(word)
}

/// The value of a number.
pub(crate) fn narrow<V: Value>(number: u64) -> V {
    bytemuck::pod_read_unaligned(&number.to_le_bytes()[..size_of::<V>()])
}

/// What queries without a pair get.
pub(crate) fn miss<V: Value>() -> V {
    narrow(MISS)
}

/// Those results whose bits in a hit mask are set.
pub(crate) fn hits<T>(values: impl Iterator<Item = T>, mask: &[u32]) -> Vec<Option<T>> {
    values.enumerate().map(|(i, value)| is_hit(mask, i).then_some(value)).collect()
}

fn is_hit(mask: &[u32], i: usize) -> bool {
    mask[i / 32] >> (i % 32) & 1 == 1
}

/// Buffers of a stream's device, as callers have them.
pub(crate) struct Memory<'a> {
    pub(crate) lender: Lender,
    stream: &'a Stream,
}

impl<'a> Memory<'a> {
    pub(crate) fn new(stream: &'a Stream) -> Self {
        Self { lender: Lender::new(stream.device()), stream }
    }

    /// Two columns.
    pub(crate) fn upload_spans<K: AnyKey>(&self, spans: &[(K, K)]) -> Result<[Buffer<K>; 2]> {
        let (starts, ends): (Vec<K>, Vec<K>) = spans.iter().copied().unzip();
        Ok([self.lender.upload(&starts)?, self.lender.upload(&ends)?])
    }

    /// The bitmap of a join's probes, if some may be null.
    pub(crate) fn upload_valid(&self, of: Joining, probes: usize) -> Result<Option<Buffer<u32>>> {
        of.bitmap(probes).map(|words| self.lender.upload(&words)).transpose()
    }

    /// At most one pair of each query, [`miss`] where there is none.
    pub(crate) fn neighbors<K: AnyKey, V: Value>(
        &self,
        count: usize,
        find: impl FnOnce(&mut Buffer<K>, &mut Buffer<V>, &mut Buffer<u32>) -> Result<()>,
    ) -> Result<Answer<K>> {
        // The keys of misses are unspecified: they need not be written.
        let (mut keys, mut values) = (self.lender.alloc_zeroed::<K>(count)?, self.lender.alloc::<V>(count)?);
        let mut mask = self.lender.alloc(count.div_ceil(32))?;
        find(&mut keys, &mut values, &mut mask)?;
        self.stream.synchronize()?;
        let (keys, values, mask) = (keys.to_vec()?, values.to_vec()?, mask.to_vec()?);
        let is_past = count.is_multiple_of(32) || mask.last().is_none_or(|word| word >> (count % 32) == 0);
        assert!(is_past, "bits past the last query: {mask:x?}");
        let missed = (0..count).filter(|&i| !is_hit(&mask, i));
        assert!(missed.into_iter().all(|i| values[i] == miss()), "values of misses: {values:?}");
        let pairs = keys.into_iter().zip(values.into_iter().map(wide));
        Ok(Answer::Neighbors(hits(pairs, &mask)))
    }

    /// The pairs of ranges: first without room for any, which tells how many there are, then with enough. Every other batch
    /// also with room for half of them, with so much that another kernel copies them, and without keys.
    pub(crate) fn rows<K: AnyKey, V: Value>(
        &self,
        count: usize,
        mut find: impl FnMut(&mut DeviceRanges<K, V>) -> Result<()>,
    ) -> Result<Answer<K>> {
        let mut out = self.ranges(count, 0, 0)?;
        let mut found = |out: &mut DeviceRanges<K, V>| {
            find(out)?;
            self.stream.synchronize()?;
            Ok::<_, lanetree::Error>((out.offsets.to_vec()?, out.keys.to_vec()?, out.values.to_vec()?))
        };
        let total = found(&mut out)?.0[count] as usize;
        let (offsets, keys, values) = found(&mut self.ranges(count, total, total)?)?;
        for (room_of_keys, room) in [(total / 2, total / 2), (total + 130 * count, total + 130 * count), (0, total)] {
            if count % 2 == 1 {
                continue;
            }
            let (other_offsets, other_keys, other_values) = found(&mut self.ranges(count, room_of_keys, room)?)?;
            let what = format!("with room for {room} of {total} pairs and {room_of_keys} of their keys");
            assert_eq!(other_offsets, offsets, "{what}");
            let (most_keys, most) = (room_of_keys.min(total), room.min(total));
            assert!(other_keys[..most_keys] == keys[..most_keys], "keys, {what}");
            assert!(other_values[..most] == values[..most], "values, {what}");
            // What was zero is, past the last pair.
            assert!(other_values[most..].iter().all(|&value| wide(value) == 0), "values past the last, {what}");
        }
        let row = |ends: &[u64]| {
            let row = ends[0] as usize..ends[1] as usize;
            keys[row.clone()].iter().copied().zip(values[row].iter().copied().map(wide)).collect()
        };
        Ok(Answer::Rows(offsets.windows(2).map(row).collect()))
    }

    /// The same, with scratch memory, which is larger than needed and used again.
    pub(crate) fn nearest<K: AnyKey, V: Value>(
        &self,
        count: usize,
        mut find: impl FnMut(&mut NearestScratch<K, V>, &mut DeviceRanges<K, V>) -> Result<()>,
    ) -> Result<Answer<K>> {
        let mut scratch = NearestScratch::new(self.stream.device(), count + 3)?;
        self.rows(count, |out| find(&mut scratch, out))
    }

    fn ranges<K: AnyKey, V: Value>(&self, count: usize, keys: usize, values: usize) -> Result<DeviceRanges<K, V>> {
        let offsets = self.lender.alloc(count + 1)?;
        Ok(DeviceRanges { offsets, keys: self.lender.alloc_zeroed(keys)?, values: self.lender.alloc_zeroed(values)? })
    }

    /// The first pairs from each key on.
    pub(crate) fn scan<K: AnyKey, V: Value>(
        &self,
        count: usize,
        limit: u32,
        find: impl FnOnce(&mut Buffer<K>, &mut Buffer<V>, &mut Buffer<u32>) -> Result<()>,
    ) -> Result<Answer<K>> {
        let most = limit as usize;
        // Only the elements of pairs are written.
        let (mut keys, mut values) =
            (self.lender.alloc_zeroed::<K>(count * most)?, self.lender.alloc_zeroed::<V>(count * most)?);
        let mut counts = self.lender.alloc(count)?;
        find(&mut keys, &mut values, &mut counts)?;
        self.stream.synchronize()?;
        let (keys, values, counts) = (keys.to_vec()?, values.to_vec()?, counts.to_vec()?);
        let row = |(i, &pairs): (usize, &u32)| -> Pairs<K> {
            let row = i * most..i * most + pairs as usize;
            keys[row.clone()].iter().copied().zip(values[row].iter().copied().map(wide)).collect()
        };
        Ok(Answer::Rows(counts.iter().enumerate().map(row).collect()))
    }

    /// The rows of a join by key, with probes' numbers of 4 bytes or of 8.
    pub(crate) fn joined<K>(
        &self,
        of: Joining,
        count: usize,
        narrow: impl FnOnce(&mut JoinScratch, &mut DeviceMatches<u32>) -> Result<()>,
        wide: impl FnOnce(&mut JoinScratch, &mut DeviceMatches) -> Result<()>,
    ) -> Result<Answer<K>> {
        if count % 2 == 1 { self.joined_as(of, count, narrow) } else { self.joined_as(of, count, wide) }
    }

    fn joined_as<K, N: Word>(
        &self,
        of: Joining,
        count: usize,
        join: impl FnOnce(&mut JoinScratch, &mut DeviceMatches<N>) -> Result<()>,
    ) -> Result<Answer<K>> {
        // Larger than needed: scratch memory is used again.
        let mut scratch = JoinScratch::new(self.stream.device(), count + 3)?;
        let room_of_rows = if of.kind.has_rows() { count } else { 0 };
        let (total, probes) = (self.lender.alloc(1)?, self.lender.alloc(count)?);
        let mut out = DeviceMatches { count: total, probes, rows: self.lender.alloc(room_of_rows)? };
        join(&mut scratch, &mut out)?;
        self.stream.synchronize()?;
        let total = out.count.to_vec()?[0] as usize;
        let (probes, mut rows) = (out.probes.to_vec()?, out.rows.to_vec()?);
        rows.truncate(total);
        Ok(Answer::Joined { probes: probes.into_iter().take(total).map(N::widen).collect(), rows })
    }

    /// The rows of a join by ranges, whose matches' keys have these values: with enough room, and with room for half of
    /// them, with and without keys.
    pub(crate) fn joined_by_ranges<K: AnyKey, V: Value>(
        &self,
        of: Joining,
        count: usize,
        mut join: impl FnMut(&mut RangeJoinScratch<K>, &mut DeviceRangeMatches<K, V>) -> Result<()>,
        values_of: impl Fn(&[K]) -> Result<Vec<Option<V>>>,
    ) -> Result<Answer<K>> {
        let device = self.stream.device();
        let mut scratch = RangeJoinScratch::new(device, count + 3)?;
        let mut found = |room_of_keys: usize, room: usize| {
            let pairs = self.ranges(count, room_of_keys, room)?;
            let probes = self.lender.alloc(if of.kind.has_rows() { room } else { count })?;
            let mut out = DeviceRangeMatches { pairs, probes };
            join(&mut scratch, &mut out)?;
            self.stream.synchronize()?;
            let (offsets, probes) = (out.pairs.offsets.to_vec()?, out.probes.to_vec()?);
            Ok::<_, lanetree::Error>((offsets, probes, out.pairs.keys.to_vec()?, out.pairs.values.to_vec()?))
        };
        if !of.kind.has_rows() {
            let (offsets, mut probes, ..) = found(0, 0)?;
            probes.truncate(offsets[0] as usize);
            return Ok(Answer::Joined { probes, rows: Vec::new() });
        }
        let total = found(0, 0)?.0[count] as usize;
        let (offsets, probes, keys, values) = found(total, total)?;
        let of_keys = values_of(&keys)?;
        for (i, &value) in values.iter().enumerate() {
            assert!(value == miss() || of_keys[i] == Some(value), "the key of row {i} is {}", keys[i]);
        }
        for room_of_keys in [0, total / 2] {
            let (other_offsets, other_probes, other_keys, other_values) = found(room_of_keys, total / 2)?;
            assert_eq!(other_offsets, offsets, "with room for half of {total}");
            assert!(other_probes == probes[..total / 2], "probes, with room for half of {total}");
            assert!(other_values == values[..total / 2], "values, with room for half of {total}");
            let keys = other_keys.iter().zip(&keys).zip(&values);
            assert!(keys.into_iter().all(|((other, key), &value)| value == miss() || other == key), "keys");
        }
        let row = |value: V| if value == miss() { lanetree::Matches::NO_ROW } else { wide(value) };
        Ok(Answer::Joined { probes, rows: values.into_iter().map(row).collect() })
    }
}

/// Answers a question in device form, by calls that have the same names whatever answers: `$on` makes what is asked, `$range` asks
/// it for the pairs of ranges, and `$get` says what keys' values are. `None` for what is asked by other calls.
macro_rules! in_buffers {
    ($question:expr, $stream:expr, $on:expr, $range:expr, $get:expr) => {{
        let (memory, on) = ($crate::memory::Memory::new($stream), $on);
        let upload = |keys: &[_]| memory.lender.upload(keys);
        Ok(Some(match $question {
            Question::Get(keys) => {
                let (queries, mut values) = (upload(keys)?, memory.lender.alloc(keys.len())?);
                let mut mask = memory.lender.alloc(keys.len().div_ceil(32))?;
                on().hits(&mut mask).get(&queries, &mut values)?;
                $stream.synchronize()?;
                Answer::Values($crate::memory::hits(
                    values.to_vec()?.into_iter().map($crate::memory::wide),
                    &mask.to_vec()?,
                ))
            }
            Question::Rank(keys, side) => {
                let (queries, mut ranks) = (upload(keys)?, memory.lender.alloc(keys.len())?);
                match side {
                    Side::Lower => on().lower_bound(&queries, &mut ranks)?,
                    Side::Upper => on().upper_bound(&queries, &mut ranks)?,
                }
                $stream.synchronize()?;
                Answer::Numbers(ranks.to_vec()?)
            }
            Question::Neighbor(keys, side) => {
                let queries = upload(keys)?;
                memory.neighbors(keys.len(), |keys, values, mask| match side {
                    Side::Upper => on().hits(mask).miss(miss()).predecessor(&queries, keys, values),
                    Side::Lower => on().hits(mask).miss(miss()).successor(&queries, keys, values),
                })?
            }
            Question::AsOf(keys, near) => {
                let queries = upload(keys)?;
                let find = |keys: &mut _, values: &mut _, mask: &mut _| {
                    on().miss(miss()).asof(&queries, &near.as_of(), keys, values, mask)
                };
                memory.neighbors(keys.len(), find)?
            }
            Question::Nearest(keys, k, near) => {
                let queries = upload(keys)?;
                memory.nearest(keys.len(), |scratch, out| on().k_nearest(&queries, *k, &near.as_of(), scratch, out))?
            }
            Question::Last(spans, k) => {
                let [starts, ends] = memory.upload_spans(spans)?;
                memory.nearest(spans.len(), |scratch, out| on().range_last(&starts, &ends, *k, scratch, out))?
            }
            Question::Range(ranges) => {
                let Some((spans, limits)) = $crate::memory::inclusive(ranges) else { return Ok(None) };
                let ([starts, ends], limits) = (memory.upload_spans(&spans)?, memory.lender.upload(&limits)?);
                memory.rows(ranges.len(), $range(&starts, &ends, &limits))?
            }
            Question::Count(ranges) => {
                let Some((spans, limits)) = $crate::memory::inclusive(ranges) else { return Ok(None) };
                let ([starts, ends], limits) = (memory.upload_spans(&spans)?, memory.lender.upload(&limits)?);
                let mut counts = memory.lender.alloc(ranges.len())?;
                on().limits(&limits).count_range(&starts, &ends, &mut counts)?;
                $stream.synchronize()?;
                Answer::Numbers(counts.to_vec()?)
            }
            Question::Join(probes, of) => {
                let (queries, valid) = (upload(probes)?, memory.upload_valid(*of, probes.len())?);
                let on = || {
                    let on = on().kind(of.kind);
                    if let Some(valid) = &valid { on.valid(valid, of.first_bit.into()) } else { on }
                };
                let narrow = |scratch: &mut _, out: &mut _| on().join(&queries, scratch, out);
                memory.joined(*of, probes.len(), narrow, |scratch, out| on().join(&queries, scratch, out))?
            }
            Question::RangeJoin(spans, open, of) => {
                let ([lows, highs], valid) = (memory.upload_spans(spans)?, memory.upload_valid(*of, spans.len())?);
                let join = |scratch: &mut _, out: &mut _| {
                    let on = if of.kind == JoinKind::Left { on().miss(miss()) } else { on() }.kind(of.kind);
                    let on = if let Some(valid) = &valid { on.valid(valid, of.first_bit.into()) } else { on };
                    on.range_join(&lows, &highs, open.closed(), scratch, out)
                };
                memory.joined_by_ranges(*of, spans.len(), join, $get)?
            }
            Question::BandJoin(probes, distance, of) => {
                let (queries, valid) = (upload(probes)?, memory.upload_valid(*of, probes.len())?);
                let join = |scratch: &mut _, out: &mut _| {
                    let on = if of.kind == JoinKind::Left { on().miss(miss()) } else { on() }.kind(of.kind);
                    let on = if let Some(valid) = &valid { on.valid(valid, of.first_bit.into()) } else { on };
                    on.band_join(&queries, *distance, scratch, out)
                };
                memory.joined_by_ranges(*of, probes.len(), join, $get)?
            }
            Question::AsOfJoin(..)
            | Question::Aggregate(..)
            | Question::Scan(..)
            | Question::Prefix(_)
            | Question::Combine(..) => return Ok(None),
        }))
    }};
}
pub(crate) use in_buffers;

/// The bounds and limits of ranges that all include both their bounds, as the device form takes them.
#[expect(clippy::type_complexity, reason = "two columns")]
pub(crate) fn inclusive<K: Copy>(ranges: &[crate::Range<K>]) -> Option<(Vec<(K, K)>, Vec<u64>)> {
    use core::ops::Bound::Included;
    let bounds = |&(start, end, limit): &crate::Range<K>| match (start, end) {
        (Included(start), Included(end)) => Some(((start, end), limit.unwrap_or(u64::MAX))),
        _ => None,
    };
    ranges.iter().map(bounds).collect::<Option<Vec<_>>>().map(|bounds| bounds.into_iter().unzip())
}
