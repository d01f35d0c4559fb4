//! The kernel.

use core::marker::PhantomData;
use lanetree::kernel::{Global, GlobalMut, Handle, Hint, Kernel, LaunchBounds, Order, Scope, Simt, Word, kernel_args};

/// Most threads of a block: one block fills a multiprocessor, and each thread has 80 registers.
pub const MOST_THREADS: u32 = 768;

kernel_args! {
    /// Arguments of [`SumByGroup`].
    pub struct SumByGroupArgs<K> {
        /// The group of each key.
        pub groups: Handle<K, u32>,
        /// The rows' keys: `[count]`.
        pub keys: Global<K>,
        /// Their amounts: `[count]`.
        pub amounts: Global<u64>,
        /// How many rows.
        pub count: u64,
        /// In and out: `[group_count]`, to each of which the amounts of its group are added, wrapping.
        pub sums: GlobalMut<u64>,
        /// How many sums.
        pub group_count: u64,
    }
}

/// Adds each row's amount to the sum of the group that the index has for its key. Rows whose key is not in the index, or whose
/// group has no sum, are left out. One row per lane and turn: any grid of blocks of whole warps, at most [`MOST_THREADS`],
/// with shared memory for the handle from the first byte on.
#[derive(Debug)]
pub struct SumByGroup<K>(PhantomData<K>);

impl<K: Word> Kernel for SumByGroup<K> {
    type Args = SumByGroupArgs<K>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: MOST_THREADS, blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the handle is valid, and its shared memory is there.
        let probe = unsafe { args.groups.enter(simt, 0) };
        let stride = u64::from(simt.grid_dim()) * u64::from(simt.block_dim());
        let mut row = simt.global_index();
        // The same for all lanes of a warp: as long as one of them has a row, all take part in its look-ups.
        while row - u64::from(simt.lane()) < args.count {
            let (mut key, mut amount) = (K::MIN, 0);
            if row < args.count {
                // SAFETY: a row.
                unsafe {
                    key = simt.load(args.keys, row, Hint::Streaming);
                    amount = simt.load(args.amounts, row, Hint::Streaming);
                }
            }
            // SAFETY: all lanes are here. Those without a row look up a key that does not matter.
            let group = unsafe { probe.get(key) };
            // The lanes have branched by this before the look-up: else the compiler may put a copy of it into both branches.
            let is_row = simt.opaque(row) < args.count;
            if let Some(group) = group
                && is_row
                && u64::from(group) < args.group_count
            {
                // SAFETY: there is a sum for this group, and every thread only adds to it.
                unsafe { simt.atomic_add(args.sums, u64::from(group), amount, Order::Relaxed, Scope::Device) };
            }
            row += stride;
        }
    }
}
