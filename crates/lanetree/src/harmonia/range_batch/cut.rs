//! Results of ranges that do not fit into the staging memory: they are cut into windows, and long ranges into parts.

use super::Sizes;
use crate::Result;
use crate::harmonia::Harmonia;
use lanetree_layout::{Key, Word};
use lanetree_runtime::Buffer;

/// Cuts a piece whose ranges are located.
pub(super) struct Cutter<'a, K: Key, V: Word> {
    tree: &'a Harmonia<K, V>,
    sizes: Sizes,
    /// The ranges' cursors, and offsets from 0 on.
    ranges: (&'a [u64], &'a [u64]),
    /// The current range, how many of its pairs are done, and the cursor of the next pair.
    range: usize,
    done: u64,
    cursor: u64,
    ranks: Ranks,
    /// The window's rows.
    pub(super) cursors: Vec<u64>,
    /// Their offsets, one more.
    pub(super) offsets: Vec<u64>,
}

impl<'a, K: Key, V: Word> Cutter<'a, K, V> {
    pub(super) fn new(tree: &'a Harmonia<K, V>, cursors: &'a [u64], offsets: &'a [u64]) -> Self {
        Self {
            tree,
            sizes: tree.staging.ranges.sizes,
            ranges: (cursors, offsets),
            range: 0,
            done: 0,
            cursor: cursors.first().copied().unwrap_or(0),
            ranks: Ranks::default(),
            cursors: Vec::new(),
            offsets: Vec::new(),
        }
    }

    /// Fills [`Cutter::cursors`] and [`Cutter::offsets`] with the rows of the next window. Returns its number of pairs;
    /// `None` past the last window.
    pub(super) fn next_window(&mut self) -> Result<Option<usize>> {
        let (cursors, offsets) = self.ranges;
        let Sizes { window, long, part, .. } = self.sizes;
        self.cursors.clear();
        self.offsets.clear();
        self.offsets.push(0);
        let mut used = 0;
        while self.range < cursors.len() {
            let len = offsets[self.range + 1] - offsets[self.range];
            if self.done == len {
                (self.range, self.done) = (self.range + 1, 0);
                self.cursor = cursors.get(self.range).copied().unwrap_or(0);
                continue;
            }
            let (left, room) = (len - self.done, window as u64 - used);
            let taken = match len > long {
                true => left.min(part).min(room),
                false if left > room => 0,
                false => left,
            };
            if taken == 0 {
                break;
            }
            used += taken;
            self.cursors.push(self.cursor);
            self.offsets.push(used);
            self.done += taken;
            if self.done < len {
                self.cursor = self.advance(taken)?;
            }
        }
        Ok((used > 0).then_some(used as usize))
    }

    /// The cursor a number of pairs further on; these pairs are in the tree.
    fn advance(&mut self, pairs: u64) -> Result<u64> {
        let (leaf, slot) = (self.cursor >> 32, self.cursor & u64::from(u32::MAX));
        let (leaf, slot) = match &self.tree.ranks {
            None => {
                let per_leaf = u64::from(self.tree.shape.per_leaf);
                let rank = leaf * per_leaf + slot + pairs;
                (rank / per_leaf, rank % per_leaf)
            }
            Some(ranks) => {
                let entries = self.tree.shape.leaves as usize + 1;
                let block = self.sizes.leaves.max(2);
                let first = self.ranks.of(ranks, entries, block, leaf as usize)?;
                let rank = first + slot + pairs;
                let (leaf, first) = self.ranks.leaf(ranks, entries, block, leaf as usize, rank)?;
                (leaf as u64, rank - first)
            }
        };
        Ok(leaf << 32 | slot)
    }
}

/// A block of a tree's ranks, in main memory.
#[derive(Debug, Default)]
struct Ranks {
    first: usize,
    ranks: Vec<u64>,
}

impl Ranks {
    /// The rank of a leaf's first pair.
    fn of(&mut self, all: &Buffer<u64>, entries: usize, block: usize, leaf: usize) -> Result<u64> {
        if leaf < self.first || leaf >= self.first + self.ranks.len() {
            self.fetch(all, entries, block, leaf)?;
        }
        Ok(self.ranks[leaf - self.first])
    }

    /// The leaf of a rank, at or after `leaf`, and the rank of its first pair.
    fn leaf(
        &mut self,
        all: &Buffer<u64>,
        entries: usize,
        block: usize,
        mut leaf: usize,
        rank: u64,
    ) -> Result<(usize, u64)> {
        loop {
            self.of(all, entries, block, leaf)?;
            let from = leaf - self.first;
            let passed = self.ranks[from..].partition_point(|&first| first <= rank);
            let at = from + passed.max(1) - 1;
            if at + 1 < self.ranks.len() || self.first + self.ranks.len() == entries {
                return Ok((self.first + at, self.ranks[at]));
            }
            // The next leaf's rank says whether it is this leaf.
            leaf = self.first + at;
            self.fetch(all, entries, block, leaf)?;
        }
    }

    fn fetch(&mut self, all: &Buffer<u64>, entries: usize, block: usize, leaf: usize) -> Result<()> {
        self.first = leaf;
        self.ranks.resize(block.min(entries - leaf), 0);
        Ok(all.copy_range_to(leaf, &mut self.ranks)?)
    }
}
