//! Queries in host form.

use crate::MultiMap;
use crate::contents::read;
use crate::on_stream::{DeviceRows, Scratch, values_only};
use crate::places::Which;
use lanetree_frame::fixed::Side;
use lanetree_frame::parallel::*;
use lanetree_frame::room::push;
use lanetree_frame::staging::is_set;
use lanetree_frame::{DeviceKind, Join, JoinRows, Result};
use lanetree_layout::{AnyKey, Word};

/// Results that a thread converts at a time: fewer take less time than to wake it.
const TASK: usize = 1 << 14;

/// The values of a batch of keys, in compressed sparse row form: the values of key *i* are from `offsets[i]` to
/// `offsets[i + 1]`, in the order in which they were inserted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueRows<V> {
    /// One more than there are keys, ascending from 0.
    pub offsets: Vec<u64>,
    /// The values of all keys.
    pub values: Vec<V>,
}

impl<V> ValueRows<V> {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of one key; none if it is absent.
    ///
    /// # Panics
    /// If there is no such key in the batch, or the values were taken.
    pub fn get(&self, key: usize) -> &[V] {
        &self.values[self.offsets[key] as usize..self.offsets[key + 1] as usize]
    }

    /// The values of each key in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[V]> {
        (0..self.len()).map(|key| self.get(key))
    }
}

impl<K: AnyKey, V: Word> MultiMap<K, V> {
    /// All values of each key, in the order in which they were inserted; an absent key has none.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if the device or main memory has no room for the values, or from the
    /// driver.
    pub fn get_all_many(&self, keys: &[K]) -> Result<ValueRows<V>> {
        let stream = self.device.stream()?;
        let queries = self.staging.uploaded(&self.device, keys)?;
        let mut scratch = Scratch::new(&self.device, keys.len())?;
        let mut rows = DeviceRows::new(&self.device, keys.len(), 0)?;
        // With room for none they are counted.
        self.on(&stream).get_all(&queries, &mut scratch, &mut rows)?;
        rows.values = self.device.alloc(total(read(&rows.offsets, keys.len())?))?;
        self.on(&stream).copy_places(keys.len(), &mut scratch, values_only(&mut rows.values))?;
        let (offsets, values) = (0..keys.len() + 1, 0..rows.values.len());
        Ok(ValueRows {
            offsets: self.staging.downloaded(&rows.offsets, offsets)?,
            values: self.staging.downloaded(&rows.values, values)?,
        })
    }

    /// The value of each key that was inserted first; `None` for an absent key.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn first_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        self.one_many(keys, Which::First)
    }

    /// The value of each key that was inserted last; `None` for an absent key.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn last_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        self.one_many(keys, Which::Last)
    }

    fn one_many(&self, keys: &[K], which: Which) -> Result<Vec<Option<V>>> {
        if self.device.kind() != DeviceKind::Host {
            return self.one_in_pieces(keys, which);
        }
        let stream = self.device.stream()?;
        let (queries, mut values) = (self.device.upload(keys)?, self.device.alloc(keys.len())?);
        let mut hits = self.device.alloc(keys.len().div_ceil(32))?;
        let mut scratch = Scratch::new(&self.device, keys.len())?;
        self.on(&stream).one(&queries, (&mut values, Some(&mut hits)), V::MIN, which, &mut scratch)?;
        let (values, hits) = (values.to_vec()?, hits.to_vec()?);
        let found = |(i, value)| is_set(&hits, i).then_some(value);
        values.into_par_iter().with_min_len(TASK).enumerate().map(found).try_collect()
    }

    /// Joins `probes` with the map: for each probe the values, such as row numbers, of its key, in the order in which they were
    /// inserted. Both columns of the join are [`JoinRows::probes`] and [`JoinRows::rows`].
    ///
    /// ```
    /// use lanetree::{Device, MultiMap};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let orders = MultiMap::build(&Device::host(), &[7_u32, 5, 7], &[0_u32, 1, 2])?;
    /// let matches = orders.join_many(&[7, 6, 5])?;
    /// assert_eq!((matches.probes()?, matches.rows), (vec![0, 0, 2], vec![0, 2, 1]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn join_many(&self, probes: &[K]) -> Result<JoinRows<V>> {
        self.join_as_many(probes, &Join::inner())
    }

    /// For each of `keys` the number of pairs with a smaller key (`bisect_left`).
    ///
    /// ```
    /// use lanetree::{Device, MultiMap};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let map = MultiMap::build(&Device::host(), &[5_u64, 3, 5, 9], &[50_u32, 30, 51, 90])?;
    /// assert_eq!(map.lower_bound_many(&[5, 6])?, [1, 3]);
    /// assert_eq!(map.upper_bound_many(&[5, 6])?, [3, 3]);
    /// // The last pair at or below each key, and the first one at or above it.
    /// assert_eq!(map.predecessor_many(&[6, 2])?, [Some((5, 51)), None]);
    /// assert_eq!(map.successor_many(&[4, 10])?, [Some((5, 50)), None]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`]; [`Error::NotCompact`](lanetree_frame::Error::NotCompact) after inserts in place on a device: see
    /// [`MultiMap::restore_order`].
    pub fn lower_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.rank_many(keys, Side::Lower)
    }

    /// For each of `keys` the number of pairs with a key that is smaller or equal (`bisect_right`).
    ///
    /// # Errors
    /// As [`MultiMap::lower_bound_many`].
    pub fn upper_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.rank_many(keys, Side::Upper)
    }

    /// For each of `keys` the last pair whose key is smaller or equal; `None` if there is none. Of equal keys, the last pair is the
    /// one that was inserted last.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn predecessor_many(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.neighbor_many(keys, Side::Upper)
    }

    /// For each of `keys` the first pair whose key is equal or larger; `None` if there is none.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn successor_many(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.neighbor_many(keys, Side::Lower)
    }

    fn neighbor_many(&self, keys: &[K], side: Side) -> Result<Vec<Option<(K, V)>>> {
        let (device, count) = (&self.device, keys.len());
        if device.kind() != DeviceKind::Host {
            return self.neighbors_in_pieces(keys, side);
        }
        let stream = device.stream()?;
        let queries = device.upload(keys)?;
        let (mut found, mut values) = (device.alloc_zeroed(count)?, device.alloc(count)?);
        let mut hits = device.alloc(count.div_ceil(32))?;
        let mut scratch = Scratch::new(device, count)?;
        let out = (&mut found, &mut values, Some(&mut hits));
        self.on(&stream).neighbor(&queries, side, out, V::MIN, &mut scratch)?;
        let (found, values, hits) = (found.to_vec()?, values.to_vec()?, hits.to_vec()?);
        let pair = |(i, key): (usize, K)| is_set(&hits, i).then(|| (key, values[i]));
        found.into_par_iter().with_min_len(TASK).enumerate().map(pair).try_collect()
    }

    /// All pairs in order.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn pairs(&self) -> Result<Vec<(K, V)>> {
        let mut pairs = Vec::new();
        for pair in self.iter() {
            push(&mut pairs, pair?)?;
        }
        Ok(pairs)
    }
}

/// A number of elements; more than there can be if it is too large.
pub(crate) fn total(elements: u64) -> usize {
    usize::try_from(elements).unwrap_or(usize::MAX)
}
