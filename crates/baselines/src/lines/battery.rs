//! The battery of tests that every static tree passes, against the standard library's B-tree.

use crate::Simd;
use lanetree_layout::{Key, KeyWord, Word};
use std::collections::BTreeMap;

/// Numbers of pairs around the sizes of nodes, leaves and groups.
const SIZES: [usize; 22] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 66, 1000, 4095, 4096, 4097];
/// Larger than a block of three levels of lines, and no multiple of anything.
const LARGE: usize = 100_003;

/// Strictly ascending pseudorandom words; the first and last word of all are among them if `ends`.
fn words<W: Word>(len: usize, ends: bool) -> Vec<W> {
    let step = W::MAX.widen() / (len as u64 + 2);
    let word = |i: usize| {
        let random = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        step * (i as u64 + 1) + random % step
    };
    let mut words: Vec<u64> = (0..len).map(word).collect();
    if ends && len > 0 {
        words[0] = 0;
        words[len - 1] = W::MAX.widen();
    }
    words.into_iter().map(W::truncate).collect()
}

/// Builds trees of keys, values, look-ups in flight and instructions, and looks up hits and near misses.
pub(crate) fn run<K: Key, V: Word, G: Fn(&[K], &mut [Option<V>])>(build: impl Fn(&[K], &[V], usize, Simd) -> G) {
    let available = || Simd::ALL.into_iter().filter(|simd| simd.is_available());
    for len in SIZES.into_iter().chain([LARGE]) {
        for ends in [false, true] {
            let words: Vec<K::Bits> = words(len, ends);
            let keys: Vec<K> = words.iter().map(|&word| K::decode(word)).collect();
            let values: Vec<V> = (1..).map(V::truncate).take(len).collect();
            let map: BTreeMap<K, V> = keys.iter().copied().zip(values.iter().copied()).collect();
            let near =
                |word: &K::Bits| [word.wrapping_add(KeyWord::MAX), *word, word.wrapping_add(KeyWord::truncate(1))];
            let every = words.len().div_ceil(5000).max(1);
            let mut queries: Vec<K> = words.iter().step_by(every).flat_map(near).map(K::decode).collect();
            queries.extend(words.last().into_iter().flat_map(near).map(K::decode));
            queries.extend([K::MIN, K::MAX, K::decode(KeyWord::MIN), K::decode(KeyWord::MAX), K::default()]);
            let expected: Vec<Option<V>> = queries.iter().map(|key| map.get(key).copied()).collect();
            for simd in available() {
                for in_flight in [1, 7, 128] {
                    // One that is overwritten, in whichever way.
                    let mut out = vec![Some(V::MAX); queries.len()];
                    build(&keys, &values, in_flight, simd)(&queries, &mut out);
                    assert_eq!(out, expected, "{len} pairs, {in_flight} in flight, {simd:?}");
                }
            }
        }
    }
}
