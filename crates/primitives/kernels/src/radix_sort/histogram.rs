//! Counting the digits of all passes.

use super::{Digit, Extract, MAX_PASSES, RADIX};
use crate::tile;
use core::marker::PhantomData;
use lanetree_simt::{
    Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Order, Scope, Shared, Simt, kernel_args, unroll,
};

/// Threads of a block of [`Histogram`].
pub const HISTOGRAM_THREADS: u32 = 512;

/// As many keys are worth a block.
pub const HISTOGRAM_TILE: u64 = 16 * HISTOGRAM_THREADS as u64;

kernel_args! {
    /// Arguments of [`Histogram`].
    pub struct HistogramArgs<K> {
        /// `[len]`.
        pub keys: Global<K>,
        /// How many. Fewer than 2^32 per block of the launch.
        pub len: u64,
        /// Added to: `[passes][RADIX]`, how many keys have each digit.
        pub counts: GlobalMut<u64>,
        /// Out: `[states_len]`, zeros: tickets and states of the passes that follow.
        pub states: GlobalMut<u32>,
        /// How many.
        pub states_len: u64,
        /// Exclusive-or mask between a key and the word by which it is ordered.
        pub flip: K,
        /// How many of `digits` there are.
        pub passes: u32,
        /// The digit of each pass.
        pub digits: [Digit; MAX_PASSES],
    }
}

/// Counts the digits of all passes in one read of the keys, and clears the state of the passes. Any number of blocks of
/// [`HISTOGRAM_THREADS`]. `PASSES` is the most passes that a key has, `VECTORS` the number of 16-byte loads that a
/// thread has in flight.
#[derive(Debug)]
pub struct Histogram<K, const PASSES: usize, const VECTORS: usize>(PhantomData<K>);

impl<K: KeyWord, const PASSES: usize, const VECTORS: usize> Histogram<K, PASSES, VECTORS> {
    const COUNTERS: Shared<u32> = Shared::at(0, PASSES as u32 * RADIX);
    /// Keys that a block reads at a time.
    const CHUNK: u64 = HISTOGRAM_THREADS as u64 * (VECTORS * K::PER_VECTOR) as u64;

    /// Per thread. Counts the digits of a key.
    ///
    /// # Safety
    /// The block's counters were zeroed before a barrier.
    #[inline(always)]
    unsafe fn count<S: Simt>(simt: S, digits: &[Extract; PASSES], passes: u32, key: K) {
        unroll!(PASSES, pass => {
            if (pass as u32) < passes {
                let counter = pass as u32 * RADIX + digits[pass].of(key);
                // SAFETY: a digit is below `RADIX`, and the counters are the caller's promise.
                unsafe { simt.shared_atomic_add(Self::COUNTERS, counter, 1) };
            }
        });
    }
}

impl<K: KeyWord, const PASSES: usize, const VECTORS: usize> Kernel for Histogram<K, PASSES, VECTORS> {
    type Args = HistogramArgs<K>;
    const STATIC_SHARED: u32 = Self::COUNTERS.end();
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: HISTOGRAM_THREADS, blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let thread = simt.thread_index();
        let mut index = thread;
        while index < Self::COUNTERS.len() {
            // SAFETY: a counter; each thread has its own until the barrier.
            unsafe { simt.shared_store(Self::COUNTERS, index, 0) };
            index += HISTOGRAM_THREADS;
        }
        let threads = u64::from(simt.grid_dim()) * u64::from(HISTOGRAM_THREADS);
        let mut index = simt.global_index();
        while index < args.states_len {
            // SAFETY: a state; each thread of the grid has its own.
            unsafe { simt.store(args.states, index, 0, Hint::Default) };
            index += threads;
        }
        simt.barrier();

        let mut digits = [Extract::new(args.digits[0], args.flip); PASSES];
        unroll!(PASSES, pass => {
            digits[pass] = Extract::new(args.digits[pass % MAX_PASSES], args.flip);
        });
        let is_aligned = tile::is_aligned(args.keys);
        let mut first = u64::from(simt.block_index()) * Self::CHUNK;
        while first < args.len {
            let end = args.len.min(first + Self::CHUNK);
            if end - first == Self::CHUNK && is_aligned {
                let mut vectors = [K::Vector::default(); VECTORS];
                unroll!(VECTORS, i => {
                    let vector = i as u64 * u64::from(HISTOGRAM_THREADS) + u64::from(thread);
                    let at = first + vector * K::PER_VECTOR as u64;
                    // SAFETY: the chunk lies inside the keys, and begins on a 16-byte boundary, as the keys do.
                    vectors[i] = unsafe { simt.load_vector(args.keys, at, Hint::EvictFirst) };
                });
                unroll!(VECTORS, i => {
                    for &key in vectors[i].as_ref() {
                        // SAFETY: zeroed above.
                        unsafe { Self::count(simt, &digits, args.passes, key) };
                    }
                });
            } else {
                let mut at = first + u64::from(thread);
                while at < end {
                    // SAFETY: a key, and the counters were zeroed above.
                    unsafe { Self::count(simt, &digits, args.passes, simt.load(args.keys, at, Hint::EvictFirst)) };
                    at += u64::from(HISTOGRAM_THREADS);
                }
            }
            first += u64::from(simt.grid_dim()) * Self::CHUNK;
        }

        simt.barrier();
        let mut index = thread;
        while index < args.passes * RADIX {
            // SAFETY: a counter of a pass that there is, which nobody changes after the barrier.
            let count = unsafe { simt.shared_load(Self::COUNTERS, index) };
            if count != 0 {
                // SAFETY: a count; all blocks access it atomically.
                unsafe {
                    simt.atomic_add(args.counts, u64::from(index), u64::from(count), Order::Relaxed, Scope::Device)
                };
            }
            index += HISTOGRAM_THREADS;
        }
    }
}
