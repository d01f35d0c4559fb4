//! A batch of pairs to remove, in order.

use lanetree_frame::Result;
use lanetree_frame::parallel::*;
use lanetree_frame::room::{copied, push};
use lanetree_layout::{Key, Word};

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

impl<K: Key, V: Word> Wanted<K, V> {
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if main memory has no room.
    pub(crate) fn new(pairs: &[(K, V)]) -> Result<Self> {
        let mut pairs = copied(pairs)?;
        sort_by_word(&mut pairs, |pair| pair.1)?;
        sort_by_word(&mut pairs, |pair| pair.0.encode())?;
        let mut wanted = Self { keys: vec![], offsets: vec![], values: vec![], times: vec![], rows: vec![] };
        for equal in pairs.chunk_by(|a, b| a == b) {
            let (key, value) = equal[0];
            if wanted.keys.last() != Some(&key) {
                push(&mut wanted.keys, key)?;
                push(&mut wanted.offsets, wanted.values.len() as u64)?;
            }
            push(&mut wanted.values, value)?;
            push(&mut wanted.times, equal.len() as u64)?;
            push(&mut wanted.rows, wanted.keys.len() as u64 - 1)?;
        }
        push(&mut wanted.offsets, wanted.values.len() as u64)?;
        Ok(wanted)
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
}
