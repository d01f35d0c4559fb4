//! Batches of changes: the shard of each operation, and operations in their shards' order.

use crate::scatter::{Tile, block_count};
use crate::{ITEMS, THREADS, TILE};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, Order, Scope, Simt, kernel_args, unroll};

kernel_args! {
    /// Arguments of [`Owners`].
    pub struct OwnersArgs<K> {
        /// `[count]`, in the caller's form.
        pub keys: Global<K>,
        /// How many: fewer than 2^32.
        pub count: u64,
        /// The ordered word of the smallest key of each shard but the first, ascending: `[shards - 1]`.
        pub splitters: Global<K>,
        /// Out: `[count]`, the shard of each key.
        pub owners: GlobalMut<u32>,
        /// In: `[shards]`, zero. Out: the keys of each.
        pub sizes: GlobalMut<u32>,
        /// How many there are: 1 to [`MOST_SHARDS`](crate::MOST_SHARDS).
        pub shards: u32,
        #[doc(hidden)]
        pub padding: u32,
        /// Exclusive-or mask between a key and its ordered word.
        pub flip: K,
    }
}

/// Finds the shard of each key. A block of [`THREADS`] for each tile.
#[derive(Debug)]
pub struct Owners<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for Owners<K> {
    type Args = OwnersArgs<K>;
    const STATIC_SHARED: u32 = Tile::<K>::SHARED;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let &OwnersArgs { keys: queries, count, shards, flip, .. } = args;
        // SAFETY: the arguments' contract.
        let tile = unsafe { Tile { queries, count, shards, flip }.count(simt, args.splitters) };
        let thread = simt.thread_index();
        if thread < shards {
            // SAFETY: a shard, counted before a barrier.
            unsafe {
                let size = block_count(simt, thread);
                simt.atomic_add(args.sizes, u64::from(thread), size, Order::Relaxed, Scope::Device);
            }
        }
        unroll!(ITEMS, item => {
            let at = Tile::<K>::at(simt, item);
            if at < count {
                // SAFETY: a key.
                unsafe { simt.store(args.owners, at, tile.shards[item], Hint::Default) };
            }
        });
    }
}

kernel_args! {
    /// Arguments of [`Permute`].
    pub struct PermuteArgs<W> {
        /// What is read.
        pub from: Global<W>,
        /// `[count]`: which of its elements come where.
        pub order: Global<u32>,
        /// Elements.
        pub count: u64,
        /// Out: `[count]`.
        pub out: GlobalMut<W>,
    }
}

/// Puts elements into an order. A block of [`THREADS`] for each tile.
#[derive(Debug)]
pub struct Permute<W>(PhantomData<W>);

impl<W: KeyWord> Kernel for Permute<W> {
    type Args = PermuteArgs<W>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let first = u64::from(simt.block_index()) * TILE + u64::from(simt.thread_index());
        unroll!(ITEMS, item => {
            let at = first + item as u64 * u64::from(THREADS);
            if at < args.count {
                // SAFETY: an element, and the one that comes there.
                unsafe {
                    let from = simt.load(args.order, at, Hint::Streaming);
                    let element = simt.load(args.from, u64::from(from), Hint::ReadOnly);
                    simt.store(args.out, at, element, Hint::Streaming);
                }
            }
        });
    }
}
