//! Updates in one stage: a leaf has room for the operation's number above a 32-bit value, and the maximum of both
//! together keeps the last operation's value.

use super::{TreeMut, pick, store_picked_hits};
use crate::get::{descend, leaf_equals, value_word};
use crate::query::Query;
use crate::tree::THREADS;
use lanetree_simt::{
    Global, GlobalMut, Hint, Kernel, KeysRef, LaunchBounds, Order, Scope, Simt, Word, instance, kernel_args,
};

kernel_args! {
    /// Arguments of [`Latest`].
    pub struct LatestArgs {
        /// The tree, without dynamically sized leaves or leaves in main memory.
        pub tree: TreeMut,
        /// The keys of the batch: `[count]`.
        pub queries: KeysRef,
        /// Their values: `[count]`.
        pub values: Global<u32>,
        /// The order in which the operations are processed: `[count]`, their indexes in the batch; null for the batch's
        /// order.
        pub picks: Global<u32>,
        /// Operations.
        pub count: u64,
        /// The number of the batch's first operation: above the numbers of all operations before, and such that no
        /// number of the batch reaches 2^32.
        pub sequence: u32,
        #[doc(hidden)]
        pub padding: u32,
        /// Out: the hit mask of the batch, zeroed before if there are picks; null if not wanted.
        pub hits: GlobalMut<u32>,
    }
}

/// Updates values, one thread per operation; any block of whole warps. `WORDS` as in [`Get`](crate::Get).
#[derive(Debug)]
pub struct Latest<const WORDS: usize>;

impl<const WORDS: usize> Kernel for Latest<WORDS> {
    type Args = LatestArgs;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 6 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let (mut operation, mut found) = (index, false);
        if index < args.count {
            // SAFETY: `index` is an operation, and the tree is valid; only values are written, by atomics, and
            // only keys and nodes read.
            unsafe {
                operation = pick(simt, args.picks, index);
                let query = Query::<WORDS>::load(simt, &args.queries, operation);
                let value = simt.load(args.values, operation, Hint::ReadOnly);
                let tree = args.tree.as_ref();
                let leaf = descend(simt, tree, &query, Hint::ReadOnly);
                found = !leaf.is_none() && leaf_equals(simt, tree, &query, leaf, Hint::EvictFirst);
                if found {
                    let at = args.tree.address(leaf).cast::<u64>();
                    let numbered = u64::from_halves(value, args.sequence + operation as u32);
                    simt.atomic_max(at, value_word(leaf.kind()), numbered, Order::Relaxed, Scope::Device);
                }
            }
        }
        // SAFETY: a word for every 32 operations; zeroed before if they are not processed in order.
        unsafe { store_picked_hits(simt, args.hits, args.picks, args.count, operation, found) };
    }
}

kernel_args! {
    /// Arguments of [`ClearSequence`].
    pub struct ClearSequenceArgs {
        /// Leaves of one fixed size: `[count]`, each of `stride` words of 8 bytes.
        pub leaves: GlobalMut<u64>,
        /// Leaves.
        pub count: u64,
        /// Words of a leaf.
        pub stride: u32,
        /// The word of the value.
        pub value: u32,
    }
}

/// Clears the numbers above 32-bit values, so that they can restart; one thread per leaf; any block.
#[derive(Debug)]
pub struct ClearSequence;

impl Kernel for ClearSequence {
    type Args = ClearSequenceArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            let at = index * u64::from(args.stride) + u64::from(args.value);
            // SAFETY: the value of a leaf, which is this thread's.
            unsafe {
                let value = simt.load(args.leaves.as_const(), at, Hint::Default);
                simt.store(args.leaves, at, value & u64::from(u32::MAX), Hint::Default);
            }
        }
    }
}

macro_rules! instances {
    ($($words:literal),*) => { pastey::paste! { $(
        instance!([<cuart_update__latest_w $words>], cuart_update, Latest<$words>);
    )* } };
}
instances!(1, 2, 4);
instance!(cuart_update__clear_sequence, cuart_update, ClearSequence);
