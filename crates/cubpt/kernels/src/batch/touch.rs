//! The nodes that a batch touches, what becomes of them, and the changes of the layer above.

use super::{ADDS, SLOT};
use crate::layout::{Head, Nodes};
use crate::search::rank_in;
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, Order, Scope, Simt, WARP, Word, kernel_args};

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
        /// Out: `[count]`, how many new nodes it takes; 0 after the last.
        pub taken: GlobalMut<u32>,
        /// Out: `[ceil(count / 32)]`, a bit for each node from which pairs are removed, and which is too small then. Null in
        /// inner layers.
        pub small: GlobalMut<u32>,
        /// In and out: how many of these there are, added to what was there.
        pub small_count: GlobalMut<u64>,
    }
}

/// A node with fewer keys than its order divided by this is merged. A quarter: a node that was just halved is not
/// merged after its next removal.
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
            if index < args.count {
                // SAFETY: the place of a node. A scan follows.
                unsafe { simt.store(args.taken, index, 0, Hint::Default) };
            }
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
pub(super) unsafe fn changes_of<S: Simt>(simt: S, lasts: Global<u32>, node: u64) -> (u64, u64) {
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
    pub(super) pieces: u32,
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
    pub(super) fn find(self, at: u32) -> (u32, u32) {
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
    pub(super) unsafe fn of_change<S: Simt>(&self, simt: S, change: u64) -> u64 {
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
