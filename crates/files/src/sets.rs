//! Files of sets: keys alone.

use crate::{FromFile, Load, Result, Save, of, read_pairs};
use lanetree_frame::{AnyKey, Device};
use lanetree_lane_tree::{LaneSet, SetBuilder};
use std::path::Path;

/// A file of a set has no values.
impl<K: AnyKey> Save<of::Set> for LaneSet<K> {
    fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        Save::<of::Index>::save(self.as_tree(), path)
    }
}

impl<K: AnyKey> Load<of::Set> for SetBuilder<K> {
    type Loaded = LaneSet<K>;

    fn load(&self, device: &Device, path: impl AsRef<Path>) -> Result<LaneSet<K>> {
        let (keys, _) = read_pairs::<K, ()>(path)?;
        Ok(self.build_sorted(device, &keys)?)
    }
}

impl<K: AnyKey> FromFile for LaneSet<K> {
    fn load(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        Self::builder().load(device, path)
    }
}
