//! All pairs in order.

use super::Harmonia;
use super::native::View;
use lanetree_frame::Result;
use lanetree_frame::room::{with_room, zeroed};
use lanetree_kernels_harmonia::layout::leaf_bytes;
use lanetree_layout::{Key, Word};

/// Leaves that are fetched from the device at a time.
const LEAVES: u32 = 1 << 14;

/// Iterates over a tree's pairs in ascending order of their keys. Fetches the leaves from the device in large blocks;
/// if that fails, the item is an error and the iteration ends. The first item of a lost tree is
/// [`Error::Lost`](lanetree_frame::Error::Lost).
#[derive(Debug)]
pub struct Iter<'a, K: Key, V: Word> {
    tree: &'a Harmonia<K, V>,
    /// The next leaf to fetch.
    leaf: u32,
    /// Pairs fetched.
    fetched: u64,
    pairs: std::vec::IntoIter<(K, V)>,
}

impl<K: Key, V: Word> Harmonia<K, V> {
    /// All pairs in ascending order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter { tree: self, leaf: 0, fetched: 0, pairs: Vec::new().into_iter() }
    }

    /// The pairs of `count` leaves from the `leaf`-th on.
    fn fetch(&self, leaf: u32, count: u32) -> Result<Vec<(K, V)>> {
        self.whole.check()?;
        let shape = &self.shape;
        let leaf_words = leaf_bytes::<K::Bits, V>(shape.fanout) as usize / 8;
        let mut words = zeroed(count as usize * leaf_words)?;
        self.leaves.copy_range_to(leaf as usize * leaf_words, &mut words)?;
        let mut ranks = None;
        if let Some(all) = &self.ranks {
            let mut part = zeroed(count as usize + 1)?;
            all.copy_range_to(leaf as usize, &mut part)?;
            ranks = Some(part);
        }
        let view = View::<K, V>::new(shape, &[], &words, None);
        let mut pairs = with_room(count as usize * shape.fanout as usize)?;
        for i in 0..count {
            let len = match &ranks {
                Some(ranks) => (ranks[i as usize + 1] - ranks[i as usize]) as usize,
                None => shape.leaf_len(leaf + i) as usize,
            };
            let keys = view.leaf_keys(i)[..len].iter().map(|&word| K::decode(word));
            pairs.extend(keys.zip(view.leaf_values(i).iter().copied()));
        }
        Ok(pairs)
    }
}

impl<K: Key, V: Word> Iterator for Iter<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(pair) = self.pairs.next() {
            return Some(Ok(pair));
        }
        let left = self.tree.shape.leaves - self.leaf;
        if left == 0 {
            return None;
        }
        match self.tree.fetch(self.leaf, left.min(LEAVES)) {
            Ok(pairs) => {
                self.leaf += left.min(LEAVES);
                self.fetched += pairs.len() as u64;
                self.pairs = pairs.into_iter();
                self.pairs.next().map(Ok)
            }
            Err(error) => {
                self.leaf = self.tree.shape.leaves;
                self.fetched = self.tree.len();
                Some(Err(error))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.tree.len() - self.fetched) as usize + self.pairs.len();
        // Fewer only if fetching fails.
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
