//! GRT, the baseline of CuART: look-ups and updates over byte strings, against a sorted map.

use super::answer::Answer;
use super::cases::Mode;
use super::compare::{Difference, Output, Sabotage, bits_differ};
use super::data;
use super::types::with_value;
use lanetree::{Device, DeviceKind, Result, Stream, Word};
use lanetree_baselines::art::Art;
use lanetree_baselines::grt::{Compare, Grt, KeyBuffers};
use rand::Rng;
use std::collections::BTreeMap;
use std::time::Instant;

/// What keys are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strings {
    /// Of one width, with few different bytes up to some place, and any after it.
    Width(usize),
    /// Of any length, prefixes of each other among them, long runs of equal bytes, the empty one.
    Mixed,
}

/// A case: one tree, and what is done to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    strings: Strings,
    value: &'static str,
    updates: bool,
    len: usize,
}

/// The cases for a device.
pub(crate) fn cases(mode: Mode, kind: DeviceKind, max_len: usize) -> Vec<Case> {
    let lens: &[usize] = match (mode, kind) {
        // There are no kernels.
        (_, DeviceKind::Host) => &[],
        (_, DeviceKind::Emulated) => &[0, 1, 700],
        (Mode::Quick, DeviceKind::Cuda) => &[0, 1, 700, 1 << 16],
        (Mode::Full, DeviceKind::Cuda) => &[0, 1, 700, 1 << 16, 1 << 20],
    };
    let mut cases = Vec::new();
    for strings in [4, 8, 16, 32].map(Strings::Width).into_iter().chain([Strings::Mixed]) {
        for value in ["u32", "u64"] {
            for updates in [false, true] {
                let lens = lens.iter().filter(|len| **len <= max_len);
                cases.extend(lens.map(|&len| Case { strings, value, updates, len }));
            }
        }
    }
    cases
}

impl Strings {
    fn name(self) -> &'static str {
        match self {
            Self::Width(4) => "bytes4",
            Self::Width(8) => "bytes8",
            Self::Width(16) => "bytes16",
            Self::Width(_) => "bytes32",
            Self::Mixed => "strings",
        }
    }

    fn draw(self, rng: &mut data::Random) -> Vec<u8> {
        let len = match self {
            Self::Width(width) => width,
            Self::Mixed => [0, 1, 2, 7, 8, 9, 12, 40, 70][below(rng, 9)] + below(rng, 4),
        };
        let same = below(rng, len + 1);
        let run = [0, b'a', 255][below(rng, 3)];
        let other = below(rng, 3) == 0;
        (0..len)
            .map(|i| match (i < same, other) {
                (true, false) => run,
                (true, true) => [0, b'a', 255][below(rng, 3)],
                (false, _) => rng.next_u32() as u8,
            })
            .collect()
    }
}

/// A number below `bound`, which is small.
fn below(rng: &mut data::Random, bound: usize) -> usize {
    rng.next_u32() as usize % bound
}

impl Case {
    pub(crate) fn name(&self) -> String {
        let Self { strings, value, len, .. } = self;
        format!("grt/{}-{value}/n{len}/{}", strings.name(), self.operation())
    }

    pub(crate) fn keys(&self) -> &'static str {
        self.strings.name()
    }

    pub(crate) fn operation(&self) -> &'static str {
        if self.updates { "update" } else { "get" }
    }

    pub(crate) fn run(&self, device: &Device, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
        with_value!(self.value, |V| self.run_of::<V>(device, seed, sabotage))
    }

    fn run_of<V: Word>(&self, device: &Device, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
        let mut rng = data::rng(seed, &self.name());
        let draw = |_| (self.strings.draw(&mut rng), V::truncate(rng.next_u64()));
        let model: BTreeMap<Vec<u8>, V> = (0..self.len).map(draw).collect();
        // The smallest key is the first.
        let lacking = usize::from(sabotage == Some(Sabotage::Tree));
        let art = Art::new(model.iter().skip(lacking).map(|(key, value)| (key, value.widen())));
        let grt = Grt::new(device, &art)?;
        let known: Vec<Vec<u8>> = model.keys().cloned().collect();
        let queries = self.queries(&known, &mut rng);
        let mut subject = Subject { device, stream: device.stream()?, grt, model, sabotage };
        let mut answers = Vec::new();
        if self.updates {
            // Of most keys several updates, then many of few.
            for (different, compare) in [(known.len(), Compare::Bytes), (known.len().div_ceil(50), Compare::Words)] {
                subject.grt = subject.grt.comparing(compare);
                let any = |i: usize| {
                    if i.is_multiple_of(9) || different == 0 {
                        &queries[i % queries.len()]
                    } else {
                        &known[below(&mut rng, different)]
                    }
                };
                let batch: Vec<Vec<u8>> = (0..2 * queries.len()).map(any).cloned().collect();
                let values = data::values(batch.len(), &mut rng);
                answers.push(subject.update(&batch, &values)?);
            }
        }
        for compare in [Compare::Words, Compare::Bytes] {
            subject.grt = subject.grt.comparing(compare);
            answers.push(subject.get(&queries)?);
        }
        answers.push(subject.range(&queries)?);
        Ok(Answer {
            queries: answers.iter().map(|answer| answer.queries).sum(),
            time: answers.iter().map(|answer| answer.time).sum(),
            difference: answers.into_iter().find_map(|answer| answer.difference),
        })
    }

    /// Every key, each with one byte other, less or more; and some more like them.
    fn queries(&self, known: &[Vec<u8>], rng: &mut data::Random) -> Vec<Vec<u8>> {
        let mut queries: Vec<Vec<u8>> = (0..33).map(|_| self.strings.draw(rng)).collect();
        for key in known {
            queries.push(key.clone());
            let mut other = key.clone();
            match below(rng, 3) {
                0 => other.push([0, 255][below(rng, 2)]),
                1 if !key.is_empty() => other[below(rng, key.len())] ^= 1 << below(rng, 8),
                _ => other.truncate(key.len().saturating_sub(1)),
            }
            queries.push(other);
        }
        queries
    }
}

/// A tree, and what it should answer.
struct Subject<'a, V> {
    device: &'a Device,
    stream: Stream,
    grt: Grt<V>,
    model: BTreeMap<Vec<u8>, V>,
    sabotage: Option<Sabotage>,
}

impl<V: Word> Subject<'_, V> {
    fn get(&self, queries: &[Vec<u8>]) -> Result<Answer> {
        let keys = KeyBuffers::upload(self.device, queries)?;
        let mut values = Output::<V>::new(self.device, "values", queries.len())?;
        let mut found = Output::<u32>::new(self.device, "found", queries.len().div_ceil(32))?;
        let start = Instant::now();
        self.grt.get(&self.stream, keys.queries(), &mut values.buffer, Some(&mut found.buffer), V::MAX)?;
        self.stream.synchronize()?;
        let time = start.elapsed();
        let expected = |i: usize| Some(self.model.get(&queries[i]).copied().unwrap_or(V::MAX));
        let values = values.read(self.sabotage)?.differs(&expected, &|i| described(&queries[i]));
        let found = self.found_differs(found, queries)?;
        Ok(Answer { queries: queries.len(), time, difference: values.or(found) })
    }

    /// Ranges of a few pairs from each query on.
    fn range(&self, queries: &[Vec<u8>]) -> Result<Answer> {
        const PAIRS: usize = 6;
        let pairs = |start: &Vec<u8>| self.model.range(start.clone()..).take(PAIRS);
        let last = |start: &Vec<u8>| pairs(start).last().map_or(start, |(key, _)| key).clone();
        let ends: Vec<Vec<u8>> = queries.iter().map(last).collect();
        let (starts, ends) = (KeyBuffers::upload(self.device, queries)?, KeyBuffers::upload(self.device, &ends)?);
        let mut values = Output::<V>::new(self.device, "values of ranges", PAIRS * queries.len())?;
        let mut lens = Output::<u64>::new(self.device, "lengths of ranges", queries.len())?;
        let bounds = (starts.queries(), ends.queries());
        let start = Instant::now();
        self.grt.range(&self.stream, bounds.0, bounds.1, PAIRS, &mut values.buffer, &mut lens.buffer)?;
        self.stream.synchronize()?;
        let time = start.elapsed();
        let of = |i: usize| described(&queries[i / PAIRS]);
        let expected = |i: usize| pairs(&queries[i / PAIRS]).nth(i % PAIRS).map(|(_, &value)| value);
        let values = values.read(self.sabotage)?.differs(&expected, &of);
        let expected = |i: usize| Some(pairs(&queries[i]).count() as u64);
        let lens = lens.read(self.sabotage)?.differs(&expected, &|i| described(&queries[i]));
        Ok(Answer { queries: queries.len(), time, difference: lens.or(values) })
    }

    fn update(&mut self, batch: &[Vec<u8>], values: &[V]) -> Result<Answer> {
        let keys = KeyBuffers::upload(self.device, batch)?;
        let new = self.device.upload(values)?;
        let mut found = Output::<u32>::new(self.device, "found by updates", batch.len().div_ceil(32))?;
        let start = Instant::now();
        self.grt.update(&self.stream, keys.queries(), &new, Some(&mut found.buffer))?;
        self.stream.synchronize()?;
        let time = start.elapsed();
        for (key, value) in batch.iter().zip(values) {
            self.model.entry(key.clone()).and_modify(|old| *old = *value);
        }
        Ok(Answer { queries: batch.len(), time, difference: self.found_differs(found, batch)? })
    }

    fn found_differs(&self, found: Output<u32>, keys: &[Vec<u8>]) -> Result<Option<Difference>> {
        let expected = |i: usize| self.model.contains_key(&keys[i]);
        Ok(bits_differ(&found.read(self.sabotage)?, keys.len(), &expected, &|i| described(&keys[i])))
    }
}

fn described(key: &[u8]) -> String {
    format!("{key:02x?}")
}
