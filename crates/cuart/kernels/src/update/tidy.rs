//! Sorting the children of nodes to which children were added.

use super::TreeMut;
use super::lock::{COUNT_MASK, OBSOLETE};
use crate::layout::{Header, Link, LinkType, N4, N16};
use core::mem::offset_of;
use lanetree_simt::{Global, Hint, Kernel, Simt, instance, kernel_args, unroll};

kernel_args! {
    /// Arguments of [`Tidy`].
    pub struct TidyArgs {
        /// The tree.
        pub tree: TreeMut,
        /// Links of nodes of up to 16 children, each node once, and zeros: `[count]`.
        pub touched: Global<u64>,
        /// How many.
        pub count: u64,
    }
}

/// Sorts the children of nodes by their bytes, one thread per entry; any block.
#[derive(Debug)]
pub struct Tidy;

impl Kernel for Tidy {
    type Args = TidyArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: the nodes are the tree's, and each is this thread's alone.
        unsafe {
            let node = Link::from_bits(simt.load(args.touched, index, Hint::Streaming));
            if node.kind() == LinkType::N4 {
                order::<S, 4>(simt, &args.tree, node, offset_of!(Header, keys4), offset_of!(N4, links));
            } else if node.kind() == LinkType::N16 {
                order::<S, 16>(simt, &args.tree, node, offset_of!(N16, keys), offset_of!(N16, links));
            }
        }
    }
}

/// Per thread. Orders the children of a node of `N` slots, whose keys and links begin at these bytes.
///
/// # Safety
/// Such a node of the tree, and no other thread accesses it.
#[inline(always)]
unsafe fn order<S: Simt, const N: usize>(simt: S, tree: &TreeMut, node: Link, keys: usize, links: usize) {
    let at = tree.address(node);
    let word_at = at.byte_add(offset_of!(Header, count) as u64).cast::<u32>();
    let (keys_at, links_at) = (at.byte_add(keys as u64).cast::<u32>(), at.byte_add(links as u64).cast::<u64>());
    // SAFETY: the words lie in the node.
    unsafe {
        let word = simt.load(word_at.as_const(), 0, Hint::Default);
        if word & OBSOLETE != 0 {
            return;
        }
        let count = word & COUNT_MASK;
        simt.store(word_at, 0, count, Hint::Default);
        let mut key_of = [0_u32; N];
        let mut link_of = [0_u64; N];
        unroll::<N>(|slot| {
            let keys = simt.load(keys_at.as_const(), slot as u64 / 4, Hint::Default);
            key_of[slot] = keys >> (8 * (slot % 4)) & 0xff;
            link_of[slot] = simt.load(links_at.as_const(), slot as u64, Hint::Default);
        });
        // A child's position is the number of smaller bytes; slots without a child repeat the largest byte.
        let mut ordered = [0_u32; 4];
        let mut largest = 0;
        unroll::<N>(|slot| {
            if (slot as u32) < count {
                largest = if key_of[slot] > largest { key_of[slot] } else { largest };
            }
        });
        unroll::<N>(|slot| {
            let mut place = slot as u32;
            let mut key = largest;
            if (slot as u32) < count {
                (place, key) = (0, key_of[slot]);
                unroll::<N>(|other| place += u32::from((other as u32) < count && key_of[other] < key));
                simt.store(links_at, u64::from(place), link_of[slot], Hint::Default);
            }
            unroll::<4>(|word| ordered[word] |= if place / 4 == word as u32 { key << (8 * (place % 4)) } else { 0 });
        });
        unroll::<4>(|word| {
            if word < N / 4 {
                simt.store(keys_at, word as u64, ordered[word], Hint::Default);
            }
        });
    }
}

instance!(cuart_update__tidy, cuart_update, Tidy);
