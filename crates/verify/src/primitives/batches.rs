//! What batches and bulk builds in device form begin with: operations sorted and folded, pairs sorted and each key once.

use super::differs;
use crate::answer::Answer;
use crate::compare::{Output, Sabotage};
use crate::data::{self, Distribution};
use core::time::Duration;
use lanetree::primitives::{BuildScratch, DevicePairs, OPERATION_FINDINGS, OperationSort};
use lanetree::{AnyKey, Batch, Device, OpKind, Result, Value};
use rand::RngExt;
use std::time::Instant;

/// Kinds of operations, and the folded kind of those that are not the last of their key.
const INSERT: u32 = 0;
const UPDATE: u32 = 1;
const REMOVE: u32 = 2;
const SUPERSEDED: u32 = 3;

/// Operations of every kind on distinct keys and on keys that occur often.
pub(crate) fn fold<K: AnyKey>(device: &Device, len: usize, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
    let mut rng = data::rng(seed, "operations");
    let stream = device.stream()?;
    let mut sort = OperationSort::<K>::new(device, len)?;
    let (mut time, mut difference) = (Duration::ZERO, None);
    for distribution in [Distribution::Uniform, Distribution::Duplicates, Distribution::AllEqual] {
        let keys: Vec<K> = distribution.keys(len, &mut rng);
        let kinds: Vec<u32> = (0..len).map(|_| rng.random_range(INSERT..=REMOVE)).collect();
        let mut order: Vec<u32> = (0..len as u32).collect();
        order.sort_by_key(|&i| keys[i as usize]);
        let of_key = |a: &u32, b: &u32| keys[*a as usize] == keys[*b as usize];
        let folded = order.chunk_by(of_key).flat_map(|same| {
            let all = same.iter().map(|&i| kinds[i as usize]);
            let last = all.fold(UPDATE, |folded, kind| if kind == UPDATE { folded } else { kind });
            core::iter::repeat_n(SUPERSEDED, same.len() - 1).chain([last])
        });
        let folded: Vec<u32> = folded.collect();
        let kinds: Vec<OpKind> = kinds.into_iter().map(OpKind::from).collect();
        let (keys, kinds) = (device.upload(&keys)?, device.upload(&kinds)?);
        let mut found = vec![0; OPERATION_FINDINGS];
        let start = Instant::now();
        loop {
            let mut findings = device.alloc_zeroed(OPERATION_FINDINGS)?;
            sort.sort(&stream, Batch::keys_of_kinds(&keys, &kinds), &mut findings, 0)?;
            findings.copy_to(&mut found)?;
            if sort.check(&found)? {
                break;
            }
        }
        time += start.elapsed();
        let actual = sort.folded().map(|folded| folded.to_vec()).transpose()?.unwrap_or_default();
        difference = difference.or(differs(copy(device, "folded kinds", &actual[..len])?, &folded, sabotage)?);
        difference = difference.or(differs(copy(device, "order", &sort.order().to_vec()?[..len])?, &order, sabotage)?);
    }
    Ok(Answer { queries: 3 * len, time, difference })
}

/// Pairs in any order, or keys alone, with distinct keys and with others.
pub(crate) fn build<K: AnyKey, V: Value>(
    device: &Device,
    len: usize,
    seed: u64,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    let mut rng = data::rng(seed, "pairs of a build");
    let stream = device.stream()?;
    let mut scratch = BuildScratch::<K, V>::for_unsorted(device, len)?;
    let (mut time, mut difference) = (Duration::ZERO, None);
    for distribution in [Distribution::Uniform, Distribution::Duplicates] {
        let keys: Vec<K> = distribution.keys(len, &mut rng);
        let values: Vec<V> = data::values(len, &mut rng).into_iter().map(V::of).collect();
        let mut pairs: Vec<(K, V)> = keys.iter().copied().zip(values.iter().copied()).collect();
        pairs.sort_by_key(|pair| pair.0);
        let last = |same: &[(K, V)]| same[same.len() - 1];
        let (expected_keys, expected_values): (Vec<K>, Vec<V>) = pairs.chunk_by(|a, b| a.0 == b.0).map(last).unzip();
        let (keys, values) = (device.upload(&keys)?, device.upload(&values)?);
        let start = Instant::now();
        let (actual_keys, actual_values) =
            scratch.unsorted(&stream, DevicePairs { keys: &keys, values: &values, len }, |pairs| {
                stream.synchronize()?;
                time += start.elapsed();
                let DevicePairs { keys, values, len } = pairs;
                Ok((keys.to_vec()?[..len].to_vec(), values.to_vec()?[..len].to_vec()))
            })?;
        if actual_keys.len() == expected_keys.len() {
            difference = difference.or(differs(copy(device, "keys", &actual_keys)?, &expected_keys, sabotage)?);
            if V::IS_SOME {
                let actual = copy(device, "values", &actual_values)?;
                difference = difference.or(differs(actual, &expected_values, sabotage)?);
            }
        } else {
            let counts = [actual_keys.len() as u64];
            difference =
                difference.or(differs(copy(device, "count", &counts)?, &[expected_keys.len() as u64], sabotage)?);
        }
    }
    Ok(Answer { queries: 2 * len, time, difference })
}

fn copy<T: bytemuck::Pod + PartialEq + core::fmt::Debug + Send + Sync>(
    device: &Device,
    what: &'static str,
    words: &[T],
) -> Result<Output<T>> {
    let mut output = super::output(device, what, words.len(), words.len())?;
    output.buffer.copy_range_from(0, words)?;
    Ok(output)
}
