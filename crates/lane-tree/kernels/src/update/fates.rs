//! What becomes of a node's pairs by a batch.

use super::{Changes, Effect};
use crate::layout::{BITMAP_CHILDREN, bucket_slots};
use crate::search::TreeRef;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, KeyWord, Shared, Simt, WARP};

/// The most pairs of a node.
pub(super) const fn node_pairs<K: KeyWord, V: Value>() -> u32 {
    BITMAP_CHILDREN * bucket_slots::<K, V>()
}

/// Set in a word of [`Fates`] if the pair is removed or gets another value: then an operation writes what takes its place.
const IS_GONE: u32 = 1;

/// By how much a word of [`Fates`] is larger for each pair by which the node grows up to there.
const ONE: u32 = 2;

/// The word of a pair: each lane has an equal number of neighbouring ones. Neighbours are in different banks, and so are pairs of different
/// lanes at the same `row`.
#[inline(always)]
fn word_of<K: KeyWord, V: Value>(pair: u32) -> u32 {
    let rows = node_pairs::<K, V>() / WARP;
    word_in_row::<K, V>(pair / rows, pair % rows)
}

/// The word of a lane's pair in a row.
#[inline(always)]
fn word_in_row<K: KeyWord, V: Value>(lane: u32, row: u32) -> u32 {
    let rows = node_pairs::<K, V>() / WARP;
    row * WARP + (lane + row * (WARP / rows)) % WARP
}

/// For each pair of a node by how many positions it moves, in a warp's shared memory. An operation knows how many of the node's pairs
/// come before its own: so all pairs' moves are sums over these, and no keys are compared.
#[derive(Clone, Copy)]
pub(super) struct Fates(Shared<u32>);

impl Fates {
    /// Bytes of a warp's.
    pub(super) const fn bytes<K: KeyWord, V: Value>() -> u32 {
        4 * node_pairs::<K, V>()
    }

    /// Those of a warp, from a byte offset on.
    #[inline(always)]
    pub(super) fn at<K: KeyWord, V: Value>(offset: u32) -> Self {
        Self(Shared::at(offset, node_pairs::<K, V>()))
    }

    /// Warp collective (all lanes). Finds out what a node's operations, from `from` to `to`, do to its `len` pairs.
    ///
    /// # Safety
    /// They are the node's operations, and its pairs; nobody else uses the memory.
    #[inline(always)]
    pub(super) unsafe fn find<S: Simt, K: KeyWord, V: Value>(
        self,
        simt: S,
        changes: &Changes<K, V>,
        (from, to): (u64, u64),
        len: u32,
    ) {
        let lane = simt.lane();
        // SAFETY: words of the node's pairs; its operations.
        unsafe {
            let rows = node_pairs::<K, V>() / WARP;
            // More rows written out need more registers than there are.
            let rows = if rows > 8 { simt.opaque(rows) } else { rows };
            let mut row = 0;
            while row < rows {
                simt.shared_store(self.0, row * WARP + lane, 0);
                row += 1;
            }
            simt.sync_warp(FULL_MASK);
            let mut at = from + u64::from(lane);
            while at < to {
                let located = changes.located(simt, at);
                let by = match located.effect() {
                    Effect::None => 0,
                    Effect::Insert => ONE,
                    Effect::Replace => IS_GONE,
                    Effect::Remove => IS_GONE.wrapping_sub(ONE),
                };
                if by != 0 && located.before() < len {
                    simt.shared_atomic_add(self.0, word_of::<K, V>(located.before()), by);
                }
                at += u64::from(WARP);
            }
            simt.sync_warp(FULL_MASK);
            // Sums over the pairs up to each.
            let mut sum = 0_u32;
            row = 0;
            while row < rows {
                let own = simt.shared_load(self.0, word_in_row::<K, V>(lane, row));
                sum = sum.wrapping_add(own & !IS_GONE);
                row += 1;
            }
            let (mut before, mut delta) = (sum, 1);
            while delta < WARP {
                let earlier = simt.shuffle_up(FULL_MASK, before, delta);
                if lane >= delta {
                    before = before.wrapping_add(earlier);
                }
                delta *= 2;
            }
            before = before.wrapping_sub(sum);
            row = 0;
            while row < rows {
                let word = word_in_row::<K, V>(lane, row);
                let own = simt.shared_load(self.0, word);
                before = before.wrapping_add(own & !IS_GONE);
                simt.shared_store(self.0, word, before | own & IS_GONE);
                row += 1;
            }
            simt.sync_warp(FULL_MASK);
        }
    }

    /// Per thread. The position of a pair in its node after the batch; none if the pair is gone.
    ///
    /// # Safety
    /// It is one of those that were looked at.
    #[inline(always)]
    pub(super) unsafe fn position<S: Simt, K: KeyWord, V: Value>(self, simt: S, pair: u32) -> Option<u32> {
        // SAFETY: the caller's.
        let word = unsafe { simt.shared_load(self.0, word_of::<K, V>(pair)) };
        (word & IS_GONE == 0).then_some(pair.wrapping_add((word.cast_signed() >> 1).cast_unsigned()))
    }
}

/// A node's pairs move by sums over its operations, if these are no more; otherwise each pair searches among them.
const MOST_SUMMED: u64 = 1 << 12;

/// Pairs of a node, and what a batch does to them.
pub(super) struct NodePart {
    /// The node's number.
    pub(super) number: u32,
    /// The first operation that matters to these pairs, and the one after the last.
    pub(super) operations: (u64, u64),
    /// Which pairs of the node.
    pub(super) pairs: Pairs,
}

/// Neighbouring pairs of a node, at most 2^16, in one register.
#[derive(Clone, Copy)]
pub(super) struct Pairs(u32);

impl Pairs {
    /// All.
    pub(super) const ALL: Self = Self(u32::MAX << 16);

    /// Those from a position on.
    #[inline(always)]
    pub(super) fn from(self, start: u32) -> Self {
        Self(self.0 & u32::MAX << 16 | start)
    }

    /// Those before a position.
    #[inline(always)]
    pub(super) fn before(self, end: u32) -> Self {
        Self(self.0 & 0xffff | end << 16)
    }

    #[inline(always)]
    fn has(self, position: u32) -> bool {
        self.0 & 0xffff <= position && position < self.0 >> 16
    }
}

impl<K: KeyWord, V: Value> Changes<K, V> {
    /// Warp collective (all lanes). Calls `each` with every pair of a part of a node that stays, and with its position in the node after the batch,
    /// less by how much the node grows before the part's first operation: each in one lane.
    ///
    /// # Safety
    /// There is such a node, with these operations; nobody else uses the memory of the fates.
    #[inline(always)]
    pub(super) unsafe fn for_each_kept<S: Simt>(
        &self,
        simt: S,
        tree: &TreeRef<K>,
        NodePart { number, operations: (from, to), pairs }: NodePart,
        fates: Fates,
        mut each: impl FnMut(u32, K, V),
    ) {
        // SAFETY: the node's pairs and operations.
        unsafe {
            let len = (tree.rank_of::<S, V>(simt, number + 1) - tree.rank_of::<S, V>(simt, number)) as u32;
            let is_summed = to - from <= MOST_SUMMED;
            if is_summed {
                fates.find(simt, self, (from, to), len);
            }
            let growth_before = self.growth(simt, from);
            tree.for_each_pair(simt, tree.buckets_of(simt, number), len, |position, key, value: V| {
                if !pairs.has(position) {
                    return;
                }
                let to = match is_summed {
                    true => fates.position::<S, K, V>(simt, position),
                    false => self.moved(simt, (position, key), tree.flip, (from, to), growth_before),
                };
                if let Some(to) = to {
                    each(to, key, value);
                }
            });
        }
    }

    /// Per thread. The position, in its node after the batch, of the pair that an operation inserts or gives a value; none if it does neither.
    /// `growth_before` is that before the node's operations.
    ///
    /// # Safety
    /// There is such an operation.
    #[inline(always)]
    pub(super) unsafe fn position_of_own<S: Simt>(&self, simt: S, at: u64, growth_before: u64) -> Option<u64> {
        // SAFETY: the caller's.
        unsafe {
            let located = self.located(simt, at);
            if !matches!(located.effect(), Effect::Insert | Effect::Replace) {
                return None;
            }
            let growth = self.growth(simt, at).wrapping_sub(growth_before);
            Some(u64::from(located.before()).wrapping_add(growth))
        }
    }
}
