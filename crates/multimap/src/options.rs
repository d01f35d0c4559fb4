//! What a map is built with, and rebuilt with after changes.

use crate::MOST_VALUES;
use lanetree_frame::{Device, DeviceKind, Error, Result};
use lanetree_lane_tree::Builder as TreeBuilder;

/// The options of a map.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(bound = ""))]
pub(crate) struct Options<K> {
    pub(crate) tree: TreeBuilder<K, u64>,
    pub(crate) room: f64,
    /// The most values of a key: fewer in tests.
    pub(crate) most: u64,
}

impl<K> Default for Options<K> {
    fn default() -> Self {
        Self { tree: TreeBuilder::default(), room: 0.0, most: MOST_VALUES }
    }
}

impl<K> Options<K> {
    /// # Errors
    /// [`Error::OptionValue`].
    pub(crate) fn check(&self) -> Result<()> {
        // Written so that NaN is also refused.
        if self.room >= 0.0 && self.room <= 16.0 {
            return Ok(());
        }
        Err(Error::OptionValue { what: "room for values", value: self.room.to_string(), allowed: "0 to 16" })
    }

    /// The length of the values' buffer of a map that is built over `pairs` pairs. On the host, runs that move get memory of their own,
    /// when there are any.
    pub(crate) fn positions(&self, device: &Device, pairs: usize) -> usize {
        let room = if device.kind() == DeviceKind::Host { 0.0 } else { self.room };
        pairs.saturating_add((pairs as f64 * room).ceil() as usize)
    }
}
