//! Sorting by words.

use super::{IntoParallel, Parallel, ParallelSlice, threads};
use crate::Result;
use crate::room::copied;
use core::cmp::Ordering;
use core::mem::{replace, take};
use core::ops::Range;
use lanetree_layout::KeyWord;
use rayon::slice::ParallelSliceMut as _;

/// Items that one task distributes at a time: they and their copy stay in the second caches.
const CHUNK: usize = 1 << 14;

/// As a power of two, buckets that items are distributed to. A bucket of 2^20 random words stays in the first caches while it
/// is sorted.
const BUCKET_BITS: u32 = 10;

/// Fewer items than this are sorted by comparisons alone, on the calling thread.
const DISTRIBUTED: usize = 1 << 13;

/// Sorts items by their words, stably; returns at once if they are in order. Many are first distributed by the upper bits in
/// which they differ, in parallel, which takes the memory of a copy: that is half of the comparisons, and the rest are among
/// neighbours in the first caches.
///
/// # Errors
/// [`Error::Runtime`](crate::Error::Runtime) if main memory has no room for the copy. The items are then in any order.
///
/// # Panics
/// As `word`. The items are then in any order, some of them more than once.
pub fn sort_by_word<T: Copy + Send + Sync, W: KeyWord>(items: &mut [T], word: impl Fn(&T) -> W + Sync) -> Result<()> {
    sort(items, &word)
}

/// As [`sort_by_word`], pairs by their first words. A closure would be another type, and so another sort to compile, for each
/// caller and each of its types.
///
/// # Errors
/// As [`sort_by_word`].
pub fn sort_by_first<W: KeyWord, T: Copy + Send + Sync>(pairs: &mut [(W, T)]) -> Result<()> {
    sort(pairs, &|pair: &(W, T)| pair.0)
}

fn sort<T: Copy + Send + Sync, W: KeyWord>(items: &mut [T], word: &(impl Fn(&T) -> W + Sync)) -> Result<()> {
    if items.len() < DISTRIBUTED {
        items.sort_by_key(word);
        return Ok(());
    }
    if items.par_windows(2).with_min_len(CHUNK).all(|pair| word(&pair[0]) <= word(&pair[1])) {
        return Ok(());
    }
    let of_chunk = |chunk: &[T]| {
        chunk.iter().map(word).fold((W::MAX, W::MIN), |(low, high), word| (low.min(word), high.max(word)))
    };
    let (low, high) =
        items.par_chunks(CHUNK).map(of_chunk).reduce(|| (W::MAX, W::MIN), |a, b| (a.0.min(b.0), a.1.max(b.1)));
    let shift = high.wrapping_sub(low).significant_bits().saturating_sub(BUCKET_BITS);
    let bucket = |item: &T| word(item).wrapping_sub(low).shr(shift).low() as usize;
    let chunks = items.par_chunks(CHUNK).map(|chunk| Distributed::new(chunk, bucket)).collect();
    let chunks = chunks.into_iter().collect::<Result<Vec<_>>>()?;
    let mut rest = items;
    let buckets: Vec<_> = (0..1 << BUCKET_BITS)
        .map(|bucket| {
            let len = chunks.iter().map(|chunk| chunk.range(bucket).len()).sum();
            let (own, others) = take(&mut rest).split_at_mut(len);
            rest = others;
            (bucket, own)
        })
        .collect();
    buckets.into_par_iter().try_for_each(|(bucket, own)| {
        let mut at = 0;
        // In the order of the chunks, which is that of the items.
        for chunk in &chunks {
            let part = &chunk.items[chunk.range(bucket)];
            own[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        if shift > 0 {
            // Many, if the words are far from evenly distributed: these differ in fewer bits.
            sort(own, word)?;
        }
        Ok(())
    })
}

/// Sorts items by comparing them; equal ones come in any order. Where there is a word to sort by, [`sort_by_word`] is faster to
/// compile: this is rayon's sort.
///
/// # Panics
/// As `order`. The items are then in any order.
pub fn sort_unstable_by<T: Send>(items: &mut [T], order: impl Fn(&T, &T) -> Ordering + Sync) {
    match threads() {
        1 => items.sort_unstable_by(order),
        _ => items.par_sort_unstable_by(order),
    }
}

/// A chunk's items, grouped by bucket; within a bucket, in their original order.
struct Distributed<T> {
    items: Vec<T>,
    /// Where each bucket ends.
    ends: Vec<u32>,
}

impl<T: Copy> Distributed<T> {
    fn new(chunk: &[T], bucket: impl Fn(&T) -> usize) -> Result<Self> {
        let mut ends = vec![0; 1 << BUCKET_BITS];
        chunk.iter().for_each(|item| ends[bucket(item)] += 1);
        let mut before = 0;
        for end in &mut ends {
            before += replace(end, before);
        }
        // Starts now, and ends when all items are there.
        let mut items = copied(chunk)?;
        for item in chunk {
            let place = &mut ends[bucket(item)];
            items[*place as usize] = *item;
            *place += 1;
        }
        Ok(Self { items, ends })
    }

    fn range(&self, bucket: usize) -> Range<usize> {
        let start = bucket.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[bucket] as usize
    }
}
