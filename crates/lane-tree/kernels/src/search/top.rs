//! What is above the nodes: the table, and the prefixes that it leads to.

use super::TreeRef;
use crate::layout::{Prefixes, TABLE_ENTRIES};
use lanetree_simt::{Global, Hint, KeyWord, Shared, Simt, unroll};

/// Bytes of shared memory that kernels have for the table; the prefixes of the nodes that it leads to come after it.
pub const TABLE_BYTES: u32 = Shared::<u32>::at(0, TABLE_ENTRIES).end();

/// What is above the nodes, in shared memory.
#[derive(Clone, Copy)]
pub(crate) struct Top {
    table: Shared<u32>,
    /// The prefix of each node of the highest level.
    prefixes: Shared<u32>,
}

impl Top {
    /// From a byte offset on.
    #[inline(always)]
    pub(crate) const fn at(offset: u32, top_count: u32) -> Self {
        let table = Shared::at(offset, TABLE_ENTRIES);
        Self { table, prefixes: Shared::at(table.end(), top_count) }
    }
}

/// What is above the nodes, wherever it is.
pub(crate) trait Above: Copy {
    /// Per thread. An element of [`TreeRef::table`].
    ///
    /// # Safety
    /// There is such a bucket.
    unsafe fn bounds<S: Simt>(self, simt: S, entry: u32) -> u32;

    /// Per thread. An element of [`TreeRef::prefixes`].
    ///
    /// # Safety
    /// There is such a node.
    unsafe fn prefix<S: Simt>(self, simt: S, node: u32) -> u32;
}

impl Above for Top {
    #[inline(always)]
    unsafe fn bounds<S: Simt>(self, simt: S, entry: u32) -> u32 {
        // SAFETY: the caller's.
        unsafe { simt.shared_load(self.table, entry) }
    }

    #[inline(always)]
    unsafe fn prefix<S: Simt>(self, simt: S, node: u32) -> u32 {
        // SAFETY: the caller's.
        unsafe { simt.shared_load(self.prefixes, node) }
    }
}

/// What is above the nodes, in global memory: for few descents, for which a copy in shared memory is not worth it.
#[derive(Clone, Copy)]
pub(crate) struct InMemory {
    table: Global<u32>,
    prefixes: Global<u32>,
}

impl Above for InMemory {
    #[inline(always)]
    unsafe fn bounds<S: Simt>(self, simt: S, entry: u32) -> u32 {
        // SAFETY: the caller's.
        unsafe { simt.load(self.table, u64::from(entry), Hint::ReadOnly) }
    }

    #[inline(always)]
    unsafe fn prefix<S: Simt>(self, simt: S, node: u32) -> u32 {
        // SAFETY: the caller's.
        unsafe { simt.load(self.prefixes, u64::from(node), Hint::ReadOnly) }
    }
}

/// Block collective. Copies the table to where the library's kernels have it in shared memory.
///
/// # Safety
/// As [`TreeRef::load_top`].
#[inline(always)]
pub(crate) unsafe fn load_top<S: Simt, K: KeyWord>(simt: S, tree: &TreeRef<K>) {
    // SAFETY: the same contract.
    unsafe { tree.load_top(simt, tree.first_top()) }
}

/// Elements that a thread copies to shared memory at a time: their loads overlap.
const AT_ONCE: usize = 8;

/// Block collective, without a barrier. Copies an array to shared memory.
///
/// # Safety
/// There are `count` elements, and room for them that nobody else uses.
#[inline(always)]
unsafe fn copy_to_shared<S: Simt>(simt: S, from: Global<u32>, to: Shared<u32>, count: u32) {
    let mut first = simt.thread_index();
    while first < count {
        let at = |i: usize| first + i as u32 * simt.block_dim();
        let mut words = [0; AT_ONCE];
        // SAFETY: elements; one thread writes each.
        unsafe {
            // Past the end, the last one again: no branch separates the loads.
            unroll!(AT_ONCE, i => {
                words[i] = simt.load(from, u64::from(at(i).min(count - 1)), Hint::ReadOnly);
            });
            unroll!(AT_ONCE, i => {
                if at(i) < count {
                    simt.shared_store(to, at(i), words[i]);
                }
            });
        }
        first = at(AT_ONCE);
    }
}

impl<K: KeyWord> TreeRef<K> {
    /// What is above the nodes where the library's kernels have it: first of all.
    #[inline(always)]
    pub(crate) const fn first_top(&self) -> Top {
        Top::at(0, self.top_count)
    }

    /// What is above the nodes where every kernel finds it.
    #[inline(always)]
    pub(crate) const fn in_memory(&self) -> InMemory {
        InMemory { table: self.table, prefixes: self.prefixes }
    }

    /// Block collective. Copies the table to shared memory.
    ///
    /// # Safety
    /// The tree is valid, and the block has shared memory for its table.
    #[inline(always)]
    pub(crate) unsafe fn load_top<S: Simt>(&self, simt: S, top: Top) {
        // SAFETY: the same contract.
        unsafe {
            copy_to_shared(simt, self.table, top.table, TABLE_ENTRIES);
            copy_to_shared(simt, self.prefixes, top.prefixes, self.top_count);
        }
        simt.barrier();
    }

    /// Per thread. The number of the node of the highest level for a word, and about the first key of that: below it by less than
    /// 2^`prefix_shift`. The word is below the first key only if it is below all keys, and then it is below this one, too.
    ///
    /// # Safety
    /// The table is there.
    #[inline(always)]
    pub(super) unsafe fn top<S: Simt>(&self, simt: S, top: impl Above, word: K) -> (u32, K) {
        let Self { origin, split, gap, prefix_shift: shift, .. } = *self;
        let prefixes = Prefixes { origin, split, gap, shift };
        let prefix = prefixes.of(word);
        let entry = prefix >> self.table_shift;
        let entry = if entry < TABLE_ENTRIES { entry } else { TABLE_ENTRIES - 1 };
        // SAFETY: inside the table: its nodes are below their number.
        unsafe {
            let bounds = top.bounds(simt, entry);
            let mut base = bounds & 0xffff;
            let mut left = (bounds >> 16) - base;
            // The last one whose prefix is not above.
            while left > 0 {
                let half = left.div_ceil(2);
                if top.prefix(simt, base + half) <= prefix {
                    base += half;
                    left -= half;
                } else {
                    left = half - 1;
                }
            }
            if self.prefix_shift > 0 && top.prefix(simt, base) == prefix {
                // Rare, unless keys are in clusters that 32 bits do not tell apart: the keys themselves decide.
                left = base;
                base = 0;
                while left > 0 {
                    let half = left.div_ceil(2);
                    if simt.load(self.top, u64::from(base + half), Hint::ReadOnly) <= word {
                        base += half;
                        left -= half;
                    } else {
                        left = half - 1;
                    }
                }
            }
            (self.top_first + base, prefixes.first(top.prefix(simt, base)))
        }
    }
}
