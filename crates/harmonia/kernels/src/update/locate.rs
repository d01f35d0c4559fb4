//! From sorted operations to the changes that they make.

use super::{Effect, OpKind, pack};
use crate::layout::leaf_offset;
use crate::tree::{Rounds, TreeRef, children, count_below, descend_levels, launch_bounds, tile_start};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, LaunchBounds, Order, Scope, Shared, Simt, WARP, Word, kernel_args,
};

kernel_args! {
    /// Arguments of [`MarkBases`].
    pub struct MarkBasesArgs {
        /// Indexes in the batch of the sorted operations: `[count]`.
        pub order: Global<u32>,
        /// [`OpKind`]s, in the batch's order: `[count]`.
        pub kinds: Global<u32>,
        /// Out: `[count]`, 0 for an update, else the position in the sorted order, from 1.
        pub marks: GlobalMut<u32>,
        /// How many.
        pub count: u64,
        /// In and out: `[2]`. The number of operations of unknown kind is added to the first word. The second is raised
        /// to at least the kind of the first of them, with 2^32 - 1 minus its index in the batch in the upper half.
        pub unknown: GlobalMut<u64>,
    }
}

/// Marks the operations whose effect does not depend on the tree: their running maximum tells each update which
/// operation it builds on. Counts operations of unknown kind, which a batch should not have. One thread per operation;
/// any block.
#[derive(Debug)]
pub struct MarkBases;

impl Kernel for MarkBases {
    type Args = MarkBasesArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is an operation, and its place is one too; the last two words are accessed atomically
            // only.
            unsafe {
                let place = simt.load(args.order, index, Hint::ReadOnly);
                let kind = simt.load(args.kinds, u64::from(place), Hint::ReadOnly);
                let mark = if kind == OpKind::Update as u32 { 0 } else { index as u32 + 1 };
                simt.store(args.marks, index, mark, Hint::Default);
                if kind > OpKind::Remove as u32 {
                    let first = u64::from(u32::MAX - place) << 32 | u64::from(kind);
                    simt.atomic_add(args.unknown, 0, 1, Order::Relaxed, Scope::Device);
                    simt.atomic_max(args.unknown, 1, first, Order::Relaxed, Scope::Device);
                }
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Locate`].
    pub struct LocateArgs<K> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The operations' keys, sorted, in the caller's form: `[count]`.
        pub keys: Global<K>,
        /// Their indexes in the batch: `[count]`.
        pub order: Global<u32>,
        /// [`OpKind`]s, in the batch's order: `[count]`. Null for a batch of inserts.
        pub kinds: Global<u32>,
        /// The running maximum of [`MarkBases`]' marks: `[count]`. Null where `kinds` is.
        pub bases: Global<u32>,
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
            let parents = unsafe { descend_levels::<S, K, true, F, G, Q>(simt, tree, keys, above) };
            let mut nodes = parents;
            if tree.height > 0 {
                // SAFETY: inner nodes of the last level.
                nodes = unsafe { children::<S, K, true, F, G, Q>(simt, tree, keys, parents) };
            }
            let leaves = nodes.map(|node| node - tree.first_leaf);
            // SAFETY: leaves of the tree.
            let counts = unsafe { count_below::<S, K, V, F, G, Q>(simt, tree, keys, leaves) };
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
    let mut is_last = in_batch;
    if in_batch && index + 1 < args.count {
        // SAFETY: an operation's index.
        is_last = unsafe { simt.load(args.keys, index + 1, Hint::ReadOnly) } != raw;
    }
    // SAFETY: an operation's index.
    let kind = unsafe { folded_kind(simt, args, at, raw) };
    let effect = match (kind, is_there) {
        _ if !is_last => Effect::None,
        (OpKind::Insert, false) => Effect::Insert,
        (OpKind::Insert | OpKind::Update, true) => Effect::Replace,
        (OpKind::Remove, true) => Effect::Remove,
        (OpKind::Update | OpKind::Remove, false) => Effect::None,
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

/// Per thread. The combined effect of a key's operations up to `index`: an update has the effect of the last operation
/// before it that is no update, with a new value.
///
/// # Safety
/// `index` is an operation, with this key.
#[inline(always)]
unsafe fn folded_kind<S: Simt, K: Word>(simt: S, args: &LocateArgs<K>, index: u64, key: K) -> OpKind {
    if args.kinds.is_null() {
        return OpKind::Insert;
    }
    // SAFETY: `index` is an operation; bases are 0 or operations, counted from 1; positions are operations.
    unsafe {
        let base = simt.load(args.bases, index, Hint::ReadOnly);
        if base == 0 || simt.load(args.keys, u64::from(base - 1), Hint::ReadOnly) != key {
            return OpKind::Update;
        }
        let place = simt.load(args.order, u64::from(base - 1), Hint::ReadOnly);
        let kind = simt.load(args.kinds, u64::from(place), Hint::ReadOnly);
        if kind == OpKind::Remove as u32 { OpKind::Remove } else { OpKind::Insert }
    }
}
