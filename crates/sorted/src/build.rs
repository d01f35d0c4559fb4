//! The build: pairs are sorted on the CPU, in parallel, and uploaded.

use super::SortedArray;
use core::marker::PhantomData;
use lanetree_frame::fixed::pairs::{are_distinct, check_lengths};
use lanetree_frame::fixed::{SortedPairs, Staging};
use lanetree_frame::{Device, IndexBuilder, Result};
use lanetree_layout::{Key, Word};

/// Builds sorted arrays. There are no options.
///
/// ```
/// use lanetree::{Device, SortedArray};
///
/// # fn main() -> lanetree::Result<()> {
/// let index = SortedArray::builder().build_sorted(&Device::host(), &[1_u32, 2, 3], &[10_u32, 20, 30])?;
/// assert_eq!(index.get_many(&[2, 4])?, [Some(20), None]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(bound = ""))]
pub struct Builder<K, V> {
    words: PhantomData<(K, V)>,
}

impl<K, V> Default for Builder<K, V> {
    fn default() -> Self {
        Self { words: PhantomData }
    }
}

impl<K: Key, V: Word> Builder<K, V> {
    /// Builds an index over pairs in any order. Of equal keys, the last one's value is kept. For the first, or an error:
    /// [`IndexBuilder::build_by`](lanetree_frame::IndexBuilder::build_by) with [`BuildRules`](lanetree_frame::BuildRules).
    ///
    /// Sorts a copy of the pairs with all of rayon's threads; returns when the index is on the device.
    ///
    /// # Errors
    /// [`LengthMismatch`](lanetree_frame::Error::LengthMismatch); [`Runtime`](lanetree_frame::Error::Runtime) if the
    /// device has no room.
    pub fn build(&self, device: &Device, keys: &[K], values: &[V]) -> Result<SortedArray<K, V>> {
        Self::build_pairs(device, &SortedPairs::sort(keys, values)?)
    }

    fn build_pairs(device: &Device, pairs: &SortedPairs<K::Bits, V>) -> Result<SortedArray<K, V>> {
        build(device, &pairs.values, &|first, words: &mut [K::Bits]| {
            words.copy_from_slice(&pairs.keys[first..][..words.len()]);
        })
    }

    /// Builds an index over pairs in ascending order of their keys. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Builder::build`], and [`NotSorted`](lanetree_frame::Error::NotSorted) with the first key that is below the
    /// one before.
    pub fn build_sorted(&self, device: &Device, keys: &[K], values: &[V]) -> Result<SortedArray<K, V>> {
        check_lengths(keys, values)?;
        if are_distinct(keys)? {
            return build(device, values, &|first, words: &mut [K::Bits]| {
                words.iter_mut().zip(&keys[first..]).for_each(|(word, key)| *word = key.encode());
            });
        }
        Self::build_pairs(device, &SortedPairs::from_sorted(keys, values)?)
    }
}

/// Builds from values and a function that writes the ordered words of their keys, from the one with a number on.
fn build<K: Key, V: Word>(
    device: &Device,
    values: &[V],
    words: &(dyn Fn(usize, &mut [K::Bits]) + Sync),
) -> Result<SortedArray<K, V>> {
    let staging = Staging::<K, V>::default();
    let mut keys = device.alloc(values.len())?;
    staging.queries.upload_made(values.len(), 1, &mut keys, words)?;
    let values = staging.queries.buffer_of(device, values)?;
    // What the pairs went through is not kept for look-ups: there may be none.
    Ok(SortedArray { device: device.clone(), keys, values, staging: Staging::default() })
}

impl<K: Key, V: Word> IndexBuilder for Builder<K, V> {
    type Index = SortedArray<K, V>;

    fn build(&self, device: &Device, keys: &[K], values: &[V]) -> Result<SortedArray<K, V>> {
        self.build(device, keys, values)
    }
}
