//! The leaves (the paper's L-segment), in host memory.

use crate::device::DeviceLines;
use crate::line::{Leaf, Line, prefetch, slots};
use crate::options::Options;
use crate::structure::{self, Place};
use core::marker::PhantomData;
use lanetree_frame::parallel::*;
use lanetree_frame::room::make_room;
use lanetree_frame::{Device, Error, Result, Stream};
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_runtime::{GrantedPages, HostArray, Pages};

/// Leaves of an implicit tree: full lines, side by side in the order of their keys. An empty tree has one, without pairs.
#[derive(Debug)]
pub struct PackedLeaves<B, V> {
    lines: HostArray<Line>,
    len: u64,
    words: PhantomData<(B, V)>,
}

impl<B: Word, V: Word> PackedLeaves<B, V> {
    /// Lines that hold `len` pairs, at least one.
    fn lines_for(len: u64) -> u64 {
        len.div_ceil(slots::<B, V>() as u64).max(1)
    }

    /// Lines for `len` pairs, of which the first is that of an empty tree.
    ///
    /// # Errors
    /// As [`structure::Leaves::with_room`].
    pub(super) fn lines_with_room(len: u64, pages: Pages) -> Result<HostArray<Line>> {
        let count = Self::lines_for(len);
        if count > u64::from(u32::MAX) {
            return Err(Error::TooManyLeaves { pairs: len, most: u64::from(u32::MAX) * slots::<B, V>() as u64 });
        }
        let mut lines = HostArray::zeroed(count as usize, pages)?;
        lines[0] = Line::ONES;
        Ok(lines)
    }

    /// Of lines that hold `len` pairs.
    pub(super) fn new(lines: HostArray<Line>, len: u64) -> Self {
        Self { lines, len, words: PhantomData }
    }

    /// Pairs.
    pub(crate) fn pairs_len(&self) -> u64 {
        self.len
    }

    pub(crate) fn memory_mut(&mut self) -> &mut HostArray<Line> {
        &mut self.lines
    }

    /// The lines in use.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines[..Self::lines_for(self.len) as usize]
    }

    /// Pairs of a leaf.
    #[inline(always)]
    fn used(&self, leaf: u32) -> u32 {
        let before = u64::from(leaf) * slots::<B, V>() as u64;
        (self.len - before).min(slots::<B, V>() as u64) as u32
    }

    /// The largest key of a full leaf.
    #[inline(always)]
    pub(crate) fn last_key(lines: &[Line], leaf: usize) -> B {
        lines[leaf].keys::<B, V>()[slots::<B, V>() - 1]
    }

    /// The number of pairs before a place.
    #[inline(always)]
    fn rank_of(place: Place) -> u64 {
        u64::from(place.leaf) * slots::<B, V>() as u64 + u64::from(place.slot)
    }

    /// The pair of a rank, if there is one.
    #[inline(always)]
    pub(crate) fn pair(&self, rank: u64) -> Option<(B, V)> {
        let per_leaf = slots::<B, V>() as u64;
        let (leaf, slot) = ((rank / per_leaf) as usize, (rank % per_leaf) as usize);
        (rank < self.len).then(|| (self.lines[leaf].keys::<B, V>()[slot], self.lines[leaf].values::<B, V>()[slot]))
    }
}

impl<K: Key, V: Word> structure::Leaves<K, V> for PackedLeaves<K::Bits, V> {
    fn with_room(most: u64, options: &Options) -> Result<Self> {
        Ok(Self::new(Self::lines_with_room(most, options.leaf_pages)?, 0))
    }

    fn append(&mut self, pairs: &[(K::Bits, V)]) {
        write(&mut self.lines, self.len, pairs);
        self.len += pairs.len() as u64;
    }

    fn forget_last(&mut self) {
        self.len -= 1;
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn count(&self) -> u64 {
        Self::lines_for(self.len)
    }

    fn bytes(&self) -> u64 {
        self.lines.bytes() as u64
    }

    fn pages(&self) -> GrantedPages {
        self.lines.pages()
    }

    fn pin(&mut self, device: &Device) -> Result<()> {
        Ok(self.lines.pin(device)?)
    }

    fn lines_on(&self, stream: &Stream) -> Result<DeviceLines> {
        // No line is anything but a leaf.
        Ok(DeviceLines { lines: self.lines.read_on(stream)?.cast(), group: u32::BITS })
    }

    #[inline(always)]
    fn find(&self, words: &[K::Bits], leaves: &[u32], ahead: usize, mut each: impl FnMut(usize, Place)) {
        let lines = self.lines();
        for &leaf in &leaves[..ahead.min(leaves.len())] {
            prefetch(lines, leaf as usize);
        }
        for (i, (&word, &leaf)) in words.iter().zip(leaves).enumerate() {
            if let Some(&next) = leaves.get(i + ahead) {
                prefetch(lines, next as usize);
            }
            let keys = lines[leaf as usize].keys::<K::Bits, V>();
            let slot: u32 = keys.iter().map(|&key| u32::from(key < word)).sum();
            let is_equal = keys.get(slot as usize) == Some(&word);
            // An empty slot holds the largest word, too.
            let is_hit = is_equal && (word != K::Bits::MAX || slot < self.used(leaf));
            each(i, Place { leaf, slot, is_hit });
        }
    }

    #[inline(always)]
    fn value(&self, place: Place) -> V {
        self.lines[place.leaf as usize].values::<K::Bits, V>()[place.slot as usize]
    }

    #[inline(always)]
    fn rank(&self, place: Place) -> u64 {
        Self::rank_of(place)
    }

    fn pair_at(&self, place: Place) -> Option<(K::Bits, V)> {
        self.pair(Self::rank_of(place))
    }

    fn pair_before(&self, place: Place) -> Option<(K::Bits, V)> {
        self.pair(Self::rank_of(place).checked_sub(1)?)
    }

    #[inline(always)]
    fn prefetch_after(&self, place: Place, lines: usize) {
        let next = place.leaf as usize + 1;
        (next..next + lines).for_each(|line| prefetch(&self.lines, line));
    }

    #[inline]
    fn collect(&self, place: Place, last: K::Bits, limit: u64, keys: &mut Vec<K>, values: &mut Vec<V>) -> Result<()> {
        let mut rank = Self::rank_of(place);
        let end = rank.saturating_add(limit).min(self.len);
        let per_leaf = slots::<K::Bits, V>() as u64;
        while rank < end {
            let (leaf, slot) = ((rank / per_leaf) as usize, (rank % per_leaf) as usize);
            let most = (end - rank).min(per_leaf - slot as u64) as usize;
            make_room(keys, most)?;
            make_room(values, most)?;
            if self.lines[leaf].collect(slot..slot + most, last, keys, values) < most {
                break;
            }
            rank += most as u64;
        }
        Ok(())
    }

    fn pairs(&self) -> Result<Vec<(K, V)>> {
        let pair = |rank: u64| self.pair(rank).map(|(key, value)| (K::decode(key), value));
        (0..self.len).into_par_iter().with_min_len(1 << 14).filter_map_collect(pair)
    }
}

/// Writes pairs into lines, from a rank on; whatever else the first line holds stays there.
pub(super) fn write<B: Word, V: Word>(lines: &mut [Line], rank: u64, pairs: &[(B, V)]) {
    let per_leaf = slots::<B, V>();
    let (first, offset) = ((rank / per_leaf as u64) as usize, (rank % per_leaf as u64) as usize);
    let count = (offset + pairs.len()).div_ceil(per_leaf);
    lines[first..first + count].par_iter_mut().with_min_len(1024).enumerate().for_each(|(i, line)| {
        // Of the pairs, the first in this line, as if the first line were full of them.
        let start = i * per_leaf;
        for slot in 0..per_leaf {
            let Some(at) = (start + slot).checked_sub(offset) else { continue };
            if slot == 0 {
                *line = Line::ONES;
            }
            let Some(&(key, value)) = pairs.get(at) else { break };
            line.set(slot, key, value);
        }
    });
}
