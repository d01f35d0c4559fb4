//! What a CPU programmer would use: the standard library's B-tree, and binary search over a sorted
//! vector; and where threads update it, a concurrent B+tree. All of them work off batches with the threads
//! of the current rayon pool; in a pool of one thread (`ThreadPool::install`) they are single-threaded.

use lanetree_base::parallel::*;
use std::collections::BTreeMap;

/// Queries of one task.
const TASK: usize = 1 << 12;

/// A sorted vector of keys and one of values.
///
/// ```
/// use lanetree_baselines::cpu::SortedVec;
///
/// let sorted = SortedVec::new(vec![1, 3], vec![10, 30]);
/// let mut out = [None; 2];
/// sorted.get_into(&[3, 2], &mut out);
/// assert_eq!(out, [Some(30), None]);
/// ```
#[derive(Clone, Debug)]
pub struct SortedVec<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
}

impl<K: Ord + Copy + Sync, V: Copy + Send + Sync> SortedVec<K, V> {
    /// Of strictly ascending keys and as many values; in any other order look-ups miss keys.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn new(keys: Vec<K>, values: Vec<V>) -> Self {
        assert_eq!(keys.len(), values.len(), "each key needs one value");
        Self { keys, values }
    }

    /// The value of a key.
    pub fn get(&self, key: K) -> Option<V> {
        self.keys.binary_search(&key).ok().map(|rank| self.values[rank])
    }

    /// Sets `out[i]` to the value of `queries[i]`, or `None` if it is absent: by all threads.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn get_into(&self, queries: &[K], out: &mut [Option<V>]) {
        in_tasks(queries, out, |key| self.get(key));
    }
}

/// [`std::collections::BTreeMap`], looked up in batches.
#[derive(Clone, Debug)]
pub struct BTree<K, V> {
    map: BTreeMap<K, V>,
}

impl<K: Ord + Copy + Send + Sync, V: Copy + Send + Sync> BTree<K, V> {
    /// Of pairs in any order; of equal keys, the last one's value is kept. Ascending pairs build fastest.
    pub fn new(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Self { map: pairs.into_iter().collect() }
    }

    /// Sets `out[i]` to the value of `queries[i]`, or `None` if it is absent: by all threads.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn get_into(&self, queries: &[K], out: &mut [Option<V>]) {
        in_tasks(queries, out, |key| self.map.get(&key).copied());
    }
}

/// [`scc::TreeIndex`], a B+tree that any number of threads read and update at the same time, without
/// locks for readers.
#[derive(Default)]
pub struct ConcurrentTree<K: 'static, V: 'static> {
    tree: scc::TreeIndex<K, V>,
}

impl<K: Ord + Copy + Send + Sync, V: Copy + Send + Sync> ConcurrentTree<K, V> {
    /// Inserts pairs; how many of their keys were not there. The values of those that were stay.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn insert_many(&self, keys: &[K], values: &[V]) -> usize {
        assert_eq!(keys.len(), values.len(), "each key needs one value");
        let insert = |(&key, &value): (&K, &V)| usize::from(self.tree.insert_sync(key, value).is_ok());
        let tasks = keys.par_chunks(TASK).zip(values.par_chunks(TASK));
        tasks.map(|(keys, values)| keys.iter().zip(values).map(insert).sum::<usize>()).sum()
    }

    /// Removes keys; how many of them were there.
    pub fn remove_many(&self, keys: &[K]) -> usize {
        let remove = |key| usize::from(self.tree.remove_sync(key));
        keys.par_chunks(TASK).map(|keys| keys.iter().map(remove).sum::<usize>()).sum()
    }

    /// Sets `out[i]` to the value of `queries[i]`, or `None` if it is absent: by all threads.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn get_into(&self, queries: &[K], out: &mut [Option<V>]) {
        in_tasks(queries, out, |key| self.tree.peek_with(&key, |_, &value| value));
    }
}

fn in_tasks<K: Copy + Sync, V: Send>(queries: &[K], out: &mut [V], get: impl Fn(K) -> V + Sync) {
    assert_eq!(queries.len(), out.len(), "each query needs a place for its result");
    queries.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).for_each(|(queries, out)| {
        for (out, &key) in out.iter_mut().zip(queries) {
            *out = get(key);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_find_the_same() {
        let keys: Vec<u64> = (0..10_000).map(|i| i * 3).collect();
        let values: Vec<u64> = keys.iter().map(|key| key ^ 0x55).collect();
        let queries: Vec<u64> = (0..9_000).map(|i| i * 7919 % 30_000).collect();
        let expected: Vec<Option<u64>> = queries.iter().map(|key| (key % 3 == 0).then_some(key ^ 0x55)).collect();
        let btree = BTree::new(keys.iter().copied().zip(values.iter().copied()));
        let sorted = SortedVec::new(keys, values);
        let (mut by_btree, mut by_search) = (vec![None; queries.len()], vec![None; queries.len()]);
        btree.get_into(&queries, &mut by_btree);
        sorted.get_into(&queries, &mut by_search);
        assert_eq!(by_btree, expected);
        assert_eq!(by_search, expected);
    }

    #[test]
    fn threads_may_update_the_concurrent_tree() {
        let keys: Vec<u64> = (0..30_000).map(|i| i * 7919 % 30_011).collect();
        let tree = ConcurrentTree::default();
        assert_eq!(tree.insert_many(&keys[..20_000], &keys[..20_000]), 20_000);
        assert_eq!(tree.insert_many(&keys, &vec![0; keys.len()]), 10_000);
        assert_eq!(tree.remove_many(&keys[..5000]), 5000);
        let mut out = vec![None; keys.len()];
        tree.get_into(&keys, &mut out);
        assert!(out[..5000].iter().all(Option::is_none));
        assert!(out[5000..20_000].iter().zip(&keys[5000..]).all(|(value, key)| *value == Some(*key)));
        assert!(out[20_000..].iter().all(|value| *value == Some(0)));
    }
}
