//! The descent with ballots.

use crate::ImplicitRef;
use crate::layout::words;
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, Simt, WARP, Word, kernel_args};

kernel_args! {
    /// Arguments of [`Descend`] and [`DescendShared`](crate::DescendShared).
    pub struct DescendArgs<K> {
        /// The inner levels.
        pub tree: ImplicitRef<K>,
        /// Queries: `[count]`, in the caller's form.
        pub queries: Global<K>,
        /// How many.
        pub count: u64,
        /// The level to start from; 0 is the root's.
        pub from: u32,
        /// The node of each query in that level: `[count]`; null if all start from node 0.
        pub nodes: Global<u32>,
        /// Out: `[count]`, the leaf of each query.
        pub leaves: GlobalMut<u32>,
    }
}

/// Queries of a group of lanes that descend side by side.
pub const IN_FLIGHT: usize = 2;

/// Finds the leaf of each query: a lane for each separator of a node (8 or 16 lanes per query), a thread per query in
/// all; any block of whole warps.
///
/// The search of a node is the paper's (section 5.3) with a ballot in place of flags in shared memory: the child's number
/// is the number of separators below the query.
#[derive(Debug)]
pub struct Descend<K>(PhantomData<K>);

impl<K: Word> Kernel for Descend<K> {
    type Args = DescendArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let width = const { words::<K>() };
        let (group, member) = (simt.lane() / width, simt.lane() % width);
        let index = simt.global_index();
        let (mut own, mut start) = (K::MIN, 0);
        if index < args.count {
            // SAFETY: the place of a query.
            unsafe {
                own = simt.load(args.queries, index, Hint::Streaming).xor(tree.flip);
                if !args.nodes.is_null() {
                    start = simt.load(args.nodes, index, Hint::Streaming);
                }
            }
        }
        let mut leaf = 0;
        let mut round = 0;
        while round < width {
            // The group's queries are its own lanes' queries.
            let source = |j: usize| group * width + round + j as u32;
            let keys: [K; IN_FLIGHT] = core::array::from_fn(|j| simt.shuffle(FULL_MASK, own, source(j)));
            let mut nodes: [u32; IN_FLIGHT] = core::array::from_fn(|j| simt.shuffle(FULL_MASK, start, source(j)));
            let mut level = args.from;
            while level < tree.height {
                // SAFETY: a level of the tree, and nodes of it; a node has a separator for each lane of the group.
                let separators: [K; IN_FLIGHT] = unsafe {
                    let first = simt.load(tree.levels, u64::from(level), Hint::ReadOnly);
                    core::array::from_fn(|j| {
                        let node = u64::from(first) + u64::from(nodes[j]);
                        simt.load(tree.separators, node * u64::from(width) + u64::from(member), Hint::ReadOnly)
                    })
                };
                for j in 0..IN_FLIGHT {
                    let below = simt.ballot(FULL_MASK, separators[j] < keys[j]);
                    let of_group = below >> (group * width) & (u32::MAX >> (WARP - width));
                    nodes[j] = nodes[j] * tree.fanout + of_group.count_ones();
                }
                level += 1;
            }
            for (j, &node) in nodes.iter().enumerate() {
                if member == round + j as u32 {
                    leaf = node;
                }
            }
            round += IN_FLIGHT as u32;
        }
        // The lanes have branched by this before the collectives.
        let index = simt.opaque(index);
        if index < args.count {
            // SAFETY: the place of a query.
            unsafe { simt.store(args.leaves, index, leaf, Hint::Streaming) };
        }
    }
}
