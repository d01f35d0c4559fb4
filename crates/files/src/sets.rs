//! Files of sets: keys alone.

use crate::{FromFile, Load, ReadAt, Result, Save, of, reader_of};
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

    fn load_from(&self, device: &Device, file: &dyn ReadAt) -> Result<LaneSet<K>> {
        let (keys, _) = reader_of::<K, ()>(file)?.to_vecs::<K, ()>()?;
        Ok(self.build_sorted(device, &keys)?)
    }
}

impl<K: AnyKey> FromFile for LaneSet<K> {
    fn load_from(device: &Device, file: &dyn ReadAt) -> Result<Self> {
        Self::builder().load_from(device, file)
    }
}
