//! The leaves in the order of their keys: found level by level from the root, and then linked and ranked.

use crate::layout::{Head, NONE, Nodes, NodesMut};
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, kernel_args};

kernel_args! {
    /// Arguments of [`Counts`].
    pub struct CountsArgs {
        /// The tree's nodes.
        pub nodes: Nodes,
        /// Numbers of nodes: `[count]`.
        pub numbers: Global<u32>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the keys of each.
        pub counts: GlobalMut<u32>,
    }
}

/// Reads how many keys nodes have: a thread per node; any block.
#[derive(Debug)]
pub struct Counts;

impl Kernel for Counts {
    type Args = CountsArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: the place of a number, and the node.
            unsafe {
                let node = args.nodes.at(simt, simt.load(args.numbers, index, Hint::Streaming));
                simt.store(args.counts, index, node.head(simt, Head::Count), Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Children`].
    pub struct ChildrenArgs {
        /// The tree's nodes.
        pub nodes: Nodes,
        /// Numbers of inner nodes: `[count]`.
        pub numbers: Global<u32>,
        /// How many.
        pub count: u64,
        /// Where the children of each go: `[count + 1]`.
        pub offsets: Global<u64>,
        /// Out: their numbers.
        pub children: GlobalMut<u32>,
    }
}

/// Lists the children of nodes, in order: a thread per slot; any block.
#[derive(Debug)]
pub struct Children;

impl Kernel for Children {
    type Args = ChildrenArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let order = u64::from(args.nodes.node.order.max(1));
        let (index, slot) = (simt.global_index() / order, simt.global_index() % order);
        if index >= args.count {
            return;
        }
        // SAFETY: the place of a number, the node, and the place of its child.
        unsafe {
            let start = simt.load(args.offsets, index, Hint::ReadOnly);
            if slot < simt.load(args.offsets, index + 1, Hint::ReadOnly) - start {
                let node = args.nodes.at(simt, simt.load(args.numbers, index, Hint::ReadOnly));
                simt.store(
                    args.children,
                    start + slot,
                    simt.load(node.children(), slot, Hint::ReadOnly),
                    Hint::Default,
                );
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
        /// The rank of each leaf's first pair: `[count]`.
        pub ranks: Global<u64>,
        /// How many.
        pub count: u64,
    }
}

/// Tells each leaf its neighbours and its rank: a thread per leaf; any block.
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
        // SAFETY: the place of a leaf, and those beside it.
        unsafe {
            let leaf = args.nodes.at(simt, simt.load(args.leaves, index, Hint::ReadOnly));
            let has_next = index + 1 < args.count;
            let next = if has_next { simt.load(args.leaves, index + 1, Hint::ReadOnly) } else { NONE };
            let previous = if index > 0 { simt.load(args.leaves, index - 1, Hint::ReadOnly) } else { NONE };
            leaf.set(simt, Head::Next, next);
            leaf.set(simt, Head::Previous, previous);
            leaf.set_rank(simt, simt.load(args.ranks, index, Hint::ReadOnly));
        }
    }
}
