//! Point look-ups and neighbours.

use super::split::Long;
use super::{Hybrid, concurrently};
use crate::native::task;
use crate::parts::Parts;
use crate::{Cuart, Neighbor};
use lanetree_frame::byte_keys::{ByteKeys, ByteKeysBuf};
use lanetree_frame::parallel::*;
use lanetree_frame::room::collected;
use lanetree_frame::{Error, Result};
use lanetree_layout::Word;
use lanetree_runtime::DeviceKind;

/// The keys of a batch among which one thread writes the results for long keys.
const TASK: usize = 1 << 16;

impl<V: Word> Hybrid<V> {
    /// Looks up keys: their values, or `None` where there is no such key. Returns when the results are complete.
    ///
    /// # Errors
    /// The errors of the device: see [`Cuart::get_many`].
    pub fn get_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<Option<V>>> {
        let keys = keys.into();
        let mut out = filled(None, keys.len())?;
        self.get_many_into(keys, &mut out)?;
        Ok(out)
    }

    /// Whether each of `keys` is present, in the order of `keys`. Returns when the results are complete.
    ///
    /// # Errors
    /// As [`Hybrid::get_many`].
    pub fn contains_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<bool>> {
        collected(self.get_many(keys)?.iter().map(Option::is_some))
    }

    /// The value of each key into a slice: `out[i]` becomes the value of key `i`, or `None` if it is absent. Returns
    /// when the results are complete.
    ///
    /// # Errors
    /// As [`Hybrid::get_many`]; [`Error::OutputLength`] unless `out` has one element per key.
    pub fn get_many_into<'k>(&self, keys: impl Into<ByteKeys<'k>>, out: &mut [Option<V>]) -> Result<()> {
        let keys = keys.into();
        if out.len() != keys.len() {
            return Err(Error::OutputLength { what: "the output", expected: keys.len(), actual: out.len() });
        }
        let (device, host) = self.trees()?;
        match Long::of(keys, self.max)? {
            Long::None => device.get_many_into(keys, out),
            Long::All => host.get_many_into(keys, out),
            Long::At(places) => self.get_split(keys, &places, out),
        }
    }

    /// Looks up keys, those at some positions on the CPU.
    fn get_split(&self, keys: ByteKeys<'_>, places: &[usize], out: &mut [Option<V>]) -> Result<()> {
        let (device, host) = self.trees()?;
        let host = host.parts()?;
        let short = || match device.device().kind() {
            // There are no long keys, and the CPU is the only device.
            DeviceKind::Host => device.get_many_into(keys, out),
            _ => device.get_short_across(keys, self.max, out),
        };
        let (outcome, found) = concurrently(short, || get_long(host, keys, places));
        outcome?;
        let found = found?;
        out.par_chunks_mut(TASK).enumerate().for_each(|(task, out)| {
            let (first, after) = (task * TASK, task * TASK + out.len());
            let from = places.partition_point(|&place| place < first);
            let here = places[from..].iter().take_while(|&&place| place < after);
            here.zip(&found[from..]).for_each(|(&place, &found)| out[place - first] = found);
        });
        Ok(())
    }

    /// The rank of each key: how many of the index's keys are below it. Returns when the results are complete.
    ///
    /// # Errors
    /// As [`Cuart::lower_bound_many`].
    pub fn lower_bound_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<u64>> {
        let keys = keys.into();
        self.sums(|tree| tree.lower_bound_many(keys))
    }

    /// How many of the index's keys are at or below each key. Returns when the results are complete.
    ///
    /// # Errors
    /// As [`Cuart::upper_bound_many`].
    pub fn upper_bound_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<u64>> {
        let keys = keys.into();
        self.sums(|tree| tree.upper_bound_many(keys))
    }

    /// Finds the last pair whose key is at or below each query.
    ///
    /// # Errors
    /// As [`Cuart::predecessor_many`]; on a device [`Error::NotCompact`] where short keys were inserted or removed.
    pub fn predecessor_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<Neighbor<V>>> {
        let keys = keys.into();
        self.nearer(|tree| tree.predecessor_many(keys), |short, long| short > long)
    }

    /// Finds the first pair whose key is at or above each query.
    ///
    /// # Errors
    /// As [`Cuart::successor_many`]; on a device [`Error::NotCompact`] where short keys were inserted or removed.
    pub fn successor_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<Neighbor<V>>> {
        let keys = keys.into();
        self.nearer(|tree| tree.successor_many(keys), |short, long| short < long)
    }

    /// Asks both trees, and adds.
    pub(super) fn sums(&self, ask: impl Fn(&Cuart<V>) -> Result<Vec<u64>> + Sync) -> Result<Vec<u64>> {
        let (device, host) = self.trees()?;
        let (short, long) = concurrently(|| ask(device), || ask(host));
        short?.into_par_iter().zip(long?).map(|(short, long)| short.saturating_add(long)).try_collect()
    }

    /// Queries both trees for neighbours; of two, returns the one of the short keys if it `is_nearer`.
    fn nearer(
        &self,
        ask: impl Fn(&Cuart<V>) -> Result<Vec<Neighbor<V>>> + Sync,
        is_nearer: impl Fn(&[u8], &[u8]) -> bool + Sync,
    ) -> Result<Vec<Neighbor<V>>> {
        let (device, host) = self.trees()?;
        let (short, long) = concurrently(|| ask(device), || ask(host));
        let nearer = |(short, long): (Neighbor<V>, Neighbor<V>)| match (&short, &long) {
            (Some((short_key, _)), Some((long_key, _))) if !is_nearer(short_key, long_key) => long,
            (None, _) => long,
            _ => short,
        };
        short?.into_par_iter().zip(long?).with_min_len(1 << 10).map(nearer).try_collect()
    }
}

/// Looks up the keys at some positions on the CPU.
fn get_long<V: Word>(tree: &Parts, keys: ByteKeys<'_>, places: &[usize]) -> Result<Vec<Option<V>>> {
    let tree = tree.view();
    let len = task(places.len());
    let mut found = filled(None, places.len())?;
    found.par_chunks_mut(len).zip(places.par_chunks(len)).try_for_each(|(found, places)| {
        let long = ByteKeysBuf::pick(keys, places)?;
        tree.get((&long).into(), 0..places.len(), found);
        Ok::<(), Error>(())
    })?;
    Ok(found)
}
