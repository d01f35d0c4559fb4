//! Sets over several devices, by their own calls.

use crate::families::sharded::Three;
use crate::hooks::hits;
use crate::host::{ranges_of, rows_of_probes};
use crate::lent::Lender;
use crate::model::Range;
use crate::{Change, Counts, Family, Form, Neighbor, Numbered, Pairs, Side, Subject};
use lanetree::{AnyKey, Device, LaneSet, Op, Result, SetOnDevices, ShardedSet, Stream};

/// Three shards, on one device and on three, full and with room.
#[derive(Debug)]
pub struct ShardedSets {
    name: &'static str,
}

impl ShardedSets {
    /// The family.
    pub fn new(name: &'static str) -> Self {
        Self { name }
    }
}

impl Family for ShardedSets {
    type Subject = ShardedSetSubject<u64>;

    fn name(&self) -> &str {
        self.name
    }

    fn ways(&self) -> u8 {
        2
    }

    fn build(&self, device: &Device, options: u8, pairs: &[(u64, u64)]) -> Result<ShardedSetSubject<u64>> {
        let (three, fill) = [(Three::Together, 0.7), (Three::Apart, 1.0)][usize::from(options % self.ways())];
        let keys: Vec<u64> = pairs.iter().map(|pair| pair.0).collect();
        let set = ShardedSet::build(&three.devices(device), LaneSet::builder().fill(fill), &keys)?;
        Ok(ShardedSetSubject { set, device: device.clone(), stream: device.stream()? })
    }
}

/// A set, and a stream of its first device.
#[derive(Debug)]
pub struct ShardedSetSubject<K: AnyKey> {
    set: ShardedSet<K>,
    device: Device,
    stream: Stream,
}

/// As pairs.
fn paired<K>(keys: impl IntoIterator<Item = K>) -> Pairs<K> {
    keys.into_iter().map(|key| (key, 0)).collect()
}

impl<K: AnyKey> ShardedSetSubject<K> {
    /// Batches of an even length are called sorted, which most are not.
    fn on(&self, keys: &[K]) -> SetOnDevices<'_, K> {
        let on = self.set.on(&self.stream);
        if keys.is_sorted() || keys.len().is_multiple_of(2) { on.sorted() } else { on }
    }
}

impl<K: AnyKey + Numbered> Subject for ShardedSetSubject<K> {
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

    fn apply(&mut self, change: Change, ops: &[Op<K, u64>], _: Form) -> Result<Counts> {
        let keys: Vec<K> = ops.iter().map(|op| *op.key()).collect();
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

    fn compact(&mut self) -> Result<()> {
        self.set.rebalance()?;
        self.set.compact().map(drop)
    }

    fn get(&self, keys: &[K], form: Form) -> Result<Vec<Option<u64>>> {
        if form == Form::Host {
            let found = self.set.contains_many(keys)?;
            return Ok(found.into_iter().map(|is_there| is_there.then_some(0)).collect());
        }
        let lender = Lender::new(&self.device);
        let mut mask = lender.alloc(keys.len().div_ceil(32))?;
        self.on(keys).contains(&lender.upload(keys)?, &mut mask)?;
        Ok(hits(keys.iter().map(|_| 0), &mask.to_vec()?))
    }

    fn rank(&self, keys: &[K], side: Side, form: Form) -> Result<Vec<u64>> {
        let Form::Device = form else {
            return match side {
                Side::Lower => self.set.lower_bound_many(keys),
                Side::Upper => self.set.upper_bound_many(keys),
            };
        };
        let (lender, on) = (Lender::new(&self.device), self.on(keys));
        let (queries, mut ranks) = (lender.upload(keys)?, lender.alloc(keys.len())?);
        match side {
            Side::Lower => on.lower_bound(&queries, &mut ranks)?,
            Side::Upper => on.upper_bound(&queries, &mut ranks)?,
        }
        Ok(ranks.to_vec()?)
    }

    fn join(&self, keys: &[K], _: Form) -> Result<Vec<Option<u64>>> {
        Ok(rows_of_probes(&self.set.join_many(keys)?, keys.len()))
    }

    fn neighbor(&self, keys: &[K], side: Side, form: Form) -> Result<Vec<Neighbor<K>>> {
        let found = match (form, side) {
            (Form::Device, _) => {
                let lender = Lender::new(&self.device);
                let (queries, mut mask) = (lender.upload(keys)?, lender.alloc(keys.len().div_ceil(32))?);
                // The keys of misses are unspecified: they need not be written.
                let mut found = lender.alloc_zeroed(keys.len())?;
                let on = self.on(keys).hits(&mut mask);
                match side {
                    Side::Upper => on.predecessor(&queries, &mut found)?,
                    Side::Lower => on.successor(&queries, &mut found)?,
                }
                hits(found.to_vec()?.into_iter(), &mask.to_vec()?)
            }
            (_, Side::Upper) => self.set.predecessor_many(keys)?,
            (_, Side::Lower) => self.set.successor_many(keys)?,
        };
        Ok(found.into_iter().map(|key| key.map(|key| (key, 0))).collect())
    }

    fn range(&self, ranges: &[Range<K>], _: Form) -> Result<Vec<Pairs<K>>> {
        let found = self.set.range_many(ranges_of(ranges))?;
        Ok(found.iter().map(|row| paired(row.iter().copied())).collect())
    }

    fn count(&self, ranges: &[Range<K>], _: Form) -> Result<Vec<u64>> {
        self.set.count_range_many(ranges_of(ranges))
    }

    fn restore_order(&mut self) -> Result<()> {
        // There is nothing to restore, but a lost set says so here too.
        self.set.keys().map(drop)
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn is_lost(&self) -> Option<bool> {
        Some(self.set.is_lost())
    }
}
