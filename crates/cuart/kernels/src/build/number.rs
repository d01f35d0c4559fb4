//! Numbers of nodes, and their positions in the buffers of their types.
//!
//! Each takes two steps; in between, the host has the blocks' counts summed up.

use super::key::LeafKey;
use super::{NodesArgs, block_rank, findings, rank_shared};
use crate::layout::{Link, LinkType};
use lanetree_simt::{Hint, Kernel, LaunchBounds, Simt, WARP};

use crate::tree::THREADS;

/// Kinds of nodes.
pub const KINDS: usize = 4;

const BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 8 });

/// Numbers nodes in the order of `sorted`, one thread per boundary there; blocks of [`THREADS`]. Without `LIST` it
/// counts the nodes of each block; with `LIST` it writes `starts` and `numbers`.
#[derive(Debug)]
pub struct Number<const LIST: bool>;

impl<const LIST: bool> Kernel for Number<LIST> {
    type Args = NodesArgs;
    const STATIC_SHARED: u32 = rank_shared(1);
    const LAUNCH_BOUNDS: Option<LaunchBounds> = BOUNDS;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (position, block) = (simt.global_index(), u64::from(simt.block_index()));
        let (mut bit, mut boundary) = (0, 0);
        if position < u64::from(args.boundaries) {
            // SAFETY: a boundary, and the word with its bit.
            unsafe {
                boundary = simt.load(args.sorted.as_const(), position, Hint::ReadOnly);
                let word = simt.load(args.leaders.as_const(), u64::from(boundary / WARP), Hint::ReadOnly);
                bit = word >> (boundary % WARP) & 1;
            }
        }
        let leads = simt.opaque(bit) != 0;
        let (rank, count) = block_rank::<S, 1>(simt, usize::from(!leads));
        // SAFETY: a count for each block; a node for each leader, and one more start.
        unsafe {
            if !LIST {
                if simt.thread_index() == 0 {
                    simt.store(args.tile_counts, block, count, Hint::Default);
                }
                return;
            }
            if leads {
                let number = simt.load(args.tile_offsets.as_const(), block, Hint::ReadOnly) as u32 + rank;
                simt.store(args.starts, u64::from(number), position as u32, Hint::Default);
                simt.store(args.numbers, u64::from(boundary), number, Hint::Default);
            }
            if position == 0 {
                simt.store(args.starts, u64::from(args.nodes), args.boundaries, Hint::Default);
            }
        }
    }
}

/// A node by its number.
#[derive(Clone, Copy)]
pub(super) struct Node {
    /// Where its boundaries begin in `sorted`.
    pub(super) start: u32,
    /// The first of them.
    pub(super) leader: u32,
    pub(super) depth: u32,
    /// Whether a key ends at it.
    pub(super) here: bool,
    /// Children.
    pub(super) count: u32,
}

impl Node {
    /// Per thread.
    ///
    /// # Safety
    /// There is such a node, and nodes are numbered.
    #[inline(always)]
    pub(super) unsafe fn get<S: Simt>(simt: S, args: &NodesArgs, number: u64) -> Self {
        // SAFETY: a node has at least one boundary, and that lies after a key.
        unsafe {
            let start = simt.load(args.starts.as_const(), number, Hint::ReadOnly);
            let end = simt.load(args.starts.as_const(), number + 1, Hint::ReadOnly);
            let leader = simt.load(args.sorted.as_const(), u64::from(start), Hint::ReadOnly);
            let depth = simt.load(args.depths.as_const(), u64::from(start), Hint::ReadOnly);
            // The key before the leader is the last one of the first child. If its length is the node's depth, it is
            // that child's only key. Among keys of one length, no key ends at a node.
            let here = args.tree.first == 0 && LeafKey::at(simt, &args.tree, leader).len == depth;
            Self { start, leader, depth, here, count: end - start + u32::from(!here) }
        }
    }
}

/// Gives nodes their positions, one thread per node; blocks of [`THREADS`]. Without `LIST` it counts the nodes of each
/// type in each block; the counts of a type follow the counts of the previous type. With `LIST` it writes `links` and
/// `list`, and writes the root and the number of nodes of each type to the findings.
#[derive(Debug)]
pub struct Place<const LIST: bool>;

impl<const LIST: bool> Kernel for Place<LIST> {
    type Args = NodesArgs;
    const STATIC_SHARED: u32 = rank_shared(KINDS as u32);
    const LAUNCH_BOUNDS: Option<LaunchBounds> = BOUNDS;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (number, thread) = (simt.global_index(), u64::from(simt.thread_index()));
        let (block, blocks) = (u64::from(simt.block_index()), u64::from(simt.grid_dim()));
        let (mut class, mut depth) = (KINDS as u32, 0);
        if number < u64::from(args.nodes) {
            // SAFETY: a node.
            let node = unsafe { Node::get(simt, args, number) };
            class = LinkType::of_children(node.count as usize) as u32 - LinkType::N4 as u32;
            depth = node.depth;
        }
        let class = simt.opaque(class) as usize;
        let (rank, count) = block_rank::<S, KINDS>(simt, class);
        if !LIST {
            if thread < KINDS as u64 {
                // SAFETY: a count for each block and kind.
                unsafe { simt.store(args.tile_counts, thread * blocks + block, count, Hint::Default) };
            }
            return;
        }
        // SAFETY: as above; one offset more than counts; each node has its place in the list.
        unsafe {
            let before =
                |kind: u64, block: u64| simt.load(args.tile_offsets.as_const(), kind * blocks + block, Hint::ReadOnly);
            if class < KINDS {
                let place = before(class as u64, block) + u64::from(rank);
                let kind = match class {
                    0 => LinkType::N4,
                    1 => LinkType::N16,
                    2 => LinkType::N48,
                    _ => LinkType::N256,
                };
                let index = place - before(class as u64, 0);
                simt.store(args.links, number, Link::new(kind, 0, index).bits(), Hint::Default);
                simt.store(args.list, place, number as u32, Hint::Default);
                if number == 0 {
                    let root = Link::new(kind, depth as usize, index).bits();
                    simt.store(args.findings, findings::ROOT, root, Hint::Default);
                }
            }
            if block == 0 && thread < KINDS as u64 {
                let nodes = before(thread + 1, 0) - before(thread, 0);
                simt.store(args.findings, findings::KINDS + thread, nodes, Hint::Default);
            }
        }
    }
}
