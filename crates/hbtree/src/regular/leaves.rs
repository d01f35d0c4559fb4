//! The leaves (the paper's L-segment): big leaves of 64 or 256 lines, linked in the order of their keys.

use super::nodes::{Columns, fanout, write_pairs};
use super::pool::{NONE, Pool, Taken};
use crate::device::DeviceLines;
use crate::line::{Leaf, Line, prefetch, slots};
use crate::options::{Options, Pinning};
use crate::structure::{self, Place};
use core::marker::PhantomData;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use lanetree_frame::parallel::*;
use lanetree_frame::room::{collected, make_room, with_room, zeroed};
use lanetree_frame::{Device, Error, Result, Stream};
use lanetree_kernels_hbtree::layout::{self, LINE};
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_runtime::{GrantedPages, HostArray, Pages};
use std::sync::OnceLock;

/// Big leaves of a piece of the list that a thread follows: enough to outweigh what is noted of a piece.
const PIECE: u32 = 1 << 10;

/// Big leaves in host memory. They share their numbers with the nodes of the last inner level. None is empty, but the only
/// one of an empty tree.
#[derive(Debug)]
pub struct BigLeaves<B, V> {
    lines: HostArray<Line>,
    /// The numbers of big leaves and of nodes of the last inner level.
    pub(super) pool: Pool,
    /// The big leaf with the smallest keys.
    first: u32,
    len: u64,
    /// Pairs of a big leaf that a build fills.
    full: usize,
    /// For each number the pairs before that big leaf, in the order of keys: made when first asked for.
    before: OnceLock<Vec<AtomicU64>>,
    words: PhantomData<(B, V)>,
}

/// What the last line of a big leaf says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Info {
    /// Pairs.
    pub(super) size: u32,
    pub(super) next: u32,
    pub(super) previous: u32,
}

impl<B: Word, V: Word> BigLeaves<B, V> {
    /// Lines of pairs.
    pub(super) const LINES: usize = fanout::<B>();
    /// Lines in all.
    pub(super) const STRIDE: usize = layout::big_leaf_lines::<B>() as usize;
    /// Pairs of a full big leaf.
    pub(super) const CAPACITY: usize = Self::LINES * slots::<B, V>();
    /// Big leaves, so that lines are numbered by 32 bits.
    const MOST: u64 = u32::MAX as u64 / Self::LINES as u64;

    /// Checks that there are numbers for the lines of `leaves` big leaves.
    ///
    /// # Errors
    /// [`Error::TooManyLeaves`].
    pub(super) fn check(leaves: u64, pairs: u64, full: usize) -> Result<()> {
        if leaves > Self::MOST {
            return Err(Error::TooManyLeaves { pairs, most: Self::MOST * full as u64 });
        }
        Ok(())
    }

    /// Big leaves for which there is room.
    pub(super) fn room(&self) -> usize {
        self.lines.len() / Self::STRIDE
    }

    /// Makes room for more big leaves. What is there stays as it is, if this fails too. Returns why the leaves are no longer
    /// pinned, if they were.
    ///
    /// # Errors
    /// [`Error::TooManyLeaves`]; [`Error::Runtime`] where main memory has no room for both the old array and the new one, and
    /// where pinning is required and the system does not pin both.
    pub(super) fn reserve(&mut self, leaves: u64, options: &Options) -> Result<Option<Error>> {
        if leaves <= self.room() as u64 {
            return Ok(None);
        }
        Self::check(leaves, self.len, Self::CAPACITY)?;
        let room = Pool::room(leaves + leaves / 4, Self::MOST).min(Self::MOST);
        let (len, used) = (room as usize * Self::STRIDE, self.pool.end as usize * Self::STRIDE);
        grow(&mut self.lines, len, used, options.leaf_pages, options.pinning)
    }

    /// All lines of all big leaves.
    pub(super) fn lines_mut(&mut self) -> &mut [Line] {
        &mut self.lines
    }

    /// The lines of a big leaf.
    #[inline(always)]
    pub(super) fn leaf(&self, number: u32) -> &[Line] {
        &self.lines[number as usize * Self::STRIDE..][..Self::STRIDE]
    }

    /// The line of a leaf: there is one without pairs after each group.
    #[inline(always)]
    fn line_number(leaf: u32) -> usize {
        leaf as usize + leaf as usize / Self::LINES
    }

    #[inline(always)]
    fn line(&self, leaf: u32) -> &Line {
        &self.lines[Self::line_number(leaf)]
    }

    #[inline(always)]
    pub(super) fn info(&self, number: u32) -> Info {
        let line = &self.lines[number as usize * Self::STRIDE + Self::LINES];
        let words = line.words::<u32>();
        Info { size: words[0], next: words[1], previous: words[2] }
    }

    /// Brings what [`BigLeaves::info`] reads into the caches.
    #[inline(always)]
    pub(super) fn prefetch_info(&self, number: u32) {
        prefetch(&self.lines, number as usize * Self::STRIDE + Self::LINES);
    }

    fn set_info(leaf: &mut [Line], info: Info) {
        let words = leaf[Self::LINES].words_mut::<u32>();
        (words[0], words[1], words[2]) = (info.size, info.next, info.previous);
    }

    /// Writes the number of pairs of a big leaf.
    pub(super) fn set_size(leaf: &mut [Line], size: usize) {
        leaf[Self::LINES].words_mut::<u32>()[0] = size as u32;
    }

    fn info_line(&mut self, number: u32) -> &mut [u32] {
        self.lines[number as usize * Self::STRIDE + Self::LINES].words_mut()
    }

    /// Puts big leaves in the place of others, which are neighbours. Without others they are all there are.
    pub(super) fn splice(&mut self, members: &[u32], pieces: &[u32]) {
        let previous = members.first().map_or(NONE, |&first| self.info(first).previous);
        let next = members.last().map_or(NONE, |&last| self.info(last).next);
        let mut left = previous;
        for &piece in pieces.iter().chain((next != NONE).then_some(&next)) {
            match left {
                NONE => self.first = piece,
                left => self.info_line(left)[1] = piece,
            }
            self.info_line(piece)[2] = left;
            left = piece;
        }
        if next == NONE {
            match left {
                NONE => self.first = NONE,
                left => self.info_line(left)[1] = NONE,
            }
        }
    }

    /// The numbers of all big leaves in the order of their keys.
    pub(super) fn in_order(&self) -> impl Iterator<Item = u32> + '_ {
        let is_there = |leaf: u32| (leaf != NONE).then_some(leaf);
        core::iter::successors(is_there(self.first), move |&leaf| is_there(self.info(leaf).next))
    }

    /// Pairs were inserted and removed, and big leaves with them.
    pub(super) fn moved(&mut self, taken: &Taken, len: u64) {
        self.pool.change(taken);
        self.len = len;
        self.before.take();
    }

    /// The place of a leaf in its big leaf: this one's number and the rank of the leaf's first slot in it.
    #[inline(always)]
    fn split(leaf: u32) -> (u32, usize) {
        (leaf / Self::LINES as u32, leaf as usize % Self::LINES * slots::<B, V>())
    }

    /// The rank of a place in its big leaf, and this one's number.
    #[inline(always)]
    pub(super) fn rank_within(place: Place) -> (u32, usize) {
        let (number, first) = Self::split(place.leaf);
        (number, first + place.slot as usize)
    }

    /// The pair of a rank in a big leaf.
    #[inline(always)]
    pub(super) fn pair(leaf: &[Line], rank: usize) -> (B, V) {
        let (line, slot) = (&leaf[rank / slots::<B, V>()], rank % slots::<B, V>());
        (line.keys::<B, V>()[slot], line.values::<B, V>()[slot])
    }

    /// The key of a rank in a big leaf.
    #[inline(always)]
    pub(super) fn key(leaf: &[Line], rank: usize) -> B {
        leaf[rank / slots::<B, V>()].keys::<B, V>()[rank % slots::<B, V>()]
    }

    /// Appends the pairs of these ranks in a big leaf.
    #[inline]
    pub(super) fn read(leaf: &[Line], ranks: Range<usize>, to: &mut Columns<B, V>) {
        let (per_line, mut rank) = (slots::<B, V>(), ranks.start);
        let mut part = |rank: usize, slots: Range<usize>| {
            let line = &leaf[rank / per_line];
            to.keys.extend_from_slice(&line.keys::<B, V>()[slots.clone()]);
            to.values.extend_from_slice(&line.values::<B, V>()[slots]);
        };
        if rank % per_line > 0 && rank < ranks.end {
            let end = ranks.end.min(rank.next_multiple_of(per_line));
            part(rank, rank % per_line..rank % per_line + end - rank);
            rank = end;
        }
        while rank + per_line <= ranks.end {
            part(rank, 0..per_line);
            rank += per_line;
        }
        if rank < ranks.end {
            part(rank, 0..ranks.end - rank);
        }
    }

    /// How many pairs there are before each big leaf, by its number. Threads follow pieces of the list: each begins at a number
    /// that is a multiple of `stride`, and ends before the next one that the list comes to.
    pub(super) fn sum_sizes(&self, stride: u32) -> Result<Vec<AtomicU64>> {
        let mut before = with_room(self.pool.end as usize)?;
        before.resize_with(self.pool.end as usize, AtomicU64::default);
        // The first piece begins at the smallest keys, whatever the number there.
        let mut is_piece = zeroed::<u8>(1 + self.pool.end.div_ceil(stride) as usize)?;
        is_piece.fill(1);
        for &free in self.pool.free.iter().filter(|&free| free % stride == 0) {
            is_piece[1 + (free / stride) as usize] = 0;
        }
        if self.first.is_multiple_of(stride) {
            is_piece[1 + (self.first / stride) as usize] = 0;
        }
        let head = |piece: usize| if piece == 0 { self.first } else { (piece as u32 - 1) * stride };
        // Calls a function with each big leaf of a piece and its size; returns the piece that follows.
        let follow = |piece: usize, each: &mut dyn FnMut(u32, u64)| {
            let mut leaf = head(piece);
            while leaf != NONE {
                let Info { size, next, .. } = self.info(leaf);
                each(leaf, u64::from(size));
                if next != NONE && next.is_multiple_of(stride) {
                    return Some(1 + (next / stride) as usize);
                }
                leaf = next;
            }
            None
        };
        let mut pieces = is_piece
            .par_iter()
            .enumerate()
            .map(|(piece, &is_piece)| {
                let mut sum = 0;
                let next = if is_piece == 1 { follow(piece, &mut |_, size| sum += size) } else { None };
                (sum, next)
            })
            .try_collect()?;
        let (mut sum, mut at) = (0, Some(0));
        while let Some(piece) = at {
            let (own, next) = pieces[piece];
            pieces[piece].0 = sum;
            (sum, at) = (sum + own, next);
        }
        is_piece.par_iter().zip(&pieces).enumerate().for_each(|(piece, (&is_piece, &(mut sum, _)))| {
            if is_piece == 1 {
                follow(piece, &mut |leaf, size| {
                    // Each is written by one thread, and read when all have ended.
                    before[leaf as usize].store(sum, Ordering::Relaxed);
                    sum += size;
                });
            }
        });
        Ok(before)
    }

    /// Writes what describes the big leaves of a build, when all pairs are there.
    pub(super) fn seal(&mut self) {
        let (full, len) = (self.full as u64, self.len);
        let count = len.div_ceil(full).max(1);
        self.lines[..count as usize * Self::STRIDE].par_chunks_mut(Self::STRIDE).with_min_len(64).enumerate().for_each(
            |(number, leaf)| {
                let number = number as u64;
                let next = if number + 1 < count { number as u32 + 1 } else { NONE };
                let previous = (number as u32).checked_sub(1).unwrap_or(NONE);
                Self::set_info(leaf, Info { size: (len - number * full).min(full) as u32, next, previous });
            },
        );
        self.pool = Pool::of(count as u32);
    }
}

/// Replaces an array by a longer one, with what the old one has in use, and pinned if that one is. Where the system does not pin
/// both, the new one is pinned when the old one is gone; or it is an error, if pinning is required, and the old one stays.
/// Returns why the new one is not pinned, if it is not and the old one was.
pub(super) fn grow<T: bytemuck::Pod + Send + Sync>(
    array: &mut HostArray<T>,
    len: usize,
    used: usize,
    pages: Pages,
    pinning: Pinning,
) -> Result<Option<Error>> {
    let mut longer = HostArray::zeroed(len, pages)?;
    let device = array.pinned_for().cloned();
    let refused = device.as_ref().and_then(|device| longer.pin(device).err());
    let refused = match refused {
        Some(error) if pinning == Pinning::Required => return Err(error.into()),
        refused => refused.is_some(),
    };
    const CHUNK: usize = 1 << 14;
    longer[..used].par_chunks_mut(CHUNK).zip(array[..used].par_chunks(CHUNK)).for_each(|(to, from)| {
        to.copy_from_slice(from);
    });
    // The old one is unpinned by that.
    *array = longer;
    Ok(device.filter(|_| refused).and_then(|device| array.pin(&device).err()).map(Error::from))
}

impl<K: Key, V: Word> structure::Leaves<K, V> for BigLeaves<K::Bits, V> {
    fn with_room(most: u64, options: &Options) -> Result<Self> {
        let full = ((Self::CAPACITY as f64 * options.fill) as usize).clamp(1, Self::CAPACITY);
        let leaves = most.div_ceil(full as u64).max(1);
        Self::check(leaves, most, full)?;
        // Memory that is not touched costs nothing, unless it is reserved, or will be pinned. The first batches need no more.
        let is_free = options.pinning == Pinning::None && options.leaf_pages != Pages::Huge;
        let spare = if is_free { leaves / 4 } else { 0 };
        let room = Pool::room(leaves + spare, Self::MOST).min(Self::MOST) as usize;
        let mut lines = HostArray::zeroed(room * Self::STRIDE, options.leaf_pages)?;
        lines[0] = Line::ONES;
        let before = OnceLock::new();
        Ok(Self { lines, pool: Pool::default(), first: 0, len: 0, full, before, words: PhantomData })
    }

    fn append(&mut self, pairs: &[(K::Bits, V)]) {
        let (full, first, offset) = (self.full, self.len / self.full as u64, (self.len % self.full as u64) as usize);
        let count = (offset + pairs.len()).div_ceil(full);
        let leaves = &mut self.lines[first as usize * Self::STRIDE..][..count * Self::STRIDE];
        leaves.par_chunks_mut(Self::STRIDE).with_min_len(16).enumerate().for_each(|(i, leaf)| {
            let start = (i * full).saturating_sub(offset);
            let end = ((i + 1) * full - offset).min(pairs.len());
            write_pairs(leaf, if i == 0 { offset } else { 0 }, &pairs[start..end]);
        });
        self.len += pairs.len() as u64;
    }

    fn forget_last(&mut self) {
        self.len -= 1;
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn count(&self) -> u64 {
        self.pool.len() * Self::LINES as u64
    }

    /// Without what is there to spare and was never touched.
    fn bytes(&self) -> u64 {
        u64::from(self.pool.end) * (Self::STRIDE * LINE) as u64
    }

    fn pages(&self) -> GrantedPages {
        self.lines.pages()
    }

    fn pin(&mut self, device: &Device) -> Result<()> {
        Ok(self.lines.pin(device)?)
    }

    fn lines_on(&self, stream: &Stream) -> Result<DeviceLines> {
        let group = const { Self::LINES.trailing_zeros() };
        Ok(DeviceLines { lines: self.lines.read_on(stream)?.cast(), group })
    }

    #[inline(always)]
    fn find(&self, words: &[K::Bits], leaves: &[u32], ahead: usize, mut each: impl FnMut(usize, Place)) {
        let lines: &[Line] = &self.lines;
        for &leaf in &leaves[..ahead.min(leaves.len())] {
            prefetch(lines, Self::line_number(leaf));
        }
        for (i, (&word, &leaf)) in words.iter().zip(leaves).enumerate() {
            if let Some(&next) = leaves.get(i + ahead) {
                prefetch(lines, Self::line_number(next));
            }
            let keys = lines[Self::line_number(leaf)].keys::<K::Bits, V>();
            let slot: u32 = keys.iter().map(|&key| u32::from(key < word)).sum();
            let is_equal = keys.get(slot as usize) == Some(&word);
            let mut place = Place { leaf, slot, is_hit: is_equal };
            if is_equal && word == K::Bits::MAX {
                // An empty slot holds the largest word, too: the size tells (section 4.1).
                let (number, rank) = Self::rank_within(place);
                place.is_hit = rank < self.info(number).size as usize;
            }
            each(i, place);
        }
    }

    #[inline(always)]
    fn value(&self, place: Place) -> V {
        self.line(place.leaf).values::<K::Bits, V>()[place.slot as usize]
    }

    fn rank(&self, place: Place) -> u64 {
        let (number, rank) = Self::rank_within(place);
        let before = self.before.get().expect("ranks have been prepared");
        before[number as usize].load(Ordering::Relaxed) + rank as u64
    }

    fn prepare_ranks(&self) -> Result<()> {
        // Not in `get_or_init`: a thread that waits there for the loop's other parts may begin another task, which asks for
        // the same. Two threads at once both make it, and one of them is kept.
        if self.before.get().is_none() {
            let _another = self.before.set(self.sum_sizes(PIECE)?);
        }
        Ok(())
    }

    fn pair_at(&self, place: Place) -> Option<(K::Bits, V)> {
        let (number, rank) = Self::rank_within(place);
        let Info { size, next, .. } = self.info(number);
        if rank < size as usize {
            return Some(Self::pair(self.leaf(number), rank));
        }
        (next != NONE).then(|| Self::pair(self.leaf(next), 0))
    }

    fn pair_before(&self, place: Place) -> Option<(K::Bits, V)> {
        let (number, rank) = Self::rank_within(place);
        if rank > 0 {
            return Some(Self::pair(self.leaf(number), rank - 1));
        }
        let previous = self.info(number).previous;
        (previous != NONE).then(|| Self::pair(self.leaf(previous), self.info(previous).size as usize - 1))
    }

    #[inline(always)]
    fn prefetch_after(&self, place: Place, lines: usize) {
        let next = Self::line_number(place.leaf) + 1;
        (next..next + lines).for_each(|line| prefetch(&self.lines, line));
        self.prefetch_info(Self::split(place.leaf).0);
    }

    #[inline]
    fn collect(
        &self,
        place: Place,
        last: K::Bits,
        mut limit: u64,
        keys: &mut Vec<K>,
        values: &mut Vec<V>,
    ) -> Result<()> {
        let per_line = slots::<K::Bits, V>();
        let (mut number, mut rank) = Self::rank_within(place);
        loop {
            let (Info { size, next, .. }, leaf) = (self.info(number), self.leaf(number));
            while rank < size as usize {
                let (line, slot) = (&leaf[rank / per_line], rank % per_line);
                let most =
                    (per_line - slot).min(size as usize - rank).min(usize::try_from(limit).unwrap_or(usize::MAX));
                make_room(keys, most)?;
                make_room(values, most)?;
                let count = line.collect(slot..slot + most, last, keys, values);
                limit -= count as u64;
                if count < most || limit == 0 {
                    return Ok(());
                }
                rank += count;
            }
            if next == NONE || limit == 0 {
                return Ok(());
            }
            (number, rank) = (next, 0);
        }
    }

    fn pairs(&self) -> Result<Vec<(K, V)>> {
        let order = collected(self.in_order())?;
        let of_leaf = |&number: &u32| {
            let mut pairs = Columns::with_capacity(Self::CAPACITY);
            Self::read(self.leaf(number), 0..self.info(number).size as usize, &mut pairs);
            pairs.keys.into_iter().zip(pairs.values).map(|(key, value)| (K::decode(key), value))
        };
        order.par_iter().flat_map_collect(of_leaf)
    }
}
