//! All pairs in order.

use super::Harmonia;
use super::native::View;
use crate::Result;
use lanetree_layout::harmonia::leaf_bytes;
use lanetree_layout::{Key, Word};

/// Leaves that are fetched from the device at a time.
const LEAVES: u32 = 1 << 14;

/// Iterates over a tree's pairs in ascending order of their keys. Fetches the leaves from the device in
/// large blocks; an item is an error where that fails, and the iteration ends there.
#[derive(Debug)]
pub struct Iter<'a, K: Key, V: Word> {
    tree: &'a Harmonia<K, V>,
    /// The rank of the next pair to fetch.
    fetched: u64,
    pairs: std::vec::IntoIter<(K, V)>,
}

impl<K: Key, V: Word> Harmonia<K, V> {
    /// All pairs in ascending order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter { tree: self, fetched: 0, pairs: Vec::new().into_iter() }
    }

    /// The pairs of a block of leaves, from the one that holds the pair of rank `first` on.
    fn fetch(&self, first: u64) -> Result<Vec<(K, V)>> {
        let shape = &self.shape;
        let leaf = (first / u64::from(shape.per_leaf)) as u32;
        let count = LEAVES.min(shape.leaves - leaf);
        let leaf_words = leaf_bytes::<K::Bits, V>(shape.fanout) as usize / 8;
        let mut words = vec![0; count as usize * leaf_words];
        self.leaves.copy_range_to(leaf as usize * leaf_words, &mut words)?;
        let pairs = (shape.len - first).min(u64::from(count) * u64::from(shape.per_leaf)) as usize;
        let (mut keys, mut values) = (vec![K::MIN; pairs], vec![V::MIN; pairs]);
        View::new(shape, &[], &words).copy(0, &mut keys, &mut values);
        Ok(keys.into_iter().zip(values).collect())
    }
}

impl<K: Key, V: Word> Iterator for Iter<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(pair) = self.pairs.next() {
            return Some(Ok(pair));
        }
        if self.fetched == self.tree.len() {
            return None;
        }
        match self.tree.fetch(self.fetched) {
            Ok(pairs) => {
                self.fetched += pairs.len() as u64;
                self.pairs = pairs.into_iter();
                self.pairs.next().map(Ok)
            }
            Err(error) => {
                self.fetched = self.tree.len();
                Some(Err(error))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.tree.len() - self.fetched) as usize + self.pairs.len();
        // Short of that only where fetching fails.
        (0, Some(left))
    }
}

impl<'a, K: Key, V: Word> IntoIterator for &'a Harmonia<K, V> {
    type Item = Result<(K, V)>;
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
