//! Nodes that are written: by a build, by merges, and above a root that was split.
//!
//! A layer's new content is a sequence of elements, keys with their values or children, which is cut into *groups*; each group
//! goes into some nodes, its *pieces*, evenly (formulas 1 and 2 of the paper). A build has one group in each layer.

use crate::layout::{Head, INNER, LEAF, NONE, NodesMut};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, Word, kernel_args};

kernel_args! {
    /// The groups of a layer.
    pub struct Groups {
        /// Where each group's elements begin: `[groups + 1]`; null if there is one group.
        pub elements: Global<u64>,
        /// Where each group's pieces begin: `[groups + 1]`; null if there is one group.
        pub pieces: Global<u64>,
        /// The group of each piece: `[pieces]`; null if there is one group.
        pub of_piece: Global<u32>,
        /// Of that group, the elements of each piece; but the first `more` have one more.
        pub least: u64,
        /// See [`Groups::least`].
        pub more: u64,
        /// The node of each piece: `[pieces]`; null if they have consecutive numbers.
        pub numbers: Global<u32>,
        /// The first of these.
        pub first: u64,
        /// Pieces.
        pub count: u64,
    }
}

/// The elements of a piece.
#[derive(Clone, Copy)]
struct Part {
    start: u64,
    len: u32,
}

impl Groups {
    /// Per thread. The group of a piece.
    ///
    /// # Safety
    /// It is one of the pieces.
    #[inline(always)]
    unsafe fn group<S: Simt>(&self, simt: S, piece: u64) -> u64 {
        // SAFETY: the caller's.
        if self.of_piece.is_null() { 0 } else { u64::from(unsafe { simt.load(self.of_piece, piece, Hint::ReadOnly) }) }
    }

    /// Per thread. The elements of a piece: of `n` elements in `p` pieces the first `n mod p` pieces have one more than the
    /// others (formula 2).
    ///
    /// # Safety
    /// It is one of the pieces.
    #[inline(always)]
    unsafe fn part<S: Simt>(&self, simt: S, piece: u64) -> Part {
        if self.of_piece.is_null() {
            return Part::of(0, piece, self.least, self.more);
        }
        // SAFETY: the caller's; a piece has a group, whose bounds these are.
        let [first, last, start, end] = unsafe {
            let group = self.group(simt, piece);
            [
                simt.load(self.pieces, group, Hint::ReadOnly),
                simt.load(self.pieces, group + 1, Hint::ReadOnly),
                simt.load(self.elements, group, Hint::ReadOnly),
                simt.load(self.elements, group + 1, Hint::ReadOnly),
            ]
        };
        // Never 0, so that the division needs no check.
        let (pieces, elements) = ((last - first).max(1), end - start);
        Part::of(start, piece - first, elements / pieces, elements % pieces)
    }
}

impl Part {
    /// Of pieces with `least` elements each, `more` of which have one more.
    #[inline(always)]
    fn of(start: u64, within: u64, least: u64, more: u64) -> Self {
        // A piece has at most 512 elements.
        Self { start: start + within * least + within.min(more), len: least as u32 + u32::from(within < more) }
    }
}

kernel_args! {
    /// Arguments of [`WriteNodes`].
    pub struct WriteNodesArgs<K, P> {
        /// The tree's nodes.
        pub nodes: NodesMut,
        /// What goes into which.
        pub groups: Groups,
        /// The elements' keys.
        pub keys: Global<K>,
        /// Their values, or children; null if these have consecutive numbers.
        pub ptrs: Global<P>,
        /// The first of these.
        pub first_child: u64,
        /// Exclusive-or mask between the elements' keys and ordered words.
        pub flip: K,
        /// [`LEAF`] or [`INNER`].
        pub kind: u32,
        /// Lanes that write a node, as a power of two: at least 8.
        pub lanes: u32,
        /// The parents of new nodes, in a build; no parents if it is the root. Else the nodes keep theirs, and each child gets
        /// its own.
        pub parents: Parents,
    }
}

kernel_args! {
    /// Parents of the nodes of a layer, over which these are spread evenly (formula 2).
    pub struct Parents {
        /// The number of the first.
        pub first: u64,
        /// Children of each.
        pub least: u32,
        /// Parents with one more.
        pub more: u32,
        /// 1 if nodes are new; 0 if they keep their parents.
        pub are_new: u32,
        /// 0: a struct with padding would be kept in local memory.
        pub zero: u32,
    }
}

impl Parents {
    /// The parent of a piece.
    #[inline(always)]
    fn of(&self, piece: u32) -> u32 {
        if self.least == 0 {
            return NONE;
        }
        // Never 0, so that the divisions need no check.
        let (long, least) = ((self.least + 1).max(1), self.least.max(1));
        let boundary = self.more * long;
        let place = if piece < boundary { piece / long } else { self.more + (piece - boundary) / least };
        self.first as u32 + place
    }
}

/// Writes nodes: `2^lanes` threads per node, which need not be of one block; any block.
#[derive(Debug)]
pub struct WriteNodes<K, P>(PhantomData<(K, P)>);

impl<K: Word, P: Word> Kernel for WriteNodes<K, P> {
    type Args = WriteNodesArgs<K, P>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (groups, order) = (&args.groups, args.nodes.node.order);
        let (width, piece) = (1 << args.lanes, simt.global_index() >> args.lanes);
        if piece >= groups.count {
            return;
        }
        // SAFETY: a piece, its elements and its node; nobody else writes the node, or the parents of these children.
        unsafe {
            let Part { start, len } = groups.part(simt, piece);
            let number = match groups.numbers.is_null() {
                true => (groups.first + piece) as u32,
                false => simt.load(groups.numbers, piece, Hint::ReadOnly),
            };
            let ptr_of = |element: u64, hint| match args.ptrs.is_null() {
                true => P::truncate(args.first_child + element),
                false => simt.load(args.ptrs, element, hint),
            };
            let node = args.nodes.at(simt, number);
            // Of nodes with more threads than a block, too.
            let mut slot = simt.global_index() as u32 & (width - 1);
            let is_new = args.parents.are_new != 0;
            if is_new {
                // All of the sector at once, so that it need not be read.
                let has_next = args.kind == LEAF && piece + 1 < groups.count;
                let next = if has_next { number + 1 } else { NONE };
                let parent = args.parents.of(piece as u32);
                node.set_all(simt, slot, [len, parent, args.kind, NONE, next]);
            } else if slot == 0 {
                node.set(simt, Head::Count, len);
                node.set(simt, Head::Kind, args.kind);
            }
            while slot < len {
                let at = start + u64::from(slot);
                let ptr = ptr_of(at, Hint::Streaming);
                let key = simt.load(args.keys, at, Hint::Streaming).xor(args.flip);
                simt.store(node.keys(), u64::from(slot), key, Hint::Default);
                simt.store(node.ptrs(), u64::from(slot), ptr, Hint::Default);
                if args.kind == INNER && !is_new {
                    args.nodes.at(simt, ptr.low()).set(simt, Head::Parent, number);
                }
                slot += width;
            }
            while slot < order {
                simt.store(node.keys(), u64::from(slot), K::MAX, Hint::Default);
                if args.kind == INNER && len > 0 {
                    let last = ptr_of(start + u64::from(len) - 1, Hint::ReadOnly);
                    simt.store(node.ptrs(), u64::from(slot), last, Hint::Default);
                }
                slot += width;
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Bounds`].
    pub struct BoundsArgs<K> {
        /// The layer's groups.
        pub groups: Groups,
        /// The elements' keys.
        pub keys: Global<K>,
        /// The bound of each group's last piece: `[groups]`; null for the largest word.
        pub last: Global<K>,
        /// Exclusive-or mask between the elements' keys and ordered words.
        pub flip: K,
        /// Out: the bound of each piece: `[pieces]`.
        pub bounds: GlobalMut<K>,
    }
}

/// Says what is not below any key of a piece: its largest key, and for a group's last piece what bounded the group, if that is
/// more. A thread per piece; any block.
#[derive(Debug)]
pub struct Bounds<K>(PhantomData<K>);

impl<K: Word> Kernel for Bounds<K> {
    type Args = BoundsArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (groups, piece) = (&args.groups, simt.global_index());
        if piece >= groups.count {
            return;
        }
        // SAFETY: a piece, its group, and its elements.
        unsafe {
            let group = groups.group(simt, piece);
            let Part { start, len } = groups.part(simt, piece);
            let mut bound = K::MIN;
            if len > 0 {
                bound = simt.load(args.keys, start + u64::from(len) - 1, Hint::ReadOnly).xor(args.flip);
            }
            let is_last = match groups.pieces.is_null() {
                true => piece + 1 == groups.count,
                false => piece + 1 == simt.load(groups.pieces, group + 1, Hint::ReadOnly),
            };
            if is_last {
                // The last child's key may be too small.
                let of_group = if args.last.is_null() { K::MAX } else { simt.load(args.last, group, Hint::ReadOnly) };
                bound = bound.max(of_group);
            }
            simt.store(args.bounds, piece, bound, Hint::Default);
        }
    }
}
