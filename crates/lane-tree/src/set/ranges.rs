//! The keys of a batch of ranges.

use lanetree_frame::Ranges;

/// The keys of a batch of ranges of a set, one range after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetRanges<K> {
    /// Where each range's keys begin, and where the last one's end: one more than there are ranges.
    pub offsets: Vec<u64>,
    /// The keys of all ranges.
    pub keys: Vec<K>,
}

impl<K> From<Ranges<K, ()>> for SetRanges<K> {
    fn from(ranges: Ranges<K, ()>) -> Self {
        Self { offsets: ranges.offsets, keys: ranges.keys }
    }
}

impl<K> SetRanges<K> {
    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys of one range.
    ///
    /// # Panics
    /// If there is no such range, or its keys were taken.
    pub fn get(&self, range: usize) -> &[K] {
        &self.keys[self.offsets[range] as usize..self.offsets[range + 1] as usize]
    }

    /// The keys of each range in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[K]> {
        (0..self.len()).map(|range| self.get(range))
    }
}
