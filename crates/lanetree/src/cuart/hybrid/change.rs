//! Batches of changes: to the device, and then to the host.

use super::Hybrid;
use super::split::{Part, parts};
use crate::Result;
use crate::byte_keys::ByteKeys;
use crate::cuart::update::{of_ops, paired};
use crate::cuart::{Cuart, Op, UpdatePath, UpdateReport};
use crate::harmonia::Change;
use lanetree_layout::Word;

impl<V: Word> Hybrid<V> {
    /// Applies a batch of operations, with the effect of one after another in the batch's order: those on short keys to
    /// the device's tree, and then those on long ones to the host's.
    ///
    /// # Errors
    /// As [`Cuart::apply`]. What can be wrong with a batch is found before anything is changed, and an error of the device
    /// leaves both trees as they were (but for [`Error::Lost`](crate::Error::Lost), which is the device's tree alone). If
    /// then the host has no room for its part, the device's stays done.
    pub fn apply<K: AsRef<[u8]>>(&mut self, ops: &[Op<K, V>]) -> Result<UpdateReport> {
        let (keys, change) = of_ops(ops);
        let keys = ByteKeys::from(&keys);
        self.host.options.check_keys(keys, |index| matches!(change(index), Change::Put(_)))?;
        self.change(keys, |tree, part| tree.apply_each(part.keys(), |index| change(part.place(index)), None))
    }

    /// Inserts pairs; where a key is there, its value is replaced. Of equal keys, the last one's value stays.
    ///
    /// # Errors
    /// As [`Hybrid::apply`], and [`Error::LengthMismatch`](crate::Error::LengthMismatch).
    pub fn insert_many<'k>(&mut self, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<UpdateReport> {
        let keys = paired(keys.into(), values)?;
        self.host.options.check_keys(keys, |_| true)?;
        self.change(keys, |tree, part| tree.insert_many(part.keys(), &part.values(values)))
    }

    /// Replaces the values of those keys that are there. Of equal keys, the last one's value stays.
    ///
    /// # Errors
    /// As [`Hybrid::apply`], and [`Error::LengthMismatch`](crate::Error::LengthMismatch).
    pub fn update_many<'k>(&mut self, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<UpdateReport> {
        let keys = paired(keys.into(), values)?;
        self.change(keys, |tree, part| tree.update_many(part.keys(), &part.values(values)))
    }

    /// Removes those keys that are there.
    ///
    /// # Errors
    /// As [`Hybrid::apply`].
    pub fn remove_many<'k>(&mut self, keys: impl Into<ByteKeys<'k>>) -> Result<UpdateReport> {
        self.change(keys.into(), |tree, part| tree.remove_many(part.keys()))
    }

    /// Changes both trees, each by its part of the batch. Not at the same time: the device's part is what may fail, and
    /// then there must not be half a batch.
    fn change(
        &mut self,
        keys: ByteKeys<'_>,
        change: impl Fn(&mut Cuart<V>, &Part<'_>) -> Result<UpdateReport>,
    ) -> Result<UpdateReport> {
        let mut all = UpdateReport::default();
        let parts = parts(keys, self.max);
        for (tree, part) in [&mut self.device, &mut self.host].into_iter().zip(&parts) {
            if part.is_empty() {
                continue;
            }
            let report = change(tree, part)?;
            all = UpdateReport {
                inserted: all.inserted + report.inserted,
                replaced: all.replaced + report.replaced,
                removed: all.removed + report.removed,
                unmatched: all.unmatched + report.unmatched,
                path: the_farther(all.path, report.path),
            };
        }
        Ok(all)
    }
}

/// What tells more of a batch that two trees have taken.
fn the_farther(one: UpdatePath, other: UpdatePath) -> UpdatePath {
    if [one, other].contains(&UpdatePath::Rebuilt) {
        UpdatePath::Rebuilt
    } else if one == UpdatePath::Unchanged {
        other
    } else {
        one
    }
}
