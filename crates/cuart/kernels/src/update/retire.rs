//! Work before and after inserts: counting the leaves of each size that a batch may take, and freeing replaced nodes.

use crate::layout::{Link, LinkType, device_leaf_units};
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeysRef, Order, Scope, Simt, Word, instance, kernel_args,
};

kernel_args! {
    /// Arguments of [`CountLeaves`].
    pub struct CountLeavesArgs {
        /// The keys of the batch.
        pub queries: KeysRef,
        /// The keys to count, by their indexes in the batch: `[count]`; null for all from the first on.
        pub picks: Global<u32>,
        /// How many.
        pub count: u64,
        /// In and out: `[4]`, to which is added how many keys have leaves of 8, 16 and 32, and how many units the
        /// dynamically sized leaves of the others have.
        pub counts: GlobalMut<u64>,
    }
}

/// Counts the leaves that keys need, by size; one thread per key; any block of whole warps.
#[derive(Debug)]
pub struct CountLeaves;

impl Kernel for CountLeaves {
    type Args = CountLeavesArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let (mut kind, mut units) = (LinkType::None, 0);
        if index < args.count {
            // SAFETY: `index` is a key.
            let len = unsafe {
                let pick =
                    if args.picks.is_null() { index } else { simt.load(args.picks, index, Hint::Streaming).widen() };
                args.queries.at(simt, pick).len() as usize
            };
            kind = LinkType::of_key(len).unwrap_or(LinkType::DeviceLeaf);
            units = if kind == LinkType::DeviceLeaf { device_leaf_units(len) as u64 } else { 0 };
        }
        let mut counter = 0;
        while counter < 3 {
            let own = simt.ballot(FULL_MASK, kind as u64 == LinkType::Leaf8 as u64 + counter).count_ones();
            if simt.lane() == 0 && own > 0 {
                // SAFETY: one of the counters.
                unsafe { simt.atomic_add(args.counts, counter, u64::from(own), Order::Relaxed, Scope::Device) };
            }
            counter += 1;
        }
        if units > 0 {
            // SAFETY: the last of the counters.
            unsafe { simt.atomic_add(args.counts, 3, units, Order::Relaxed, Scope::Device) };
        }
    }
}

kernel_args! {
    /// Arguments of [`Retire`].
    pub struct RetireArgs {
        /// Links of nodes that nothing leads to, and zeros: `[count]`.
        pub retired: Global<u64>,
        /// How many.
        pub count: u64,
        /// Out: their indexes, by kinds from N4 on: each has room for as many as there may be.
        pub free: [GlobalMut<u64>; 3],
        /// Where each list begins to be written.
        pub free_len: [u64; 3],
        /// In and out: `[3]`, counters, zeros before: how many of each kind.
        pub counts: GlobalMut<u64>,
    }
}

/// Puts nodes that were copied into larger ones on the free lists; one thread per node; any block.
#[derive(Debug)]
pub struct Retire;

impl Kernel for Retire {
    type Args = RetireArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a node of one of three kinds: nodes of 256 children are never copied.
        unsafe {
            let node = Link::from_bits(simt.load(args.retired, index, Hint::Streaming));
            if node.is_none() {
                return;
            }
            let (number, list, len) = match node.kind() {
                LinkType::N4 => (0, args.free[0], args.free_len[0]),
                LinkType::N16 => (1, args.free[1], args.free_len[1]),
                _ => (2, args.free[2], args.free_len[2]),
            };
            let place = simt.atomic_add(args.counts, number, 1, Order::Relaxed, Scope::Device);
            simt.store(list, len + place, node.index(), Hint::Default);
        }
    }
}

instance!(cuart_update__count_leaves, cuart_update, CountLeaves);
instance!(cuart_update__retire, cuart_update, Retire);
