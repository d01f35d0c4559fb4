//! What an index has in addition to [`OrderedIndex`].

use crate::lent::Lender;
use crate::model::Range;
use crate::{Change, Combination, Counts, Form, Numbered, Side};
use core::ops::Bound;
use lanetree::hbtree::{HbTree, Regular};
use lanetree::{
    AnyKey, Buffer, DeviceKind, Domain, Error, Join, JoinKind, Key, KeyOf, NeighborsOf, Op, OrderedIndex, RangesOf,
    Result, Stream, Validity, Word, no_row,
};
use lanetree_frame::fixed::{
    AsOf, Combine, CombineScratch, DeviceMatches, DeviceRanges, FixedIndex, HostForm, JoinScratch, NearestScratch,
    OnStream, RangeScratch, Scans, Sorted,
};

/// Pairs of an index, with values of its own width.
pub(crate) type PairsOf<I> = Vec<(KeyOf<I>, <I as OrderedIndex>::Value)>;

/// The same of an index over keys of a fixed size, which may have no values.
pub(crate) type FixedPairs<I> = Vec<(<I as FixedIndex>::Key, <I as FixedIndex>::Value)>;

/// Calls that an index has in addition to the calls of [`OrderedIndex`], most of them in device form. `None` from a
/// call: the index has no such call, and the host form is used. Every method has such a default.
pub trait Hooks<I: OrderedIndex<Domain: Domain<Key: Numbered>>>: Sized {
    /// What the calls need in addition to the index, such as scratch memory; any number chooses options.
    ///
    /// # Errors
    /// The index's own, here and below.
    fn start(index: &I, options: u8) -> Result<Self>;

    /// Whether the index answers in device form now, if it has that form.
    fn takes_buffers(&self, _index: &I) -> bool {
        true
    }

    /// Applies a batch of at least one operation in device form.
    fn apply(
        &mut self,
        _index: &mut I,
        _stream: &Stream,
        _change: Change,
        _ops: &[Op<KeyOf<I>, I::Value>],
    ) -> Option<Result<Counts>> {
        None
    }

    /// [`Subject::get`](crate::Subject::get) by another call than [`DeviceForm::get`](lanetree::DeviceForm::get).
    fn get(&self, _index: &I, _stream: &Stream, _keys: &[KeyOf<I>]) -> Option<Result<Vec<Option<I::Value>>>> {
        None
    }

    /// [`Subject::join`](crate::Subject::join) in device form.
    fn join(&self, _index: &I, _stream: &Stream, _keys: &[KeyOf<I>]) -> Option<Result<Vec<Option<u64>>>> {
        None
    }

    /// [`Subject::neighbor`](crate::Subject::neighbor) in device form.
    fn neighbor(
        &self,
        _index: &I,
        _stream: &Stream,
        _keys: &[KeyOf<I>],
        _side: Side,
    ) -> Option<Result<NeighborsOf<I>>> {
        None
    }

    /// [`Subject::range`](crate::Subject::range) in device form.
    fn range(&self, _index: &I, _stream: &Stream, _ranges: &[Range<KeyOf<I>>]) -> Option<Result<Vec<PairsOf<I>>>> {
        None
    }

    /// [`Subject::count`](crate::Subject::count) in device form.
    fn count(&self, _index: &I, _stream: &Stream, _ranges: &[Range<KeyOf<I>>]) -> Option<Result<Vec<u64>>> {
        None
    }

    /// [`Subject::combine`](crate::Subject::combine).
    fn combine(
        &self,
        _index: &I,
        _how: Combination,
        _pairs: &[(KeyOf<I>, I::Value)],
        _form: Form,
    ) -> Option<Result<PairsOf<I>>> {
        None
    }

    /// [`Subject::scan`](crate::Subject::scan), in device form.
    fn scan(&self, _index: &I, _stream: &Stream, _starts: &[KeyOf<I>], _limit: u32) -> Option<Result<Vec<PairsOf<I>>>> {
        None
    }

    /// [`Subject::prefix`](crate::Subject::prefix).
    fn prefix(&self, _index: &I, _prefixes: &[KeyOf<I>]) -> Option<Result<RangesOf<I>>> {
        None
    }

    /// [`Subject::check_structure`](crate::Subject::check_structure).
    fn check_structure(&self, _index: &I) {}

    /// [`Subject::relocate`](crate::Subject::relocate).
    ///
    /// # Errors
    /// The index's own.
    fn relocate(index: I) -> Result<I> {
        Ok(index)
    }

    /// [`Subject::may_refuse`](crate::Subject::may_refuse), in addition to [`Error::NotCompact`], which any index may
    /// give after an insert or a removal.
    fn may_refuse(&self, _index: &I, _error: &Error) -> bool {
        false
    }
}

/// The hooks of an index that has only the calls of [`OrderedIndex`].
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl<I: OrderedIndex<Domain: Domain<Key: Numbered>>> Hooks<I> for Plain {
    fn start(_: &I, _: u8) -> Result<Self> {
        Ok(Self)
    }
}

/// The hooks of regular HB+-trees: the check of their nodes.
#[derive(Clone, Copy, Debug)]
pub struct RegularHooks;

impl<K: Key + Numbered, V: Word> Hooks<HbTree<K, V, Regular>> for RegularHooks {
    fn start(_: &HbTree<K, V, Regular>, _: u8) -> Result<Self> {
        Ok(Self)
    }

    fn check_structure(&self, index: &HbTree<K, V, Regular>) {
        if index.device().kind() != DeviceKind::Cuda {
            index.check_structure();
        }
    }
}

/// The hooks of any [`FixedIndex`]: the device form of neighbours and ranges.
#[derive(Clone, Copy, Debug)]
pub struct Fixed;

impl<I: FixedIndex<Key: Numbered, Value: Word>> Hooks<I> for Fixed {
    fn start(_: &I, _: u8) -> Result<Self> {
        Ok(Self)
    }

    fn join(&self, index: &I, stream: &Stream, keys: &[<I as FixedIndex>::Key]) -> Option<Result<Vec<Option<u64>>>> {
        Some(fixed_join(index, stream, keys))
    }

    fn combine(
        &self,
        index: &I,
        how: Combination,
        pairs: &[(<I as FixedIndex>::Key, <I as FixedIndex>::Value)],
        form: Form,
    ) -> Option<Result<PairsOf<I>>> {
        Some(fixed_combine(index, how, pairs, form))
    }

    fn neighbor(
        &self,
        index: &I,
        stream: &Stream,
        keys: &[<I as FixedIndex>::Key],
        side: Side,
    ) -> Option<Result<NeighborsOf<I>>> {
        Some(fixed_neighbor(index, stream, keys, side))
    }

    fn range(
        &self,
        index: &I,
        stream: &Stream,
        ranges: &[Range<<I as FixedIndex>::Key>],
    ) -> Option<Result<Vec<PairsOf<I>>>> {
        fixed_range(index, stream, ranges)
    }

    fn count(&self, index: &I, stream: &Stream, ranges: &[Range<<I as FixedIndex>::Key>]) -> Option<Result<Vec<u64>>> {
        fixed_count(index, stream, ranges)
    }
}

/// The number of the pair of each key that is present, by a join in device form.
///
/// # Errors
/// The index's own.
pub(crate) fn fixed_join<I: FixedIndex>(index: &I, stream: &Stream, keys: &[I::Key]) -> Result<Vec<Option<u64>>> {
    let (device, lender) = (index.device(), Lender::new(index.device()));
    let probes = lender.upload(keys)?;
    // Larger than needed: scratch memory is used again.
    let mut scratch = JoinScratch::new(device, keys.len() + 3)?;
    let count = lender.alloc(1)?;
    let mut out = DeviceMatches { count, probes: lender.alloc(keys.len())?, rows: lender.alloc(keys.len())? };
    OnStream::new(index, stream).join(&probes, &mut scratch, &mut out)?;
    stream.synchronize()?;
    let count = out.count.to_vec()?[0] as usize;
    let (probes, rows) = (out.probes.to_vec()?, out.rows.to_vec()?);
    assert!(probes[..count].is_sorted_by(|a, b| a < b), "each probe once, in order: {probes:?}");
    let mut found = vec![None; keys.len()];
    for (&probe, &row) in probes[..count].iter().zip(&rows[..count]) {
        found[probe as usize] = Some(row);
    }
    join_of_a_kind(index, stream, keys, &found)?;
    Ok(found)
}

/// Compares a join of some kind, a fifth of whose probes are null, with the number of the pair of each probe.
///
/// # Errors
/// The index's own.
fn join_of_a_kind<I: FixedIndex>(index: &I, stream: &Stream, keys: &[I::Key], found: &[Option<u64>]) -> Result<()> {
    let (device, lender) = (index.device(), Lender::new(index.device()));
    let probes = lender.upload(keys)?;
    let mut scratch = JoinScratch::new(device, keys.len())?;
    let kinds = [(JoinKind::Inner, 3), (JoinKind::Left, 40), (JoinKind::Semi, 0), (JoinKind::Anti, 31)];
    let (kind, from) = kinds[keys.len() % kinds.len()];
    let is_valid = |i: usize| !(i * 7 + from).is_multiple_of(5);
    let row = |i: usize| found[i].filter(|_| is_valid(i));
    let is_kept = |&i: &usize| kind.rows(row(i).iter().len() as u64) == 1;
    let numbers: Vec<u64> = (0..keys.len()).filter(is_kept).map(|i| i as u64).collect();
    let mut rows: Vec<u64> = numbers.iter().map(|&i| row(i as usize).unwrap_or(no_row())).collect();

    let mut bits = vec![0_u32; (from + keys.len()).div_ceil(32)];
    (0..keys.len()).for_each(|i| bits[(from + i) / 32] |= u32::from(is_valid(i)) << ((from + i) % 32));
    let bytes: Vec<u8> = bits.iter().flat_map(|word| word.to_le_bytes()).collect();
    let validity = Validity::new(&bytes, from, keys.len())?;
    let valid = lender.upload(&bits)?;
    let mut out = DeviceMatches::new(device, keys.len())?;
    OnStream::new(index, stream).kind(kind).valid(&valid, from).join(&probes, &mut scratch, &mut out)?;
    stream.synchronize()?;
    let count = out.count.to_vec()?[0] as usize;
    assert_eq!(out.probes.to_vec()?[..count], numbers, "{kind:?}, device form");
    if kind.has_rows() {
        assert_eq!(out.rows.to_vec()?[..count], rows, "{kind:?}, device form");
    } else {
        rows.clear();
    }
    let host = index.join_as_many(keys, &Join::new(kind).valid(validity))?;
    assert_eq!((host.len(), &host.probes, &host.rows), (count, &numbers, &rows), "{kind:?}, host form");
    Ok(())
}

/// All pairs of an index combined with a sorted batch, or with another index of its kind.
///
/// # Errors
/// The index's own.
pub(crate) fn fixed_combine<I: FixedIndex>(
    index: &I,
    how: Combination,
    pairs: &[(I::Key, I::Value)],
    form: Form,
) -> Result<FixedPairs<I>> {
    let (keys, values): (Vec<I::Key>, Vec<I::Value>) = pairs.iter().copied().unzip();
    let combined = match (how, form) {
        (Combination::Union, Form::Host) => index.union(Sorted::pairs(&keys, &values))?,
        (Combination::Intersection, Form::Host) => index.intersection(Sorted::keys(&keys))?,
        (Combination::Difference, Form::Host) => index.difference(Sorted::keys(&keys))?,
        (how, Form::Device) => {
            let (device, stream) = (index.device(), index.device().stream()?);
            let lender = Lender::new(device);
            let (buffers, len) = ((lender.upload(&keys)?, lender.upload(&values)?), keys.len());
            refuses_short_buffers(index, &stream, (&buffers.0, &buffers.1), len)?;
            // SAFETY: the cases' pairs ascend strictly.
            let other = unsafe { index.build_like(&stream, (&buffers.0, &buffers.1), len)? };
            let mut scratch = CombineScratch::new(device)?;
            let scratch = &mut scratch;
            let combined = match how {
                Combination::Union => index.union_on(&stream, &other, scratch)?,
                Combination::Intersection => index.intersection_on(&stream, &other, scratch)?,
                Combination::Difference => index.difference_on(&stream, &other, scratch)?,
            };
            // In host form it is a batch that goes the same way; so now and then is enough.
            if len % 2 == 1 {
                let batch = (&buffers.0, &buffers.1);
                let same = match how {
                    Combination::Union => index.union_on(&stream, Sorted::pairs_on(batch.0, batch.1, len), scratch)?,
                    Combination::Intersection => {
                        index.intersection_on(&stream, Sorted::keys_on(batch.0, len), scratch)?
                    }
                    Combination::Difference => index.difference_on(&stream, Sorted::keys_on(batch.0, len), scratch)?,
                };
                assert_eq!(FixedIndex::pairs(&combined)?, FixedIndex::pairs(&same)?, "{how:?} with a batch");
            }
            combined
        }
    };
    // It answers, too, and is as long as its pairs are many.
    let pairs = FixedIndex::pairs(&combined)?;
    let keys: Vec<I::Key> = pairs.iter().map(|pair| pair.0).collect();
    assert!(HostForm::get_many(&combined, &keys)?.into_iter().eq(pairs.iter().map(|pair| Some(pair.1))));
    assert_eq!(FixedIndex::len(&combined), pairs.len() as u64);
    Ok(pairs)
}

/// A build over more pairs than the buffers hold is refused, before anything reads them.
fn refuses_short_buffers<I: FixedIndex>(
    index: &I,
    stream: &Stream,
    (keys, values): (&Buffer<I::Key>, &Buffer<I::Value>),
    len: usize,
) -> Result<()> {
    let longer = (index.device().alloc(len + 1)?, index.device().alloc(len + 1)?);
    for (pairs, len) in [((keys, values), usize::MAX), ((&longer.0, values), len + 1), ((keys, &longer.1), len + 1)] {
        // SAFETY: an error for what is too short comes before anything is read, so no order matters.
        match unsafe { index.build_like(stream, pairs, len) } {
            Err(Error::OutputLength { expected, actual, .. }) => assert!(expected == len && actual < len),
            other => panic!("{len} pairs from shorter buffers: {other:?}"),
        }
    }
    Ok(())
}

/// The neighbours of keys in device form.
///
/// # Errors
/// The index's own.
pub(crate) fn fixed_neighbor<I: FixedIndex<Value: Word>>(
    index: &I,
    stream: &Stream,
    keys: &[I::Key],
    side: Side,
) -> Result<NeighborsOf<I>> {
    let (lender, on) = (Lender::new(index.device()), OnStream::new(index, stream));
    let (queries, len) = (lender.upload(keys)?, keys.len());
    // The keys of misses are unspecified: they need not be written.
    let (mut keys, mut values) = (lender.alloc_zeroed::<I::Key>(len)?, lender.alloc::<I::Value>(len)?);
    let mut mask = lender.alloc(len.div_ceil(32))?;
    match side {
        Side::Upper => on.hits(&mut mask).predecessor(&queries, &mut keys, &mut values)?,
        Side::Lower => on.hits(&mut mask).successor(&queries, &mut keys, &mut values)?,
    }
    stream.synchronize()?;
    let found = hits(keys.to_vec()?.into_iter().zip(values.to_vec()?), &mask.to_vec()?);
    near_ones(index, stream, &queries, side, &found)?;
    Ok(found)
}

/// Compares the two nearest pairs on a side of each query with the neighbour on that side, and counts the nearest on both.
///
/// # Errors
/// The index's own.
fn near_ones<I: FixedIndex<Value: Word>>(
    index: &I,
    stream: &Stream,
    queries: &Buffer<I::Key>,
    side: Side,
    found: &[Option<(I::Key, I::Value)>],
) -> Result<()> {
    let (device, count) = (index.device(), found.len());
    // Larger than needed: scratch memory is used again.
    let mut scratch = NearestScratch::new(device, count + 3)?;
    let mut out = DeviceRanges::new(device, count, 2 * count)?;
    let of_side = if side == Side::Upper { AsOf::backward() } else { AsOf::forward() };
    for (how, is_of_both) in [(of_side, false), (AsOf::nearest(), true)] {
        match OnStream::new(index, stream).k_nearest(queries, 2, &how, &mut scratch, &mut out) {
            // There is no distance between floats.
            Err(Error::OptionValue { .. }) if is_of_both => continue,
            done => done?,
        }
        stream.synchronize()?;
        let (offsets, keys, values) = (out.offsets.to_vec()?, out.keys.to_vec()?, out.values.to_vec()?);
        let pairs = offsets[count] as usize;
        let mut alone = DeviceRanges::without_keys(device, count, pairs)?;
        OnStream::new(index, stream).k_nearest(queries, 2, &how, &mut scratch, &mut alone)?;
        stream.synchronize()?;
        assert_eq!(alone.offsets.to_vec()?, offsets, "without keys");
        assert!(alone.values.to_vec()? == values[..pairs], "values without keys");
        for (i, neighbor) in found.iter().enumerate() {
            let row = offsets[i] as usize..offsets[i + 1] as usize;
            let words: Vec<_> = keys[row.clone()].iter().map(|key| AnyKey::encode(*key)).collect();
            if is_of_both {
                assert_eq!(words.len() as u64, index.len().min(2), "the nearest two of query {i}");
                assert!(words.iter().is_sorted_by(|a, b| a != b), "two pairs near query {i}");
                continue;
            }
            let first = words.first().map(|&word| (word, values[row.start]));
            assert_eq!(
                first,
                neighbor.map(|(key, value)| (AnyKey::encode(key), value)),
                "the nearest one of query {i}"
            );
            let is_ordered = words.is_sorted_by(|a, b| if side == Side::Upper { a > b } else { a < b });
            assert!(is_ordered, "the nearest two of query {i}");
        }
    }
    Ok(())
}

/// The pairs of ranges in device form; `None` unless all include both their bounds.
pub(crate) fn fixed_range<I: FixedIndex>(
    index: &I,
    stream: &Stream,
    ranges: &[Range<I::Key>],
) -> Option<Result<Vec<FixedPairs<I>>>> {
    let find = |Inclusive { starts, ends, limits }| {
        let (device, lender, count) = (index.device(), Lender::new(index.device()), ranges.len());
        let (starts, ends, limits) = (lender.upload(&starts)?, lender.upload(&ends)?, lender.upload(&limits)?);
        let mut scratch = RangeScratch::new(device, count)?;
        // First without room for pairs, which tells how many there are.
        let mut out = DeviceRanges { offsets: lender.alloc(count + 1)?, ..DeviceRanges::new(device, count, 0)? };
        for _ in 0..2 {
            let on = OnStream::new(index, stream);
            on.limits(&limits).range(&starts, &ends, &mut scratch, &mut out)?;
            stream.synchronize()?;
            let pairs = out.offsets.to_vec()?[count] as usize;
            if pairs > out.keys.len() {
                (out.keys, out.values) = (lender.alloc_zeroed(pairs)?, lender.alloc_zeroed(pairs)?);
            }
        }
        let (offsets, keys, values) = (out.offsets.to_vec()?, out.keys.to_vec()?, out.values.to_vec()?);
        // Now and then with room for half of the pairs, which are then the first half; for enough pairs that another
        // kernel copies; and without keys.
        for (room, has_keys) in [(keys.len() / 2, true), (keys.len() + 130 * count, true), (keys.len(), false)] {
            if count % 2 == 1 {
                continue;
            }
            let mut other = DeviceRanges { offsets: lender.alloc(count + 1)?, ..DeviceRanges::new(device, count, 0)? };
            let room_of_keys = if has_keys { room } else { 0 };
            (other.keys, other.values) = (lender.alloc_zeroed(room_of_keys)?, lender.alloc_zeroed(room)?);
            OnStream::new(index, stream).limits(&limits).range(&starts, &ends, &mut scratch, &mut other)?;
            stream.synchronize()?;
            let most = room.min(keys.len());
            assert_eq!(other.offsets.to_vec()?, offsets, "room for {room} of {} pairs", keys.len());
            let most_keys = most.min(room_of_keys);
            assert!(
                other.keys.to_vec()?[..most_keys] == keys[..most_keys],
                "keys, with room for {room} of {}",
                keys.len()
            );
            assert!(other.values.to_vec()?[..most] == values[..most], "values, with room for {room} of {}", keys.len());
        }
        let row = |ends: &[u64]| {
            let row = ends[0] as usize..ends[1] as usize;
            keys[row.clone()].iter().copied().zip(values[row].iter().copied()).collect()
        };
        Ok(offsets.windows(2).map(row).collect())
    };
    inclusive(ranges).map(find)
}

/// The numbers of pairs of ranges in device form; `None` unless all include both their bounds.
pub(crate) fn fixed_count<I: FixedIndex>(
    index: &I,
    stream: &Stream,
    ranges: &[Range<I::Key>],
) -> Option<Result<Vec<u64>>> {
    let count = |Inclusive { starts, ends, limits }| {
        let lender = Lender::new(index.device());
        let (starts, ends, limits) = (lender.upload(&starts)?, lender.upload(&ends)?, lender.upload(&limits)?);
        let mut counts = lender.alloc(ranges.len())?;
        OnStream::new(index, stream).limits(&limits).count_range(&starts, &ends, &mut counts)?;
        stream.synchronize()?;
        Ok(counts.to_vec()?)
    };
    inclusive(ranges).map(count)
}

/// The pairs of scans in device form.
///
/// # Errors
/// The index's own.
pub(crate) fn fixed_scan<I: Scans>(
    index: &I,
    stream: &Stream,
    starts: &[I::Key],
    limit: u32,
) -> Result<Vec<FixedPairs<I>>> {
    let (lender, count, most) = (Lender::new(index.device()), starts.len(), limit as usize);
    // Only the elements of pairs are written.
    let (mut keys, mut values) = (lender.alloc_zeroed(count * most)?, lender.alloc_zeroed(count * most)?);
    let mut counts = lender.alloc(count)?;
    OnStream::new(index, stream).scan(&lender.upload(starts)?, limit, &mut keys, &mut values, &mut counts)?;
    stream.synchronize()?;
    let (keys, values, counts) = (keys.to_vec()?, values.to_vec()?, counts.to_vec()?);
    let row = |(i, &pairs): (usize, &u32)| {
        let row = i * most..i * most + pairs as usize;
        keys[row.clone()].iter().copied().zip(values[row].iter().copied()).collect()
    };
    Ok(counts.iter().enumerate().map(row).collect())
}

/// Bounds of a batch of ranges as the device form takes them.
struct Inclusive<K> {
    starts: Vec<K>,
    ends: Vec<K>,
    limits: Vec<u64>,
}

/// The bounds of ranges that all include both.
fn inclusive<K: Copy>(ranges: &[Range<K>]) -> Option<Inclusive<K>> {
    let mut batch = Inclusive { starts: Vec::new(), ends: Vec::new(), limits: Vec::new() };
    for &(start, end, limit) in ranges {
        let (Bound::Included(start), Bound::Included(end)) = (start, end) else { return None };
        batch.starts.push(start);
        batch.ends.push(end);
        batch.limits.push(limit.unwrap_or(u64::MAX));
    }
    Some(batch)
}

/// Those results whose bits in a hit mask are set.
pub(crate) fn hits<T>(values: impl Iterator<Item = T>, mask: &[u32]) -> Vec<Option<T>> {
    let hit = |(i, value): (usize, T)| (mask[i / 32] >> (i % 32) & 1 == 1).then_some(value);
    values.enumerate().map(hit).collect()
}
