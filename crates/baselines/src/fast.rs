//! FAST, the fast architecture-sensitive tree: a binary tree whose nodes are grouped in blocks of the sizes that a
//! machine moves data in.
//!
//! C. Kim et al., "FAST: fast architecture sensitive tree search on modern CPUs and GPUs", SIGMOD 2010. A block is a
//! complete binary tree; blocks of blocks are in breadth-first order:
//!
//! | block | holds | 32-bit keys | 64-bit keys |
//! |---|---|---|---|
//! | SIMD, depth d_K | what one comparison reads | 2 levels, 3 keys, 128 bits | 2 levels, 3 keys, 256 bits |
//! | cache line, d_L | SIMD blocks | 4 levels, 15 keys | 3 levels, 7 keys |
//! | page, d_P | lines | 8 levels of 4 KiB, 16 of 2 MiB | 6 levels of 4 KiB, 15 of 2 MiB |
//!
//! Keys of a line, by their rank:
//!
//! ```text
//! 32 bits: | 7 3 11 | 1 0 2 | 5 4 6 | 9 8 10 | 13 12 14 | - |    five SIMD blocks
//! 64 bits: | 3 1 5 | 0 | 2 | 4 | 6 | - |                         one, and a level of single keys
//! ```
//!
//! With AVX-512, one comparison reads the line: d_K = d_L. The layout stays, since a child's number is how many of the
//! line's keys are below the query.
//!
//! A page block has as many levels of lines as fit in a page, and as many blocks share a page as fit whole; so 4 KiB
//! hold three blocks of 17 lines (32-bit keys) or seven of 9 (64-bit keys), and 2 MiB hold seven of 4369 or 4681. The
//! lowest page blocks have the levels that are left. Only page blocks that have leaves are stored.
//!
//! The leaves are the pairs in order, interleaved so that a cache line holds both keys and values. The binary tree ends
//! at these lines, and one comparison searches them: two levels fewer for 64-bit pairs, three for 32-bit ones, than a
//! tree down to single pairs, and the same line is read in the end.
//!
//! Many look-ups are in flight at the same time, as in the paper: all of a group pass a line before the first one enters
//! the next.

use crate::Simd;
use crate::lines::{self, Descent, Leaves, Lines};
use crate::simd::Vector;
use core::fmt;
use lanetree_base::parallel::*;
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_runtime::{Line, prefetch};

#[cfg(test)]
mod tests;

/// A page that a page block fits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Page {
    /// 4 KiB.
    Small,
    /// 2 MiB.
    Huge,
}

impl Page {
    /// The page's size in lines.
    fn lines(self) -> usize {
        match self {
            Self::Small => (4 << 10) / Line::BYTES,
            Self::Huge => (2 << 20) / Line::BYTES,
        }
    }
}

/// How the tree is laid out, and how look-ups are done.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The page that page blocks are made for.
    pub page: Page,
    /// Look-ups that a thread has in flight, 1 to [`MAX_IN_FLIGHT`](crate::MAX_IN_FLIGHT).
    pub in_flight: usize,
    /// The instructions that search a node.
    pub simd: Simd,
}

impl Default for Options {
    fn default() -> Self {
        Self { page: Page::Huge, in_flight: 128, simd: Simd::default() }
    }
}

/// A FAST tree; see [the module](self). All look-ups use the threads of the current rayon pool.
///
/// ```
/// use lanetree_baselines::fast::Fast;
///
/// let tree = Fast::new(&[1_u64, 3], &[10_u64, 30]);
/// let mut out = [None; 2];
/// tree.get_into(&[3, 2], &mut out);
/// assert_eq!(out, [Some(30), None]);
/// ```
pub struct Fast<K, V> {
    inner: Lines,
    /// The page blocks, from the root's down to those above the leaves.
    bands: Vec<Band>,
    leaves: Leaves<K, V>,
    in_flight: usize,
    simd: Simd,
}

/// Page blocks of one height. A block is a complete tree of lines in breadth-first order.
#[derive(Clone, Copy, Debug)]
struct Band {
    /// Levels of lines.
    levels: u32,
    /// Log2 of a block's children.
    shift: u32,
    /// Lines of a block.
    lines: usize,
    /// The first block's first line, at the start of a page.
    start: usize,
    /// Blocks that have leaves.
    blocks: usize,
    /// Blocks that share a page.
    per_page: usize,
    /// 2⁶⁴ / `per_page`, rounded up.
    reciprocal: u64,
    /// Lines that are left over in each page.
    slack: usize,
}

impl Band {
    fn new(levels: u32, fanout: usize, blocks: usize, page: usize, start: usize) -> Self {
        let lines = lines_of(levels, fanout);
        let per_page = page / lines;
        assert!(per_page > 1, "no block fills more than half a page; the reciprocal of 1 would overflow");
        let reciprocal = (1_u128 << 64).div_ceil(per_page as u128) as u64;
        Self {
            levels,
            shift: levels * fanout.ilog2(),
            lines,
            start,
            blocks,
            per_page,
            reciprocal,
            slack: page - per_page * lines,
        }
    }

    /// Pages of all blocks.
    fn pages(&self) -> usize {
        self.blocks.div_ceil(self.per_page)
    }

    /// The first line of a block.
    #[inline(always)]
    fn line(&self, block: usize) -> usize {
        // Block / blocks per page, exact for fewer than 2^48 blocks: `per_page` has 16 bits.
        let page = ((u128::from(self.reciprocal) * block as u128) >> 64) as usize;
        self.start + block * self.lines + page * self.slack
    }
}

/// Lines of a complete tree of lines.
fn lines_of(levels: u32, fanout: usize) -> usize {
    (fanout.pow(levels) - 1) / (fanout - 1)
}

impl<K: Key, V: Word> Fast<K, V> {
    /// Children of a line.
    const FANOUT: usize = Line::BYTES / K::Bits::BYTES;
    /// The word of a line that holds the key of each rank.
    const SLOTS: &'static [usize] =
        if K::Bits::BITS == 32 { &[4, 3, 5, 1, 7, 6, 8, 0, 10, 9, 11, 2, 13, 12, 14] } else { &[3, 1, 4, 0, 5, 2, 6] };

    /// Of strictly ascending keys, and one value for each.
    ///
    /// # Panics
    /// If the lengths differ, or the keys are not strictly ascending.
    pub fn new(keys: &[K], values: &[V]) -> Self {
        Self::with_options(keys, values, Options::default())
    }

    /// Builds the tree over ascending keys and their values, with options.
    ///
    /// # Panics
    /// As `new`; and if the number of look-ups in flight is out of range, or this machine lacks the instructions.
    pub fn with_options(keys: &[K], values: &[V], options: Options) -> Self {
        lines::check_options(options.in_flight, options.simd);
        let leaves = Leaves::<K, V>::new(keys, values);
        let (fanout, page) = (Self::FANOUT, options.page.lines());
        let per_block = (1..).take_while(|&levels| lines_of(levels, fanout) <= page).count() as u32;
        let mut levels =
            (0..).find(|&levels: &u32| fanout.pow(levels) >= leaves.count()).expect("a tree has few levels");
        let (mut bands, mut start) = (Vec::new(), 0);
        while levels > 0 {
            let blocks = leaves.count().div_ceil(fanout.pow(levels));
            let band = Band::new(levels.min(per_block), fanout, blocks, page, start);
            start += band.pages() * page;
            levels -= band.levels;
            bands.push(band);
        }
        // Only what the last band uses of its last page.
        let len = bands.last().map_or(0, |last| last.line(last.blocks - 1) + last.lines);
        let mut inner = lines::lines(len, page);
        let mut below: u32 = bands.iter().map(|band: &Band| band.levels).sum();
        for band in &bands {
            below -= band.levels;
            // The blocks of a page, and what is left over of it.
            let end = inner.len().min(band.start + band.pages() * page);
            inner[band.start..end].par_chunks_mut(page).enumerate().for_each(|(page, lines)| {
                for (block, lines) in lines.chunks_exact_mut(band.lines).enumerate() {
                    Self::fill(keys, lines, page * band.per_page + block, fanout.pow(below + band.levels - 1));
                }
            });
        }
        Self { inner, bands, leaves, in_flight: options.in_flight, simd: options.simd }
    }

    /// Fills a page block, each child of whose root has `span` leaves.
    fn fill(keys: &[K], lines: &mut [Line], block: usize, mut span: usize) {
        let (mut rest, mut width) = (lines, 1);
        while !rest.is_empty() {
            let (level, below) = rest.split_at_mut(width);
            for (node, line) in level.iter_mut().enumerate() {
                let child = (block * width + node) * Self::FANOUT;
                let separators = lines::separators(keys, Leaves::<K, V>::PAIRS, child, span);
                line.words_mut().fill(lines::padding::<K::Bits>());
                for (&slot, separator) in Self::SLOTS.iter().zip(separators) {
                    line.words_mut()[slot] = separator;
                }
            }
            (rest, width, span) = (below, width * Self::FANOUT, span / Self::FANOUT);
        }
    }

    /// Changes the number of look-ups in flight.
    ///
    /// # Panics
    /// As [`with_options`](Self::with_options).
    pub fn set_in_flight(&mut self, in_flight: usize) {
        lines::check_options(in_flight, self.simd);
        self.in_flight = in_flight;
    }

    /// Changes the instructions.
    ///
    /// # Panics
    /// As [`with_options`](Self::with_options).
    pub fn set_simd(&mut self, simd: Simd) {
        lines::check_options(self.in_flight, simd);
        self.simd = simd;
    }

    /// Sets `out[i]` to the value of `queries[i]`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn get_into(&self, queries: &[K], out: &mut [Option<V>]) {
        lines::look_up(self, self.simd, self.in_flight, queries, out);
    }

    /// Bytes of the tree: page blocks, with the unused ends of pages, and leaves.
    pub fn bytes(&self) -> usize {
        (self.inner.len() + self.leaves.count()) * Line::BYTES
    }
}

/// Where a look-up stands.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    /// The number of the page block; below the last one, of the leaf.
    block: usize,
    /// The block's first line.
    start: usize,
    /// The line in the block.
    line: usize,
}

/// A level of lines as look-ups see it.
#[derive(Clone, Copy)]
pub(crate) struct Level<'a> {
    inner: &'a [Line],
    band: Band,
    below: Below,
}

/// What is below a level of lines.
#[derive(Clone, Copy)]
enum Below {
    Line,
    Block(Band),
    Leaf(*const Line),
}

impl<K: Key, V: Word> Descent<K, V> for Fast<K, V> {
    type Place = Place;
    type Level<'a> = Level<'a>;

    fn is_empty(&self) -> bool {
        self.leaves.count() == 0
    }

    fn levels(&self) -> usize {
        self.bands.iter().map(|band| band.levels as usize).sum()
    }

    fn level(&self, level: usize) -> Level<'_> {
        let mut above = 0;
        let at = self.bands.iter().position(|band| {
            above += band.levels as usize;
            above > level
        });
        let at = at.expect("the level is one of the tree");
        let below = match self.bands.get(at + 1) {
            _ if above > level + 1 => Below::Line,
            Some(&next) => Below::Block(next),
            None => Below::Leaf(self.leaves.as_ptr()),
        };
        Level { inner: &self.inner, band: self.bands[at], below }
    }

    #[inline(always)]
    unsafe fn step<S: Vector>(&self, simd: S, level: Level<'_>, place: &mut Place, word: K::Bits) {
        // SAFETY: the root is line 0 of block 0. From a line above a leaf, child 0 is above a leaf, too. Any other child
        // comes after a key below the query, since `Leaves::new` checked the order of keys; that is not padding, so the
        // child is above a leaf. Every line above a leaf exists.
        let keys = unsafe { level.inner.get_unchecked(place.start + place.line) };
        let child = simd.child(keys, word);
        place.line = place.line * Self::FANOUT + 1 + child;
        if matches!(level.below, Below::Line) {
            prefetch(level.inner.as_ptr().wrapping_add(place.start + place.line));
            return;
        }
        // The lines past the block's end would be its children.
        place.block = (place.block << level.band.shift) + (place.line - level.band.lines);
        place.line = 0;
        match level.below {
            Below::Block(next) => {
                place.start = next.line(place.block);
                prefetch(level.inner.as_ptr().wrapping_add(place.start));
            }
            Below::Leaf(first) => prefetch(first.wrapping_add(place.block)),
            Below::Line => unreachable!(),
        }
    }

    #[inline(always)]
    unsafe fn finish<S: Vector>(&self, simd: S, place: Place, word: K::Bits) -> Option<V> {
        // SAFETY: as in `step`, the child of the last line is a leaf that exists; without levels, leaf 0 does.
        unsafe { self.leaves.get(simd, place.block, word) }
    }
}

impl<K: Key, V: Word> fmt::Debug for Fast<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels: Vec<u32> = self.bands.iter().map(|band| band.levels).collect();
        write!(f, "Fast({} pairs, levels of lines by page block: {levels:?})", self.leaves.pairs())
    }
}
