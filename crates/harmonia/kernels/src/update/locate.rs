//! From sorted operations to the changes that they make.

use super::{Effect, pack};
use crate::layout::leaf_offset;
use crate::tree::{Rounds, TreeRef, children, count_below, descend_levels, launch_bounds, tile_start};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, LaunchBounds, Order, Scope, Shared, Simt, WARP, Word, kernel_args,
};

kernel_args! {
    /// Arguments of [`Locate`].
    pub struct LocateArgs<K> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The operations' keys, sorted, in the caller's form: `[count]`.
        pub keys: Global<K>,
        /// What the operations of each key do together, stored at the key's last operation: 0 to insert, 1 to update, 2
        /// to remove; another number at the others: `[count]`. Null for a batch of inserts.
        pub kinds: Global<u32>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, effects and slots, packed.
        pub effects: GlobalMut<u32>,
        /// Out: `[count]`, leaves.
        pub leaves: GlobalMut<u32>,
        /// Out: `[count]`, the inner nodes above the leaves; 0 if there are none.
        pub parents: GlobalMut<u32>,
        /// In and out: how many keys were inserted, replaced, removed, and left unchanged; added to the former values.
        pub tally: GlobalMut<u64>,
        /// Not 0 if the keys are not sorted after all: then nothing is done.
        pub unsorted: Global<u64>,
    }
}

/// Kinds of operations.
const INSERT: u32 = 0;
/// See [`INSERT`].
const UPDATE: u32 = 1;
/// See [`INSERT`].
const REMOVE: u32 = 2;

/// What became of a block's keys: as [`LocateArgs::tally`].
const TALLY: Shared<u32> = Shared::at(0, 4);

/// Finds each operation's leaf and its effect. One warp per 32 operations; blocks of [`THREADS`](crate::THREADS).
#[derive(Debug)]
pub struct Locate<K, V, const F: u32, const G: u32, const Q: usize>(PhantomData<(K, V)>);

impl<K: Word, V: Word, const F: u32, const G: u32, const Q: usize> Kernel for Locate<K, V, F, G, Q> {
    type Args = LocateArgs<K>;
    const STATIC_SHARED: u32 = TALLY.end();
    // One block fewer than for look-ups; otherwise there would not be enough registers.
    const LAUNCH_BOUNDS: Option<LaunchBounds> = match launch_bounds::<K>(F, Q) {
        Some(bounds) => Some(LaunchBounds { blocks: bounds.blocks - 1, ..bounds }),
        None => None,
    };

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: one word, the same for all threads.
        if unsafe { simt.load(args.unsorted, 0, Hint::ReadOnly) } != 0 {
            return;
        }
        if simt.thread_index() < 4 {
            // SAFETY: one thread per element; a barrier follows.
            unsafe { simt.shared_store(TALLY, simt.thread_index(), 0) };
        }
        simt.barrier();
        let tile = tile_start(simt, WARP);
        if tile < args.count {
            // SAFETY: the same contract.
            unsafe { locate_tile::<S, K, V, F, G, Q>(simt, args, tile) };
        }
        simt.barrier();
        if simt.thread_index() < 4 {
            // SAFETY: written before the barrier; the tally has four elements, accessed atomically only.
            unsafe {
                let count = simt.shared_load(TALLY, simt.thread_index());
                if count > 0 {
                    let index = u64::from(simt.thread_index());
                    simt.atomic_add(args.tally, index, u64::from(count), Order::Relaxed, Scope::Device);
                }
            }
        }
    }
}

/// Warp collective (all lanes).
///
/// # Safety
/// As for [`Locate`]; `tile` is an operation.
#[inline(always)]
unsafe fn locate_tile<S: Simt, K: Word, V: Word, const F: u32, const G: u32, const Q: usize>(
    simt: S,
    args: &LocateArgs<K>,
    tile: u64,
) {
    let (tree, lane) = (&args.tree, simt.lane());
    let index = tile + u64::from(lane);
    let in_batch = index < args.count;
    let at = if in_batch { index } else { args.count - 1 };
    // SAFETY: an operation's index.
    let raw = unsafe { simt.load(args.keys, at, Hint::ReadOnly) };
    let own = raw.xor(tree.flip);
    let (mut parent, mut leaf, mut slot) = (0, 0, F);
    if tree.leaf_count > 0 {
        for round in 0..Rounds::<G, Q>::COUNT {
            let keys = Rounds::<G, Q>::deal(simt, own, round);
            let above = if tree.height > 0 { tree.height - 1 } else { 0 };
            // SAFETY: the tree is valid and not empty.
            let parents = unsafe { descend_levels::<S, K, true, F, G, Q, false>(simt, tree, |_| None, keys, above) };
            let mut nodes = parents;
            if tree.height > 0 {
                // SAFETY: inner nodes of the last level.
                nodes = unsafe { children::<S, K, true, F, G, Q, false>(simt, tree, |_| None, keys, parents) };
            }
            let leaves = nodes.map(|node| node - tree.first_leaf);
            // SAFETY: leaves of the tree.
            let counts = unsafe { count_below::<S, K, V, F, G, Q, false>(simt, tree, keys, leaves) };
            for j in 0..Q {
                let server = Rounds::<G, Q>::server(lane) * G;
                let found = if G == 1 {
                    (parents[j], leaves[j], counts[j])
                } else {
                    (
                        simt.shuffle(FULL_MASK, parents[j], server),
                        simt.shuffle(FULL_MASK, leaves[j], server),
                        simt.shuffle(FULL_MASK, counts[j], server),
                    )
                };
                if Rounds::<G, Q>::is_own(lane, round, j) {
                    (parent, leaf, slot) = found;
                }
            }
        }
    }
    let mut is_there = false;
    if slot < F {
        let keys = tree.leaves.byte_add(leaf_offset::<K, V>(F, leaf)).cast::<K>();
        // SAFETY: a slot of the leaf.
        is_there = unsafe { simt.load(keys, u64::from(slot), Hint::ReadOnly) } == own;
    }
    let (mut kind, mut is_last) = (INSERT, in_batch);
    // SAFETY: operations' indexes.
    unsafe {
        if !args.kinds.is_null() {
            kind = simt.load(args.kinds, at, Hint::ReadOnly);
            is_last &= kind <= REMOVE;
        } else if in_batch && index + 1 < args.count {
            is_last = simt.load(args.keys, index + 1, Hint::ReadOnly) != raw;
        }
    }
    let effect = match (kind, is_there) {
        _ if !is_last => Effect::None,
        (INSERT, false) => Effect::Insert,
        (INSERT | UPDATE, true) => Effect::Replace,
        (REMOVE, true) => Effect::Remove,
        _ => Effect::None,
    };
    if in_batch {
        // SAFETY: an operation's index.
        unsafe {
            simt.store(args.effects, index, pack(effect, slot), Hint::Default);
            simt.store(args.leaves, index, leaf, Hint::Default);
            simt.store(args.parents, index, parent, Hint::Default);
        }
    }
    // The tally's order: inserted, replaced, removed, left alone.
    let class = if effect == Effect::None { 3 } else { effect as u32 - 1 };
    for counted in 0..4 {
        let lanes = simt.ballot(FULL_MASK, is_last && class == counted);
        if lane == 0 && lanes != 0 {
            // SAFETY: set to 0 before the first barrier, and added to atomically until the next.
            unsafe { simt.shared_atomic_add(TALLY, counted, lanes.count_ones()) };
        }
    }
}
