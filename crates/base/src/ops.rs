//! The operations of a batch of updates, and its outcome.

use std::collections::BTreeMap;

/// One operation of a batch. A batch has the effect of its operations one after another, in the batch's
/// order; so the last write to a key wins. In host form an index takes a slice of them (`apply`); for device form
/// `primitives::UploadedOperations` puts them into buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<K, V> {
    /// Inserts a pair, or replaces the value of a key that is present.
    Insert(K, V),
    /// Replaces the value of a key that is present; otherwise does nothing.
    Update(K, V),
    /// Removes a key and its value; if it is not present, does nothing.
    Remove(K),
}

/// What an operation of a batch in device form does to its key: inserts ([`Op::Insert`]), updates or removes. On a device it is a
/// 32-bit word, 0, 1 or 2; a batch with another word is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct OpKind(u32);

// SAFETY: a word, transparently.
unsafe impl bytemuck::Zeroable for OpKind {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for OpKind {}

impl OpKind {
    /// [`Op::Insert`].
    pub const INSERT: Self = Self(0);
    /// [`Op::Update`].
    pub const UPDATE: Self = Self(1);
    /// [`Op::Remove`].
    pub const REMOVE: Self = Self(2);
}

impl From<u32> for OpKind {
    /// As a device has it; the batch refuses what isn't 0, 1 or 2.
    fn from(word: u32) -> Self {
        Self(word)
    }
}

impl<K, V> Op<K, V> {
    /// Whether it inserts, updates or removes.
    pub fn kind(&self) -> OpKind {
        match self {
            Self::Insert(..) => OpKind::INSERT,
            Self::Update(..) => OpKind::UPDATE,
            Self::Remove(_) => OpKind::REMOVE,
        }
    }

    /// The key.
    pub fn key(&self) -> &K {
        match self {
            Self::Insert(key, _) | Self::Update(key, _) | Self::Remove(key) => key,
        }
    }
}

/// The reference for batches: applies operations to a map, one after another, and returns what an index with the same
/// pairs reports of the same batch, except for the [path](UpdateReport::path).
///
/// ```
/// use lanetree::{Device, LaneTree, Op, apply_to_map};
/// use std::collections::BTreeMap;
///
/// # fn main() -> lanetree::Result<()> {
/// let mut map = BTreeMap::from([(1_u64, 10_u32), (2, 20)]);
/// let mut tree = LaneTree::build(&Device::host(), &[1, 2], &[10, 20])?;
/// let ops = [Op::Remove(2), Op::Insert(4, 40), Op::Update(4, 41), Op::Update(9, 90)];
/// let (expected, report) = (apply_to_map(&mut map, &ops), tree.apply(&ops)?);
/// assert_eq!((report.inserted, report.removed), (expected.inserted, expected.removed));
/// assert_eq!(tree.get_many(&[1, 2, 4, 9])?, [1, 2, 4, 9].map(|key| map.get(&key).copied()));
/// # Ok(())
/// # }
/// ```
pub fn apply_to_map<K: Ord + Clone, V: Clone>(map: &mut BTreeMap<K, V>, ops: &[Op<K, V>]) -> UpdateReport {
    let before: BTreeMap<&K, bool> = ops.iter().map(|op| (op.key(), map.contains_key(op.key()))).collect();
    for op in ops {
        match op {
            Op::Insert(key, value) => drop(map.insert(key.clone(), value.clone())),
            Op::Update(key, value) => drop(map.get_mut(key).map(|old| *old = value.clone())),
            Op::Remove(key) => drop(map.remove(key)),
        }
    }
    let mut report = UpdateReport::default();
    for (key, was_present) in before {
        *match (was_present, map.contains_key(key)) {
            (false, true) => &mut report.inserted,
            (true, true) => &mut report.replaced,
            (true, false) => &mut report.removed,
            (false, false) => &mut report.unmatched,
        } += 1;
    }
    report
}

/// How a batch came into the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum UpdatePath {
    /// Nothing was to be changed.
    #[default]
    Unchanged,
    /// Leaf by leaf, in nodes that had room; in CuART also in nodes that were split or replaced by larger ones.
    InPlace,
    /// Nodes were split or merged, and others moved to make room; in Harmonia the key region (the paper's way).
    Moved,
    /// The tree was rebuilt from its pairs and the batch's.
    Rebuilt,
}

/// What a batch did. The counts are of distinct keys: all operations of a key together count as one. Only a multi-map's are of pairs:
/// those that it inserted and removed, and the elements of the batch that found nothing to remove.
///
/// What counts is what there was before the batch and after it. An absent key that is inserted and removed again is `unmatched`, a
/// present one that is removed and inserted again is `replaced`. [`apply_to_map`] reports the same of a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct UpdateReport {
    /// Keys that were not there, and are.
    pub inserted: u64,
    /// Keys that were present and were given a value, even if it is the same.
    pub replaced: u64,
    /// Keys that were there, and are not.
    pub removed: u64,
    /// Keys that were not present before or after: nothing was done.
    pub unmatched: u64,
    /// How it was done.
    pub path: UpdatePath,
}

impl UpdateReport {
    /// The sums of both reports' counts, with this report's path.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        Self {
            inserted: self.inserted + other.inserted,
            replaced: self.replaced + other.replaced,
            removed: self.removed + other.removed,
            unmatched: self.unmatched + other.unmatched,
            path: self.path,
        }
    }
}
