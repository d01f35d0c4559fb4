//! Keys of any width, values and queries, all of them functions of their numbers: nothing is kept to check answers.

use crate::bench::cuart::urls;
use crate::bench::data::mix;
use crate::bench::row::Row;
use lanetree::{ByteKeys, Word};
use lanetree_base::parallel::*;

/// What keys look like.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// All bytes random.
    Uniform,
    /// As [`urls::url`] makes them.
    Urls,
}

/// So many distinct keys of a width from 4 bytes on. Key `i` has the value `i + 1`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    pub(crate) width: usize,
    pub(crate) len: usize,
    pub(crate) seed: u64,
    shape: Shape,
}

impl Data {
    /// Uniform random keys.
    pub(crate) fn new(width: usize, len: usize, seed: u64) -> Self {
        Self { width, len, seed: mix(seed ^ width as u64), shape: Shape::Uniform }
    }

    /// Synthetic URLs, at most [`urls::MOST`] of them.
    pub(crate) fn urls(len: usize, seed: u64) -> Self {
        Self { width: urls::WIDTH, len, seed: mix(seed ^ 0x75_726c), shape: Shape::Urls }
    }

    /// Where the keys come from, for a row.
    fn source(&self) -> &'static str {
        match self.shape {
            Shape::Uniform => "uniform",
            Shape::Urls => "URLs, synthetic",
        }
    }

    /// Says in a row what is looked up in, and how: random queries that all hit.
    pub(crate) fn label<V: Word>(&self, row: Row) -> Row {
        row.over(self.len, self.key_name(), V::NAME, self.source()).with("order", "random").with("hit_rate", 1.0)
    }

    /// Key `index`, or of random ones that and more bytes; those from `len` on are not among the tree's.
    pub(crate) fn key(&self, index: u64, key: &mut [u8]) {
        if let Shape::Urls = self.shape {
            return key.copy_from_slice(&urls::url(index, self.seed));
        }
        if self.width == 4 {
            return key.copy_from_slice(&mix32((index as u32).wrapping_add(self.seed as u32)).to_be_bytes());
        }
        // The first word is another one for every index.
        key[..8].copy_from_slice(&mix(index.wrapping_add(self.seed)).to_be_bytes());
        for (word, bytes) in (1..).zip(key[8..].chunks_mut(8)) {
            bytes.copy_from_slice(&mix(mix(index) ^ (self.seed + word)).to_be_bytes()[..bytes.len()]);
        }
    }

    /// The bytes of keys with these indexes.
    pub(crate) fn bytes(&self, count: usize, index: impl Fn(usize) -> u64 + Sync) -> Vec<u8> {
        let mut bytes = vec![0; count * self.width];
        bytes.par_chunks_exact_mut(self.width).enumerate().for_each(|(i, key)| self.key(index(i), key));
        bytes
    }

    /// All keys of the tree.
    pub(crate) fn all(&self) -> Vec<u8> {
        self.bytes(self.len, |i| i as u64)
    }

    /// The tree's keys in ascending order, and their values.
    pub(crate) fn sorted(&self) -> (Vec<u8>, Vec<u32>) {
        let order: Vec<u32> = match self.shape {
            Shape::Uniform if self.width >= 8 => {
                // No two first words are equal.
                let head = |i: u32| (mix(u64::from(i).wrapping_add(self.seed)), i);
                let mut heads: Vec<(u64, u32)> = (0..self.len as u32).into_par_iter().map(head).collect();
                sort_unstable_by(&mut heads, Ord::cmp);
                heads.into_par_iter().map(|(_, i)| i).collect()
            }
            _ => {
                let bytes = self.all();
                let mut order: Vec<u32> = (0..self.len as u32).collect();
                let key = |i: u32| &bytes[i as usize * self.width..][..self.width];
                sort_unstable_by(&mut order, |&a, &b| key(a).cmp(key(b)));
                order
            }
        };
        let bytes = self.bytes(self.len, |rank| order[rank].into());
        (bytes, order.into_par_iter().map(|i| i + 1).collect())
    }

    /// Their values.
    pub(crate) fn values<V: Word>(&self) -> Vec<V> {
        (0..self.len as u64).into_par_iter().map(|i| V::truncate(i + 1)).collect()
    }

    /// The index of the key of query `query` of a batch: uniform, with repetitions.
    pub(crate) fn query(&self, batch: u64, query: usize) -> u64 {
        let random = mix(mix(batch ^ self.seed) ^ query as u64);
        ((u128::from(random) * self.len as u128) >> 64) as u64
    }

    /// What stands for the keys in a row.
    pub(crate) fn key_name(&self) -> &'static str {
        match self.width {
            4 => "[u8; 4]",
            8 => "[u8; 8]",
            16 => "[u8; 16]",
            32 => "[u8; 32]",
            64 => "[u8; 64]",
            128 => "[u8; 128]",
            256 => "[u8; 256]",
            _ => "bytes",
        }
    }
}

/// Bytes as keys.
pub(crate) fn keys(width: usize, bytes: &[u8]) -> ByteKeys<'_> {
    ByteKeys::fixed(width, bytes).expect("whole keys")
}

/// A finaliser of 32-bit integers, as [`mix`] is one of 64-bit ones: no two have the same image.
fn mix32(word: u32) -> u32 {
    let mut x = word.wrapping_mul(0x9e37_79b9);
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_distinct_and_queries_hit() {
        let uniform = [4, 8, 16, 32].map(|width| Data::new(width, 5000, 3));
        for data in uniform.into_iter().chain([Data::urls(5000, 3)]) {
            let width = data.width;
            let bytes = data.all();
            let distinct: BTreeSet<&[u8]> = bytes.chunks(width).collect();
            assert_eq!(distinct.len(), 5000);
            let (sorted, values) = data.sorted();
            assert!(sorted.chunks(width).eq(distinct.iter().copied()));
            let is_of = |(key, &value): (&[u8], &u32)| bytes[(value as usize - 1) * width..].starts_with(key);
            assert!(sorted.chunks(width).zip(&values).all(is_of));
            let beyond = data.bytes(100, |i| 5000 + i as u64);
            assert!(beyond.chunks(width).all(|key| !distinct.contains(key)));
            assert!((0..1000).all(|query| data.query(7, query) < 5000));
        }
    }
}
