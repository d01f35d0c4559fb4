//! The results of ranges, put together while others are still being collected.
//!
//! Every thread collects the pairs of some ranges that follow one another: a part. Where a part goes is known when all
//! before it are there. Then any thread copies it, soon after it was collected, while it is still in the caches.

use core::cell::UnsafeCell;
use core::mem::{ManuallyDrop, MaybeUninit};
use lanetree_frame::room::{self, check_free};
use lanetree_frame::{Error, Ranges, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// Pairs from which on a part is complete.
pub(crate) const PART: usize = 1 << 14;

/// Most pairs of a part whose memory is kept for later batches, and most such parts: enough for the buckets that many
/// threads have at a time.
const KEPT_PAIRS: usize = 2 * PART;
const KEPT_PARTS: usize = 256;

/// Pairs of a bucket, about. Its parts wait for the parts of the buckets before, and should not fill the caches
/// meanwhile.
const BUCKET: u64 = 1 << 17;

/// The fewest ranges of a bucket.
const LEAST_RANGES: u64 = 32;

/// The pairs of ranges that follow one another in a batch.
#[derive(Debug, Default)]
pub(crate) struct Part<K, V> {
    /// The first range's place in the batch.
    pub(crate) first: usize,
    /// Where each range's pairs end.
    pub(crate) ends: Vec<usize>,
    pub(crate) keys: Vec<K>,
    pub(crate) values: Vec<V>,
}

/// What later batches of ranges need of earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Spare<K, V> {
    /// Parts, whose memory is used again.
    parts: Mutex<Vec<Part<K, V>>>,
    /// Pairs of a range, on average, in the last batch.
    mean: AtomicU64,
}

impl<K, V> Spare<K, V> {
    fn parts(&self) -> MutexGuard<'_, Vec<Part<K, V>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let of_part = |Part { ends, keys, values, .. }: &Part<K, V>| {
            ends.capacity() * size_of::<usize>() + keys.capacity() * size_of::<K>() + values.capacity() * size_of::<V>()
        };
        self.parts().iter().map(of_part).sum()
    }

    /// Most ranges that a thread should take at a time, if they are as long as the ranges of the last batch.
    pub(crate) fn bucket(&self) -> usize {
        (BUCKET / self.mean.load(Ordering::Relaxed).max(1)).max(LEAST_RANGES) as usize
    }
}

/// The results of a batch on their way.
pub(crate) struct Assembly<'a, K, V> {
    ranges: usize,
    spare: &'a Spare<K, V>,
    order: Mutex<Order<K, V>>,
    /// Why there are no results.
    failed: OnceLock<Error>,
    /// Read by those who copy parts, each to a place of its own; written by those who make room.
    out: RwLock<Out<K, V>>,
}

struct Order<K, V> {
    /// Parts whose place is not known yet, by their first ranges.
    early: BTreeMap<usize, Part<K, V>>,
    /// The first range, and the number of pairs, after all parts whose places are known.
    next: usize,
    pairs: usize,
    /// Parts that nobody copies yet, and their places.
    ready: Vec<(Part<K, V>, usize)>,
}

struct Out<K, V> {
    ends: Array<u64>,
    keys: Array<K>,
    values: Array<V>,
}

impl<'a, K: Copy + Default, V: Copy + Default> Assembly<'a, K, V> {
    /// An assembly of `ranges` ranges, into the memory of `results`.
    ///
    /// # Errors
    /// [`Error::Runtime`] if main memory has no room.
    pub(crate) fn new(ranges: usize, spare: &'a Spare<K, V>, results: Ranges<K, V>) -> Result<Self> {
        let order = Order { early: BTreeMap::new(), next: 0, pairs: 0, ready: Vec::new() };
        let Ranges { offsets, keys, values, .. } = results;
        let mut ends = Array::of(offsets);
        ends.make_room(ranges + 1, ranges + 1)?;
        let out = Out { ends, keys: Array::of(keys), values: Array::of(values) };
        Ok(Self { ranges, spare, order: Mutex::new(order), failed: OnceLock::new(), out: RwLock::new(out) })
    }

    /// An empty part.
    pub(crate) fn part(&self, first: usize) -> Part<K, V> {
        Part { first, ..self.spare.parts().pop().unwrap_or_default() }
    }

    /// Whether there will be no results, so that nobody need collect any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    /// There will be no results, for this reason or an earlier one.
    pub(crate) fn fail(&self, error: Error) {
        _ = self.failed.set(error);
    }

    /// Takes a part with at least one range, and copies parts whose places are known.
    pub(crate) fn add(&self, part: Part<K, V>) {
        let mut order = self.order();
        order.early.insert(part.first, part);
        while let Some(part) = order.next_part() {
            let place = order.pairs;
            order.next += part.ends.len();
            order.pairs += part.keys.len();
            order.ready.push((part, place));
        }
        // As many pairs for each range as so far, and some more.
        let (known, pairs) = (order.next.max(1), order.pairs);
        let expected = (pairs as f64 / known as f64 * self.ranges as f64 * 1.02) as usize;
        let mut ready = order.ready.pop();
        drop(order);
        while let Some((part, place)) = ready {
            if let Err(error) = self.copy(&part, place, expected) {
                return self.fail(error);
            }
            self.keep(part);
            ready = self.order().ready.pop();
        }
    }

    /// The results, when every range was in a part.
    ///
    /// # Errors
    /// That for which it has failed.
    pub(crate) fn finish(self) -> Result<Ranges<K, V>> {
        if let Some(error) = self.failed.into_inner() {
            return Err(error);
        }
        let order = self.order.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Out { ends, keys, values } = self.out.into_inner().unwrap_or_else(PoisonError::into_inner);
        assert!(order.next == self.ranges && order.ready.is_empty(), "a range is in no part");
        self.spare.mean.store((order.pairs / self.ranges.max(1)) as u64, Ordering::Relaxed);
        // SAFETY: the first offset is 0, and all others and all pairs were copied from parts.
        unsafe {
            ends.write(0, &[0]);
            let mut results = Ranges::default();
            (results.offsets, results.keys) = (ends.into_vec(self.ranges + 1), keys.into_vec(order.pairs));
            results.values = values.into_vec(order.pairs);
            Ok(results)
        }
    }

    fn order(&self) -> MutexGuard<'_, Order<K, V>> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies a part to its place. If there is no room, it is made for `expected` pairs.
    fn copy(&self, part: &Part<K, V>, place: usize, expected: usize) -> Result<()> {
        let end = place + part.keys.len();
        let mut out = self.out.read().unwrap_or_else(PoisonError::into_inner);
        while out.keys.len() < end || out.values.len() < end {
            drop(out);
            let mut growing = self.out.write().unwrap_or_else(PoisonError::into_inner);
            growing.keys.make_room(end, expected)?;
            growing.values.make_room(end, expected)?;
            drop(growing);
            out = self.out.read().unwrap_or_else(PoisonError::into_inner);
        }
        let mut ends = [0; 256];
        // SAFETY: no other part has these ranges and pairs, and there is room for them.
        unsafe {
            for (i, own) in part.ends.chunks(ends.len()).enumerate() {
                ends.iter_mut().zip(own).for_each(|(end, own)| *end = (place + own) as u64);
                out.ends.write(part.first + 1 + i * ends.len(), &ends[..own.len()]);
            }
            out.keys.write(place, &part.keys);
            out.values.write(place, &part.values);
        }
        Ok(())
    }

    /// Keeps the memory of a part for later ones.
    fn keep(&self, mut part: Part<K, V>) {
        if part.keys.capacity() > KEPT_PAIRS {
            return;
        }
        part.ends.clear();
        part.keys.clear();
        part.values.clear();
        let mut spare = self.spare.parts();
        if spare.len() < KEPT_PARTS {
            spare.push(part);
        }
    }
}

impl<K, V> Order<K, V> {
    /// The part whose place is known now, if it is there.
    fn next_part(&mut self) -> Option<Part<K, V>> {
        self.early.remove(&self.next)
    }
}

/// An array whose elements several threads write, each its own.
struct Array<T>(Vec<UnsafeCell<MaybeUninit<T>>>);

// SAFETY: elements are written by `write` only, whose callers do not write the same ones, and read when nobody shares it.
unsafe impl<T: Send> Sync for Array<T> {}

impl<T: Copy> Array<T> {
    /// With the memory of a vector, but none of its elements.
    fn of(vector: Vec<T>) -> Self {
        let mut vector = ManuallyDrop::new(vector);
        let (start, capacity) = (vector.as_mut_ptr().cast(), vector.capacity());
        // SAFETY: the vector's memory, which it does not free; an element has the same layout, and needs no value.
        Self(unsafe { Vec::from_raw_parts(start, capacity, capacity) })
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    /// Makes room for `expected` elements, and at least for `needed` and half as many again as there are, if there is none
    /// for `needed`.
    ///
    /// # Errors
    /// [`Error::Runtime`] if main memory has no room for `needed`.
    fn make_room(&mut self, needed: usize, expected: usize) -> Result<()> {
        if self.len() < needed {
            let had = self.len();
            let bytes = |len: usize| (len - had) as u128 * size_of::<T>() as u128;
            let len = needed.max(expected).max(had + had / 2);
            let is_granted = check_free(bytes(len)).is_ok() && self.0.try_reserve_exact(len - had).is_ok();
            if !is_granted {
                check_free(bytes(needed))?;
                room::make_room(&mut self.0, needed - had)?;
            }
            // SAFETY: an element needs no value.
            unsafe { self.0.set_len(self.0.capacity()) };
        }
        Ok(())
    }

    /// Writes elements from a place on.
    ///
    /// # Safety
    /// There is room for them, and nobody else writes them.
    unsafe fn write(&self, at: usize, elements: &[T]) {
        let to = self.0[at..at + elements.len()].as_ptr();
        // SAFETY: the caller's contract; the elements are cells, so that a shared reference may write them.
        unsafe { core::ptr::copy_nonoverlapping(elements.as_ptr(), UnsafeCell::raw_get(to).cast(), elements.len()) };
    }

    /// The first elements.
    ///
    /// # Safety
    /// They have been written.
    unsafe fn into_vec(self, len: usize) -> Vec<T> {
        assert!(len <= self.len(), "no room for what was written");
        let mut cells = ManuallyDrop::new(self.0);
        // SAFETY: the memory of the cells, which they do not free; the first `len` elements have values.
        unsafe { Vec::from_raw_parts(cells.as_mut_ptr().cast(), len, cells.capacity()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_frame::parallel::*;

    /// Range `i` has `i * i % 7` pairs, or many more now and then.
    fn len(i: usize) -> usize {
        if i % 50 == 3 { 900 } else { i * i % 7 }
    }

    fn pair(i: usize, at: usize) -> (u64, u32) {
        ((i << 20 | at) as u64, (i + at) as u32)
    }

    fn check(spare: &Spare<u64, u32>, ranges: usize, per_part: usize, results: Ranges<u64, u32>) -> Ranges<u64, u32> {
        let assembly = Assembly::new(ranges, spare, results).unwrap();
        // In no order: multiples of a prime.
        let parts = ranges.div_ceil(per_part);
        let firsts: Vec<usize> = (0..parts).map(|i| i * 1_000_003 % parts * per_part).collect();
        firsts.into_par_iter().for_each(|first| {
            let mut part = assembly.part(first);
            assert!(part.ends.is_empty() && part.keys.is_empty() && part.values.is_empty());
            for i in first..ranges.min(first + per_part) {
                for (key, value) in (0..len(i)).map(|at| pair(i, at)) {
                    part.keys.push(key);
                    part.values.push(value);
                }
                part.ends.push(part.keys.len());
            }
            assembly.add(part);
        });
        let results = assembly.finish().unwrap();
        assert_eq!((results.len(), results.offsets.len()), (ranges, ranges + 1));
        for i in 0..ranges {
            let (keys, values): (Vec<u64>, Vec<u32>) = (0..len(i)).map(|at| pair(i, at)).unzip();
            assert_eq!(results.get(i), (&keys[..], &values[..]), "range {i} of {ranges}");
        }
        results
    }

    #[test]
    fn parts_that_come_in_any_order_are_put_together_in_theirs() {
        let spare = Spare::default();
        let mut results = Ranges::default();
        for (ranges, per_part) in [(0, 1), (1, 1), (1000, 1), (5000, 7), (300, 400), (2000, 33), (1000, 1)] {
            results = check(&spare, ranges, per_part, results);
        }
        assert!(spare.bytes() > 0 && spare.parts().iter().all(|part| part.keys.capacity() <= KEPT_PAIRS));
        let mean = results.keys.len() / results.len();
        assert_eq!((mean, spare.bucket()), (19, BUCKET as usize / 19));
    }

    #[test]
    fn what_is_left_of_other_results_does_not_matter() {
        let spare = Spare::default();
        let keys = vec![1, 2, 3];
        let results = Ranges { offsets: vec![7; 90], keys: keys.clone(), values: Vec::new() };
        check(&spare, 60, 5, results);
        let unfinished = Assembly::new(10, &spare, Ranges { offsets: Vec::new(), keys, values: vec![5; 9] }).unwrap();
        unfinished.add(Part { first: 4, ends: vec![1], keys: vec![8], values: vec![9] });
        drop(unfinished);
    }
}
