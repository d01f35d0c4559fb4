//! Copies the pairs of rows.

use crate::layout::begin;
use core::marker::PhantomData;
use lanetree_kernels_base::rows::{AT_ONCE, ROWS_BOUNDS, ROWS_SHARED, STEP, WarpOutputs};
use lanetree_simt::{
    Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Simt, Word, kernel_args, last_where, unroll,
};

kernel_args! {
    /// Arguments of [`GatherPairs`].
    pub struct GatherPairsArgs<K, V> {
        /// `[values_len]`.
        pub values: Global<V>,
        /// How many values.
        pub values_len: u64,
        /// The position of each row's first value: `[rows]`.
        pub begins: Global<u64>,
        /// Where its pairs go: `[rows + 1]`, ascending from 0.
        pub offsets: Global<u64>,
        /// How many rows, at least one.
        pub rows: u64,
        /// Pairs for which there is room; pairs past it are not written.
        pub capacity: u64,
        /// The first of each row's keys, `[rows + 1]`.
        pub key_offsets: Global<u64>,
        /// The keys of all rows, `[keys_len]`; a row that has a pair in the capacity has its keys there.
        pub keys: Global<K>,
        /// Their places, `[keys_len]`.
        pub places: Global<u64>,
        /// How many.
        pub keys_len: u64,
        /// Out: `[capacity]`, the key of each value.
        pub out_keys: GlobalMut<K>,
        /// Out: `[capacity]`, the values.
        pub out_values: GlobalMut<V>,
    }
}

/// Copies the values of rows and their keys: [`OUTPUTS`](lanetree_kernels_base::rows::OUTPUTS) pairs per warp; any block of whole
/// warps.
#[derive(Debug)]
pub struct GatherPairs<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Word> Kernel for GatherPairs<K, V> {
    type Args = GatherPairsArgs<K, V>;
    const STATIC_SHARED: u32 = ROWS_SHARED;
    // With one block more, registers spill for compute capability 12.0.
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { blocks: 3, ..ROWS_BOUNDS });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: rows and offsets are as many as the arguments say; outputs below the capacity are in the output; values are there, or
        // the first word of what has at least one; keys are of the row and below their number.
        unsafe {
            let total = simt.load(args.offsets, args.rows, Hint::ReadOnly).min(args.capacity);
            let Some(outputs) = WarpOutputs::new(simt, args.offsets, args.rows, total) else { return };
            outputs.each(simt, |at, places| {
                let mut positions = [[0; 2]; AT_ONCE];
                unroll!(AT_ONCE, step => {
                    positions[step] = places[step].map(|place| simt.load(args.begins, place.row, Hint::ReadOnly) + place.within);
                });
                let mut values = [[V::MIN; 2]; AT_ONCE];
                let mut are_there = [[false; 2]; AT_ONCE];
                // Without a branch around any, all loads go out together.
                unroll!(AT_ONCE, step => {
                    unroll!(2, i => {
                        // Past the last output a position is of any row, and its value may never have been written.
                        let position = positions[step][i];
                        let is_there = outputs.has(at + STEP * step as u64 + i as u64) && position < args.values_len;
                        let (array, element) = if is_there { (args.values, position) } else { (args.offsets.cast(), 0) };
                        values[step][i] = simt.load(array, element, Hint::EvictFirst);
                        are_there[step][i] = is_there;
                    });
                });
                unroll!(AT_ONCE, step => {
                    outputs.store(simt, args.out_values, at + STEP * step as u64, values[step], are_there[step]);
                });
                unroll!(AT_ONCE, step => {
                    unroll!(2, i => {
                        let (at, row) = (at + STEP * step as u64 + i as u64, places[step][i].row);
                        let first = simt.load(args.key_offsets, row, Hint::ReadOnly).min(args.keys_len);
                        let end = simt.load(args.key_offsets, row + 1, Hint::ReadOnly).min(args.keys_len);
                        if first < end && at < total {
                            let holds = |key| begin(simt.load(args.places, key, Hint::ReadOnly)) <= positions[step][i];
                            let key = last_where(first, end - first, holds);
                            simt.store(args.out_keys, at, simt.load(args.keys, key, Hint::ReadOnly), Hint::Streaming);
                        }
                    });
                });
            });
        }
    }
}
