//! The static B+-tree, or S+ tree: a B+-tree without child references, searched by SIMD, a batch at a time.
//!
//! As S. Slotin describes it in *Algorithmica* ("Static B-Trees"), and R. Groot Koerkamp tuned it ("Static search trees:
//! 40x faster than binary search", 2024).
//!
//! * **Nodes** are cache lines of 16 32-bit or 8 64-bit separators, so they have 17 or 9 children.
//! * **Layers** are stored one after another, the root first. Child `r` of node `i` is node `17 i + r` (`9 i + r`) of the
//!   layer below, and only nodes that have leaves are stored.
//! * **Leaves** are cache lines, too, with 8 pairs of 32-bit or 4 of 64-bit keys and values. The originals look up keys
//!   only; here the value comes with the line that has the key.
//! * **A look-up** counts a node's separators below the query, by comparing the whole line, and prefetches the child. Many
//!   look-ups are in flight at the same time: all of a group pass a layer before the first one enters the next.
//!
//! ```text
//! layer 0                 | s₀ s₁ … s₇ |                   one line
//! layer 1      | … |      | … |    …     | … |             9 lines
//! leaves     | k₀ k₁ k₂ k₃ v₀ v₁ v₂ v₃ | | … | …           81 lines
//! ```
//!
//! HB+'s implicit tree for CPUs has this shape, too.
//!
//! Not taken over: partitions by the keys' prefix, which pay for uniform keys only, and interleaved halves of a batch,
//! which gained nothing here.

use crate::Simd;
use crate::lines::{self, Descent, Leaves, Lines};
use crate::simd::Vector;
use core::fmt;
use core::ops::Range;
use lanetree_base::parallel::*;
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_runtime::{Line, prefetch};

/// How look-ups are done.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Look-ups that a thread has in flight, 1 to [`MAX_IN_FLIGHT`](crate::MAX_IN_FLIGHT).
    pub in_flight: usize,
    /// The instructions that search a node.
    pub simd: Simd,
}

impl Default for Options {
    fn default() -> Self {
        Self { in_flight: 128, simd: Simd::default() }
    }
}

/// A static B+-tree; see [the module](self). All look-ups use the threads of the current rayon pool.
///
/// ```
/// use lanetree_baselines::splus::SPlusTree;
///
/// let tree = SPlusTree::new(&[1_u64, 3], &[10_u64, 30]);
/// let mut out = [None; 2];
/// tree.get_into(&[3, 2], &mut out);
/// assert_eq!(out, [Some(30), None]);
/// ```
pub struct SPlusTree<K, V> {
    inner: Lines,
    /// The lines of each layer, from the root to the layer above the leaves.
    layers: Vec<Range<usize>>,
    leaves: Leaves<K, V>,
    in_flight: usize,
    simd: Simd,
}

impl<K: Key, V: Word> SPlusTree<K, V> {
    /// Children of a node: one more than keys, which are a cache line.
    const FANOUT: usize = Line::BYTES / K::Bits::BYTES + 1;

    /// Of strictly ascending keys, and one value for each.
    ///
    /// # Panics
    /// If the lengths differ, or the keys are not strictly ascending.
    pub fn new(keys: &[K], values: &[V]) -> Self {
        Self::with_options(keys, values, Options::default())
    }

    /// Builds the tree over ascending keys and their values, with options.
    ///
    /// # Panics
    /// As `new`; and if the number of look-ups in flight is out of range, or this machine lacks the instructions.
    pub fn with_options(keys: &[K], values: &[V], options: Options) -> Self {
        lines::check_options(options.in_flight, options.simd);
        let leaves = Leaves::<K, V>::new(keys, values);
        // The numbers of nodes, from the lowest layer up to the root.
        let mut counts = Vec::new();
        let mut below = leaves.count();
        while below > 1 {
            below = below.div_ceil(Self::FANOUT);
            counts.push(below);
        }
        let mut inner = lines::lines(counts.iter().sum(), 1);
        let mut layers = Vec::new();
        for (height, &count) in counts.iter().enumerate().rev() {
            let start = layers.last().map_or(0, |last: &Range<usize>| last.end);
            let span = Self::FANOUT.pow(height as u32);
            inner[start..start + count].par_iter_mut().enumerate().for_each(|(node, line)| {
                let separators = lines::separators(keys, Leaves::<K, V>::PAIRS, node * Self::FANOUT, span);
                line.words_mut().fill(lines::padding::<K::Bits>());
                for (word, separator) in line.words_mut().iter_mut().zip(separators) {
                    *word = separator;
                }
            });
            layers.push(start..start + count);
        }
        Self { inner, layers, leaves, in_flight: options.in_flight, simd: options.simd }
    }

    /// Changes the number of look-ups in flight.
    ///
    /// # Panics
    /// As [`with_options`](Self::with_options).
    pub fn set_in_flight(&mut self, in_flight: usize) {
        lines::check_options(in_flight, self.simd);
        self.in_flight = in_flight;
    }

    /// Changes the instructions.
    ///
    /// # Panics
    /// As [`with_options`](Self::with_options).
    pub fn set_simd(&mut self, simd: Simd) {
        lines::check_options(self.in_flight, simd);
        self.simd = simd;
    }

    /// Sets `out[i]` to the value of `queries[i]`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn get_into(&self, queries: &[K], out: &mut [Option<V>]) {
        lines::look_up(self, self.simd, self.in_flight, queries, out);
    }

    /// Bytes of the tree: layers and leaves.
    pub fn bytes(&self) -> usize {
        (self.inner.len() + self.leaves.count()) * Line::BYTES
    }
}

/// A layer as look-ups see it.
#[derive(Clone, Copy)]
pub(crate) struct Layer<'a> {
    nodes: &'a [Line],
    /// The first line of the layer below.
    below: *const Line,
}

impl<K: Key, V: Word> Descent<K, V> for SPlusTree<K, V> {
    type Place = usize;
    type Level<'a> = Layer<'a>;

    fn is_empty(&self) -> bool {
        self.leaves.count() == 0
    }

    fn levels(&self) -> usize {
        self.layers.len()
    }

    fn level(&self, level: usize) -> Layer<'_> {
        let nodes = &self.inner[self.layers[level].clone()];
        let below = self.layers.get(level + 1).map_or(self.leaves.as_ptr(), |below| self.inner[below.clone()].as_ptr());
        Layer { nodes, below }
    }

    #[inline(always)]
    unsafe fn step<S: Vector>(&self, simd: S, layer: Layer<'_>, node: &mut usize, word: K::Bits) {
        // SAFETY: the root is node 0 of a layer of one. From a node that exists, the child of a rank above 0 is the one
        // after a separator below the query; that is not padding, so the child exists. The first child always does.
        let keys = unsafe { layer.nodes.get_unchecked(*node) };
        *node = *node * Self::FANOUT + simd.rank(keys, word);
        prefetch(layer.below.wrapping_add(*node));
    }

    #[inline(always)]
    unsafe fn finish<S: Vector>(&self, simd: S, leaf: usize, word: K::Bits) -> Option<V> {
        // SAFETY: as in `step`, the child of the lowest layer exists; leaf 0 of a tree without layers does, too.
        unsafe { self.leaves.get(simd, leaf, word) }
    }
}

impl<K: Key, V: Word> fmt::Debug for SPlusTree<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SPlusTree({} pairs, {} layers above the leaves)", self.leaves.pairs(), self.layers.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::battery;

    fn build<K: Key, V: Word>(keys: &[K], values: &[V], in_flight: usize, simd: Simd) -> SPlusTree<K, V> {
        SPlusTree::with_options(keys, values, Options { in_flight, simd })
    }

    macro_rules! battery {
        ($($name:ident: $key:ty => $value:ty,)*) => {$(
            #[test]
            fn $name() {
                battery::run(|keys: &[$key], values: &[$value], in_flight, simd| {
                    let tree = build(keys, values, in_flight, simd);
                    move |queries: &[$key], out: &mut [Option<$value>]| tree.get_into(queries, out)
                });
            }
        )*};
    }

    battery! {
        u32_keys_are_found: u32 => u32,
        u64_keys_are_found: u64 => u64,
        i32_keys_are_found: i32 => u64,
        i64_keys_are_found: i64 => u32,
        f64_keys_are_found: lanetree_layout::F64 => u64,
    }

    #[test]
    fn layers_hold_only_nodes_above_leaves() {
        // 91 leaves of four: two nodes above 81 + 10 leaves would be 11, above them 2, and the root.
        let keys: Vec<u64> = (0..361).collect();
        let tree = SPlusTree::new(&keys, &keys);
        assert_eq!(tree.layers, [0..1, 1..3, 3..14]);
        assert_eq!(tree.bytes(), (14 + 91) * Line::BYTES);
        assert_eq!(format!("{tree:?}"), "SPlusTree(361 pairs, 3 layers above the leaves)");
    }

    #[test]
    fn threads_may_share_a_tree() {
        fn shared<T: Send + Sync>() {}
        shared::<SPlusTree<u64, u64>>();
    }

    #[test]
    #[should_panic(expected = "not strictly ascending")]
    fn equal_keys_are_refused() {
        SPlusTree::new(&[1_u32, 1], &[0_u32, 0]);
    }

    #[test]
    #[should_panic(expected = "0 look-ups in flight")]
    fn none_in_flight_is_refused() {
        SPlusTree::new(&[1_u32], &[0_u32]).set_in_flight(0);
    }
}
