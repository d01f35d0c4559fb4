//! Which neighbour of a query counts: what an as-of look-up asks beyond the nearest key on one side. Part of the arguments of
//! each index's neighbour kernel, so that the rule stands once.

use crate::{Global, GlobalMut, Hint, Simt, WARP};
use lanetree_layout::{KeyWord, kernel_args};

kernel_args! {
    /// Which neighbours count.
    pub struct Near<K> {
        /// The bits in which a neighbour and its query must agree: of a composite key, the bits of its first key.
        pub group: K,
        /// How far a neighbour may be from its query, as numbers.
        pub reach: K,
        /// [`Near::ON`] and so on; 0 if every neighbour counts, and `group` and `reach` are not looked at.
        pub flags: u32,
        #[doc(hidden)]
        pub padding: u32,
    }
}

impl<K: KeyWord> Near<K> {
    /// There is something to look at.
    pub const ON: u32 = 1;
    /// A key that equals the query is no neighbour of it.
    pub const STRICT: u32 = 2;
    /// The outputs hold the neighbours on the other side already, and the hit mask says which: the nearer one is kept.
    pub const SECOND: u32 = 4;
    /// Of two that are equally far, the second one is kept.
    pub const TIES_TO_SECOND: u32 = 8;
    /// Both neighbours are looked for at once, and the nearer one counts. Only for indexes that say that they can.
    pub const BOTH: u32 = 16;

    /// Every neighbour counts.
    pub const ANY: Self = Self { group: K::MIN, reach: K::MAX, flags: 0, padding: 0 };

    #[inline(always)]
    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Per thread. Whether there is anything to look at; the same for all threads.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.has(Self::ON)
    }

    /// Per thread. Whether both neighbours are looked for; the same for all threads.
    #[inline(always)]
    pub fn is_of_both(&self) -> bool {
        self.has(Self::BOTH)
    }

    /// Whether the outputs hold the neighbours on the other side.
    #[inline(always)]
    pub fn is_second(&self) -> bool {
        self.has(Self::SECOND)
    }

    /// Per thread. Whether a key that equals the query is no neighbour of it; the same for all threads.
    #[inline(always)]
    pub fn is_strict(&self) -> bool {
        self.has(Self::STRICT)
    }

    /// Per thread. The word to search for `word`'s neighbour at or below it, or at or above it. For a strict search,
    /// the next smaller or next larger word; if there is none, the word itself, which [`Near::accepts`] then refuses to
    /// be found.
    #[inline(always)]
    pub fn sought(&self, word: K, predecessor: bool) -> K {
        let end = if predecessor { K::MIN } else { K::MAX };
        if !self.has(Self::STRICT) || word == end {
            word
        } else if predecessor {
            word.wrapping_sub(K::truncate(1))
        } else {
            word.wrapping_add(K::truncate(1))
        }
    }

    /// Per thread. How far two words are apart.
    #[inline(always)]
    fn distance(word: K, key: K) -> K {
        if key < word { word.wrapping_sub(key) } else { key.wrapping_sub(word) }
    }

    /// Per thread. Whether `key` counts as a neighbour of `word`.
    #[inline(always)]
    pub fn accepts(&self, word: K, key: K) -> bool {
        self.is_near(word, key) && !(self.has(Self::STRICT) && word == key)
    }

    /// Per thread. Whether `key` is of the group of `word`, and within reach.
    #[inline(always)]
    pub fn is_near(&self, word: K, key: K) -> bool {
        word.xor(key).and(self.group) == K::MIN && Self::distance(word, key) <= self.reach
    }

    /// Per thread. Whether the neighbour `first`, of the search on the other side, is kept although `second` counts.
    #[inline(always)]
    pub fn keeps(&self, word: K, first: K, second: K) -> bool {
        let (first, second) = (Self::distance(word, first), Self::distance(word, second));
        first < second || first == second && !self.has(Self::TIES_TO_SECOND)
    }

    /// Per thread. What becomes of query `at` and `key`, the ordered word of the neighbour that was found, if one was. The query
    /// and what the outputs hold of a search on the other side are loaded again, which costs less than registers that hold
    /// the query through the search.
    ///
    /// # Safety
    /// There are more than `at` queries, keys, and bits in the hit mask, if [`Near::SECOND`] is set; nothing writes them meanwhile.
    #[inline(always)]
    pub unsafe fn judge<S: Simt>(&self, simt: S, at: u64, flip: K, arrays: NearArrays<K>, key: Option<K>) -> Verdict {
        if !self.is_on() {
            return if key.is_some() { Verdict::Found } else { Verdict::Missed };
        }
        // SAFETY: the caller's contract.
        unsafe {
            let word = simt.load(arrays.queries, at, Hint::Default).xor(flip);
            self.judge_word(simt, (at, word), flip, arrays, key)
        }
    }

    /// Per thread. [`Near::judge`] for who has the query's ordered word.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub unsafe fn judge_word<S: Simt>(
        &self,
        simt: S,
        (at, word): (u64, K),
        flip: K,
        arrays: NearArrays<K>,
        key: Option<K>,
    ) -> Verdict {
        let key = key.filter(|&key| !self.is_on() || self.accepts(word, key));
        if self.has(Self::SECOND) {
            // SAFETY: the caller's contract.
            let first = unsafe {
                let bits = simt.load(arrays.hits.as_const(), at / u64::from(WARP), Hint::Default);
                let is_hit = bits >> (at % u64::from(WARP)) & 1 != 0;
                is_hit.then(|| simt.load(arrays.keys.as_const(), at, Hint::Default).xor(flip))
            };
            if first.is_some_and(|first| key.is_none_or(|second| self.keeps(word, first, second))) {
                return Verdict::Kept;
            }
        }
        if key.is_some() { Verdict::Found } else { Verdict::Missed }
    }
}

/// The arrays of a batch of queries for neighbours.
#[derive(Clone, Copy, Debug)]
pub struct NearArrays<K> {
    /// The queries.
    pub queries: Global<K>,
    /// The neighbours' keys.
    pub keys: GlobalMut<K>,
    /// The hit mask.
    pub hits: GlobalMut<u32>,
}

/// What becomes of a query's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The neighbour that was found counts: it is to be written.
    Found,
    /// The neighbour that a search on the other side has written stays.
    Kept,
    /// There is none.
    Missed,
}

impl Verdict {
    /// Whether the query has a neighbour.
    #[inline(always)]
    pub fn is_hit(self) -> bool {
        self != Self::Missed
    }
}

#[cfg(test)]
mod tests {
    use super::Near;

    fn near(group: u32, reach: u32, flags: u32) -> Near<u32> {
        Near { group, reach, flags: flags | Near::<u32>::ON, padding: 0 }
    }

    #[test]
    fn neighbours_count_within_their_group_and_reach() {
        let any = near(0, u32::MAX, 0);
        assert!(any.accepts(0, u32::MAX) && any.accepts(7, 7));
        let close = near(0, 3, 0);
        assert!(close.accepts(10, 7) && close.accepts(10, 13) && !close.accepts(10, 6) && !close.accepts(10, 14));
        let grouped = near(!0xff, u32::MAX, 0);
        assert!(grouped.accepts(0x1ff, 0x100) && !grouped.accepts(0x1ff, 0x200) && !grouped.accepts(0x100, 0xff));
    }

    #[test]
    fn a_strict_search_looks_beside_the_query_and_never_takes_it() {
        let strict = near(0, u32::MAX, Near::<u32>::STRICT);
        assert_eq!((strict.sought(5, true), strict.sought(5, false)), (4, 6));
        assert_eq!((strict.sought(0, true), strict.sought(u32::MAX, false)), (0, u32::MAX));
        assert!(!strict.accepts(0, 0) && strict.accepts(1, 0));
        assert_eq!(near(0, u32::MAX, 0).sought(5, true), 5);
    }

    #[test]
    fn the_nearer_of_two_is_kept_and_ties_go_where_they_are_told() {
        let first = near(0, u32::MAX, Near::<u32>::SECOND);
        assert!(first.keeps(10, 9, 12) && !first.keeps(10, 5, 12) && first.keeps(10, 8, 12));
        let second = near(0, u32::MAX, Near::<u32>::SECOND | Near::<u32>::TIES_TO_SECOND);
        assert!(!second.keeps(10, 8, 12) && second.keeps(10, 9, 12));
    }
}
