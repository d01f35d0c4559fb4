//! The options of a set, and its build.

use super::{LaneSet, none};
use crate::{BuildScratch, Builder};
use lanetree_frame::{Buffer, Device, Result, Stream};
use lanetree_layout::AnyKey;

/// Options of a set, and its bulk build: the options of [`Builder`], without values.
///
/// ```
/// use lanetree::{Device, LaneSet};
///
/// # fn main() -> lanetree::Result<()> {
/// let set = LaneSet::builder().fill(0.7).build(&Device::host(), &[3_u32, 1, 2, 1])?;
/// assert_eq!(set.keys()?, [1, 2, 3]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(bound = ""))]
pub struct SetBuilder<K>(Builder<K, ()>);

impl<K> Default for SetBuilder<K> {
    fn default() -> Self {
        Self(Builder::default())
    }
}

impl<K: AnyKey> SetBuilder<K> {
    /// The part of each bucket that a build is to fill, in (0, 1]; 1 by default. With 0.7, batches of inserts find room. Fewer slots are
    /// filled than that where keys are irregular, as in a tree with values ([`fill`](Builder::fill)).
    #[must_use]
    pub fn fill(self, fill: f64) -> Self {
        Self(self.0.fill(fill))
    }

    /// Most nodes that a table above them leads to, from 1 to 16384, the default; with more, there is a level above. The same
    /// limits as [`Builder::table_nodes`].
    #[must_use]
    pub fn table_nodes(self, nodes: u32) -> Self {
        Self(self.0.table_nodes(nodes))
    }

    /// Builds a set of keys in any order. Equal keys count once.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build(&self, device: &Device, keys: &[K]) -> Result<LaneSet<K>> {
        Ok(LaneSet { tree: self.0.build(device, keys, &nothing(keys))? })
    }

    /// Builds a set of keys in ascending order. Equal keys count once.
    ///
    /// # Errors
    /// As [`Builder::build_sorted`].
    pub fn build_sorted(&self, device: &Device, keys: &[K]) -> Result<LaneSet<K>> {
        Ok(LaneSet { tree: self.0.build_sorted(device, keys, &nothing(keys))? })
    }

    /// Builds a set of the first `len` keys of a buffer, in any order. Otherwise like [`Builder::build_on`].
    ///
    /// # Errors
    /// As [`Builder::build_on`].
    pub fn build_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        len: usize,
        scratch: &mut BuildScratch<K, ()>,
    ) -> Result<LaneSet<K>> {
        Ok(LaneSet { tree: self.0.build_on(stream, keys, &none(keys)?, len, scratch)? })
    }

    /// Builds a set of the first `len` keys of a buffer, in ascending order. Otherwise like [`Builder::build_sorted_on`].
    ///
    /// # Errors
    /// As [`Builder::build_sorted_on`].
    pub fn build_sorted_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        len: usize,
        scratch: &mut BuildScratch<K, ()>,
    ) -> Result<LaneSet<K>> {
        Ok(LaneSet { tree: self.0.build_sorted_on(stream, keys, &none(keys)?, len, scratch)? })
    }

    /// As [`SetBuilder::build_on`], but takes the buffer, sorts the keys where they are if they are not sorted, and frees them
    /// before it returns: see [`Builder::build_owned_on`].
    ///
    /// # Errors
    /// As [`Builder::build_owned_on`].
    pub fn build_owned_on(&self, stream: &Stream, keys: Buffer<K>, len: usize) -> Result<LaneSet<K>> {
        let values = none(&keys)?;
        Ok(LaneSet { tree: self.0.build_owned_on(stream, keys, values, len)? })
    }
}

/// As many values as keys. They take no memory.
fn nothing<K>(keys: &[K]) -> Vec<()> {
    // Nothing takes no memory.
    vec![(); keys.len()]
}
