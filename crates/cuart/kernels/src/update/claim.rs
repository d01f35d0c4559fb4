//! The paper's two stages (section 3.4): every operation looks up its leaf and claims it in a hash table, which keeps
//! the highest index; then the operations with the kept indexes write.

use super::TreeMut;
use crate::get::{descend, leaf_equals, store_bits, value_word};
use crate::layout::Link;
use crate::query::Query;
use crate::tree::THREADS;
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeysRef, LaunchBounds, Order, Scope, Simt, Word, instance, kernel_args,
};

/// The entry in [`ClaimArgs::slots`] of an operation whose key is not in the tree.
pub const UNCLAIMED: u32 = u32::MAX;

kernel_args! {
    /// Arguments of [`Claim`].
    pub struct ClaimArgs {
        /// The tree, without leaves in main memory.
        pub tree: TreeMut,
        /// The keys of the batch.
        pub queries: KeysRef,
        /// The first operation of the launch in the batch: a multiple of 32.
        pub first: u64,
        /// Operations of the launch, below 2^31.
        pub count: u64,
        /// The hash table's keys, links of leaves: `[mask + 1]`, zeros before.
        pub owners: GlobalMut<u64>,
        /// Its values, one more than the highest index of the launch: `[mask + 1]`, zeros before.
        pub highest: GlobalMut<u32>,
        /// One less than the size of the hash table, a power of two that is at least `count`.
        pub mask: u32,
        #[doc(hidden)]
        pub padding: u32,
        /// Out: `[count]`, each operation's place in the hash table, or [`UNCLAIMED`].
        pub slots: GlobalMut<u32>,
        /// Out: the hit mask of the batch; null if not wanted.
        pub hits: GlobalMut<u32>,
    }
}

/// Stage 1, one thread per operation; any block of whole warps. `WORDS` as in [`Get`](crate::Get).
#[derive(Debug)]
pub struct Claim<const WORDS: usize>;

impl<const WORDS: usize> Kernel for Claim<WORDS> {
    type Args = ClaimArgs;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 6 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let mut slot = UNCLAIMED;
        if index < args.count {
            // SAFETY: `index` is an operation, and the tree is valid; nobody writes to it meanwhile.
            unsafe {
                let query = Query::<WORDS>::load(simt, &args.queries, args.first + index);
                let tree = args.tree.as_ref();
                let leaf = descend(simt, tree, &query, Hint::ReadOnly);
                if !leaf.is_none() && leaf_equals(simt, tree, &query, leaf, Hint::EvictFirst) {
                    slot = claim(simt, args, leaf, index as u32 + 1);
                }
                simt.store(args.slots, index, slot, Hint::Default);
            }
        }
        if !args.hits.is_null() {
            let found = GlobalMut::new(args.hits.as_ptr().wrapping_add((args.first / 32) as usize));
            // SAFETY: a word for every 32 operations.
            unsafe { store_bits(simt, found, args.count, slot != UNCLAIMED) };
        }
    }
}

/// Per thread. Raises a leaf's number in the hash table to at least this one, and returns its slot.
///
/// # Safety
/// The hash table has room.
#[inline(always)]
unsafe fn claim<S: Simt>(simt: S, args: &ClaimArgs, leaf: Link, number: u32) -> u32 {
    // The upper bits of a product with an odd number (that of the golden ratio) depend on all bits below them.
    let mut slot = (leaf.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 & args.mask;
    // SAFETY: the slot is one of the table's; a slot's key never changes once it is there.
    unsafe {
        loop {
            let (order, scope) = (Order::Relaxed, Scope::Device);
            let owner = simt.atomic_compare_exchange(args.owners, u64::from(slot), 0, leaf.bits(), order, scope);
            if owner == 0 || owner == leaf.bits() {
                break;
            }
            slot = (slot + 1) & args.mask;
        }
        simt.atomic_max(args.highest, u64::from(slot), number, Order::Relaxed, Scope::Device);
    }
    slot
}

kernel_args! {
    /// Arguments of [`Conquer`].
    pub struct ConquerArgs<V> {
        /// The tree.
        pub tree: TreeMut,
        /// The values of the launch's operations: `[count]`.
        pub values: Global<V>,
        /// Operations of the launch.
        pub count: u64,
        /// As [`Claim`] has left them.
        pub owners: Global<u64>,
        /// As [`Claim`] has left them.
        pub highest: Global<u32>,
        /// As [`Claim`] has left them.
        pub slots: Global<u32>,
        /// In and out: `[1]`, to which the number of different keys is added; null if not wanted.
        pub keys: GlobalMut<u64>,
    }
}

/// Stage 2, one thread per operation, any block of whole warps: the last one of each key writes its value.
#[derive(Debug)]
pub struct Conquer<V>(PhantomData<V>);

impl<V: Word> Kernel for Conquer<V> {
    type Args = ConquerArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let mut last = false;
        if index < args.count {
            // SAFETY: `index` is an operation and its slot one of the table's, whose key is a leaf of the tree; of
            // all operations on a leaf one has the highest index.
            unsafe {
                let slot = simt.load(args.slots, index, Hint::ReadOnly);
                last =
                    slot != UNCLAIMED && simt.load(args.highest, u64::from(slot), Hint::ReadOnly) == index as u32 + 1;
                if last {
                    let leaf = Link::from_bits(simt.load(args.owners, u64::from(slot), Hint::ReadOnly));
                    let at = args.tree.address(leaf).cast::<u64>();
                    let value = simt.load(args.values, index, Hint::Streaming).widen();
                    simt.store(at, value_word(leaf.kind()), value, Hint::Default);
                }
            }
        }
        if !args.keys.is_null() {
            let count = simt.ballot(FULL_MASK, last).count_ones();
            if simt.lane() == 0 && count > 0 {
                // SAFETY: a counter.
                unsafe { simt.atomic_add(args.keys, 0, u64::from(count), Order::Relaxed, Scope::Device) };
            }
        }
    }
}

macro_rules! instances {
    ($($words:literal),*) => { pastey::paste! { $(
        instance!([<cuart_update__claim_w $words>], cuart_update, Claim<$words>);
    )* } };
}
instances!(0, 1, 2, 4);
instance!(cuart_update__conquer_u32, cuart_update, Conquer<u32>);
instance!(cuart_update__conquer_u64, cuart_update, Conquer<u64>);
