//! The device-wide primitives: sorting, merging, prefix sums.

use crate::bench::columns::power;
use crate::bench::data::{Data, mix};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Part, Run};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::primitives::{
    MergeRule, MergeScratch, Pairs, PairsMut, RadixSortScratch, ScanScratch, exclusive_scan, radix_sort,
};
use lanetree::{AnyKey, Key, KeyWord, Word};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("primitives", Run::Part(Part::OverUniform(measure)));

/// The value that goes with a key.
fn value_of<V: Word>(key: u64) -> V {
    V::truncate(mix(key))
}

/// Sorts, merges and scans one element per key.
fn measure(session: &mut Session, data: &Data<u64>) -> Result<()> {
    for bits in [64, 22, 16, 8] {
        sort::<u64, u32>(session, data, bits)?;
    }
    sort::<u64, u64>(session, data, 64)?;
    sort::<u32, u32>(session, data, 32)?;
    merge(session, data)?;
    scan(session, data.len())
}

fn push(
    session: &mut Session,
    operation: String,
    words: (&'static str, &'static str),
    timing: Timing,
    check: Checksum,
    n: usize,
) {
    let row = Row::new(FIGURE.name, "lanetree", operation, n, timing, check).on(session.device_name());
    session.push(row.over(n, words.0, words.1, ""));
}

/// Pairs in a random order, by their keys' top bits.
fn sort<K: Key<Bits = K> + Word, V: Word>(session: &mut Session, data: &Data<u64>, top: u32) -> Result<()> {
    let n = data.len();
    let operation = format!("radix sort, top {top} bits");
    let what = format!("{operation}, {} {}/{} pairs", power(n as u64), <K as AnyKey>::NAME, V::NAME);
    if !session.has_time(&what) {
        return Ok(());
    }
    let random = |i: usize| K::truncate(mix(data.keys[i]));
    let keys: Vec<K> = (0..n).into_par_iter().map(random).collect();
    let values: Vec<V> = keys.par_iter().map(|key| value_of(key.widen())).collect();
    let total = keys.par_iter().map(|key| mix(key.widen())).reduce(|| 0, u64::wrapping_add);
    let input = (session.device.upload(&keys)?, session.device.upload(&values)?);
    let mut sorted = (session.device.alloc::<K>(n)?, session.device.alloc::<V>(n)?);
    let mut scratch = RadixSortScratch::<K, V>::for_pairs(&session.device, n)?;
    let width = <K as KeyWord>::BITS;
    let timing = session.time_call(&mut sorted, |(keys, values)| {
        let input = (&input.0, &input.1);
        radix_sort(&session.stream, input, n, width - top..width, (keys, values), &mut scratch)
    })?;
    let (keys, values) = (sorted.0.to_vec()?, sorted.1.to_vec()?);
    // Sorted, each key with its value, and as a set what it was: of these, one by one.
    let in_order = |i: usize| i == 0 || keys[i - 1].widen() >> (width - top) <= keys[i].widen() >> (width - top);
    let first_wrong = (0..n).into_par_iter().find_first(|&i| !in_order(i)).unwrap_or(n);
    session.check_slice(&what, "order", &[first_wrong as u64], 0..1, u64::MAX, |_| n as u64)?;
    let found = keys.par_iter().map(|key| mix(key.widen())).reduce(|| 0, u64::wrapping_add);
    session.check_slice(&what, "sum of keys", &[found], 0..1, u64::MAX, |_| total)?;
    let check = session.check_slice(&what, "values", &values, 0..n, V::MAX, |i| value_of(keys[i].widen()))?;
    push(session, operation, (<K as AnyKey>::NAME, V::NAME), timing, check, n);
    Ok(())
}

/// A 17th of the pairs into the others.
fn merge(session: &mut Session, data: &Data<u64>) -> Result<()> {
    let n = data.len();
    let operation = "merge, 16 : 1";
    let what = format!("{operation}, {} pairs", power(n as u64));
    if !session.has_time(&what) {
        return Ok(());
    }
    let part = |is_second: bool| -> (Vec<u64>, Vec<u32>) {
        let keys: Vec<u64> = data
            .keys
            .par_iter()
            .copied()
            .filter_collect(|&key| mix(key).is_multiple_of(17) == is_second)
            .expect("memory for a batch");
        let values = keys.par_iter().map(|&key| value_of(key)).collect();
        (keys, values)
    };
    let (first, second) = (part(false), part(true));
    let device = &session.device;
    let first = (device.upload(&first.0)?, device.upload(&first.1)?);
    let second = (device.upload(&second.0)?, device.upload(&second.1)?);
    let mut merged = (device.alloc::<u64>(n)?, device.alloc::<u32>(n)?, device.alloc::<u64>(1)?);
    let mut scratch = MergeScratch::new(device, n)?;
    let timing = session.time_call(&mut merged, |(keys, values, count)| {
        let first = Pairs { keys: &first.0, values: &first.1, count: first.0.len().into() };
        let second = Pairs { keys: &second.0, values: &second.1, count: second.0.len().into() };
        let output = PairsMut { keys, values, count };
        lanetree::primitives::merge(&session.stream, MergeRule::KeepBoth, first, second, output, &mut scratch)
    })?;
    session.check(&what, "count", &merged.2, 1, u64::MAX, |_| n as u64)?;
    let check = session.check(&what, "keys", &merged.0, n, u64::MAX, |i| data.keys[i])?;
    session.check(&what, "values", &merged.1, n, u32::MAX, |i| value_of(data.keys[i]))?;
    push(session, operation.into(), ("u64", "u32"), timing, check, n);
    Ok(())
}

fn scan(session: &mut Session, n: usize) -> Result<()> {
    let operation = "exclusive_scan";
    let what = format!("{operation}, {}", power(n as u64));
    if !session.has_time(&what) {
        return Ok(());
    }
    let counts: Vec<u32> = (0..n as u64).into_par_iter().map(|i| mix(i) as u32 % 9).collect();
    let input = session.device.upload(&counts)?;
    let mut sums = session.device.alloc::<u64>(n + 1)?;
    let mut scratch = ScanScratch::new(&session.device, n)?;
    let timing = session.time_call(&mut sums, |sums| exclusive_scan(&session.stream, &input, n, sums, &mut scratch))?;
    let mut expected = Vec::with_capacity(n + 1);
    let mut sum = 0;
    expected.push(0);
    expected.extend(counts.iter().map(|&count| {
        sum += u64::from(count);
        sum
    }));
    let check = session.check(&what, "sums", &sums, n + 1, u64::MAX, |i| expected[i])?;
    push(session, operation.into(), ("u32", "u64"), timing, check, n);
    Ok(())
}
