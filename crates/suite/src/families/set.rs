//! LaneSet: keys without values, by its own calls.

use crate::hooks::{fixed_count, fixed_join, fixed_range, hits};
use crate::host::{ranges_of, rows_of_probes};
use crate::lent::Lender;
use crate::model::Range;
use crate::{Change, Combination, Counts, Family, Form, Neighbor, Numbered, Pairs, Side, Subject};
use lanetree::lane_tree::{BuildScratch, LaneSet, SetBuilder, UpdateScratch};
use lanetree::{AnyKey, Batch, Device, DeviceKind, Op, Result, Stream};
use lanetree_frame::BatchOrder;
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
fn paired<K>(keys: impl IntoIterator<Item = K>) -> Pairs<K> {
    keys.into_iter().map(|key| (key, 0)).collect()
}

impl<K: AnyKey> SetSubject<K> {
    /// Every other batch as if it were sorted, which it mostly is not.
    fn contains(&self, keys: &[K]) -> Result<Vec<bool>> {
        let (device, set) = (self.set.device(), &self.set);
        let on = |order: BatchOrder, keys: &[K]| -> Result<Vec<bool>> {
            let lender = Lender::new(device);
            let mut mask = lender.alloc(keys.len().div_ceil(32))?;
            set.on(&self.stream).order(order).contains(&lender.upload(keys)?, &mut mask)?;
            let mask = mask.to_vec()?;
            Ok((0..keys.len()).map(|i| mask[i / 32] >> (i % 32) & 1 != 0).collect())
        };
        if !keys.len().is_multiple_of(2) {
            return on(BatchOrder::default(), keys);
        }
        let found = on(BatchOrder::Sorted, keys)?;
        // So many that they are sparse: sorted batches have a way for these, too.
        let sparse = set.stats().buckets as usize * 3 / 4;
        let mut order: Vec<usize> = (0..keys.len()).cycle().take(sparse).collect();
        order.sort_by_key(|&i| keys[i]);
        let again = on(BatchOrder::Sorted, &order.iter().map(|&i| keys[i]).collect::<Vec<_>>())?;
        assert!(again.into_iter().eq(order.iter().map(|&i| found[i])), "{sparse} sorted queries");
        Ok(found)
    }

    fn neighbors(&self, keys: &[K], side: Side) -> Result<Vec<Option<K>>> {
        let (lender, on) = (Lender::new(self.set.device()), self.set.on(&self.stream));
        let (queries, mut mask) = (lender.upload(keys)?, lender.alloc(keys.len().div_ceil(32))?);
        // The keys of misses are unspecified: they need not be written.
        let mut found = lender.alloc_zeroed(keys.len())?;
        match side {
            Side::Upper => on.hits(&mut mask).predecessor(&queries, &mut found)?,
            Side::Lower => on.hits(&mut mask).successor(&queries, &mut found)?,
        }
        Ok(hits(found.to_vec()?.into_iter(), &mask.to_vec()?))
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
            let batch = Batch { keys: &keys, values: (), kinds: kinds.as_ref() };
            return Ok(self.set.apply_on(&self.stream, batch, &mut self.scratch)?.into());
        }
        let op = |op: &Op<K, u64>| match *op {
            Op::Insert(key, _) => Op::Insert(key, ()),
            Op::Update(key, _) => Op::Update(key, ()),
            Op::Remove(key) => Op::Remove(key),
        };
        let report = match change {
            Change::Insert => self.set.insert_many(&keys)?,
            Change::Remove => self.set.remove_many(&keys)?,
            Change::Update | Change::Mixed(_) => self.set.apply(&ops.iter().map(op).collect::<Vec<_>>())?,
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

    fn get(&self, keys: &[K], form: Form) -> Result<Vec<Option<u64>>> {
        let found = match form {
            Form::Host => self.set.contains_many(keys)?,
            Form::Device => self.contains(keys)?,
        };
        Ok(found.into_iter().map(|is_there| is_there.then_some(0)).collect())
    }

    fn rank(&self, keys: &[K], side: Side, form: Form) -> Result<Vec<u64>> {
        let Form::Device = form else {
            return match side {
                Side::Lower => self.set.lower_bound_many(keys),
                Side::Upper => self.set.upper_bound_many(keys),
            };
        };
        let (lender, on) = (Lender::new(self.set.device()), self.set.on(&self.stream));
        let (queries, mut ranks) = (lender.upload(keys)?, lender.alloc(keys.len())?);
        match side {
            Side::Lower => on.lower_bound(&queries, &mut ranks)?,
            Side::Upper => on.upper_bound(&queries, &mut ranks)?,
        }
        Ok(ranks.to_vec()?)
    }

    fn join(&self, keys: &[K], form: Form) -> Result<Vec<Option<u64>>> {
        match form {
            Form::Host => Ok(rows_of_probes(&self.set.join_many(keys)?, keys.len())),
            Form::Device => fixed_join(self.set.as_tree(), &self.stream, keys),
        }
    }

    fn neighbor(&self, keys: &[K], side: Side, form: Form) -> Result<Vec<Neighbor<K>>> {
        let found = match (form, side) {
            (Form::Device, _) => self.neighbors(keys, side)?,
            (_, Side::Upper) => self.set.predecessor_many(keys)?,
            (_, Side::Lower) => self.set.successor_many(keys)?,
        };
        Ok(found.into_iter().map(|key| key.map(|key| (key, 0))).collect())
    }

    fn range(&self, ranges: &[Range<K>], form: Form) -> Result<Vec<Pairs<K>>> {
        if form == Form::Device
            && let Some(found) = fixed_range(self.set.as_tree(), &self.stream, ranges)
        {
            return Ok(found?.into_iter().map(|row| paired(row.into_iter().map(|pair| pair.0))).collect());
        }
        let found = self.set.range_many(ranges_of(ranges))?;
        Ok(found.iter().map(|row| paired(row.iter().copied())).collect())
    }

    fn scan(&self, starts: &[K], limit: u32) -> Option<Result<Vec<Pairs<K>>>> {
        let scan = || {
            let (lender, most) = (Lender::new(self.set.device()), limit as usize);
            let (mut keys, mut counts) = (lender.alloc_zeroed(starts.len() * most)?, lender.alloc(starts.len())?);
            self.set.on(&self.stream).scan(&lender.upload(starts)?, limit, &mut keys, &mut counts)?;
            let (keys, counts) = (keys.to_vec()?, counts.to_vec()?);
            let row = |(i, &found): (usize, &u32)| paired(keys[i * most..i * most + found as usize].iter().copied());
            Ok(counts.iter().enumerate().map(row).collect())
        };
        Some(scan())
    }

    fn count(&self, ranges: &[Range<K>], form: Form) -> Result<Vec<u64>> {
        if form == Form::Device
            && let Some(counts) = fixed_count(self.set.as_tree(), &self.stream, ranges)
        {
            return counts;
        }
        self.set.count_range_many(ranges_of(ranges))
    }

    fn combine(&self, how: Combination, pairs: &[(K, u64)], form: Form) -> Option<Result<Pairs<K>>> {
        let keys: Vec<K> = pairs.iter().map(|pair| pair.0).collect();
        let combine = || {
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
                            Combination::Difference => {
                                set.difference_on(stream, Sorted::keys_on(&batch, len), scratch)?
                            }
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
        };
        Some(combine())
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
