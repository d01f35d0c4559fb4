//! Compaction: the leaves of a tree after inserts and removals, put in the order of their keys, without what removals
//! have left.
//!
//! They are found level by level. A *front* is a sequence of links in the order of the keys below them, at first only
//! the root's. Each pass replaces nodes by their children ([`Spread`]): it first counts them, and then, once the host
//! has the counts summed up, writes the links. A leaf stays, and an empty link is dropped, so in the end the front has
//! all leaves. These are then counted by type and copied to the positions given by their ranks ([`Sift`], [`Move`]).

use crate::build::{block_rank, rank_shared};
use crate::get::value_word;
use crate::layout::{Link, LinkType, N4, N16, UNIT};
use crate::tree::{THREADS, TreeRef};
use core::mem::offset_of;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, LaunchBounds, Order, Scope, Simt, WARP, instance, kernel_args,
};

kernel_args! {
    /// Arguments of [`Spread`].
    pub struct SpreadArgs {
        /// The tree, which nobody changes.
        pub tree: TreeRef,
        /// The front: `[count]`.
        pub front: Global<u64>,
        /// How many links it has.
        pub count: u64,
        /// Out of `Spread<false>`: `[count]`, the number of links that replace each link.
        pub counts: GlobalMut<u32>,
        /// For `Spread<true>`: `[count]`, their sums before each.
        pub offsets: Global<u64>,
        /// Out of `Spread<true>`: the next front.
        pub next: GlobalMut<u64>,
        /// Out of `Spread<true>`, 0 before: the number of links to nodes in it.
        pub nodes: GlobalMut<u64>,
    }
}

/// Replaces nodes in a front by their children, one thread per link; blocks of [`THREADS`]. Nodes of more than 16
/// children are processed by a whole warp, one after another. Without `WRITE` it only counts.
#[derive(Debug)]
pub struct Spread<const WRITE: bool>;

impl<const WRITE: bool> Kernel for Spread<WRITE> {
    type Args = SpreadArgs;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 4 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (index, tree) = (simt.global_index(), &args.tree);
        let there = index < args.count;
        let (mut link, mut to) = (Link::NONE, 0);
        // SAFETY: `index` is a link of the front, with an offset and a count; links lead to nodes and leaves of the
        // tree. The next front has a place for each child that is counted.
        unsafe {
            if there {
                link = Link::from_bits(simt.load(args.front, index, Hint::ReadOnly));
                if WRITE {
                    to = simt.load(args.offsets, index, Hint::ReadOnly);
                }
            }
            let kind = link.kind();
            let is_wide = kind as u32 == LinkType::N48 as u32 || kind as u32 == LinkType::N256 as u32;
            let (mut count, mut nodes) = (0_u32, 0);
            let mut put = |child: Link| {
                if child.is_none() {
                    return;
                }
                if WRITE {
                    simt.store(args.next, to + u64::from(count), child.bits(), Hint::Default);
                    nodes += u32::from(child.kind().is_node());
                }
                count += 1;
            };
            if !kind.is_node() {
                put(link);
            } else if !is_wide {
                put(tree.here(simt, link, Hint::ReadOnly));
                let (links, pairs) = if kind as u32 == LinkType::N4 as u32 {
                    (offset_of!(N4, links), 2)
                } else {
                    (offset_of!(N16, links), 8)
                };
                let links = tree.address(link).byte_add(links as u64).cast::<u64>();
                let mut pair = 0;
                while pair < pairs {
                    let children = simt.load_vector(links, 2 * pair, Hint::ReadOnly);
                    put(Link::from_bits(children[0]));
                    put(Link::from_bits(children[1]));
                    pair += 1;
                }
            }
            let mut wide = simt.ballot(FULL_MASK, is_wide);
            while wide != 0 {
                let owner = wide.trailing_zeros();
                wide &= wide - 1;
                let node = Link::from_bits(simt.shuffle(FULL_MASK, link.bits(), owner));
                let at = simt.shuffle(FULL_MASK, to, owner);
                let here = tree.here(simt, node, Hint::ReadOnly);
                let mut before = u32::from(!here.is_none());
                if WRITE && !here.is_none() && simt.lane() == 0 {
                    simt.store(args.next, at, here.bits(), Hint::Default);
                }
                let mut first = 0;
                while first < 256 {
                    let child = tree.child(simt, node, first + simt.lane(), Hint::ReadOnly);
                    let present = simt.ballot(FULL_MASK, !child.is_none());
                    if WRITE && !child.is_none() {
                        let place = before + (present & simt.lanes_below()).count_ones();
                        simt.store(args.next, at + u64::from(place), child.bits(), Hint::Default);
                        nodes += u32::from(child.kind().is_node());
                    }
                    before += present.count_ones();
                    first += WARP;
                }
                count = if simt.lane() == owner { before } else { count };
            }
            if !WRITE {
                if there {
                    simt.store(args.counts, index, count, Hint::Default);
                }
                return;
            }
            let nodes = simt.reduce_add(FULL_MASK, nodes);
            if nodes > 0 && simt.lane() == 0 {
                simt.atomic_add(args.nodes, 0, u64::from(nodes), Order::Relaxed, Scope::Device);
            }
        }
    }
}

/// The number of kinds of leaves on a device: of 8, 16 and 32 bytes, and long ones.
pub const KINDS: usize = 4;

kernel_args! {
    /// Arguments of [`Sift`] and [`Move`].
    pub struct MoveArgs {
        /// The tree as it is, without leaves in main memory.
        pub tree: TreeRef,
        /// The links of its leaves in the order of their keys: `[count]`.
        pub leaves: Global<u64>,
        /// How many.
        pub count: u64,
        /// How many leaves of each type are in each block; the counts of a type follow the counts of the previous type.
        pub tile_counts: GlobalMut<u32>,
        /// The sums before each.
        pub tile_offsets: Global<u64>,
        /// `[count]`: the units of dynamically sized ones, 0 of others; null if there are none such.
        pub units: GlobalMut<u32>,
        /// The sums before each.
        pub unit_offsets: Global<u64>,
        /// Out of [`Sift`]: the smallest and the largest of the links' spans, from the largest word and 0.
        pub spans: GlobalMut<u64>,
        /// Out of [`Move`]: leaves of each kind.
        pub moved: [GlobalMut<u64>; KINDS],
        /// Out of [`Move`]: ranks of leaves of 8; null if not wanted.
        pub ranks8: GlobalMut<u64>,
        /// Out of [`Move`]: links by rank; null if not wanted.
        pub order: GlobalMut<u64>,
        /// The bits of values.
        pub value_mask: u64,
    }
}

/// Per thread. A leaf's link, or none past the last one, and its type's number.
///
/// # Safety
/// The arguments are as their fields say.
#[inline(always)]
unsafe fn leaf<S: Simt>(simt: S, args: &MoveArgs, rank: u64) -> (Link, usize) {
    if rank >= args.count {
        return (Link::NONE, KINDS);
    }
    // SAFETY: `rank` is a leaf.
    let link = Link::from_bits(unsafe { simt.load(args.leaves, rank, Hint::ReadOnly) });
    (link, (link.bits() >> 60) as usize - LinkType::Leaf8 as usize)
}

/// Counts leaves by type, and the units of dynamically sized ones, and reports whether all keys have one length: one
/// thread per leaf; blocks of [`THREADS`].
#[derive(Debug)]
pub struct Sift;

impl Kernel for Sift {
    type Args = MoveArgs;
    const STATIC_SHARED: u32 = rank_shared(KINDS as u32);
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 6 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (rank, thread) = (simt.global_index(), u64::from(simt.thread_index()));
        // SAFETY: the arguments are as their fields say.
        let (link, class) = unsafe { leaf(simt, args, rank) };
        let (link, class) = (Link::from_bits(simt.opaque(link.bits())), simt.opaque(class as u32) as usize);
        let (_, count) = block_rank::<S, KINDS>(simt, class);
        let there = !link.is_none();
        let shortest = simt.reduce_min(FULL_MASK, if there { link.span() } else { u32::MAX });
        let longest = simt.reduce_max(FULL_MASK, link.span());
        // SAFETY: a count for each block and kind, units for each leaf; the spans are accessed atomically only.
        unsafe {
            if thread < KINDS as u64 {
                let place = thread * u64::from(simt.grid_dim()) + u64::from(simt.block_index());
                simt.store(args.tile_counts, place, count, Hint::Default);
            }
            if there && !args.units.is_null() {
                let mut units = 0;
                if class == KINDS - 1 {
                    let leaf = args.tree.address(link).cast::<u64>();
                    let len = simt.load(leaf, 1, Hint::ReadOnly);
                    units = ((HEADER + len).div_ceil(UNIT as u64)) as u32;
                }
                simt.store(args.units, rank, units, Hint::Default);
            }
            if simt.lane() == 0 && there {
                let (order, scope) = (Order::Relaxed, Scope::Device);
                simt.atomic_min(args.spans, 0, u64::from(shortest), order, scope);
                simt.atomic_max(args.spans, 1, u64::from(longest), order, scope);
            }
        }
    }
}

/// Bytes of a device leaf before its key.
const HEADER: u64 = 24;

/// Copies leaves to their new positions, one thread per leaf; blocks of [`THREADS`].
#[derive(Debug)]
pub struct Move;

impl Kernel for Move {
    type Args = MoveArgs;
    const STATIC_SHARED: u32 = rank_shared(KINDS as u32);
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 4 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let rank = simt.global_index();
        // SAFETY: the arguments are as their fields say.
        let (link, class) = unsafe { leaf(simt, args, rank) };
        let (link, class) = (Link::from_bits(simt.opaque(link.bits())), simt.opaque(class as u32) as usize);
        let (place, _) = block_rank::<S, KINDS>(simt, class);
        if link.is_none() {
            return;
        }
        let kind = link.kind();
        let is_sized = class == KINDS - 1;
        // SAFETY: a leaf of the tree, and its place among the new ones: each is one thread's. All have their words
        // in pairs, on 16-byte boundaries.
        unsafe {
            let index = if is_sized {
                simt.load(args.unit_offsets, rank, Hint::ReadOnly)
            } else {
                let before = class as u64 * u64::from(simt.grid_dim());
                let own = simt.load(args.tile_offsets, before + u64::from(simt.block_index()), Hint::ReadOnly);
                own - simt.load(args.tile_offsets, before, Hint::ReadOnly) + u64::from(place)
            };
            let moved = match class {
                0 => args.moved[0],
                1 => args.moved[1],
                2 => args.moved[2],
                _ => args.moved[3],
            };
            let from = args.tree.address(link).cast::<u64>();
            let to = moved.byte_add(index * kind.stride());
            let value = value_word(kind);
            let (mut pairs, rank_word) = match class {
                // Its rank is stored with it.
                0 => (1, u64::MAX),
                1 => (2, value + 1),
                2 => (4, value + 1),
                _ => (2, 2),
            };
            let mut pair = 0;
            while pair < pairs {
                let mut words = simt.load_vector(from, 2 * pair, Hint::ReadOnly);
                if is_sized && pair == 0 {
                    pairs = (HEADER + words[1]).div_ceil(UNIT as u64);
                }
                for (half, word) in words.iter_mut().enumerate() {
                    let number = 2 * pair + half as u64;
                    *word = if number == value { *word & args.value_mask } else { *word };
                    *word = if number == rank_word { rank } else { *word };
                }
                simt.store_vector(to, 2 * pair, words, Hint::Default);
                pair += 1;
            }
            if class == 0 && !args.ranks8.is_null() {
                simt.store(args.ranks8, index, rank, Hint::Default);
            }
            if !args.order.is_null() {
                let link = Link::from_bits(link.bits() & !Link::MAX_INDEX).offset(index);
                simt.store(args.order, rank, link.bits(), Hint::Default);
            }
        }
    }
}

instance!(cuart_compact__count, cuart_compact, Spread<false>);
instance!(cuart_compact__spread, cuart_compact, Spread<true>);
instance!(cuart_compact__sift, cuart_compact, Sift);
instance!(cuart_compact__move, cuart_compact, Move);
