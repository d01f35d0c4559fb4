//! Indexes of any size, over keys that lie in many ways: what the numbers of written cases are too few for.

use crate::run::Run;
use crate::{Change, Family, Form, Model, Numbered, Question, Range, Subject};
use core::ops::Bound;
use lanetree::{Device, Result};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// How the keys of a build lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Anywhere, each as likely.
    Uniform,
    /// Both ends of the key space, its middle, and between them anything.
    Extremes,
    /// One after another.
    Sequential,
    /// Each key about four times.
    Duplicates,
    /// Runs of neighbours, far from each other.
    Clustered,
    /// Gaps between neighbours of all magnitudes.
    Gaps,
    /// One key, again and again.
    AllEqual,
}

impl Spread {
    /// All of them; the last is for small sizes.
    pub const ALL: [Self; 7] = [
        Self::Uniform,
        Self::Extremes,
        Self::Sequential,
        Self::Duplicates,
        Self::Clustered,
        Self::Gaps,
        Self::AllEqual,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Extremes => "extremes",
            Self::Sequential => "sequential",
            Self::Duplicates => "duplicates",
            Self::Clustered => "clustered",
            Self::Gaps => "gaps",
            Self::AllEqual => "all-equal",
        }
    }

    /// Words of keys, in the order in which a build gets them.
    fn words(self, len: usize, rng: &mut StdRng) -> Vec<u64> {
        let first = rng.next_u64();
        match self {
            Self::Uniform => (0..len).map(|_| rng.next_u64()).collect(),
            Self::AllEqual => vec![first; len],
            Self::Sequential => (0..len as u64).map(|i| (first >> 2).wrapping_add(i)).collect(),
            Self::Duplicates => {
                (0..len).map(|_| first.wrapping_mul(1 + rng.next_u64() % (len as u64 / 4 + 1))).collect()
            }
            Self::Clustered => (0..len as u64).map(|i| (first.wrapping_mul(1 + i / 50) >> 7).wrapping_add(i)).collect(),
            Self::Gaps => {
                let mut word = first;
                let gap = |rng: &mut StdRng| 1 + (rng.next_u64() >> rng.random_range(8..64));
                let mut next = |_| {
                    word = word.wrapping_add(gap(rng));
                    word
                };
                (0..len).map(&mut next).collect()
            }
            Self::Extremes => {
                let mut words: Vec<u64> = (0..len).map(|_| rng.next_u64()).collect();
                let middles = [1 << 63, 1 << 31].into_iter().flat_map(|middle| [middle - 1, middle]);
                let ends = [0, u64::MAX, 1, u64::MAX - 1].into_iter().chain(middles);
                words.iter_mut().zip(ends).for_each(|(word, end)| *word = end);
                words.rotate_left(len / 2);
                words
            }
        }
    }
}

/// An index to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pairs, duplicates included.
    pub len: usize,
    /// How their keys lie.
    pub spread: Spread,
    /// Queries of a batch, about; ranges are as many, changes no more than a quarter of all pairs beyond these.
    pub batch: usize,
    /// What the data follow from.
    pub seed: u64,
    /// A deliberate fault: the index does not get the smallest key, which must be found out.
    pub lacks_smallest: bool,
}

/// Builds an index in one way, asks everything in both forms, changes it and asks again; how many batches that were.
/// The inner error is what differs.
///
/// # Errors
/// The build's own: large ones may find no memory.
pub fn at_size<F: Family>(family: &F, device: &Device, options: u8, size: &Size) -> Result<Result<u64, String>> {
    let mut rng = StdRng::seed_from_u64(size.seed);
    let words = size.spread.words(size.len, &mut rng);
    let keys = words.iter().map(|&word| KeyOf::<F>::of_word(word));
    let mut pairs: Vec<(KeyOf<F>, u64)> = keys.zip((0..).map(crate::run::value::<F::Subject>)).collect();
    let expected = pairs.clone();
    if size.lacks_smallest {
        let smallest = pairs.iter().map(|pair| pair.0.clone()).min();
        pairs.retain(|pair| Some(&pair.0) != smallest.as_ref());
    }
    let index = family.build(device, options, &pairs)?;
    Ok(all(index, expected, &words, size, &mut rng))
}

type KeyOf<F> = <<F as Family>::Subject as Subject>::Key;

fn all<S: Subject>(
    index: S,
    pairs: Vec<(S::Key, u64)>,
    words: &[u64],
    size: &Size,
    rng: &mut StdRng,
) -> Result<u64, String> {
    let mut run = Run::of(index, pairs).map_err(|error| format!("the build: {error}"))?;
    for form in [Form::Device, Form::Host] {
        questions(&mut run, size, words, form, rng)?;
    }
    changes(&mut run, size, words, rng)?;
    Ok(run.tally.changed + run.tally.answered)
}

/// Keys that are present, keys next to them, and any keys; a multiple of three in all.
fn keys<K: Numbered>(count: usize, words: &[u64], rng: &mut StdRng) -> Vec<K> {
    let mut key = |i: usize| match (i % 4, words.len()) {
        (0, _) | (_, 0) => K::of_word(rng.next_u64()),
        (1, len) => K::of_word(words[rng.random_range(0..len)].wrapping_add(1)),
        (_, len) => K::of_word(words[rng.random_range(0..len)]),
    };
    let mut keys: Vec<K> = (0..count.next_multiple_of(3) - 3).map(&mut key).collect();
    keys.extend([K::key(K::SMALLEST), K::key(K::LARGEST), key(0)]);
    keys
}

/// Every query, over keys in no order and in order.
fn questions<S: Subject>(
    run: &mut Run<S>,
    size: &Size,
    words: &[u64],
    form: Form,
    rng: &mut StdRng,
) -> Result<(), String> {
    let any: Vec<S::Key> = keys(size.batch, words, rng);
    let mut sorted: Vec<S::Key> = keys(2 * size.batch, words, rng);
    sorted.sort_unstable();
    for keys in [any.clone(), sorted] {
        let ranges = ranges(run.model(), keys.clone(), form, rng);
        ask(run, Question::every(&keys, &ranges, crate::run::value::<S>), form)?;
    }
    if form == Form::Device {
        let short = [true, false].map(|in_order| Question::Range(short_ranges(run.model(), in_order)));
        ask(run, short, form)?;
    }
    let from = any[..any.len().min(100)].to_vec();
    ask(run, [1, 100].map(|limit| Question::Scan(from.clone(), limit)), form)?;
    Ok(())
}

fn ask<S: Subject>(
    run: &mut Run<S>,
    questions: impl IntoIterator<Item = Question<S::Key>>,
    form: Form,
) -> Result<(), String> {
    questions.into_iter().try_for_each(|question| {
        run.question(&question, form).map_err(|error| format!("{} in {form:?} form: {error}", question.name()))
    })
}

/// Ranges from each key on: most of them short, some of up to a thousand pairs, and all of a small index. Ranges in
/// device form include their bounds.
fn ranges<K: Numbered>(model: &Model<K>, starts: Vec<K>, form: Form, rng: &mut StdRng) -> Vec<Range<K>> {
    let pairs = model.pairs();
    let range = |(i, start): (usize, K)| {
        let most = if i % 8 == 1 { 1000 } else { 20 };
        let after = model.rank(&start, false) as usize + rng.random_range(0..=most);
        let end = pairs.get(after).map_or(start.clone(), |pair| pair.0.clone()).max(start.clone());
        let limit = [None, None, None, Some(3), Some(0), Some(1), Some(40), None][i % 8];
        let included = (Bound::Included(start.clone()), Bound::Included(end.clone()));
        let (start, end) = match (form, i % 7) {
            (_, 3) if pairs.len() < 5000 => (Bound::Included(K::key(K::SMALLEST)), Bound::Included(K::key(K::LARGEST))),
            (Form::Device, _) => included,
            (_, 2) => (Bound::Excluded(start), Bound::Included(end)),
            (_, 4) => (Bound::Included(start), Bound::Excluded(end)),
            (_, 5) => (Bound::Excluded(start), Bound::Excluded(end)),
            _ => included,
        };
        (start, end, limit)
    };
    starts.into_iter().enumerate().map(range).collect()
}

/// Ranges of a few pairs each, from the keys of a small index or of a part of it on, in their order or in none; a multiple of three.
fn short_ranges<K: Numbered>(model: &Model<K>, in_order: bool) -> Vec<Range<K>> {
    let pairs = model.pairs();
    let count = pairs.len().min(1 << 12) / 3 * 3;
    let range = |i: usize| {
        let from = if in_order { i } else { i * 7919 % count };
        let to = (from + from % 5).min(pairs.len() - 1);
        (Bound::Included(pairs[from].0.clone()), Bound::Included(pairs[to].0.clone()), None)
    };
    (0..count).map(range).collect()
}

/// Batches that mostly fit where they are, that crowd into one place, that have one key again and again, and that leave
/// nothing.
fn changes<S: Subject>(run: &mut Run<S>, size: &Size, words: &[u64], rng: &mut StdRng) -> Result<(), String> {
    let count = size.batch.max(size.len / 4);
    let known = |step: usize| words.iter().step_by(step).map(|&word| S::Key::of_word(word)).collect::<Vec<_>>();
    let middle = words.get(words.len() / 2).copied().unwrap_or(1 << 20);
    let crowd = (1..=64).map(|i| S::Key::of_word(middle.wrapping_add(i))).collect();
    let hot = (0..600).map(|i| S::Key::of_word(middle.wrapping_add(u64::from(i % 100 == 3)))).collect();
    let batches = [
        (Change::Update, Some(known(5))),
        (Change::Insert, Some(crowd)),
        (Change::Insert, Some(keys(count, words, rng))),
        (Change::Mixed(0b10_00_01_10), Some(keys(count, words, rng))),
        (Change::Mixed(0b10_01_00_10_11), Some(hot)),
        (Change::Remove, Some(known(2))),
        (Change::Remove, Some(known(1))),
        (Change::Mixed(0b10_00_00), Some(keys(count, words, rng))),
        // All that there are then, so that the last batch comes into an empty index.
        (Change::Remove, None),
        (Change::Mixed(0b10_00_00), Some(keys(count, words, rng))),
    ];
    for (number, (change, keys)) in batches.into_iter().enumerate() {
        let keys = keys.unwrap_or_else(|| run.model().pairs().iter().map(|pair| pair.0.clone()).collect());
        let form = if matches!(number, 7 | 9) { Form::Host } else { Form::Device };
        let done = run.change_keys(change, keys, form, None);
        done.map_err(|error| format!("batch {number}, {change:?} in {form:?} form: {error}"))?;
    }
    questions(run, size, words, Form::Device, rng)
}
