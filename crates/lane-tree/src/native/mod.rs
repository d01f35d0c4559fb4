//! The CPU's own path over the same nodes.

mod descent;
mod node;
mod weights;

pub(crate) use self::descent::{GROUP, Position};

use self::descent::{Batch, Each, Finish, Words};
use self::node::Count;
use crate::node::slots_of;
use crate::parts::{Parts, Shape};
use crate::weights::{RANK_BLOCK, Weights};
use core::marker::PhantomData;
use core::ops::Range;
use lanetree_frame::Result;
use lanetree_frame::fixed::{self, SortedPairs};
use lanetree_frame::room::with_room;
use lanetree_kernels_lane_tree::layout::{
    BUCKET_WORDS, FIRST_CHILD, MOST_SLOTS, Record, bucket_at, bucket_slots, chunk_slots, has_keys_alone,
    has_values_beside, last_node, pairs_of, record_words, value_at,
};
use lanetree_layout::{AnyKey, KeyWord, Value, Word};
use lanetree_runtime::{Line, Simd, prefetch};

/// A tree in main memory, over the words of its keys.
pub struct View<'a, W: KeyWord, V> {
    shape: Shape<W>,
    simd: Simd,
    buckets: &'a [Line],
    nodes: &'a [Line],
    records: &'a [u64],
    rank_steps: &'a [u64],
    weights: Option<&'a Weights>,
    ends: &'a [u32],
    firsts: &'a [W],
    top: &'a [W],
    table: &'a [u32],
    values: PhantomData<V>,
}

impl<W: KeyWord, V> Clone for View<'_, W, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<W: KeyWord, V> Copy for View<'_, W, V> {}

/// A buffer's words, a cache line at a time. Buffers begin at multiples of 256 bytes, but for those without elements.
fn in_lines<T: Word, L: bytemuck::AnyBitPattern>(words: &[T]) -> &[L] {
    if words.is_empty() { &[] } else { bytemuck::cast_slice(words) }
}

impl<'a, W: KeyWord, V: Value> View<'a, W, V> {
    /// The tree, if it is in main memory, searched with these instructions.
    pub(crate) fn new(parts: &'a Parts<W>, simd: Simd) -> Option<Self> {
        Some(Self {
            shape: parts.shape,
            simd,
            buckets: in_lines(parts.buckets.as_slice()?),
            nodes: in_lines(parts.nodes.as_slice()?),
            records: parts.records.as_slice()?,
            rank_steps: &parts.rank_steps,
            weights: parts.weights.as_ref(),
            ends: parts.ends.as_slice()?,
            firsts: parts.firsts.as_slice()?,
            top: parts.firsts.as_slice()?.get(parts.shape.top_start()..)?,
            table: parts.table.as_slice()?,
            values: PhantomData,
        })
    }

    /// Nodes of the lowest level.
    pub(crate) fn leaf_nodes(&self) -> usize {
        self.ends.len()
    }

    /// A node's words.
    pub(crate) fn node_words(&self, number: usize) -> &[u32; 16] {
        self.nodes[number].array()
    }

    /// Its weights, if it has any.
    pub(crate) fn weights(&self) -> Option<&'a Weights> {
        self.weights
    }

    /// The record of a node of the lowest level, with its [rank](View::rank).
    pub(crate) fn whole_record(&self, number: usize) -> Record<W> {
        Record { rank: self.rank(number), ..self.record(number) }
    }

    /// The record of a node of the lowest level as it is stored: a step is missing from its rank.
    pub(crate) fn record(&self, number: usize) -> Record<W> {
        let words = record_words::<W, V>() as usize;
        Record::of_slice::<V>(&self.records[number * words..(number + 1) * words])
    }

    /// The pairs before a node of the lowest level.
    #[inline(always)]
    fn rank(&self, number: usize) -> u64 {
        let rank = self.record(number).rank.wrapping_add(self.rank_steps[number / RANK_BLOCK]);
        // With such keys a record has as many bits of it.
        if W::BITS == 32 { rank & u64::from(u32::MAX) } else { rank }
    }

    /// The pairs in a node of the lowest level.
    pub(crate) fn len_of(&self, number: usize) -> usize {
        let end = if number + 1 < self.ends.len() { self.rank(number + 1) } else { self.shape.len };
        (end - self.rank(number)) as usize
    }

    /// The buckets of a node of the lowest level.
    pub(crate) fn buckets_of(&self, number: usize) -> Range<usize> {
        let first = self.node_words(number)[FIRST_CHILD as usize];
        first as usize..self.ends[number] as usize
    }

    /// The last key of a node of the lowest level.
    pub(crate) fn last_key(&self, number: usize) -> W {
        // The last slot has the last pair, whether or not it is free.
        self.pair(self.ends[number] as usize - 1, bucket_slots::<W, V>() as usize - 1).0
    }

    /// Has a bucket fetched, and its node with the record.
    pub(crate) fn prefetch(&self, position: Position) {
        let node = position.node as usize;
        prefetch(self.buckets.as_ptr().wrapping_add(Self::position(position.bucket as usize)));
        prefetch(self.nodes.as_ptr().wrapping_add(node));
        prefetch(self.records.as_ptr().wrapping_add(node * record_words::<W, V>() as usize).cast());
    }

    /// The pairs in a bucket's slots.
    pub(crate) fn slots(&self, bucket: usize) -> ([W; MOST_SLOTS], [V; MOST_SLOTS]) {
        slots_of(
            bucket as u32,
            |at| bytemuck::cast_slice::<_, u64>(self.buckets)[at],
            |at| bytemuck::cast_slice::<_, V>(self.buckets)[at],
        )
    }

    /// The pairs of a node of the lowest level.
    pub(crate) fn pairs_of(&self, number: usize) -> Result<SortedPairs<W, V>> {
        let (record, len) = (self.record(number), self.len_of(number));
        let mut pairs = SortedPairs { keys: with_room(len)?, values: with_room(len)? };
        for (within, bucket) in self.buckets_of(number).enumerate() {
            // Buckets that are free come last.
            if pairs.keys.len() < len {
                let (own, (keys, values)) = (record.len(within as u32) as usize, self.slots(bucket));
                pairs.keys.extend_from_slice(&keys[..own]);
                pairs.values.extend_from_slice(&values[..own]);
            }
        }
        Ok(pairs)
    }

    /// The position of a bucket among [`View::buckets`].
    #[inline(always)]
    fn position(bucket: usize) -> usize {
        (bucket_at::<W, V>(bucket as u32) / u64::from(BUCKET_WORDS)) as usize
    }

    /// The pair in a slot.
    fn pair(&self, bucket: usize, slot: usize) -> (W, V) {
        let slots = chunk_slots::<W, V>() as usize;
        let (words, at) = (self.buckets[Self::position(bucket)].array::<u64, 8>(), slot / slots * 2);
        let (key, value) = pairs_of([words[at], words[at + 1]])[slot % slots];
        (key, if has_values_beside::<W, V>() { self.value_beside(bucket, slot) } else { value })
    }

    /// The value of a slot, if buckets have keys alone.
    #[inline(always)]
    fn value_beside(&self, bucket: usize, slot: usize) -> V {
        let all: &[V] = bytemuck::cast_slice(self.buckets);
        all[value_at::<W, V>(bucket as u32, slot as u32) as usize]
    }

    /// Calls `each` with what [`Batch`] says.
    fn values(&self, count: usize, words: &Words<'_, W>, each: &mut Each<'_, Option<V>>) {
        self.simd.run(Batch { view: *self, count, words, finish: Values, each });
    }

    /// Calls `each` with the ranks of queries: after the keys below them or, with `upper`, not above them.
    fn ranks(&self, count: usize, words: &Words<'_, W>, upper: bool, each: &mut Each<'_, u64>) {
        self.simd.run(Batch { view: *self, count, words, finish: Ranks { upper }, each });
    }

    /// Calls `each` with the last pairs at or below queries, or the first ones at or above them.
    fn neighbors(&self, count: usize, words: &Words<'_, W>, predecessor: bool, each: &mut Each<'_, Option<(W, V)>>) {
        self.simd.run(Batch { view: *self, count, words, finish: Neighbors { predecessor }, each });
    }

    /// Calls `each` with the buckets of queries, which are at or before them. Look-ups do not ask how far a key is from others: what is
    /// absent may be looked for elsewhere, which is the bucket without `ORDERED`.
    pub(crate) fn positions<const ORDERED: bool>(
        &self,
        count: usize,
        words: &Words<'_, W>,
        each: &mut Each<'_, Position>,
    ) {
        self.simd.run(Batch { view: *self, count, words, finish: Positions::<ORDERED>, each });
    }

    /// The last pair before a bucket, or the first one after it.
    fn next_to(&self, Position { node, bucket, .. }: Position, before: bool) -> Option<(W, V)> {
        let (node, bucket, last_slot) = (node as usize, bucket as usize, bucket_slots::<W, V>() as usize - 1);
        let own = self.buckets_of(node);
        if before {
            // The last slot of a bucket has its last pair, whether or not it is free.
            let bucket = if bucket > own.start { bucket - 1 } else { self.ends[node.checked_sub(1)?] as usize - 1 };
            return Some(self.pair(bucket, last_slot));
        }
        let last = self.pair(bucket, last_slot).0;
        // Buckets that are free repeat the pair before.
        let after = (bucket + 1..own.end).map(|bucket| self.pair(bucket, 0)).find(|pair| pair.0 > last);
        after.or_else(|| (node + 1 < self.ends.len()).then(|| self.pair(self.buckets_of(node + 1).start, 0)))
    }

    /// The node, the bucket and the slot of the pair of a rank.
    fn at_rank(&self, rank: u64) -> (usize, usize, usize) {
        let node = last_node(self.shape.leaf_nodes, |number| self.rank(number as usize) <= rank) as usize;
        let (record, mut bucket) = (self.record(node), 0);
        let mut left = (rank - self.rank(node)) as u32;
        while left >= record.len(bucket) {
            left -= record.len(bucket);
            bucket += 1;
        }
        (node, self.buckets_of(node).start + bucket as usize, left as usize)
    }

    /// Copies the pairs from a rank on, with keys that a function makes of their words.
    pub(crate) fn copy_pairs<K>(&self, rank: u64, keys: &mut [K], values: &mut [V], of_word: impl Fn(W) -> K) {
        if keys.is_empty() {
            return;
        }
        let slots = bucket_slots::<W, V>() as usize;
        let (mut node, mut bucket, mut slot) = self.at_rank(rank);
        let mut end = self.ends[node] as usize;
        let mut before = None;
        for (key, value) in keys.iter_mut().zip(values) {
            // Free slots and buckets repeat the pair before.
            let pair = loop {
                if slot == slots {
                    (bucket, slot) = (bucket + 1, 0);
                    if bucket == end {
                        node += 1;
                        Range { start: bucket, end } = self.buckets_of(node);
                    }
                }
                let pair = self.pair(bucket, slot);
                slot += 1;
                if before.is_none_or(|before| pair.0 > before) {
                    break pair;
                }
            };
            before = Some(pair.0);
            (*key, *value) = (of_word(pair.0), pair.1);
        }
    }
}

/// Words of a bucket that are keys, if pairs take two each.
const KEYS: u32 = 0x5555_5555;

/// Finds the values of words.
#[derive(Clone, Copy)]
struct Values;

impl<W: KeyWord, V: Value> Finish<W, V> for Values {
    type Out = Option<V>;
    const ORDERED: bool = false;

    #[inline(always)]
    fn finish<S: Count>(self, simd: S, view: &View<'_, W, V>, word: W, position: Position) -> Self::Out {
        let bucket = &view.buckets[View::<W, V>::position(position.bucket as usize)];
        if !V::IS_SOME {
            return (simd.equal(bucket.words(), word) != 0).then(V::default);
        }
        if has_values_beside::<W, V>() {
            let equal = simd.equal(bucket.words(), word);
            let value = || view.value_beside(position.bucket as usize, equal.trailing_zeros() as usize);
            return (equal != 0).then(value);
        }
        // The value is the word after the key. Past the last one of an absent key, it is none's.
        let of_word = |word: u64| V::of(KeyWord::truncate(word));
        let (equal, value) = if chunk_slots::<W, V>() == 2 {
            let equal = simd.equal(bucket.words(), word.low()) & KEYS;
            (equal, of_word(bucket.array::<u32, 16>()[(equal.trailing_zeros() as usize + 1) % 16].into()))
        } else {
            let equal = simd.equal(bucket.words(), word.parts()[0]) & KEYS;
            (equal, of_word(bucket.array::<u64, 8>()[(equal.trailing_zeros() as usize + 1) % 8]))
        };
        (equal != 0).then_some(value)
    }
}

/// Which slots of a bucket have keys below a word or, with `upper`, not above it. Free slots repeat the last pair.
#[inline(always)]
fn slots_before<W: KeyWord, V: Value>(simd: impl Count, bucket: &Line, word: W, upper: bool) -> u32 {
    let low = word.parts()[0];
    // Of words as wide as half a pair, or as a key alone.
    let before = match (chunk_slots::<W, V>(), upper) {
        _ if has_keys_alone::<W, V>() && upper => simd.upto(bucket.words(), word),
        _ if has_keys_alone::<W, V>() => simd.below(bucket.words(), word),
        (2, false) => simd.below(bucket.words(), word.low()) & KEYS,
        (2, true) => simd.upto(bucket.words(), word.low()) & KEYS,
        (_, false) => simd.below(bucket.words(), low) & KEYS,
        (_, true) => simd.upto(bucket.words(), low) & KEYS,
    };
    before.count_ones()
}

/// Finds the ranks of words.
#[derive(Clone, Copy)]
struct Ranks {
    upper: bool,
}

impl<W: KeyWord, V: Value> Finish<W, V> for Ranks {
    type Out = u64;
    const ORDERED: bool = true;

    #[inline(always)]
    fn finish<S: Count>(self, simd: S, view: &View<'_, W, V>, word: W, position: Position) -> Self::Out {
        let bucket = &view.buckets[View::<W, V>::position(position.bucket as usize)];
        let record = view.record(position.node as usize);
        // Free slots count no more than the last pair.
        let before = slots_before::<W, V>(simd, bucket, word, self.upper).min(record.len(position.within));
        view.rank(position.node as usize) + u64::from(record.before::<V>(position.within) + before)
    }
}

/// Finds the buckets of words.
#[derive(Clone, Copy)]
struct Positions<const ORDERED: bool>;

impl<W: KeyWord, V: Value, const IS_ORDERED: bool> Finish<W, V> for Positions<IS_ORDERED> {
    type Out = Position;
    const ORDERED: bool = IS_ORDERED;
    const TOGETHER: bool = IS_ORDERED;

    #[inline(always)]
    fn finish<S: Count>(self, _: S, _: &View<'_, W, V>, _: W, position: Position) -> Self::Out {
        position
    }
}

/// Finds the pairs next to words.
#[derive(Clone, Copy)]
struct Neighbors {
    predecessor: bool,
}

impl<W: KeyWord, V: Value> Finish<W, V> for Neighbors {
    type Out = Option<(W, V)>;
    const ORDERED: bool = true;

    #[inline(always)]
    fn finish<S: Count>(self, simd: S, view: &View<'_, W, V>, word: W, position: Position) -> Self::Out {
        let bucket = position.bucket as usize;
        let before = slots_before::<W, V>(simd, &view.buckets[View::<W, V>::position(bucket)], word, self.predecessor);
        // Nearly always the pair is in the bucket.
        match self.predecessor {
            true if before > 0 => Some(view.pair(bucket, before as usize - 1)),
            false if before < bucket_slots::<W, V>() => Some(view.pair(bucket, before as usize)),
            _ => view.next_to(position, self.predecessor),
        }
    }
}

/// Writes the words of queries from one on; the last one's again where there are no more.
fn encoded<K: AnyKey>(queries: &[K]) -> impl Fn(usize, &mut [K::Bits; GROUP]) {
    |first, words| {
        let queries = &queries[first..];
        let last = queries.len() - 1;
        for (i, word) in words.iter_mut().enumerate() {
            *word = queries[i.min(last)].encode();
        }
    }
}

impl<K: AnyKey, V: Value> fixed::View<K, V> for View<'_, K::Bits, V> {
    fn get(&self, queries: &[K], mut each: impl FnMut(usize, Option<V>)) {
        if self.shape.len == 0 {
            return (0..queries.len()).for_each(|i| each(i, None));
        }
        self.values(queries.len(), &encoded(queries), &mut |first, values| {
            values.iter().enumerate().for_each(|(i, value)| each(first + i, *value));
        });
    }

    fn rank(&self, queries: &[K], upper: bool, mut each: impl FnMut(usize, u64)) {
        if self.shape.len == 0 {
            return (0..queries.len()).for_each(|i| each(i, 0));
        }
        self.ranks(queries.len(), &encoded(queries), upper, &mut |first, ranks| {
            ranks.iter().enumerate().for_each(|(i, &rank)| each(first + i, rank));
        });
    }

    fn neighbor(&self, queries: &[K], predecessor: bool, mut each: impl FnMut(usize, Option<(K, V)>)) {
        if self.shape.len == 0 {
            return (0..queries.len()).for_each(|i| each(i, None));
        }
        self.neighbors(queries.len(), &encoded(queries), predecessor, &mut |first, pairs| {
            let decoded = |&(word, value): &(K::Bits, V)| (K::decode(word), value);
            pairs.iter().enumerate().for_each(|(i, pair)| each(first + i, pair.as_ref().map(decoded)));
        });
    }

    fn copy(&self, rank: u64, keys: &mut [K], values: &mut [V]) {
        self.copy_pairs(rank, keys, values, K::decode);
    }
}
