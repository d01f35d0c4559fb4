//! The interval index: which intervals contain points, against a look at every interval.

use super::answer::Answer;
use super::cases::Mode;
use super::compare::{Output, Sabotage, Written};
use super::data::{self, Distribution};
use super::multimap::Checked;
use super::types::{with_types, with_value};
use core::cmp::Reverse;
use lanetree::intervals::{DeviceRows, Scratch};
use lanetree::{AnyKey, Device, DeviceKind, IntervalIndex, KeyWord, Result, Word};
use lanetree_base::parallel::*;
use rand::{Rng, RngExt};

/// A case: one index, and points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    distribution: Distribution,
    pub(crate) key: &'static str,
    row: &'static str,
    len: usize,
}

/// The cases for a device.
pub(crate) fn cases(mode: Mode, kind: DeviceKind, max_len: usize) -> Vec<Case> {
    let lens: &[usize] = match (mode, kind) {
        (_, DeviceKind::Emulated) => &[0, 1, 2000],
        // Every point is compared with every interval.
        (Mode::Quick, _) => &[0, 1, 2000, 20_000],
        (Mode::Full, _) => &[0, 1, 2000, 20_000, 1 << 18],
    };
    let types = [("u32", "u32"), ("i32", "u64"), ("u64", "u32"), ("i64", "u64"), ("u128", "u32"), ("u128", "u64")];
    let mut cases = Vec::new();
    for distribution in [Distribution::Uniform, Distribution::Extremes, Distribution::Clustered] {
        for (key, row) in types {
            let lens = lens.iter().filter(|len| **len <= max_len);
            cases.extend(lens.map(|&len| Case { distribution, key, row, len }));
        }
    }
    cases
}

impl Case {
    /// What is done.
    pub(crate) const OPERATION: &str = "stabbing";

    /// Its name.
    pub(crate) fn name(self) -> String {
        format!("intervals/{}-{}/{}/n{}", self.key, self.row, self.distribution.name(), self.len)
    }

    pub(crate) fn run(self, device: &Device, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
        let rng = &mut data::rng(seed, "intervals");
        match self.key {
            "u128" => {
                // Two words; the first one has the distribution.
                let words: Vec<u64> = self.distribution.keys(self.len, rng);
                let starts =
                    words.into_iter().map(|word| u128::from(word) << 64 | u128::from(rng.next_u64())).collect();
                with_value!(self.row, |V| run::<u128, V>(device, starts, rng, sabotage))
            }
            _ => with_types!(self.key, self.row, |K, V| {
                run::<K, V>(device, self.distribution.keys(self.len, rng), rng, sabotage)
            }),
        }
    }
}

/// Most are short; about 20 are of any length.
fn end_of<K: AnyKey>(start: K, len: usize, rng: &mut data::Random) -> K {
    let any = K::Bits::from_parts([rng.next_u64(), rng.next_u64()]);
    let bits =
        if rng.random_range(0..len.max(20)) < 20 { K::Bits::BITS } else { rng.random_range(1..=K::Bits::BITS / 4) };
    let end = start.encode().wrapping_add(any.shr(K::Bits::BITS - bits));
    K::decode(if end < start.encode() { K::Bits::MAX } else { end })
}

fn run<K: AnyKey, V: Word>(
    device: &Device,
    starts: Vec<K>,
    rng: &mut data::Random,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    let len = starts.len();
    let ends: Vec<K> = starts.iter().map(|&start| end_of(start, len, rng)).collect();
    let rows: Vec<V> = (0..len as u64).map(|i| V::truncate(i ^ 0x5555)).collect();
    let mut points: Vec<K> = vec![K::MIN, K::MAX];
    points.extend(starts.first());
    for _ in 0..if len == 0 { 0 } else { 500 } {
        let bound = if rng.random_bool(0.5) { &starts } else { &ends }[rng.random_range(0..len)].encode();
        // The bound itself, or next to it, or further away.
        let away = K::Bits::truncate(rng.next_u64() >> rng.random_range(1..64)).shr(rng.random_range(0..K::Bits::BITS));
        points.push(K::decode(if rng.random_bool(0.5) { bound.wrapping_add(away) } else { bound.wrapping_sub(away) }));
    }
    let around = |&point: &K| {
        let mut found: Vec<usize> = (0..len).filter(|&i| starts[i] <= point && point <= ends[i]).collect();
        found.sort_by_key(|&i| (Reverse(starts[i]), ends[i], i));
        found.into_iter().map(|i| rows[i]).collect::<Vec<V>>()
    };
    let expected: Vec<Vec<V>> = points.par_iter().map(around).collect();

    let mut checked = Checked::default();
    let lacking = usize::from(sabotage.is_some() && len > 0);
    let index = checked
        .time(|| IntervalIndex::build_with_rows(device, &starts[lacking..], &ends[lacking..], &rows[lacking..]))?;
    let counts: Vec<u64> = expected.iter().map(|rows| rows.len() as u64).collect();
    let found = checked.time(|| index.count_many(&points))?;
    checked.expect("counts", &found, &counts);
    let found = checked.time(|| index.most_specific_many(&points))?;
    checked.expect("most specific", &found, &expected.iter().map(|rows| rows.first().copied()).collect::<Vec<_>>());
    let found = checked.time(|| index.stab_many(&points))?;
    let lens: Vec<u64> = found.offsets.windows(2).map(|row| row[1] - row[0]).collect();
    checked.expect("numbers of intervals", &lens, &counts);
    let all = expected.concat();
    checked.expect("all intervals", &found.rows, &all);

    // Each point and another one as a range, half of them reversed.
    let others: Vec<K> = points.iter().rev().copied().collect();
    let overlaps = |i: usize| {
        let (low, high) = (points[i], others[i]);
        (0..len).filter(|&i| low <= high && starts[i] <= high && low <= ends[i]).count() as u64
    };
    let expected: Vec<u64> = (0..points.len()).into_par_iter().map(overlaps).collect();
    let found = checked.time(|| index.count_overlaps_many(&points, &others))?;
    checked.expect("numbers of overlaps", &found, &expected);

    // In device form, in an output that should not be written past its end.
    let (stream, queries) = (device.stream()?, device.upload(&points)?);
    let mut scratch = Scratch::new(device, points.len())?;
    let mut out = DeviceRows {
        offsets: Output::new(device, "offsets", points.len() + 1)?.buffer,
        rows: Output::new(device, "rows", all.len())?.buffer,
    };
    checked.time(|| {
        index.on(&stream).stab(&queries, &mut scratch, &mut out)?;
        Ok(stream.synchronize()?)
    })?;
    let written = Written::read(&out.rows, "rows in device form", all.len(), None)?;
    let differs = written.differs(&|i| Some(all[i]), &|i| i.to_string());
    checked.difference = checked.difference.take().or(differs);
    Ok(checked.answer())
}
