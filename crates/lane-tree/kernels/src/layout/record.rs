//! The records of nodes of the lowest level.

use super::{MOST_PLANES, MOST_RECORD_WORDS, planes, record_words};
use lanetree_layout::Value;
use lanetree_simt::KeyWord;

/// A node of the lowest level, as ordered queries see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<K> {
    /// At most the node's first key, and the base of its quantised keys.
    pub first: K,
    /// Pairs in all nodes before it.
    pub rank: u64,
    /// Bit `l` of plane `p` is bit `p` of the number of pairs, less one, in bucket `l`.
    pub planes: [u64; MOST_PLANES],
}

impl<K: KeyWord> Record<K> {
    /// A record's words in memory, of which there are [`record_words`]. Planes are the last ones.
    #[inline(always)]
    pub fn words<V: Value>(self) -> [u64; MOST_RECORD_WORDS] {
        let ([a, b, c, d], [low, high]) = (self.planes, self.first.parts());
        match (K::BITS, V::IS_SOME) {
            (32, true) => [low | self.rank << 32, a, b, c, 0, 0],
            (32, false) => [low | self.rank << 32, 0, a, b, c, d],
            (64, true) => [low, self.rank, a, b, 0, 0],
            (64, false) => [low, self.rank, 0, a, b, c],
            _ => [low, high, self.rank, 0, a, b],
        }
    }

    /// The record with these words.
    #[inline(always)]
    pub fn of<V: Value>([w0, w1, w2, w3, w4, w5]: [u64; MOST_RECORD_WORDS]) -> Self {
        let narrow = |rank: u64, planes: [u64; MOST_PLANES]| Self { first: K::truncate(w0), rank, planes };
        match (K::BITS, V::IS_SOME) {
            (32, true) => narrow(w0 >> 32, [w1, w2, w3, 0]),
            (32, false) => narrow(w0 >> 32, [w2, w3, w4, w5]),
            (64, true) => narrow(w1, [w2, w3, 0, 0]),
            (64, false) => narrow(w1, [w3, w4, w5, 0]),
            _ => Self { first: K::from_parts([w0, w1]), rank: w2, planes: [w4, w5, 0, 0] },
        }
    }

    /// The record in these words, which are [`record_words`].
    ///
    /// # Panics
    /// If they are not.
    pub fn of_slice<V: Value>(words: &[u64]) -> Self {
        let mut all = [0; MOST_RECORD_WORDS];
        all[..record_words::<K, V>() as usize].copy_from_slice(words);
        Self::of::<V>(all)
    }

    /// Where a record's rank is, among its words: in the high half, with keys of 32 bits.
    pub const RANK_WORD: u32 = match K::BITS {
        32 => 0,
        64 => 1,
        _ => 2,
    };

    /// The pairs in the buckets before a bucket of the node.
    #[inline(always)]
    pub fn before<V: Value>(&self, bucket: u32) -> u32 {
        // In halves: kernels count bits in 32-bit words.
        let below = |from: u32| {
            let bits = bucket.saturating_sub(from);
            if bits >= 32 { u32::MAX } else { (1 << bits) - 1 }
        };
        let (low, high) = (below(0), below(32));
        let mut pairs = bucket;
        for plane in 0..planes::<K, V>() as usize {
            let word = self.planes[plane];
            pairs += ((word as u32 & low).count_ones() + ((word >> 32) as u32 & high).count_ones()) << plane;
        }
        pairs
    }

    /// The pairs in a bucket.
    #[inline(always)]
    pub fn len(&self, bucket: u32) -> u32 {
        // Planes that there are not are 0.
        let [a, b, c, d] = self.planes;
        let bit = |plane: u64| (plane >> bucket & 1) as u32;
        1 + bit(a) + 2 * bit(b) + 4 * bit(c) + 8 * bit(d)
    }
}

/// What a record says of 32 of its node's buckets.
#[derive(Clone, Copy, Debug)]
pub struct HalfRecord {
    planes: [u32; MOST_PLANES],
}

impl<K: KeyWord> Record<K> {
    /// The first 32 of the node's buckets, or the others.
    #[inline(always)]
    pub fn half(&self, is_upper: bool) -> HalfRecord {
        HalfRecord { planes: self.planes.map(|plane| if is_upper { (plane >> 32) as u32 } else { plane as u32 }) }
    }
}

impl HalfRecord {
    /// The pairs in the buckets before one of them.
    #[inline(always)]
    pub fn before(&self, bucket: u32) -> u32 {
        let pairs = |(plane, &bits): (usize, &u32)| (bits & ((1 << bucket) - 1)).count_ones() << plane;
        bucket + self.planes.iter().enumerate().map(pairs).sum::<u32>()
    }

    /// What the record says of the buckets from one of them on, which becomes the first.
    #[inline(always)]
    pub fn from(&self, bucket: u32) -> Self {
        Self { planes: self.planes.map(|bits| bits >> bucket) }
    }

    /// The pairs in one of the buckets.
    #[inline(always)]
    pub fn own(&self, bucket: u32) -> u32 {
        let pairs = |(plane, &bits): (usize, &u32)| (bits >> bucket & 1) << plane;
        1 + self.planes.iter().enumerate().map(pairs).sum::<u32>()
    }

    /// The pairs in all 32.
    #[inline(always)]
    pub fn all(&self) -> u32 {
        let pairs = |(plane, &bits): (usize, &u32)| bits.count_ones() << plane;
        32 + self.planes.iter().enumerate().map(pairs).sum::<u32>()
    }
}
