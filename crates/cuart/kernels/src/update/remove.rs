//! Removals (section 3.3 of the paper): the link to the leaf is removed, and the leaf is cleared and can be reused;
//! nodes are not.

use super::TreeMut;
use super::slot::{Edge, entry_index, follow, root_edge};
use crate::layout::{Header, Link, LinkType};
use core::mem::offset_of;
use lanetree_simt::{GlobalMut, Hint, Kernel, KeyRef, KeysRef, Order, Scope, Simt, instance, kernel_args};

kernel_args! {
    /// Arguments of [`Remove`].
    pub struct RemoveArgs {
        /// The tree, without leaves in main memory.
        pub tree: TreeMut,
        /// The root's link: `[1]`.
        pub root: GlobalMut<u64>,
        /// The keys to remove: `[count]`.
        pub queries: KeysRef,
        /// How many.
        pub count: u64,
        /// In and out: free leaves of each fixed size, from leaves of 8 on: each list has room for `count` more indexes
        /// after its first `free_len`.
        pub free: [GlobalMut<u64>; 3],
        /// How many there are before.
        pub free_len: [u64; 3],
        /// Counters, zeroed before: of removed leaves, from leaves of 8 on, and of dynamically sized ones, which are
        /// not reused.
        pub removed: GlobalMut<u64>,
    }
}

/// Removes keys, one thread per key; any block. Of several operations on one key, one removes it.
#[derive(Debug)]
pub struct Remove;

impl Kernel for Remove {
    type Args = RemoveArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is a query, and the tree is valid; its counters and lists are as they should be.
            unsafe { remove(simt, args, args.queries.at(simt, index)) };
        }
    }
}

/// Per thread. Removes a key, if it is there and no other thread removes it.
///
/// # Safety
/// The tree is valid, and the arguments are as [`RemoveArgs`] says. Nobody changes nodes, except that links to leaves
/// become none. Leaves' values may be written meanwhile, but not that of this key.
#[inline(always)]
pub(super) unsafe fn remove<S: Simt>(simt: S, args: &RemoveArgs, key: KeyRef) {
    // SAFETY: the caller's promise. A leaf is cleared by the one thread that took its link away, and only its key is
    // compared meanwhile: by threads that then find the link gone.
    unsafe {
        let Some((edge, leaf)) = find(simt, &args.tree, args.root, key) else { return };
        let (order, scope) = (Order::Relaxed, Scope::Device);
        if simt.atomic_compare_exchange(edge.slot, 0, leaf.bits(), 0, order, scope) != leaf.bits() {
            return;
        }
        if edge.owner.kind() == LinkType::N256 && edge.depth < key.len() {
            // In other nodes slots are counted, and these stay.
            let count = args.tree.address(edge.owner).byte_add(offset_of!(Header, count) as u64);
            simt.atomic_add(count.cast::<u32>(), 0, u32::MAX, order, scope);
        }
        let table_bytes = args.tree.as_ref().table_bytes;
        if edge.is_above(table_bytes) && table_bytes > 0 && key.len() >= table_bytes {
            simt.atomic_store(args.tree.table(), entry_index(simt, key, table_bytes), 0, order, scope);
        }
        clear(simt, args, leaf);
    }
}

/// Per thread. The slot of a key's leaf, and its link.
///
/// # Safety
/// The tree is valid; nobody changes nodes, except that links to leaves become none.
#[inline(always)]
unsafe fn find<S: Simt>(simt: S, tree: &TreeMut, root: GlobalMut<u64>, key: KeyRef) -> Option<(Edge, Link)> {
    let (mut edge, mut from) = (root_edge(root), 0);
    // SAFETY: the caller's promise.
    unsafe {
        loop {
            let link = follow(simt, edge.slot);
            if !link.kind().is_node() {
                let equal = !link.is_none()
                    && tree.leaf_len(simt, link) == key.len()
                    && tree.part_from_leaf(simt, key, link, 0).0 == key.len();
                return equal.then_some((edge, link));
            }
            let depth = tree.depth_below(simt, link, from);
            if depth > key.len() {
                return None;
            }
            let slot = if depth == key.len() {
                tree.here_slot(link)
            } else {
                tree.child_slot(simt, link, key.byte(simt, depth))?
            };
            (edge, from) = (Edge { owner: link, depth, slot }, depth + 1);
        }
    }
}

/// Per thread. Clears a leaf and puts it on the free list.
///
/// # Safety
/// No link leads to the leaf, and this thread removed the last one.
#[inline(always)]
unsafe fn clear<S: Simt>(simt: S, args: &RemoveArgs, leaf: Link) {
    let words = match leaf.kind() {
        LinkType::Leaf8 => 2,
        LinkType::Leaf16 => 4,
        LinkType::Leaf32 => 8,
        // Its length stays: it says where the next leaf begins.
        _ => 1,
    };
    let at = args.tree.address(leaf).cast::<u64>();
    let mut word = 0;
    // SAFETY: the leaf's words; a counter for each kind, and room for as many indexes as there are operations.
    unsafe {
        while word < words {
            simt.atomic_store(at, word, 0, Order::Relaxed, Scope::Device);
            word += 1;
        }
        let number = leaf.kind() as u64 - LinkType::Leaf8 as u64;
        let place = simt.atomic_add(args.removed, number, 1, Order::Relaxed, Scope::Device);
        let (list, len) = match leaf.kind() {
            LinkType::Leaf8 => (args.free[0], args.free_len[0]),
            LinkType::Leaf16 => (args.free[1], args.free_len[1]),
            LinkType::Leaf32 => (args.free[2], args.free_len[2]),
            _ => return,
        };
        simt.store(list, len + place, leaf.index(), Hint::Default);
    }
}

instance!(cuart_update__remove, cuart_update, Remove);
