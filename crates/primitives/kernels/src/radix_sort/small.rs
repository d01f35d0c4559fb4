//! A sort of few elements by one block, in one launch.

use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Shared, Simt, Word, kernel_args};

/// The most elements that [`SmallSort`] sorts: one for each thread of its block.
pub const SMALL_SORT: u32 = 512;

kernel_args! {
    /// Arguments of [`SmallSort`].
    pub struct SmallSortArgs<K, V> {
        /// `[len]`.
        pub keys: Global<K>,
        /// Out: `[len]`; may be the same memory.
        pub keys_out: GlobalMut<K>,
        /// `[len]`; null if the values are the elements' positions. Not read by a sort of keys alone.
        pub values: Global<V>,
        /// Out: `[len]`; may be the same memory. Not written by a sort of keys alone.
        pub values_out: GlobalMut<V>,
        /// Elements, at most [`SMALL_SORT`].
        pub len: u32,
        /// Exclusive-or mask between a key and the word by which it is ordered.
        pub flip: K,
        /// The bits of ordered words that count.
        pub mask: K,
    }
}

/// Sorts up to [`SMALL_SORT`] elements, stably: each thread counts the elements that come before its own. One block of as
/// many whole warps as it takes to have a thread for each element.
///
/// The count reads all keys from shared memory, one for a whole warp at a time. So the time grows with the square of
/// the elements, but with so few elements it is less than the time of the launches of [`Onesweep`](super::Onesweep)'s
/// passes.
#[derive(Debug)]
pub struct SmallSort<K, V, const PAIRS: bool>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Word, const PAIRS: bool> SmallSort<K, V, PAIRS> {
    /// The bits by which elements are ordered.
    const KEYS: Shared<K> = Shared::at(0, SMALL_SORT);

    /// Per thread. How many of the keys in a range are below `bound`, or equal to it if `or_equal`.
    ///
    /// # Safety
    /// Keys of the range are stored since a barrier.
    #[inline(always)]
    unsafe fn count<S: Simt>(simt: S, from: u32, to: u32, bound: K, or_equal: bool) -> u32 {
        let (mut count, mut other) = (0, from);
        while other < to {
            // SAFETY: the caller's promise.
            let key = unsafe { simt.shared_load(Self::KEYS, other) };
            count += u32::from(key < bound || or_equal && key == bound);
            other += 1;
        }
        count
    }
}

impl<K: KeyWord, V: Word, const PAIRS: bool> Kernel for SmallSort<K, V, PAIRS> {
    type Args = SmallSortArgs<K, V>;
    const STATIC_SHARED: u32 = Self::KEYS.end();
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: SMALL_SORT, blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let thread = simt.thread_index();
        let (mut key, mut value) = (K::MIN, V::truncate(thread.into()));
        if thread < args.len {
            // SAFETY: an element; and a place in shared memory for each thread.
            unsafe {
                key = simt.load(args.keys, thread.into(), Hint::Default);
                if PAIRS && !args.values.is_null() {
                    value = simt.load(args.values, thread.into(), Hint::Default);
                }
                simt.shared_store(Self::KEYS, thread, key.xor(args.flip).and(args.mask));
            }
        }
        // After it, all elements are read, so they may be overwritten.
        simt.barrier();
        let own = key.xor(args.flip).and(args.mask);
        if simt.opaque(thread) < args.len {
            // SAFETY: the block's elements are stored since the barrier; the counts of equal elements differ, so each
            // thread has its own place in the output.
            unsafe {
                let to = Self::count(simt, 0, thread, own, true) + Self::count(simt, thread, args.len, own, false);
                simt.store(args.keys_out, to.into(), key, Hint::Default);
                if PAIRS {
                    simt.store(args.values_out, to.into(), value, Hint::Default);
                }
            }
        }
    }
}
