//! Trees with long keys on the CPU and short keys on a device.

use super::Spec;
use super::ranges::LIMIT;
use super::subject::{Model, described, differ};
use crate::answer::Answer;
use crate::compare::{Difference, Sabotage, items_differ};
use crate::cuart_build::near;
use crate::data;
use lanetree::cuart::Hybrid;
use lanetree::{ByteKeys, ByteKeysBuf, ByteRange, ByteRanges, Device, Op, Result, Word};
use rand::{Rng, RngExt};
use std::time::Instant;

type Pair<V> = (Vec<u8>, V);

/// A pair of trees, what it should answer, and how much it was asked.
struct Subject<V: Word> {
    tree: Hybrid<V>,
    model: Model<V>,
    asked: usize,
}

/// Builds from half of the keys, changes by a mixed batch and by arrays, and asks about everything in between.
pub(crate) fn run<V: Word>(
    spec: &Spec,
    max: usize,
    rng: &mut data::Random,
    device: &Device,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    let known: Vec<Vec<u8>> = (0..spec.len).map(|_| spec.strings.draw(rng)).collect();
    let model: Model<V> = known.iter().step_by(2).map(|key| (key.clone(), V::truncate(rng.next_u64()))).collect();
    let mut queries: Vec<Vec<u8>> = known.iter().flat_map(|key| [key.clone(), near(key, rng)]).collect();
    queries.extend([vec![], vec![0; max], vec![0; max + 1], vec![255; 40]]);
    // The smallest key is the first.
    let lacking = usize::from(sabotage == Some(Sabotage::Tree));
    let values: Vec<V> = model.values().skip(lacking).copied().collect();
    let keys: ByteKeysBuf = model.keys().skip(lacking).collect();
    let start = Instant::now();
    let tree = Hybrid::builder().max_device_key(max).root_table(spec.table).build(device, &keys, &values)?;
    let mut subject = Subject { tree, model, asked: 0 };
    let mut difference = subject.ask(&queries)?;
    for turn in 0..3 {
        if difference.is_some() {
            break;
        }
        difference = subject.change(turn, &known, &queries, rng)?;
        subject.tree.compact()?;
        difference = difference.or(subject.ask(&queries)?);
    }
    Ok(Answer { queries: subject.asked, time: start.elapsed(), difference })
}

impl<V: Word> Subject<V> {
    /// A batch of changes of one sort or another, and look-ups after it.
    fn change(
        &mut self,
        turn: usize,
        known: &[Vec<u8>],
        queries: &[Vec<u8>],
        rng: &mut data::Random,
    ) -> Result<Option<Difference>> {
        let any: Vec<Vec<u8>> = (0..known.len()).map(|_| queries[rng.random_range(0..queries.len())].clone()).collect();
        let values: Vec<V> = data::values(any.len(), rng);
        let before = self.model.len() as u64;
        let (inserted, removed) = match turn {
            0 => {
                let op = |(key, &value): (&Vec<u8>, &V)| match value.widen() % 3 {
                    0 => Op::Remove(key.clone()),
                    1 => Op::Update(key.clone(), value),
                    _ => Op::Insert(key.clone(), value),
                };
                let ops: Vec<Op<Vec<u8>, V>> = any.iter().zip(&values).map(op).collect();
                let report = self.tree.apply(&ops)?;
                for op in ops {
                    match op {
                        Op::Remove(key) => drop(self.model.remove(&key)),
                        Op::Update(key, value) => drop(self.model.get_mut(&key).map(|old| *old = value)),
                        Op::Insert(key, value) => drop(self.model.insert(key, value)),
                    }
                }
                (report.inserted, report.removed)
            }
            1 => {
                let keys: ByteKeysBuf = any.iter().collect();
                let report = self.tree.insert_many(&keys, &values)?;
                self.model.extend(any.into_iter().zip(values));
                (report.inserted, report.removed)
            }
            _ => {
                let keys: ByteKeysBuf = any.iter().collect();
                self.tree.update_many(&keys, &values)?;
                let report = self.tree.remove_many(&known.iter().step_by(3).collect::<ByteKeysBuf>())?;
                for (key, value) in any.into_iter().zip(values) {
                    self.model.entry(key).and_modify(|old| *old = value);
                }
                for key in known.iter().step_by(3) {
                    self.model.remove(key);
                }
                (report.inserted, report.removed)
            }
        };
        let difference = differ("the tree's length", self.model.len() as u64, self.tree.len());
        let difference =
            difference.or(differ("what came and went", self.model.len() as u64 + removed, before + inserted));
        Ok(difference.or(self.get(queries)?))
    }

    fn get(&mut self, queries: &[Vec<u8>]) -> Result<Option<Difference>> {
        let found = self.tree.get_many(&queries.iter().collect::<ByteKeysBuf>())?;
        self.asked += queries.len();
        let expected = |i: usize| self.model.get(&queries[i]).copied();
        Ok(items_differ("results", &found, queries.len(), &expected, &|i| described(&queries[i])))
    }

    /// Everything that a compact tree answers.
    fn ask(&mut self, queries: &[Vec<u8>]) -> Result<Option<Difference>> {
        let mut difference = self.get(queries)?;
        // Larger batches would say no more.
        let queries = &queries[..queries.len().min(2_000)];
        let packed: ByteKeysBuf = queries.iter().collect();
        let shown = |i: usize| described(&queries[i]);
        let (count, model) = (queries.len(), &self.model);
        let pair = |pair: Option<(&Vec<u8>, &V)>| pair.map(|(key, value)| (key.clone(), *value));

        let before = self.tree.predecessor_many(&packed)?;
        let expected = |i: usize| pair(model.range(..=queries[i].clone()).next_back());
        difference = difference.or(items_differ("predecessors", &before, count, &expected, &shown));
        let after = self.tree.successor_many(&packed)?;
        let expected = |i: usize| pair(model.range(queries[i].clone()..).next());
        difference = difference.or(items_differ("successors", &after, count, &expected, &shown));

        let between = |i: usize| {
            let (a, b) = (&queries[i], &queries[count - 1 - i]);
            if a <= b { (a, b) } else { (b, a) }
        };
        let range = |i: usize| ByteRange::from(&between(i).0[..]..=&between(i).1[..]).limit(LIMIT);
        let inside = |i: usize| {
            let (start, end) = between(i);
            model.range(start.clone()..=end.clone()).take(LIMIT as usize).map(|(key, value)| (key.clone(), *value))
        };
        let found = pairs(&self.tree.range_many((0..count).map(range))?);
        let expected = |i: usize| inside(i).collect::<Vec<Pair<V>>>();
        difference = difference.or(items_differ("ranges", &found, count, &expected, &shown));
        let counts = self.tree.count_range_many((0..count).map(range))?;
        let expected = |i: usize| inside(i).count() as u64;
        difference = difference.or(items_differ("counts", &counts, count, &expected, &shown));

        let prefixed = pairs(&self.tree.prefix_many(&packed)?);
        let expected = |i: usize| {
            let from = model.range(queries[i].clone()..).take_while(|(key, _)| key.starts_with(&queries[i]));
            from.map(|(key, value)| (key.clone(), *value)).collect::<Vec<Pair<V>>>()
        };
        difference = difference.or(items_differ("prefixes", &prefixed, count, &expected, &shown));
        self.asked += 5 * count;
        Ok(difference)
    }
}

fn pairs<V: Word>(ranges: &ByteRanges<V>) -> Vec<Vec<Pair<V>>> {
    let pairs =
        |(keys, values): (ByteKeys<'_>, &[V])| keys.iter().map(<[u8]>::to_vec).zip(values.iter().copied()).collect();
    ranges.iter().map(pairs).collect()
}
