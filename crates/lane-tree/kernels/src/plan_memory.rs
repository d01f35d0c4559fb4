//! The shared memory in which a warp plans and writes a node.

use crate::layout::{BITMAP_CHILDREN, NODE_WORDS};
use lanetree_simt::{Shared, WARP};

/// Rounds of a warp over the pairs of a node, at most: the rounds for a full bitmap.
const fn rounds(slots: u32) -> usize {
    (slots * BITMAP_CHILDREN / WARP) as usize
}

/// Rounds of a plan that are made at once.
pub(crate) const TOGETHER: usize = 4;

/// A warp's memory to plan a node with.
#[derive(Clone, Copy)]
pub(crate) struct PlanMemory {
    /// A bit for each pair: a bucket may begin with it; and one after the last.
    pub(crate) begins: Shared<u32>,
    /// The first pair of each bucket, and the number of pairs after the last.
    pub(crate) starts: Shared<u32>,
    /// A node's words.
    pub(crate) node: Shared<u32>,
}

/// Words of [`PlanMemory::begins`] for buckets of `slots` slots: one more than rounds, in steps of [`TOGETHER`].
const fn begin_words(slots: u32) -> u32 {
    (rounds(slots) as u32 + 1).next_multiple_of(TOGETHER as u32)
}

/// Words of [`PlanMemory::starts`], an even number.
const STARTS: u32 = BITMAP_CHILDREN + 2;

impl PlanMemory {
    /// Bytes of a warp's plan memory, for buckets of `slots` slots.
    pub(crate) const fn bytes(slots: u32) -> u32 {
        let words = begin_words(slots) + STARTS + NODE_WORDS;
        // The next warp's may have keys of 16 bytes before it.
        (words * 4).next_multiple_of(16)
    }

    /// That of a warp, from a byte offset on.
    #[inline(always)]
    pub(crate) fn at(offset: u32, slots: u32) -> Self {
        let begins = Shared::at(offset, begin_words(slots));
        let starts = Shared::at(begins.end(), STARTS);
        Self { begins, starts, node: Shared::at(starts.end(), NODE_WORDS) }
    }
}
