//! Rebuilding a tree from its pairs and a batch's changes. The new rank of each pair is known in advance: its old rank,
//! plus the inserts and minus the removals before it.

use super::apply::lower_bound;
use super::{Changes, Effect, has_effect, slot_of};
use crate::build::put_pair;
use crate::layout::{Filling, leaf_offset, leaf_values_offset};
use crate::tree::TreeRef;
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, Simt, WARP, Word, kernel_args};

kernel_args! {
    /// Arguments of [`Place`] and [`Move`].
    pub struct RebuildArgs<K, V> {
        /// The tree as it is.
        pub tree: TreeRef<K>,
        /// What is to change, without operations that have no effect.
        pub changes: Changes<K, V>,
        /// How many inserts (low half) and removals (high half) are before each change: `[changes + 1]`.
        pub nets: Global<u64>,
        /// Out: the new leaf region.
        pub leaves: GlobalMut<u8>,
        /// Its shape.
        pub filling: Filling,
    }
}

/// Per thread. The new rank of the pair with the rank `old`, with this many inserts and removals before it.
#[inline(always)]
fn new_rank(old: u64, net: u64) -> u64 {
    old + u64::from(net as u32) - (net >> 32)
}

/// Writes the inserted pairs. One thread per change; any block.
#[derive(Debug)]
pub struct Place<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Place<K, V> {
    type Args = RebuildArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let change = simt.global_index();
        if change >= args.changes.count {
            return;
        }
        let changes = &args.changes;
        // SAFETY: a change; its leaf is the tree's, if that has any.
        unsafe {
            let effect = changes.effect(simt, change);
            if !has_effect(effect, Effect::Insert) {
                return;
            }
            let mut rank = 0;
            if args.tree.leaf_count > 0 {
                rank = args.tree.rank(simt, changes.leaf(simt, change), slot_of(effect));
            }
            let rank = new_rank(rank, simt.load(args.nets, change, Hint::ReadOnly));
            let key = changes.key(simt, change);
            let value = changes.value(simt, change);
            put_pair(simt, args.leaves, &args.filling, rank, key, value);
        }
    }
}

/// Slots of a warp of [`Move`].
pub const MOVE_SLOTS: u32 = 512;

/// Slots of a lane that are moved side by side.
const OWN: usize = 4;

/// Writes the pairs of the tree that stay. One warp per [`MOVE_SLOTS`] slots of the tree's leaves; any
/// block of whole warps.
#[derive(Debug)]
pub struct Move<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Move<K, V> {
    type Args = RebuildArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, changes) = (&args.tree, &args.changes);
        let fanout = args.filling.fanout;
        let shift = fanout.trailing_zeros();
        let warp = simt.global_index() / u64::from(WARP);
        let first_leaf = warp * u64::from(MOVE_SLOTS >> shift);
        if first_leaf >= u64::from(tree.leaf_count) {
            return;
        }
        // The changes of these leaves: their bounds, one lane each.
        let bound = first_leaf + u64::from(simt.lane() % 2) * u64::from(MOVE_SLOTS >> shift);
        let found = lower_bound(args.changes.count as u32, |i| {
            // SAFETY: a change.
            u64::from(unsafe { changes.leaf(simt, u64::from(i)) }) < bound
        });
        let from = simt.shuffle(FULL_MASK, found, 0);
        let run = simt.shuffle(FULL_MASK, found, 1) - from;
        let mut base = simt.lane();
        while base < MOVE_SLOTS {
            let slot_at = |j: usize| first_leaf * u64::from(fanout) + u64::from(base + j as u32 * WARP);
            let slot = |j: usize| slot_at(j) & u64::from(fanout - 1);
            let leaf_at = |j: usize| {
                let leaf = slot_at(j) >> shift;
                if leaf < u64::from(tree.leaf_count) { leaf as u32 } else { tree.leaf_count - 1 }
            };
            // SAFETY: leaves of the tree, and slots of them.
            let ranks: [(u64, u64); OWN] = core::array::from_fn(|j| unsafe { tree.leaf_ranks(simt, leaf_at(j)) });
            let pairs: [(K, V); OWN] = core::array::from_fn(|j| {
                let keys = tree.leaves.byte_add(leaf_offset::<K, V>(fanout, leaf_at(j))).cast::<K>();
                let values = tree.leaves.byte_add(leaf_values_offset::<K, V>(fanout, leaf_at(j))).cast::<V>();
                // SAFETY: as above.
                unsafe { (simt.load(keys, slot(j), Hint::Streaming), simt.load(values, slot(j), Hint::Streaming)) }
            });
            let is_pair =
                |j: usize| slot_at(j) >> shift < u64::from(tree.leaf_count) && ranks[j].0 + slot(j) < ranks[j].1;
            // Unrolled by hand: because of the searches in it, the loop would not be unrolled, and its arrays would not
            // stay in registers.
            const { assert!(OWN == 4, "each once") };
            // SAFETY: pairs of the tree where `is_pair` says so, and changes.
            unsafe {
                let changes = Changed { args, from, run };
                changes.move_pair(simt, pairs[0], ranks[0].0 + slot(0), is_pair(0));
                changes.move_pair(simt, pairs[1], ranks[1].0 + slot(1), is_pair(1));
                changes.move_pair(simt, pairs[2], ranks[2].0 + slot(2), is_pair(2));
                changes.move_pair(simt, pairs[3], ranks[3].0 + slot(3), is_pair(3));
            }
            base += OWN as u32 * WARP;
        }
    }
}

/// The changes of some leaves: `run` of them, from the `from`-th on.
struct Changed<'a, K, V> {
    args: &'a RebuildArgs<K, V>,
    from: u32,
    run: u32,
}

impl<K: Word, V: Word> Changed<'_, K, V> {
    /// Per thread. Writes a pair of the leaves, of a rank in the old tree, to its new place, unless it is
    /// removed.
    ///
    /// # Safety
    /// If `is_pair`, it is one; otherwise nothing is done.
    #[inline(always)]
    unsafe fn move_pair<S: Simt>(&self, simt: S, (key, mut value): (K, V), rank: u64, is_pair: bool) {
        if !is_pair {
            return;
        }
        let changes = &self.args.changes;
        let at = |i: u32| u64::from(self.from) + u64::from(i);
        // SAFETY: changes, and a new place that is this pair's alone.
        unsafe {
            let below = lower_bound(self.run, |i| changes.key(simt, at(i)) < key);
            if below < self.run && changes.key(simt, at(below)) == key {
                if has_effect(changes.effect(simt, at(below)), Effect::Remove) {
                    return;
                }
                value = changes.value(simt, at(below));
            }
            let net = simt.load(self.args.nets, at(below), Hint::ReadOnly);
            put_pair(simt, self.args.leaves, &self.args.filling, new_rank(rank, net), key, value);
        }
    }
}
