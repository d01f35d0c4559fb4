//! B+trees for CPUs that are built and updated in batches, by one thread or many: what CUBPT's paper compares itself with
//! (Huang, Su, Xi, "CUBPT: Lock-free bulk insertions to B+ tree on GPU architecture", 2014, section 4).
//!
//! | name there | source | here |
//! |---|---|---|
//! | SingleBuild | S.-W. Kim, 2001: sort, then build bottom up, a layer at a time | [`Tree::build_single`] |
//! | PBI, build | Liao et al., 2010: the same, a thread per node | [`Tree::build_parallel`] |
//! | PBI, insert | the batch is cut among the leaves, then the splits among their parents; a thread per node | [`Tree::insert_pbi`] |
//! | PALM | J. Sewall et al., "PALM: parallel architecture-friendly latch-free modifications to B+ trees on many-core processors", VLDB 2011 | [`Tree::apply_palm`], [`Tree::insert_palm`] |
//!
//! All of them share one tree, so a tree that one has built can be updated by another. Only one thread ever writes a
//! node, so there are no latches. The stages of a batch:
//!
//! 1. **Sort** by key; operations on the same key stay in order.
//! 2. **Search**: each thread descends with its part of the batch. Operations that pass the same node do it together, and
//!    nodes are prefetched a level ahead.
//! 3. **Leaves**: all operations on a leaf go to one thread, which merges them in. A leaf that overflows becomes as many
//!    leaves as its pairs need, which share them evenly.
//! 4. **Inner nodes**, level by level: the new and the removed children of a node go to one thread, and so on up to the
//!    root, above which one thread adds levels.
//!
//! The ways differ in stages 3 and 4. PBI hands out nodes as tasks, and all threads wait for each other after each level. In
//! PALM, a thread has a fixed part of the batch, and waits only for the threads whose parts border on its nodes.
//!
//! After removals, a node may have any number of pairs but none: without pairs, it is removed from its parent. PALM's paper
//! dissolves underfull nodes and inserts their pairs again; here they stay until they are full or empty. A root with a
//! single child gives way to it.
//!
//! ```
//! use lanetree_baselines::palm::{Operation::*, Options, Tree};
//!
//! let options = Options { threads: 2, ..Options::default() };
//! let (mut tree, _) = Tree::build_parallel(&[3_u64, 1], &[30_u64, 10], options);
//! let mut found = [None; 4];
//! let report = tree.apply_palm(&[Search(3), Insert(2, 20), Remove(3), Search(3)], &mut found);
//! assert_eq!((report.inserted, report.removed), (1, 1));
//! assert_eq!(found, [Some(30), None, None, None]);
//! assert_eq!(tree.iter().collect::<Vec<_>>(), [(1, 10), (2, 20)]);
//! ```

mod arena;
mod batch;
mod edit;
mod nodes;
mod path;
mod rounds;
#[cfg(test)]
mod tests;
mod worker;

use crate::Simd;
use crate::lines::{self, Descent, flip};
use crate::simd::Vector;
use batch::{Entry, Kind};
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;
use lanetree_layout::{AnyKey, Key, KeyWord, Word};
use nodes::Nodes;
use path::NONE;
use rayon::{ThreadPool, ThreadPoolBuilder};
use rounds::Outcome;
use std::time::Instant;
use worker::{Change, Found};

/// Look-ups of [`Tree::get_into`] that a thread has in flight.
const IN_FLIGHT: usize = 64;

/// The shape of a tree, and the threads that update it.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The most pairs of a leaf, and the most children of an inner node: 4 to 4096.
    pub order: usize,
    /// How full a build makes the nodes: above 0, at most 1.
    pub fill: f64,
    /// Threads, 1 to 1024. The tree keeps them for itself, so no batch waits for threads to start.
    pub threads: usize,
}

/// Full nodes of 64 pairs, and as many threads as the machine has processors.
impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(1024));
        Self { order: 64, fill: 1.0, threads }
    }
}

/// An operation of a batch. A batch has the effect of its operations one after another, in the batch's order; so a search
/// finds what the operations before it left, and the last write to a key wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<K, V> {
    /// Finds the value of a key.
    Search(K),
    /// Inserts a pair, or replaces the value of a key that is present.
    Insert(K, V),
    /// Removes a key and its value; if it is not present, does nothing.
    Remove(K),
}

/// What a batch or a build did, and how long its stages took.
///
/// Times of stages that threads pass on their own are of the thread that took longest, and include its waits for others.
/// So they may add up to more than the total. What CUBPT's paper calls the insertion stage is `total - sort - search`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Keys that the tree did not have before and has now.
    pub inserted: usize,
    /// Keys that the tree had before and has still, whose values the batch has written.
    pub replaced: usize,
    /// Keys that the tree had before and has no longer.
    pub removed: usize,
    /// To bring the operations into the order of their keys.
    pub sort: Duration,
    /// The descents; none in a build.
    pub search: Duration,
    /// To modify or build the leaves.
    pub leaves: Duration,
    /// To modify or build the inner nodes.
    pub inner: Duration,
    /// From the call to the return.
    pub total: Duration,
}

/// A B+tree; see [the module](self).
pub struct Tree<K: Key, V: Word> {
    nodes: Nodes<K::Bits, V>,
    pool: ThreadPool,
    keys: PhantomData<K>,
}

impl<K: Key, V: Word> Tree<K, V> {
    /// Without pairs.
    ///
    /// # Panics
    /// If an option is out of range, or without memory or threads.
    pub fn new(options: Options) -> Self {
        let Options { order, fill, threads } = options;
        assert!((4..=4096).contains(&order), "order {order}: not in 4..=4096");
        assert!(fill > 0.0 && fill <= 1.0, "fill {fill}: not above 0 and at most 1");
        assert!((1..=1024).contains(&threads), "{threads} threads: not in 1..=1024");
        Self { nodes: Nodes::new(order, fill), pool: pool(threads), keys: PhantomData }
    }

    /// SingleBuild: of pairs in any order, by one thread; of equal keys, the last one's value is kept. The tree's threads
    /// serve its batches.
    ///
    /// # Panics
    /// As [`new`](Self::new); if the lengths differ, or there are 2³² pairs or more.
    pub fn build_single(keys: &[K], values: &[V], options: Options) -> (Self, Report) {
        let mut tree = Self::new(options);
        let report = build(&mut tree.nodes, keys, values, &pool(1));
        (tree, report)
    }

    /// PBI's build: as [`build_single`](Self::build_single), by the tree's threads, a node at a time.
    ///
    /// # Panics
    /// As `build_single`.
    pub fn build_parallel(keys: &[K], values: &[V], options: Options) -> (Self, Report) {
        let mut tree = Self::new(options);
        let report = build(&mut tree.nodes, keys, values, &tree.pool);
        (tree, report)
    }

    /// Prepares memory for this many more pairs, and for nodes that are half full. Without it, a batch includes the time
    /// that the system takes to supply new pages, which is often longer than the rest.
    ///
    /// # Panics
    /// Without memory.
    pub fn reserve(&mut self, pairs: usize) {
        let order = self.nodes.leaves.order();
        let leaves = 2 * pairs.div_ceil(order);
        self.nodes.leaves.reserve(leaves);
        // Of all levels: each has at most half as many nodes as a half full one has children.
        self.nodes.inner.reserve(2 * leaves.div_ceil(order / 2));
    }

    /// PBI's batch: inserts pairs, or replaces the values of keys that are present; of equal keys, the last one's value is
    /// kept.
    ///
    /// # Panics
    /// If the lengths differ, or there are 2³² pairs or more; without memory.
    pub fn insert_pbi(&mut self, keys: &[K], values: &[V]) -> Report {
        let start = Instant::now();
        let batch = self.pool.install(|| insertions(keys, values));
        self.run(&batch, &mut [], rounds::pbi, start)
    }

    /// PALM's batch of insertions alone; the same as [`insert_pbi`](Self::insert_pbi) in what it does.
    ///
    /// # Panics
    /// If the lengths differ, or there are 2³² pairs or more. Without memory, the process ends: threads that wait for one
    /// that panicked would wait for ever.
    pub fn insert_palm(&mut self, keys: &[K], values: &[V]) -> Report {
        let start = Instant::now();
        let batch = self.pool.install(|| insertions(keys, values));
        self.run(&batch, &mut [], rounds::palm, start)
    }

    /// PALM's batch. If operation `i` is a search, `found[i]` is set to what it finds; the other elements stay.
    ///
    /// # Panics
    /// If the lengths differ, or there are 2³² operations or more. Without memory, as `insert_palm`.
    pub fn apply_palm(&mut self, operations: &[Operation<K, V>], found: &mut [Option<V>]) -> Report {
        assert_eq!(operations.len(), found.len(), "each operation needs a place for its result");
        let start = Instant::now();
        let entry = |number: u32| {
            let (key, value, kind) = match operations[number as usize] {
                Operation::Search(key) => (key, V::MIN, Kind::Search),
                Operation::Insert(key, value) => (key, value, Kind::Insert),
                Operation::Remove(key) => (key, V::MIN, Kind::Remove),
            };
            Entry { key: key.encode(), value, number, kind }
        };
        let batch = self.pool.install(|| batch::sorted(operations.len(), entry));
        self.run(&batch, found, rounds::palm, start)
    }

    fn run(&mut self, batch: &[Entry<K::Bits, V>], found: &mut [Option<V>], way: Way<K, V>, start: Instant) -> Report {
        let sort = start.elapsed();
        let Outcome { top, counts, times } = way(&self.nodes, batch, Found::new(found), &self.pool);
        let above = Instant::now();
        self.nodes.len = self.nodes.len + counts.inserted - counts.removed;
        self.settle(&top);
        Report {
            inserted: counts.inserted,
            replaced: counts.replaced,
            removed: counts.removed,
            sort,
            search: times.search,
            leaves: times.leaves,
            inner: times.inner + above.elapsed(),
            total: start.elapsed(),
        }
    }

    /// Gives the tree one root, once the old one has become several nodes or none.
    fn settle(&mut self, top: &[Change<K::Bits>]) {
        if top.iter().any(|change| change.node == NONE) {
            self.nodes.clear();
        } else if !top.is_empty() {
            let old = (K::Bits::MIN, self.nodes.root);
            let roots = core::iter::once(old).chain(top.iter().map(|change| (change.separator, change.node)));
            self.pool.install(|| self.nodes.raise(roots.collect()));
        }
        self.nodes.lower();
    }

    /// Pairs of the tree.
    pub fn len(&self) -> usize {
        self.nodes.len
    }

    /// Whether it has no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Levels of inner nodes.
    pub fn depth(&self) -> usize {
        self.nodes.depth
    }

    /// Bytes of all nodes, with those that were given up and wait for their next use.
    pub fn bytes(&self) -> usize {
        self.nodes.leaves.bytes() + self.nodes.inner.bytes()
    }

    /// The value of a key.
    pub fn get(&self, key: K) -> Option<V> {
        let leaf = self.nodes.leaves.node(self.nodes.leaf_of(key.encode()));
        leaf.keys.binary_search(&key.encode()).ok().map(|at| leaf.slots[at])
    }

    /// Sets `out[i]` to the value of `queries[i]`. The tree's threads have many look-ups in flight.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn get_into(&self, queries: &[K], out: &mut [Option<V>]) {
        self.pool.install(|| lines::look_up(self, Simd::default(), IN_FLIGHT, queries, out));
    }

    /// All pairs in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.nodes.leaves_in_order().into_iter().flat_map(|leaf| {
            let leaf = self.nodes.leaves.node(leaf);
            leaf.keys.iter().map(|&key| K::decode(key)).zip(leaf.slots.iter().copied())
        })
    }
}

/// [`rounds::palm`] or [`rounds::pbi`].
type Way<K, V> = fn(
    &Nodes<<K as AnyKey>::Bits, V>,
    &[Entry<<K as AnyKey>::Bits, V>],
    Found<'_, V>,
    &ThreadPool,
) -> Outcome<<K as AnyKey>::Bits>;

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().expect("threads for a baseline")
}

/// The sorted entries of pairs that are inserted.
fn insertions<K: Key, V: Word>(keys: &[K], values: &[V]) -> Vec<Entry<K::Bits, V>> {
    assert_eq!(keys.len(), values.len(), "each key needs one value");
    let entry = |number: u32| {
        let (key, value) = (keys[number as usize].encode(), values[number as usize]);
        Entry { key, value, number, kind: Kind::Insert }
    };
    batch::sorted(keys.len(), entry)
}

/// Builds an empty tree bottom up.
fn build<K: Key, V: Word>(nodes: &mut Nodes<K::Bits, V>, keys: &[K], values: &[V], pool: &ThreadPool) -> Report {
    pool.install(|| {
        let start = Instant::now();
        let mut entries = insertions(keys, values);
        batch::keep_last(&mut entries);
        let sort = start.elapsed();
        let leaves = nodes.fill(&entries);
        let filled = start.elapsed();
        nodes.raise(leaves);
        let total = start.elapsed();
        let (leaves, inner) = (filled - sort, total - filled);
        Report { inserted: nodes.len, sort, leaves, inner, total, ..Report::default() }
    })
}

/// The nodes of one level, as look-ups see them.
#[derive(Clone, Copy)]
pub(crate) struct Level {
    /// The root, on its level.
    root: Option<u32>,
    /// Whether the level's children are leaves.
    above_leaves: bool,
}

impl<K: Key, V: Word> Descent<K, V> for Tree<K, V> {
    type Place = u32;
    type Level<'a> = Level;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn levels(&self) -> usize {
        self.nodes.depth
    }

    fn level(&self, level: usize) -> Level {
        Level { root: (level == 0).then_some(self.nodes.root), above_leaves: level + 1 == self.nodes.depth }
    }

    #[inline(always)]
    unsafe fn step<S: Vector>(&self, _: S, level: Level, place: &mut u32, word: K::Bits) {
        let node = self.nodes.inner.node(level.root.unwrap_or(*place));
        let key = flip(word);
        // The first separator has no meaning.
        *place = node.slots[node.keys[1..].partition_point(|&separator| separator <= key)];
        if level.above_leaves {
            self.nodes.leaves.prefetch(*place);
        } else {
            self.nodes.inner.prefetch(*place);
        }
    }

    #[inline(always)]
    unsafe fn finish<S: Vector>(&self, _: S, place: u32, word: K::Bits) -> Option<V> {
        let leaf = self.nodes.leaves.node(if self.nodes.depth == 0 { self.nodes.root } else { place });
        leaf.keys.binary_search(&flip(word)).ok().map(|at| leaf.slots[at])
    }
}

impl<K: Key, V: Word> fmt::Debug for Tree<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (order, depth) = (self.nodes.leaves.order(), self.depth());
        write!(f, "Tree({} pairs, order {order}, {depth} levels of inner nodes)", self.len())
    }
}
