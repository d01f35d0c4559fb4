//! The net effect of a batch: one change for each of its keys, and what that means for a tree.

use crate::build::{first_that, sorted, sorted_of};
use lanetree_frame::NetChange;
use lanetree_frame::Result;
use lanetree_frame::byte_keys::{ByteKeys, ByteKeysBuf};
use lanetree_frame::parallel::*;
use lanetree_frame::room::{collected, push};
use lanetree_frame::{UpdatePath, UpdateReport};
use lanetree_kernels_cuart::layout::Link;
use lanetree_layout::Word;

/// The net changes of a batch, in strictly ascending order of their keys.
pub(crate) struct NetBatch<'k, V> {
    given: ByteKeys<'k>,
    /// The sorted keys, if those given do not ascend.
    sorted: Option<ByteKeysBuf>,
    changes: Vec<NetChange<V>>,
}

impl<'k, V: Word> NetBatch<'k, V> {
    pub(crate) fn new(keys: ByteKeys<'k>, change: impl Fn(usize) -> NetChange<V> + Sync) -> Result<Self> {
        if first_that(keys, |before, key| before >= key).is_none() {
            let changes = (0..keys.len()).into_par_iter().with_min_len(1 << 12).map(&change).try_collect()?;
            return Ok(Self { given: keys, sorted: None, changes });
        }
        // Of equal keys, in the batch's order.
        let order = sorted(keys)?;
        let of_one_key = collected(order.chunk_by(|&a, &b| keys.at(a) == keys.at(b)))?;
        let net = |same: &&[usize]| {
            let all = same.iter().map(|&index| change(index));
            all.reduce(NetChange::then).expect("a chunk has an element")
        };
        let changes = of_one_key.par_iter().with_min_len(1 << 12).map(net).try_collect()?;
        let picks = of_one_key.par_iter().map(|same| same[0]).try_collect()?;
        Ok(Self { given: keys, sorted: Some(ByteKeysBuf::pick(keys, &picks)?), changes })
    }

    pub(crate) fn keys(&self) -> ByteKeys<'_> {
        self.sorted.as_ref().map_or(self.given, ByteKeys::from)
    }

    /// The changes, each of a key.
    pub(crate) fn changes(&self) -> &[NetChange<V>] {
        &self.changes
    }

    /// What to do in a tree in which the keys have these leaves.
    pub(super) fn against(&self, leaves: &[Link]) -> Result<Work> {
        let mut work = Work::default();
        for (at, (&leaf, change)) in leaves.iter().zip(&self.changes).enumerate() {
            match *change {
                NetChange::Put(value) if leaf.is_none() => push(&mut work.inserts, (at, value.widen()))?,
                NetChange::Put(value) | NetChange::PutIfPresent(value) if !leaf.is_none() => {
                    push(&mut work.writes, (leaf, value.widen()))?;
                }
                NetChange::Remove if !leaf.is_none() => push(&mut work.removals, (at, leaf))?,
                _ => work.unmatched += 1,
            }
        }
        Ok(work)
    }
}

/// What a batch does to a tree, each in the order of keys.
#[derive(Default)]
pub(super) struct Work {
    /// Leaves and their new values.
    pub(super) writes: Vec<(Link, u64)>,
    /// Keys, by their indexes in the batch, and their leaves.
    pub(super) removals: Vec<(usize, Link)>,
    /// Keys, by their indexes in the batch, and their values.
    pub(super) inserts: Vec<(usize, u64)>,
    unmatched: u64,
}

impl Work {
    /// Whether leaves are made or removed.
    pub(super) fn is_structural(&self) -> bool {
        !self.inserts.is_empty() || !self.removals.is_empty()
    }

    pub(super) fn report(&self) -> UpdateReport {
        let [inserted, replaced, removed] =
            [self.inserts.len(), self.writes.len(), self.removals.len()].map(|len| len as u64);
        let unchanged = inserted + replaced + removed == 0;
        let path = if unchanged { UpdatePath::Unchanged } else { UpdatePath::InPlace };
        UpdateReport { inserted, replaced, removed, unmatched: self.unmatched, path }
    }
}

/// How many different keys there are at some indexes of a batch.
pub(super) fn distinct(keys: ByteKeys<'_>, places: &[usize]) -> Result<u64> {
    Ok(sorted_of(keys, places.par_iter().copied())?.chunk_by(|&a, &b| keys.at(a) == keys.at(b)).count() as u64)
}
