//! The plan of a batch of changes: what becomes of each layer. Nothing of the tree is written, but marks.
//!
//! The layer of the leaves first, then those above, as long as something changes in them. *Touched* nodes are those with
//! other elements afterwards. Under each parent of touched nodes, neighbours that overflow or become too small are a *group*,
//! and what they hold is laid out anew, evenly, in the fewest nodes (the group's *pieces*); a touched node that does neither is
//! a group, too, with itself as its piece. Groups of other sizes change the parent, which is touched in its turn.
//!
//! The paper's CountAddNodeNum counts the new nodes of all layers in the same way before anything is inserted; it has no
//! removals, and a group is always one node.

use crate::layout::{Head, NONE, Nodes, NodesMut};
use crate::search::{IN_FLIGHT, TreeRef, places, store_hits};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, Word, kernel_args};

/// The key has the value afterwards.
pub const PUT: u32 = 0;
/// The key has the value afterwards, if it was there.
pub const PUT_IF_PRESENT: u32 = 1;
/// The key is not there afterwards.
pub const REMOVE: u32 = 2;

kernel_args! {
    /// Arguments of [`Search`].
    pub struct SearchArgs<K> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// Keys of changes: `[count]`, strictly ascending, in the caller's form.
        pub keys: Global<K>,
        /// [`PUT`], [`PUT_IF_PRESENT`] or [`REMOVE`]: `[count]`.
        pub kinds: Global<u32>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the leaf of each.
        pub leaves: GlobalMut<u32>,
        /// Out: `[count]`, the slot of the first key that is not below it.
        pub slots: GlobalMut<u32>,
        /// Out: `[count]`, 1 if a pair is inserted.
        pub inserts: GlobalMut<u32>,
        /// Out: the same, as a mask: `[ceil(count / 32)]`.
        pub insert_mask: GlobalMut<u32>,
        /// Out: `[count]`, 1 if a pair is removed.
        pub removals: GlobalMut<u32>,
        /// Out: `[count]`, 1 if a value is replaced.
        pub replacements: GlobalMut<u32>,
    }
}

/// Finds the places of changes, and what they do: [`IN_FLIGHT`] per thread; any block of whole warps.
#[derive(Debug)]
pub struct Search<K>(PhantomData<K>);

impl<K: Word> Kernel for Search<K> {
    type Args = SearchArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, places) = (&args.tree, places(simt));
        // SAFETY: there are as many changes, and the tree is valid.
        let (words, numbers) = unsafe {
            let words = tree.load(simt, args.keys, places, args.count);
            (words, tree.descend(simt, words))
        };
        // SAFETY: leaves of the tree.
        let found = unsafe { tree.within(simt, numbers, words) };
        let mut inserts = [false; IN_FLIGHT];
        for j in 0..IN_FLIGHT {
            let at = places[j];
            if at < args.count {
                // SAFETY: the place of a change.
                unsafe {
                    let (kind, is_hit) =
                        (simt.load(args.kinds, at, Hint::Streaming), tree.is_hit(simt, found[j], words[j]));
                    inserts[j] = kind == PUT && !is_hit;
                    simt.store(args.leaves, at, numbers[j], Hint::Default);
                    simt.store(args.slots, at, found[j].slot, Hint::Default);
                    simt.store(args.inserts, at, u32::from(inserts[j]), Hint::Default);
                    simt.store(args.removals, at, u32::from(kind == REMOVE && is_hit), Hint::Default);
                    simt.store(args.replacements, at, u32::from(kind != REMOVE && is_hit), Hint::Default);
                }
            }
        }
        // SAFETY: there are as many changes.
        unsafe { store_hits(simt, args.insert_mask, places, inserts, args.count) };
    }
}

/// A touched node has other elements.
pub const CHANGED: u32 = 1;
/// It has fewer than before.
pub const SHRUNK: u32 = 2;

kernel_args! {
    /// Arguments of [`Touch`].
    pub struct TouchArgs {
        /// The tree's nodes.
        pub nodes: NodesMut,
        /// The leaves of changes: `[count]`, each once.
        pub leaves: Global<u32>,
        /// Where the changes of each begin: `[count + 1]`.
        pub starts: Global<u64>,
        /// How many leaves.
        pub count: u64,
        /// The inserts before each change: `[changes + 1]`.
        pub inserts: Global<u64>,
        /// The removals before each change: `[changes + 1]`.
        pub removals: Global<u64>,
        /// Out: `[count]`, the keys of each leaf afterwards.
        pub after: GlobalMut<u32>,
        /// Out: `[count]`, [`CHANGED`] and [`SHRUNK`].
        pub changed: GlobalMut<u32>,
        /// Out: `[count]`, the parent of each.
        pub parents: GlobalMut<u32>,
    }
}

/// Says what becomes of leaves, and takes their marks away: a thread per leaf; any block.
#[derive(Debug)]
pub struct Touch;

impl Kernel for Touch {
    type Args = TouchArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: the place of a leaf, and of its changes.
        unsafe {
            let leaf = args.nodes.at(simt, simt.load(args.leaves, index, Hint::ReadOnly));
            let [start, end] = [index, index + 1].map(|at| simt.load(args.starts, at, Hint::ReadOnly));
            let sum = |sums| simt.load(sums, end, Hint::ReadOnly) - simt.load(sums, start, Hint::ReadOnly);
            let (inserts, removals) = (sum(args.inserts) as u32, sum(args.removals) as u32);
            let changed = if inserts + removals > 0 { CHANGED } else { 0 };
            let shrunk = if removals > inserts { SHRUNK } else { 0 };
            simt.store(args.after, index, leaf.get(simt, Head::Count) + inserts - removals, Hint::Default);
            simt.store(args.changed, index, changed | shrunk, Hint::Default);
            simt.store(args.parents, index, leaf.get(simt, Head::Parent), Hint::Default);
            leaf.set(simt, Head::Mark, NONE);
        }
    }
}

kernel_args! {
    /// Groups of a layer: as many as there are touched nodes, in the order of their keys; those that are too many have no
    /// members.
    pub struct GroupsMut {
        /// The parent's place among the parents.
        pub parents: GlobalMut<u32>,
        /// The first member's slot in the parent; the largest number for a group without members.
        pub slots: GlobalMut<u32>,
        /// Nodes.
        pub members: GlobalMut<u32>,
        /// Elements afterwards.
        pub totals: GlobalMut<u32>,
        /// Nodes afterwards.
        pub pieces: GlobalMut<u32>,
        /// Nodes that it takes beside its members.
        pub taken: GlobalMut<u32>,
        /// Members that it does not need.
        pub freed: GlobalMut<u32>,
    }
}

kernel_args! {
    /// Arguments of [`Group`].
    pub struct GroupArgs {
        /// The tree's nodes.
        pub nodes: Nodes,
        /// Touched nodes: in the order of their keys.
        pub touched: Global<u32>,
        /// How many keys each has afterwards.
        pub after: Global<u32>,
        /// [`CHANGED`] and [`SHRUNK`].
        pub changed: Global<u32>,
        /// Their parents, each once: `[count]`.
        pub parents: Global<u32>,
        /// Where the touched children of each begin: `[count + 1]`.
        pub starts: Global<u64>,
        /// How many parents.
        pub count: u64,
        /// Keys of a node that is split.
        pub full: u32,
        /// Out: the groups, at the places of the touched nodes.
        pub groups: GroupsMut,
        /// Out: `[count]`, the keys of each parent afterwards.
        pub parents_after: GlobalMut<u32>,
        /// Out: `[count]`, [`CHANGED`] and [`SHRUNK`].
        pub parents_changed: GlobalMut<u32>,
        /// Out: `[count]`, the parent of each parent.
        pub grandparents: GlobalMut<u32>,
    }
}

/// Groups the touched children of nodes: a thread per parent; any block.
#[derive(Debug)]
pub struct Group;

/// Neighbours that are laid out together.
#[derive(Clone, Copy)]
struct Run {
    start: u32,
    end: u32,
    total: u32,
}

impl Run {
    /// Whether it is too small. An empty one needs no other.
    #[inline(always)]
    fn is_small(self, least: u32) -> bool {
        0 < self.total && self.total < least
    }

    /// In how many nodes it goes.
    #[inline(always)]
    fn pieces(self, order: u32, full: u32) -> u32 {
        if self.total <= order { u32::from(self.total > 0) } else { self.total.div_ceil(full.max(1)) }
    }
}

impl Kernel for Group {
    type Args = GroupArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        let (order, groups) = (args.nodes.node.order, &args.groups);
        // SAFETY: a parent, its children, and the places of its touched ones, which are this thread's.
        unsafe {
            let number = simt.load(args.parents, index, Hint::ReadOnly);
            let parent = args.nodes.at(simt, number);
            let count = parent.head(simt, Head::Count);
            let [first, last] = [index, index + 1].map(|at| simt.load(args.starts, at, Hint::ReadOnly));
            let (mut touched, mut group, mut slot) = (first, first, 0);
            // The keys of a child afterwards, and whether it has changed; goes on to the next touched one.
            let size_of = |slot: u32, touched: &mut u64| {
                let child = simt.load(parent.children(), u64::from(slot), Hint::ReadOnly);
                if *touched < last && simt.load(args.touched, *touched, Hint::ReadOnly) == child {
                    *touched += 1;
                    let at = *touched - 1;
                    return (simt.load(args.after, at, Hint::ReadOnly), simt.load(args.changed, at, Hint::ReadOnly));
                }
                (args.nodes.at(simt, child).head(simt, Head::Count), 0)
            };
            let (mut gone, mut come) = (0, 0);
            let mut is_same = true;
            while slot < count {
                let (total, changed) = size_of(slot, &mut touched);
                if changed == 0 {
                    slot += 1;
                    continue;
                }
                let mut run = Run { start: slot, end: slot + 1, total };
                if changed & SHRUNK != 0 {
                    while run.is_small(order / 2) && run.end < count {
                        run.total += size_of(run.end, &mut touched).0;
                        run.end += 1;
                    }
                    while run.is_small(order / 2) && run.start > 0 {
                        let before = group.wrapping_sub(1);
                        let is_beside = group > first && {
                            let start = simt.load(groups.slots.as_const(), before, Hint::Default);
                            start + simt.load(groups.members.as_const(), before, Hint::Default) == run.start
                        };
                        if is_beside {
                            // It becomes a part of this one.
                            group = before;
                            let members = simt.load(groups.members.as_const(), before, Hint::Default);
                            run.start -= members;
                            run.total += simt.load(groups.totals.as_const(), before, Hint::Default);
                            gone -= members;
                            come -= simt.load(groups.pieces.as_const(), before, Hint::Default);
                        } else {
                            run.start -= 1;
                            let child = simt.load(parent.children(), u64::from(run.start), Hint::ReadOnly);
                            run.total += args.nodes.at(simt, child).head(simt, Head::Count);
                        }
                    }
                }
                let (members, pieces) = (run.end - run.start, run.pieces(order, args.full));
                is_same &= members == 1 && pieces == 1;
                gone += members;
                come += pieces;
                simt.store(groups.slots, group, run.start, Hint::Default);
                simt.store(groups.members, group, members, Hint::Default);
                simt.store(groups.totals, group, run.total, Hint::Default);
                simt.store(groups.pieces, group, pieces, Hint::Default);
                simt.store(groups.taken, group, pieces.saturating_sub(members), Hint::Default);
                simt.store(groups.freed, group, members.saturating_sub(pieces), Hint::Default);
                group += 1;
                slot = run.end;
            }
            while group < last {
                simt.store(groups.slots, group, u32::MAX, Hint::Default);
                for words in [groups.members, groups.totals, groups.pieces, groups.taken, groups.freed] {
                    simt.store(words, group, 0, Hint::Default);
                }
                group += 1;
            }
            let mut at = first;
            while at < last {
                simt.store(groups.parents, at, index as u32, Hint::Default);
                at += 1;
            }
            let after = count - gone + come;
            let shrunk = if after < count { SHRUNK } else { 0 };
            simt.store(args.parents_after, index, after, Hint::Default);
            simt.store(args.parents_changed, index, if is_same { 0 } else { CHANGED | shrunk }, Hint::Default);
            simt.store(args.grandparents, index, parent.head(simt, Head::Parent), Hint::Default);
        }
    }
}
