//! A join with two indexes.

use crate::warp::{BOUNDS, rows};
use core::marker::PhantomData;
use lanetree_kernels_lane_tree::Handle;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, LaunchBounds, Simt, WARP, Word, kernel_args};

kernel_args! {
    /// Arguments of [`StarJoin`].
    pub struct StarJoinArgs<K, V> {
        /// The indexes.
        pub indexes: [Handle<K, V>; 2],
        /// The rows' keys for each: `[count]`.
        pub keys: [Global<K>; 2],
        /// How many rows.
        pub count: u64,
        /// Out: `[ceil(count / 32)]`, the hit mask: bit `i % 32` of word `i / 32` is set if row `i` joins with both.
        pub hits: GlobalMut<u32>,
    }
}

/// Finds the rows whose keys are in both indexes: one row per lane and turn, launched as [`SemiJoin`](crate::SemiJoin), with
/// shared memory for both handles, one after the other.
#[derive(Debug)]
pub struct StarJoin<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for StarJoin<K, V> {
    type Args = StarJoinArgs<K, V>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = BOUNDS;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let [first, second] = &args.indexes;
        // SAFETY: the handles are valid, and their shared memory is there.
        let probes = unsafe { (first.enter(simt, 0), second.enter(simt, first.shared_bytes(simt.block_dim()))) };
        for row in rows(simt, args.count) {
            let mut keys = [K::MIN; 2];
            if row < args.count {
                // SAFETY: a row.
                keys = args.keys.map(|keys| unsafe { simt.load(keys, row, Hint::Streaming) });
            }
            // SAFETY: all lanes are here.
            let mut joins = unsafe { probes.0.get(keys[0]) }.is_some();
            // The same for all lanes. Where no row of the warp has joined, the second index is not read.
            if simt.any(FULL_MASK, joins) {
                // SAFETY: as above.
                joins &= unsafe { probes.1.get(keys[1]) }.is_some();
            }
            let hits = simt.ballot(FULL_MASK, joins & (row < args.count));
            let row = simt.opaque(row);
            if simt.lane() == 0 {
                // SAFETY: the warp has a row, and there is a word for each 32.
                unsafe { simt.store(args.hits, row / u64::from(WARP), hits, Hint::Streaming) };
            }
        }
    }
}
