//! Changes in place, leaf by leaf.

use super::apply::ApplyArgs;
use super::{Changes, Effect, has_effect, slot_of, split_head};
use crate::layout::{leaf_offset, leaf_values_offset};
use crate::tree::{THREADS, group_bits};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, GlobalMut, Hint, Kernel, LaunchBounds, Simt, WARP, Word, unroll};

/// Applies the changes of leaves that have room for them: `G` lanes per head, `G` the fanout or 32, each with
/// `S` slots; blocks of
/// [`THREADS`].
///
/// No key is compared: [`Locate`](super::Locate) found the slot of each change, so that a pair moves by the
/// inserts at or before its slot, less the removals before it, and writes itself there.
#[derive(Debug)]
pub struct ApplyLeaves<K, V, const F: u32, const G: u32, const S: usize>(PhantomData<(K, V)>);

/// Where a leaf lies.
#[derive(Clone, Copy)]
struct Leaf<K, V> {
    keys: GlobalMut<K>,
    values: GlobalMut<V>,
}

impl<K: Word, V: Word> Leaf<K, V> {
    /// Per thread. Writes a pair to the slots from one on, up to another.
    ///
    /// # Safety
    /// Slots of the leaf, which nobody else accesses.
    #[inline(always)]
    unsafe fn put<M: Simt>(self, simt: M, from: u32, end: u32, key: K, value: V) {
        let mut slot = from;
        while slot < end {
            // SAFETY: the caller's promise.
            unsafe {
                simt.store(self.keys, u64::from(slot), key, Hint::Default);
                simt.store(self.values, u64::from(slot), value, Hint::Default);
            }
            slot += 1;
        }
    }
}

/// An operation of a batch.
#[derive(Clone, Copy)]
struct Operation<K> {
    /// Whether there is such an operation; otherwise the last one of the batch is read.
    is_there: bool,
    leaf: u32,
    effect: u32,
    key: K,
    /// Where its value is.
    place: u64,
}

impl<K: Word> Operation<K> {
    /// Per thread.
    ///
    /// # Safety
    /// There are operations.
    #[inline(always)]
    unsafe fn load<M: Simt, V: Word>(simt: M, changes: &Changes<K, V>, index: u64) -> Self {
        let is_there = index < changes.count;
        let at = if is_there { index } else { changes.count - 1 };
        // SAFETY: an operation.
        unsafe {
            let (leaf, effect, key) = (changes.leaf(simt, at), changes.effect(simt, at), changes.key(simt, at));
            Self { is_there, leaf, effect, key, place: changes.place(simt, at) }
        }
    }
}

impl<K: Word, V: Word, const F: u32, const G: u32, const S: usize> Kernel for ApplyLeaves<K, V, F, G, S> {
    type Args = ApplyArgs<K, V>;
    // Enough registers to issue the loads together.
    const LAUNCH_BOUNDS: Option<LaunchBounds> =
        if S == 1 { Some(LaunchBounds { threads: THREADS, blocks: 5 }) } else { None };

    #[inline(always)]
    unsafe fn run<M: Simt>(simt: M, args: &Self::Args) {
        const { assert!(G as usize * S == F as usize && G <= WARP, "a leaf's slots, over the lanes of a group") };
        let changes = &args.changes;
        let (member, group) = (simt.lane() % G, simt.lane() / G);
        let head = simt.global_index() / u64::from(G);
        if simt.global_index() / u64::from(WARP) * u64::from(WARP / G) >= args.head_count {
            // This warp has no head.
            return;
        }
        let has_head = head < args.head_count;
        let at = if has_head { head } else { args.head_count - 1 };
        // SAFETY: a head, the first operation with an effect of a leaf of the tree.
        let (mut from, number) = split_head(unsafe { simt.load(args.heads, at, Hint::ReadOnly) });
        // Issue all loads that depend only on the head before waiting for any of them.
        // SAFETY: the leaf has operations.
        let mut operation = unsafe { Operation::load(simt, changes, from + u64::from(member)) };
        let leaf = Leaf {
            keys: args.leaves.byte_add(leaf_offset::<K, V>(F, number)).cast::<K>(),
            values: args.leaves.byte_add(leaf_values_offset::<K, V>(F, number)).cast::<V>(),
        };
        let slot = |j: usize| member * S as u32 + j as u32;
        let (mut keys, mut values) = ([K::MIN; S], [V::MIN; S]);
        // SAFETY: slots of the leaf, which this group alone writes.
        let len = unsafe {
            unroll!(S, j => {
                keys[j] = simt.load(leaf.keys.as_const(), u64::from(slot(j)), Hint::Default);
                values[j] = simt.load(leaf.values.as_const(), u64::from(slot(j)), Hint::Default);
            });
            if args.lens.is_null() {
                let (before, after) = args.tree.leaf_ranks(simt, number);
                (after - before) as u32
            } else {
                simt.load(args.lens.as_const(), u64::from(number), Hint::Default)
            }
        };
        simt.sync_warp(FULL_MASK);

        // By how much each pair moves, and whether it is removed or written by the change that replaces it.
        let (mut shifts, mut gone) = ([0_u32; S], [false; S]);
        // By how much the next changes move; and the pair of the last of the lane's changes that has one.
        let (mut shift, mut last) = (0_u32, (u32::MAX, K::MIN, V::MIN));
        let mut is_own = has_head && operation.is_there && operation.leaf == number;
        loop {
            let effect = if is_own { operation.effect } else { Effect::None as u32 };
            let place = if slot_of(effect) < len { slot_of(effect) } else { len };
            let inserts = has_effect(effect, Effect::Insert);
            let removes = has_effect(effect, Effect::Remove);
            let inserted = group_bits::<G>(simt.ballot(FULL_MASK, inserts), group);
            let removed = group_bits::<G>(simt.ballot(FULL_MASK, removes), group);
            let below = (1 << member) - 1;
            if inserts || has_effect(effect, Effect::Replace) {
                let before = (inserted & below).count_ones().wrapping_sub((removed & below).count_ones());
                let to = place.wrapping_add(shift).wrapping_add(before);
                // SAFETY: an operation with a value; its slot is its own.
                unsafe {
                    last = (to, operation.key, simt.load(changes.values, operation.place, Hint::ReadOnly));
                    leaf.put(simt, to, to + 1, last.1, last.2);
                }
            }
            let owns = simt.ballot(FULL_MASK, is_own);
            let own = place << 2 | effect & 3;
            for change in 0..most_of_a_group::<G>(owns) {
                let other = simt.shuffle(FULL_MASK, own, group * G + change);
                let (inserts, removes) = (has_effect(other, Effect::Insert), has_effect(other, Effect::Remove));
                let replaces = has_effect(other, Effect::Replace);
                unroll!(S, j => {
                    let here = slot(j);
                    shifts[j] = shifts[j].wrapping_add(u32::from(inserts && slot_of(other) <= here));
                    shifts[j] = shifts[j].wrapping_sub(u32::from(removes && slot_of(other) < here));
                    gone[j] |= (removes || replaces) && slot_of(other) == here;
                });
            }
            shift = shift.wrapping_add(inserted.count_ones()).wrapping_sub(removed.count_ones());
            // If all lanes of a group have a change of its leaf, there may be more changes.
            let goes_on = group_bits::<G>(owns, group) >> (G - 1) & 1 != 0;
            if !simt.any(FULL_MASK, goes_on) {
                break;
            }
            from += u64::from(G);
            // SAFETY: the batch has operations.
            operation = unsafe { Operation::load(simt, changes, from + u64::from(member)) };
            is_own = goes_on && operation.is_there && operation.leaf == number;
        }
        if !has_head {
            return;
        }
        let new_len = len.wrapping_add(shift);
        unroll!(S, j => {
            let (here, to) = (slot(j), slot(j).wrapping_add(shifts[j]));
            if here < len && !gone[j] {
                // Slots after the last pair repeat it. They already do if it was the last pair before and has not moved
                // back.
                let is_last = to + 1 == new_len && (here + 1 != len || to < here);
                let from = if to == here { to + 1 } else { to };
                // SAFETY: the pair's slot, and those after the last pair.
                unsafe { leaf.put(simt, from, if is_last { F } else { to + 1 }, keys[j], values[j]) };
            }
        });
        if last.0.wrapping_add(1) == new_len {
            // SAFETY: the slots after the last pair.
            unsafe { leaf.put(simt, new_len, F, last.1, last.2) };
        }
        if member == 0 && shift != 0 && !args.lens.is_null() {
            // SAFETY: one length per leaf.
            unsafe { simt.store(args.lens, u64::from(number), new_len, Hint::Default) };
        }
    }
}

/// The largest number of set lanes of any group in a ballot, if the set lanes of each group are its first ones.
#[inline(always)]
fn most_of_a_group<const G: u32>(ballot: u32) -> u32 {
    let (mut lanes, mut width) = (ballot, WARP);
    while width > G {
        width /= 2;
        lanes |= lanes >> width;
    }
    group_bits::<G>(lanes, 0).count_ones()
}
