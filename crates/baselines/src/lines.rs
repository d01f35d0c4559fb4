//! What the static trees for CPUs share: arrays of cache lines, leaves of keys and values, separators, and look-ups
//! of which many are in flight at the same time.

use crate::Simd;
use crate::simd::{Searching, Task, Vector};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use lanetree_base::parallel::*;
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_runtime::Line;
use lanetree_runtime::{HostArray, Pages};

#[cfg(test)]
pub(crate) mod battery;

/// The most look-ups that a thread may have in flight.
pub const MAX_IN_FLIGHT: usize = 256;

/// Queries of one task.
const TASK: usize = 1 << 12;

/// An array of lines in huge pages, whose first one is aligned as [`lines`] was asked to.
pub(crate) struct Lines {
    array: HostArray<Line>,
    first: usize,
    len: usize,
}

/// `len` zeroed lines that start at a multiple of `alignment` lines.
///
/// # Panics
/// Without memory for them.
pub(crate) fn lines(len: usize, alignment: usize) -> Lines {
    let room = if len == 0 { 0 } else { len + alignment - 1 };
    let array: HostArray<Line> = HostArray::zeroed(room, Pages::Transparent).expect("memory for a baseline");
    let first = (array.as_ptr().addr() / Line::BYTES).wrapping_neg() % alignment;
    Lines { first: first.min(room), array, len }
}

impl Deref for Lines {
    type Target = [Line];

    #[inline(always)]
    fn deref(&self) -> &[Line] {
        &self.array[self.first..self.first + self.len]
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [Line] {
        &mut self.array[self.first..self.first + self.len]
    }
}

/// A word with its sign bit flipped: signed comparisons of such words are unsigned ones of the words.
#[inline(always)]
pub(crate) fn flip<W: Word>(word: W) -> W {
    word.xor(W::truncate(1 << (W::BITS - 1)))
}

/// [`Word::MAX`], flipped: fills lines, since it is below no query.
pub(crate) fn padding<W: Word>() -> W {
    flip(W::MAX)
}

/// The separators of a node whose children have consecutive numbers from `child` on, and `span` leaves each: of every
/// child but the last, its largest key, flipped. A query descends past all separators that are below it. The iterator
/// ends at the last child that has leaves, so no query descends past that one.
pub(crate) fn separators<K: Key>(
    keys: &[K],
    pairs_per_leaf: usize,
    child: usize,
    span: usize,
) -> impl Iterator<Item = K::Bits> {
    let last_keys = (child + 1..).map(move |next| next * span * pairs_per_leaf);
    last_keys.take_while(|&next| next < keys.len()).map(|next| flip(keys[next - 1].encode()))
}

/// Leaves of one cache line, which holds pairs in ascending order: a hit costs one miss for key and value together.
///
/// ```text
/// u64, u64: | key 0 | key 1 | key 2 | key 3 | value 0 | value 1 | value 2 | value 3 |
/// u32, u32: | key 0 …                 key 7 | value 0 …                     value 7 |
/// ```
///
/// Leaves full of keys, with the values in an array of their own, are half the number, but cost a second miss per hit:
/// with them, the S+ tree was 10 to 15 % slower at 2²⁰ pairs, and 20 to 25 % from 2²⁴ on.
pub(crate) struct Leaves<K, V> {
    lines: Lines,
    len: usize,
    types: PhantomData<(K, V)>,
}

impl<K: Key, V: Word> Leaves<K, V> {
    /// Pairs of a leaf: what fits, but no more keys than half the line holds, which one 256-bit register compares. Only
    /// 64-bit keys with 32-bit values leave words unused.
    pub(crate) const PAIRS: usize = {
        let (fit, half) = (Line::BYTES / (K::Bits::BYTES + V::BYTES), Line::BYTES / 2 / K::Bits::BYTES);
        if fit < half { fit } else { half }
    };
    /// The first value, in values from the line's start.
    const VALUES: usize = Line::BYTES / V::BYTES - Self::PAIRS;

    /// # Panics
    /// If the lengths differ, or the keys are not strictly ascending.
    pub(crate) fn new(keys: &[K], values: &[V]) -> Self {
        assert_eq!(keys.len(), values.len(), "each key needs one value");
        assert!(keys.par_windows(2).all(|pair| pair[0] < pair[1]), "the keys are not strictly ascending");
        let mut leaves = lines(keys.len().div_ceil(Self::PAIRS), 1);
        let pairs = keys.par_chunks(Self::PAIRS).zip(values.par_chunks(Self::PAIRS));
        leaves.par_iter_mut().zip(pairs).with_min_len(TASK).for_each(|(line, (keys, values))| {
            line.words_mut()[..Self::PAIRS].fill(padding::<K::Bits>());
            for (word, key) in line.words_mut().iter_mut().zip(keys) {
                *word = flip(key.encode());
            }
            line.words_mut()[Self::VALUES..][..values.len()].copy_from_slice(values);
        });
        Self { lines: leaves, len: keys.len(), types: PhantomData }
    }

    /// Leaves, which is lines.
    pub(crate) fn count(&self) -> usize {
        self.lines.len()
    }

    /// Pairs of all leaves.
    pub(crate) fn pairs(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *const Line {
        self.lines.as_ptr()
    }

    /// The value of a flipped key, if this leaf has it.
    ///
    /// # Safety
    /// `leaf` is less than [`count`](Self::count).
    #[inline(always)]
    pub(crate) unsafe fn get<S: Vector>(&self, simd: S, leaf: usize, word: K::Bits) -> Option<V> {
        // SAFETY: by this function's contract.
        let line = unsafe { self.lines.get_unchecked(leaf) };
        // The lowest hit: padding that equals the key comes after it.
        let slot = simd.hits(line, word).trailing_zeros() as usize;
        let value = line.words::<V>()[Self::VALUES + slot.min(Self::PAIRS - 1)];
        (slot < Self::PAIRS && leaf * Self::PAIRS + slot < self.len).then_some(value)
    }
}

/// A tree in which every look-up passes the same number of levels.
pub(crate) trait Descent<K: Key, V>: Sync {
    /// Where a look-up stands.
    type Place: Copy + Default;
    /// What all look-ups have in common that stand on one level.
    type Level<'a>: Copy
    where
        Self: 'a;

    /// Whether there are no leaves.
    fn is_empty(&self) -> bool;
    /// Levels above the leaves.
    fn levels(&self) -> usize;
    /// A level; 0 is the root's.
    fn level(&self, level: usize) -> Self::Level<'_>;
    /// From a node of the level to the child, which it prefetches.
    ///
    /// # Safety
    /// The tree has leaves. `place` is the default on level 0, and on any other the level above left it, for the same
    /// `word`.
    unsafe fn step<S: Vector>(&self, simd: S, level: Self::Level<'_>, place: &mut Self::Place, word: K::Bits);
    /// Searches the leaf.
    ///
    /// # Safety
    /// As of [`step`](Self::step), on the level below the last.
    unsafe fn finish<S: Vector>(&self, simd: S, place: Self::Place, word: K::Bits) -> Option<V>;
}

/// Checks the options that both trees have.
///
/// # Panics
/// If the number of look-ups in flight is out of range, or this machine lacks the instructions.
pub(crate) fn check_options(in_flight: usize, simd: Simd) {
    assert!((1..=MAX_IN_FLIGHT).contains(&in_flight), "{in_flight} look-ups in flight: not in 1..={MAX_IN_FLIGHT}");
    assert!(simd.is_available(), "this machine lacks {simd:?}");
}

/// Sets `out[i]` to the value of `queries[i]`, with `in_flight` look-ups of a thread in flight.
pub(crate) fn look_up<K: Key, V: Send>(
    tree: &impl Descent<K, V>,
    simd: Simd,
    in_flight: usize,
    queries: &[K],
    out: &mut [Option<V>],
) {
    assert_eq!(queries.len(), out.len(), "each query needs a place for its result");
    if tree.is_empty() {
        return out.fill_with(|| None);
    }
    let tasks = queries.par_chunks(TASK).zip(out.par_chunks_mut(TASK));
    tasks.for_each(|(queries, out)| simd.run(Searching(LookUps { tree, in_flight, queries, out })));
}

struct LookUps<'a, K, V, D> {
    tree: &'a D,
    in_flight: usize,
    queries: &'a [K],
    out: &'a mut [Option<V>],
}

impl<K: Key, V, D: Descent<K, V>> Task for LookUps<'_, K, V, D> {
    /// Groups of look-ups descend together, level by level. When the last of a group has prefetched its child, the
    /// first one's child has arrived.
    ///
    /// Why no group starts while another is half-way down, which would spread the misses of the lower levels evenly: with
    /// two or four such groups, or one per level, the S+ tree was no faster than the noise at any size, and up to twice
    /// as slow with few look-ups in flight.
    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let mut words = [K::Bits::MIN; MAX_IN_FLIGHT];
        let mut places = [D::Place::default(); MAX_IN_FLIGHT];
        let groups = self.queries.chunks(self.in_flight).zip(self.out.chunks_mut(self.in_flight));
        for (queries, out) in groups {
            let (words, places) = (&mut words[..queries.len()], &mut places[..queries.len()]);
            for (word, key) in words.iter_mut().zip(queries) {
                *word = flip(key.encode());
            }
            places.fill(D::Place::default());
            for level in 0..self.tree.levels() {
                let level = self.tree.level(level);
                for (place, &word) in places.iter_mut().zip(words.iter()) {
                    // SAFETY: `look_up` checked that there are leaves; every place passes all levels in order.
                    unsafe { self.tree.step(simd, level, place, word) };
                }
            }
            for ((out, &place), &word) in out.iter_mut().zip(places.iter()).zip(words.iter()) {
                // SAFETY: as above.
                *out = unsafe { self.tree.finish(simd, place, word) };
            }
        }
    }
}
