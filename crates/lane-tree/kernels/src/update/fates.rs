//! What becomes of a node's pairs by a batch.

use super::{Changes, Effect};
use crate::layout::{BITMAP_CHILDREN, line_slots};
use crate::search::TreeRef;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, KeyWord, Shared, Simt, WARP};

/// The most pairs of a node.
pub(super) const fn node_pairs<K: KeyWord, V: Value>() -> u32 {
    BITMAP_CHILDREN * line_slots::<K, V>()
}

/// Set in a word of [`Fates`] if the pair is removed or gets another value: then an operation writes what takes its place.
const IS_GONE: u32 = 1;

/// By how much a word of [`Fates`] is larger for each pair by which the node grows up to there.
const ONE: u32 = 2;

/// For each pair of a node by how many places it moves, in a warp's shared memory. An operation knows how many of the node's pairs
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
            let mut own = lane;
            while own < len {
                simt.shared_store(self.0, own, 0);
                own += WARP;
            }
            simt.sync_warp(FULL_MASK);
            let mut at = from + u64::from(lane);
            while at < to {
                let place = changes.place(simt, at);
                let by = match place.effect() {
                    Effect::None => 0,
                    Effect::Insert => ONE,
                    Effect::Replace => IS_GONE,
                    Effect::Remove => IS_GONE.wrapping_sub(ONE),
                };
                if by != 0 && place.before() < len {
                    simt.shared_atomic_add(self.0, place.before(), by);
                }
                at += u64::from(WARP);
            }
            simt.sync_warp(FULL_MASK);
            // Sums over the pairs up to each.
            let (mut round, mut before) = (0, 0);
            while round < len {
                let own = round + lane;
                let word = if own < len { simt.shared_load(self.0, own) } else { 0 };
                let mut sum = word & !IS_GONE;
                let mut delta = 1;
                while delta < WARP {
                    let earlier = simt.shuffle_up(FULL_MASK, sum, delta);
                    if lane >= delta {
                        sum = sum.wrapping_add(earlier);
                    }
                    delta *= 2;
                }
                sum = sum.wrapping_add(before);
                if own < len {
                    simt.shared_store(self.0, own, sum | word & IS_GONE);
                }
                before = simt.shuffle(FULL_MASK, sum, WARP - 1);
                round += WARP;
            }
            simt.sync_warp(FULL_MASK);
        }
    }

    /// Per thread. The place of a pair in its node after the batch; none if the pair is gone.
    ///
    /// # Safety
    /// It is one of those that were looked at.
    #[inline(always)]
    pub(super) unsafe fn place<S: Simt>(self, simt: S, pair: u32) -> Option<u32> {
        // SAFETY: the caller's.
        let word = unsafe { simt.shared_load(self.0, pair) };
        (word & IS_GONE == 0).then_some(pair.wrapping_add((word.cast_signed() >> 1).cast_unsigned()))
    }
}

/// A node's pairs move by sums over its operations, if these are no more; otherwise each pair searches among them.
const MOST_SUMMED: u64 = 1 << 12;

impl<K: KeyWord, V: Value> Changes<K, V> {
    /// Warp collective (all lanes). Calls `each` with every pair that a node has before the batch and that stays, and with its place in the node
    /// after the batch: each in one lane. The node's operations are from `from` to `to`.
    ///
    /// # Safety
    /// There is such a node, with these operations; nobody else uses the memory of the fates.
    #[inline(always)]
    pub(super) unsafe fn for_each_kept<S: Simt>(
        &self,
        simt: S,
        tree: &TreeRef<K>,
        number: u32,
        (from, to): (u64, u64),
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
            tree.for_each_pair(simt, tree.lines_of(simt, number), len, |place, key, value: V| {
                let to = match is_summed {
                    true => fates.place(simt, place),
                    false => self.moved(simt, (place, key), tree.flip, (from, to), growth_before),
                };
                if let Some(to) = to {
                    each(to, key, value);
                }
            });
        }
    }

    /// Per thread. The place, in its node after the batch, of the pair that an operation inserts or gives a value; none if it does neither.
    /// `growth_before` is that before the node's operations.
    ///
    /// # Safety
    /// There is such an operation.
    #[inline(always)]
    pub(super) unsafe fn place_of_own<S: Simt>(&self, simt: S, at: u64, growth_before: u64) -> Option<u64> {
        // SAFETY: the caller's.
        unsafe {
            let place = self.place(simt, at);
            if !matches!(place.effect(), Effect::Insert | Effect::Replace) {
                return None;
            }
            let growth = self.growth(simt, at).wrapping_sub(growth_before);
            Some(u64::from(place.before()).wrapping_add(growth))
        }
    }
}
