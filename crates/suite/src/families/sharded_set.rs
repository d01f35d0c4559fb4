//! Sets over several devices, by their own calls.

use crate::families::set::{of_flags, of_keys, paired, set_in_buffers, set_on_host, without_values};
use crate::families::sharded::Three;
use crate::host::{of_matches, ranges_of};
use crate::lent::Lender;
use crate::memory::{Memory, hits, inclusive};
use crate::{Answer, Change, Counts, Family, Form, Joining, Numbered, Pairs, Question, Side, Subject};
use lanetree::{AnyKey, Buffer, Device, DeviceRanges, JoinKind, LaneSet, LaneTree, Op, Result, ShardedSet, Stream};

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

impl<K: AnyKey> ShardedSetSubject<K> {
    /// Batches are called sorted, which most are not; but look-ups of an odd number of keys.
    fn on_devices(&self, question: &Question<K>) -> Result<Option<Answer<K>>> {
        let Self { set, stream, .. } = self;
        match question {
            Question::Get(keys) => {
                let on = if keys.len() % 2 == 0 { set.on(stream).sorted() } else { set.on(stream) };
                let lender = Lender::new(stream.device());
                let mut mask = lender.alloc(keys.len().div_ceil(32))?;
                on.contains(&lender.upload(keys)?, &mut mask)?;
                Ok(Some(Answer::Values(hits(keys.iter().map(|_| 0), &mask.to_vec()?))))
            }
            Question::Range(ranges) => {
                let Some((spans, limits)) = inclusive(ranges) else { return Ok(None) };
                let memory = Memory::new(stream);
                let ([starts, ends], limits) = (memory.upload_spans(&spans)?, memory.lender.upload(&limits)?);
                let range = |out: &mut DeviceRanges<K, ()>| set.on(stream).limits(&limits).range(&starts, &ends, out);
                memory.rows(ranges.len(), range).map(Some)
            }
            _ => set_in_buffers!(question, stream, || set.on(stream).sorted()),
        }
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
        let report = match change {
            Change::Insert => self.set.insert_many(&keys)?,
            Change::Remove => self.set.remove_many(&keys)?,
            Change::Update | Change::Mixed(_) => self.set.apply(&without_values(ops))?,
        };
        Ok(report.into())
    }

    fn compact(&mut self) -> Result<()> {
        self.set.rebalance()?;
        self.set.compact().map(drop)
    }

    fn ask(&self, question: &Question<K>, form: Form) -> Option<Result<Answer<K>>> {
        let own = if form == Form::Device { self.on_devices(question) } else { Ok(None) };
        let own = own.and_then(|own| if own.is_some() { Ok(own) } else { set_on_host!(question, self.set) });
        own.transpose()
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
