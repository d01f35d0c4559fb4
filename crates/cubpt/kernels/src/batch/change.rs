//! The changed nodes of a layer: keys move to their places, and new ones are put between them.

use super::touch::{Split, TouchedNodes, changes_of, partition_point};
use super::{ADDS, EFFECT, REMOVES, REPLACES, SLOT};
use crate::layout::{Head, INNER, LEAF, NONE, NodesMut};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, Shared, Simt, Word, kernel_args};

kernel_args! {
    /// Changes of a layer, in the order of their keys.
    pub struct LayerChanges<K, P> {
        /// What each does, and at which slot.
        pub changes: Global<u32>,
        /// The sums of [`SearchArgs::nets`] before each, and of all; null: every change adds.
        pub sums: Global<u64>,
        /// Keys that are added.
        pub keys: Global<K>,
        /// Exclusive-or mask between these and ordered words.
        pub flip: K,
        /// Values, or children, that are added.
        pub ptrs: Global<P>,
        /// The place of each change among the values; null if it is its own place.
        pub order: Global<u32>,
        /// How many.
        pub count: u64,
    }
}

impl<K: Word, P: Word> LayerChanges<K, P> {
    /// Per thread. By how much the changes of a node from `start` to `end` move what comes behind them.
    ///
    /// # Safety
    /// Changes, or one past the last.
    #[inline(always)]
    unsafe fn moved<S: Simt>(&self, simt: S, start: u64, end: u64) -> u32 {
        if self.sums.is_null() {
            return (end - start) as u32;
        }
        // SAFETY: the caller's.
        let net = unsafe { simt.load(self.sums, end, Hint::ReadOnly) - simt.load(self.sums, start, Hint::ReadOnly) };
        (net as u32).wrapping_sub((net >> 32) as u32)
    }

    /// Per thread. The first change of a node, from `start` to `end`, whose slot is not below.
    ///
    /// # Safety
    /// The changes of a node.
    #[inline(always)]
    unsafe fn first_at<S: Simt>(&self, simt: S, (start, end): (u64, u64), slot: u32) -> u64 {
        // SAFETY: the caller's.
        partition_point(start, end, |at| unsafe { simt.load(self.changes, at, Hint::ReadOnly) >> SLOT } < slot)
    }
}

kernel_args! {
    /// Arguments of [`Shift`], [`Put`] and [`Finish`].
    pub struct ChangeArgs<K, P> {
        /// The tree's nodes.
        pub nodes: NodesMut,
        /// The layer's touched nodes.
        pub touched: TouchedNodes,
        /// Its changes.
        pub changes: LayerChanges<K, P>,
        /// The leaves in the order of their keys, before the batch; not read in inner layers.
        pub leaves: Global<u32>,
        /// How many.
        pub leaf_count: u64,
        /// Their positions, before the batch.
        pub positions: Global<u32>,
        /// Out: the largest key of each piece but a node's last one, by the new node that comes behind it; null if there
        /// are no new nodes.
        pub bounds: GlobalMut<K>,
        /// New nodes.
        pub taken: u64,
        /// [`TouchArgs::few`]; 0 if all are left to [`Put`].
        pub few: u64,
        /// [`LEAF`] or [`INNER`].
        pub kind: u32,
        /// Lanes that work on a node, as a power of two.
        pub lanes: u32,
    }
}

/// Moves what nodes have to its new places, and puts there what few changes bring: `2^lanes` threads per touched node; any
/// block of whole warps, with shared memory for the slots of as many nodes as the block works on.
///
/// No other thread reads the node: its keys are all in shared memory before the first one is written.
#[derive(Debug)]
pub struct Shift<K, P>(PhantomData<(K, P)>);

impl<K: Word, P: Word> Kernel for Shift<K, P> {
    type Args = ChangeArgs<K, P>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (touched, changes, order) = (&args.touched, &args.changes, args.nodes.node.order);
        let (width, unit) = (1 << args.lanes, simt.thread_index() >> args.lanes);
        let lane = simt.thread_index() & (width - 1);
        let index = u64::from(simt.block_index()) * u64::from(simt.block_dim() >> args.lanes) + u64::from(unit);
        let keys: Shared<K> = Shared::at(unit * order * K::BYTES as u32, order);
        let all_keys = (simt.block_dim() >> args.lanes) * order * K::BYTES as u32;
        let ptrs: Shared<P> = Shared::at(all_keys + unit * order * P::BYTES as u32, order);
        let is_valid = index < touched.count;
        // Of a warp some nodes may have nothing to move.
        let (mut range, mut from, mut count, mut is_moved) = ((0, 0), 0, 0, false);
        // SAFETY: a touched node, its changes, and the unit's part of shared memory.
        unsafe {
            let at = if is_valid { index } else { 0 };
            let number = simt.load(touched.numbers, at, Hint::ReadOnly);
            let node = args.nodes.at(simt, number);
            if is_valid {
                range = changes_of(simt, touched.lasts, index);
                is_moved = changes.sums.is_null()
                    || simt.load(changes.sums, range.0, Hint::ReadOnly)
                        != simt.load(changes.sums, range.1, Hint::ReadOnly);
                count = simt.load(touched.lens, index, Hint::ReadOnly);
                // What comes before the first change stays, as far as the first piece goes.
                from = simt.load(changes.changes, range.0, Hint::ReadOnly) >> SLOT;
                from = from.min(touched.split(simt, index).len(0));
            }
            if is_moved {
                let mut slot = from + lane;
                while slot < count {
                    let key = simt.load(node.keys::<K>().as_const(), u64::from(slot), Hint::Default);
                    simt.shared_store(keys, slot, key);
                    simt.shared_store(
                        ptrs,
                        slot,
                        simt.load(node.ptrs::<P>().as_const(), u64::from(slot), Hint::Default),
                    );
                    slot += width;
                }
            }
            simt.sync_warp(FULL_MASK);
            if !is_valid {
                return;
            }
            let split = touched.split(simt, index);
            let mut change = range.0 + u64::from(lane);
            while range.1 - range.0 <= args.few && change < range.1 {
                args.put(simt, change, (index, range.0, split));
                change += u64::from(width);
            }
            if !is_moved {
                return;
            }
            let mut slot = from + lane;
            while slot < count {
                let behind = changes.first_at(simt, range, slot + 1);
                // What the slot's own key has: the last change up to it.
                let mut own = 0;
                if behind > range.0 {
                    let last = simt.load(changes.changes, behind - 1, Hint::ReadOnly);
                    own = if last >> SLOT == slot { last & EFFECT } else { 0 };
                }
                if own != REMOVES {
                    let to = slot.wrapping_add(changes.moved(simt, range.0, behind));
                    let mut key = simt.shared_load(keys, slot);
                    let mut to_ptr = to;
                    if args.kind == INNER {
                        // A new child comes behind the one that was split, and its key before that one's.
                        let split_child = changes.first_at(simt, range, slot);
                        to_ptr = slot + changes.moved(simt, range.0, split_child);
                        if slot + 1 == count {
                            // It may be too small, and even below those that come now.
                            let last = simt.load(changes.keys, range.1 - 1, Hint::ReadOnly).xor(changes.flip);
                            key = key.max(last);
                        }
                    }
                    let (piece, at) = split.find(to);
                    if piece > 0 || at != slot || args.kind == INNER {
                        let to = args.nodes.at(simt, touched.number(simt, index, piece));
                        simt.store(to.keys(), u64::from(at), key, Hint::Default);
                    }
                    let (piece, at) = split.find(to_ptr);
                    // A new value is put there by who has it.
                    if own != REPLACES && (piece > 0 || at != slot) {
                        let (to, ptr) = (touched.number(simt, index, piece), simt.shared_load(ptrs, slot));
                        simt.store(args.nodes.at(simt, to).ptrs(), u64::from(at), ptr, Hint::Default);
                        if piece > 0 && args.kind == INNER {
                            args.nodes.at(simt, ptr.low()).set(simt, Head::Parent, to);
                        }
                    }
                }
                slot += width;
            }
            if args.kind == LEAF {
                // Of an inner node, what comes behind its children is known when they are there.
                let len = split.len(0);
                let mut slot = len + lane;
                while slot < count {
                    simt.store(node.keys(), u64::from(slot), K::MAX, Hint::Default);
                    slot += width;
                }
                if lane == 0 {
                    node.set(simt, Head::Count, len);
                    if split.pieces > 1 {
                        node.set(simt, Head::Next, touched.number(simt, index, 1));
                    }
                }
            }
        }
    }
}

/// Puts what changes bring into its place, in nodes with many: a thread per change, after [`Shift`]; any block.
#[derive(Debug)]
pub struct Put<K, P>(PhantomData<(K, P)>);

impl<K: Word, P: Word> Kernel for Put<K, P> {
    type Args = ChangeArgs<K, P>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (index, touched) = (simt.global_index(), &args.touched);
        if index >= args.changes.count {
            return;
        }
        // SAFETY: a change, and its node.
        unsafe {
            let node = touched.of_change(simt, index);
            let (start, end) = changes_of(simt, touched.lasts, node);
            if end - start > args.few {
                args.put(simt, index, (node, start, touched.split(simt, node)));
            }
        }
    }
}

impl<K: Word, P: Word> ChangeArgs<K, P> {
    /// Per thread. Puts what a change brings into its place, in a touched node whose changes begin at `start`.
    ///
    /// # Safety
    /// A change of the node, which is split so. No other thread puts it, or reads the node.
    #[inline(always)]
    unsafe fn put<S: Simt>(&self, simt: S, change: u64, (node, start, split): (u64, u64, Split)) {
        let (changes, touched) = (&self.changes, &self.touched);
        // SAFETY: the caller's; the place of a pair or child, which no other thread has.
        unsafe {
            let word = simt.load(changes.changes, change, Hint::ReadOnly);
            let effect = word & EFFECT;
            if effect != ADDS && effect != REPLACES {
                return;
            }
            let to = (word >> SLOT).wrapping_add(changes.moved(simt, start, change));
            if effect == ADDS {
                let (piece, at) = split.find(to);
                let key = simt.load(changes.keys, change, Hint::ReadOnly).xor(changes.flip);
                let to = self.nodes.at(simt, touched.number(simt, node, piece));
                simt.store(to.keys(), u64::from(at), key, Hint::Default);
            }
            let mut from = change;
            if !changes.order.is_null() {
                from = u64::from(simt.load(changes.order, change, Hint::ReadOnly));
            }
            let ptr = simt.load(changes.ptrs, from, Hint::ReadOnly);
            let (piece, at) = split.find(to + u32::from(self.kind == INNER));
            let to = touched.number(simt, node, piece);
            simt.store(self.nodes.at(simt, to).ptrs(), u64::from(at), ptr, Hint::Default);
            if self.kind == INNER {
                self.nodes.at(simt, ptr.low()).set(simt, Head::Parent, to);
            }
        }
    }
}

/// Completes nodes whose keys are all there: `2^lanes` threads per new node and, in inner layers, before these per touched node;
/// any block.
#[derive(Debug)]
pub struct Finish<K, P>(PhantomData<(K, P)>);

impl<K: Word, P: Word> Kernel for Finish<K, P> {
    type Args = ChangeArgs<K, P>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (touched, order) = (&args.touched, args.nodes.node.order);
        let (width, mut place) = (1 << args.lanes, simt.global_index() >> args.lanes);
        let lane = simt.thread_index() & (width - 1);
        if args.kind == LEAF {
            place += touched.count;
        }
        if place >= touched.count + args.taken {
            return;
        }
        // SAFETY: a touched node or a new one, which no other unit completes; keys and children are there.
        unsafe {
            let (index, piece) = touched.piece_of(simt, place);
            let split = touched.split(simt, index);
            let (len, number) = (split.len(piece), touched.number(simt, index, piece));
            let node = args.nodes.at(simt, number);
            let mut slot = len + lane;
            if args.kind == INNER {
                let last = simt.load(node.ptrs::<P>().as_const(), u64::from(len) - 1, Hint::Default);
                while slot < order {
                    simt.store(node.keys(), u64::from(slot), K::MAX, Hint::Default);
                    simt.store(node.ptrs(), u64::from(slot), last, Hint::Default);
                    slot += width;
                }
            } else {
                while slot < order {
                    simt.store(node.keys(), u64::from(slot), K::MAX, Hint::Default);
                    slot += width;
                }
            }
            if lane != 0 {
                return;
            }
            node.set(simt, Head::Count, len);
            if piece == 0 {
                return;
            }
            node.set(simt, Head::Kind, args.kind);
            let before = args.nodes.at(simt, touched.number(simt, index, piece - 1));
            let bound = simt.load(before.keys::<K>().as_const(), u64::from(split.len(piece - 1)) - 1, Hint::Default);
            simt.store(args.bounds, place - touched.count, bound, Hint::Default);
            if args.kind == LEAF {
                let next = if piece + 1 < split.pieces {
                    touched.number(simt, index, piece + 1)
                } else {
                    let split_leaf = simt.load(touched.numbers, index, Hint::ReadOnly);
                    let position = u64::from(simt.load(args.positions, u64::from(split_leaf), Hint::ReadOnly));
                    let has_next = position + 1 < args.leaf_count;
                    if has_next { simt.load(args.leaves, position + 1, Hint::ReadOnly) } else { NONE }
                };
                node.set(simt, Head::Next, next);
            }
        }
    }
}
