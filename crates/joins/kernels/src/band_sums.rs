//! A band join: each row meets all pairs of the index whose keys are in the row's band.

use crate::warp::{BOUNDS, rows};
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
        for row in rows(simt, args.count) {
            let (mut low, mut end) = (K::MIN, K::MIN);
            if row < args.count {
                // SAFETY: a row.
                (low, end) =
                    unsafe { (simt.load(args.lows, row, Hint::Streaming), simt.load(args.ends, row, Hint::Streaming)) };
            }
            // SAFETY: all lanes are here.
            let mut cursor = unsafe { probe.lower_bound(low) };
            if simt.opaque(row) >= args.count {
                continue;
            }
            let (mut sum, mut last, mut left) = (0_u64, None, args.limit);
            while left > 0 {
                let Some((key, value)) = cursor.key_value() else { break };
                // As the tree orders them, also signed keys, which are unsigned words here.
                if key >= end {
                    break;
                }
                sum = sum.wrapping_add(if V::IS_SOME { value.word().widen() } else { 1 });
                (last, left) = (Some(key), left - 1);
                if left > 0 {
                    // SAFETY: a cursor of this index.
                    unsafe { probe.advance(&mut cursor) };
                }
            }
            // SAFETY: a row.
            unsafe {
                if let Some(key) = last {
                    simt.store(args.last_keys, row, key.bits(), Hint::Streaming);
                }
                simt.store(args.sums, row, sum, Hint::Streaming);
            }
        }
    }
}
