//! A bucket in a thread's registers.

use crate::layout::{
    BUCKET_WORDS, MOST_CHUNK_SLOTS, MOST_SLOTS as SLOTS, bucket_at, bucket_slots, chunk_of, chunk_slots,
    has_values_beside, pairs_of, value_at,
};
use crate::values;
use lanetree_layout::Value;
use lanetree_simt::{Global, GlobalMut, Hint, KeyWord, Simt, unroll};

/// Most pairs of a bucket that has no room, until it has shifted some to a neighbour.
pub(super) const PAIRS: usize = SLOTS + SLOTS / 2;

/// A bucket's pairs, in a thread's registers.
pub(super) struct Bucket<K, V> {
    pub(super) keys: [K; PAIRS],
    pub(super) values: [V; PAIRS],
    pub(super) len: u32,
}

impl<K: KeyWord, V: Value> Bucket<K, V> {
    /// Slots that it has.
    pub(super) const SLOTS: usize = bucket_slots::<K, V>() as usize;
    /// Pairs that it may have before it hands some to another.
    pub(super) const PAIRS: usize = Self::SLOTS + Self::SLOTS / 2;

    /// A bucket of the tree, which has `len` pairs.
    ///
    /// # Safety
    /// There is such a bucket.
    #[inline(always)]
    pub(super) unsafe fn load<S: Simt>(simt: S, buckets: Global<u64>, number: u32, len: u32) -> Self {
        let mut bucket = Self { keys: [K::MIN; PAIRS], values: [V::default(); PAIRS], len };
        let slots = chunk_slots::<K, V>() as usize;
        unroll!((BUCKET_WORDS / 2) as usize, chunk => {
            let at = bucket_at::<K, V>(number) + 2 * chunk as u64;
            // SAFETY: a chunk of the bucket.
            let mut pairs = pairs_of::<K, V>(unsafe { simt.load_vector(buckets, at, Hint::Default) });
            if has_values_beside::<K, V>() {
                let at = value_at::<K, V>(number, chunk as u32);
                // SAFETY: the value of the chunk's slot.
                pairs[0].1 = unsafe { values::load(simt, buckets.cast::<V>(), at, Hint::Default) };
            }
            unroll!(MOST_CHUNK_SLOTS, i => {
                if i < slots {
                    (bucket.keys[chunk * slots + i], bucket.values[chunk * slots + i]) = pairs[i];
                }
            });
        });
        bucket
    }

    /// Writes it; free slots repeat the last pair.
    ///
    /// # Safety
    /// There is such a bucket, and no more pairs than slots.
    #[inline(always)]
    pub(super) unsafe fn store<S: Simt>(&mut self, simt: S, buckets: GlobalMut<u64>, number: u32) {
        unroll!(SLOTS, slot => {
            if slot > 0 && slot < Self::SLOTS && slot as u32 >= self.len {
                let before = slot.saturating_sub(1);
                (self.keys[slot], self.values[slot]) = (self.keys[before], self.values[before]);
            }
        });
        let slots = chunk_slots::<K, V>() as usize;
        unroll!((BUCKET_WORDS / 2) as usize, chunk => {
            let at = bucket_at::<K, V>(number) + 2 * chunk as u64;
            let pair = |slot: usize| (self.keys[slot], self.values[slot]);
            let mut pairs = [pair(chunk * slots); MOST_CHUNK_SLOTS];
            unroll!(MOST_CHUNK_SLOTS, i => {
                if i < slots {
                    pairs[i] = pair(chunk * slots + i);
                }
            });
            let words = chunk_of(pairs);
            // SAFETY: a chunk of the bucket.
            unsafe { simt.store_vector(buckets, at, words, Hint::Default) };
            if has_values_beside::<K, V>() {
                let at = value_at::<K, V>(number, chunk as u32);
                // SAFETY: the value of the chunk's slot.
                unsafe { values::store(simt, buckets.cast::<V>(), at, self.values[chunk], Hint::Default) };
            }
        });
    }

    /// The pairs that are below a key.
    #[inline(always)]
    pub(super) fn below(&self, key: K) -> u32 {
        let mut below = 0;
        unroll!(PAIRS, slot => {
            below += u32::from(slot < Self::PAIRS && (slot as u32) < self.len && self.keys[slot] < key);
        });
        below
    }

    /// Puts a pair in its place; there is room.
    #[inline(always)]
    pub(super) fn insert(&mut self, key: K, value: V) {
        let at = self.below(key);
        unroll!(PAIRS, back => {
            let slot = PAIRS - 1 - back;
            if slot < Self::PAIRS {
                if slot as u32 == at {
                    (self.keys[slot], self.values[slot]) = (key, value);
                } else if slot as u32 > at {
                    let before = slot.saturating_sub(1);
                    (self.keys[slot], self.values[slot]) = (self.keys[before], self.values[before]);
                }
            }
        });
        self.len += 1;
    }

    /// Takes out the pair in a slot.
    #[inline(always)]
    pub(super) fn remove(&mut self, at: u32) {
        unroll!(PAIRS, slot => {
            if slot as u32 >= at && slot + 1 < Self::PAIRS {
                let after = (slot + 1) % PAIRS;
                (self.keys[slot], self.values[slot]) = (self.keys[after], self.values[after]);
            }
        });
        self.len -= 1;
    }

    /// Gives a pair, which is there, another value.
    #[inline(always)]
    pub(super) fn replace(&mut self, key: K, value: V) {
        unroll!(PAIRS, slot => {
            if slot < Self::PAIRS && self.keys[slot] == key {
                self.values[slot] = value;
            }
        });
    }

    /// The pair in a slot.
    #[inline(always)]
    pub(super) fn pair(&self, at: u32) -> (K, V) {
        let mut pair = (self.keys[0], self.values[0]);
        unroll!(PAIRS, slot => {
            if slot < Self::PAIRS && slot as u32 == at {
                pair = (self.keys[slot], self.values[slot]);
            }
        });
        pair
    }
}
