//! The way of a batch down the tree, many queries at a time.
//!
//! A thread takes its queries in groups. While one is looked for in the table and in the level below, the nodes of the lowest
//! level for the one before are on their way, and so are the buckets for the one before that. So no access waits for memory
//! unless more are under way than the CPU can have.

use super::View;
use super::node::Count;
use core::hint::select_unpredictable;
use lanetree_kernels_lane_tree::layout::{TABLE_ENTRIES, record_words};
use lanetree_layout::{KeyWord, Value};
#[cfg(target_arch = "x86_64")]
use lanetree_runtime::{Avx2, Avx512};
use lanetree_runtime::{Line, Portable, SimdTask, prefetch};

/// Queries of a group.
pub(crate) const GROUP: usize = 32;

/// Groups that are under way: in the levels above the lowest, in the lowest, in the buckets.
const UNDER_WAY: usize = 3;

/// What is found in a query's bucket, once that is there. Its function is inlined into code that was compiled for the instructions.
pub(super) trait Finish<W: KeyWord, V>: Copy {
    /// What comes of a query.
    type Out: Copy + Default;
    /// Whether words may be absent, and it matters where they would be.
    const ORDERED: bool;
    /// Whether words that ascend may go down together, by the first keys of nodes. An absent word may then come elsewhere than by itself.
    const TOGETHER: bool = true;

    /// To be inlined: `#[inline(always)]`. The query's word; its bucket.
    fn finish<S: Count>(self, simd: S, view: &View<'_, W, V>, word: W, position: Position) -> Self::Out;
}

/// The bucket of a word.
#[derive(Clone, Copy, Default)]
pub(crate) struct Position {
    /// The node of the lowest level.
    pub(crate) node: u32,
    /// Its buckets before.
    pub(crate) within: u32,
    pub(crate) bucket: u32,
}

/// Writes the words of the queries from a number on. Past the last query they may be any.
pub(super) type Words<'a, W> = dyn Fn(usize, &mut [W; GROUP]) + 'a;

/// Takes what came of the queries from a number on.
pub(super) type Each<'a, T> = dyn FnMut(usize, &[T]) + 'a;

/// A batch of queries over a tree that has pairs. Callers' functions are called once for each group: so one instance for the words
/// serves all of their keys and results.
pub(super) struct Batch<'a, W: KeyWord, V, F: Finish<W, V>> {
    pub(super) view: View<'a, W, V>,
    pub(super) count: usize,
    pub(super) words: &'a Words<'a, W>,
    pub(super) finish: F,
    pub(super) each: &'a mut Each<'a, F::Out>,
}

/// Queries on their way.
#[derive(Clone, Copy)]
struct Group<B> {
    words: [B; GROUP],
    /// At first only the node is known, and of any level.
    positions: [Position; GROUP],
}

impl<W: KeyWord, V: Value, F: Finish<W, V>> Batch<'_, W, V, F> {
    #[inline(always)]
    fn run<S: Count>(mut self, simd: S) {
        let mut groups = [Group { words: [W::MIN; GROUP], positions: [Position::default(); GROUP] }; UNDER_WAY];
        let count = self.count.div_ceil(GROUP);
        // Each step brings every group that is under way one stage further, the last stage first.
        for step in 0..count + UNDER_WAY - 1 {
            let at = |stage: usize| step.checked_sub(stage).filter(|&group| group < count);
            if let Some(group) = at(2) {
                self.finish(simd, group, &groups[group % UNDER_WAY]);
            }
            if let Some(group) = at(1) {
                self.view.find_buckets::<S, F>(simd, &mut groups[group % UNDER_WAY]);
            }
            if let Some(group) = at(0) {
                self.start(simd, group, &mut groups[group % UNDER_WAY]);
            }
        }
    }

    #[inline(always)]
    fn start<S: Count>(&self, simd: S, number: usize, group: &mut Group<W>) {
        (self.words)(number * GROUP, &mut group.words);
        self.view.find_nodes::<S, F>(simd, group);
    }

    #[inline(always)]
    fn finish<S: Count>(&mut self, simd: S, number: usize, group: &Group<W>) {
        let first = number * GROUP;
        let mut out = [F::Out::default(); GROUP];
        let out = &mut out[..GROUP.min(self.count - first)];
        for ((out, &word), &position) in out.iter_mut().zip(&group.words).zip(&group.positions) {
            *out = self.finish.finish(simd, &self.view, word, position);
        }
        (self.each)(first, out);
    }
}

/// Whether words ascend. Nearly always the first few of others say that they do not.
#[inline(always)]
fn ascend<W: KeyWord>(words: &[W; GROUP]) -> bool {
    let in_order = |words: &[W]| words.windows(2).fold(true, |all, pair| all & (pair[0] <= pair[1]));
    in_order(&words[..5]) && in_order(&words[4..])
}

impl<W: KeyWord, V: Value> View<'_, W, V> {
    /// The nodes of the highest level for words: a binary search, all words side by side, until what is left is within 64
    /// bytes, which are compared at once.
    #[inline(always)]
    fn find_top<S: Count, const N: usize>(&self, simd: S, words: &[W; N], numbers: &mut [u32; N]) {
        let mut counts = [0; N];
        let mut most = 0;
        for ((&word, number), count) in words.iter().zip(&mut *numbers).zip(&mut counts) {
            let prefix = self.shape.prefixes.of(word);
            let entry = (prefix >> self.shape.table_shift).min(TABLE_ENTRIES - 1);
            let bounds = self.table[entry as usize];
            // The first of them may have the word's prefix, and still be above the word.
            let low = select_unpredictable(self.top[(bounds & 0xffff) as usize] <= word, bounds & 0xffff, 0);
            (*number, *count) = (low, (bounds >> 16) + 1 - low);
            most = most.max(*count);
        }
        let window = Line::BYTES / size_of::<W>();
        let at_once = if self.top.len() < window { 1 } else { window as u32 };
        while most > at_once {
            for ((&word, number), count) in words.iter().zip(&mut *numbers).zip(&mut counts) {
                let half = *count / 2;
                *number += select_unpredictable(self.top[(*number + half) as usize] <= word, half, 0);
                *count -= half;
            }
            most -= most / 2;
        }
        if at_once > 1 {
            for (&word, number) in words.iter().zip(&mut *numbers) {
                let start = (*number as usize).min(self.top.len() - window);
                let upto = simd.upto(&self.top[start..start + window], word);
                *number = (start as u32 + upto.count_ones()).saturating_sub(1);
            }
        }
        for number in numbers {
            *number += self.shape.top_first;
        }
    }

    /// The lowest node on the way of all words of a group, and its level. The words ascend, so it is the lowest on the way of the
    /// first and of the last one. Level 0 is the lowest.
    #[inline(always)]
    fn find_common<S: Count>(&self, simd: S, words: &[W; GROUP]) -> Option<(u32, u32)> {
        let ends = [words[0], words[GROUP - 1]];
        let mut numbers = [0; 2];
        self.find_top(simd, &ends, &mut numbers);
        let mut common = None;
        for level in (0..self.shape.height).rev() {
            let [number, last] = numbers;
            if number != last {
                break;
            }
            common = Some((number, level));
            if level > 0 {
                let (node, first) =
                    (&self.nodes[number as usize], self.firsts[(number - self.shape.leaf_nodes) as usize]);
                numbers = ends.map(|word| simd.child(node, word, Some(first)).0);
            }
        }
        common
    }

    /// The nodes of the lowest level.
    #[inline(always)]
    fn find_nodes<S: Count, F: Finish<W, V>>(&self, simd: S, group: &mut Group<W>) {
        let mut numbers = [0; GROUP];
        let common = if F::TOGETHER && ascend(&group.words) { self.find_common(simd, &group.words) } else { None };
        let level = if let Some((number, level)) = common {
            numbers = [number; GROUP];
            level
        } else {
            self.find_top(simd, &group.words, &mut numbers);
            self.shape.height - 1
        };
        for _ in 0..level {
            for &number in &numbers {
                prefetch(self.nodes.as_ptr().wrapping_add(number as usize));
            }
            for (number, &word) in numbers.iter_mut().zip(&group.words) {
                let first = F::ORDERED.then(|| self.firsts[(*number - self.shape.leaf_nodes) as usize]);
                (*number, _) = simd.child(&self.nodes[*number as usize], word, first);
            }
        }
        for (position, number) in group.positions.iter_mut().zip(numbers) {
            position.node = number;
            prefetch(self.nodes.as_ptr().wrapping_add(number as usize));
            if F::ORDERED {
                prefetch(self.records.as_ptr().wrapping_add(number as usize * record_words::<W, V>() as usize).cast());
            }
        }
    }

    /// The buckets.
    #[inline(always)]
    fn find_buckets<S: Count, F: Finish<W, V>>(&self, simd: S, group: &mut Group<W>) {
        for (position, &word) in group.positions.iter_mut().zip(&group.words) {
            let first = F::ORDERED.then(|| self.record(position.node as usize).first);
            (position.bucket, position.within) = simd.child(&self.nodes[position.node as usize], word, first);
            prefetch(self.buckets.as_ptr().wrapping_add(Self::position(position.bucket as usize)));
        }
    }
}

impl<W: KeyWord, V: Value, F: Finish<W, V>> SimdTask for Batch<'_, W, V, F> {
    type Out = ();

    #[inline(always)]
    fn portable(self) {
        self.run(Portable);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn avx2(self, simd: Avx2) {
        self.run(simd);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn avx512(self, simd: Avx512) {
        self.run(simd);
    }
}
