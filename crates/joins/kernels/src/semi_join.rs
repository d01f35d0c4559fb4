//! A semi-join with a filter.

use crate::warp::{BOUNDS, for_each_row, sum};
use core::marker::PhantomData;
use lanetree_kernels_lane_tree::Handle;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, LaunchBounds, Order, Scope, Simt, Word, kernel_args};

kernel_args! {
    /// Arguments of [`SemiJoin`].
    pub struct SemiJoinArgs<K, V> {
        /// The index.
        pub index: Handle<K, V>,
        /// The rows' foreign keys: `[count]`.
        pub keys: Global<K>,
        /// Their amounts: `[count]`.
        pub amounts: Global<u64>,
        /// How many rows.
        pub count: u64,
        /// Rows whose amount is above it pass the filter.
        pub threshold: u64,
        /// Out: `[count]`, the keys of the rows that are kept, in no particular order.
        pub kept_keys: GlobalMut<K>,
        /// Out: `[count]`, their amounts.
        pub kept_amounts: GlobalMut<u64>,
        /// In and out: `[2]`, to which the number of rows that are kept is added, and the sum of the index's values for
        /// them, wrapping; a set has none.
        pub totals: GlobalMut<u64>,
    }
}

/// Keeps the rows whose amount is above a threshold and whose key is in the index: one row per lane and turn, any grid of
/// blocks of whole warps, at most [`MOST_THREADS`](crate::MOST_THREADS), with shared memory for the handle from the first
/// byte on.
#[derive(Debug)]
pub struct SemiJoin<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Value> Kernel for SemiJoin<K, V> {
    type Args = SemiJoinArgs<K, V>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = BOUNDS;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the handle is valid, and its shared memory is there.
        let probe = unsafe { args.index.enter(simt, 0) };
        let mut values = 0_u64;
        for_each_row(simt, args.count, |row| {
            let mut amount = 0;
            if row < args.count {
                // SAFETY: a row.
                amount = unsafe { simt.load(args.amounts, row, Hint::Streaming) };
            }
            let passes = row < args.count && amount > args.threshold;
            // The same for all lanes. Where no row of the warp passes, neither keys nor index are read.
            if !simt.any(FULL_MASK, passes) {
                return;
            }
            // The lanes have branched by this before the ballot.
            let passes = simt.opaque(u32::from(passes)) != 0;
            let mut key = K::MIN;
            if passes {
                // SAFETY: a row.
                key = unsafe { simt.load(args.keys, row, Hint::Streaming) };
            }
            // SAFETY: all lanes are here. Those without a row that passes look up a key that does not matter.
            let value = unsafe { probe.get(key) };
            let is_kept = value.is_some() & (simt.opaque(u32::from(passes)) != 0);
            let kept = simt.ballot(FULL_MASK, is_kept);
            let is_kept = simt.opaque(u32::from(is_kept)) != 0;
            // The same for all lanes.
            if kept == 0 {
                return;
            }
            let leader = kept.trailing_zeros();
            let mut start = 0;
            if simt.lane() == leader {
                let count = u64::from(kept.count_ones());
                // SAFETY: there are two totals, and every thread adds to them.
                start = unsafe { simt.atomic_add(args.totals, 0, count, Order::Relaxed, Scope::Device) };
            }
            let place = simt.shuffle(FULL_MASK, start, leader) + u64::from((kept & simt.lanes_below()).count_ones());
            if is_kept {
                values = values.wrapping_add(value.map_or(0, |value| value.word().widen()));
                // SAFETY: no other row has this place, and there is one for every row.
                unsafe {
                    simt.store(args.kept_keys, place, key, Hint::Streaming);
                    simt.store(args.kept_amounts, place, amount, Hint::Streaming);
                }
            }
        });
        let values = sum(simt, values);
        if simt.lane() == 0 && values != 0 {
            // SAFETY: as above.
            unsafe { simt.atomic_add(args.totals, 1, values, Order::Relaxed, Scope::Device) };
        }
    }
}
