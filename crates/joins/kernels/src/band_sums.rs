//! A band join: each row meets all pairs of the index whose keys are in the row's band.

use crate::warp::{BOUNDS, for_each_row};
use core::marker::PhantomData;
use lanetree_kernels_lane_tree::Handle;
use lanetree_layout::Value;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, LaunchBounds, Simt, Word, kernel_args};

kernel_args! {
    /// Arguments of [`BandSums`].
    pub struct BandSumsArgs<K, V> {
        /// The index.
        pub index: Handle<K, V>,
        /// The lowest key of each row's band: `[count]`.
        pub lows: Global<K>,
        /// The first key past it, or nothing of the index if it is not above the lowest: `[count]`.
        pub ends: Global<K>,
        /// How many rows.
        pub count: u64,
        /// Most pairs of a row.
        pub limit: u64,
        /// Out: `[count]`, the sum of the values of each row's pairs, wrapping; the number of a set's keys.
        pub sums: GlobalMut<u64>,
        /// Out: `[count]`, the key of the last of these pairs; not written if there is none.
        pub last_keys: GlobalMut<K>,
    }
}

/// Sums the values of the first pairs in each row's band, along a cursor: one row per lane and turn, launched as
/// [`SemiJoin`](crate::SemiJoin).
#[derive(Debug)]
pub struct BandSums<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Value> Kernel for BandSums<K, V> {
    type Args = BandSumsArgs<K, V>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = BOUNDS;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the handle is valid, and its shared memory is there.
        let probe = unsafe { args.index.enter(simt, 0) };
        for_each_row(simt, args.count, |row| {
            let (mut low, mut end) = (K::MIN, K::MIN);
            if row < args.count {
                // SAFETY: a row.
                (low, end) =
                    unsafe { (simt.load(args.lows, row, Hint::Streaming), simt.load(args.ends, row, Hint::Streaming)) };
            }
            // SAFETY: all lanes are here.
            let (mut cursor, past) = unsafe { (probe.lower_bound(low), probe.lower_bound(end)) };
            if simt.opaque(row) >= args.count {
                return;
            }
            // Ranks, not keys: these are words in the caller's form, whose order may be another.
            let pairs = past.rank().saturating_sub(cursor.rank());
            let mut left = if pairs < args.limit { pairs } else { args.limit };
            let mut sum = 0_u64;
            while left > 0 {
                let Some((key, value)) = cursor.key_value() else { break };
                sum = sum.wrapping_add(if V::IS_SOME { value.word().widen() } else { 1 });
                left -= 1;
                if left == 0 {
                    // SAFETY: a row.
                    unsafe { simt.store(args.last_keys, row, key, Hint::Streaming) };
                } else {
                    // SAFETY: a cursor of this index.
                    unsafe { probe.advance(&mut cursor) };
                }
            }
            // SAFETY: a row.
            unsafe { simt.store(args.sums, row, sum, Hint::Streaming) };
        });
    }
}
