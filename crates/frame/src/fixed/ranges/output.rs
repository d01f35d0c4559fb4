//! Where the results of a batch of ranges go.

use core::mem::MaybeUninit;
use lanetree_base::parallel::*;
use lanetree_base::ranges::Ranges;
use lanetree_base::room::{make_room, out_of_memory};
use lanetree_base::{Device, Error, Result};
use lanetree_layout::{AnyKey, Value};

/// Elements that a thread copies at a time, if several threads copy.
const COPY: usize = 1 << 15;

/// The results so far.
pub(in crate::fixed) struct Output<'a, K, V> {
    pub(in crate::fixed) ranges: &'a mut Ranges<K, V>,
    /// Pairs of the ranges whose counts are known.
    pub(in crate::fixed) counted: u64,
}

impl<'a, K: AnyKey, V: Value> Output<'a, K, V> {
    pub(in crate::fixed) fn new(ranges: &'a mut Ranges<K, V>) -> Self {
        ranges.offsets.clear();
        ranges.keys.clear();
        ranges.values.clear();
        Self { ranges, counted: 0 }
    }

    /// Takes a piece's offsets, and makes room for its pairs. Returns the number of its pairs, and the number of pairs
    /// of its longest range.
    pub(in crate::fixed) fn count(&mut self, offsets: &[u64], left: usize) -> Result<(u64, u64)> {
        let (count, before) = (offsets.len() - 1, self.counted);
        let total = offsets[count];
        let length = |pair: &[u64]| pair[1] - pair[0];
        let longest = match count <= COPY {
            true => offsets.windows(2).map(length).max(),
            false => offsets.par_windows(2).with_min_len(COPY).map(length).max(),
        };
        let out = &mut *self.ranges;
        let known = out.offsets.len().max(1) - 1 + count;
        reserve_offsets(&mut out.offsets, count + 1, left)?;
        if out.offsets.is_empty() {
            out.offsets.push(0);
        }
        self.counted = before.checked_add(total).ok_or_else(|| out_of_memory(u128::MAX))?;
        // Assumes that the remaining ranges have as many pairs each as those before, within reason.
        let expected = self.counted as f64 * (known.saturating_add(left) as f64 / known as f64).min(64.0);
        reserve_pairs(out, self.counted, expected as u64)?;
        append(&mut out.offsets, &offsets[1..], |offset| before + offset);
        Ok((total, longest.unwrap_or(0)))
    }

    /// Appends pairs, for which there is room.
    pub(in crate::fixed) fn append(&mut self, keys: &[K], values: &[V]) {
        append(&mut self.ranges.keys, keys, |key| key);
        append(&mut self.ranges.values, values, |value| value);
    }
}

/// Makes room for `needed` more offsets, and for up to `left` more after them.
fn reserve_offsets(offsets: &mut Vec<u64>, needed: usize, left: usize) -> Result<()> {
    if offsets.capacity() - offsets.len() >= needed {
        return Ok(());
    }
    // How many are left is what the caller's iterator claims; it is believed only if there is plenty of room.
    let expected = needed.saturating_add(left);
    let plenty = free_memory()? / 2;
    if expected.saturating_mul(size_of::<u64>()) <= plenty && offsets.try_reserve(expected).is_ok() {
        return Ok(());
    }
    make_room(offsets, needed)
}

/// Free bytes of main memory, as far as the system reports them.
fn free_memory() -> Result<usize> {
    Ok(match Device::host().memory()?.free {
        0 => usize::MAX,
        free => usize::try_from(free).unwrap_or(usize::MAX),
    })
}

/// Makes room for `needed` pairs in all, or for as many as are expected. The system grants more memory than it has, and
/// kills processes that use it all. So this first asks how much is free.
pub(in crate::fixed) fn reserve_pairs<K, V>(out: &mut Ranges<K, V>, needed: u64, expected: u64) -> Result<()> {
    let bytes = u128::from(needed) * (size_of::<K>() + size_of::<V>()) as u128;
    let no_room = || out_of_memory(bytes);
    let needed = usize::try_from(needed).map_err(|_| no_room())?;
    let capacity = out.keys.capacity().min(out.values.capacity());
    if needed <= capacity {
        return Ok(());
    }
    let free = free_memory()?;
    // Neither vector need be as long as the other: the caller may have left anything in them.
    let (keys, values) = (out.keys.len(), out.values.len());
    let more = |pairs: usize| {
        let more_keys = pairs.saturating_sub(keys).saturating_mul(size_of::<K>());
        more_keys.saturating_add(pairs.saturating_sub(values).saturating_mul(size_of::<V>()))
    };
    if more(needed) > free {
        return Err(Error::TooManyRows { rows: needed as u64, bytes: more(needed) as u128, free: free as u64 });
    }
    let mut try_reserve = |pairs: usize| {
        out.keys.try_reserve_exact(pairs.saturating_sub(keys)).is_ok()
            && out.values.try_reserve_exact(pairs.saturating_sub(values)).is_ok()
    };
    let generous = needed.max(expected as usize).max(capacity.saturating_mul(2));
    let granted = more(generous) <= free / 2 && try_reserve(generous);
    if granted || try_reserve(needed) { Ok(()) } else { Err(no_room()) }
}

/// Appends converted elements.
fn append<T: Copy + Sync, U: Send>(out: &mut Vec<U>, from: &[T], convert: impl Fn(T) -> U + Sync) {
    append_with(out, from.len(), |at| convert(from[at]));
}

/// Appends `count` elements, with several threads if there are many.
pub(in crate::fixed) fn append_with<U: Send>(out: &mut Vec<U>, count: usize, element: impl Fn(usize) -> U + Sync) {
    out.reserve(count);
    let write = |to: &mut [MaybeUninit<U>], first: usize| {
        for (i, to) in to.iter_mut().enumerate() {
            to.write(element(first + i));
        }
    };
    let to = &mut out.spare_capacity_mut()[..count];
    match count <= COPY {
        true => write(to, 0),
        false => to.par_chunks_mut(COPY).enumerate().for_each(|(task, to)| write(to, task * COPY)),
    }
    // SAFETY: `count` elements were written right after the last one.
    unsafe { out.set_len(out.len() + count) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_beyond_memory_are_refused_before_they_are_gathered() {
        let mut out = Ranges::<u64, u64> { offsets: vec![0, 1], keys: vec![7], values: vec![8] };
        for pairs in [1 << 44, 1 << 60, u64::MAX] {
            let error = reserve_pairs(&mut out, pairs, pairs).unwrap_err().to_string();
            assert!(error.starts_with(&format!("main memory has no room for {pairs} rows")), "{error}");
        }
        assert_eq!((&out.keys[..], &out.values[..]), (&[7][..], &[8][..]));
        reserve_pairs(&mut out, 1000, u64::MAX).unwrap();
        assert!(out.keys.capacity() >= 1000 && out.values.capacity() >= 1000);
    }
}
