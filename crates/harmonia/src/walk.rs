//! From a cursor to another, further on.

use lanetree_frame::Result;
use lanetree_frame::room::make_room;
use lanetree_runtime::Buffer;

/// A block of a tree's ranks, in main memory.
#[derive(Debug, Default)]
pub struct Ranks {
    first: usize,
    ranks: Vec<u64>,
}

impl Ranks {
    /// The rank of a leaf's first pair.
    pub(super) fn of(&mut self, all: &Buffer<u64>, entries: usize, block: usize, leaf: usize) -> Result<u64> {
        if leaf < self.first || leaf >= self.first + self.ranks.len() {
            self.fetch(all, entries, block, leaf)?;
        }
        Ok(self.ranks[leaf - self.first])
    }

    /// The leaf of a rank, at or after `leaf`, and the rank of its first pair.
    pub(super) fn leaf(
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
        let block = block.min(entries - leaf);
        let more = block.saturating_sub(self.ranks.len());
        make_room(&mut self.ranks, more)?;
        self.first = leaf;
        self.ranks.resize(block, 0);
        Ok(all.copy_range_to(leaf, &mut self.ranks)?)
    }
}
