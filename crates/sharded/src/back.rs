//! The way back of results into a batch's order.

use crate::slots::{Column, read};
use lanetree_frame::{KeyWord, Result, Stream, launch};
use lanetree_kernels_sharded::{BackArgs, THREADS, TILE, calls, place};
use lanetree_simt::{Global, GlobalMut, WARP};

/// Where a piece's queries are: the place of each, or else what says so of each row.
#[derive(Clone, Copy)]
pub(crate) struct Marks {
    pub(crate) places: Global<u32>,
    pub(crate) planes: Global<u32>,
    pub(crate) firsts: Global<u32>,
}

/// The words that say where a piece's queries are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marking {
    /// One for each query.
    Places,
    /// Some for each row.
    Rows,
}

impl Marking {
    /// How many words, for so many queries.
    pub(crate) fn words(self, count: usize, shards: usize) -> usize {
        let bits = place::bits_of(shards as u32) as usize;
        match self {
            Self::Places => count,
            Self::Rows => count.div_ceil(WARP as usize) * (bits + shards),
        }
    }

    /// Where the [first places of rows](place) begin among these words, in bytes; `None` if there are places.
    pub(crate) fn firsts(self, count: usize, shards: usize) -> Option<u64> {
        let planes = count.div_ceil(WARP as usize) as u64 * u64::from(place::bits_of(shards as u32));
        (self == Self::Rows).then_some(4 * planes)
    }

    /// Where they are, from the address of the first word on.
    pub(crate) fn at(self, words: Global<u32>, count: usize, shards: usize) -> Marks {
        match self.firsts(count, shards) {
            None => Marks { places: words, planes: Global::null(), firsts: Global::null() },
            Some(firsts) => Marks { places: Global::null(), planes: words, firsts: words.byte_add(firsts) },
        }
    }
}

/// The way back of a piece's results.
pub(crate) struct Back<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) marks: Marks,
    pub(crate) shards: usize,
    pub(crate) count: usize,
    pub(crate) near: usize,
    pub(crate) near_hits: Global<u32>,
    pub(crate) far_hits: Global<u32>,
}

impl Back<'_> {
    /// Puts a column into the batch's order.
    ///
    /// # Safety
    /// The columns have the results, and there is room for them.
    pub(crate) unsafe fn column<W: KeyWord>(
        &self,
        (near, far): (&Column, &Column),
        plus: Global<W>,
        (others, have_others): (Global<W>, [u32; 2]),
        (out, out_hits): (GlobalMut<W>, GlobalMut<u32>),
    ) -> Result<()> {
        let args = BackArgs {
            places: self.marks.places,
            planes: self.marks.planes,
            firsts: self.marks.firsts,
            count: self.count as u64,
            near_results: read(near, self.stream, 0)?,
            far_results: read(far, self.stream, 0)?,
            near_hits: self.near_hits,
            far_hits: self.far_hits,
            plus,
            others,
            out,
            out_hits,
            have_others,
            near: self.near as u32,
            shards: self.shards as u32,
        };
        // SAFETY: the caller's contract.
        Ok(unsafe { tiles(self.stream, self.count)?.run(calls::back(&args)) }?)
    }
}

/// A launch of a block for each tile of queries.
pub(crate) fn tiles(stream: &Stream, count: usize) -> Result<lanetree_runtime::Launch<'_>> {
    launch::over(stream, (count as u64).div_ceil(TILE), THREADS, THREADS)
}
