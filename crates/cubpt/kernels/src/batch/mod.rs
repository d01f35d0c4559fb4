//! A batch of changes (section 3.2.2), a thread per key: where it belongs ([`Search`]), what becomes of the nodes that it
//! touches ([`Touch`], [`Expand`]), and the new nodes ([`Shift`], [`Put`], [`Finish`]).
//!
//! All layers are changed by the same kernels. In the leaves' layer the *changes* are the batch's operations. A node
//! that overflows is split evenly into *pieces*: the first one stays where it is, the others are new nodes. Each new
//! node is a change of the layer above: its parent gets one more child, after the child that was split, and one more
//! key, before that child's: the largest key of the piece before the new node. As a change has the slot at which it
//! belongs, sums of changes tell every key, old or new, its place in its node without comparing keys (the paper merges
//! by key, and then counts).
//!
//! No node becomes smaller than a batch's removals make it; what is too small afterwards is merged by the next batch
//! ([`merge`](crate::Group)).

mod change;
mod touch;

pub use change::{ChangeArgs, Finish, LayerChanges, Put, Shift};
pub use touch::{Expand, ExpandArgs, Touch, TouchArgs, TouchedNodes};
pub(crate) use touch::{SMALL, partition_point};

use crate::layout::Head;
use crate::search::{TreeRef, rank_in};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, Order, Scope, Shared, Simt, Word, kernel_args};

/// An operation inserts a pair, or replaces a value.
pub const INSERT: u32 = 0;
/// It replaces a value.
pub const UPDATE: u32 = 1;
/// It removes a pair. Greater numbers: it does nothing.
pub const REMOVE: u32 = 2;

/// What a change does, in the low bits of a word; above them is the first slot whose key is not below its own.
pub(crate) const ADDS: u32 = 1;
/// See [`ADDS`].
const REPLACES: u32 = 2;
/// See [`ADDS`].
const REMOVES: u32 = 3;
/// The bits of what a change does.
const EFFECT: u32 = 3;
/// The lowest bit of the slot.
pub(crate) const SLOT: u32 = 2;

kernel_args! {
    /// Arguments of [`Search`].
    pub struct SearchArgs<K> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The keys of operations, in the caller's form: `[count]`, ascending; of equal ones only the last has an effect.
        pub keys: Global<K>,
        /// [`INSERT`], [`UPDATE`] or [`REMOVE`], or more for those that are not the last of their key: `[count]`. Null: all
        /// insert.
        pub kinds: Global<u32>,
        /// How many.
        pub count: u64,
        /// Not 0 if the keys are not sorted after all: then nothing is done.
        pub unsorted: Global<u64>,
        /// Out: `[count]`, the leaf of each.
        pub leaves: GlobalMut<u32>,
        /// Out: `[count]`, what each does, and at which slot.
        pub changes: GlobalMut<u32>,
        /// Out: `[count]`, 1 for a pair that is added, 2^32 for one that is removed.
        pub nets: GlobalMut<u64>,
        /// Out: `[count]`, their numbers from 0.
        pub indexes: GlobalMut<u32>,
        /// In and out: how many keys were inserted, replaced, removed, and left unchanged; added to the former values.
        pub tally: GlobalMut<u64>,
    }
}

/// What became of a block's keys: as [`SearchArgs::tally`].
const TALLY: Shared<u32> = Shared::at(0, 4);

/// Finds the leaves of operations, and what they do: a thread per operation; any block of whole warps.
#[derive(Debug)]
pub struct Search<K>(PhantomData<K>);

impl<K: Word> Kernel for Search<K> {
    type Args = SearchArgs<K>;
    const STATIC_SHARED: u32 = TALLY.end();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: one word, the same for all threads.
        if unsafe { simt.load(args.unsorted, 0, Hint::ReadOnly) } != 0 {
            // What follows in the stream reads these all the same.
            let index = simt.global_index();
            if index < args.count {
                // SAFETY: the place of an operation.
                unsafe {
                    simt.store(args.leaves, index, 0, Hint::Default);
                    simt.store(args.nets, index, 0, Hint::Default);
                    simt.store(args.indexes, index, 0, Hint::Default);
                }
            }
            return;
        }
        if simt.thread_index() < 4 {
            // SAFETY: one thread per element; a barrier follows.
            unsafe { simt.shared_store(TALLY, simt.thread_index(), 0) };
        }
        simt.barrier();
        let index = simt.global_index();
        // 4: not the last operation of its key.
        let mut class = 4;
        if index < args.count {
            // SAFETY: the place of an operation; the tree is valid.
            class = unsafe { search(simt, args, index) };
        }
        for counted in 0..4 {
            let lanes = simt.ballot(FULL_MASK, class == counted);
            if simt.lane() == 0 && lanes != 0 {
                // SAFETY: set to 0 before the first barrier, and added to atomically until the next.
                unsafe { simt.shared_atomic_add(TALLY, counted, lanes.count_ones()) };
            }
        }
        simt.barrier();
        if simt.thread_index() < 4 {
            // SAFETY: written before the barrier; the tally has four elements, accessed atomically only.
            unsafe {
                let count = simt.shared_load(TALLY, simt.thread_index());
                if count > 0 {
                    let class = u64::from(simt.thread_index());
                    simt.atomic_add(args.tally, class, u64::from(count), Order::Relaxed, Scope::Device);
                }
            }
        }
    }
}

/// Per thread. Finds an operation's leaf; its place in the tally, or 4.
///
/// # Safety
/// As for [`Search`]; the place of an operation.
#[inline(always)]
unsafe fn search<S: Simt, K: Word>(simt: S, args: &SearchArgs<K>, index: u64) -> u32 {
    let (tree, order) = (&args.tree, args.tree.nodes.node.order);
    // SAFETY: the caller's contract.
    unsafe {
        let raw = simt.load(args.keys, index, Hint::ReadOnly);
        let word = raw.xor(tree.flip);
        let number = tree.descend(simt, word);
        let leaf = tree.nodes.at(simt, number);
        let slot = rank_in(simt, leaf.keys::<K>(), order, word);
        let is_hit = slot < order
            && simt.load(leaf.keys::<K>(), u64::from(slot), Hint::ReadOnly) == word
            && (word != K::MAX || slot < leaf.head(simt, Head::Count));
        let (mut kind, mut is_last) = (INSERT, true);
        if !args.kinds.is_null() {
            kind = simt.load(args.kinds, index, Hint::ReadOnly);
            is_last = kind <= REMOVE;
        } else if index + 1 < args.count {
            is_last = simt.load(args.keys, index + 1, Hint::ReadOnly) != raw;
        }
        let effect = match (kind, is_hit) {
            _ if !is_last => 0,
            (INSERT, false) => ADDS,
            (INSERT | UPDATE, true) => REPLACES,
            (REMOVE, true) => REMOVES,
            _ => 0,
        };
        // The slot of a key beyond all of a full node is the order.
        simt.store(args.changes, index, slot << SLOT | effect, Hint::Default);
        simt.store(args.leaves, index, number, Hint::Default);
        simt.store(args.indexes, index, index as u32, Hint::Default);
        let net = u64::from(effect == ADDS) | u64::from(effect == REMOVES) << 32;
        simt.store(args.nets, index, net, Hint::Default);
        match (is_last, effect) {
            (false, _) => 4,
            (true, 0) => 3,
            (true, effect) => effect - 1,
        }
    }
}
