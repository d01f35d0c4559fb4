//! Inserting and removing pairs in one leaf, in place.

use super::super::super::native::below;
use core::marker::PhantomData;
use lanetree_kernels_harmonia::layout::{leaf_bytes, leaf_offset, leaf_values_offset};
use lanetree_layout::Word;

/// The leaf region while threads write to its leaves, each thread to the leaves that it holds.
pub(super) struct LeafRegion<'a, K, V> {
    start: *mut u8,
    fanout: u32,
    leaves: u32,
    words: PhantomData<&'a mut [(K, V)]>,
}

// SAFETY: the region is borrowed mutably, and only the thread that holds a leaf accesses it.
unsafe impl<K: Send, V: Send> Sync for LeafRegion<'_, K, V> {}

impl<'a, K: Word, V: Word> LeafRegion<'a, K, V> {
    pub(super) fn new(words: &'a mut [u64], fanout: u32) -> Self {
        let leaves = size_of_val(words) as u64 / leaf_bytes::<K, V>(fanout);
        Self { start: words.as_mut_ptr().cast(), fanout, leaves: leaves as u32, words: PhantomData }
    }

    /// A leaf's slots.
    ///
    /// # Safety
    /// As long as the result lives, the caller holds the leaf's lock and is counted, or owns the tree exclusively; and
    /// it takes the leaf's slots only once.
    pub(super) unsafe fn slots(&self, leaf: u32) -> Slots<'_, K, V> {
        assert!(leaf < self.leaves, "leaf {leaf} of {}", self.leaves);
        let fanout = self.fanout as usize;
        let keys = self.start.wrapping_add(leaf_offset::<K, V>(self.fanout, leaf) as usize).cast::<K>();
        let values = self.start.wrapping_add(leaf_values_offset::<K, V>(self.fanout, leaf) as usize).cast::<V>();
        // SAFETY: `fanout` words each, inside the region since the leaf is; regions and leaves are aligned
        // to more than a word; the caller keeps others away from the leaf.
        unsafe {
            Slots {
                keys: core::slice::from_raw_parts_mut(keys, fanout),
                values: core::slice::from_raw_parts_mut(values, fanout),
            }
        }
    }

    /// Replaces the value of pair `at` of a leaf of `len` pairs.
    ///
    /// # Safety
    /// Meanwhile nobody reads values or takes slots of the leaf, and nobody else replaces this value.
    pub(super) unsafe fn replace(&self, leaf: u32, len: usize, at: usize, value: V) {
        let fanout = self.fanout as usize;
        assert!(leaf < self.leaves && at < len && len <= fanout, "pair {at} of {len} of leaf {leaf}");
        let values = self.start.wrapping_add(leaf_values_offset::<K, V>(self.fanout, leaf) as usize).cast::<V>();
        // The slots after the last pair repeat it.
        let end = if at + 1 == len { fanout } else { at + 1 };
        // SAFETY: slots of the leaf, which is in the region, and no others' by the caller's promise.
        (at..end).for_each(|slot| unsafe { values.wrapping_add(slot).write(value) });
    }
}

/// The slots of one leaf. The first `len` hold pairs, the others repeat the last of them.
pub(super) struct Slots<'a, K, V> {
    pub(super) keys: &'a mut [K],
    pub(super) values: &'a mut [V],
}

impl<K: Word, V: Word> Slots<'_, K, V> {
    /// The number of pairs below `key`, and whether the next pair has this key.
    pub(super) fn find(&self, len: usize, key: K) -> (usize, bool) {
        let below = match self.keys.len() {
            8 => below(&self.keys[..8], key),
            16 => below(&self.keys[..16], key),
            _ => below(self.keys, key),
        };
        // The repeated last pair counts too; and an emptied leaf still holds its last contents.
        let at = (below as usize).min(len);
        (at, at < len && self.keys[at] == key)
    }

    pub(super) fn insert(&mut self, len: usize, at: usize, key: K, value: V) {
        if at == len {
            self.keys[at..].fill(key);
            self.values[at..].fill(value);
        } else {
            self.keys.copy_within(at..len, at + 1);
            self.values.copy_within(at..len, at + 1);
            (self.keys[at], self.values[at]) = (key, value);
        }
    }

    pub(super) fn remove(&mut self, len: usize, at: usize) {
        self.keys.copy_within(at + 1..len, at);
        self.values.copy_within(at + 1..len, at);
        if let Some(last) = len.checked_sub(2) {
            let (key, value) = (self.keys[last], self.values[last]);
            self.keys[last + 1..].fill(key);
            self.values[last + 1..].fill(value);
        }
    }

    pub(super) fn replace(&mut self, len: usize, at: usize, value: V) {
        let end = if at + 1 == len { self.values.len() } else { at + 1 };
        self.values[at..end].fill(value);
    }
}
