//! Bulk builds and batches of updates, on the device, against a sorted map.

use super::answer::Answer;
use super::cases::Mode;
use super::compare::{Difference, Sabotage, items_differ};
use super::data::{self, Distribution};
use lanetree::harmonia::{BuildScratch, FANOUTS, UpdateScratch};
use lanetree::{Device, DeviceKind, Harmonia, Key, KeyWord, Op, OpKind, Result, Word, apply_to_map};
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{Rng, RngExt};
use std::collections::BTreeMap;
use std::time::Instant;

/// One tree, and the batches that it goes through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) key: &'static str,
    pub(crate) value: &'static str,
    fanout: u32,
    fill: f64,
    distribution: Distribution,
    pub(crate) len: usize,
    sorted: bool,
}

impl Spec {
    pub(crate) fn name(&self) -> String {
        let Self { key, value, fanout, fill, distribution, len, sorted, .. } = self;
        let order = if *sorted { "sorted" } else { "unsorted" };
        format!("updates/{key}-{value}/f{fanout}/fill{fill}/{}/{order}/n{len}", distribution.name())
    }
}

/// The trees of a run.
pub(crate) fn specs(mode: Mode, kind: DeviceKind, max_len: usize) -> Vec<Spec> {
    let mut specs = Vec::new();
    let mut turn = 0;
    let lens: &[usize] = match (mode, kind) {
        (_, DeviceKind::Emulated) => &[700, 0],
        (Mode::Quick, _) => &[1500, 0],
        (Mode::Full, _) => &[1500, 0, 100_000, 1 << 20],
    };
    for &len in lens {
        for key in ["u32", "u64", "i32", "i64"] {
            for value in ["u32", "u64"] {
                for fanout in FANOUTS {
                    // A tree without pairs is the same at every fanout, until it has some.
                    if len == 0 && fanout != FANOUTS[turn % FANOUTS.len()] {
                        continue;
                    }
                    let distribution = Distribution::ALL[turn % Distribution::ALL.len()];
                    let fill = [0.7, 1.0, 0.4][turn % 3];
                    let sorted = turn.is_multiple_of(2);
                    specs.push(Spec { key, value, fanout, fill, distribution, len, sorted });
                    turn += 1;
                }
            }
        }
    }
    // Surely with room, and with gaps between the keys: for the batches that crowd into one leaf.
    for key in ["u32", "u64"] {
        for value in ["u32", "u64"] {
            for fanout in [8, 16] {
                let (fill, distribution, len, sorted) = (0.7, Distribution::Uniform, 1400, true);
                specs.push(Spec { key, value, fanout, fill, distribution, len, sorted });
            }
        }
    }
    specs.retain(|spec| spec.len <= max_len);
    specs
}

/// Batches that a tree goes through.
const BATCHES: usize = 12;

/// Builds the tree and takes it through batches: small ones, which mostly fit where they are, large ones,
/// one that empties it, one that fills it again, one with a hot key, and some of keys with few bits.
pub(crate) fn run<K: Key, V: Word>(
    spec: &Spec,
    device: &Device,
    seed: u64,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    let mut rng = data::rng(seed, &spec.name());
    let mut keys: Vec<K> = spec.distribution.keys(spec.len, &mut rng);
    if spec.sorted {
        keys.sort_unstable();
    }
    let values: Vec<V> = data::values(spec.len, &mut rng);
    let mut model: BTreeMap<K, V> = keys.iter().copied().zip(values.iter().copied()).collect();
    let stream = device.stream()?;
    let (key_buffer, value_buffer) = (device.upload(&keys)?, device.upload(&values)?);
    let builder = Harmonia::builder().fanout(spec.fanout).fill(spec.fill);
    let start = Instant::now();
    let buffers = (&key_buffer, &value_buffer);
    let mut tree = if spec.sorted {
        builder.build_sorted_on(&stream, buffers.0, buffers.1, spec.len, &mut BuildScratch::for_sorted(device)?)?
    } else {
        builder.build_on(&stream, buffers.0, buffers.1, spec.len, &mut BuildScratch::for_unsorted(device, spec.len)?)?
    };
    let mut time = start.elapsed();
    let mut difference = compare(&tree, &model, sabotage, "the build")?;
    let (small, large) = (64, (spec.len / 2).max(300));
    let mut scratch = UpdateScratch::new(device, large)?;
    let mut queries = spec.len;
    for batch in 0..BATCHES {
        if difference.is_some() {
            break;
        }
        let ops: Vec<Op<K, V>> = match batch {
            0 => model.keys().step_by(5).map(|&key| Op::Update(key, V::truncate(rng.next_u64()))).collect(),
            1 => crowd(&model, spec.fanout, &mut rng),
            7 => model.keys().map(|&key| Op::Remove(key)).collect(),
            9 => hot(&model, large.max(HOT), &mut rng),
            10 | 11 => low(large, &mut rng),
            _ => operations(&model, spec, if batch < 5 { small } else { large }, batch == 4, &mut rng),
        };
        if ops.len() > large {
            scratch = UpdateScratch::new(device, ops.len())?;
        }
        queries += ops.len();
        let mut expected = apply_to_map(&mut model, &ops);
        let start = Instant::now();
        let report = if device.kind() == DeviceKind::Host || batch == 8 {
            tree.apply(&ops)?
        } else {
            let batch = Batch::new(&ops);
            let (keys, values) = (device.upload(&batch.keys)?, device.upload(&batch.values)?);
            let kinds = batch.kinds.map(|kinds| device.upload(&kinds)).transpose()?;
            tree.apply_on(&stream, &keys, &values, kinds.as_ref(), &mut scratch)?
        };
        time += start.elapsed();
        let what = format!("batch {batch}");
        expected.path = report.path;
        if report != expected {
            let (expected, actual) = (format!("{expected:?}"), format!("{report:?}"));
            difference = Some(Difference { what: "the report", index: batch, query: what, expected, actual });
            break;
        }
        difference = compare(&tree, &model, sabotage, &what)?;
    }
    Ok(Answer { queries, time, difference })
}

/// So many operations of one key are more than the leaves under any one node of fanout 16 have slots, twice.
const HOT: usize = 600;

/// One key again and again, and a few others.
fn hot<K: Key, V: Word>(model: &BTreeMap<K, V>, count: usize, rng: &mut StdRng) -> Vec<Op<K, V>> {
    let key = model.keys().copied().choose(rng).unwrap_or_default();
    let other = K::decode(key.encode().wrapping_add(K::Bits::truncate(1)));
    (0..count)
        .map(|i| {
            let (key, value) = (if i % 100 == 3 { other } else { key }, V::truncate(rng.next_u64()));
            match rng.random_range(0..4) {
                0 if i + 1 < count => Op::Remove(key),
                1 => Op::Update(key, value),
                _ => Op::Insert(key, value),
            }
        })
        .collect()
}

/// Keys that their upper bits do not tell apart, but for a few.
fn low<K: Key, V: Word>(count: usize, rng: &mut StdRng) -> Vec<Op<K, V>> {
    (0..count as u64)
        .map(|i| {
            let low = rng.random_range(0..2 * count as u64);
            let word = if i % 97 == 5 { i << (K::Bits::BITS - 12) } else { low };
            let (key, value) = (K::decode(K::Bits::truncate(word)), V::truncate(rng.next_u64()));
            if i % 3 == 0 { Op::Remove(key) } else { Op::Insert(key, value) }
        })
        .collect()
}

/// A batch as the device takes it.
struct Batch<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
    /// `None` where all are inserts.
    kinds: Option<Vec<OpKind>>,
}

impl<K: Key, V: Word> Batch<K, V> {
    fn new(ops: &[Op<K, V>]) -> Self {
        let keys = ops.iter().map(|op| *op.key()).collect();
        let value = |op: &Op<K, V>| match *op {
            Op::Insert(_, value) | Op::Update(_, value) => value,
            Op::Remove(_) => V::MAX,
        };
        let kinds: Vec<_> = ops.iter().map(Op::kind).collect();
        let kinds = if kinds.iter().all(|&kind| kind == OpKind::INSERT) { None } else { Some(kinds) };
        Self { keys, values: ops.iter().map(value).collect(), kinds }
    }
}

/// Operations on keys that are there, keys beside them, and keys of the distribution, some more than once.
fn operations<K: Key, V: Word>(
    model: &BTreeMap<K, V>,
    spec: &Spec,
    count: usize,
    inserts_only: bool,
    rng: &mut StdRng,
) -> Vec<Op<K, V>> {
    let mut keys: Vec<K> = model.keys().copied().sample(rng, count / 2);
    let beside = keys.iter().map(|key| K::decode(key.encode().wrapping_add(K::Bits::truncate(1))));
    keys = beside.take(count / 4).chain(keys.iter().copied()).collect();
    keys.extend(spec.distribution.keys::<K>(count - keys.len(), rng));
    (0..count)
        .map(|_| {
            let (key, value) = (keys[rng.random_range(0..keys.len())], V::truncate(rng.next_u64()));
            match rng.random_range(0..5) {
                _ if inserts_only => Op::Insert(key, value),
                0 | 1 => Op::Insert(key, value),
                2 => Op::Update(key, value),
                _ => Op::Remove(key),
            }
        })
        .collect()
}

/// As many new keys as a node has slots, right above the smallest key; fewer where the next one is near.
fn crowd<K: Key, V: Word>(model: &BTreeMap<K, V>, fanout: u32, rng: &mut StdRng) -> Vec<Op<K, V>> {
    let mut keys = model.keys();
    let (Some(first), next) = (keys.next(), keys.next()) else { return Vec::new() };
    let above = (1..=u64::from(fanout)).map_while(|i| first.encode().widen().checked_add(i));
    let free = above.take_while(|&word| next.is_some_and(|next| word < next.encode().widen()));
    free.map(|word| Op::Insert(K::decode(K::Bits::truncate(word)), V::truncate(rng.next_u64()))).collect()
}

/// All pairs; and look-ups and ranks of some of the keys, and of keys beside them.
fn compare<K: Key, V: Word>(
    tree: &Harmonia<K, V>,
    model: &BTreeMap<K, V>,
    sabotage: Option<Sabotage>,
    when: &str,
) -> Result<Option<Difference>> {
    let expected: Vec<(K, V)> = model.iter().map(|(&key, &value)| (key, value)).collect();
    let mut pairs = tree.iter().collect::<Result<Vec<_>>>()?;
    if sabotage.is_some() && !pairs.is_empty() {
        pairs.remove(0);
    }
    let query = |i: usize| format!("pair {i} after {when}");
    if pairs.len() != expected.len() {
        let (expected, actual) = (format!("{} pairs", expected.len()), format!("{} pairs", pairs.len()));
        return Ok(Some(Difference { what: "pairs", index: 0, query: format!("all after {when}"), expected, actual }));
    }
    let difference = items_differ("pairs", &pairs, expected.len(), &|i| expected[i], &query);
    if difference.is_some() {
        return Ok(difference);
    }
    let step = (expected.len() / 200).max(1);
    let mut queries = vec![K::MIN, K::MAX];
    for &(key, _) in expected.iter().step_by(step) {
        queries.extend([key, K::decode(key.encode().wrapping_add(K::Bits::truncate(1)))]);
    }
    let query = |i: usize| format!("{} after {when}", queries[i]);
    let values = tree.get_many(&queries)?;
    let difference = items_differ("values", &values, queries.len(), &|i| model.get(&queries[i]).copied(), &query);
    if difference.is_some() {
        return Ok(difference);
    }
    let rank = |key: K| expected.partition_point(|pair| pair.0 < key) as u64;
    let ranks = tree.lower_bound_many(&queries)?;
    let difference = items_differ("ranks", &ranks, queries.len(), &|i| rank(queries[i]), &query);
    if difference.is_some() {
        return Ok(difference);
    }
    let counts = tree.count_range_many(queries.iter().map(|&key| key..=K::MAX))?;
    let count = |i: usize| expected.len() as u64 - rank(queries[i]);
    Ok(items_differ("counts", &counts, queries.len(), &count, &query))
}
