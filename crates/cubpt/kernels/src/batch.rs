//! A batch of changes (section 3.2.2), a thread per key: where it belongs ([`Search`]), what becomes of the nodes that it
//! touches ([`Touch`], [`Expand`]), and the new nodes ([`Shift`], [`Put`], [`Finish`]).
//!
//! All layers are changed by the same kernels. In the leaves' layer the *changes* are those of the batch. A node that
//! overflows is split evenly into *pieces*: the first one stays where it is, the others are new nodes. Each new node is a change
//! of the layer above: its parent gets a child more, behind the one that was split, and a key before that one's, the largest of
//! the piece before it. As a change has the slot at which it belongs, sums of changes tell every key, old or new, its place
//! in its node without comparing keys (the paper merges by key, and then counts).
//!
//! No node becomes smaller than a batch's removals make it; what is too small afterwards is merged by the next batch
//! ([`merge`](crate::Group)).

use crate::layout::{Head, INNER, LEAF, NONE, Nodes, NodesMut};
use crate::search::{TreeRef, rank_in};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, Order, Scope, Shared, Simt, WARP, Word, kernel_args};

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

kernel_args! {
    /// Arguments of [`Touch`].
    pub struct TouchArgs {
        /// The tree's nodes.
        pub nodes: Nodes,
        /// Nodes with changes, in the order of their keys.
        pub numbers: Global<u32>,
        /// The last change of each.
        pub lasts: Global<u32>,
        /// How many: `[1]`.
        pub touched: Global<u64>,
        /// How many there may be.
        pub count: u64,
        /// Changes of a node that [`Shift`] puts in their places; a node with more is left to [`Put`].
        pub few: u64,
        /// In and out: how many nodes have more, added to what was there.
        pub many: GlobalMut<u64>,
        /// Not 0 if the keys are not sorted after all: then nothing is done. Null: they are.
        pub unsorted: Global<u64>,
        /// The sums of [`SearchArgs::nets`] before each change, and of all; null: every change adds.
        pub sums: Global<u64>,
        /// Keys of a node that is split.
        pub full: u64,
        /// Out: the keys of each node now.
        pub lens: GlobalMut<u32>,
        /// Out: and afterwards.
        pub after: GlobalMut<u32>,
        /// Out: `[count]`, how many new nodes it takes; 0 behind the last.
        pub taken: GlobalMut<u32>,
        /// Out: `[ceil(count / 32)]`, a bit for each node from which pairs are removed, and which is too small then. Null in
        /// inner layers.
        pub small: GlobalMut<u32>,
        /// In and out: how many of these there are, added to what was there.
        pub small_count: GlobalMut<u64>,
    }
}

/// Nodes with fewer keys than one in so many of their order are merged. A quarter: a node that was just halved is not merged
/// after its next removal.
pub(crate) const SMALL: u32 = 4;

/// Says what becomes of nodes with changes: a thread per node; any block of whole warps.
#[derive(Debug)]
pub struct Touch;

impl Kernel for Touch {
    type Args = TouchArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        // SAFETY: one word, the same for all threads.
        if !args.unsorted.is_null() && unsafe { simt.load(args.unsorted, 0, Hint::ReadOnly) } != 0 {
            return;
        }
        let (mut is_small, mut has_many) = (false, false);
        // SAFETY: the place of a node, and of its changes; a word for each 32 nodes.
        unsafe {
            let mut pieces = 1;
            if index < simt.load(args.touched, 0, Hint::ReadOnly) {
                let order = args.nodes.node.order;
                let node = args.nodes.at(simt, simt.load(args.numbers, index, Hint::ReadOnly));
                let (start, end) = changes_of(simt, args.lasts, index);
                has_many = end - start > args.few;
                let (added, removed) = if args.sums.is_null() {
                    ((end - start) as u32, 0)
                } else {
                    let net = simt.load(args.sums, end, Hint::ReadOnly) - simt.load(args.sums, start, Hint::ReadOnly);
                    (net as u32, (net >> 32) as u32)
                };
                let len = node.head(simt, Head::Count);
                let after = len + added - removed;
                if after > order {
                    pieces = after.div_ceil((args.full as u32).max(1));
                }
                is_small = removed > added && after < order / SMALL;
                simt.store(args.lens, index, len, Hint::Default);
                simt.store(args.after, index, after, Hint::Default);
            }
            if index < args.count {
                simt.store(args.taken, index, pieces - 1, Hint::Default);
            }
            let many = simt.ballot(FULL_MASK, has_many);
            if simt.lane() == 0 && many != 0 {
                simt.atomic_add(args.many, 0, u64::from(many.count_ones()), Order::Relaxed, Scope::Device);
            }
            if args.small.is_null() {
                return;
            }
            let small = simt.ballot(FULL_MASK, is_small);
            let index = simt.opaque(index);
            if simt.lane() == 0 && index < args.count {
                simt.store(args.small, index / u64::from(WARP), small, Hint::Default);
                if small != 0 {
                    let count = u64::from(small.count_ones());
                    simt.atomic_add(args.small_count, 0, count, Order::Relaxed, Scope::Device);
                }
            }
        }
    }
}

/// Per thread. Where the changes of a touched node begin, and end.
///
/// # Safety
/// It is one of the touched nodes, with these last changes.
#[inline(always)]
unsafe fn changes_of<S: Simt>(simt: S, lasts: Global<u32>, node: u64) -> (u64, u64) {
    // SAFETY: the caller's.
    unsafe {
        let start = if node == 0 { 0 } else { u64::from(simt.load(lasts, node - 1, Hint::ReadOnly)) + 1 };
        (start, u64::from(simt.load(lasts, node, Hint::ReadOnly)) + 1)
    }
}

kernel_args! {
    /// Nodes of a layer with changes, and what becomes of them.
    pub struct TouchedNodes {
        /// Their numbers: `[count]`, in the order of their keys.
        pub numbers: Global<u32>,
        /// The last change of each: `[count]`.
        pub lasts: Global<u32>,
        /// The keys of each before: `[count]`.
        pub lens: Global<u32>,
        /// The keys of each afterwards: `[count]`.
        pub after: Global<u32>,
        /// The new nodes that those before take, and all: `[count + 1]`.
        pub taken: Global<u64>,
        /// The numbers of new nodes; null if there are none.
        pub new: Global<u32>,
        /// How many.
        pub count: u64,
    }
}

/// How keys are spread over the pieces of a node: evenly, as in a build (formula 2).
#[derive(Clone, Copy)]
pub(crate) struct Split {
    pieces: u32,
    least: u32,
    /// Pieces with one more.
    more: u32,
}

impl Split {
    #[inline(always)]
    fn of(total: u32, pieces: u32) -> Self {
        let pieces = pieces.max(1);
        Self { pieces, least: total / pieces, more: total % pieces }
    }

    /// Keys of a piece.
    #[inline(always)]
    pub(crate) fn len(self, piece: u32) -> u32 {
        self.least + u32::from(piece < self.more)
    }

    /// The piece of a key, and its slot there.
    #[inline(always)]
    fn find(self, at: u32) -> (u32, u32) {
        if self.pieces == 1 {
            return (0, at);
        }
        // Never 0, so that the divisions need no check.
        let (long, least) = ((self.least + 1).max(1), self.least.max(1));
        let boundary = self.more * long;
        if at < boundary {
            (at / long, at % long)
        } else {
            (self.more + (at - boundary) / least, (at - boundary) % least)
        }
    }
}

impl TouchedNodes {
    /// Per thread. Into how many nodes a node goes.
    ///
    /// # Safety
    /// One of the nodes.
    #[inline(always)]
    pub(crate) unsafe fn pieces<S: Simt>(&self, simt: S, node: u64) -> u32 {
        // SAFETY: the caller's.
        unsafe {
            let before = simt.load(self.taken, node, Hint::ReadOnly);
            (simt.load(self.taken, node + 1, Hint::ReadOnly) - before) as u32 + 1
        }
    }

    /// Per thread. How a node's keys are spread.
    ///
    /// # Safety
    /// One of the nodes.
    #[inline(always)]
    pub(crate) unsafe fn split<S: Simt>(&self, simt: S, node: u64) -> Split {
        // SAFETY: the caller's.
        unsafe { Split::of(simt.load(self.after, node, Hint::ReadOnly), self.pieces(simt, node)) }
    }

    /// Per thread. The number of a node's piece.
    ///
    /// # Safety
    /// One of the nodes, and one of its pieces.
    #[inline(always)]
    pub(crate) unsafe fn number<S: Simt>(&self, simt: S, node: u64, piece: u32) -> u32 {
        // SAFETY: the caller's.
        unsafe {
            if piece == 0 {
                return simt.load(self.numbers, node, Hint::ReadOnly);
            }
            let before = simt.load(self.taken, node, Hint::ReadOnly);
            simt.load(self.new, before + u64::from(piece) - 1, Hint::ReadOnly)
        }
    }

    /// Per thread. The touched node, and its piece, of a place: first of touched nodes, then of new ones.
    ///
    /// # Safety
    /// Less than there are of both.
    #[inline(always)]
    pub(crate) unsafe fn piece_of<S: Simt>(&self, simt: S, place: u64) -> (u64, u32) {
        if place < self.count {
            return (place, 0);
        }
        let new = place - self.count;
        // SAFETY: the caller's; the last node before which no more than these are taken.
        unsafe {
            let node = partition_point(0, self.count, |at| simt.load(self.taken, at, Hint::ReadOnly) <= new) - 1;
            (node, (new - simt.load(self.taken, node, Hint::ReadOnly)) as u32 + 1)
        }
    }

    /// Per thread. The touched node to which a change belongs.
    ///
    /// # Safety
    /// A change.
    #[inline(always)]
    unsafe fn of_change<S: Simt>(&self, simt: S, change: u64) -> u64 {
        // SAFETY: the caller's. Every node has a change.
        unsafe {
            let most = self.count.min(change + 1);
            partition_point(0, most, |at| u64::from(simt.load(self.lasts, at, Hint::ReadOnly)) < change)
        }
    }
}

/// The first number from `low` on, below `high`, that is not before; `high` if all are.
#[inline(always)]
pub(crate) fn partition_point(mut low: u64, mut high: u64, is_before: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

kernel_args! {
    /// Arguments of [`Expand`].
    pub struct ExpandArgs<K> {
        /// The tree's nodes.
        pub nodes: Nodes,
        /// The layer's touched nodes; [`TouchedNodes::new`] is not read.
        pub touched: TouchedNodes,
        /// Operations of the batch that lead to the layer's changes; null in the leaves' layer, whose changes they are.
        pub leads: Global<u32>,
        /// The batch's keys. Null in the root's layer, above which nothing is changed: then only numbers are given.
        pub keys: Global<K>,
        /// Exclusive-or mask between these and ordered words.
        pub flip: K,
        /// New nodes of the layer.
        pub count: u64,
        /// How many layers below have taken.
        pub base: u64,
        /// Free numbers, the last ones taken first.
        pub free: Global<u32>,
        /// How many of them there are.
        pub free_count: u64,
        /// The first number that no node has had.
        pub end: u64,
        /// Out: `[count]`, the number of each new node.
        pub numbers: GlobalMut<u32>,
        /// Out: `[count]`, its parent.
        pub parents: GlobalMut<u32>,
        /// Out: `[count]`, the change that it is there.
        pub changes: GlobalMut<u32>,
        /// Out: `[count]`, an operation of the batch that leads to it.
        pub new_leads: GlobalMut<u32>,
        /// Out: `[count]`, their places from 0.
        pub indexes: GlobalMut<u32>,
    }
}

/// Numbers new nodes, and makes changes of the layer above of them: a thread per new node; any block.
#[derive(Debug)]
pub struct Expand<K>(PhantomData<K>);

impl<K: Word> Kernel for Expand<K> {
    type Args = ExpandArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        let touched = &args.touched;
        // SAFETY: the place of a new node, the node that it is split from, an operation that leads there, and the parent, in
        // which that operation's key leads to this node.
        unsafe {
            let taken = args.base + index;
            let number = match taken < args.free_count {
                true => simt.load(args.free, args.free_count - 1 - taken, Hint::ReadOnly),
                false => (args.end + taken - args.free_count) as u32,
            };
            simt.store(args.numbers, index, number, Hint::Default);
            if args.keys.is_null() {
                return;
            }
            simt.store(args.indexes, index, index as u32, Hint::Default);
            let (node, _) = touched.piece_of(simt, touched.count + index);
            let mut lead = simt.load(touched.lasts, node, Hint::ReadOnly);
            if !args.leads.is_null() {
                lead = simt.load(args.leads, u64::from(lead), Hint::ReadOnly);
            }
            let parent = args.nodes.at(simt, simt.load(touched.numbers, node, Hint::ReadOnly)).head(simt, Head::Parent);
            simt.store(args.parents, index, parent, Hint::Default);
            simt.store(args.new_leads, index, lead, Hint::Default);
            let parent = args.nodes.at(simt, parent);
            let word = simt.load(args.keys, u64::from(lead), Hint::ReadOnly).xor(args.flip);
            let slot = rank_in(simt, parent.keys::<K>(), args.nodes.node.order, word);
            // Beyond all keys is the last child.
            let slot = slot.min(parent.head(simt, Head::Count) - 1);
            simt.store(args.changes, index, slot << SLOT | ADDS, Hint::Default);
        }
    }
}

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
