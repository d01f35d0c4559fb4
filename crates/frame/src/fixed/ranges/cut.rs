//! Results of ranges that do not fit into the staging memory: they are cut into windows, and long ranges into parts.

use super::super::FixedIndex;
use super::Sizes;
use lanetree_base::Result;

/// Cuts a piece whose ranges are located.
pub(super) struct Cutter<'a, I: FixedIndex> {
    index: &'a I,
    sizes: Sizes,
    /// The ranges' cursors, and offsets from 0 on.
    ranges: (&'a [u64], &'a [u64]),
    /// The current range, how many of its pairs are done, and the cursor of the next pair.
    range: usize,
    done: u64,
    cursor: u64,
    walk: I::Walk,
    /// The window's rows.
    pub(super) cursors: Vec<u64>,
    /// Their offsets, one more.
    pub(super) offsets: Vec<u64>,
}

impl<'a, I: FixedIndex> Cutter<'a, I> {
    pub(super) fn new(index: &'a I, cursors: &'a [u64], offsets: &'a [u64]) -> Self {
        Self {
            index,
            sizes: index.staging().ranges.sizes,
            ranges: (cursors, offsets),
            range: 0,
            done: 0,
            cursor: cursors.first().copied().unwrap_or(0),
            walk: I::Walk::default(),
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
                self.cursor = self.index.advance(&mut self.walk, self.sizes.leaves, self.cursor, taken)?;
            }
        }
        Ok((used > 0).then_some(used as usize))
    }
}
