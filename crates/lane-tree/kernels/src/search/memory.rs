//! What kernels read of a tree: records, pairs, and chunks of buckets.

use super::TreeRef;
use crate::layout::{
    BUCKET_WORDS, FIRST_CHILD, MOST_CHUNK_SLOTS, MOST_RECORD_WORDS, Record, bucket_at, chunk_at, chunk_slots,
    has_values_beside, node_at, pairs_of, record_at, record_words, value_at,
};
use crate::quads::{OfQuad, QUAD};
use crate::values;
use lanetree_layout::Value;
use lanetree_simt::{Hint, KeyWord, Simt, unroll};

impl<K: KeyWord> TreeRef<K> {
    /// Per thread. The record of a node of the lowest level.
    ///
    /// # Safety
    /// There is such a node.
    #[inline(always)]
    pub(crate) unsafe fn record<S: Simt, V: Value>(&self, simt: S, number: u32) -> Record<K> {
        let at = record_at::<K, V>(number);
        let mut words = [0; MOST_RECORD_WORDS];
        unroll!(MOST_RECORD_WORDS / 2, i => {
            if 2 * i < record_words::<K, V>() as usize {
                // SAFETY: records are aligned to 16 bytes.
                let [low, high] = unsafe { simt.load_vector(self.records, at + 2 * i as u64, Hint::ReadOnly) };
                (words[2 * i], words[2 * i + 1]) = (low, high);
            }
        });
        Record::of::<V>(words)
    }

    /// Per thread. The pairs in all nodes before one of the lowest level.
    ///
    /// # Safety
    /// There is such a node.
    #[inline(always)]
    pub(crate) unsafe fn rank<S: Simt, V: Value>(&self, simt: S, number: u32) -> u64 {
        let at = record_at::<K, V>(number) + u64::from(Record::<K>::RANK_WORD);
        // SAFETY: the node's record.
        let word = unsafe { simt.load(self.records, at, Hint::ReadOnly) };
        if K::BITS == 32 { word >> 32 } else { word }
    }

    /// Per thread. At most the first key of a node of the lowest level: the first word of its record.
    ///
    /// # Safety
    /// There is such a node.
    #[inline(always)]
    pub(crate) unsafe fn first_of<S: Simt, V: Value>(&self, simt: S, number: u32) -> K {
        let at = record_at::<K, V>(number);
        // SAFETY: the node's record.
        unsafe {
            match K::BITS {
                128 => K::from_parts(simt.load_vector(self.records, at, Hint::ReadOnly)),
                _ => K::truncate(simt.load(self.records, at, Hint::ReadOnly)),
            }
        }
    }

    /// Per thread. The first bucket of a node of the lowest level.
    ///
    /// # Safety
    /// There is such a node.
    #[inline(always)]
    pub(crate) unsafe fn first_bucket<S: Simt>(&self, simt: S, number: u32) -> u32 {
        let at = node_at(number) + u64::from(FIRST_CHILD);
        // SAFETY: a node. Updates change nodes, so this is no read-only load.
        unsafe { simt.load(self.nodes, at, Hint::Default) }
    }

    /// Per thread. The lane's part of four buckets.
    ///
    /// # Safety
    /// Buckets of the tree.
    #[inline(always)]
    pub(crate) unsafe fn chunks<S: Simt, V: Value>(&self, simt: S, buckets: OfQuad<u32>) -> OfQuad<[u64; 2]> {
        let within = simt.lane() % QUAD;
        core::array::from_fn(|round| {
            let at = bucket_at::<K, V>(buckets[round]) + u64::from(within * 2);
            // SAFETY: a bucket of the tree; chunks are aligned to 16 bytes.
            unsafe { simt.load_vector(self.buckets, at, Hint::EvictFirst) }
        })
    }

    /// Per thread. The pair in a slot.
    ///
    /// # Safety
    /// A slot of the tree.
    #[inline(always)]
    pub(crate) unsafe fn pair<S: Simt, V: Value>(&self, simt: S, bucket: u32, slot: u32) -> (K, V) {
        let slots = chunk_slots::<K, V>();
        let at = bucket_at::<K, V>(bucket) + u64::from(slot / slots * 2);
        // SAFETY: inside the bucket.
        unsafe {
            let pairs = pairs_of(simt.load_vector(self.buckets, at, Hint::EvictFirst));
            let mut pair = pairs[0];
            unroll!(MOST_CHUNK_SLOTS, other => {
                if (other as u32) < slots && slot % slots == other as u32 {
                    pair = pairs[other];
                }
            });
            (pair.0, self.value(simt, bucket, slot, pair.1))
        }
    }

    /// Per thread. The value of a slot, if buckets have keys alone; otherwise `own`, which came with the key.
    ///
    /// # Safety
    /// A slot of the tree.
    #[inline(always)]
    pub(crate) unsafe fn value<S: Simt, V: Value>(&self, simt: S, bucket: u32, slot: u32, own: V) -> V {
        if !has_values_beside::<K, V>() {
            return own;
        }
        // SAFETY: the slot's value.
        unsafe { values::load(simt, self.buckets.cast::<V>(), value_at::<K, V>(bucket, slot), Hint::EvictFirst) }
    }

    /// Per thread. The 16 bytes with this number, counted from the first bucket on; and of these the pairs.
    ///
    /// # Safety
    /// The buffer has this slot.
    #[inline(always)]
    pub(crate) unsafe fn chunk<S: Simt, V: Value>(&self, simt: S, chunk: u64) -> [u64; 2] {
        // SAFETY: inside a bucket.
        unsafe { simt.load_vector(self.buckets, chunk_at::<K, V>(chunk), Hint::EvictFirst) }
    }

    /// Per thread. The 16 bytes that are so many after the beginning of a bucket.
    ///
    /// # Safety
    /// The buffer has this slot.
    #[inline(always)]
    pub(crate) unsafe fn chunk_after<S: Simt, V: Value>(&self, simt: S, bucket: u32, chunk: u32) -> [u64; 2] {
        if has_values_beside::<K, V>() {
            let first = u64::from(bucket) * u64::from(BUCKET_WORDS / 2);
            // SAFETY: the caller's.
            return unsafe { self.chunk::<S, V>(simt, first + u64::from(chunk)) };
        }
        let from = self.buckets.skip(bucket_at::<K, V>(bucket));
        // SAFETY: the caller's.
        unsafe { simt.load_vector(from, u64::from(chunk) * 2, Hint::EvictFirst) }
    }
}
