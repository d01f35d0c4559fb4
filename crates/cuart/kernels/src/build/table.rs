//! The root table.

use super::NodesArgs;
use super::fill::link_of;
use super::intervals::Sides;
use super::key::{LeafKey, leaf_at};
use super::minima::NONE;
use lanetree_simt::{GlobalMut, Hint, Kernel, Simt, kernel_args};

kernel_args! {
    /// Arguments of [`Table`].
    pub struct TableArgs {
        /// The nodes; for a tree of one leaf nothing but that leaf is needed.
        pub nodes: NodesArgs,
        /// Out: one entry per prefix, zeroed before.
        pub table: GlobalMut<u64>,
        /// 2 or 3.
        pub bytes: u32,
        #[doc(hidden)]
        pub padding: u32,
    }
}

/// Fills the root table: one thread per key; the first key of each prefix writes the entry; any block.
#[derive(Debug)]
pub struct Table;

impl Kernel for Table {
    type Args = TableArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, all: &Self::Args) {
        let args = &all.nodes;
        if simt.global_index() > u64::from(args.boundaries) {
            return;
        }
        let (rank, minima) = (simt.global_index() as u32, args.depths_of_boundaries());
        // SAFETY: the key of a rank, and the boundaries on its sides where there are any; a prefix of a key that is
        // long enough has an entry, and one thread.
        unsafe {
            if rank > 0 && minima.get(simt, u64::from(rank - 1)) >= all.bytes {
                return;
            }
            let leaf = leaf_at(simt, &args.tree, rank);
            let key = LeafKey::of(simt, &args.tree, leaf);
            if key.len < all.bytes {
                return;
            }
            let mut entry = leaf;
            if rank < args.boundaries && minima.get(simt, u64::from(rank)) >= all.bytes {
                // The node of all keys with this prefix.
                let before = rank.checked_sub(1).unwrap_or(NONE);
                let sides = Sides { before, after: minima.after(simt, rank, all.bytes) };
                let leader = if sides.is_first(simt, minima) {
                    simt.load(args.left.as_const(), u64::from(sides.after), Hint::ReadOnly)
                } else if before != NONE {
                    simt.load(args.right.as_const(), u64::from(before), Hint::ReadOnly)
                } else {
                    // All keys do: it is the topmost, whose boundaries are the shallowest.
                    simt.load(args.sorted.as_const(), 0, Hint::ReadOnly)
                };
                entry = link_of(simt, args, leader, all.bytes);
            }
            let index = key.head(simt).swap_bytes() >> (64 - 8 * all.bytes);
            simt.store(all.table, index, entry.bits(), Hint::Default);
        }
    }
}
