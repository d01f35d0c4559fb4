//! Queries of a batch, as a thread holds them.

use lanetree_simt::{KeyRef, KeysRef, Simt, unroll};

/// A query: in registers, as `WORDS` words of 8 bytes, if all keys of the tree fit into them; with 0 words it is read
/// from memory when needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<const WORDS: usize> {
    words: [u64; WORDS],
    key: KeyRef,
}

impl<const WORDS: usize> Query<WORDS> {
    /// Per thread. Loads a query.
    ///
    /// # Safety
    /// There is such a query.
    #[inline(always)]
    pub(crate) unsafe fn load<S: Simt>(simt: S, queries: &KeysRef, index: u64) -> Self {
        // SAFETY: the caller's promise.
        let key = unsafe { queries.at(simt, index) };
        // SAFETY: as above.
        let words = core::array::from_fn(|word| unsafe { key.word(simt, 8 * word as u32) });
        Self { words, key }
    }

    /// Bytes of the query, even if it is longer than the words hold.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        self.key.len()
    }

    /// Where the query begins in the batch's bytes.
    #[inline(always)]
    pub(crate) fn start(&self) -> u64 {
        self.key.start()
    }

    /// Per thread. The first 8 bytes, the first one lowest, zeros past the end.
    ///
    /// # Safety
    /// The query is one of the batch.
    #[inline(always)]
    pub(crate) unsafe fn head<S: Simt>(&self, simt: S) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.word(simt, 0) }
    }

    /// Per thread. The 8 bytes from 8 times `word` on, the first one lowest, zeros past the end.
    ///
    /// # Safety
    /// The query is one of the batch, and `word < WORDS` where that is not 0.
    #[inline(always)]
    pub(crate) unsafe fn word<S: Simt>(&self, simt: S, word: usize) -> u64 {
        if WORDS > 0 {
            return self.words[word];
        }
        // SAFETY: the caller's promise.
        unsafe { self.key.word(simt, 8 * word as u32) }
    }

    /// Per thread. One byte; 0 past the end of the words, where no node of the tree branches.
    ///
    /// # Safety
    /// `at` lies in the query.
    #[inline(always)]
    pub(crate) unsafe fn byte<S: Simt>(&self, simt: S, at: u32) -> u32 {
        if WORDS == 0 {
            // SAFETY: the caller's promise.
            return unsafe { self.key.byte(simt, at) };
        }
        // An index known at run time would put the words into local memory.
        let mut chosen = self.words[0];
        unroll::<WORDS>(|index| chosen = if at / 8 == index as u32 { self.words[index] } else { chosen });
        (chosen >> (at % 8 * 8)) as u32 & 0xff
    }
}
