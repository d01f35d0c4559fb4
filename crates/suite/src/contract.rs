//! What [`OrderedIndex`] promises in addition to answers: which errors, and what a call with an error leaves.

use crate::Numbered;
use crate::host::{DomainOf, KeysOf, keys};
use core::fmt::Debug;
use core::ops::Bound;
use lanetree::{
    BuildRules, Device, DeviceKind, Domain, Duplicates, Error, IndexBuilder, KeyOf, KeyWord, Nulls, Op, OrderedIndex,
    Result, Rows, Validity, Word,
};

/// Numbers of the keys that an index is built from here.
const KEYS: [u16; 6] = [3, 4, 5, 9, 11, 15];

/// Checks what a builder's index promises, on a device.
///
/// # Errors
/// The rule that is broken.
pub fn contract<B>(builder: &B, device: &Device) -> Result<(), String>
where
    B: IndexBuilder<Index: OrderedIndex<Domain: Domain<Key: Numbered>>>,
{
    let given: Vec<KeyOf<B::Index>> = KEYS.iter().map(|&number| KeyOf::<B::Index>::key(number)).collect();
    let values: Vec<ValueOf<B::Index>> = (0..KEYS.len() as u64).map(extreme).collect();
    let batch = keys::<B::Index>(&given);
    let batch = DomainOf::<B::Index>::batch(&batch);
    for wrong in [&values[1..], &[]] {
        let error = builder.build(device, batch, wrong).map(drop);
        expect("a build from fewer values than keys", error, is_mismatch)?;
    }
    let mut index = builder.build(device, batch, &values).map_err(|error| format!("the build: {error}"))?;
    describes_itself(&index, device)?;
    takes_any_value(&index, &given, &values)?;
    refuses_reversed_ranges(&index, &given)?;
    refuses_other_lengths(&mut index, &given, &values)?;
    device_form(&index, &given, &values)?;
    builds_by_rules(builder, device)?;
    gives_back_memory(builder, device)?;
    empty(builder, device)
}

/// An index's values.
type ValueOf<I> = <I as OrderedIndex>::Value;

/// The smallest value, the largest, and others: none is reserved.
fn extreme<V: Word>(i: u64) -> V {
    match i {
        0 => V::MAX,
        1 => V::MIN,
        _ => V::truncate(i),
    }
}

fn ensure(rule: &str, holds: bool) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{rule}: it is not so")) }
}

/// That a call gives an error of a kind.
fn expect<T: Debug>(call: &str, found: Result<T>, is_right: impl Fn(&Error) -> bool) -> Result<(), String> {
    match found {
        Err(error) if is_right(&error) => Ok(()),
        Err(error) => Err(format!("{call}: another error was due than: {error}")),
        Ok(found) => Err(format!("{call}: an error was due, not {found:?}")),
    }
}

fn is_mismatch(error: &Error) -> bool {
    matches!(error, Error::LengthMismatch { .. })
}

fn text<T>(call: &str, found: Result<T>) -> Result<T, String> {
    found.map_err(|error| format!("{call}: {error}"))
}

fn describes_itself<I: OrderedIndex>(index: &I, device: &Device) -> Result<(), String> {
    ensure("it has a name", !I::NAME.is_empty())?;
    ensure("it is on the device that it was built on", index.device().kind() == device.kind())?;
    ensure("its length is that of its pairs", index.len() == KEYS.len() as u64 && !index.is_empty())?;
    ensure("its pairs take memory", index.bytes() + index.host_bytes() >= index.len() * I::Value::BYTES as u64)?;
    ensure("a new index is not lost", !index.is_lost())
}

fn takes_any_value<I: OrderedIndex>(index: &I, given: &[KeyOf<I>], values: &[I::Value]) -> Result<(), String> {
    let batch = keys::<I>(given);
    let found = text("get_many", index.get_many(DomainOf::<I>::batch(&batch)))?;
    ensure("the smallest and the largest value are values", found.into_iter().eq(values.iter().copied().map(Some)))
}

/// The error names the first reversed range; nothing else is wrong with such a batch.
fn refuses_reversed_ranges<I: OrderedIndex>(index: &I, given: &[KeyOf<I>]) -> Result<(), String> {
    let [low, high] = extremes(given);
    let range = |start, end| DomainOf::<I>::range(start, end, u64::MAX);
    for start in [Bound::Included(high), Bound::Excluded(high)] {
        for end in [Bound::Included(low), Bound::Excluded(low)] {
            let batch = [range(Bound::Unbounded, Bound::Unbounded), range(start, end), range(start, end)];
            let is_second = |error: &Error| matches!(error, Error::ReversedRange { index: 1, .. });
            expect("range_many of a reversed range", index.range_many(&batch).map(drop), is_second)?;
            expect("count_range_many of a reversed range", index.count_range_many(&batch), is_second)?;
        }
    }
    // These end where they start, and are empty at most.
    for (start, end, pairs) in [
        (Bound::Included(low), Bound::Included(low), 1),
        (Bound::Included(low), Bound::Excluded(low), 0),
        (Bound::Excluded(low), Bound::Included(low), 0),
        (Bound::Excluded(low), Bound::Excluded(low), 0),
    ] {
        let found = text("range_many", index.range_many(&[range(start, end)]))?;
        ensure("a range of one key has a row", found.rows() == 1 && found.row(0).len() == pairs)?;
    }
    Ok(())
}

fn extremes<K: Ord>(given: &[K]) -> [&K; 2] {
    [given.iter().min().expect("there are keys"), given.iter().max().expect("there are keys")]
}

/// And has not changed by that.
fn refuses_other_lengths<I: OrderedIndex>(
    index: &mut I,
    given: &[KeyOf<I>],
    values: &[I::Value],
) -> Result<(), String> {
    let before = text("pairs", index.pairs())?;
    let batch = keys::<I>(given);
    let more: Vec<I::Value> =
        values.iter().chain(values).map(|value| value.wrapping_add(I::Value::truncate(1))).collect();
    for wrong in [&more[..], &more[..1], &[]] {
        expect("insert_many", index.insert_many(DomainOf::<I>::batch(&batch), wrong), is_mismatch)?;
        expect("update_many", index.update_many(DomainOf::<I>::batch(&batch), wrong), is_mismatch)?;
    }
    ensure("a batch that is refused changes nothing", text("pairs", index.pairs())? == before)
}

/// Results without a hit mask, with buffers that are too large and too small, and the mask where a value is `miss`.
fn device_form<I: OrderedIndex<Domain: Domain<Key: Numbered>>>(
    index: &I,
    given: &[KeyOf<I>],
    values: &[I::Value],
) -> Result<(), String> {
    let Some(on) = index.device_form().filter(|_| index.device().kind() != DeviceKind::Host) else { return Ok(()) };
    let result = (|| {
        let device = index.device();
        let stream = device.stream()?;
        let absent = KeyOf::<I>::key(200);
        let batch: KeysOf<I> = given.iter().cloned().chain([absent]).collect();
        let count = given.len() + 1;
        let queries = DomainOf::<I>::upload(device, DomainOf::<I>::batch(&batch))?;
        // As one of the values.
        let miss = I::Value::MAX;
        let untouched = I::Value::truncate(77);
        let mut out = device.upload(&vec![untouched; count + 3])?;
        on.get(&stream, &queries, &mut out, None, miss)?;
        stream.synchronize()?;
        let mut expected = values.to_vec();
        expected.extend([miss, untouched, untouched, untouched]);
        if out.to_vec()? != expected {
            return Ok(Err("get in device form without a hit mask, into a buffer that is longer than the batch"));
        }
        let mut mask = device.upload(&[u32::MAX])?;
        on.get(&stream, &queries, &mut out, Some(&mut mask), miss)?;
        stream.synchronize()?;
        if mask.to_vec()? != [(1 << given.len()) - 1] {
            return Ok(Err("a hit mask's bits are of keys that are there, and of nothing else"));
        }
        let is_short = |result: Result<()>| matches!(result, Err(Error::OutputLength { .. }));
        let (mut short, mut short_ranks) = (device.alloc::<I::Value>(count - 1)?, device.alloc::<u64>(count - 1)?);
        let mut no_mask = device.alloc::<u32>(0)?;
        let are_short = is_short(on.get(&stream, &queries, &mut short, None, miss))
            && is_short(on.get(&stream, &queries, &mut out, Some(&mut no_mask), miss))
            && is_short(on.lower_bound(&stream, &queries, &mut short_ranks))
            && is_short(on.upper_bound(&stream, &queries, &mut short_ranks));
        Ok(if are_short { Ok(()) } else { Err("buffers that are too short are errors") })
    })();
    match text("in device form", result)? {
        Ok(()) => Ok(()),
        Err(rule) => ensure(rule, false),
    }
}

/// Rows of null and of equal keys are kept, left out or refused as the rules say.
fn builds_by_rules<B>(builder: &B, device: &Device) -> Result<(), String>
where
    B: IndexBuilder<Index: OrderedIndex<Domain: Domain<Key: Numbered>>>,
{
    // Null are the rows 2, 5 and 7, and of the other keys 4 and 9 come twice, 3 three times.
    const NUMBERS: [u16; 12] = [3, 9, 9, 4, 15, 4, 3, 4, 4, 9, 11, 3];
    const BITMAP: [u8; 2] = [0b0101_1011, 0b1111];
    let given: Vec<KeyOf<B::Index>> = NUMBERS.iter().map(|&number| KeyOf::<B::Index>::key(number)).collect();
    let values: Vec<ValueOf<B::Index>> = (0..NUMBERS.len() as u64).map(ValueOf::<B::Index>::truncate).collect();
    let batch = keys::<B::Index>(&given);
    let build = |rules: BuildRules<'_>| builder.build_by(device, DomainOf::<B::Index>::batch(&batch), &values, &rules);
    let rows = |index: Result<B::Index>| {
        let index = text("build_by", index)?;
        let pairs = text("pairs", index.pairs())?;
        Ok::<Vec<(KeyOf<B::Index>, u64)>, String>(pairs.into_iter().map(|(key, value)| (key, value.widen())).collect())
    };
    let of = |numbers: &[(u16, u64)]| -> Vec<(KeyOf<B::Index>, u64)> {
        let mut pairs: Vec<_> = numbers.iter().map(|&(number, row)| (KeyOf::<B::Index>::key(number), row)).collect();
        pairs.sort();
        pairs
    };
    let all = BuildRules::default();
    let validity = text("a bitmap", Validity::new(&BITMAP, 0, NUMBERS.len()))?;
    let some = all.validity(validity, Nulls::Skip);
    let last = [(3, 11), (4, 8), (9, 9), (11, 10), (15, 4)];
    ensure("of equal keys the last is kept", rows(build(all))? == of(&last))?;
    ensure("of keys that are not null the last is kept", rows(build(some))? == of(&last))?;
    let first = [(3, 0), (4, 3), (9, 1), (11, 10), (15, 4)];
    ensure("or the first", rows(build(all.duplicates(Duplicates::First)))? == of(&first))?;
    ensure("also of those that are not null", rows(build(some.duplicates(Duplicates::First)))? == of(&first))?;
    let repeats = |second, first_row| move |error: &Error| matches!(error, Error::RepeatedKey { index, first, .. } if (*index, *first) == (second, first_row));
    expect("a build that refuses equal keys", build(all.duplicates(Duplicates::Refuse)), repeats(2, 1))?;
    expect("of keys that are not null", build(some.duplicates(Duplicates::Refuse)), repeats(6, 0))?;
    let is_null = |error: &Error| matches!(error, Error::NullKey { index: 2 });
    expect("a build that refuses nulls", build(all.validity(validity, Nulls::Refuse)), is_null)?;
    let short = text("a bitmap", Validity::new(&BITMAP, 0, NUMBERS.len() - 1))?;
    let is_short = |error: &Error| matches!(error, Error::OutputLength { .. });
    expect("a bitmap of fewer rows", build(all.validity(short, Nulls::Skip)), is_short)?;
    let nothing = text("a bitmap", Validity::new(&[0, 0], 0, NUMBERS.len()))?;
    ensure("all keys may be null", rows(build(all.validity(nothing, Nulls::Skip)))?.is_empty())?;
    // Distinct keys pass all rules.
    let distinct = all.validity(text("a bitmap", Validity::new(&[0b1001, 0b100], 0, NUMBERS.len()))?, Nulls::Skip);
    for duplicates in [Duplicates::Last, Duplicates::First, Duplicates::Refuse] {
        let built = rows(build(distinct.duplicates(duplicates)))?;
        ensure("distinct keys are built by any rule", built == of(&[(3, 0), (4, 3), (11, 10)]))?;
    }
    Ok(())
}

/// After most pairs were removed, a compact index takes about as much as a new one.
fn gives_back_memory<B>(builder: &B, device: &Device) -> Result<(), String>
where
    B: IndexBuilder<Index: OrderedIndex<Domain: Domain<Key: Numbered>>>,
{
    let all: Vec<KeyOf<B::Index>> = (0..600).map(KeyOf::<B::Index>::distinct).collect();
    let (few, rest) = all.split_at(60);
    let build = |given: &[KeyOf<B::Index>]| {
        let values: Vec<_> = (0..given.len() as u64).map(ValueOf::<B::Index>::truncate).collect();
        text("a build", builder.build(device, DomainOf::<B::Index>::batch(&keys::<B::Index>(given)), &values))
    };
    let (mut index, new) = (build(&all)?, build(few)?);
    let removed = index.remove_many(DomainOf::<B::Index>::batch(&keys::<B::Index>(rest)));
    ensure("what was there is removed", text("remove_many", removed)?.removed == rest.len() as u64)?;
    text("compact", index.compact())?;
    ensure("a compact index has its pairs", text("pairs", index.pairs())? == text("pairs", new.pairs())?)?;
    let [bytes, of_new] = [&index, &new].map(|index| index.bytes() + index.host_bytes());
    ensure(&format!("{bytes} bytes of a compact index are at most 1.35 times {of_new}"), bytes * 100 <= of_new * 135)?;
    ensure("a compact index has nothing to give back", text("compact", index.compact())? == 0)
}

/// An empty index, and what becomes of it.
fn empty<B>(builder: &B, device: &Device) -> Result<(), String>
where
    B: IndexBuilder<Index: OrderedIndex<Domain: Domain<Key: Numbered>>>,
{
    let none = keys::<B::Index>(&[]);
    let mut index = text("an empty build", builder.build(device, DomainOf::<B::Index>::batch(&none), &[]))?;
    ensure("it is empty", index.is_empty() && text("pairs", index.pairs())?.is_empty())?;
    let key = KeyOf::<B::Index>::key(7);
    let report = text("apply", index.apply(&[Op::Insert(key, ValueOf::<B::Index>::MAX)]))?;
    ensure("an empty index takes a pair", report.inserted == 1 && index.len() == 1 && !index.is_empty())
}
