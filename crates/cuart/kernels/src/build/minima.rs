//! The nearest shallower boundary on either side, by minima over 32, over 32 of those, and so on.
//!
//! Level 0 are the depths themselves. A level has whole blocks of 32; words past its end are the largest word, so that
//! no search stops there. The last level has a single block.

use lanetree_simt::{Global, Hint, Simt};

/// No boundary.
pub(super) const NONE: u32 = u32::MAX;

const BLOCK: u64 = 32;

/// Words of a level over a number of boundaries, at least one.
#[inline(always)]
pub const fn level_len(boundaries: u32, level: u32) -> u64 {
    (((boundaries as u64 - 1) >> (5 * level)) / BLOCK + 1) * BLOCK
}

/// Words of all levels.
pub const fn minima_len(boundaries: u32) -> u64 {
    let (mut level, mut len) = (0, level_len(boundaries, 0));
    while level_len(boundaries, level) > BLOCK {
        level += 1;
        len += level_len(boundaries, level);
    }
    len
}

/// The depths of boundaries, with their minima.
#[derive(Clone, Copy)]
pub(super) struct Minima {
    pub(super) words: Global<u32>,
    pub(super) boundaries: u32,
}

impl Minima {
    /// Per thread. The depth of a boundary, or a minimum, by its index among all words.
    ///
    /// # Safety
    /// There is such a word, and the minima are complete.
    #[inline(always)]
    pub(super) unsafe fn get<S: Simt>(self, simt: S, at: u64) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { simt.load(self.words, at, Hint::ReadOnly) }
    }

    /// Per thread. The nearest boundary before `from` whose depth is below `bound`, or [`NONE`].
    ///
    /// # Safety
    /// `from` is a boundary, and the minima are complete.
    #[inline(always)]
    pub(super) unsafe fn before<S: Simt>(self, simt: S, from: u32, bound: u32) -> u32 {
        let (mut level, mut base, mut at) = (0, 0, u64::from(from));
        'up: loop {
            let first = at / BLOCK * BLOCK;
            while at > first {
                at -= 1;
                // SAFETY: a word of the level.
                if unsafe { self.get(simt, base + at) } < bound {
                    break 'up;
                }
            }
            if first == 0 {
                return NONE;
            }
            base += level_len(self.boundaries, level);
            level += 1;
            at = first / BLOCK;
        }
        while level > 0 {
            level -= 1;
            base -= level_len(self.boundaries, level);
            at = at * BLOCK + BLOCK - 1;
            // SAFETY: the block has a word as small as its minimum.
            while unsafe { self.get(simt, base + at) } >= bound {
                at -= 1;
            }
        }
        at as u32
    }

    /// Per thread. The nearest boundary after `from` whose depth is below `bound`, or [`NONE`].
    ///
    /// # Safety
    /// As [`Minima::before`].
    #[inline(always)]
    pub(super) unsafe fn after<S: Simt>(self, simt: S, from: u32, bound: u32) -> u32 {
        let (mut level, mut base, mut at) = (0, 0, u64::from(from));
        'up: loop {
            let end = at / BLOCK * BLOCK + BLOCK;
            while at + 1 < end {
                at += 1;
                // SAFETY: a word of the level.
                if unsafe { self.get(simt, base + at) } < bound {
                    break 'up;
                }
            }
            let len = level_len(self.boundaries, level);
            if end == len {
                return NONE;
            }
            base += len;
            level += 1;
            at = end / BLOCK - 1;
        }
        while level > 0 {
            level -= 1;
            base -= level_len(self.boundaries, level);
            at *= BLOCK;
            // SAFETY: the block has a word as small as its minimum.
            while unsafe { self.get(simt, base + at) } >= bound {
                at += 1;
            }
        }
        at as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_end_with_a_single_block() {
        assert_eq!([1, 32, 33, 1024, 1025].map(minima_len), [32, 32, 64 + 32, 1024 + 32, 1056 + 64 + 32]);
        assert_eq!(level_len(u32::MAX - 1, 6), 32);
        assert!(level_len(u32::MAX - 1, 5) > 32);
    }
}
