//! The leaves in the order of their keys, and their ranks: for a build, and after leaves were split or merged.

use crate::batch::TouchedNodes;
use crate::layout::{Head, NONE, Nodes, NodesMut};
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, kernel_args};

kernel_args! {
    /// Arguments of [`First`].
    pub struct FirstArgs {
        /// Leaves, numbered from 0 in the order of their keys.
        pub count: u64,
        /// Pairs, which are spread evenly over them.
        pub len: u64,
        /// Out: `[count]`.
        pub leaves: GlobalMut<u32>,
        /// Out: `[count + 1]`.
        pub ranks: GlobalMut<u64>,
        /// Out: `[count]`.
        pub positions: GlobalMut<u32>,
    }
}

/// The order of the leaves of a build: a thread per leaf, and one more; any block.
#[derive(Debug)]
pub struct First;

impl Kernel for First {
    type Args = FirstArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index > args.count {
            return;
        }
        let (least, more) = (args.len / args.count.max(1), args.len % args.count.max(1));
        // SAFETY: the place of a leaf, or one past the last.
        unsafe {
            simt.store(args.ranks, index, index * least + index.min(more), Hint::Default);
            if index < args.count {
                let number = index as u32;
                simt.store(args.leaves, index, number, Hint::Default);
                simt.store(args.positions, index, number, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Grow`].
    pub struct GrowArgs {
        /// Leaves that are split.
        pub touched: TouchedNodes,
        /// Positions, by number.
        pub positions: Global<u32>,
        /// Out: by position, the leaves that come behind it. In: zeros.
        pub grown: GlobalMut<u64>,
    }
}

/// Says how many new leaves come behind each one: a thread per touched leaf; any block.
#[derive(Debug)]
pub struct Grow;

impl Kernel for Grow {
    type Args = GrowArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (index, touched) = (simt.global_index(), &args.touched);
        if index < touched.count {
            // SAFETY: a touched leaf, and its position.
            unsafe {
                let number = simt.load(touched.numbers, index, Hint::ReadOnly);
                let position = simt.load(args.positions, u64::from(number), Hint::ReadOnly);
                let taken = u64::from(touched.pieces(simt, index) - 1);
                simt.store(args.grown, u64::from(position), taken, Hint::Default);
            }
        }
    }
}

/// What [`ReorderArgs::grown`] says of a leaf that is gone: one less.
pub(crate) const GONE: u64 = u64::MAX;

kernel_args! {
    /// Arguments of [`Vanish`].
    pub struct VanishArgs {
        /// Numbers of leaves that are gone: `[count]`.
        pub numbers: Global<u32>,
        /// How many.
        pub count: u64,
        /// Positions, by number.
        pub positions: Global<u32>,
        /// Out: by position, [`GONE`]. In: zeros.
        pub grown: GlobalMut<u64>,
    }
}

/// Says which leaves are gone: a thread per leaf; any block.
#[derive(Debug)]
pub struct Vanish;

impl Kernel for Vanish {
    type Args = VanishArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: a leaf, and its position.
            unsafe {
                let number = simt.load(args.numbers, index, Hint::ReadOnly);
                let position = simt.load(args.positions, u64::from(number), Hint::ReadOnly);
                simt.store(args.grown, u64::from(position), GONE, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Reorder`].
    pub struct ReorderArgs {
        /// The leaves as they were: `[count]`.
        pub leaves: Global<u32>,
        /// Their ranks as they were: `[count + 1]`.
        pub ranks: Global<u64>,
        /// How many.
        pub count: u64,
        /// How many leaves come behind each one, or [`GONE`]: `[count]`. Null if there are none.
        pub grown: Global<u64>,
        /// The sums of those before each: `[count + 1]`, modulo 2^64. Null where `grown` is.
        pub before: Global<u64>,
        /// Out: the leaves in their new order; not written without `grown`.
        pub new_leaves: GlobalMut<u32>,
        /// Out: the positions of these leaves; not written without `grown`.
        pub positions: GlobalMut<u32>,
        /// Out: by new position, how many pairs each leaf had.
        pub lens: GlobalMut<u32>,
    }
}

/// Moves leaves to their new positions: a thread per leaf; any block.
#[derive(Debug)]
pub struct Reorder;

impl Kernel for Reorder {
    type Args = ReorderArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: the place of a leaf, and its new one.
        unsafe {
            let [start, end] = [index, index + 1].map(|at| simt.load(args.ranks, at, Hint::Streaming));
            let mut at = index;
            if !args.grown.is_null() {
                if simt.load(args.grown, index, Hint::Streaming) == GONE {
                    return;
                }
                at = index.wrapping_add(simt.load(args.before, index, Hint::Streaming));
                let number = simt.load(args.leaves, index, Hint::Streaming);
                simt.store(args.new_leaves, at, number, Hint::Default);
                simt.store(args.positions, u64::from(number), at as u32, Hint::Default);
            }
            simt.store(args.lens, at, (end - start) as u32, Hint::Default);
        }
    }
}

kernel_args! {
    /// Arguments of [`Pieces`].
    pub struct PiecesArgs {
        /// Leaves that were changed.
        pub touched: TouchedNodes,
        /// New leaves.
        pub taken: u64,
        /// Out: the leaves in their new order.
        pub leaves: GlobalMut<u32>,
        /// Positions of leaves, by number. Out: the positions of the new leaves.
        pub positions: GlobalMut<u32>,
        /// Out: by position, how many pairs these leaves have.
        pub lens: GlobalMut<u32>,
    }
}

/// Puts new leaves behind those that were split, and says how many pairs changed leaves have: a thread per leaf, the new ones
/// last; any block.
#[derive(Debug)]
pub struct Pieces;

impl Kernel for Pieces {
    type Args = PiecesArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (index, touched) = (simt.global_index(), &args.touched);
        if index >= touched.count + args.taken {
            return;
        }
        // SAFETY: a touched leaf or a new one, and their positions.
        unsafe {
            let (node, piece) = touched.piece_of(simt, index);
            let number = simt.load(touched.numbers, node, Hint::ReadOnly);
            let position = simt.load(args.positions.as_const(), u64::from(number), Hint::Default);
            let at = u64::from(position) + u64::from(piece);
            if piece > 0 {
                let number = touched.number(simt, node, piece);
                simt.store(args.leaves, at, number, Hint::Default);
                simt.store(args.positions, u64::from(number), at as u32, Hint::Default);
            }
            simt.store(args.lens, at, touched.split(simt, node).len(piece), Hint::Default);
        }
    }
}

kernel_args! {
    /// Arguments of [`Lens`].
    pub struct LensArgs {
        /// The tree's nodes.
        pub nodes: Nodes,
        /// Numbers of leaves: `[count]`.
        pub numbers: Global<u32>,
        /// How many.
        pub count: u64,
        /// Their positions, by number.
        pub positions: Global<u32>,
        /// Out: by position, how many pairs these leaves have.
        pub lens: GlobalMut<u32>,
    }
}

/// Reads how many pairs leaves have: a thread per leaf; any block.
#[derive(Debug)]
pub struct Lens;

impl Kernel for Lens {
    type Args = LensArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: a leaf, and its position.
            unsafe {
                let number = simt.load(args.numbers, index, Hint::ReadOnly);
                let position = simt.load(args.positions, u64::from(number), Hint::ReadOnly);
                let count = args.nodes.at(simt, number).head(simt, Head::Count);
                simt.store(args.lens, u64::from(position), count, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Link`].
    pub struct LinkArgs {
        /// The tree's nodes.
        pub nodes: NodesMut,
        /// The leaves in the order of their keys: `[count]`.
        pub leaves: Global<u32>,
        /// How many.
        pub count: u64,
    }
}

/// Tells each leaf its next one: a thread per leaf; any block.
#[derive(Debug)]
pub struct Link;

impl Kernel for Link {
    type Args = LinkArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: the place of a leaf, and that of the next.
        unsafe {
            let leaf = args.nodes.at(simt, simt.load(args.leaves, index, Hint::ReadOnly));
            let has_next = index + 1 < args.count;
            let next = if has_next { simt.load(args.leaves, index + 1, Hint::ReadOnly) } else { NONE };
            if leaf.get(simt, Head::Next) != next {
                leaf.set(simt, Head::Next, next);
            }
        }
    }
}
