//! The CPU's own path over the same layout: a batch is split among rayon's threads, and each searches
//! several queries side by side, so that their cache misses overlap.

use core::marker::PhantomData;
use core::ops::Range;
use lanetree_kernels_harmonia::layout::{Shape, inner_slot, leaf_offset, leaf_values_offset};
use lanetree_layout::{Key, KeyWord, Word};

/// Queries that a thread searches side by side.
const IN_FLIGHT: usize = 16;

/// A tree in main memory.
pub struct View<'a, K: Key, V> {
    shape: &'a Shape,
    inner: &'a [K::Bits],
    leaves: &'a [u8],
    /// As in [`Harmonia`](super::Harmonia).
    ranks: Option<&'a [u64]>,
    values: PhantomData<V>,
}

impl<K: Key, V> Clone for View<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Key, V> Copy for View<'_, K, V> {}

/// Where a query belongs: a leaf, and how many of its slots are below the query.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    leaf: u32,
    count: u32,
}

impl<'a, K: Key, V: Word> View<'a, K, V> {
    pub(super) fn new(shape: &'a Shape, inner: &'a [K::Bits], leaves: &'a [u64], ranks: Option<&'a [u64]>) -> Self {
        Self { shape, inner, leaves: bytemuck::cast_slice(leaves), ranks, values: PhantomData }
    }

    pub(super) fn leaf_keys(&self, leaf: u32) -> &'a [K::Bits] {
        let from = leaf_offset::<K::Bits, V>(self.shape.fanout, leaf) as usize;
        let to = leaf_values_offset::<K::Bits, V>(self.shape.fanout, leaf) as usize;
        bytemuck::cast_slice(&self.leaves[from..to])
    }

    pub(super) fn leaf_values(&self, leaf: u32) -> &'a [V] {
        let from = leaf_values_offset::<K::Bits, V>(self.shape.fanout, leaf) as usize;
        let to = leaf_offset::<K::Bits, V>(self.shape.fanout, leaf + 1) as usize;
        bytemuck::cast_slice(&self.leaves[from..to])
    }

    /// Calls `each` with the place of each of `count` words. The tree must not be empty.
    fn for_each_place(&self, count: usize, word: impl Fn(usize) -> K::Bits, each: impl FnMut(usize, Place)) {
        match self.shape.fanout {
            8 => self.for_each_place_in::<8>(count, word, each),
            16 => self.for_each_place_in::<16>(count, word, each),
            32 => self.for_each_place_in::<32>(count, word, each),
            64 => self.for_each_place_in::<64>(count, word, each),
            _ => self.for_each_place_in::<128>(count, word, each),
        }
    }

    fn for_each_place_in<const F: usize>(
        &self,
        count: usize,
        word: impl Fn(usize) -> K::Bits,
        mut each: impl FnMut(usize, Place),
    ) {
        self.for_each_descent::<F>(count, word, |i, word, node, _| {
            let leaf = node - self.shape.inner;
            each(i, Place { leaf, count: below(&self.leaf_keys(leaf)[..F], word) });
        });
    }

    /// Calls `each` with the leaf where each of `count` words belongs, and the inner node above it (0 if there is
    /// none). Reads inner nodes only. The tree must not be empty.
    pub(super) fn for_each_leaf(
        &self,
        count: usize,
        word: impl Fn(usize) -> K::Bits,
        mut each: impl FnMut(usize, u32, u32),
    ) {
        let each = |i, _, node, parent| each(i, node - self.shape.inner, parent);
        match self.shape.fanout {
            8 => self.for_each_descent::<8>(count, word, each),
            16 => self.for_each_descent::<16>(count, word, each),
            32 => self.for_each_descent::<32>(count, word, each),
            64 => self.for_each_descent::<64>(count, word, each),
            _ => self.for_each_descent::<128>(count, word, each),
        }
    }

    /// Calls `each` with each word, the node where its descent ends, and the one above.
    #[inline(always)]
    fn for_each_descent<const F: usize>(
        &self,
        count: usize,
        word: impl Fn(usize) -> K::Bits,
        mut each: impl FnMut(usize, K::Bits, u32, u32),
    ) {
        let mut first = 0;
        while first < count {
            let batch = (count - first).min(IN_FLIGHT);
            let words: [K::Bits; IN_FLIGHT] = core::array::from_fn(|i| word(first + i.min(batch - 1)));
            let mut nodes = [0_u32; IN_FLIGHT];
            let mut parents = [0_u32; IN_FLIGHT];
            for _ in 0..self.shape.height {
                parents = nodes;
                for (node, &word) in nodes.iter_mut().zip(&words) {
                    let start = inner_slot(F as u32, *node, 0) as usize;
                    let slots = &self.inner[start..start + F];
                    *node = slots[F - 1].low() + below(&slots[..F - 1], word);
                }
            }
            for i in 0..batch {
                each(first + i, words[i], nodes[i], parents[i]);
            }
            first += batch;
        }
    }

    /// Calls `each` with the rank of each query's bound; `None` for the end of the tree.
    fn bounds(&self, queries: &[K], upper: bool, mut each: impl FnMut(usize, Option<u64>)) {
        if self.shape.len == 0 {
            return (0..queries.len()).for_each(|i| each(i, None));
        }
        let beyond = |i: usize| upper && queries[i] == K::MAX;
        let word = |i: usize| {
            let word = queries[i].encode();
            if upper && !beyond(i) { word.wrapping_add(K::Bits::truncate(1)) } else { word }
        };
        self.for_each_place(queries.len(), word, |i, place| {
            let ranks = self.leaf_ranks(place.leaf);
            let rank = ranks.end.min(ranks.start + u64::from(place.count));
            each(i, (!beyond(i) && rank < self.shape.len).then_some(rank));
        });
    }

    /// The ranks of a leaf's pairs.
    pub(super) fn leaf_ranks(&self, leaf: u32) -> Range<u64> {
        match self.ranks {
            Some(ranks) => ranks[leaf as usize]..ranks[leaf as usize + 1],
            None => {
                let first = u64::from(leaf) * u64::from(self.shape.per_leaf);
                first..self.shape.len.min(first + u64::from(self.shape.per_leaf))
            }
        }
    }

    /// The leaf and slot of a rank below the tree's length.
    fn place_of(&self, rank: u64) -> (u32, usize) {
        match self.ranks {
            Some(ranks) => {
                let leaf = ranks.partition_point(|&first| first <= rank) - 1;
                (leaf as u32, (rank - ranks[leaf]) as usize)
            }
            None => {
                let per_leaf = u64::from(self.shape.per_leaf);
                ((rank / per_leaf) as u32, (rank % per_leaf) as usize)
            }
        }
    }

    /// The pair of a rank.
    fn pair(&self, rank: u64) -> (K, V) {
        let (leaf, slot) = self.place_of(rank);
        (K::decode(self.leaf_keys(leaf)[slot]), self.leaf_values(leaf)[slot])
    }
}

impl<K: Key, V: Word> lanetree_frame::fixed::View<K, V> for View<'_, K, V> {
    fn get(&self, queries: &[K], mut each: impl FnMut(usize, Option<V>)) {
        if self.shape.len == 0 {
            return (0..queries.len()).for_each(|i| each(i, None));
        }
        self.for_each_place(
            queries.len(),
            |i| queries[i].encode(),
            |i, place| {
                let slot = place.count as usize;
                let hit = self.leaf_keys(place.leaf).get(slot) == Some(&queries[i].encode());
                each(i, hit.then(|| self.leaf_values(place.leaf)[slot]));
            },
        );
    }

    fn rank(&self, queries: &[K], upper: bool, mut each: impl FnMut(usize, u64)) {
        self.bounds(queries, upper, |i, bound| each(i, bound.unwrap_or(self.shape.len)));
    }

    fn neighbor(&self, queries: &[K], predecessor: bool, mut each: impl FnMut(usize, Option<(K, V)>)) {
        self.bounds(queries, predecessor, |i, bound| {
            let rank = if predecessor { bound.unwrap_or(self.shape.len).checked_sub(1) } else { bound };
            each(i, rank.map(|rank| self.pair(rank)));
        });
    }

    fn copy(&self, rank: u64, keys: &mut [K], values: &mut [V]) {
        if keys.is_empty() {
            return;
        }
        let (mut leaf, mut slot) = self.place_of(rank);
        let mut done = 0;
        while done < keys.len() {
            let ranks = self.leaf_ranks(leaf);
            let count = ((ranks.end - ranks.start) as usize - slot).min(keys.len() - done);
            for (to, from) in keys[done..done + count].iter_mut().zip(&self.leaf_keys(leaf)[slot..]) {
                *to = K::decode(*from);
            }
            values[done..done + count].copy_from_slice(&self.leaf_values(leaf)[slot..slot + count]);
            (leaf, slot, done) = (leaf + 1, 0, done + count);
        }
    }
}

/// How many of the words are below `word`; without branches, so that the compiler uses SIMD.
pub(super) fn below<T: Word>(words: &[T], word: T) -> u32 {
    words.iter().map(|other| u32::from(*other < word)).sum()
}
