//! The CPU's own path over the same nodes.

mod descent;
mod node;

use self::descent::{Batch, Each, Finish, GROUP, Place, Words};
use self::node::Count;
use crate::parts::{Parts, Shape};
use core::marker::PhantomData;
use lanetree_frame::fixed;
use lanetree_kernels_lane_tree::layout::{
    FIRST_CHILD, LINE_WORDS, Record, chunk_slots, has_keys_alone, has_values_beside, last_node, line_at, line_slots,
    pairs_of, record_words, value_at,
};
use lanetree_layout::{AnyKey, KeyWord, Value, Word};
use lanetree_runtime::{Line, Simd};

/// A tree in main memory, over the words of its keys.
pub struct View<'a, W: KeyWord, V> {
    shape: Shape<W>,
    simd: Simd,
    lines: &'a [Line],
    nodes: &'a [Line],
    records: &'a [u64],
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

/// Where a query ends: in a bucket, after some of its pairs.
#[derive(Clone, Copy, Default)]
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

impl<'a, W: KeyWord, V: Value> View<'a, W, V> {
    /// The tree, if it is in main memory, searched with these instructions.
    pub(crate) fn new(parts: &'a Parts<W>, simd: Simd) -> Option<Self> {
        Some(Self {
            shape: parts.shape,
            simd,
            lines: in_lines(parts.lines.as_slice()?),
            nodes: in_lines(parts.nodes.as_slice()?),
            records: parts.records.as_slice()?,
            firsts: parts.firsts.as_slice()?,
            top: parts.firsts.as_slice()?.get(parts.shape.top_start()..)?,
            table: parts.table.as_slice()?,
            values: PhantomData,
        })
    }

    fn record(&self, number: usize) -> Record<W> {
        let words = record_words::<W, V>() as usize;
        Record::of_slice::<V>(&self.records[number * words..(number + 1) * words])
    }

    fn first_line(&self, number: usize) -> usize {
        self.nodes[number].array::<u32, 16>()[FIRST_CHILD as usize] as usize
    }

    /// The place of a bucket among [`View::lines`].
    #[inline(always)]
    fn place(line: usize) -> usize {
        (line_at::<W, V>(line as u32) / u64::from(LINE_WORDS)) as usize
    }

    /// The pair in a slot.
    fn pair(&self, line: usize, slot: usize) -> (W, V) {
        let slots = chunk_slots::<W, V>() as usize;
        let (words, at) = (self.lines[Self::place(line)].array::<u64, 8>(), slot / slots * 2);
        let (key, value) = pairs_of([words[at], words[at + 1]])[slot % slots];
        (key, if has_values_beside::<W, V>() { self.value_beside(line, slot) } else { value })
    }

    /// The value of a slot, if buckets have keys alone.
    #[inline(always)]
    fn value_beside(&self, line: usize, slot: usize) -> V {
        let all: &[V] = bytemuck::cast_slice(self.lines);
        all[value_at::<W, V>(line as u32, slot as u32) as usize]
    }

    /// Calls `each` with what [`Batch`] says.
    fn values(&self, count: usize, words: &Words<'_, W>, each: &mut Each<'_, Option<V>>) {
        self.simd.run(Batch { view: *self, count, words, finish: Values, each });
    }

    /// Calls `each` with the positions of queries: after the keys below them or, with `upper`, not above them.
    fn positions(&self, count: usize, words: &Words<'_, W>, upper: bool, each: &mut Each<'_, Position>) {
        self.simd.run(Batch { view: *self, count, words, finish: Positions { upper }, each });
    }

    /// Calls `each` with the last pairs at or below queries, or the first ones at or above them.
    fn neighbors(&self, count: usize, words: &Words<'_, W>, predecessor: bool, each: &mut Each<'_, Option<(W, V)>>) {
        self.simd.run(Batch { view: *self, count, words, finish: Neighbors { predecessor }, each });
    }

    /// The position in a bucket after so many of its slots.
    #[inline(always)]
    fn position(&self, place: Place, before: u32) -> Position {
        let record = self.record(place.node as usize);
        let len = record.len(place.within);
        let slot = before.min(len);
        let rank = record.rank + u64::from(record.before::<V>(place.within) + slot);
        Position { line: place.line as usize, slot: slot as usize, len: len as usize, rank }
    }

    /// The pair before a position, or the pair at or after it.
    fn next_to(&self, Position { line, slot, len, rank }: Position, before: bool) -> Option<(W, V)> {
        match before {
            true if rank == 0 => None,
            true if slot > 0 => Some(self.pair(line, slot - 1)),
            // The last slot of a bucket has its last pair, whether or not it is free.
            true => Some(self.pair(line - 1, line_slots::<W, V>() as usize - 1)),
            false if rank == self.shape.len => None,
            false if slot < len => Some(self.pair(line, slot)),
            // Buckets that are free repeat the pair before.
            false => {
                let last = self.pair(line, len - 1).0;
                (line + 1..).map(|line| self.pair(line, 0)).find(|pair| pair.0 > last)
            }
        }
    }

    /// The position of the pair of a rank; past the last pair, that after it.
    fn at_rank(&self, rank: u64) -> (usize, usize) {
        let node = last_node(self.shape.leaf_nodes, |number| self.record(number as usize).rank <= rank) as usize;
        let (record, mut line) = (self.record(node), 0);
        let mut left = (rank - record.rank) as u32;
        while left >= record.len(line) && self.first_line(node) + (line as usize) + 1 < self.shape.lines as usize {
            left -= record.len(line);
            line += 1;
        }
        (self.first_line(node) + line as usize, left as usize)
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
    fn finish<S: Count>(self, simd: S, view: &View<'_, W, V>, word: W, place: Place) -> Self::Out {
        let line = &view.lines[View::<W, V>::place(place.line as usize)];
        if !V::IS_SOME {
            return (simd.equal(line.words(), word) != 0).then(V::default);
        }
        if has_values_beside::<W, V>() {
            let equal = simd.equal(line.words(), word);
            let value = || view.value_beside(place.line as usize, equal.trailing_zeros() as usize);
            return (equal != 0).then(value);
        }
        // The value is the word after the key. Past the last one of an absent key, it is none's.
        let of_word = |word: u64| V::of(KeyWord::truncate(word));
        let (equal, value) = if chunk_slots::<W, V>() == 2 {
            let equal = simd.equal(line.words(), word.low()) & KEYS;
            (equal, of_word(line.array::<u32, 16>()[(equal.trailing_zeros() as usize + 1) % 16].into()))
        } else {
            let equal = simd.equal(line.words(), word.parts()[0]) & KEYS;
            (equal, of_word(line.array::<u64, 8>()[(equal.trailing_zeros() as usize + 1) % 8]))
        };
        (equal != 0).then_some(value)
    }
}

/// Which slots of a bucket have keys below a word or, with `upper`, not above it. Free slots repeat the last pair.
#[inline(always)]
fn slots_before<W: KeyWord, V: Value>(simd: impl Count, line: &Line, word: W, upper: bool) -> u32 {
    let low = word.parts()[0];
    // Of words as wide as half a pair, or as a key alone.
    let before = match (chunk_slots::<W, V>(), upper) {
        _ if has_keys_alone::<W, V>() && upper => simd.upto(line.words(), word),
        _ if has_keys_alone::<W, V>() => simd.below(line.words(), word),
        (2, false) => simd.below(line.words(), word.low()) & KEYS,
        (2, true) => simd.upto(line.words(), word.low()) & KEYS,
        (_, false) => simd.below(line.words(), low) & KEYS,
        (_, true) => simd.upto(line.words(), low) & KEYS,
    };
    before.count_ones()
}

/// Finds the positions of words.
#[derive(Clone, Copy)]
struct Positions {
    upper: bool,
}

impl<W: KeyWord, V: Value> Finish<W, V> for Positions {
    type Out = Position;
    const ORDERED: bool = true;

    #[inline(always)]
    fn finish<S: Count>(self, simd: S, view: &View<'_, W, V>, word: W, place: Place) -> Self::Out {
        let line = &view.lines[View::<W, V>::place(place.line as usize)];
        view.position(place, slots_before::<W, V>(simd, line, word, self.upper))
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
    fn finish<S: Count>(self, simd: S, view: &View<'_, W, V>, word: W, place: Place) -> Self::Out {
        let line = place.line as usize;
        let before = slots_before::<W, V>(simd, &view.lines[View::<W, V>::place(line)], word, self.predecessor);
        // Nearly always the pair is in the bucket.
        match self.predecessor {
            true if before > 0 => Some(view.pair(line, before as usize - 1)),
            false if before < line_slots::<W, V>() => Some(view.pair(line, before as usize)),
            _ => view.next_to(view.position(place, before), self.predecessor),
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
        self.positions(queries.len(), &encoded(queries), upper, &mut |first, positions| {
            positions.iter().enumerate().for_each(|(i, position)| each(first + i, position.rank));
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
        if keys.is_empty() {
            return;
        }
        let slots = line_slots::<K::Bits, V>() as usize;
        let (mut line, mut slot) = self.at_rank(rank);
        let mut before = None;
        for (key, value) in keys.iter_mut().zip(values) {
            // Free slots and buckets repeat the pair before.
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
