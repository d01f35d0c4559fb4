//! The array as a kernel sees it, and the search.

use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Simt, WARP, Word, kernel_args};

kernel_args! {
    /// A sorted array on the device: passed to kernels by value.
    pub struct ArrayRef<K, V> {
        /// Ordered words, strictly ascending: `[len]`.
        pub keys: Global<K>,
        /// `[len]`.
        pub values: Global<V>,
        /// Pairs.
        pub len: u64,
        /// Exclusive-or mask between the caller's keys and ordered words. Queries and results are in the caller's form.
        pub flip: K,
    }
}

/// Queries of a thread, whose searches run side by side.
pub const IN_FLIGHT: usize = 2;

/// Per thread. The places of the thread's queries in the batch, a block's threads apart: a warp's queries are adjacent,
/// and have one word of the hit mask for each place.
#[inline(always)]
pub(crate) fn places<S: Simt>(simt: S) -> [u64; IN_FLIGHT] {
    let block = u64::from(simt.block_dim());
    let first = u64::from(simt.block_index()) * block * IN_FLIGHT as u64 + u64::from(simt.thread_index());
    core::array::from_fn(|j| first + j as u64 * block)
}

impl<K: Word, V: Word> ArrayRef<K, V> {
    /// Per thread. The ordered words of the queries at `places`; the smallest word past the last query.
    ///
    /// # Safety
    /// There are `count` queries.
    #[inline(always)]
    pub(crate) unsafe fn load<S: Simt>(
        &self,
        simt: S,
        queries: Global<K>,
        places: [u64; IN_FLIGHT],
        count: u64,
    ) -> [K; IN_FLIGHT] {
        places.map(|at| {
            // SAFETY: the place of a query.
            if at < count { unsafe { simt.load(queries, at, Hint::Streaming) }.xor(self.flip) } else { K::MIN }
        })
    }

    /// Per thread. A rank for each word: if the word is among the keys, its own. It is below the length, unless the
    /// array is empty.
    ///
    /// # Safety
    /// The array is valid.
    #[inline(always)]
    pub(crate) unsafe fn candidates<S: Simt, const Q: usize>(
        &self,
        simt: S,
        words: [K; Q],
        upper: [bool; Q],
    ) -> [u64; Q] {
        // The keys that are known to come before the bound.
        let mut base = [0_u64; Q];
        let mut left = self.len;
        while left > 1 {
            let half = left / 2;
            for j in 0..Q {
                // SAFETY: `base + half <= len`, and `half >= 1`.
                let probe = unsafe { simt.load(self.keys, base[j] + half - 1, Hint::ReadOnly) };
                base[j] += if comes_before(probe, words[j], upper[j]) { half } else { 0 };
            }
            left -= half;
        }
        base
    }

    /// Per thread. How many keys are below each word or, with `upper`, not above it.
    ///
    /// # Safety
    /// The array is valid.
    #[inline(always)]
    pub(crate) unsafe fn ranks<S: Simt, const Q: usize>(&self, simt: S, words: [K; Q], upper: [bool; Q]) -> [u64; Q] {
        if self.len == 0 {
            return [0; Q];
        }
        // SAFETY: the caller's promise.
        let base = unsafe { self.candidates(simt, words, upper) };
        core::array::from_fn(|j| {
            // SAFETY: a candidate is below the length.
            let probe = unsafe { simt.load(self.keys, base[j], Hint::ReadOnly) };
            base[j] + u64::from(comes_before(probe, words[j], upper[j]))
        })
    }
}

/// Whether a key comes before the bound of a word.
#[inline(always)]
fn comes_before<K: Word>(key: K, word: K, upper: bool) -> bool {
    (key < word) | (upper & (key == word))
}

/// Warp collective (all lanes). Writes the hit mask of the queries at `places`, unless it is null. There are no hits past
/// the last query.
///
/// # Safety
/// There are `count` queries, and a word for each 32 of them.
#[inline(always)]
pub(crate) unsafe fn store_hits<S: Simt>(
    simt: S,
    hits: GlobalMut<u32>,
    places: [u64; IN_FLIGHT],
    is_hit: [bool; IN_FLIGHT],
    count: u64,
) {
    if hits.is_null() {
        return;
    }
    let words = is_hit.map(|hit| simt.ballot(FULL_MASK, hit));
    if simt.lane() == 0 {
        for j in 0..IN_FLIGHT {
            // The callers have branched by this before the ballots.
            let at = simt.opaque(places[j]);
            if at < count {
                // SAFETY: one word per 32 queries.
                unsafe { simt.store(hits, at / u64::from(WARP), words[j], Hint::Streaming) };
            }
        }
    }
}
