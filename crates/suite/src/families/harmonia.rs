//! Harmonia: three ways to build it, and changes in device form.

use crate::hooks::{fixed_count, fixed_neighbor, fixed_range};
use crate::model::Range;
use crate::operations::value_of;
use crate::{Change, Counts, Hooks, Numbered, Side};
use lanetree::harmonia::{BuildScratch, Builder, FANOUTS, UpdateScratch};
use lanetree::{Buffer, Device, DeviceKind, Harmonia, IndexBuilder, Key, Op, Result, Stream, Word};

/// Room of the scratch memory that all batches of an index in device form share.
const MOST_OPERATIONS: usize = 160;

/// Builds by one of the builder's calls.
#[derive(Clone, Copy, Debug)]
pub struct HarmoniaBuilder<K, V> {
    builder: Builder<K, V>,
    way: Way,
}

/// Which call builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From pairs in any order.
    Unsorted,
    /// From sorted pairs.
    Sorted,
    /// On the device.
    OnDevice,
}

/// Every fanout with several fills, and each of the ways in turn.
pub fn harmonia_builders<K: Key, V: Word>() -> Vec<HarmoniaBuilder<K, V>> {
    let mut builders = Vec::new();
    for (i, fill) in [1.0, 0.75, 0.5].into_iter().enumerate() {
        for (j, fanout) in FANOUTS.into_iter().enumerate() {
            let way = [Way::Unsorted, Way::Sorted, Way::OnDevice][(i + j) % 3];
            builders.push(HarmoniaBuilder { builder: Harmonia::builder().fanout(fanout).fill(fill), way });
        }
    }
    builders
}

impl<K: Key, V: Word> IndexBuilder for HarmoniaBuilder<K, V> {
    type Index = Harmonia<K, V>;

    fn build(&self, device: &Device, keys: &[K], values: &[V]) -> Result<Harmonia<K, V>> {
        match self.way {
            Way::Sorted if keys.len() == values.len() => {
                // Stable: of equal keys, the last one stays the last.
                let mut sorted: Vec<(K, V)> = keys.iter().copied().zip(values.iter().copied()).collect();
                sorted.sort_by_key(|pair| pair.0);
                let (keys, values): (Vec<K>, Vec<V>) = sorted.into_iter().unzip();
                self.builder.build_sorted(device, &keys, &values)
            }
            Way::OnDevice if keys.len() == values.len() => {
                let (count, keys, values) = (keys.len(), device.upload(keys)?, device.upload(values)?);
                let mut scratch = BuildScratch::for_unsorted(device, count)?;
                self.builder.build_on(&device.stream()?, (&keys, &values), count, &mut scratch)
            }
            _ => self.builder.build(device, keys, values),
        }
    }
}

/// The operations' kinds, as the device form takes them.
fn upload_kinds<K, V>(device: &Device, ops: &[Op<K, V>]) -> Result<Buffer<u32>> {
    let kind = |op: &Op<K, V>| match op {
        Op::Insert(..) => 0,
        Op::Update(..) => 1,
        Op::Remove(_) => 2,
    };
    Ok(device.upload(&ops.iter().map(kind).collect::<Vec<u32>>())?)
}

/// Changes in device form, and the scratch memory that they share.
#[derive(Debug)]
pub struct HarmoniaHooks<K: Key, V: Word> {
    scratch: UpdateScratch<K, V>,
}

impl<K: Key + Numbered, V: Word> Hooks<Harmonia<K, V>> for HarmoniaHooks<K, V> {
    fn start(index: &Harmonia<K, V>, _: u8) -> Result<Self> {
        Ok(Self { scratch: UpdateScratch::new(index.device(), MOST_OPERATIONS)? })
    }

    fn apply(
        &mut self,
        index: &mut Harmonia<K, V>,
        stream: &Stream,
        change: Change,
        ops: &[Op<K, V>],
    ) -> Option<Result<Counts>> {
        if index.device().kind() == DeviceKind::Host || ops.len() > MOST_OPERATIONS {
            return None;
        }
        let mut apply = || {
            let device = index.device().clone();
            let keys = device.upload(&ops.iter().map(|op| *op.key()).collect::<Vec<_>>())?;
            let values = device.upload(&ops.iter().map(value_of).collect::<Vec<_>>())?;
            let kinds = match change {
                Change::Insert => None,
                _ => Some(upload_kinds(&device, ops)?),
            };
            Ok(index.apply_on(stream, &keys, &values, kinds.as_ref(), &mut self.scratch)?.into())
        };
        Some(apply())
    }

    fn neighbor(
        &self,
        index: &Harmonia<K, V>,
        stream: &Stream,
        keys: &[K],
        side: Side,
    ) -> Option<Result<Vec<Option<(K, V)>>>> {
        Some(fixed_neighbor(index, stream, keys, side))
    }

    fn range(&self, index: &Harmonia<K, V>, stream: &Stream, ranges: &[Range<K>]) -> Option<Result<Vec<Vec<(K, V)>>>> {
        fixed_range(index, stream, ranges)
    }

    fn count(&self, index: &Harmonia<K, V>, stream: &Stream, ranges: &[Range<K>]) -> Option<Result<Vec<u64>>> {
        fixed_count(index, stream, ranges)
    }

    /// From the host to a device, and back.
    fn relocate(index: Harmonia<K, V>) -> Result<Harmonia<K, V>> {
        index.to_device(&match index.device().kind() {
            DeviceKind::Host => Device::emulated_with_seed(5),
            _ => Device::host(),
        })
    }
}
