//! What a build splits into nodes: parts of all pairs or, after a batch of changes, of some nodes' pairs.

use lanetree_simt::{Global, Hint, Simt, kernel_args};

/// Bits of a count of buckets, below the count of nodes; or of pairs, below the count of nodes that are split.
pub const BUCKET_BITS: u32 = 34;

/// 64-bit words that say where a part's nodes go.
pub const TARGET_WORDS: u32 = 2;

/// 64-bit words that say what is split, for each node and once more for the end.
pub const SPLIT_WORDS: u32 = 5;

/// A word of [`SplitNodes::words`].
#[derive(Clone, Copy)]
#[repr(u64)]
pub(crate) enum SplitWord {
    /// The number of the node; in the last entry, the number of nodes.
    Node = 0,
    /// Its first operation.
    From = 1,
    /// Pairs of split nodes before its own.
    Pairs = 2,
    /// Parts of split nodes before its own.
    Parts = 3,
    /// Buckets of split nodes before its own.
    Buckets = 4,
}

kernel_args! {
    /// The nodes that are split.
    pub struct SplitNodes {
        /// `[count + 1]`, [`SPLIT_WORDS`] each, ascending.
        pub words: Global<u64>,
        /// How many. Without any, a tree is built of all pairs.
        pub count: u64,
    }
}

impl SplitNodes {
    /// How many pairs, parts and buckets come before one of them, or before the end, whose words these are.
    pub fn sums(words: [u64; SPLIT_WORDS as usize]) -> [u64; 3] {
        [SplitWord::Pairs, SplitWord::Parts, SplitWord::Buckets].map(|word| words[word as usize])
    }

    /// Per thread. A word of one of them.
    ///
    /// # Safety
    /// There is such a node, or it is the end.
    #[inline(always)]
    pub(crate) unsafe fn get<S: Simt>(&self, simt: S, at: u64, word: SplitWord) -> u64 {
        // SAFETY: the caller's.
        unsafe { simt.load(self.words, at * u64::from(SPLIT_WORDS) + word as u64, Hint::ReadOnly) }
    }

    /// Per thread. How many of them, not counting the end, have at most this in a word that ascends.
    ///
    /// # Safety
    /// They are valid.
    #[inline(always)]
    pub(crate) unsafe fn upto<S: Simt>(&self, simt: S, word: SplitWord, most: u64) -> u64 {
        let (mut base, mut left) = (0, self.count);
        while left > 0 {
            let half = left / 2;
            // SAFETY: one of them.
            let holds = unsafe { self.get(simt, base + half, word) } <= most;
            (base, left) = if holds { (base + half + 1, left - half - 1) } else { (base, half) };
        }
        base
    }
}
