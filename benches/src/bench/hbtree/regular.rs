//! A regular tree under test, and batches of new keys.

use crate::bench::data::{miss, mix, value_of};
use crate::bench::error::Result;
use crate::bench::hbtree::keys::Keys;
use crate::bench::hbtree::room::has_room;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::hbtree::{HbTree, Regular};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

/// The part of each big leaf that a build fills.
const FILL: f64 = 0.7;

/// Pairs of a piece of a build.
const PIECE: usize = 1 << 20;

pub(crate) struct RegularSubject {
    pub(crate) keys: Keys<u64>,
    pub(crate) tree: HbTree<u64, u64, Regular>,
}

impl RegularSubject {
    /// Builds a tree from pairs in pieces, with room for inserts; `None` where host memory has no room for it, which the
    /// report says.
    ///
    /// # Errors
    /// The library's.
    pub(crate) fn build(session: &mut Session, size: u32) -> Result<Option<Self>> {
        let keys = Keys::<u64>::new(size, session.seed_of(size));
        let what = format!("a regular tree, {}", keys.describe());
        // Leaves and inner levels; room that batches may take.
        let needed = (keys.len() as f64 / FILL * 16.0 * 1.3) as u64;
        if !has_room(session, &what, needed) {
            return Ok(None);
        }
        session.doing(format_args!("building {what}"));
        let builder = HbTree::builder().regular().fill(FILL);
        let mut pieces = builder.in_pieces(&session.device, keys.len() as u64)?;
        let (mut piece, mut values) = (Vec::new(), Vec::new());
        for first in (0..keys.len()).step_by(PIECE) {
            keys.pairs_into(first..keys.len().min(first + PIECE), &mut piece, &mut values);
            pieces.push(&piece, &values)?;
        }
        Ok(Some(Self { keys, tree: pieces.finish()? }))
    }

    /// A row about the tree, of a table.
    pub(crate) fn row(
        &self,
        session: &Session,
        section: &'static str,
        operation: &str,
        (count, timing, checksum): (usize, Timing, Checksum),
    ) -> Row {
        let (stats, name) = (self.tree.stats(), self.keys.name());
        let bytes = stats.inner_bytes + stats.leaf_bytes + stats.device_bytes;
        Row::new(section, "hbtree", operation, count, timing, checksum)
            .on(if session.runs_kernels() { session.device_name() } else { "cpu" })
            .over(self.keys.len(), name, name, "uniform")
            .with("height", stats.height)
            .with("footprint_bytes", bytes)
            .with("bytes_per_key", bytes as f64 / self.keys.len() as f64)
    }

    /// Looks up keys that were inserted.
    ///
    /// # Errors
    /// The library's; [`Wrong`](crate::bench::error::Error::Wrong) with the first difference.
    pub(crate) fn are_there(&self, session: &Session, what: &str, keys: &[u64]) -> Result<Checksum> {
        let mut values = vec![0; keys.len()];
        self.tree.get_many_or(keys, miss(), &mut values)?;
        session.check_slice(&what, "values", &values, 0..keys.len(), miss(), |i| value_of(keys[i]))
    }
}

/// New keys: other ones in every round.
pub(crate) fn fresh(seed: u64, round: u64, keys: &mut [u64]) {
    let seed = mix(seed ^ round << 32 ^ 0x0bad);
    keys.par_iter_mut().enumerate().for_each(|(i, key)| *key = mix(seed.wrapping_add(i as u64)));
}
