//! LaneSet: keys without values, by its own calls.

use crate::host::{of_matches, ranges_of};
use crate::lent::Lender;
use crate::memory::{Memory, inclusive};
use crate::{
    Answer, Change, Combination, Counts, Family, Form, Joining, Numbered, Pairs, Question, Side, Subject, fixed,
};
use lanetree::lane_tree::{BuildScratch, LaneSet, SetBuilder, UpdateScratch};
use lanetree::{AnyKey, Batch, Buffer, Device, DeviceKind, JoinKind, LaneTree, Op, Result, Stream};
use lanetree_frame::fixed::{CombineScratch, Sorted};

/// Room of the scratch memory that all batches of a set in device form share.
const MOST_OPERATIONS: usize = 160;

/// Sets with levels above the lowest and much room in their lines, full ones, and with some room; built from slices, and on the
/// device.
#[derive(Debug)]
pub struct LaneSets<K> {
    name: &'static str,
    builders: [SetBuilder<K>; 3],
}

impl<K: AnyKey> LaneSets<K> {
    /// The family.
    pub fn new(name: &'static str) -> Self {
        let of = |(fill, nodes)| LaneSet::builder().fill(fill).table_nodes(nodes);
        Self { name, builders: [(0.3, 1), (1.0, 16384), (0.7, 3)].map(of) }
    }
}

impl<K: AnyKey + Numbered> Family for LaneSets<K> {
    type Subject = SetSubject<K>;

    fn name(&self) -> &str {
        self.name
    }

    fn ways(&self) -> u8 {
        self.builders.len() as u8
    }

    fn build(&self, device: &Device, options: u8, pairs: &[(K, u64)]) -> Result<SetSubject<K>> {
        let (way, stream) = (options % self.ways(), device.stream()?);
        let builder = self.builders[usize::from(way)];
        let mut keys: Vec<K> = pairs.iter().map(|pair| pair.0).collect();
        let (len, lender) = (keys.len(), Lender::new(device));
        let set = match way {
            0 => builder.build(device, &keys)?,
            1 => {
                let mut scratch = BuildScratch::for_unsorted(device, len)?;
                builder.build_on(&stream, &lender.upload(&keys)?, len, &mut scratch)?
            }
            _ => {
                keys.sort_unstable();
                let mut scratch = BuildScratch::for_sorted(device)?;
                builder.build_sorted_on(&stream, &lender.upload(&keys)?, len, &mut scratch)?
            }
        };
        Ok(SetSubject { scratch: UpdateScratch::new(device, MOST_OPERATIONS)?, set, stream })
    }
}

/// A set, and what its calls take.
#[derive(Debug)]
pub struct SetSubject<K: AnyKey> {
    set: LaneSet<K>,
    stream: Stream,
    scratch: UpdateScratch<K>,
}

/// As pairs.
pub(super) fn paired<K>(keys: impl IntoIterator<Item = K>) -> Pairs<K> {
    keys.into_iter().map(|key| (key, 0)).collect()
}

pub(super) fn of_flags<K>(found: Vec<bool>) -> Answer<K> {
    Answer::Values(found.into_iter().map(|is_there| is_there.then_some(0)).collect())
}

pub(super) fn of_keys<K>(found: Vec<Option<K>>) -> Answer<K> {
    Answer::Neighbors(found.into_iter().map(|key| key.map(|key| (key, 0))).collect())
}

/// Operations without values.
pub(super) fn without_values<K: Copy>(ops: &[Op<K, u64>]) -> Vec<Op<K, ()>> {
    let op = |op: &Op<K, u64>| match *op {
        Op::Insert(key, _) => Op::Insert(key, ()),
        Op::Update(key, _) => Op::Update(key, ()),
        Op::Remove(key) => Op::Remove(key),
    };
    ops.iter().map(op).collect()
}

/// Answers in host form: a set in shards has calls of the same names.
macro_rules! set_on_host {
    ($question:expr, $set:expr) => {
        match $question {
            Question::Get(keys) => $set.contains_many(keys).map(of_flags).map(Some),
            Question::Rank(keys, Side::Lower) => $set.lower_bound_many(keys).map(Answer::Numbers).map(Some),
            Question::Rank(keys, Side::Upper) => $set.upper_bound_many(keys).map(Answer::Numbers).map(Some),
            Question::Neighbor(keys, Side::Upper) => $set.predecessor_many(keys).map(of_keys).map(Some),
            Question::Neighbor(keys, Side::Lower) => $set.successor_many(keys).map(of_keys).map(Some),
            Question::Join(keys, of) if *of == Joining::new(JoinKind::Inner) => {
                $set.join_many(keys).map(|found| Some(of_matches(found, keys.len())))
            }
            Question::Range(ranges) => $set
                .range_many(ranges_of::<LaneTree<K, u64>>(ranges))
                .map(|found| Some(Answer::Rows(found.iter().map(|row| paired(row.iter().copied())).collect()))),
            Question::Count(ranges) => {
                $set.count_range_many(ranges_of::<LaneTree<K, u64>>(ranges)).map(Answer::Numbers).map(Some)
            }
            _ => Ok(None),
        }
    };
}
pub(super) use set_on_host;

/// Answers in device form, likewise.
macro_rules! set_in_buffers {
    ($question:expr, $stream:expr, $on:expr) => {{
        let (memory, on) = (Memory::new($stream), $on);
        Ok(Some(match $question {
            Question::Rank(keys, side) => {
                let (queries, mut ranks) = (memory.lender.upload(keys)?, memory.lender.alloc(keys.len())?);
                match side {
                    Side::Lower => on().lower_bound(&queries, &mut ranks)?,
                    Side::Upper => on().upper_bound(&queries, &mut ranks)?,
                }
                Answer::Numbers(ranks.to_vec()?)
            }
            Question::Neighbor(keys, side) => {
                let queries = memory.lender.upload(keys)?;
                memory.neighbors(keys.len(), |keys, _: &mut Buffer<()>, mask| match side {
                    Side::Upper => on().hits(mask).predecessor(&queries, keys),
                    Side::Lower => on().hits(mask).successor(&queries, keys),
                })?
            }
            Question::Scan(starts, limit) => {
                let queries = memory.lender.upload(starts)?;
                let scan = |keys: &mut _, _: &mut Buffer<()>, counts: &mut _| on().scan(&queries, *limit, keys, counts);
                memory.scan(starts.len(), *limit, scan)?
            }
            Question::Count(ranges) => {
                let Some((spans, limits)) = inclusive(ranges) else { return Ok(None) };
                let ([starts, ends], limits) = (memory.upload_spans(&spans)?, memory.lender.upload(&limits)?);
                let mut counts = memory.lender.alloc(ranges.len())?;
                on().limits(&limits).count_range(&starts, &ends, &mut counts)?;
                Answer::Numbers(counts.to_vec()?)
            }
            _ => return Ok(None),
        }))
    }};
}
pub(super) use set_in_buffers;

impl<K: AnyKey> SetSubject<K> {
    fn contains(&self, keys: &[K]) -> Result<Vec<bool>> {
        let lender = Lender::new(self.set.device());
        let mut mask = lender.alloc(keys.len().div_ceil(32))?;
        self.set.on(&self.stream).contains(&lender.upload(keys)?, &mut mask)?;
        let mask = mask.to_vec()?;
        Ok((0..keys.len()).map(|i| mask[i / 32] >> (i % 32) & 1 != 0).collect())
    }

    fn combine(&self, how: Combination, pairs: &[(K, u64)], form: Form) -> Result<Pairs<K>> {
        let keys: Vec<K> = pairs.iter().map(|pair| pair.0).collect();
        let combined = match (how, form) {
            (Combination::Union, Form::Host) => self.set.union(Sorted::keys(&keys))?,
            (Combination::Intersection, Form::Host) => self.set.intersection(Sorted::keys(&keys))?,
            (Combination::Difference, Form::Host) => self.set.difference(Sorted::keys(&keys))?,
            (how, Form::Device) => {
                let (device, stream, set) = (self.set.device(), &self.stream, &self.set);
                let mut scratch = CombineScratch::new(device)?;
                let scratch = &mut scratch;
                // Every other time with a batch, and with another set.
                if keys.len() % 2 == 1 {
                    let (batch, len) = (device.upload(&keys)?, keys.len());
                    match how {
                        Combination::Union => set.union_on(stream, Sorted::keys_on(&batch, len), scratch)?,
                        Combination::Intersection => {
                            set.intersection_on(stream, Sorted::keys_on(&batch, len), scratch)?
                        }
                        Combination::Difference => set.difference_on(stream, Sorted::keys_on(&batch, len), scratch)?,
                    }
                } else {
                    let other = LaneSet::build(device, &keys)?;
                    match how {
                        Combination::Union => set.union_on(stream, &other, scratch)?,
                        Combination::Intersection => set.intersection_on(stream, &other, scratch)?,
                        Combination::Difference => set.difference_on(stream, &other, scratch)?,
                    }
                }
            }
        };
        let keys = combined.keys()?;
        // It answers, too.
        assert!(combined.contains_many(&keys)?.into_iter().all(|is_there| is_there), "{how:?}");
        Ok(paired(keys))
    }
}

impl<K: AnyKey + Numbered> Subject for SetSubject<K> {
    type Key = K;
    const HAS_VALUES: bool = false;

    fn size(&self) -> u64 {
        self.set.len()
    }

    fn pairs(&mut self) -> Result<Pairs<K>> {
        let keys = self.set.keys()?;
        assert!(self.set.iter().collect::<Result<Vec<K>>>()? == keys, "the keys, one by one");
        Ok(paired(keys))
    }

    fn apply(&mut self, change: Change, ops: &[Op<K, u64>], form: Form) -> Result<Counts> {
        let keys: Vec<K> = ops.iter().map(|op| *op.key()).collect();
        let device = self.set.device().clone();
        let is_for_scratch = device.kind() != DeviceKind::Host && ops.len() <= MOST_OPERATIONS;
        if form == Form::Device && is_for_scratch && !ops.is_empty() {
            let kinds: Vec<_> = ops.iter().map(Op::kind).collect();
            let lender = Lender::new(&device);
            let kinds = if change == Change::Insert { None } else { Some(lender.upload(&kinds)?) };
            let keys = lender.upload(&keys)?;
            let batch = Batch { kinds: kinds.as_ref(), ..Batch::insert_keys(&keys) };
            return Ok(self.set.apply_on(&self.stream, batch, &mut self.scratch)?.into());
        }
        let report = match change {
            Change::Insert => self.set.insert_many(&keys)?,
            Change::Remove => self.set.remove_many(&keys)?,
            Change::Update | Change::Mixed(_) => self.set.apply(&without_values(ops))?,
        };
        Ok(report.into())
    }

    fn check_structure(&self) {
        if self.set.device().kind() != DeviceKind::Cuda {
            self.set.as_tree().check_structure();
        }
    }

    fn compact(&mut self) -> Result<()> {
        self.set.compact().map(drop)
    }

    fn ask(&self, question: &Question<K>, form: Form) -> Option<Result<Answer<K>>> {
        let (set, stream) = (&self.set, &self.stream);
        let own = match (form, question) {
            (Form::Device, Question::Get(keys)) => self.contains(keys).map(|found| Some(of_flags(found))),
            (Form::Device, Question::Range(_)) => return fixed::ask(set.as_tree(), stream, question, form),
            (Form::Device, _) => (|| set_in_buffers!(question, stream, || set.on(stream)))(),
            (Form::Host, _) => Ok(None),
        };
        let own = own.and_then(|own| {
            let ask = |question: &Question<K>, order| match question {
                Question::Scan(..) => (|| set_in_buffers!(question, stream, || set.on(stream).order(order)))(),
                _ => fixed::in_order(set.as_tree(), stream, question, order),
            };
            own.iter().try_for_each(|answer| fixed::check_orders(set.len(), question, answer, ask))?;
            Ok(own)
        });
        let own = own.and_then(|own| if own.is_some() { Ok(own) } else { set_on_host!(question, set) });
        own.transpose().or_else(|| match question {
            Question::Combine(how, pairs) => Some(self.combine(*how, pairs, form).map(Answer::Pairs)),
            // There are no values.
            Question::AsOfJoin(..) | Question::RangeJoin(..) | Question::BandJoin(..) => None,
            _ => fixed::ask(set.as_tree(), stream, question, form),
        })
    }

    fn restore_order(&mut self) -> Result<()> {
        // There is nothing to restore, but a lost set says so here too.
        self.set.keys().map(drop)
    }

    fn device(&self) -> &Device {
        self.set.device()
    }

    fn is_lost(&self) -> Option<bool> {
        Some(self.set.is_lost())
    }
}
