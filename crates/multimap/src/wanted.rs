//! A batch of pairs to remove, in order.

use lanetree_frame::Result;
use lanetree_frame::parallel::*;
use lanetree_frame::room::{copied, push, zeroed};
use lanetree_layout::{AnyKey, Word};

/// Pairs of a task of the CPU's: enough to outweigh its dispatch.
const TASK: usize = 1 << 14;

/// The distinct pairs of a batch, in ascending order of keys and values.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted<K, V> {
    /// The distinct keys.
    pub(crate) keys: Vec<K>,
    /// The first of each key's values; one more than there are keys.
    pub(crate) offsets: Vec<u64>,
    /// The distinct values of each key.
    pub(crate) values: Vec<V>,
    /// How often each is in the batch.
    pub(crate) times: Vec<u64>,
    /// The key of each, by its place in `keys`.
    pub(crate) rows: Vec<u64>,
}

impl<K: AnyKey, V: Word> Wanted<K, V> {
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if main memory has no room.
    pub(crate) fn new(pairs: &[(K, V)]) -> Result<Self> {
        let mut pairs = copied(pairs)?;
        sort_by_word(&mut pairs, |pair| pair.1)?;
        sort_by_word(&mut pairs, |pair| pair.0.encode())?;
        let pairs = &pairs[..];
        // Where equal pairs begin, and where the pairs of one key do among these.
        let begins = |&i: &usize| i == 0 || pairs[i] != pairs[i - 1];
        let firsts = (0..pairs.len()).into_par_iter().with_min_len(TASK).filter_collect(begins)?;
        let key = |value: usize| pairs[firsts[value]].0;
        let begins = |value: usize| (value == 0 || key(value) != key(value - 1)).then_some(value as u64);
        let mut offsets = (0..firsts.len()).into_par_iter().with_min_len(TASK).filter_map_collect(begins)?;
        let keys = offsets.par_iter().with_min_len(TASK).map(|&first| key(first as usize)).try_collect()?;
        let values = firsts.par_iter().with_min_len(TASK).map(|&first| pairs[first].1).try_collect()?;
        let end = |value: usize| firsts.get(value + 1).copied().unwrap_or(pairs.len());
        let times = (0..firsts.len()).into_par_iter().with_min_len(TASK);
        let times = times.map(|value| (end(value) - firsts[value]) as u64).try_collect()?;
        let mut rows = zeroed(firsts.len())?;
        rows.par_chunks_mut(TASK).enumerate().for_each(|(task, rows)| {
            let first = (task * TASK) as u64;
            // The key that the task's first value belongs to is the last one that begins there or before.
            let mut key = offsets.partition_point(|&begin| begin <= first) - 1;
            for (value, row) in (first..).zip(rows) {
                key += usize::from(offsets.get(key + 1) == Some(&value));
                *row = key as u64;
            }
        });
        push(&mut offsets, firsts.len() as u64)?;
        Ok(Self { keys, offsets, values, times, rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_pairs_are_counted_and_keys_are_rows() {
        let wanted = Wanted::new(&[(7_i32, 1_u32), (-1, 5), (7, 0), (7, 1), (7, 1)]).unwrap();
        let expected = Wanted {
            keys: vec![-1, 7],
            offsets: vec![0, 1, 3],
            values: vec![5, 0, 1],
            times: vec![1, 1, 3],
            rows: vec![0, 1, 1],
        };
        assert_eq!(wanted, expected);
        assert_eq!(Wanted::<u64, u32>::new(&[]).unwrap().offsets, [0]);
    }

    #[test]
    fn what_several_threads_make_is_what_one_does() {
        // One key with more values than a task has, keys with one value and with a few, each pair up to three times.
        let many = (0..3 * TASK as u64).flat_map(|i| core::iter::repeat_n((7_u64, i), 1 + i as usize % 3));
        let few = (8..2 * TASK as u64).map(|i| (i / (1 + i % 4), i % 5));
        let mut pairs: Vec<(u64, u64)> = many.chain(few).collect();
        pairs.reverse();
        let mut expected = std::collections::BTreeMap::<u64, std::collections::BTreeMap<u64, u64>>::new();
        for &(key, value) in &pairs {
            *expected.entry(key).or_default().entry(value).or_default() += 1;
        }
        let wanted = Wanted::new(&pairs).unwrap();
        assert_eq!(wanted.keys, expected.keys().copied().collect::<Vec<_>>());
        assert_eq!(wanted.offsets.len(), expected.len() + 1);
        for (row, of_key) in expected.values().enumerate() {
            let (start, end) = (wanted.offsets[row] as usize, wanted.offsets[row + 1] as usize);
            assert!(wanted.values[start..end].iter().eq(of_key.keys()));
            assert!(wanted.times[start..end].iter().eq(of_key.values()));
            assert!(wanted.rows[start..end].iter().all(|&of| of == row as u64));
        }
        assert_eq!(wanted.offsets.last(), Some(&(wanted.values.len() as u64)));
        assert!(wanted.times.len() == wanted.values.len() && wanted.rows.len() == wanted.values.len());
    }
}
