//! The queries of indexes over keys of a fixed size, in both forms.

use crate::host::of_matches;
use crate::lent::Lender;
use crate::memory::{in_buffers, miss, narrow, wide};
use crate::{Answer, Combination, Folding, Form, Joining, Near, Pairs, Question, Side};
use core::marker::PhantomData;
use lanetree::{
    AggregateScratch, AnyKey, Buffer, DeviceAggregates, DeviceRanges, Error, Join, JoinKind, JoinRows, Matches, Number,
    RangeScratch, Ranges, Result, Stream, Validity, Word, no_row,
};
use lanetree_frame::fixed::{Combine, CombineScratch, FixedIndex, HostForm, OnStream, Sorted};
use lanetree_frame::{BatchOrder, Value};

/// [`ask`], of an index that has values.
pub(crate) fn ask_of_map<I: FixedIndex<Value: Word>>(
    index: &I,
    stream: &Stream,
    question: &Question<I::Key>,
    form: Form,
) -> Option<Result<Answer<I::Key>>> {
    if let Question::Aggregate(spans, folding) = question {
        return Some(aggregates(index, stream, spans, *folding, form).map(Answer::Values));
    }
    ask(index, stream, question, form)
}

/// What an index answers by calls that [`OrderedIndex`](lanetree::OrderedIndex) does not have.
pub(crate) fn ask<I: FixedIndex>(
    index: &I,
    stream: &Stream,
    question: &Question<I::Key>,
    form: Form,
) -> Option<Result<Answer<I::Key>>> {
    if let Question::Combine(how, pairs) = question {
        return Some(combine(index, *how, pairs, form).map(Answer::Pairs));
    }
    let in_buffers = if form == Form::Device { on_stream(index, stream, question).transpose() } else { None };
    in_buffers.or_else(|| on_host(index, question).transpose())
}

/// In device form.
fn on_stream<I: FixedIndex>(index: &I, stream: &Stream, question: &Question<I::Key>) -> Result<Option<Answer<I::Key>>> {
    let answer = in_order(index, stream, question, BatchOrder::default())?;
    if let Some(answer) = &answer {
        check_orders(index.len(), question, answer, |question, order| in_order(index, stream, question, order))?;
    }
    Ok(answer)
}

/// A batch that is said to be in an order.
pub(crate) fn in_order<I: FixedIndex>(
    index: &I,
    stream: &Stream,
    question: &Question<I::Key>,
    order: BatchOrder,
) -> Result<Option<Answer<I::Key>>> {
    let on = || OnStream::new(index, stream).order(order);
    let ranges = |starts, ends, limits| {
        move |out: &mut DeviceRanges<I::Key, I::Value>| {
            let mut scratch = RangeScratch::new(index.device(), Buffer::len(starts))?;
            on().limits(limits).range(starts, ends, &mut scratch, out)
        }
    };
    in_buffers!(question, stream, on, ranges, |keys: &[I::Key]| HostForm::get_many(index, keys))
}

/// Whether queries get the same answers if they are said to be sorted, which they mostly are not; or if they are, with few
/// for each bucket of the index, or with many.
pub(crate) fn check_orders<K: AnyKey>(
    len: u64,
    question: &Question<K>,
    expected: &Answer<K>,
    ask: impl Fn(&Question<K>, BatchOrder) -> Result<Option<Answer<K>>>,
) -> Result<()> {
    let Some(keys) = question.keys().filter(|keys| !keys.is_empty()) else { return Ok(()) };
    let count = match keys.len() % 3 {
        0 => {
            let answer = ask(question, BatchOrder::Sorted)?;
            assert_eq!(answer.as_ref(), Some(expected), "{question:?}, as if sorted");
            return Ok(());
        }
        1 => len / 5,
        _ => len,
    };
    let mut order: Vec<usize> = (0..keys.len()).cycle().take(count.clamp(1, 1 << 12) as usize).collect();
    order.sort_by_key(|&i| keys[i]);
    let sorted = question.picked(&order);
    let answer = ask(&sorted, BatchOrder::Sorted)?;
    assert_eq!(answer, Some(expected.picked(&order)), "{sorted:?}, sorted, of {len} pairs");
    Ok(())
}

/// In host form.
fn on_host<I: FixedIndex>(index: &I, question: &Question<I::Key>) -> Result<Option<Answer<I::Key>>> {
    Ok(Some(match question {
        // Now and then from pinned memory.
        Question::Get(keys) if keys.len() % 3 == 1 => Answer::Values(get_pinned(index, keys)?),
        // Or with a value for those that are absent.
        Question::Get(keys) if keys.len() % 3 == 2 => {
            let mut out = vec![miss(); keys.len()];
            HostForm::get_many_or(index, keys, miss(), &mut out)?;
            Answer::Values(out.into_iter().map(|value| (value != miss()).then_some(wide(value))).collect())
        }
        Question::AsOf(keys, near) => as_of(index, keys, near)?,
        Question::Nearest(keys, k, near) => rows(&HostForm::k_nearest_many(index, keys, *k, &near.as_of())?),
        Question::Last(spans, k) => {
            let (starts, ends): (Vec<I::Key>, Vec<I::Key>) = spans.iter().copied().unzip();
            rows(&HostForm::range_last_many(index, &starts, &ends, *k)?)
        }
        Question::Join(probes, of) if *of != Joining::new(JoinKind::Inner) => {
            let join = |join: &Join<'_>| HostForm::join_as_many(index, probes, join);
            of_matches(joined(*of, probes.len(), join)?, probes.len())
        }
        Question::AsOfJoin(probes, near, of) => {
            of_rows(joined(*of, probes.len(), |join| HostForm::asof_join_many(index, probes, &near.as_of(), join))?)
        }
        Question::RangeJoin(spans, open, of) => {
            let ((lows, highs), closed): ((Vec<_>, Vec<_>), _) = (spans.iter().copied().unzip(), open.closed());
            of_rows(match *of == Joining::new(JoinKind::Inner) {
                true => HostForm::range_join_many(index, &lows, &highs, closed)?,
                false => {
                    joined(*of, spans.len(), |join| HostForm::range_join_as_many(index, &lows, &highs, closed, join))?
                }
            })
        }
        Question::BandJoin(probes, distance, of) => of_rows(match *of == Joining::new(JoinKind::Inner) {
            true => HostForm::band_join_many(index, probes, *distance)?,
            false => joined(*of, probes.len(), |join| HostForm::band_join_as_many(index, probes, *distance, join))?,
        }),
        Question::Get(_)
        | Question::Rank(..)
        | Question::Neighbor(..)
        | Question::Join(..)
        | Question::Range(_)
        | Question::Count(_)
        | Question::Aggregate(..)
        | Question::Scan(..)
        | Question::Prefix(_)
        | Question::Combine(..) => return Ok(None),
    }))
}

/// Values as unsigned integers.
#[derive(Clone, Copy, Debug)]
pub struct Unsigned<W>(PhantomData<W>);

impl<W: Word> Number for Unsigned<W> {
    type Word = W;
    type Wide = u64;
    const KIND: u32 = <u64 as Number>::KIND;
}

/// Aggregates of ranges.
fn aggregates<I: FixedIndex<Value: Word>>(
    index: &I,
    stream: &Stream,
    spans: &[(I::Key, I::Key)],
    folding: Folding,
    form: Form,
) -> Result<Vec<Option<u64>>> {
    if form == Form::Host {
        let (starts, ends): (Vec<I::Key>, Vec<I::Key>) = spans.iter().copied().unzip();
        return HostForm::aggregate_many::<Unsigned<I::Value>>(index, folding.aggregate(), &starts, &ends);
    }
    let mut scratch = AggregateScratch::new(index.device(), spans.len() + 2)?;
    aggregates_in_buffers(stream, spans, |starts, ends, out| {
        let on = OnStream::new(index, stream);
        on.aggregate::<Unsigned<I::Value>>(folding.aggregate(), starts, ends, &mut scratch, out)
    })
}

/// Aggregates of ranges, in device form.
pub(crate) fn aggregates_in_buffers<K: AnyKey>(
    stream: &Stream,
    spans: &[(K, K)],
    aggregate: impl FnOnce(&Buffer<K>, &Buffer<K>, &mut DeviceAggregates<u64>) -> Result<()>,
) -> Result<Vec<Option<u64>>> {
    let (starts, ends): (Vec<K>, Vec<K>) = spans.iter().copied().unzip();
    let (lender, count) = (Lender::new(stream.device()), spans.len());
    let words = count.div_ceil(32);
    let (hits, overflowed) = (lender.alloc(words)?, lender.alloc(words)?);
    let mut out = DeviceAggregates { values: lender.alloc(count)?, hits, overflowed };
    aggregate(&lender.upload(&starts)?, &lender.upload(&ends)?, &mut out)?;
    stream.synchronize()?;
    assert!(out.overflowed.to_vec()?.iter().all(|&bits| bits == 0), "sums of small numbers");
    Ok(crate::memory::hits(out.values.to_vec()?.into_iter(), &out.hits.to_vec()?))
}

/// Joins with a validity as the host form takes it.
fn joined<T>(of: Joining, probes: usize, join: impl FnOnce(&Join<'_>) -> Result<T>) -> Result<T> {
    let Some(words) = of.bitmap(probes) else { return join(&Join::new(of.kind)) };
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    join(&Join::new(of.kind).valid(Validity::new(&bytes, of.first_bit.into(), probes)?))
}

fn rows<K: AnyKey, V: Value>(found: &Ranges<K, V>) -> Answer<K> {
    let row = |(keys, values): (&[K], &[V])| keys.iter().copied().zip(values.iter().copied().map(wide)).collect();
    Answer::Rows(found.iter().map(row).collect())
}

fn of_rows<K, V: Value>(found: JoinRows<V>) -> Answer<K> {
    let row = |&value: &V| if V::IS_SOME && value == no_row() { Matches::NO_ROW } else { wide(value) };
    Answer::Joined { probes: found.probes().expect("they are few"), rows: found.rows.iter().map(row).collect() }
}

/// As-of look-ups from slices, and from pinned memory.
fn as_of<I: FixedIndex>(index: &I, keys: &[I::Key], near: &Near) -> Result<Answer<I::Key>> {
    let found = HostForm::asof_many(index, keys, &near.as_of())?;
    let device = index.device();
    let (mut queries, mut values) = (device.pinned(keys.len())?, device.pinned::<I::Value>(keys.len())?);
    queries.copy_from_slice(keys);
    HostForm::asof_many_pinned(index, &queries, &near.as_of(), miss(), &mut values, None)?;
    let expected = found.iter().map(|pair| pair.map_or(miss(), |pair| pair.1));
    assert!(values.iter().copied().eq(expected), "pinned, {near:?}");
    Ok(Answer::Neighbors(found.into_iter().map(|pair| pair.map(|(key, value)| (key, wide(value)))).collect()))
}

fn get_pinned<I: FixedIndex>(index: &I, keys: &[I::Key]) -> Result<Vec<Option<u64>>> {
    let device = index.device();
    let (mut queries, mut values) = (device.pinned(keys.len())?, device.pinned::<I::Value>(keys.len())?);
    let mut mask = device.pinned(keys.len().div_ceil(32))?;
    queries.copy_from_slice(keys);
    HostForm::get_many_pinned(index, &queries, miss(), &mut values, Some(&mut mask))?;
    Ok(crate::memory::hits(values.iter().copied().map(wide), &mask))
}

/// All pairs of an index combined with a sorted batch, or with another index of its kind.
///
/// # Errors
/// The index's own.
fn combine<I: FixedIndex>(index: &I, how: Combination, pairs: &[(I::Key, u64)], form: Form) -> Result<Pairs<I::Key>> {
    let narrow = |&(key, value): &(I::Key, u64)| (key, narrow::<I::Value>(value));
    let (keys, values): (Vec<I::Key>, Vec<I::Value>) = pairs.iter().map(narrow).unzip();
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
    Ok(pairs.into_iter().map(|(key, value)| (key, wide(value))).collect())
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
