//! The search for intervals that reach a word. The CPU's own path uses it, too.

use crate::layout::{FANOUT, Level, NONE};
use lanetree_simt::{Global, Hint, KeyWord, Simt, kernel_args};

/// Links that a search follows. After that it goes through the maxima, which takes as long as a few links, whatever the nesting.
const MOST_LINKS: u32 = 8;

/// Per thread. The last position up to `from`, of `len` intervals, whose end is at or above `word`; [`NONE`] if there is none.
///
/// `ends` reads a word of the array of ends and maxima.
#[inline(always)]
fn last_reaching<K: KeyWord>(len: u64, word: K, from: u32, ends: impl Fn(u64) -> K) -> u32 {
    let (mut level, mut at) = (Level::ends(len), u64::from(from));
    // Up, past groups without such an end.
    while ends(level.begin + at) < word {
        if at % FANOUT != 0 {
            at -= 1;
        } else if at == 0 {
            return NONE;
        } else {
            (level, at) = (level.above(), at / FANOUT - 1);
        }
    }
    // Down, to the last one of the group.
    while !level.is_lowest() {
        level = level.below(len);
        let first = at * FANOUT;
        at = (first + FANOUT).min(level.len) - 1;
        while at > first && ends(level.begin + at) < word {
            at -= 1;
        }
    }
    at as u32
}

/// Per thread. The last position up to `from`, of `len` intervals, whose end is at or above `word`; [`NONE`] if there is none, and
/// if there is no position `from`.
///
/// `ends` reads a word of the array of ends and maxima, `links` the link of a position.
#[inline(always)]
pub fn innermost<K: KeyWord>(len: u64, word: K, from: u32, ends: impl Fn(u64) -> K, links: impl Fn(u64) -> u32) -> u32 {
    let mut at = from;
    for _ in 0..MOST_LINKS {
        if u64::from(at) >= len {
            return NONE;
        }
        if ends(u64::from(at)) >= word {
            return at;
        }
        at = links(u64::from(at));
    }
    if u64::from(at) >= len { NONE } else { last_reaching(len, word, at, ends) }
}

/// Per thread. The link of one of `len` intervals: the last one before it with a later end, or [`NONE`].
#[inline(always)]
pub fn link<K: KeyWord>(len: u64, at: u32, ends: impl Fn(u64) -> K) -> u32 {
    let end = ends(u64::from(at));
    if at == 0 || end == K::MAX {
        return NONE;
    }
    last_reaching(len, end.wrapping_add(K::truncate(1)), at - 1, ends)
}

kernel_args! {
    /// The intervals of an index.
    pub struct Intervals<K, V> {
        /// Their ends and the maxima above.
        pub ends: Global<K>,
        /// `[len]`: their links.
        pub links: Global<u32>,
        /// `[len]`: their rows.
        pub rows: Global<V>,
        /// How many.
        pub len: u64,
    }
}

impl<K: KeyWord, V: KeyWord> Intervals<K, V> {
    /// Per thread. As [`innermost`].
    ///
    /// # Safety
    /// The arrays are valid.
    #[inline(always)]
    pub(crate) unsafe fn innermost<S: Simt>(&self, simt: S, word: K, from: u32) -> u32 {
        // SAFETY: the search reads words of the levels, and links of positions.
        let ends = |at| unsafe { simt.load(self.ends, at, Hint::ReadOnly) };
        // SAFETY: as above.
        let links = |at| unsafe { simt.load(self.links, at, Hint::ReadOnly) };
        innermost(self.len, word, from, ends, links)
    }
}
