//! Ranks: the bounds of ranges and prefixes.

use crate::layout::Link;
use crate::order::{Path, compare, starts_with};
use crate::tree::TreeRef;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyRef, KeysRef, Simt, instance, kernel_args};

/// Which keys a bound counts as below it.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those below the query.
    Lower = 0,
    /// Those and the query itself.
    Upper = 1,
    /// Keys below the query, the query itself, and all keys that it is a prefix of.
    Prefix = 2,
    /// None, whatever the query is: an absent start.
    Start = 3,
    /// All, whatever the query is: an absent end.
    End = 4,
}

kernel_args! {
    /// Arguments of [`Rank`].
    pub struct RankArgs {
        /// The tree, all of whose leaves are on the device, and whose places tell ranks.
        pub tree: TreeRef,
        /// Queries: `[count]`.
        pub queries: KeysRef,
        /// The [`Side`] of each query: `[count]`; null for `side` everywhere.
        pub sides: Global<u32>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, `stride` words apart, the number of keys that each bound counts as below.
        pub ranks: GlobalMut<u64>,
        /// Words from one rank to the next.
        pub stride: u32,
        /// A [`Side`].
        pub side: u32,
    }
}

/// Ranks a batch of keys, one thread per key; any block.
#[derive(Debug)]
pub struct Rank;

impl Kernel for Rank {
    type Args = RankArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a query, and the tree is valid.
        unsafe {
            let side = if args.sides.is_null() { args.side } else { simt.load(args.sides, index, Hint::Streaming) };
            let rank = match side {
                _ if args.tree.len == 0 || side == Side::Start as u32 => 0,
                _ if side == Side::End as u32 => args.tree.len,
                _ => rank(simt, &args.tree, args.queries.at(simt, index), side),
            };
            simt.store(args.ranks, index * u64::from(args.stride), rank, Hint::Default);
        }
    }
}

/// Per thread. The number of keys that a bound counts as below it.
///
/// # Safety
/// The tree is valid and not empty.
#[inline(always)]
unsafe fn rank<S: Simt>(simt: S, tree: &TreeRef, query: KeyRef, side: u32) -> u64 {
    let (upper, prefix) = (side == Side::Upper as u32, side == Side::Prefix as u32);
    // SAFETY: the caller's promise.
    unsafe {
        let (mut link, mut from) = tree.start(simt, query.word(simt, 0), query.len(), Hint::ReadOnly);
        if link.is_none() {
            // No key begins like this: the upper nodes know what comes next.
            (link, from) = (Link::from_bits(tree.root), 0);
        }
        // Either everything under the link is below the bound, or nothing is.
        let below = loop {
            if !link.kind().is_node() {
                break is_below(simt, tree.leaf_key(simt, link), query, upper, prefix);
            }
            let depth = tree.depth(simt, link, from, Hint::ReadOnly);
            let path = if depth == from { Path::Along } else { tree.compare_path(simt, query, link, from, depth) };
            if path != Path::Along {
                break path == Path::Below;
            }
            if query.len() <= depth {
                // The query ends on the path to the node, or at it: all keys below the node are the query or begin with
                // it.
                let here =
                    if upper && query.len() == depth { tree.here(simt, link, Hint::ReadOnly) } else { Link::NONE };
                link = if here.is_none() { link } else { here };
                break prefix || !here.is_none();
            }
            let byte = query.byte(simt, depth);
            let (found, child) = tree.child_from(simt, link, byte);
            if child.is_none() {
                break true;
            }
            (link, from) = (child, depth + 1);
            if found != byte {
                break false;
            }
        };
        if below {
            tree.rank_of(simt, tree.last_leaf(simt, link)) + 1
        } else {
            tree.rank_of(simt, tree.first_leaf(simt, link))
        }
    }
}

/// Per thread. Whether a bound counts a leaf's key as below.
///
/// # Safety
/// Both are strings that can be read.
#[inline(always)]
unsafe fn is_below<S: Simt>(simt: S, key: KeyRef, query: KeyRef, upper: bool, prefix: bool) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let (below, equal) = compare(simt, key, query);
        below || equal && (upper || prefix) || prefix && starts_with(simt, key, query)
    }
}

instance!(cuart_range__rank, cuart_range, Rank);
