//! Point look-ups and neighbours.

use super::split::{Home, Split};
use super::{Hybrid, beside};
use crate::byte_keys::ByteKeys;
use crate::cuart::{Cuart, Neighbor};
use crate::{Error, Result};
use lanetree_layout::Word;
use rayon::prelude::*;

/// The fewest look-ups on the CPU that are worth a task, while the device is busy with the others.
const FEWEST: usize = 256;

impl<V: Word> Hybrid<V> {
    /// Looks up keys: their values, or `None` where there is no such key. Returns when the results are there.
    ///
    /// # Errors
    /// Those of the device: as [`Cuart::get_many`].
    pub fn get_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<Option<V>>> {
        let keys = keys.into();
        let mut out = vec![None; keys.len()];
        self.get_many_into(keys, &mut out)?;
        Ok(out)
    }

    /// As [`Hybrid::get_many`], into memory that is there already: one place for each key.
    ///
    /// # Errors
    /// As [`Hybrid::get_many`], and [`Error::OutputLength`] unless there are as many places.
    pub fn get_many_into<'k>(&self, keys: impl Into<ByteKeys<'k>>, out: &mut [Option<V>]) -> Result<()> {
        let keys = keys.into();
        if out.len() != keys.len() {
            return Err(Error::OutputLength { what: "the output", expected: keys.len(), found: out.len() });
        }
        let split = Split::new(keys, self.max);
        match split.only() {
            Some(Home::Device) => self.device.get_many_into(keys, out),
            Some(Home::Host) => self.host.get_many_into(keys, out),
            // In the pool as a whole, rather than part by part.
            None => rayon::scope(|_| self.get_parted(&split, out)),
        }
    }

    /// Looks up keys of both homes.
    fn get_parted(&self, split: &Split<'_>, out: &mut [Option<V>]) -> Result<()> {
        let mut scratch = self.take_scratch();
        split.pack(&mut scratch);
        let [short, long] = &mut scratch.sides;
        let (short, long) = (split.packed(Home::Device, short), split.packed(Home::Host, long));
        // All threads have something to do, though there may be few.
        let share = long.1.len().div_ceil(rayon::current_num_threads()).max(FEWEST);
        let (outcome, ()) =
            beside(|| self.device.get_many_into(short.0, short.1), || self.host.get_in_memory(long.0, long.1, share));
        if outcome.is_ok() {
            split.merge(&scratch, out);
        }
        self.put_back(scratch);
        outcome
    }

    /// Ranks keys: how many there are below each.
    ///
    /// # Errors
    /// As [`Cuart::lower_bound_many`].
    pub fn lower_bound_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<u64>> {
        let keys = keys.into();
        self.sums(|tree| tree.lower_bound_many(keys))
    }

    /// Ranks keys: how many there are that are not above each.
    ///
    /// # Errors
    /// As [`Cuart::upper_bound_many`].
    pub fn upper_bound_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<u64>> {
        let keys = keys.into();
        self.sums(|tree| tree.upper_bound_many(keys))
    }

    /// Finds the last pair whose key is not above each query.
    ///
    /// # Errors
    /// As [`Cuart::predecessor_many`]; on a device [`Error::NotCompact`] where short keys have come or gone.
    pub fn predecessor_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<Neighbor<V>>> {
        let keys = keys.into();
        self.nearer(|tree| tree.predecessor_many(keys), |short, long| short > long)
    }

    /// Finds the first pair whose key is not below each query.
    ///
    /// # Errors
    /// As [`Cuart::successor_many`]; on a device [`Error::NotCompact`] where short keys have come or gone.
    pub fn successor_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<Neighbor<V>>> {
        let keys = keys.into();
        self.nearer(|tree| tree.successor_many(keys), |short, long| short < long)
    }

    /// Asks both trees, and adds.
    pub(super) fn sums(&self, ask: impl Fn(&Cuart<V>) -> Result<Vec<u64>> + Sync) -> Result<Vec<u64>> {
        let (short, long) = beside(|| ask(&self.device), || ask(&self.host));
        Ok(short?.into_iter().zip(long?).map(|(short, long)| short.saturating_add(long)).collect())
    }

    /// Asks both trees for neighbours; of two, that of the short key where it `is_nearer`.
    fn nearer(
        &self,
        ask: impl Fn(&Cuart<V>) -> Result<Vec<Neighbor<V>>> + Sync,
        is_nearer: impl Fn(&[u8], &[u8]) -> bool + Sync,
    ) -> Result<Vec<Neighbor<V>>> {
        let (short, long) = beside(|| ask(&self.device), || ask(&self.host));
        let nearer = |(short, long): (Neighbor<V>, Neighbor<V>)| match (&short, &long) {
            (Some((short_key, _)), Some((long_key, _))) if !is_nearer(short_key, long_key) => long,
            (None, _) => long,
            _ => short,
        };
        Ok(short?.into_par_iter().zip(long?).with_min_len(1 << 10).map(nearer).collect())
    }
}
