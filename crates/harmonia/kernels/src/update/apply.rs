//! Changes in place.

use super::plan::children_of;
use super::{Changes, Effect, has_effect, split_head};
use crate::layout::{inner_slot, leaf_offset, leaf_values_offset};
use crate::tree::TreeRef;
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, Shared, Simt, WARP, Word, kernel_args};

kernel_args! {
    /// Arguments of [`ApplyLeaves`](super::ApplyLeaves) and [`ApplyNodes`].
    pub struct ApplyArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// Its inner nodes, to be written.
        pub inner: GlobalMut<K>,
        /// Its leaves, to be written.
        pub leaves: GlobalMut<u8>,
        /// The number of pairs of each leaf, to be updated; null if the batch does not change them.
        pub lens: GlobalMut<u32>,
        /// What is to change.
        pub changes: Changes<K, V>,
        /// From [`Plan`](super::Plan), which found that they fit: heads of leaves for
        /// [`ApplyLeaves`](super::ApplyLeaves), of nodes for [`ApplyNodes`].
        pub heads: Global<u64>,
        /// How many.
        pub head_count: u64,
    }
}

/// The slots of a node's leaves.
const fn capacity(fanout: u32) -> u32 {
    fanout * fanout
}

/// Whether the leaves of one node can be refilled evenly, at a fanout: up to 16, otherwise a warp would need more
/// shared memory than it has.
pub const fn is_by_node(fanout: u32) -> bool {
    fanout <= 16
}

/// Warps of a block, at a fanout: what fits in 48 KiB of shared memory.
pub const fn apply_warps(fanout: u32) -> u32 {
    if fanout == 16 { 4 } else { 8 }
}

/// Refills the leaves of nodes evenly, with their changes: one warp per head; blocks of [`apply_warps`].
#[derive(Debug)]
pub struct ApplyNodes<K, V, const F: u32>(PhantomData<(K, V)>);

/// The shared memory of a warp: a copy of the pairs; for each pair, how many pairs before it are kept; for each change,
/// how many inserts precede it.
struct Copy<K, V> {
    keys: Shared<K>,
    values: Shared<V>,
    kept: Shared<u32>,
    inserts: Shared<u32>,
}

impl<K: Word, V: Word> Copy<K, V> {
    const fn bytes(slots: u32) -> u32 {
        let bytes = slots * (K::BYTES + V::BYTES) as u32 + 4 * (slots + 1) + 4 * (2 * slots + 1);
        bytes.next_multiple_of(8)
    }

    fn of_warp(warp: u32, slots: u32) -> Self {
        let keys = Shared::at(warp * Self::bytes(slots), slots);
        let values = Shared::at(keys.end(), slots);
        let kept = Shared::at(values.end(), slots + 1);
        Self { keys, values, kept, inserts: Shared::at(kept.end(), 2 * slots + 1) }
    }
}

/// Leaves that are rewritten.
#[derive(Clone, Copy)]
struct Target {
    first_leaf: u32,
    leaves: u32,
    /// Their changes: the first one, and the end.
    from: u64,
    to: u64,
    /// The node above, for its separators.
    parent: u32,
}

impl<K: Word, V: Word, const F: u32> Kernel for ApplyNodes<K, V, F> {
    type Args = ApplyArgs<K, V>;
    const STATIC_SHARED: u32 = apply_warps(F) * Copy::<K, V>::bytes(capacity(F));

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let head = simt.global_index() / u64::from(WARP);
        if head >= args.head_count {
            return;
        }
        // SAFETY: a head, the first change of a node of the last inner level.
        let target = unsafe {
            let (from, parent) = split_head(simt.load(args.heads, head, Hint::ReadOnly));
            let to = run_end(simt, args.changes.parents, from, args.changes.count, parent);
            let (first_leaf, leaves) = children_of(simt, &args.tree, parent);
            Target { first_leaf, leaves, from, to, parent }
        };
        // SAFETY: the same contract; the leaves are this warp's alone.
        unsafe { Self::rewrite(simt, args, &target) };
    }
}

/// Warp collective (all lanes). The end of the run of equal `units` from `from` on, before `end`.
///
/// # Safety
/// Indexes below `end` are of units, and the one at `from` is `unit`.
#[inline(always)]
unsafe fn run_end<S: Simt>(simt: S, units: Global<u32>, from: u64, end: u64, unit: u32) -> u64 {
    let mut at = from;
    loop {
        let index = at + u64::from(simt.lane());
        // SAFETY: below the end.
        let same = index < end && unsafe { simt.load(units, index, Hint::ReadOnly) } == unit;
        let others = !simt.ballot(FULL_MASK, same);
        if others != 0 {
            return at + u64::from(others.trailing_zeros());
        }
        at += u64::from(WARP);
    }
}

impl<K: Word, V: Word, const F: u32> ApplyNodes<K, V, F> {
    /// Warp collective (all lanes). Writes a target's leaves with its changes.
    ///
    /// # Safety
    /// The changes are the target's and fit; no other warp reads or writes its leaves.
    #[inline(always)]
    unsafe fn rewrite<S: Simt>(simt: S, args: &ApplyArgs<K, V>, target: &Target) {
        let copy = Copy::<K, V>::of_warp(simt.warp(), capacity(F));
        let (tree, changes) = (&args.tree, &args.changes);
        let lane = simt.lane();
        // SAFETY: leaves of the tree.
        let before = unsafe { tree.leaf_ranks(simt, target.first_leaf) }.0;
        // SAFETY: as above.
        let old = unsafe { tree.leaf_ranks(simt, target.first_leaf + target.leaves - 1) }.1 - before;
        let (old, run) = (old as u32, (target.to - target.from) as u32);
        let mut at = lane;
        while at < target.leaves * F {
            let (leaf, slot) = (target.first_leaf + at / F, at % F);
            let keys = args.leaves.byte_add(leaf_offset::<K, V>(F, leaf)).cast::<K>().as_const();
            let values = args.leaves.byte_add(leaf_values_offset::<K, V>(F, leaf)).cast::<V>().as_const();
            // SAFETY: slots of the leaf; each of its pairs has its own place in the copy.
            unsafe {
                let (first, next) = tree.leaf_ranks(simt, leaf);
                let key = simt.load(keys, u64::from(slot), Hint::Default);
                let value = simt.load(values, u64::from(slot), Hint::Default);
                if u64::from(slot) < next - first {
                    let to = (first - before) as u32 + slot;
                    simt.shared_store(copy.keys, to, key);
                    simt.shared_store(copy.values, to, value);
                }
            }
            at += WARP;
        }
        let (mut inserts, mut removals) = (0, 0);
        at = lane;
        while at - lane < run {
            let mut effect = 0;
            if at < run {
                // SAFETY: a change.
                effect = unsafe { changes.effect(simt, target.from + u64::from(at)) };
            }
            let inserted = simt.ballot(FULL_MASK, has_effect(effect, Effect::Insert));
            removals += simt.ballot(FULL_MASK, has_effect(effect, Effect::Remove)).count_ones();
            if at < run {
                // SAFETY: one element per change, this lane's.
                unsafe { simt.shared_store(copy.inserts, at, inserts + (inserted & simt.lanes_below()).count_ones()) };
            }
            inserts += inserted.count_ones();
            at += WARP;
        }
        if lane == 0 {
            // SAFETY: the element after the changes' elements.
            unsafe { simt.shared_store(copy.inserts, run, inserts) };
        }
        simt.sync_warp(FULL_MASK);
        let spread = Spread::new(target, old + inserts - removals);
        let mut kept = 0;
        at = lane;
        while at - lane < old {
            let (mut is_kept, mut key, mut value, mut change) = (false, K::MIN, V::MIN, 0);
            if at < old {
                // SAFETY: copied above; changes.
                unsafe {
                    key = simt.shared_load(copy.keys, at);
                    value = simt.shared_load(copy.values, at);
                    // After the changes of the pair's own key, the last of which takes effect.
                    change = lower_bound(run, |i| changes.key(simt, target.from + u64::from(i)) <= key);
                    is_kept = true;
                    let index = (target.from + u64::from(change)).wrapping_sub(1);
                    if change > 0 && changes.key(simt, index) == key {
                        let effect = changes.effect(simt, index);
                        is_kept = !has_effect(effect, Effect::Remove);
                        if has_effect(effect, Effect::Replace) {
                            value = changes.value(simt, index);
                        }
                    }
                }
            }
            let lanes = simt.ballot(FULL_MASK, is_kept);
            let kept_before = kept + (lanes & simt.lanes_below()).count_ones();
            kept += lanes.count_ones();
            if at < old {
                // SAFETY: one element per pair, this lane's; the pair's place is its own.
                unsafe {
                    simt.shared_store(copy.kept, at, kept_before);
                    if is_kept {
                        let to = kept_before + simt.shared_load(copy.inserts, change);
                        Self::put(simt, args, &spread, to, key, value);
                    }
                }
            }
            at += WARP;
        }
        if lane == 0 {
            // SAFETY: the element after the pairs' elements.
            unsafe { simt.shared_store(copy.kept, old, kept) };
        }
        simt.sync_warp(FULL_MASK);
        at = lane;
        while at < run {
            // SAFETY: a change; the copy was written before the warp met; the new pair's place is its own.
            unsafe {
                let index = target.from + u64::from(at);
                if has_effect(changes.effect(simt, index), Effect::Insert) {
                    let key = changes.key(simt, index);
                    let value = changes.value(simt, index);
                    let below = lower_bound(old, |i| simt.shared_load(copy.keys, i) < key);
                    let to = simt.shared_load(copy.kept, below) + simt.shared_load(copy.inserts, at);
                    Self::put(simt, args, &spread, to, key, value);
                }
            }
            at += WARP;
        }
        at = lane;
        while at < target.leaves && !args.lens.is_null() {
            // SAFETY: one length per leaf.
            unsafe { simt.store(args.lens, u64::from(target.first_leaf + at), spread.leaf_len(at), Hint::Default) };
            at += WARP;
        }
    }

    /// Per thread. Writes the `to`-th pair of a target; if it is its leaf's last pair, also into the slots after it and
    /// as the separator above.
    ///
    /// # Safety
    /// The target has more than `to` pairs, and nobody else writes this one.
    #[inline(always)]
    unsafe fn put<S: Simt>(simt: S, args: &ApplyArgs<K, V>, spread: &Spread, to: u32, key: K, value: V) {
        let (child, first) = spread.place(to);
        let leaf = spread.target.first_leaf + child;
        let keys = args.leaves.byte_add(leaf_offset::<K, V>(F, leaf)).cast::<K>();
        let values = args.leaves.byte_add(leaf_values_offset::<K, V>(F, leaf)).cast::<V>();
        let is_last = first + 1 == spread.leaf_len(child);
        let end = if is_last { F } else { first + 1 };
        let mut slot = first;
        while slot < end {
            // SAFETY: slots of the leaf.
            unsafe {
                simt.store(keys, u64::from(slot), key, Hint::Default);
                simt.store(values, u64::from(slot), value, Hint::Default);
            }
            slot += 1;
        }
        if is_last && child + 1 < spread.target.leaves {
            // SAFETY: the separator after the child.
            unsafe { simt.store(args.inner, inner_slot(F, spread.target.parent, child), key, Hint::Default) };
        }
    }
}

/// How pairs are spread over a target's leaves: evenly, the first `longer` leaves one more than `len`.
struct Spread {
    target: Target,
    len: u32,
    longer: u32,
}

impl Spread {
    #[inline(always)]
    fn new(target: &Target, pairs: u32) -> Self {
        let (len, longer) = divide(pairs, target.leaves);
        Self { target: *target, len, longer }
    }

    #[inline(always)]
    fn leaf_len(&self, child: u32) -> u32 {
        self.len + u32::from(child < self.longer)
    }

    /// The leaf, counted from the target's first, and the slot of a pair.
    #[inline(always)]
    fn place(&self, pair: u32) -> (u32, u32) {
        let in_longer = self.longer * (self.len + 1);
        if pair < in_longer {
            return divide(pair, self.len + 1);
        }
        let (child, slot) = divide(pair - in_longer, self.len);
        (self.longer + child, slot)
    }
}

/// Quotient and remainder, without a panic for a division by zero, which does not occur.
#[inline(always)]
#[expect(clippy::manual_checked_ops, reason = "the checked operations give other, longer code")]
fn divide(number: u32, by: u32) -> (u32, u32) {
    if by == 0 { (0, 0) } else { (number / by, number % by) }
}

/// Per thread. How many of the first `count` indexes satisfy `is_below`, which the smaller ones do.
#[inline(always)]
pub(crate) fn lower_bound(count: u32, is_below: impl Fn(u32) -> bool) -> u32 {
    let (mut from, mut to) = (0, count);
    while from < to {
        let middle = from + (to - from) / 2;
        if is_below(middle) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}
