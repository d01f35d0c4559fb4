//! Runs of equal keys.

use super::{differs, output};
use crate::answer::Answer;
use crate::compare::{Difference, Sabotage};
use crate::data::{self, Distribution};
use core::ops::Range;
use core::time::Duration;
use lanetree::primitives::{
    Keys, KeysMut, Pairs, PairsMut, RunScratch, last_by_key, run_lengths, sum_by_key, unique_keys,
};
use lanetree::{AnyKey, Buffer, Device, Result, Stream, Word};
use rand::{Rng, RngExt};
use std::time::Instant;

/// Pairs with runs of one key and of several, some of them over more than a tile.
struct Case<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
    runs: Vec<Range<usize>>,
    unique: Vec<K>,
}

impl<K: AnyKey, V: Word> Case<K, V> {
    fn new(len: usize, seed: u64) -> Self {
        let mut rng = data::rng(seed, "runs");
        let mut distinct: Vec<K> = Distribution::Uniform.keys(len, &mut rng);
        distinct.sort_unstable();
        distinct.dedup();
        let mut keys = Vec::with_capacity(len);
        for key in distinct {
            let most = if rng.next_u32().is_multiple_of(512) { 10_000 } else { 7 };
            let run = rng.random_range(1..=most).min(len - keys.len());
            keys.extend(core::iter::repeat_n(key, run));
        }
        let last = keys.last().copied().unwrap_or_default();
        keys.resize(len, last);
        let mut start = 0;
        let run = |run: &[K]| {
            start += run.len();
            start - run.len()..start
        };
        let runs: Vec<Range<usize>> = keys.chunk_by(|a, b| a == b).map(run).collect();
        let unique = runs.iter().map(|run| keys[run.start]).collect();
        Self { values: data::values(len, &mut rng), keys, runs, unique }
    }

    /// Runs an operation with its results, and compares these with `expected`.
    fn check<O: Word>(
        &self,
        device: &Device,
        expected: impl Fn(Range<usize>) -> O,
        sabotage: Option<Sabotage>,
        call: impl FnOnce(&Stream, Pairs<'_, K, V>, PairsMut<'_, K, O>, &mut RunScratch) -> Result<()>,
    ) -> Result<(Duration, Option<Difference>)> {
        let (len, count) = (self.keys.len(), self.runs.len());
        let expected: Vec<O> = self.runs.iter().cloned().map(expected).collect();
        let stream = device.stream()?;
        let (keys, values): (Buffer<K>, Buffer<V>) = (device.upload(&self.keys)?, device.upload(&self.values)?);
        let mut scratch = RunScratch::new(device, len)?;
        let (mut out_keys, mut found) = (output(device, "keys", count, len)?, output(device, "count", 1, 1)?);
        let mut out_values = output(device, "results", count, len)?;
        let to = PairsMut { keys: &mut out_keys.buffer, values: &mut out_values.buffer, count: &mut found.buffer };
        let start = Instant::now();
        call(&stream, Pairs { keys: &keys, values: &values, count: len.into() }, to, &mut scratch)?;
        stream.synchronize()?;
        let time = start.elapsed();
        let difference = [
            differs(found, &[count as u64], sabotage)?,
            differs(out_keys, &self.unique, sabotage)?,
            differs(out_values, &expected, sabotage)?,
        ];
        Ok((time, difference.into_iter().flatten().next()))
    }
}

/// The last pair of each run, and the keys alone.
pub(crate) fn last<K: AnyKey, V: Word>(
    device: &Device,
    len: usize,
    seed: u64,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    let case = Case::<K, V>::new(len, seed);
    let (time, difference) = case.check(device, |run| case.values[run.end - 1], sabotage, last_by_key)?;
    let stream = device.stream()?;
    let keys = device.upload(&case.keys)?;
    let mut scratch = RunScratch::new(device, len)?;
    let mut out = output(device, "keys alone", case.runs.len(), len)?;
    let mut found = output(device, "count alone", 1, 1)?;
    let to = KeysMut { keys: &mut out.buffer, count: &mut found.buffer };
    unique_keys(&stream, Keys { keys: &keys, count: len.into() }, to, &mut scratch)?;
    stream.synchronize()?;
    let alone = [differs(found, &[case.runs.len() as u64], sabotage)?, differs(out, &case.unique, sabotage)?];
    let difference = difference.into_iter().chain(alone.into_iter().flatten()).next();
    Ok(Answer { queries: 2 * len, time, difference })
}

/// The length of each run, in words as wide as `V`.
pub(crate) fn lengths<K: AnyKey, V: Word>(
    device: &Device,
    len: usize,
    seed: u64,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    let case = Case::<K, V>::new(len, seed);
    let expected = |run: Range<usize>| V::truncate(run.len() as u64);
    let (time, difference) = case.check(device, expected, sabotage, |stream, pairs, to, scratch| {
        run_lengths(stream, Keys { keys: pairs.keys, count: pairs.count }, to, scratch)
    })?;
    Ok(Answer { queries: len, time, difference })
}

/// The sum of each run.
pub(crate) fn sums<K: AnyKey, V: Word>(
    device: &Device,
    len: usize,
    seed: u64,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    let case = Case::<K, V>::new(len, seed);
    let expected =
        |run: Range<usize>| case.values[run].iter().fold(0_u64, |sum, value| sum.wrapping_add(value.widen()));
    let (time, difference) = case.check(device, expected, sabotage, sum_by_key)?;
    Ok(Answer { queries: len, time, difference })
}
