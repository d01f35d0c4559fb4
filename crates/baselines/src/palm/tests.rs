use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// A small generator of random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// The bounds that a node's keys are within: not below the first, below the second.
type Bounds<W> = (W, Option<W>);

/// Checks all that a tree promises of its structure, and that it has exactly the pairs of the map.
fn check<K: Key, V: Word>(tree: &Tree<K, V>, map: &BTreeMap<K, V>) {
    let nodes = &tree.nodes;
    let mut level: Vec<(u32, Bounds<K::Bits>)> = vec![(nodes.root, (K::Bits::MIN, None))];
    let mut inner = BTreeSet::new();
    for _ in 0..nodes.depth {
        let mut below = Vec::new();
        for (number, (low, high)) in level {
            assert!(inner.insert(number), "inner node {number} has one parent");
            let node = nodes.inner.node(number);
            assert!(!node.slots.is_empty() && node.slots.len() <= nodes.inner.order());
            let separators = &node.keys[1..];
            assert!(separators.is_sorted_by(|a, b| a < b), "separators ascend");
            assert!(separators.iter().all(|&key| key >= low && high.is_none_or(|high| key < high)));
            let lows = core::iter::once(low).chain(separators.iter().copied());
            let highs = separators.iter().map(|&key| Some(key)).chain([high]);
            below.extend(node.slots.iter().copied().zip(lows.zip(highs)));
        }
        level = below;
    }
    assert!(nodes.depth == 0 || nodes.inner.node(nodes.root).slots.len() > 1, "a root has two children");
    let leaves: BTreeSet<u32> = level.iter().map(|&(leaf, _)| leaf).collect();
    assert_eq!(leaves.len(), level.len(), "a leaf has one parent");
    for &(leaf, (low, high)) in &level {
        let leaf = nodes.leaves.node(leaf);
        assert!(!leaf.keys.is_empty() || nodes.depth == 0, "no leaf but the root is empty");
        assert!(leaf.keys.iter().all(|&key| key >= low && high.is_none_or(|high| key < high)));
    }
    // Every node has one use: in the tree, or waiting for its next.
    assert_eq!(nodes.leaves.count_unused() + leaves.len(), nodes.leaves.count());
    assert_eq!(nodes.inner.count_unused() + inner.len(), nodes.inner.count());
    assert_eq!(tree.len(), map.len());
    assert!(tree.iter().eq(map.iter().map(|(&key, &value)| (key, value))));
}

/// Applies a batch to the map, and returns what its searches find and what its report counts: inserted, replaced, removed.
fn expect<K: Key, V: Word>(map: &mut BTreeMap<K, V>, operations: &[Operation<K, V>]) -> (Vec<Option<V>>, [usize; 3]) {
    let before = map.clone();
    let mut written = BTreeSet::new();
    let mut found = vec![None; operations.len()];
    for (operation, found) in operations.iter().zip(&mut found) {
        match *operation {
            Operation::Search(key) => *found = map.get(&key).copied(),
            Operation::Insert(key, value) => {
                map.insert(key, value);
                written.insert(key);
            }
            Operation::Remove(key) => {
                map.remove(&key);
            }
        }
    }
    let inserted = map.keys().filter(|key| !before.contains_key(key)).count();
    let replaced = written.iter().filter(|key| map.contains_key(key) && before.contains_key(key)).count();
    let removed = before.keys().filter(|key| !map.contains_key(key)).count();
    (found, [inserted, replaced, removed])
}

fn counts(report: &Report) -> [usize; 3] {
    [report.inserted, report.replaced, report.removed]
}

fn apply<K: Key, V: Word>(tree: &mut Tree<K, V>, map: &mut BTreeMap<K, V>, operations: &[Operation<K, V>]) {
    let (expected, changed) = expect(map, operations);
    let mut found = vec![None; operations.len()];
    let report = tree.apply_palm(operations, &mut found);
    assert_eq!(counts(&report), changed);
    assert_eq!(found, expected);
    check(tree, map);
}

/// Which keys a random batch has.
#[derive(Clone, Copy, Debug)]
enum Keys {
    Uniform,
    /// Four of five in one small range.
    Skewed,
    Ascending,
}

impl Keys {
    const ALL: [Self; 3] = [Self::Uniform, Self::Skewed, Self::Ascending];

    fn draw(self, random: &mut Random, number: usize) -> u64 {
        match self {
            Self::Skewed if random.below(5) > 0 => 40_000 + random.below(900),
            Self::Uniform | Self::Skewed => random.below(100_000),
            Self::Ascending => 50_000 + number as u64 / 2,
        }
    }
}

/// Of ten operations, this many remove, and one searches.
fn operations<K: Key, V: Word>(random: &mut Random, keys: Keys, len: usize, removes: u64) -> Vec<Operation<K, V>> {
    let operation = |number| {
        let key = K::decode(KeyWord::truncate(keys.draw(random, number)));
        match random.below(10) {
            0 => Operation::Search(key),
            kind if kind <= removes => Operation::Remove(key),
            _ => Operation::Insert(key, V::truncate(random.next())),
        }
    };
    (0..len).map(operation).collect()
}

fn batches<K: Key, V: Word>(order: usize, threads: usize, fill: f64) {
    let mut random = Random(order as u64 * 64 + threads as u64);
    for keys in Keys::ALL {
        let pairs: BTreeMap<K, V> = (0..1500)
            .map(|_| (K::decode(KeyWord::truncate(random.below(100_000))), V::truncate(random.next())))
            .collect();
        let (old_keys, old_values): (Vec<K>, Vec<V>) = pairs.iter().map(|(&key, &value)| (key, value)).unzip();
        let options = Options { order, fill, threads };
        let (mut tree, report) = Tree::build_parallel(&old_keys, &old_values, options);
        assert_eq!(counts(&report), [pairs.len(), 0, 0]);
        let mut map = pairs;
        check(&tree, &map);
        for (len, removes) in [(0, 0), (1, 0), (3, 5), (40, 5), (1000, 0), (2500, 4), (3000, 8), (3000, 9), (500, 1)] {
            apply(&mut tree, &mut map, &operations(&mut random, keys, len, removes));
        }
    }
}

#[test]
fn random_batches_do_what_a_map_does() {
    for order in [4, 8, 16, 64, 512] {
        for threads in [1, 2, 3, 8] {
            batches::<u64, u64>(order, threads, 1.0);
        }
    }
    batches::<u32, u32>(8, 3, 0.7);
    batches::<i64, u32>(7, 2, 0.01);
    batches::<i32, u64>(9, 2, 0.5);
    batches::<lanetree_layout::F64, u64>(16, 2, 0.7);
}

#[test]
fn all_ways_of_insertion_do_the_same() {
    let mut random = Random(77);
    for (order, threads, keys) in
        [(8, 1, Keys::Uniform), (8, 3, Keys::Skewed), (16, 2, Keys::Ascending), (64, 8, Keys::Uniform)]
    {
        let options = Options { order, threads, fill: 0.8 };
        let (mut by_pbi, mut by_palm) = (Tree::<u64, u64>::new(options), Tree::<u64, u64>::new(options));
        let mut map = BTreeMap::new();
        for len in [1, 7, 0, 3000, 100, 5000] {
            let pairs: Vec<(u64, u64)> = (0..len).map(|i| (keys.draw(&mut random, i), random.next())).collect();
            let (keys, values): (Vec<u64>, Vec<u64>) = pairs.iter().copied().unzip();
            let inserts: Vec<_> = pairs.iter().map(|&(key, value)| Operation::Insert(key, value)).collect();
            let (_, changed) = expect(&mut map, &inserts);
            assert_eq!(counts(&by_pbi.insert_pbi(&keys, &values)), changed);
            assert_eq!(counts(&by_palm.insert_palm(&keys, &values)), changed);
            check(&by_pbi, &map);
            check(&by_palm, &map);
        }
    }
}

#[test]
fn builds_keep_the_last_of_equal_keys() {
    let mut random = Random(5);
    for len in [0, 1, 2, 16, 17, 256, 257, 5000] {
        let keys: Vec<u64> = (0..len).map(|_| random.below(3000)).collect();
        let values: Vec<u64> = (0..len).collect();
        let map: BTreeMap<u64, u64> = keys.iter().copied().zip(values.iter().copied()).collect();
        for fill in [0.3, 1.0] {
            let options = Options { order: 16, fill, threads: 3 };
            let (single, report) = Tree::build_single(&keys, &values, options);
            assert_eq!(counts(&report), [map.len(), 0, 0]);
            check(&single, &map);
            check(&Tree::build_parallel(&keys, &values, options).0, &map);
        }
    }
}

#[test]
fn a_tree_empties_and_fills_again() {
    for threads in [1, 3] {
        let mut tree = Tree::<u64, u32>::new(Options { order: 8, fill: 1.0, threads });
        tree.reserve(1000);
        let mut map = BTreeMap::new();
        let insert: Vec<_> = (0..4000).map(|key| Operation::Insert(key * 7 % 4001, key as u32)).collect();
        let remove: Vec<_> = (0..4001).map(Operation::Remove).collect();
        apply(&mut tree, &mut map, &remove);
        for _ in 0..3 {
            apply(&mut tree, &mut map, &insert);
            // In parts first, so that whole subtrees go.
            apply(&mut tree, &mut map, &remove[1000..3000]);
            apply(&mut tree, &mut map, &remove);
            assert!(tree.is_empty() && tree.depth() == 0);
        }
        let bytes = tree.bytes();
        for _ in 0..30 {
            apply(&mut tree, &mut map, &insert);
            apply(&mut tree, &mut map, &remove);
        }
        // Threads take nodes in blocks, so the number differs from run to run.
        assert!(tree.bytes() < 2 * bytes, "nodes are used again");
    }
}

#[test]
fn operations_on_a_key_take_place_in_order() {
    use Operation::{Insert, Remove, Search};
    let mut tree = Tree::<u64, u64>::new(Options { order: 4, fill: 1.0, threads: 8 });
    let mut map = BTreeMap::new();
    let operations =
        [Search(5), Insert(5, 1), Search(5), Insert(5, 2), Search(5), Remove(5), Search(5), Insert(5, 3), Search(5)];
    apply(&mut tree, &mut map, &operations);
    apply(&mut tree, &mut map, &operations);
    apply(&mut tree, &mut map, &[Remove(5), Insert(6, 1), Remove(6), Search(5), Search(6)]);
    let mut many = vec![Insert(9, 0); 3000];
    many.extend((0..3000).map(|value| Insert(9, value)));
    apply(&mut tree, &mut map, &many);
}

#[test]
fn the_smallest_and_the_largest_key_are_keys_as_others() {
    use Operation::{Insert, Remove, Search};
    let mut tree = Tree::<u64, u64>::new(Options { order: 4, fill: 1.0, threads: 2 });
    let mut map = BTreeMap::new();
    apply(&mut tree, &mut map, &[Search(0), Insert(u64::MAX, 1), Insert(0, 2), Search(u64::MAX), Search(0)]);
    let between: Vec<_> = (1..200).map(|key| Insert(key << 56 | key, key)).collect();
    apply(&mut tree, &mut map, &between);
    apply(&mut tree, &mut map, &[Search(0), Search(u64::MAX), Remove(0), Search(0), Search(u64::MAX)]);
    apply(&mut tree, &mut map, &[Insert(0, 5), Remove(u64::MAX), Search(u64::MAX)]);
}

#[test]
fn look_ups_find_what_is_there() {
    let mut random = Random(9);
    for len in [0, 3, 20_000] {
        let keys: Vec<u64> = (0..len).map(|_| random.below(50_000)).collect();
        let (tree, _) = Tree::build_parallel(&keys, &keys, Options { order: 16, fill: 0.9, threads: 2 });
        let map: BTreeMap<u64, u64> = keys.iter().map(|&key| (key, key)).collect();
        let queries: Vec<u64> = (0..9000).map(|_| random.below(51_000)).chain([0, u64::MAX]).collect();
        let mut out = vec![None; queries.len()];
        tree.get_into(&queries, &mut out);
        for (key, value) in queries.iter().zip(out) {
            assert_eq!(value, map.get(key).copied());
            assert_eq!(value, tree.get(*key));
        }
    }
}

#[test]
#[should_panic(expected = "order 3: not in 4..=4096")]
fn small_orders_are_rejected() {
    Tree::<u64, u64>::new(Options { order: 3, ..Options::default() });
}

#[test]
fn threads_may_share_a_tree() {
    fn shared<T: Send + Sync>() {}
    shared::<Tree<u64, u64>>();
}
