//! The first fragments of inner nodes: `lanetree_kernels_hbtree::layout` draws them.

use crate::line::{Leaf, Line, slots};
use core::ops::Range;
use lanetree_kernels_hbtree::layout;
use lanetree_layout::Word;

/// Children of a node, and lines of pairs of a big leaf.
pub(super) const fn fanout<B: Word>() -> usize {
    layout::fanout::<B>() as usize
}

/// Lines of a node above the last inner level.
pub(super) const fn upper_lines<B: Word>() -> usize {
    layout::upper_lines::<B>() as usize
}

/// Lines of a node of the last inner level.
pub(super) const fn last_lines<B: Word>() -> usize {
    layout::last_lines::<B>() as usize
}

/// The line that has a node's first children.
pub(super) const fn first_child_line<B: Word>() -> usize {
    1 + layout::words::<B>() as usize
}

/// A separator, which is at least the child's keys and below the keys of the next child, and the child.
pub(super) type Entry<B> = (B, u32);

/// The separators of a node.
pub(super) fn separators<B: Word>(node: &[Line]) -> &[B] {
    bytemuck::cast_slice(&node[1..first_child_line::<B>()])
}

pub(super) fn separators_mut<B: Word>(node: &mut [Line]) -> &mut [B] {
    bytemuck::cast_slice_mut(&mut node[1..first_child_line::<B>()])
}

/// The numbers of the children of a node above the last inner level.
pub(super) fn children<B: Word>(node: &[Line]) -> &[B] {
    bytemuck::cast_slice(&node[first_child_line::<B>()..upper_lines::<B>()])
}

/// Each word of the index is its line's largest separator.
pub(super) fn write_index<B: Word>(node: &mut [Line]) {
    let words = layout::words::<B>() as usize;
    for line in 0..words {
        let largest = node[1 + line].words::<B>()[words - 1];
        node[0].words_mut::<B>()[line] = largest;
    }
}

/// Writes a node above the last inner level.
pub(super) fn write_upper<B: Word>(node: &mut [Line], entries: &[Entry<B>]) {
    let last = entries.len() - 1;
    let separators = separators_mut::<B>(node);
    separators.fill(B::MAX);
    separators.iter_mut().zip(&entries[..last]).for_each(|(separator, entry)| *separator = entry.0);
    write_index::<B>(node);
    let children: &mut [B] = bytemuck::cast_slice_mut(&mut node[first_child_line::<B>()..upper_lines::<B>()]);
    children.fill(B::MIN);
    children.iter_mut().zip(entries).for_each(|(child, entry)| *child = B::truncate(u64::from(entry.1)));
}

/// Writes the separators of a big leaf's lines, from line `base` on, into its node of the last inner level: `last_key` is
/// the last key of each line but the last of `used` lines.
pub(super) fn write_last<B: Word>(node: &mut [Line], base: usize, used: usize, last_key: impl Fn(usize) -> B) {
    for (line, separator) in separators_mut::<B>(node).iter_mut().enumerate().skip(base) {
        *separator = if line + 1 < used { last_key(line) } else { B::MAX };
    }
    write_index::<B>(node);
}

/// Writes pairs into the lines of a big leaf, from a slot on: the slots before it in its line stay, those after the last
/// pair in its line are empty.
pub(super) fn write_pairs<B: Word, V: Word>(lines: &mut [Line], at: usize, mut pairs: &[(B, V)]) {
    let per_line = slots::<B, V>();
    let mut slot = at % per_line;
    for line in &mut lines[at / per_line..] {
        let Some((now, later)) = pairs.split_at_checked(per_line - slot).or(Some((pairs, &[]))) else { break };
        if now.is_empty() {
            break;
        }
        if slot == 0 {
            *line = Line::ONES;
        }
        now.iter().enumerate().for_each(|(i, &(key, value))| line.set(slot + i, key, value));
        (slot, pairs) = (0, later);
    }
}

/// Pairs in order, keys and values apart.
#[derive(Debug)]
pub(super) struct Columns<B, V> {
    pub(super) keys: Vec<B>,
    pub(super) values: Vec<V>,
}

impl<B: Word, V: Word> Columns<B, V> {
    pub(super) fn with_capacity(pairs: usize) -> Self {
        Self { keys: Vec::with_capacity(pairs), values: Vec::with_capacity(pairs) }
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
    }

    pub(super) fn push(&mut self, key: B, value: V) {
        self.keys.push(key);
        self.values.push(value);
    }

    /// The pairs at `places`.
    pub(super) fn part(&self, places: Range<usize>) -> Pairs<'_, B, V> {
        Pairs { keys: &self.keys[places.clone()], values: &self.values[places] }
    }
}

/// [`Columns`] of somebody else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs<'a, B, V> {
    pub(super) keys: &'a [B],
    pub(super) values: &'a [V],
}

/// Writes pairs into the lines of a big leaf, from the first slot of a line on. Slots after the last pair in its line are
/// empty.
pub(super) fn write_columns<B: Word, V: Word>(lines: &mut [Line], Pairs { keys, values }: Pairs<'_, B, V>) {
    let per_line = slots::<B, V>();
    for (line, (keys, values)) in lines.iter_mut().zip(keys.chunks(per_line).zip(values.chunks(per_line))) {
        *line = Line::ONES;
        line.set_all(keys, values);
    }
}

/// Disjoint parts of an array of nodes, of `each` elements a node: the nodes of these ranges, which ascend.
pub(super) fn parts_mut<T>(
    mut all: &mut [T],
    each: usize,
    ranges: impl IntoIterator<Item = Range<u32>>,
) -> impl Iterator<Item = &mut [T]> {
    let mut start = 0;
    ranges.into_iter().map(move |Range { start: first, end }| {
        let (first, end) = (first as usize, end as usize);
        let rest = core::mem::take(&mut all);
        let (part, rest) = rest[(first - start) * each..].split_at_mut((end - first) * each);
        (start, all) = (end, rest);
        part
    })
}
