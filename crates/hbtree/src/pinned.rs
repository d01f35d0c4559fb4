//! Look-ups from pinned memory to pinned memory.

use crate::HbTree;
use crate::structure::{Leaves, Place, Structure};
use lanetree_frame::Result;
use lanetree_frame::staging::PinnedBatch;
use lanetree_layout::{Key, Word};
use lanetree_runtime::PinnedBuffer;
use std::sync::atomic::{AtomicU32, Ordering};

impl<K: Key, V: Word, L: Structure> HbTree<K, V, L> {
    /// The value of each key, or `miss`, from pinned memory to pinned memory: the device reads the keys where they are, and the
    /// CPU writes the values to where they belong, so neither copies anything. Bit `i % 32` of `hits[i / 32]` (the hit mask)
    /// says whether key `i` is present; the bits past the last key are 0.
    ///
    /// ```
    /// use lanetree::Device;
    /// use lanetree::hbtree::HbTree;
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let tree = HbTree::build(&device, &[10_u64, 20, 30], &[1_u32, 2, 3])?;
    /// let (mut keys, mut values, mut hits) = (device.pinned(3)?, device.pinned(3)?, device.pinned(1)?);
    /// keys.copy_from_slice(&[20, 25, 30]);
    /// tree.get_many_pinned(&keys, u32::MAX, &mut values, Some(&mut hits))?;
    /// assert_eq!((&values[..], hits[0]), (&[2, u32::MAX, 3][..], 0b101));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`HbTree::get_many_into`]; the buffers must belong to the tree's device.
    pub fn get_many_pinned(
        &self,
        keys: &PinnedBuffer<K>,
        miss: V,
        values: &mut PinnedBuffer<V>,
        hits: Option<&mut PinnedBuffer<u32>>,
    ) -> Result<()> {
        let batch = PinnedBatch { queries: keys, width: 1, values, hits, finds_keys: false };
        batch.check()?;
        let (PinnedBatch { values, hits, .. }, count) = (batch, keys.len());
        let hits = hits.map(|hits| HitMask::all(&mut hits[..count.div_ceil(32)], count));
        let found = |i: usize, value: Option<V>| {
            if let (None, Some(hits)) = (value, &hits) {
                hits.miss(i);
            }
            value.unwrap_or(miss)
        };
        let by_place = |i, place: Place| found(i, place.is_hit.then(|| self.parts.leaves.value(place)));
        self.answer((keys, Some(keys)), &mut values[..count], by_place, Some(found))
    }
}

/// A hit mask that several threads write.
struct HitMask<'a>(&'a [AtomicU32]);

impl<'a> HitMask<'a> {
    /// All queries hit: so the most frequent answer needs no write.
    fn all(words: &'a mut [u32], count: usize) -> Self {
        words.fill(u32::MAX);
        if let Some(last) = words.last_mut().filter(|_| !count.is_multiple_of(32)) {
            *last = (1 << (count % 32)) - 1;
        }
        // SAFETY: an atomic word has the size and the alignment of a word. The words are borrowed mutably for as long as this
        // lives, so that nobody else reads or writes them.
        Self(unsafe { &*(core::ptr::from_mut(words) as *const [AtomicU32]) })
    }

    fn miss(&self, query: usize) {
        self.0[query / 32].fetch_and(!(1 << (query % 32)), Ordering::Relaxed);
    }
}
