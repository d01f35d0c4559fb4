//! Point look-ups, ranks and neighbours of host batches.

use super::Cuart;
use super::cursor::Cursor;
use super::native::{TASK, View, task};
use super::parts::Parts;
use lanetree_frame::byte_keys::{ByteKeys, Offsets, Side};
use lanetree_frame::parallel::*;
use lanetree_frame::room::copied;
use lanetree_frame::uninit::{made, replace};
use lanetree_frame::{Error, Result};
use lanetree_layout::Word;
use lanetree_runtime::DeviceKind;

/// A neighbour of a query, if there is one: its key and value.
pub type Neighbor<V> = Option<(Vec<u8>, V)>;

impl<V: Word> Cuart<V> {
    /// The value of one key; `None` if it is absent. Look up many with [`Cuart::get_many`].
    ///
    /// # Errors
    /// As [`Cuart::get_many`].
    pub fn get(&self, key: &[u8]) -> Result<Option<V>> {
        let mut out = [None];
        self.get_many_into(ByteKeys::new(Offsets::Fixed { width: key.len(), len: 1 }, key)?, &mut out)?;
        Ok(out[0])
    }

    /// Whether one key is present. Ask for many with [`Cuart::contains_many`].
    ///
    /// # Errors
    /// As [`Cuart::get_many`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Whether each of `keys` is present, in the order of `keys`. Returns when the results are complete.
    ///
    /// # Errors
    /// As [`Cuart::get_many`].
    pub fn contains_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<bool>> {
        self.get_many(keys)?.into_par_iter().map(|value| value.is_some()).try_collect()
    }

    /// Looks up keys: their values, or `None` where there is no such key. Returns when the results are complete.
    ///
    /// # Errors
    /// On the host [`Error::Runtime`] if main memory has no room for the results. On a device [`Error::Lost`] after a change that failed half-way, and [`Error::Runtime`].
    pub fn get_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<Option<V>>> {
        let keys = keys.into();
        if self.device.kind() != DeviceKind::Host {
            let tree = self.parts()?;
            return made(keys.len(), |out| self.get_across(tree, keys, out));
        }
        let mut out = filled(None, keys.len())?;
        self.get_many_into(keys, &mut out)?;
        Ok(out)
    }

    /// The value of each key into a slice: `out[i]` becomes the value of key `i`, or `None` if it is absent. Returns
    /// when the results are complete.
    ///
    /// # Errors
    /// As [`Cuart::get_many`]; [`Error::OutputLength`] unless `out` has one element per key.
    pub fn get_many_into<'k>(&self, keys: impl Into<ByteKeys<'k>>, out: &mut [Option<V>]) -> Result<()> {
        let keys = keys.into();
        if out.len() != keys.len() {
            return Err(Error::OutputLength { what: "the output", expected: keys.len(), actual: out.len() });
        }
        let tree = self.parts()?;
        if self.device.kind() != DeviceKind::Host {
            return replace(out, |out| self.get_across(tree, keys, out));
        }
        let tree = tree.view();
        let len = task(keys.len());
        out.par_chunks_mut(len).enumerate().for_each(|(task, out)| {
            let first = task * len;
            tree.get(keys, first..first + out.len(), out);
        });
        Ok(())
    }

    /// Ranks keys: how many of the tree's keys are below each.
    ///
    /// # Errors
    /// [`Error::NotCompact`] if keys were inserted or removed. On a device also [`Error::LeavesInMainMemory`] for a
    /// tree that has some, [`Error::KeyTooLong`] for a query of 2^32 bytes or more, [`Error::Lost`],
    /// [`Error::Runtime`].
    pub fn lower_bound_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<u64>> {
        self.rank_many(keys.into(), Side::Lower)
    }

    /// Ranks keys: how many of the tree's keys are at or below each.
    ///
    /// # Errors
    /// As [`Cuart::lower_bound_many`].
    pub fn upper_bound_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<u64>> {
        self.rank_many(keys.into(), Side::Upper)
    }

    /// Finds the last pair whose key is at or below each query. In a compact tree, [`Cuart::upper_bound_many`] and
    /// [`Cuart::pair`] give the same without copying keys.
    ///
    /// # Errors
    /// On the host [`Error::Runtime`] if main memory has no room for the results. On a device the errors of
    /// [`Cuart::lower_bound_many`]: a device finds neighbours by ranks, so call [`Cuart::compact`] after keys were
    /// inserted or removed.
    pub fn predecessor_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<Neighbor<V>>> {
        let keys = keys.into();
        let tree = self.parts()?;
        if self.device.kind() != DeviceKind::Host {
            return self.neighbors_across(tree, keys, Side::Upper);
        }
        if !tree.ordered {
            return neighbor_many(tree, keys, |tree, key| Cursor::seek_back(*tree, key, Side::Upper));
        }
        let ranks = self.rank_many(keys, Side::Upper)?;
        // No pair has the rank before the first.
        ranks.into_par_iter().try_map_collect(|rank| self.owned_pair(rank.wrapping_sub(1)))
    }

    /// Finds the first pair whose key is at or above each query.
    ///
    /// # Errors
    /// As [`Cuart::predecessor_many`].
    pub fn successor_many<'k>(&self, keys: impl Into<ByteKeys<'k>>) -> Result<Vec<Neighbor<V>>> {
        let keys = keys.into();
        let tree = self.parts()?;
        if self.device.kind() != DeviceKind::Host {
            return self.neighbors_across(tree, keys, Side::Lower);
        }
        if !tree.ordered {
            return neighbor_many(tree, keys, |tree, key| Cursor::seek(*tree, key, Side::Lower));
        }
        let ranks = self.rank_many(keys, Side::Lower)?;
        ranks.into_par_iter().try_map_collect(|rank| self.owned_pair(rank))
    }

    /// The pair of a rank, in place; `None` from the tree's length on, and for all ranks of a tree that is not
    /// [compact](Cuart::is_compact), in a GPU's memory, or [lost](Cuart::is_lost).
    pub fn pair(&self, rank: u64) -> Option<(&[u8], V)> {
        let tree = self.parts().ok().filter(|tree| tree.ordered && rank < tree.len)?;
        let regions = tree.regions()?;
        let leaf = View::new(regions).leaf_at(rank);
        Some((leaf.key, V::truncate(leaf.value)))
    }

    fn owned_pair(&self, rank: u64) -> Result<Neighbor<V>> {
        self.pair(rank).map(|(key, value)| Ok((copied(key)?, value))).transpose()
    }

    fn rank_many(&self, keys: ByteKeys<'_>, side: Side) -> Result<Vec<u64>> {
        let tree = self.parts()?;
        tree.needs_ranks("a rank")?;
        if self.device.kind() != DeviceKind::Host {
            return self.rank_across(tree, keys, side);
        }
        let tree = tree.view();
        let rank = |query: usize| tree.rank(keys.at(query), side);
        (0..keys.len()).into_par_iter().with_min_len(TASK / 4).map(rank).try_collect()
    }
}

/// The first pair that a cursor reaches, for each key.
fn neighbor_many<'t, V: Word>(
    tree: &'t Parts,
    keys: ByteKeys<'_>,
    seek: impl Fn(&View<'t>, &[u8]) -> Cursor<'t> + Sync,
) -> Result<Vec<Neighbor<V>>> {
    let tree = tree.view();
    let neighbor = |query: usize| {
        let leaf = seek(&tree, keys.at(query)).next();
        leaf.map(|leaf| Ok((copied(leaf.key)?, V::truncate(leaf.value)))).transpose()
    };
    (0..keys.len()).into_par_iter().with_min_len(TASK / 4).try_map_collect(neighbor)
}
