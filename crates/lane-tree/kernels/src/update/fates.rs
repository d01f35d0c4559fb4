//! What becomes of a node's pairs by a batch.

use super::{Changes, Effect};
use crate::layout::{BITMAP_CHILDREN, line_slots};
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

impl<K: KeyWord, V: Value> Changes<K, V> {
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
