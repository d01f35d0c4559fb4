//! The nodes themselves.

use super::NodesArgs;
use super::key::{LeafKey, leaf_at};
use super::number::Node;
use crate::layout::{Link, LinkType, N4, N16, N48, N256};
use crate::tree::THREADS;
use core::mem::offset_of;
use lanetree_simt::{FULL_MASK, GlobalMut, Hint, Kernel, LaunchBounds, Simt, WARP, kernel_args, unroll};

kernel_args! {
    /// Arguments of [`Fill`].
    pub struct FillArgs {
        /// What is known of the nodes.
        pub nodes: NodesArgs,
        /// Out: the buffer of the kind.
        pub out: GlobalMut<u8>,
        /// Where the nodes of this type begin in the list.
        pub from: u64,
        /// How many they are.
        pub count: u64,
    }
}

/// The kind of nodes by its number.
const fn kind(number: u8) -> LinkType {
    match number {
        1 => LinkType::N4,
        2 => LinkType::N16,
        3 => LinkType::N48,
        _ => LinkType::N256,
    }
}

/// Lanes for a node of a kind.
pub const fn lanes(kind: LinkType) -> u32 {
    match kind {
        LinkType::N4 => 4,
        LinkType::N16 => 16,
        _ => WARP,
    }
}

/// Per thread. The byte and the link of a child.
///
/// # Safety
/// `index < node.count`, of a node of the tree, and all nodes have their places.
#[inline(always)]
unsafe fn child<S: Simt>(simt: S, args: &NodesArgs, node: &Node, index: u32) -> (u32, Link) {
    let place = index + u32::from(node.here);
    let first = place == 0;
    let minima = args.depths_of_boundaries();
    // SAFETY: a child lies after a boundary of the node, or before the leader; a child that is not a leaf is a node,
    // which was recorded there.
    unsafe {
        let (mut boundary, mut rank) = (node.leader, node.leader);
        if !first {
            boundary = simt.load(args.sorted.as_const(), u64::from(node.start + place - 1), Hint::ReadOnly);
            rank = boundary + 1;
        }
        let leaf = leaf_at(simt, &args.tree, rank);
        let byte = LeafKey::of(simt, &args.tree, leaf).byte(simt, node.depth);
        // The boundary on the other side of that key. If it is as shallow as the node, or missing, the child is just
        // this key.
        let (other, there_is) = if first { (rank.wrapping_sub(1), rank > 0) } else { (rank, rank < args.boundaries) };
        if !there_is || minima.get(simt, u64::from(other)) <= node.depth {
            return (byte, leaf);
        }
        let told = if first { args.left } else { args.right };
        let leader = simt.load(told.as_const(), u64::from(boundary), Hint::ReadOnly);
        let from = node.depth + 1;
        (byte, link_of(simt, args, leader, from))
    }
}

/// Per thread. The link to a node, followed after the first `from` bytes of its keys.
///
/// # Safety
/// The boundary leads a node, which is no less deep, and all nodes have their places.
#[inline(always)]
pub(super) unsafe fn link_of<S: Simt>(simt: S, args: &NodesArgs, leader: u32, from: u32) -> Link {
    // SAFETY: the caller's promise.
    unsafe {
        let number = simt.load(args.numbers.as_const(), u64::from(leader), Hint::ReadOnly);
        let link = simt.load(args.links.as_const(), u64::from(number), Hint::ReadOnly);
        let depth = args.depths_of_boundaries().get(simt, u64::from(leader));
        // It has no span yet.
        Link::from_bits(link | Link::new(LinkType::None, (depth - from) as usize, 0).bits())
    }
}

/// Fills the nodes of one type, [`lanes`] lanes per node; blocks of [`THREADS`].
#[derive(Debug)]
pub struct Fill<const KIND: u8>;

impl<const KIND: u8> Fill<KIND> {
    const LANES: u32 = lanes(kind(KIND));
    /// Children of a lane.
    const ROUNDS: usize = match kind(KIND) {
        LinkType::N4 | LinkType::N16 => 1,
        LinkType::N48 => 2,
        _ => 8,
    };
    const LINKS: u64 = (match kind(KIND) {
        LinkType::N4 => offset_of!(N4, links),
        LinkType::N16 => offset_of!(N16, links),
        LinkType::N48 => offset_of!(N48, links),
        _ => offset_of!(N256, links),
    }) as u64;
}

impl<const KIND: u8> Kernel for Fill<KIND> {
    type Args = FillArgs;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 4 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, all: &Self::Args) {
        let args = &all.nodes;
        let index = simt.global_index() / u64::from(Self::LANES);
        let lane = simt.lane() % Self::LANES;
        let at = all.out.byte_add(index * kind(KIND).stride());
        let links = at.byte_add(Self::LINKS).cast::<u64>();
        let there = index < all.count;
        let mut node = Node { start: 0, leader: 0, depth: 0, here: false, count: 0 };
        let (mut bytes, mut children) = ([0; 8], [Link::NONE; 8]);
        // SAFETY: a node of this type, and its children; slots after the last one repeat it.
        unsafe {
            if there {
                let number = simt.load(args.list.as_const(), all.from + index, Hint::ReadOnly);
                node = Node::get(simt, args, u64::from(number));
            }
            unroll::<8>(|round| {
                let slot = round as u32 * WARP + lane;
                if round < Self::ROUNDS && there && (slot < node.count || Self::ROUNDS == 1) {
                    let is_child = slot < node.count;
                    let (byte, link) = child(simt, args, &node, if is_child { slot } else { node.count - 1 });
                    (bytes[round], children[round]) = (byte, if is_child { link } else { Link::NONE });
                }
            });
        }
        let mut keys = 0;
        // SAFETY: all in the node, each by one lane; two stores to one word are ordered by a collective.
        unsafe {
            match kind(KIND) {
                LinkType::N4 | LinkType::N16 => {
                    // A word for each four lanes.
                    keys = bytes[0] << (lane % 4 * 8);
                    keys |= simt.shuffle_xor(FULL_MASK, keys, 1);
                    keys |= simt.shuffle_xor(FULL_MASK, keys, 2);
                    if there && Self::LANES == 16 && lane % 4 < 2 {
                        let to = at.byte_add(offset_of!(N16, keys) as u64).cast::<u32>();
                        // The four words of keys, and four zeros.
                        let word = if lane.is_multiple_of(4) { keys } else { 0 };
                        simt.store(to, u64::from(lane / 4 + lane % 4 * 4), word, Hint::Default);
                    }
                    if there {
                        simt.store(links, u64::from(lane), children[0].bits(), Hint::Default);
                    }
                }
                LinkType::N48 => {
                    // A lane has the slots of eight byte values. The warp has one node, so all lanes have its count.
                    let mut slots = 0_u64;
                    let mut slot = 0;
                    while slot < node.count {
                        let byte = simt.shuffle(FULL_MASK, if slot < WARP { bytes[0] } else { bytes[1] }, slot % WARP);
                        slot += 1;
                        if byte / 8 == lane {
                            slots |= u64::from(slot) << (byte % 8 * 8);
                        }
                    }
                    if there {
                        let to = at.byte_add(offset_of!(N48, slots) as u64).cast::<u64>();
                        simt.store(to, u64::from(lane), slots, Hint::Default);
                        simt.store(links, u64::from(lane), children[0].bits(), Hint::Default);
                        if lane < 48 - WARP {
                            simt.store(links, u64::from(WARP + lane), children[1].bits(), Hint::Default);
                        }
                    }
                }
                _ => {
                    if there {
                        unroll::<8>(|round| {
                            let byte = round as u32 * WARP + lane;
                            simt.store(links, u64::from(byte), Link::NONE.bits(), Hint::Default);
                        });
                    }
                    simt.sync_warp(FULL_MASK);
                    unroll::<8>(|round| {
                        if !children[round].is_none() {
                            simt.store(links, u64::from(bytes[round]), children[round].bits(), Hint::Default);
                        }
                    });
                }
            }
            if there && lane == 0 {
                let leaf = leaf_at(simt, &args.tree, node.leader);
                let here = if node.here { leaf } else { Link::NONE };
                let key = LeafKey::of(simt, &args.tree, leaf);
                let last = key.bytes_before(simt, node.depth);
                let before = if node.depth > 4 { key.bytes_before(simt, node.depth - 4) } else { 0 };
                let keys4 = if KIND == LinkType::N4 as u8 { u64::from(keys) << 32 } else { 0 };
                let header = at.cast::<u64>();
                let sizes = u64::from(node.depth) | u64::from(node.count) << 32;
                simt.store_vector(header, 0, [here.bits(), sizes], Hint::Default);
                simt.store_vector(header, 2, [before, last >> 32 | keys4], Hint::Default);
            }
        }
    }
}
