//! The CPU's part of every query: the whole of it without a device, the leaves with one.

use crate::HbTree;
use crate::structure::{Inner, Leaves, Parts, Place, Structure};
use core::hint::black_box;
use lanetree_layout::{Key, KeyWord, Word};

/// Queries whose leaves are found before they are searched: few enough for their lines to stay in the first caches.
const CHUNK: usize = 512;

/// Queries of one task of the CPU's.
pub(crate) const TASK: usize = 4096;

impl<K: Key, V: Word, L: Structure> HbTree<K, V, L> {
    /// Finds queries from the root on.
    pub(crate) fn find(&self, keys: &[K], mut each: impl FnMut(usize, Place)) {
        let (parts, how) = (&self.parts, self.parts.options.descent());
        let height = parts.inner.height();
        for (chunk, keys) in keys.chunks(CHUNK).enumerate() {
            let (words, mut leaves) = (words(keys), [0; CHUNK]);
            let (words, leaves) = (&words[..keys.len()], &mut leaves[..keys.len()]);
            for _ in 1..parts.options.pipeline.cpu_times() {
                parts.inner.descend(how, words, 0..height, leaves);
                parts.leaves.find(words, leaves, how.in_flight, |_, place| _ = black_box(place));
                leaves.fill(0);
            }
            parts.inner.descend(how, words, 0..height, leaves);
            parts.leaves.find(words, leaves, how.in_flight, |i, place| each(chunk * CHUNK + i, place));
        }
    }

    /// Finds queries whose leaves are known.
    pub(crate) fn find_in(&self, leaves: &[u32], keys: &[K], mut each: impl FnMut(usize, Place)) {
        let Parts { leaves: all, options, .. } = &self.parts;
        for (chunk, (keys, leaves)) in keys.chunks(CHUNK).zip(leaves.chunks(CHUNK)).enumerate() {
            let words = &words(keys)[..keys.len()];
            for _ in 1..options.pipeline.cpu_times() {
                all.find(words, leaves, options.in_flight, |_, place| _ = black_box(place));
            }
            all.find(words, leaves, options.in_flight, |i, place| each(chunk * CHUNK + i, place));
        }
    }
}

/// The ordered words of keys.
#[inline(always)]
fn words<K: Key>(keys: &[K]) -> [K::Bits; CHUNK] {
    let mut words = [K::Bits::MIN; CHUNK];
    words.iter_mut().zip(keys).for_each(|(word, key)| *word = key.encode());
    words
}
