//! Changes in place, leaf by leaf.

use super::apply::ApplyArgs;
use super::{Effect, has_effect};
use crate::tree::{group_bits, group_sum};
use core::marker::PhantomData;
use lanetree_layout::harmonia::{leaf_offset, leaf_values_offset};
use lanetree_simt::{FULL_MASK, Hint, Kernel, Simt, WARP, Word};

/// Applies the changes of leaves that have room for them: `G` lanes per head, `G` the fanout or 32, each with
/// `S` slots next to each other in its registers; any block of whole warps.
#[derive(Debug)]
pub struct ApplyLeaves<K, V, const F: u32, const G: u32, const S: usize>(PhantomData<(K, V)>);

/// Calls `each` with 0, 1, … up to `S`, at most 4. Written out: the compiler leaves a loop where the body is
/// long, and then the arrays that it indexes are not registers.
#[inline(always)]
fn each_slot<const S: usize>(mut each: impl FnMut(usize)) {
    const { assert!(S <= 4, "more slots than are written out") };
    each(0);
    if S > 1 {
        each(1);
    }
    if S > 2 {
        each(2);
    }
    if S > 3 {
        each(3);
    }
}

/// The array of what `each` gives for 0, 1, … up to `S`.
#[inline(always)]
fn slots<T: Copy, const S: usize>(mut each: impl FnMut(usize) -> T) -> [T; S] {
    let mut all = [each(0); S];
    each_slot::<S>(|j| all[j] = each(j));
    all
}

/// A leaf in the registers of a group of lanes: its pairs in order, and anything behind them.
#[derive(Clone, Copy)]
struct Leaf<K, V, const S: usize> {
    keys: [K; S],
    values: [V; S],
    /// Pairs.
    len: u32,
}

impl<K: Word, V: Word, const F: u32, const G: u32, const S: usize> Kernel for ApplyLeaves<K, V, F, G, S> {
    type Args = ApplyArgs<K, V>;

    #[inline(always)]
    unsafe fn run<M: Simt>(simt: M, args: &Self::Args) {
        const { assert!(G as usize * S == F as usize && G <= WARP, "a leaf's slots, over the lanes of a group") };
        let (tree, changes) = (&args.tree, &args.changes);
        let head = simt.global_index() / u64::from(G);
        if simt.global_index() / u64::from(WARP) * u64::from(WARP / G) >= args.head_count {
            // Of this warp's heads there is none.
            return;
        }
        let has_head = head < args.head_count;
        let at = if has_head { head } else { args.head_count - 1 };
        // SAFETY: a head, the first change of a leaf of the tree.
        let (from, count, leaf) = unsafe {
            let from = u64::from(simt.load(args.heads, at, Hint::ReadOnly));
            let count = simt.load(changes.count, 0, Hint::ReadOnly);
            (from, count, simt.load(changes.leaves, from, Hint::ReadOnly))
        };
        let keys_at = args.leaves.byte_add(leaf_offset::<K, V>(F, leaf)).cast::<K>();
        let values_at = args.leaves.byte_add(leaf_values_offset::<K, V>(F, leaf)).cast::<V>();
        let slot = |j: usize| simt.lane() % G * S as u32 + j as u32;
        // SAFETY: slots of the leaf, which this group alone writes.
        let mut pairs = unsafe {
            let (first, next) = tree.leaf_ranks(simt, leaf);
            Leaf {
                keys: slots(|j| simt.load(keys_at.as_const(), u64::from(slot(j)), Hint::Default)),
                values: slots(|j| simt.load(values_at.as_const(), u64::from(slot(j)), Hint::Default)),
                len: (next - first) as u32,
            }
        };
        let old_len = pairs.len;
        // Removals and new values first: then there is room for the inserts, in whichever order the changes are.
        // Without removals there is room anyway.
        let mut inserts = args.removals == 0;
        loop {
            let mut change = from;
            loop {
                let index = if change < count { change } else { from };
                // SAFETY: a change.
                let (its_leaf, effect, key, value) = unsafe {
                    (
                        simt.load(changes.leaves, index, Hint::ReadOnly),
                        simt.load(changes.effects, index, Hint::ReadOnly),
                        simt.load(changes.keys, index, Hint::ReadOnly),
                        simt.load(changes.values, index, Hint::ReadOnly),
                    )
                };
                let is_own = has_head && change < count && its_leaf == leaf;
                if !simt.any(FULL_MASK, is_own) {
                    break;
                }
                let does = is_own && (has_effect(effect, Effect::Insert) == inserts || args.removals == 0);
                pairs = Self::changed(simt, pairs, effect, key, value, does);
                change += 1;
            }
            if inserts {
                break;
            }
            inserts = true;
        }
        // What lies behind the last pair repeats it.
        let last = if pairs.len == 0 { 0 } else { pairs.len - 1 };
        let (mut last_key, mut last_value) = (pairs.keys[0], pairs.values[0]);
        each_slot::<S>(|j| {
            if last as usize % S == j {
                (last_key, last_value) = (pairs.keys[j], pairs.values[j]);
            }
        });
        let holder = simt.lane() / G * G + last / S as u32;
        last_key = simt.shuffle(FULL_MASK, last_key, holder);
        last_value = simt.shuffle(FULL_MASK, last_value, holder);
        if has_head {
            each_slot::<S>(|j| {
                let key = if slot(j) < pairs.len { pairs.keys[j] } else { last_key };
                // SAFETY: slots of the leaf.
                unsafe { simt.store(keys_at, u64::from(slot(j)), key, Hint::Default) };
            });
            each_slot::<S>(|j| {
                let value = if slot(j) < pairs.len { pairs.values[j] } else { last_value };
                // SAFETY: slots of the leaf.
                unsafe { simt.store(values_at, u64::from(slot(j)), value, Hint::Default) };
            });
            if simt.lane().is_multiple_of(G) && pairs.len != old_len && !args.lens.is_null() {
                // SAFETY: one length per leaf.
                unsafe { simt.store(args.lens, u64::from(leaf), pairs.len, Hint::Default) };
            }
        }
    }
}

impl<K: Word, V: Word, const F: u32, const G: u32, const S: usize> ApplyLeaves<K, V, F, G, S> {
    /// Warp collective (all lanes). The group's leaf with a change, if it `does` anything.
    #[inline(always)]
    fn changed<M: Simt>(simt: M, leaf: Leaf<K, V, S>, effect: u32, key: K, value: V, does: bool) -> Leaf<K, V, S> {
        let (lane, group) = (simt.lane() % G, simt.lane() / G);
        let slot = |j: usize| lane * S as u32 + j as u32;
        // The number of pairs below the key: where it is, or belongs.
        let mut below = 0;
        each_slot::<S>(|j| below += u32::from(slot(j) < leaf.len && leaf.keys[j] < key));
        let place = if S == 1 {
            group_bits::<G>(simt.ballot(FULL_MASK, below != 0), group).count_ones()
        } else {
            group_sum::<M, G>(simt, below)
        };
        // The neighbours' pairs: of the lane before the last one, of the lane behind the first one.
        let before =
            (simt.shuffle_up(FULL_MASK, leaf.keys[S - 1], 1), simt.shuffle_up(FULL_MASK, leaf.values[S - 1], 1));
        let behind = (simt.shuffle_down(FULL_MASK, leaf.keys[0], 1), simt.shuffle_down(FULL_MASK, leaf.values[0], 1));
        if !does {
            return leaf;
        }
        let (inserts, removes) = (has_effect(effect, Effect::Insert), has_effect(effect, Effect::Remove));
        let keys = slots(|j| {
            let (here, first, end) = (slot(j), j == 0, j + 1 == S);
            if inserts && here > place {
                if first { before.0 } else { leaf.keys[j.wrapping_sub(1) % S] }
            } else if removes && here >= place {
                if end { behind.0 } else { leaf.keys[(j + 1) % S] }
            } else if !removes && here == place {
                key
            } else {
                leaf.keys[j]
            }
        });
        let values = slots(|j| {
            let (here, first, end) = (slot(j), j == 0, j + 1 == S);
            if inserts && here > place {
                if first { before.1 } else { leaf.values[j.wrapping_sub(1) % S] }
            } else if removes && here >= place {
                if end { behind.1 } else { leaf.values[(j + 1) % S] }
            } else if !removes && here == place {
                value
            } else {
                leaf.values[j]
            }
        });
        Leaf { keys, values, len: leaf.len + u32::from(inserts) - u32::from(removes) }
    }
}
