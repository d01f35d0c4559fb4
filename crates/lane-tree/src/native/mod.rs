//! The CPU's own path over the same nodes.

mod descent;
mod node;

use self::descent::{Batch, Finish, Place};
use self::node::Count;
use crate::parts::{Parts, Shape};
use core::marker::PhantomData;
use lanetree_frame::fixed;
use lanetree_kernels_lane_tree::layout::{FIRST_CHILD, RECORD_WORDS, Record, chunk_slots, line_slots, pairs_of};
use lanetree_layout::{Key, Word};
use lanetree_runtime::{Line, Simd};

/// A tree in main memory.
pub struct View<'a, K: Key, V> {
    shape: Shape<K::Bits>,
    simd: Simd,
    lines: &'a [Line],
    nodes: &'a [Line],
    records: &'a [[u64; RECORD_WORDS as usize]],
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

/// A buffer's words, a cache line at a time. Buffers begin at multiples of 256 bytes, but for those without elements.
fn in_lines<T: Word, L: bytemuck::AnyBitPattern>(words: &[T]) -> &[L] {
    if words.is_empty() { &[] } else { bytemuck::cast_slice(words) }
}

impl<'a, K: Key, V: Word> View<'a, K, V> {
    /// The tree, if it is in main memory, searched with these instructions.
    pub(crate) fn new(parts: &'a Parts<K::Bits>, simd: Simd) -> Option<Self> {
        Some(Self {
            shape: parts.shape,
            simd,
            lines: in_lines(parts.lines.as_slice()?),
            nodes: in_lines(parts.nodes.as_slice()?),
            records: parts.records.as_slice()?.as_chunks().0,
            firsts: parts.firsts.as_slice()?,
            top: parts.firsts.as_slice()?.get(parts.shape.top_start()..)?,
            table: parts.table.as_slice()?,
            values: PhantomData,
        })
    }

    fn record(&self, number: usize) -> Record<K::Bits> {
        Record::of(self.records[number])
    }

    fn first_line(&self, number: usize) -> usize {
        self.nodes[number].array::<u32, 16>()[FIRST_CHILD as usize] as usize
    }

    /// The pair in a slot.
    fn pair(&self, line: usize, slot: usize) -> (K::Bits, V) {
        let slots = chunk_slots::<K::Bits, V>() as usize;
        let (words, at) = (self.lines[line].array::<u64, 8>(), slot / slots * 2);
        pairs_of([words[at], words[at + 1]])[slot % slots]
    }

    /// Calls `each` with the position of every query: after the keys below it or, with `upper`, not above it.
    fn positions(&self, queries: &[K], upper: bool, each: impl FnMut(usize, K::Bits, Position)) {
        self.simd.run(Batch { view: *self, queries, finish: Positions { upper, each } });
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

/// Words of a line that are keys, if pairs take two each.
const KEYS: u32 = 0x5555_5555;

/// Gives away the values of words.
struct Values<F>(F);

impl<K: Key, V: Word, F: FnMut(usize, Option<V>)> Finish<K, V> for Values<F> {
    const ORDERED: bool = false;

    #[inline(always)]
    fn finish<S: Count>(&mut self, simd: S, view: &View<'_, K, V>, query: usize, word: K::Bits, place: Place) {
        let line = &view.lines[place.line as usize];
        // The value is the word after the key. Past the last one of an absent key, it is none's.
        let (equal, value) = if chunk_slots::<K::Bits, V>() == 2 {
            let equal = simd.equal(line.words(), word.low()) & KEYS;
            (equal, V::truncate(line.array::<u32, 16>()[(equal.trailing_zeros() as usize + 1) % 16].into()))
        } else {
            let equal = simd.equal(line.words(), word.widen()) & KEYS;
            (equal, V::truncate(line.array::<u64, 8>()[(equal.trailing_zeros() as usize + 1) % 8]))
        };
        self.0(query, (equal != 0).then_some(value));
    }
}

/// Gives away the positions of words.
struct Positions<F> {
    upper: bool,
    each: F,
}

impl<K: Key, V: Word, F: FnMut(usize, K::Bits, Position)> Finish<K, V> for Positions<F> {
    const ORDERED: bool = true;

    #[inline(always)]
    fn finish<S: Count>(&mut self, simd: S, view: &View<'_, K, V>, query: usize, word: K::Bits, place: Place) {
        let line = &view.lines[place.line as usize];
        let before = match (chunk_slots::<K::Bits, V>(), self.upper) {
            (2, false) => simd.below(line.words(), word.low()),
            (2, true) => simd.upto(line.words(), word.low()),
            (_, false) => simd.below(line.words(), word.widen()),
            (_, true) => simd.upto(line.words(), word.widen()),
        };
        let record = view.record(place.node as usize);
        let len = record.len(place.within);
        // Free slots repeat the last pair.
        let slot = (before & KEYS).count_ones().min(len);
        let rank = record.rank + u64::from(record.before(place.within) + slot);
        let position = Position { line: place.line as usize, slot: slot as usize, len: len as usize, rank };
        (self.each)(query, word, position);
    }
}

impl<K: Key, V: Word> fixed::View<K, V> for View<'_, K, V> {
    fn get(&self, queries: &[K], mut each: impl FnMut(usize, Option<V>)) {
        if self.shape.len == 0 {
            return (0..queries.len()).for_each(|i| each(i, None));
        }
        self.simd.run(Batch { view: *self, queries, finish: Values(each) });
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
