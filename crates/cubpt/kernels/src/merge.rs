//! Nodes that removals have made too small, merged with their neighbours: layer by layer from the leaves.
//!
//! *Touched* nodes are those with other elements afterwards; in the leaves' layer, those that are too small. Under each parent,
//! touched nodes that are too small are in a *group* with as many neighbours as it takes, and what they hold is laid out anew,
//! evenly, in the fewest nodes (the group's *pieces*, the first of its members); the others are given back. A touched node
//! that is large enough is a group, too, with itself as its piece. Groups of other sizes change the parent, which is touched in its
//! turn. First all layers are planned ([`Group`]), then what they hold is gathered, and at last written
//! ([`WriteNodes`](crate::WriteNodes)). The paper has no removals.

use crate::batch::{SMALL, partition_point};
use crate::layout::{Head, NONE, Nodes, NodesMut};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, Word, kernel_args};

/// A touched node has other elements.
pub const CHANGED: u32 = 1;
/// It has fewer than before.
pub const SHRUNK: u32 = 2;

kernel_args! {
    /// Arguments of [`Start`].
    pub struct StartArgs {
        /// The tree's nodes.
        pub nodes: Nodes,
        /// Leaves that are too small: `[count]`.
        pub leaves: Global<u32>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the keys of each.
        pub after: GlobalMut<u32>,
        /// Out: `[count]`, [`CHANGED`] and [`SHRUNK`].
        pub changed: GlobalMut<u32>,
        /// Out: `[count]`, the parent of each.
        pub parents: GlobalMut<u32>,
    }
}

/// Begins with leaves that are too small: a thread per leaf; any block.
#[derive(Debug)]
pub struct Start;

impl Kernel for Start {
    type Args = StartArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: the place of a leaf.
            unsafe {
                let leaf = args.nodes.at(simt, simt.load(args.leaves, index, Hint::ReadOnly));
                simt.store(args.after, index, leaf.head(simt, Head::Count), Hint::Default);
                simt.store(args.changed, index, CHANGED | SHRUNK, Hint::Default);
                simt.store(args.parents, index, leaf.head(simt, Head::Parent), Hint::Default);
            }
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
        /// Keys of a node, if elements go into several.
        pub full: u64,
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

    /// In how many nodes it goes: no more than it has.
    #[inline(always)]
    fn pieces(self, order: u32, full: u32) -> u32 {
        if self.total <= order {
            return u32::from(self.total > 0);
        }
        self.total.div_ceil(full.max(1)).min(self.end - self.start)
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
                    while run.is_small(order / SMALL) && run.end < count {
                        run.total += size_of(run.end, &mut touched).0;
                        run.end += 1;
                    }
                    while run.is_small(order / SMALL) && run.start > 0 {
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
                let (members, pieces) = (run.end - run.start, run.pieces(order, args.full as u32));
                is_same &= members == 1 && pieces == 1;
                gone += members;
                come += pieces;
                simt.store(groups.slots, group, run.start, Hint::Default);
                simt.store(groups.members, group, members, Hint::Default);
                simt.store(groups.totals, group, run.total, Hint::Default);
                simt.store(groups.pieces, group, pieces, Hint::Default);
                simt.store(groups.freed, group, members - pieces, Hint::Default);
                group += 1;
                slot = run.end;
            }
            while group < last {
                simt.store(groups.slots, group, u32::MAX, Hint::Default);
                for words in [groups.members, groups.totals, groups.pieces, groups.freed] {
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

kernel_args! {
    /// Groups of a layer, planned.
    pub struct PlannedGroups {
        /// The parent's place among the parents.
        pub parents: Global<u32>,
        /// The first member's slot in the parent.
        pub slots: Global<u32>,
        /// Where each group's members begin: `[count + 1]`.
        pub members: Global<u64>,
        /// Where each group's pieces begin: `[count + 1]`.
        pub pieces: Global<u64>,
        /// How many.
        pub count: u64,
    }
}

impl PlannedGroups {
    /// Per thread. Where the members, or the pieces, of a group begin and end.
    ///
    /// # Safety
    /// It is one of the groups, and these are their sums.
    #[inline(always)]
    unsafe fn range<S: Simt>(simt: S, sums: Global<u64>, group: u64) -> (u64, u64) {
        // SAFETY: the caller's.
        unsafe { (simt.load(sums, group, Hint::ReadOnly), simt.load(sums, group + 1, Hint::ReadOnly)) }
    }
}

kernel_args! {
    /// Arguments of [`Members`].
    pub struct MembersArgs<K> {
        /// The tree's nodes.
        pub nodes: NodesMut,
        /// The layer's groups.
        pub groups: PlannedGroups,
        /// The parents' numbers.
        pub parents: Global<u32>,
        /// Out: the members' numbers.
        pub members: GlobalMut<u32>,
        /// Out: their keys in their parents.
        pub member_bounds: GlobalMut<K>,
        /// Out: `[count]`, what bounds each group: its last member's key.
        pub bounds: GlobalMut<K>,
        /// Out: at the place of each group's first piece, the group's number; zeros before.
        pub firsts: GlobalMut<u32>,
    }
}

/// Lists the members of groups, and takes their marks away: a thread per group; any block.
#[derive(Debug)]
pub struct Members<K>(PhantomData<K>);

impl<K: Word> Kernel for Members<K> {
    type Args = MembersArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (index, groups) = (simt.global_index(), &args.groups);
        if index >= groups.count {
            return;
        }
        // SAFETY: a group, its members, their places, and the place of its first piece.
        unsafe {
            let (start, end) = PlannedGroups::range(simt, groups.members, index);
            let (first, past) = PlannedGroups::range(simt, groups.pieces, index);
            if past > first {
                simt.store(args.firsts, first, index as u32, Hint::Default);
            }
            if start == end {
                return;
            }
            let place = u64::from(simt.load(groups.parents, index, Hint::ReadOnly));
            let parent = args.nodes.at(simt, simt.load(args.parents, place, Hint::ReadOnly));
            let slot = u64::from(simt.load(groups.slots, index, Hint::ReadOnly));
            let (mut at, mut bound) = (start, K::MIN);
            while at < end {
                let member = simt.load(parent.ptrs::<u32>().as_const(), slot + (at - start), Hint::Default);
                bound = simt.load(parent.keys::<K>().as_const(), slot + (at - start), Hint::Default);
                simt.store(args.members, at, member, Hint::Default);
                simt.store(args.member_bounds, at, bound, Hint::Default);
                args.nodes.at(simt, member).set(simt, Head::Mark, NONE);
                at += 1;
            }
            simt.store(args.bounds, index, bound, Hint::Default);
        }
    }
}

kernel_args! {
    /// Arguments of [`Mark`].
    pub struct MarkArgs {
        /// The tree's nodes.
        pub nodes: NodesMut,
        /// Numbers of nodes: `[count]`, each once.
        pub numbers: Global<u32>,
        /// How many.
        pub count: u64,
    }
}

/// Marks nodes with their places in a list: a thread per node; any block.
#[derive(Debug)]
pub struct Mark;

impl Kernel for Mark {
    type Args = MarkArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: the place of a node, which no other thread has.
            unsafe {
                let node = args.nodes.at(simt, simt.load(args.numbers, index, Hint::ReadOnly));
                node.set(simt, Head::Mark, index as u32);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Numbers`].
    pub struct NumbersArgs {
        /// The layer's groups.
        pub groups: PlannedGroups,
        /// The group of each piece: `[count]`.
        pub of_piece: Global<u32>,
        /// Pieces.
        pub count: u64,
        /// The members' numbers.
        pub members: Global<u32>,
        /// Out: `[count]`, the number of each piece.
        pub numbers: GlobalMut<u32>,
    }
}

/// Gives pieces the numbers of their groups' members. A thread per piece; any block.
#[derive(Debug)]
pub struct Numbers;

impl Kernel for Numbers {
    type Args = NumbersArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let piece = simt.global_index();
        if piece >= args.count {
            return;
        }
        // SAFETY: a piece, its group, and a member of the group.
        unsafe {
            let group = u64::from(simt.load(args.of_piece, piece, Hint::ReadOnly));
            let within = piece - simt.load(args.groups.pieces, group, Hint::ReadOnly);
            let member = simt.load(args.groups.members, group, Hint::ReadOnly) + within;
            simt.store(args.numbers, piece, simt.load(args.members, member, Hint::ReadOnly), Hint::Default);
        }
    }
}

kernel_args! {
    /// Arguments of [`Free`].
    pub struct FreeArgs {
        /// The layer's groups.
        pub groups: PlannedGroups,
        /// The members' numbers.
        pub members: Global<u32>,
        /// The members that the groups before do not need: `[groups + 1]`.
        pub freed: Global<u64>,
        /// Where the first goes.
        pub at: u64,
        /// Out: free numbers.
        pub free: GlobalMut<u32>,
    }
}

/// Lists the members that groups do not need: a thread per group; any block.
#[derive(Debug)]
pub struct Free;

impl Kernel for Free {
    type Args = FreeArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (index, groups) = (simt.global_index(), &args.groups);
        if index >= groups.count {
            return;
        }
        // SAFETY: a group, its members, and a place for each that it does not need.
        unsafe {
            let (start, end) = PlannedGroups::range(simt, groups.members, index);
            let (first, past) = PlannedGroups::range(simt, groups.pieces, index);
            let (mut member, mut at) = (start + (past - first), args.at + simt.load(args.freed, index, Hint::ReadOnly));
            while member < end {
                simt.store(args.free, at, simt.load(args.members, member, Hint::ReadOnly), Hint::Default);
                member += 1;
                at += 1;
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`MemberCounts`].
    pub struct MemberCountsArgs {
        /// The tree's nodes.
        pub nodes: Nodes,
        /// The members' numbers: `[count]`.
        pub members: Global<u32>,
        /// How many.
        pub count: u64,
        /// What marked members have afterwards, by their marks; null if nothing is known of them yet.
        pub after: Global<u32>,
        /// Out: `[count]`, the elements of each.
        pub counts: GlobalMut<u32>,
        /// Out: by their marks, the places of members; not written without `after`.
        pub places: GlobalMut<u32>,
    }
}

/// Counts the elements of members: a thread per member; any block.
#[derive(Debug)]
pub struct MemberCounts;

impl Kernel for MemberCounts {
    type Args = MemberCountsArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: the place of a member, and of its mark.
        unsafe {
            let member = args.nodes.at(simt, simt.load(args.members, index, Hint::ReadOnly));
            let mut count = member.head(simt, Head::Count);
            let mark = member.head(simt, Head::Mark);
            if !args.after.is_null() && mark != NONE {
                count = simt.load(args.after, u64::from(mark), Hint::ReadOnly);
                simt.store(args.places, u64::from(mark), index as u32, Hint::Default);
            }
            simt.store(args.counts, index, count, Hint::Default);
        }
    }
}

kernel_args! {
    /// Arguments of [`GatherPairs`].
    pub struct GatherPairsArgs<K, V> {
        /// The tree's nodes.
        pub nodes: Nodes,
        /// The members' numbers: `[count]`; leaves.
        pub members: Global<u32>,
        /// Where the pairs of each go: `[count + 1]`.
        pub offsets: Global<u64>,
        /// How many members.
        pub count: u64,
        /// Out: their ordered words.
        pub keys: GlobalMut<K>,
        /// Out: their values.
        pub values: GlobalMut<V>,
    }
}

/// Copies the pairs of leaves: a thread per slot; any block.
#[derive(Debug)]
pub struct GatherPairs<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for GatherPairs<K, V> {
    type Args = GatherPairsArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let order = u64::from(args.nodes.node.order.max(1));
        let (index, slot) = (simt.global_index() / order, simt.global_index() % order);
        if index >= args.count {
            return;
        }
        // SAFETY: the place of a member, and of its pairs.
        unsafe {
            let start = simt.load(args.offsets, index, Hint::ReadOnly);
            if slot < simt.load(args.offsets, index + 1, Hint::ReadOnly) - start {
                let leaf = args.nodes.at(simt, simt.load(args.members, index, Hint::ReadOnly));
                let key = simt.load(leaf.keys::<K>(), slot, Hint::ReadOnly);
                simt.store(args.keys, start + slot, key, Hint::Default);
                let value = simt.load(leaf.values::<V>(), slot, Hint::ReadOnly);
                simt.store(args.values, start + slot, value, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`GatherChildren`].
    pub struct GatherChildrenArgs<K> {
        /// The tree's nodes.
        pub nodes: Nodes,
        /// The members' numbers: `[count]`; inner nodes.
        pub members: Global<u32>,
        /// Their keys in their parents: `[count]`.
        pub bounds: Global<K>,
        /// Where the children of each go: `[count + 1]`.
        pub offsets: Global<u64>,
        /// How many members.
        pub count: u64,
        /// The groups of the layer below.
        pub below: PlannedGroups,
        /// Where the groups below each touched node begin, by the mark.
        pub starts: Global<u64>,
        /// Out: bounds, as ordered words.
        pub keys: GlobalMut<K>,
        /// Out: children.
        pub children: GlobalMut<u32>,
    }
}

/// Copies the children of inner nodes that remain as they are: a thread per slot; any block. Touched nodes are marked with
/// their places among the parents of the layer below.
#[derive(Debug)]
pub struct GatherChildren<K>(PhantomData<K>);

impl<K: Word> Kernel for GatherChildren<K> {
    type Args = GatherChildrenArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let order = u64::from(args.nodes.node.order.max(1));
        let (index, slot) = (simt.global_index() / order, simt.global_index() % order);
        if index >= args.count {
            return;
        }
        // SAFETY: the place of a member, the groups below it, and the places of its children.
        unsafe {
            let member = args.nodes.at(simt, simt.load(args.members, index, Hint::ReadOnly));
            let count = u64::from(member.head(simt, Head::Count));
            if slot >= count {
                return;
            }
            let mut at = simt.load(args.offsets, index, Hint::ReadOnly) + slot;
            let mark = member.head(simt, Head::Mark);
            if mark != NONE {
                let (first, past) = PlannedGroups::range(simt, args.starts, u64::from(mark));
                // The groups whose first slot is not above; those without members come last.
                let low = partition_point(first, past, |group| {
                    u64::from(simt.load(args.below.slots, group, Hint::ReadOnly)) <= slot
                });
                if low > first {
                    let (start, end) = PlannedGroups::range(simt, args.below.members, low - 1);
                    if slot < u64::from(simt.load(args.below.slots, low - 1, Hint::ReadOnly)) + (end - start) {
                        return;
                    }
                    at = at + shift(simt, args.below.pieces, first, low) - shift(simt, args.below.members, first, low);
                }
            }
            let key = simt.load(member.keys::<K>(), slot, Hint::ReadOnly);
            let key = separator(simt, args.offsets, args.bounds, index, at, key);
            simt.store(args.keys, at, key, Hint::Default);
            simt.store(args.children, at, simt.load(member.children(), slot, Hint::ReadOnly), Hint::Default);
        }
    }
}

/// Per thread. The separator of the child at `at`, whose own key is `key`. The key of a node's last child may be too small
/// ([`TreeRef`](crate::TreeRef)), and after a merge another child may follow it. So the last child of each member gets the
/// member's own key in its parent, whether the child stays as it is or is a piece that was just written.
///
/// # Safety
/// The index of a member, whose children go to `offsets`, and whose key in its parent is in `member_bounds`.
#[inline(always)]
unsafe fn separator<S: Simt, K: Word>(
    simt: S,
    offsets: Global<u64>,
    member_bounds: Global<K>,
    member: u64,
    at: u64,
    key: K,
) -> K {
    // SAFETY: the caller's: a member, and the end of its children.
    unsafe {
        if at + 1 != simt.load(offsets, member + 1, Hint::ReadOnly) {
            return key;
        }
        key.max(simt.load(member_bounds, member, Hint::ReadOnly))
    }
}

/// Per thread. How much sums grow from one group to another.
///
/// # Safety
/// Both are groups, or the second is one past the last.
#[inline(always)]
unsafe fn shift<S: Simt>(simt: S, sums: Global<u64>, from: u64, to: u64) -> u64 {
    // SAFETY: the caller's.
    unsafe { simt.load(sums, to, Hint::ReadOnly) - simt.load(sums, from, Hint::ReadOnly) }
}

kernel_args! {
    /// Arguments of [`PutPieces`].
    pub struct PutPiecesArgs<K> {
        /// The groups of the layer below.
        pub below: PlannedGroups,
        /// Where the groups below each touched node begin.
        pub starts: Global<u64>,
        /// The group of each piece: `[count]`.
        pub of_piece: Global<u32>,
        /// The bound of each piece: `[count]`.
        pub bounds: Global<K>,
        /// The number of each piece: `[count]`.
        pub numbers: Global<u32>,
        /// Pieces of the layer below.
        pub count: u64,
        /// The place of each touched node among the members; [`NONE`] for one that is no member.
        pub places: Global<u32>,
        /// Where the children of each member go: `[members + 1]`.
        pub offsets: Global<u64>,
        /// The members' keys in their parents: `[members]`.
        pub member_bounds: Global<K>,
        /// Out: bounds, as ordered words.
        pub keys: GlobalMut<K>,
        /// Out: children.
        pub children: GlobalMut<u32>,
    }
}

/// Puts the pieces of the layer below among the children of their parents: a thread per piece; any block.
#[derive(Debug)]
pub struct PutPieces<K>(PhantomData<K>);

impl<K: Word> Kernel for PutPieces<K> {
    type Args = PutPiecesArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let piece = simt.global_index();
        if piece >= args.count {
            return;
        }
        let below = &args.below;
        // SAFETY: a piece, its group, its parent, and its place among the parent's children.
        unsafe {
            let group = u64::from(simt.load(args.of_piece, piece, Hint::ReadOnly));
            let parent = u64::from(simt.load(below.parents, group, Hint::ReadOnly));
            let place = simt.load(args.places, parent, Hint::ReadOnly);
            if place == NONE {
                return;
            }
            let first = simt.load(args.starts, parent, Hint::ReadOnly);
            let slot = u64::from(simt.load(below.slots, group, Hint::ReadOnly));
            let within = piece - simt.load(below.pieces, group, Hint::ReadOnly);
            let at = simt.load(args.offsets, u64::from(place), Hint::ReadOnly)
                + slot
                + within
                + shift(simt, below.pieces, first, group)
                - shift(simt, below.members, first, group);
            let bound = simt.load(args.bounds, piece, Hint::ReadOnly);
            let key = separator(simt, args.offsets, args.member_bounds, u64::from(place), at, bound);
            simt.store(args.keys, at, key, Hint::Default);
            simt.store(args.children, at, simt.load(args.numbers, piece, Hint::ReadOnly), Hint::Default);
        }
    }
}
