//! The CPU's own path over the same nodes: each thread descends for several queries side by side, so that their cache misses
//! overlap.

use crate::parts::{Parts, Shape};
use core::marker::PhantomData;
use lanetree_frame::fixed;
use lanetree_kernels_lane_tree::layout::{
    FIRST_CHILD, Format, LINE_WORDS, NODE_WORDS, QUANTISER, Quantiser, RECORD_WORDS, Record, SEPARATORS, TOP_BUCKETS,
    UNUSED_HALF, begun_in_bitmap, begun_in_halves, chunk_slots, line_slots, pairs_of, prefix,
};
use lanetree_layout::{Key, Word};

/// Queries that a thread works off side by side.
const IN_FLIGHT: usize = 16;

/// A tree in main memory.
pub struct View<'a, K: Key, V> {
    shape: Shape<K::Bits>,
    lines: &'a [u64],
    nodes: &'a [u32],
    records: &'a [u64],
    firsts: &'a [K::Bits],
    top: &'a [K::Bits],
    table: &'a [u32],
    values: PhantomData<V>,
}

impl<K: Key, V> Clone for View<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Key, V> Copy for View<'_, K, V> {}

/// Where a query ends: in a line, after some of its pairs.
#[derive(Clone, Copy)]
struct Position {
    line: usize,
    slot: usize,
    len: usize,
    rank: u64,
}

impl<'a, K: Key, V: Word> View<'a, K, V> {
    /// The tree, if it is in main memory.
    pub(crate) fn new(parts: &'a Parts<K::Bits>) -> Option<Self> {
        Some(Self {
            shape: parts.shape,
            lines: parts.lines.as_slice()?,
            nodes: parts.nodes.as_slice()?,
            records: parts.records.as_slice()?,
            firsts: parts.firsts.as_slice()?,
            top: parts.firsts.as_slice()?.get(parts.shape.top_start()..)?,
            table: parts.table.as_slice()?,
            values: PhantomData,
        })
    }

    fn node(&self, number: u32) -> &'a [u32] {
        let at = number as usize * NODE_WORDS as usize;
        &self.nodes[at..at + NODE_WORDS as usize]
    }

    fn record(&self, number: usize) -> Record<K::Bits> {
        let at = number * RECORD_WORDS as usize;
        Record::of(self.records[at..at + RECORD_WORDS as usize].try_into().expect("four words"))
    }

    fn first_line(&self, number: usize) -> usize {
        self.node(number as u32)[FIRST_CHILD as usize] as usize
    }

    /// The node of the highest level for a word.
    fn top(&self, word: K::Bits) -> u32 {
        let prefix = prefix(word, self.top[0], self.shape.prefix_shift);
        let bucket = (prefix >> self.shape.bucket_shift).min(TOP_BUCKETS - 1);
        let bounds = self.table[bucket as usize];
        let (low, high) = (bounds as usize & 0xffff, bounds as usize >> 16);
        // The prefix of the first of them may be that of the word, which may be below it.
        let low = if self.top[low] <= word { low } else { 0 };
        let after = self.top[low + 1..=high].partition_point(|&first| first <= word);
        self.shape.top_first + (low + after) as u32
    }

    /// The node of the lowest level for each word.
    fn descend<const N: usize>(&self, words: &[K::Bits; N]) -> [u32; N] {
        let mut numbers = words.map(|word| self.top(word));
        for _ in 1..self.shape.height {
            for (number, &word) in numbers.iter_mut().zip(words) {
                let first = self.firsts[(*number - self.shape.leaf_nodes) as usize];
                *number = child(self.node(*number), word, first);
            }
        }
        numbers
    }

    /// The pair in a slot.
    fn pair(&self, line: usize, slot: usize) -> (K::Bits, V) {
        let slots = chunk_slots::<K::Bits, V>() as usize;
        let at = line * LINE_WORDS as usize + slot / slots * 2;
        pairs_of([self.lines[at], self.lines[at + 1]])[slot % slots]
    }

    /// The position of each word: after the keys below it or, with `upper`, not above it.
    fn find<const N: usize>(&self, words: &[K::Bits; N], upper: bool) -> [Position; N] {
        let numbers = self.descend(words);
        let lines: [(u32, Record<K::Bits>); N] = core::array::from_fn(|i| {
            let record = self.record(numbers[i] as usize);
            (child(self.node(numbers[i]), words[i], record.first), record)
        });
        core::array::from_fn(|i| {
            let (line, ref record) = lines[i];
            let within = line - self.node(numbers[i])[FIRST_CHILD as usize];
            let len = record.len(within) as usize;
            let comes_before = |key: K::Bits| (key < words[i]) | (upper & (key == words[i]));
            let slot = (0..len).filter(|&slot| comes_before(self.pair(line as usize, slot).0)).count();
            let rank = record.rank + u64::from(record.before(within)) + slot as u64;
            Position { line: line as usize, slot, len, rank }
        })
    }

    /// Calls `each` with the position of every query.
    fn positions(&self, queries: &[K], upper: bool, mut each: impl FnMut(usize, K::Bits, Position)) {
        for (chunk, queries) in queries.chunks(IN_FLIGHT).enumerate() {
            let words: [K::Bits; IN_FLIGHT] = core::array::from_fn(|i| queries[i.min(queries.len() - 1)].encode());
            let positions = self.find(&words, upper);
            for i in 0..queries.len() {
                each(chunk * IN_FLIGHT + i, words[i], positions[i]);
            }
        }
    }

    /// The position of the pair of a rank; past the last pair, that after it.
    fn at_rank(&self, rank: u64) -> (usize, usize) {
        let node = last(self.shape.leaf_nodes as usize, |number| self.record(number).rank <= rank);
        let (record, mut line) = (self.record(node), 0);
        let mut left = (rank - record.rank) as u32;
        while left >= record.len(line) && self.first_line(node) + (line as usize) + 1 < self.shape.lines as usize {
            left -= record.len(line);
            line += 1;
        }
        (self.first_line(node) + line as usize, left as usize)
    }

    /// The cursor that many pairs further on: cursors are numbers of slots.
    pub(crate) fn advanced(&self, cursor: u64, pairs: u64) -> u64 {
        let slots = line_slots::<K::Bits, V>() as usize;
        let (line, slot) = (cursor as usize / slots, cursor as usize % slots);
        let node = last(self.shape.leaf_nodes as usize, |number| self.first_line(number) <= line);
        let (record, within) = (self.record(node), (line - self.first_line(node)) as u32);
        let slot = slot.min(record.len(within) as usize);
        let (line, slot) = self.at_rank(record.rank + u64::from(record.before(within)) + slot as u64 + pairs);
        (line * slots + slot) as u64
    }
}

/// The last of `count` that something holds for, which holds for the first.
fn last(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut base, mut left) = (0, count);
    while left > 1 {
        let half = left / 2;
        base += if holds(base + half) { half } else { 0 };
        left -= half;
    }
    base
}

/// The child of a node for a word.
fn child<K: Word>(node: &[u32], word: K, first: K) -> u32 {
    let quantiser = Quantiser(node[QUANTISER as usize]);
    let separators = &node[..SEPARATORS as usize];
    let place = quantiser.place_of_any(word, first);
    let begun = match quantiser.format() {
        Format::Bitmap => {
            let each = separators.iter().zip(0..);
            each.map(|(&separators, index)| begun_in_bitmap(separators, place as i32 + 1 - 32 * index)).sum::<u32>()
        }
        Format::Halves => {
            // The last two of sixteen words are not separators.
            let unused = UNUSED_HALF | UNUSED_HALF << 16;
            let four = |at: usize| core::array::from_fn(|i| separators.get(at + i).copied().unwrap_or(unused));
            (0..NODE_WORDS as usize).step_by(4).map(|at| begun_in_halves(four(at), place)).sum()
        }
        Format::Exact if K::BITS == 64 => {
            let keys = separators.chunks_exact(2).map(|half| K::from_halves(half[0], half[1]));
            keys.filter(|&separator| separator < word).count() as u32
        }
        Format::Exact => separators.iter().filter(|&&separator| K::from_halves(separator, 0) < word).count() as u32,
    };
    node[FIRST_CHILD as usize] + begun
}

impl<K: Key, V: Word> fixed::View<K, V> for View<'_, K, V> {
    fn get(&self, queries: &[K], mut each: impl FnMut(usize, Option<V>)) {
        if self.shape.len == 0 {
            return (0..queries.len()).for_each(|i| each(i, None));
        }
        self.positions(queries, false, |i, word, Position { line, slot, len, .. }| {
            let found = (slot < len).then(|| self.pair(line, slot)).filter(|pair| pair.0 == word);
            each(i, found.map(|pair| pair.1));
        });
    }

    fn rank(&self, queries: &[K], upper: bool, mut each: impl FnMut(usize, u64)) {
        if self.shape.len == 0 {
            return (0..queries.len()).for_each(|i| each(i, 0));
        }
        self.positions(queries, upper, |i, _, position| each(i, position.rank));
    }

    fn neighbor(&self, queries: &[K], predecessor: bool, mut each: impl FnMut(usize, Option<(K, V)>)) {
        if self.shape.len == 0 {
            return (0..queries.len()).for_each(|i| each(i, None));
        }
        self.positions(queries, predecessor, |i, _, Position { line, slot, len, rank }| {
            let pair = match predecessor {
                true if rank == 0 => None,
                true if slot > 0 => Some(self.pair(line, slot - 1)),
                // The last slot of a line has its last pair, whether or not it is free.
                true => Some(self.pair(line - 1, line_slots::<K::Bits, V>() as usize - 1)),
                false if rank == self.shape.len => None,
                false if slot < len => Some(self.pair(line, slot)),
                // Lines that are free repeat the pair before.
                false => {
                    let last = self.pair(line, len - 1).0;
                    (line + 1..).map(|line| self.pair(line, 0)).find(|pair| pair.0 > last)
                }
            };
            each(i, pair.map(|(word, value)| (K::decode(word), value)));
        });
    }

    fn copy(&self, rank: u64, keys: &mut [K], values: &mut [V]) {
        if keys.is_empty() {
            return;
        }
        let slots = line_slots::<K::Bits, V>() as usize;
        let (mut line, mut slot) = self.at_rank(rank);
        let mut before = None;
        for (key, value) in keys.iter_mut().zip(values) {
            // Free slots and lines repeat the pair before.
            let pair = loop {
                if slot == slots {
                    (line, slot) = (line + 1, 0);
                }
                let pair = self.pair(line, slot);
                slot += 1;
                if before.is_none_or(|before| pair.0 > before) {
                    break pair;
                }
            };
            before = Some(pair.0);
            (*key, *value) = (K::decode(pair.0), pair.1);
        }
    }
}
