//! The operations of a batch of updates, and its outcome.

/// One operation of a batch. A batch has the effect of its operations one after another, in the batch's
/// order; so the last write to a key wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<K, V> {
    /// Inserts a pair, or replaces the value of a key that is present.
    Insert(K, V),
    /// Replaces the value of a key that is present; otherwise does nothing.
    Update(K, V),
    /// Removes a key and its value; if it is not present, does nothing.
    Remove(K),
}

impl<K: Copy, V> Op<K, V> {
    /// The key.
    pub fn key(&self) -> K {
        match *self {
            Self::Insert(key, _) | Self::Update(key, _) | Self::Remove(key) => key,
        }
    }
}

/// How a batch came into the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdatePath {
    /// Nothing was to be changed.
    #[default]
    Unchanged,
    /// Leaf by leaf, in nodes that had room; in CuART also in nodes that were split or replaced by larger ones.
    InPlace,
    /// Nodes were split or merged, and the key region moved to make room (the paper's way).
    Moved,
    /// The tree was rebuilt from its pairs and the batch's.
    Rebuilt,
}

/// What a batch did. The counts are of distinct keys: all operations of a key together count as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// The counts of both, and the path of this one.
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
