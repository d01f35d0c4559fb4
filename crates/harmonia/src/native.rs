//! The CPU's own path over the same layout: a batch is split among rayon's threads, and each searches
//! several queries side by side, so that their cache misses overlap.

use core::marker::PhantomData;
use core::ops::Range;
use lanetree_kernels_harmonia::layout::{Shape, inner_slot, leaf_offset, leaf_values_offset};
use lanetree_layout::{Key, Word};

/// Queries that a thread searches side by side.
const IN_FLIGHT: usize = 16;

/// A tree in main memory, over the words of its keys.
pub struct View<'a, W: Word, V> {
    shape: &'a Shape,
    inner: &'a [W],
    leaves: &'a [u8],
    /// As in [`Harmonia`](super::Harmonia).
    ranks: Option<&'a [u64]>,
    values: PhantomData<V>,
}

impl<W: Word, V> Clone for View<'_, W, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<W: Word, V> Copy for View<'_, W, V> {}

/// Writes the words from a number on, [`IN_FLIGHT`] per call; words past the last one are unspecified. Called by a
/// pointer, so that one instance of a descent serves all callers.
type Words<'a, W> = dyn Fn(usize, &mut [W; IN_FLIGHT]) + 'a;

/// Takes the nodes where the words from a number on end, and those above.
type EachNode<'a> = dyn FnMut(usize, &[u32], &[u32]) + 'a;

/// The words of a function, the last one's again where there are no more.
fn numbered<W>(count: usize, word: impl Fn(usize) -> W) -> impl Fn(usize, &mut [W; IN_FLIGHT]) {
    move |first, words| {
        for (i, to) in words.iter_mut().enumerate() {
            *to = word((first + i).min(count - 1));
        }
    }
}

/// Where a query belongs: a leaf, and how many of its slots are below the query.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    leaf: u32,
    count: u32,
}

impl<'a, W: Word, V: Word> View<'a, W, V> {
    pub(super) fn new(shape: &'a Shape, inner: &'a [W], leaves: &'a [u64], ranks: Option<&'a [u64]>) -> Self {
        Self { shape, inner, leaves: bytemuck::cast_slice(leaves), ranks, values: PhantomData }
    }

    pub(super) fn leaf_keys(&self, leaf: u32) -> &'a [W] {
        let from = leaf_offset::<W, V>(self.shape.fanout, leaf) as usize;
        let to = leaf_values_offset::<W, V>(self.shape.fanout, leaf) as usize;
        bytemuck::cast_slice(&self.leaves[from..to])
    }

    pub(super) fn leaf_values(&self, leaf: u32) -> &'a [V] {
        let from = leaf_values_offset::<W, V>(self.shape.fanout, leaf) as usize;
        let to = leaf_offset::<W, V>(self.shape.fanout, leaf + 1) as usize;
        bytemuck::cast_slice(&self.leaves[from..to])
    }

    /// Calls `each` with the places of the words from a number on. The tree must not be empty.
    fn for_each_place(&self, count: usize, words: &Words<'_, W>, each: &mut dyn FnMut(usize, &[Place])) {
        match self.shape.fanout {
            8 => self.for_each_place_in::<8>(count, words, each),
            16 => self.for_each_place_in::<16>(count, words, each),
            32 => self.for_each_place_in::<32>(count, words, each),
            64 => self.for_each_place_in::<64>(count, words, each),
            _ => self.for_each_place_in::<128>(count, words, each),
        }
    }

    fn for_each_place_in<const F: usize>(
        &self,
        count: usize,
        words: &Words<'_, W>,
        each: &mut dyn FnMut(usize, &[Place]),
    ) {
        self.for_each_descent::<F>(count, words, |first, words, nodes, _| {
            let mut places = [Place::default(); IN_FLIGHT];
            for ((place, &word), node) in places.iter_mut().zip(words).zip(nodes) {
                let leaf = node - self.shape.inner;
                *place = Place { leaf, count: below(&self.leaf_keys(leaf)[..F], word) };
            }
            each(first, &places[..words.len()]);
        });
    }

    /// Calls `each` with the leaf where each of `count` words belongs, and the inner node above it (0 if there is
    /// none). Reads inner nodes only. The tree must not be empty.
    pub(super) fn for_each_leaf(&self, count: usize, word: impl Fn(usize) -> W, mut each: impl FnMut(usize, u32, u32)) {
        self.leaves_of(count, &numbered(count, word), &mut |first, nodes, parents| {
            for (i, (node, &parent)) in nodes.iter().zip(parents).enumerate() {
                each(first + i, node - self.shape.inner, parent);
            }
        });
    }

    /// Calls `each` with the nodes where the words from a number on end, and those above.
    fn leaves_of(&self, count: usize, words: &Words<'_, W>, each: &mut EachNode<'_>) {
        let each = |first, _: &[W], nodes: &[u32], parents: &[u32]| each(first, nodes, parents);
        match self.shape.fanout {
            8 => self.for_each_descent::<8>(count, words, each),
            16 => self.for_each_descent::<16>(count, words, each),
            32 => self.for_each_descent::<32>(count, words, each),
            64 => self.for_each_descent::<64>(count, words, each),
            _ => self.for_each_descent::<128>(count, words, each),
        }
    }

    /// Calls `each` with words from a number on, the nodes where their descents end, and those above.
    #[inline(always)]
    fn for_each_descent<const F: usize>(
        &self,
        count: usize,
        words: &Words<'_, W>,
        mut each: impl FnMut(usize, &[W], &[u32], &[u32]),
    ) {
        let mut first = 0;
        let mut batch = [W::MIN; IN_FLIGHT];
        while first < count {
            let len = (count - first).min(IN_FLIGHT);
            words(first, &mut batch);
            let mut nodes = [0_u32; IN_FLIGHT];
            let mut parents = [0_u32; IN_FLIGHT];
            for _ in 0..self.shape.height {
                parents = nodes;
                for (node, &word) in nodes.iter_mut().zip(&batch) {
                    let start = inner_slot(F as u32, *node, 0) as usize;
                    let slots = &self.inner[start..start + F];
                    *node = slots[F - 1].low() + below(&slots[..F - 1], word);
                }
            }
            each(first, &batch[..len], &nodes[..len], &parents[..len]);
            first += len;
        }
    }

    /// Calls `each` with the rank of each query's bound; `None` for the end of the tree.
    fn bounds<K: Key<Bits = W>>(&self, queries: &[K], upper: bool, mut each: impl FnMut(usize, Option<u64>)) {
        if self.shape.len == 0 {
            return (0..queries.len()).for_each(|i| each(i, None));
        }
        let beyond = |i: usize| upper && queries[i] == K::MAX;
        let word = |i: usize| {
            let word = queries[i].encode();
            if upper && !beyond(i) { word.wrapping_add(W::truncate(1)) } else { word }
        };
        self.for_each_place(queries.len(), &numbered(queries.len(), word), &mut |first, places| {
            for (i, place) in (first..).zip(places) {
                let ranks = self.leaf_ranks(place.leaf);
                let rank = ranks.end.min(ranks.start + u64::from(place.count));
                each(i, (!beyond(i) && rank < self.shape.len).then_some(rank));
            }
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
    fn pair(&self, rank: u64) -> (W, V) {
        let (leaf, slot) = self.place_of(rank);
        (self.leaf_keys(leaf)[slot], self.leaf_values(leaf)[slot])
    }
}

impl<K: Key, V: Word> lanetree_frame::fixed::View<K, V> for View<'_, K::Bits, V> {
    fn get(&self, queries: &[K], mut each: impl FnMut(usize, Option<V>)) {
        if self.shape.len == 0 {
            return (0..queries.len()).for_each(|i| each(i, None));
        }
        let words = numbered(queries.len(), |i| queries[i].encode());
        self.for_each_place(queries.len(), &words, &mut |first, places| {
            for (i, place) in (first..).zip(places) {
                let slot = place.count as usize;
                let hit = self.leaf_keys(place.leaf).get(slot) == Some(&queries[i].encode());
                each(i, hit.then(|| self.leaf_values(place.leaf)[slot]));
            }
        });
    }

    fn rank(&self, queries: &[K], upper: bool, mut each: impl FnMut(usize, u64)) {
        self.bounds(queries, upper, |i, bound| each(i, bound.unwrap_or(self.shape.len)));
    }

    fn neighbor(&self, queries: &[K], predecessor: bool, mut each: impl FnMut(usize, Option<(K, V)>)) {
        self.bounds(queries, predecessor, |i, bound| {
            let rank = if predecessor { bound.unwrap_or(self.shape.len).checked_sub(1) } else { bound };
            let decoded = |(word, value)| (K::decode(word), value);
            each(i, rank.map(|rank| decoded(self.pair(rank))));
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
