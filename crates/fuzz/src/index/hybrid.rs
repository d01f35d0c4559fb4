//! The tree with short keys on a device and long ones on the host.

use super::strings::{all_pairs, byte_range, neighbors, packed, string, values};
use super::{Index, cuart};
use crate::model::Range;
use crate::{Change, Counts, Form, Side};
use lanetree::cuart::{Hybrid, Op};
use lanetree::{Device, Error, Result, Word};

/// Both trees as one.
#[derive(Debug)]
pub struct HybridIndex<V: Word>(Hybrid<V>);

impl<V: Word> Index for HybridIndex<V> {
    type Key = Vec<u8>;

    fn key(number: u16) -> Vec<u8> {
        string(number)
    }

    fn build(device: &Device, options: u8, pairs: &[(Vec<u8>, u64)]) -> Result<Self> {
        let max = [32, 8, 1, 13][usize::from(options % 4)];
        let keys = packed(pairs.iter().map(|pair| &pair.0));
        let values: Vec<V> = pairs.iter().map(|pair| V::truncate(pair.1)).collect();
        Ok(Self(Hybrid::builder().max_device_key(max).build(device, &keys, &values)?))
    }

    fn size(&self) -> u64 {
        self.0.len()
    }

    fn pairs(&mut self) -> Result<Vec<(Vec<u8>, u64)>> {
        let mut pairs = cuart::all(self.0.device_tree())?;
        pairs.extend(cuart::all(self.0.host_tree())?);
        pairs.sort();
        Ok(pairs)
    }

    fn apply(&mut self, change: Change, ops: &[Op<Vec<u8>, u64>], _: Form) -> Result<Counts> {
        let (keys, found) = cuart::columns::<V>(ops);
        let report = match change {
            Change::Insert => self.0.insert_many(&keys, &found)?,
            Change::Update => self.0.update_many(&keys, &found)?,
            Change::Remove => self.0.remove_many(&keys)?,
            Change::Mixed(_) => self.0.apply(&cuart::narrow(ops))?,
        };
        Ok(report.into())
    }

    fn get(&self, keys: &[Vec<u8>], _: Form) -> Result<Vec<Option<u64>>> {
        Ok(values(self.0.get_many(&packed(keys))?))
    }

    fn rank(&self, keys: &[Vec<u8>], side: Side, _: Form) -> Result<Vec<u64>> {
        match side {
            Side::Lower => self.0.lower_bound_many(&packed(keys)),
            Side::Upper => self.0.upper_bound_many(&packed(keys)),
        }
    }

    fn neighbor(&self, keys: &[Vec<u8>], side: Side, _: Form) -> Result<Vec<Option<(Vec<u8>, u64)>>> {
        Ok(neighbors(match side {
            Side::Upper => self.0.predecessor_many(&packed(keys))?,
            Side::Lower => self.0.successor_many(&packed(keys))?,
        }))
    }

    fn range(&self, ranges: &[Range<Vec<u8>>], _: Form) -> Result<Vec<Vec<(Vec<u8>, u64)>>> {
        Ok(all_pairs(&self.0.range_many(ranges.iter().map(byte_range))?))
    }

    fn count(&self, ranges: &[Range<Vec<u8>>], _: Form) -> Result<Vec<u64>> {
        self.0.count_many(ranges.iter().map(byte_range))
    }

    fn prefix(&self, prefixes: &[Vec<u8>]) -> Option<Result<Vec<Vec<(Vec<u8>, u64)>>>> {
        Some(self.0.prefix_many(&packed(prefixes)).map(|found| all_pairs(&found)))
    }

    fn cut(key: Vec<u8>, len: usize) -> Vec<u8> {
        cuart::cut(key, len)
    }

    fn begins_with(key: &Vec<u8>, prefix: &Vec<u8>) -> bool {
        key.starts_with(prefix)
    }

    fn compact(&mut self) -> Result<()> {
        self.0.compact()
    }

    fn may_refuse(&self, error: &Error) -> bool {
        matches!(error, Error::NotCompact { .. }) && !self.0.is_compact()
    }

    fn device(&self) -> &Device {
        self.0.device()
    }
}
