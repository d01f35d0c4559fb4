//! A batch of changes is carried out, layer by layer from the leaves: the members of groups are gathered, changed, and written
//! to the groups' pieces.

use crate::layout::{Head, NONE, Nodes, NodesMut};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Order, Scope, Simt, WARP, Word, kernel_args};

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
        /// The nodes that the groups before take: `[groups + 1]`.
        pub taken: Global<u64>,
        /// Free numbers, the last ones taken first.
        pub free: Global<u32>,
        /// How many of them there are.
        pub free_count: u64,
        /// The first number that no node has had.
        pub end: u64,
        /// Out: `[count]`, the number of each piece.
        pub numbers: GlobalMut<u32>,
    }
}

/// Gives pieces their numbers: those of the group's members, then free ones, then new ones. A thread per piece; any block.
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
        // SAFETY: a piece, its group, and the group's members.
        unsafe {
            let group = u64::from(simt.load(args.of_piece, piece, Hint::ReadOnly));
            let within = piece - simt.load(args.groups.pieces, group, Hint::ReadOnly);
            let (start, end) = PlannedGroups::range(simt, args.groups.members, group);
            let number = if within < end - start {
                simt.load(args.members, start + within, Hint::ReadOnly)
            } else {
                let other = simt.load(args.taken, group, Hint::ReadOnly) + within - (end - start);
                if other < args.free_count {
                    simt.load(args.free, args.free_count - 1 - other, Hint::ReadOnly)
                } else {
                    (args.end + other - args.free_count) as u32
                }
            };
            simt.store(args.numbers, piece, number, Hint::Default);
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
        /// Exclusive-or mask between ordered words and the caller's keys.
        pub flip: K,
        /// Out: keys, in the caller's form.
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
                let key = simt.load(leaf.keys::<K>(), slot, Hint::ReadOnly).xor(args.flip);
                simt.store(args.keys, start + slot, key, Hint::Default);
                let value = simt.load(leaf.values::<V>(), slot, Hint::ReadOnly);
                simt.store(args.values, start + slot, value, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Drop`].
    pub struct DropArgs {
        /// The tree's nodes.
        pub nodes: Nodes,
        /// The leaf of each change: `[count]`.
        pub leaves: Global<u32>,
        /// Its slot.
        pub slots: Global<u32>,
        /// 1 if it removes a pair.
        pub removals: Global<u32>,
        /// Changes.
        pub count: u64,
        /// Where the pairs of each member begin.
        pub offsets: Global<u64>,
        /// In: a bit for each pair, set. Out: not set for those that are removed.
        pub kept: GlobalMut<u32>,
    }
}

/// Takes removed pairs out of a mask: a thread per change; any block. Leaves are marked with their places among the members.
#[derive(Debug)]
pub struct Drop;

impl Kernel for Drop {
    type Args = DropArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: the place of a change; its leaf is a member, and its slot has a pair.
        unsafe {
            if simt.load(args.removals, index, Hint::Streaming) != 0 {
                let leaf = args.nodes.at(simt, simt.load(args.leaves, index, Hint::ReadOnly));
                let member = u64::from(leaf.head(simt, Head::Mark));
                let pair = simt.load(args.offsets, member, Hint::ReadOnly)
                    + u64::from(simt.load(args.slots, index, Hint::ReadOnly));
                let (word, bit) = (pair / u64::from(WARP), 1_u32 << (pair % u64::from(WARP)));
                // The bit is set, and no other change is this pair's: so nothing is borrowed.
                simt.atomic_add(args.kept, word, bit.wrapping_neg(), Order::Relaxed, Scope::Device);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Replace`].
    pub struct ReplaceArgs<V> {
        /// The tree's nodes.
        pub nodes: NodesMut,
        /// The leaf of each change: `[count]`.
        pub leaves: Global<u32>,
        /// Its slot.
        pub slots: Global<u32>,
        /// 1 if it replaces a value.
        pub replacements: Global<u32>,
        /// The values.
        pub values: Global<V>,
        /// Changes.
        pub count: u64,
    }
}

/// Writes the values of keys that are there: a thread per change; any block.
#[derive(Debug)]
pub struct Replace<V>(PhantomData<V>);

impl<V: Word> Kernel for Replace<V> {
    type Args = ReplaceArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: the place of a change, and of its pair, which no other thread has.
        unsafe {
            if simt.load(args.replacements, index, Hint::Streaming) != 0 {
                let leaf = args.nodes.at(simt, simt.load(args.leaves, index, Hint::Streaming));
                let slot = u64::from(simt.load(args.slots, index, Hint::Streaming));
                simt.store(leaf.ptrs(), slot, simt.load(args.values, index, Hint::Streaming), Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`ReplaceGathered`].
    pub struct ReplaceGatheredArgs<V> {
        /// The tree's nodes.
        pub nodes: Nodes,
        /// The leaf of each change: `[count]`.
        pub leaves: Global<u32>,
        /// Its slot.
        pub slots: Global<u32>,
        /// 1 if it replaces a value.
        pub replacements: Global<u32>,
        /// The values.
        pub values: Global<V>,
        /// Changes.
        pub count: u64,
        /// Where the pairs of each member begin.
        pub offsets: Global<u64>,
        /// Out: the values of gathered pairs.
        pub gathered: GlobalMut<V>,
    }
}

/// Writes the values of keys that are in gathered leaves: a thread per change; any block. Leaves of changes are marked with their
/// places among the members, if they have one.
#[derive(Debug)]
pub struct ReplaceGathered<V>(PhantomData<V>);

impl<V: Word> Kernel for ReplaceGathered<V> {
    type Args = ReplaceGatheredArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: the place of a change, and of its pair among those of its member.
        unsafe {
            if simt.load(args.replacements, index, Hint::Streaming) != 0 {
                let leaf = args.nodes.at(simt, simt.load(args.leaves, index, Hint::ReadOnly));
                let member = leaf.head(simt, Head::Mark);
                if member != NONE {
                    let pair = simt.load(args.offsets, u64::from(member), Hint::ReadOnly)
                        + u64::from(simt.load(args.slots, index, Hint::ReadOnly));
                    simt.store(args.gathered, pair, simt.load(args.values, index, Hint::Streaming), Hint::Default);
                }
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
                let (mut low, mut high) = (first, past);
                while low < high {
                    let middle = low + (high - low) / 2;
                    if u64::from(simt.load(args.below.slots, middle, Hint::ReadOnly)) <= slot {
                        low = middle + 1;
                    } else {
                        high = middle;
                    }
                }
                if low > first {
                    let (start, end) = PlannedGroups::range(simt, args.below.members, low - 1);
                    if slot < u64::from(simt.load(args.below.slots, low - 1, Hint::ReadOnly)) + (end - start) {
                        return;
                    }
                    at = at + shift(simt, args.below.pieces, first, low) - shift(simt, args.below.members, first, low);
                }
            }
            let mut key = simt.load(member.keys::<K>(), slot, Hint::ReadOnly);
            if slot + 1 == count {
                // It may be too small, and there may be another child after it now.
                key = key.max(simt.load(args.bounds, index, Hint::ReadOnly));
            }
            simt.store(args.keys, at, key, Hint::Default);
            simt.store(args.children, at, simt.load(member.children(), slot, Hint::ReadOnly), Hint::Default);
        }
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
        /// Where the children of each member go.
        pub offsets: Global<u64>,
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
            simt.store(args.keys, at, simt.load(args.bounds, piece, Hint::ReadOnly), Hint::Default);
            simt.store(args.children, at, simt.load(args.numbers, piece, Hint::ReadOnly), Hint::Default);
        }
    }
}
