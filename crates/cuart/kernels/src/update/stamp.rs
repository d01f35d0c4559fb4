//! Alternatives to the paper's hash table: keeping the highest index in an array with one entry per leaf, and sorting
//! the operations by their leaves.

use super::{TreeMut, pick, store_picked_hits};
use crate::get::{descend, leaf_equals, value_word};
use crate::layout::{Link, LinkType};
use crate::query::Query;
use crate::tree::{THREADS, TreeRef};
use core::marker::PhantomData;
use lanetree_simt::{
    Global, GlobalMut, Hint, Kernel, KeysRef, LaunchBounds, Order, Scope, Simt, Word, instance, kernel_args,
};

kernel_args! {
    /// Arguments of [`Locate`].
    pub struct LocateArgs {
        /// The tree, without leaves in main memory.
        pub tree: TreeRef,
        /// The keys of the batch: `[count]`.
        pub queries: KeysRef,
        /// The order in which they are processed: `[count]`, their indexes in the batch; null for the batch's order.
        pub picks: Global<u32>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, in the order in which they are processed: the link of each key's leaf; 0 for a key that is
        /// not in the tree. Null if not wanted; only [`Locate`] accepts null.
        pub links: GlobalMut<u64>,
        /// Out: the hit mask of the batch, zeroed before if there are picks; null if not wanted.
        pub hits: GlobalMut<u32>,
    }
}

/// Finds the leaves of keys, one thread per key; any block of whole warps. `WORDS` as in [`Get`](crate::Get).
#[derive(Debug)]
pub struct Locate<const WORDS: usize>;

impl<const WORDS: usize> Kernel for Locate<WORDS> {
    type Args = LocateArgs;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 6 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        // SAFETY: the same contract.
        let (operation, leaf) = unsafe { locate_next::<S, WORDS>(simt, args, index) };
        if index < args.count && !args.links.is_null() {
            // SAFETY: `index` is a query.
            unsafe { simt.store(args.links, index, leaf.bits(), Hint::Streaming) };
        }
        // SAFETY: a word for every 32 queries.
        unsafe { store_picked_hits(simt, args.hits, args.picks, args.count, operation, !leaf.is_none()) };
    }
}

/// Per thread. The operation that is processed at a position, and its leaf; none past the last.
///
/// # Safety
/// As for [`Locate`].
#[inline(always)]
unsafe fn locate_next<S: Simt, const WORDS: usize>(simt: S, args: &LocateArgs, index: u64) -> (u64, Link) {
    if index >= args.count {
        return (index, Link::NONE);
    }
    // SAFETY: `index` is a query, and the tree is valid.
    unsafe {
        let operation = pick(simt, args.picks, index);
        (operation, locate::<S, WORDS>(simt, &args.tree, &args.queries, operation))
    }
}

/// Per thread. The leaf of a key, or none.
///
/// # Safety
/// The tree is valid, and there is such a query; nobody writes to nodes or keys.
#[inline(always)]
unsafe fn locate<S: Simt, const WORDS: usize>(simt: S, tree: &TreeRef, queries: &KeysRef, index: u64) -> Link {
    // SAFETY: the caller's promise.
    unsafe {
        let query = Query::<WORDS>::load(simt, queries, index);
        let leaf = descend(simt, tree, &query, Hint::ReadOnly);
        let held = leaf.kind() == LinkType::HostLeaf
            || !leaf.is_none() && leaf_equals(simt, tree, &query, leaf, Hint::EvictFirst);
        if held { leaf } else { Link::NONE }
    }
}

kernel_args! {
    /// Arguments of [`Stamp`].
    pub struct StampArgs {
        /// What to locate, and where the links go.
        pub locate: LocateArgs,
        /// The highest stamp of each leaf: first of the leaves of 8 bytes, then of 16, of 32, and of the dynamically
        /// sized ones (one stamp per unit).
        pub stamps: GlobalMut<u64>,
        /// Where the stamps of each kind of leaves begin, from [`LinkType::Leaf16`] on.
        pub firsts: [u64; 3],
        /// The stamp of the batch's first operation, above all before it.
        pub first_stamp: u64,
    }
}

/// The place of a leaf among all stamps.
#[inline(always)]
fn stamp_of(leaf: Link, firsts: &[u64; 3]) -> u64 {
    leaf.index()
        + match leaf.kind() {
            LinkType::Leaf8 => 0,
            LinkType::Leaf16 => firsts[0],
            LinkType::Leaf32 => firsts[1],
            _ => firsts[2],
        }
}

/// Locates and stamps leaves, one thread per operation; any block of whole warps. `WORDS` as in [`Get`](crate::Get).
#[derive(Debug)]
pub struct Stamp<const WORDS: usize>;

impl<const WORDS: usize> Kernel for Stamp<WORDS> {
    type Args = StampArgs;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 6 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (index, locating) = (simt.global_index(), &args.locate);
        // SAFETY: the same contract.
        let (operation, leaf) = unsafe { locate_next::<S, WORDS>(simt, locating, index) };
        if index < locating.count {
            // SAFETY: `index` is an operation, and every leaf has a stamp.
            unsafe {
                simt.store(locating.links, index, leaf.bits(), Hint::Default);
                if !leaf.is_none() {
                    let (stamp, at) = (args.first_stamp + operation, stamp_of(leaf, &args.firsts));
                    simt.atomic_max(args.stamps, at, stamp, Order::Relaxed, Scope::Device);
                }
            }
        }
        // SAFETY: a word for every 32 operations.
        unsafe { store_picked_hits(simt, locating.hits, locating.picks, locating.count, operation, !leaf.is_none()) };
    }
}

kernel_args! {
    /// Arguments of [`WriteStamped`].
    pub struct WriteStampedArgs<V> {
        /// The tree.
        pub tree: TreeMut,
        /// The values of the batch: `[count]`.
        pub values: Global<V>,
        /// As in [`LocateArgs`].
        pub picks: Global<u32>,
        /// As [`Stamp`] has left them: `[count]`.
        pub links: Global<u64>,
        /// Operations.
        pub count: u64,
        /// As [`Stamp`] has left them.
        pub stamps: Global<u64>,
        /// As in [`StampArgs`].
        pub firsts: [u64; 3],
        /// As in [`StampArgs`].
        pub first_stamp: u64,
    }
}

/// Writes the values of operations whose stamp was kept, one thread per operation; any block.
#[derive(Debug)]
pub struct WriteStamped<V>(PhantomData<V>);

impl<V: Word> Kernel for WriteStamped<V> {
    type Args = WriteStampedArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is an operation, and every leaf has a stamp; one operation has the highest.
        unsafe {
            let leaf = Link::from_bits(simt.load(args.links, index, Hint::Streaming));
            if leaf.is_none() {
                return;
            }
            let operation = pick(simt, args.picks, index);
            let stamp = simt.load(args.stamps, stamp_of(leaf, &args.firsts), Hint::ReadOnly);
            if stamp == args.first_stamp + operation {
                write(simt, &args.tree, leaf, simt.load(args.values, operation, Hint::ReadOnly));
            }
        }
    }
}

/// Per thread. Writes the value of a leaf on the device.
///
/// # Safety
/// A leaf of the tree, whose value no other thread accesses.
#[inline(always)]
unsafe fn write<S: Simt, V: Word>(simt: S, tree: &TreeMut, leaf: Link, value: V) {
    // SAFETY: the caller's promise.
    unsafe { simt.store(tree.address(leaf).cast(), value_word(leaf.kind()), value.widen(), Hint::Default) };
}

kernel_args! {
    /// Arguments of [`Overwrite`].
    pub struct OverwriteArgs<V> {
        /// The tree.
        pub tree: TreeMut,
        /// Links of leaves, each one once, and zeros: `[count]`.
        pub links: Global<u64>,
        /// The operation whose value each leaf gets: `[count]`.
        pub operations: Global<u32>,
        /// The values of the batch.
        pub values: Global<V>,
        /// Out of how many leaves: `[1]`.
        pub count: Global<u64>,
    }
}

/// Writes values to leaves, one thread per leaf; any block.
#[derive(Debug)]
pub struct Overwrite<V>(PhantomData<V>);

impl<V: Word> Kernel for Overwrite<V> {
    type Args = OverwriteArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        // SAFETY: the count is there; `index` is a leaf, and the only one of this link.
        unsafe {
            if index < simt.load(args.count, 0, Hint::ReadOnly) {
                let leaf = Link::from_bits(simt.load(args.links, index, Hint::Streaming));
                let operation = simt.load(args.operations, index, Hint::Streaming);
                if !leaf.is_none() {
                    write(simt, &args.tree, leaf, simt.load(args.values, u64::from(operation), Hint::ReadOnly));
                }
            }
        }
    }
}

macro_rules! instances {
    ($($words:literal),*) => { pastey::paste! { $(
        instance!([<cuart_update__locate_w $words>], cuart_update, Locate<$words>);
        instance!([<cuart_update__stamp_w $words>], cuart_update, Stamp<$words>);
    )* } };
}
instances!(0, 1, 2, 4);
instance!(cuart_update__write_stamped_u32, cuart_update, WriteStamped<u32>);
instance!(cuart_update__write_stamped_u64, cuart_update, WriteStamped<u64>);
instance!(cuart_update__overwrite_u32, cuart_update, Overwrite<u32>);
instance!(cuart_update__overwrite_u64, cuart_update, Overwrite<u64>);
