//! Bulk build: leaves from sorted pairs, inner nodes from leaves.

use crate::layout::{Filling, inner_slot, leaf_offset, leaf_values_offset};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, Word, kernel_args};

/// Per thread. Writes the pair of a rank into its leaf, and, if it is the leaf's last pair, also into the slots after
/// it.
///
/// # Safety
/// The leaf region is one of `filling`'s shape, and `rank` is below its length.
#[inline(always)]
pub(crate) unsafe fn put_pair<S: Simt, K: Word, V: Word>(
    simt: S,
    leaves: GlobalMut<u8>,
    filling: &Filling,
    rank: u64,
    key: K,
    value: V,
) {
    let (leaf, first) = filling.place(rank);
    let keys = leaves.byte_add(leaf_offset::<K, V>(filling.fanout, leaf)).cast::<K>();
    let values = leaves.byte_add(leaf_values_offset::<K, V>(filling.fanout, leaf)).cast::<V>();
    let is_last = first + 1 == filling.per_leaf || rank + 1 == filling.len;
    let end = if is_last { filling.fanout } else { first + 1 };
    let mut slot = first;
    while slot < end {
        // SAFETY: the slot lies inside the leaf, and no other rank's slots overlap.
        unsafe {
            simt.store(keys, u64::from(slot), key, Hint::Default);
            simt.store(values, u64::from(slot), value, Hint::Default);
        }
        slot += 1;
    }
}

kernel_args! {
    /// Arguments of [`FillLeaves`].
    pub struct FillLeavesArgs<K, V> {
        /// Strictly ascending, in the caller's form: `[filling.len]`.
        pub keys: Global<K>,
        /// `[filling.len]`.
        pub values: Global<V>,
        /// Out: the leaf region.
        pub leaves: GlobalMut<u8>,
        /// Pairs, and how they lie in leaves.
        pub filling: Filling,
        /// As [`TreeRef::flip`](crate::TreeRef::flip).
        pub flip: K,
    }
}

/// Slots of a thread of [`FillLeaves`], a block's threads apart.
pub const SLOTS: usize = 4;

/// Fills the leaves: one thread per [`SLOTS`] slots, including those that repeat a leaf's last pair, so that whole
/// lines are written. Any block.
#[derive(Debug)]
pub struct FillLeaves<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for FillLeaves<K, V> {
    type Args = FillLeavesArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let filling = &args.filling;
        let shift = filling.fanout.trailing_zeros();
        let block = u64::from(simt.block_dim());
        let first = u64::from(simt.block_index()) * block * SLOTS as u64 + u64::from(simt.thread_index());
        let slots = u64::from(filling.leaf_count) << shift;
        let at = |j: usize| first + j as u64 * block;
        let rank = |j: usize| {
            let leaf = at(j) >> shift;
            let slot = at(j) & u64::from(filling.fanout - 1);
            let slot = if slot < u64::from(filling.per_leaf) { slot } else { u64::from(filling.per_leaf) - 1 };
            let rank = leaf * u64::from(filling.per_leaf) + slot;
            if rank < filling.len { rank } else { filling.len - 1 }
        };
        let pairs: [(K, V); SLOTS] = core::array::from_fn(|j| {
            // SAFETY: a rank below the length.
            unsafe {
                let key = simt.load(args.keys, rank(j), Hint::Streaming).xor(args.flip);
                (key, simt.load(args.values, rank(j), Hint::Streaming))
            }
        });
        for (j, (key, value)) in pairs.into_iter().enumerate() {
            if at(j) < slots {
                let (leaf, slot) = ((at(j) >> shift) as u32, at(j) & u64::from(filling.fanout - 1));
                let keys = args.leaves.byte_add(leaf_offset::<K, V>(filling.fanout, leaf)).cast::<K>();
                let values = args.leaves.byte_add(leaf_values_offset::<K, V>(filling.fanout, leaf)).cast::<V>();
                // SAFETY: a slot of a leaf, one thread's own.
                unsafe {
                    simt.store(keys, slot, key, Hint::Default);
                    simt.store(values, slot, value, Hint::Default);
                }
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`FillInner`].
    pub struct FillInnerArgs<K> {
        /// The leaf region.
        pub leaves: Global<u8>,
        /// Out: the inner nodes.
        pub inner: GlobalMut<K>,
        /// Out: the child region.
        pub prefix_sum: GlobalMut<u32>,
        /// Leaves under a full child of the level's nodes.
        pub under_child: u64,
        /// Leaves.
        pub leaf_count: u32,
        /// Slots of a node.
        pub fanout: u32,
        /// Children of every node but the level's last.
        pub children: u32,
        /// The level's first node, and how many there are.
        pub first_node: u32,
        /// See [`FillInnerArgs::first_node`].
        pub nodes: u32,
        /// The next level's first node.
        pub first_child: u32,
    }
}

/// Fills one inner level, from full leaves: one thread per slot; any block. Levels may be filled in any order.
#[derive(Debug)]
pub struct FillInner<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for FillInner<K, V> {
    type Args = FillInnerArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let shift = args.fanout.trailing_zeros();
        let node = simt.global_index() >> shift;
        if node >= u64::from(args.nodes) {
            return;
        }
        let (node, slot) = (node as u32, simt.global_index() as u32 & (args.fanout - 1));
        let child = args.first_child + node * args.children;
        let mut word = K::truncate(u64::from(child));
        if slot == args.fanout - 1 {
            // SAFETY: one entry per inner node.
            unsafe { simt.store(args.prefix_sum, u64::from(args.first_node + node), child, Hint::Default) };
        } else {
            // The last leaf under the child; its last slot holds its largest key.
            let end = (u64::from(node) * u64::from(args.children) + u64::from(slot) + 1) * args.under_child;
            word = K::MAX;
            if slot + 1 < args.children && end < u64::from(args.leaf_count) {
                let keys = args.leaves.byte_add(leaf_offset::<K, V>(args.fanout, end as u32 - 1)).cast::<K>();
                // SAFETY: the last slot of a leaf.
                word = unsafe { simt.load(keys, u64::from(args.fanout - 1), Hint::ReadOnly) };
            }
        }
        // SAFETY: one thread per slot of the level's nodes.
        unsafe { simt.store(args.inner, inner_slot(args.fanout, args.first_node + node, slot), word, Hint::Default) };
    }
}
