//! Copies the pairs of rows.

use crate::layout::begin;
use core::marker::PhantomData;
use lanetree_kernels_base::rows::{AT_ONCE, InRow, ROWS_BOUNDS, ROWS_SHARED, STEP, WarpOutputs};
use lanetree_simt::{
    Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Simt, Word, kernel_args, last_where, unroll,
};

kernel_args! {
    /// Two arrays of values, one after the other.
    pub struct Values<V> {
        /// `[first_len]`.
        pub first: Global<V>,
        /// Values of the first array.
        pub first_len: u64,
        /// `[second_len]`, at the positions after the first array's.
        pub second: Global<V>,
        /// Values of the second array; may be 0.
        pub second_len: u64,
    }
}

impl<V: Word> Values<V> {
    /// Per thread. Where the value at a position is: an array, its element, and whether there is one. If there is none, the element is
    /// the first of `other`.
    #[inline(always)]
    fn at(&self, position: u64, other: Global<V>) -> (Global<V>, u64, bool) {
        let past = position.wrapping_sub(self.first_len);
        if position < self.first_len {
            (self.first, position, true)
        } else if past < self.second_len {
            (self.second, past, true)
        } else {
            (other, 0, false)
        }
    }
}

kernel_args! {
    /// Arguments of [`Gather`].
    pub struct GatherArgs<V> {
        /// The values.
        pub values: Values<V>,
        /// Where each row's values begin: `[rows]`, shifted left by `shift`.
        pub begins: Global<u64>,
        /// Where its pairs go: `[rows + 1]`, ascending from 0.
        pub offsets: Global<u64>,
        /// How many rows, at least one.
        pub rows: u64,
        /// Pairs for which there is room; pairs past it are not written.
        pub capacity: u64,
        /// Out: `[capacity]`, the values.
        pub out_values: GlobalMut<V>,
        /// Out: `[capacity]`, the row of each value; null if not wanted.
        pub out_rows: GlobalMut<u64>,
        /// Bits below the begins.
        pub shift: u32,
        /// 0.
        pub reserved: u32,
    }
}

impl<V: Word> GatherArgs<V> {
    /// Per thread. The positions of the values of a body's outputs.
    ///
    /// # Safety
    /// The outputs are in the rows.
    #[inline(always)]
    unsafe fn positions<S: Simt>(&self, simt: S, places: [[InRow; 2]; AT_ONCE]) -> [[u64; 2]; AT_ONCE] {
        let mut positions = [[0; 2]; AT_ONCE];
        unroll!(AT_ONCE, step => {
            // SAFETY: rows.
            positions[step] = places[step].map(|place| unsafe { simt.load(self.begins, place.row, Hint::ReadOnly) });
        });
        unroll!(AT_ONCE, step => {
            let [first, second] = positions[step];
            let [in_first, in_second] = places[step].map(|place| place.within);
            positions[step] = [(first >> self.shift) + in_first, (second >> self.shift) + in_second];
        });
        positions
    }

    /// Per thread. Writes a body's values, and their rows if they are wanted.
    ///
    /// # Safety
    /// The outputs are the body's.
    #[inline(always)]
    unsafe fn write<S: Simt>(
        &self,
        simt: S,
        outputs: &WarpOutputs,
        at: u64,
        (places, positions): ([[InRow; 2]; AT_ONCE], [[u64; 2]; AT_ONCE]),
    ) {
        let mut values = [[V::MIN; 2]; AT_ONCE];
        let mut are_there = [[false; 2]; AT_ONCE];
        // SAFETY: values that are there, or the first word of what has at least one; outputs before the end.
        unsafe {
            // Without a branch around any, all loads go out together.
            unroll!(AT_ONCE, step => {
                unroll!(2, i => {
                    // Past the last output a position is of any row, and its value may never have been written.
                    let is_output = outputs.has(at + STEP * step as u64 + i as u64);
                    let position = if is_output { positions[step][i] } else { u64::MAX };
                    let (array, element, is_there) = self.values.at(position, self.offsets.cast());
                    values[step][i] = simt.load(array, element, Hint::EvictFirst);
                    are_there[step][i] = is_there;
                });
            });
            unroll!(AT_ONCE, step => {
                let at = at + STEP * step as u64;
                if !self.out_rows.is_null() {
                    outputs.store(simt, self.out_rows, at, places[step].map(|place| place.row), [true; 2]);
                }
                outputs.store(simt, self.out_values, at, values[step], are_there[step]);
            });
        }
    }
}

/// Copies the values of rows, and writes the row of each: [`OUTPUTS`](lanetree_kernels_base::rows::OUTPUTS) values per warp; any
/// block of whole warps.
#[derive(Debug)]
pub struct Gather<V>(PhantomData<V>);

impl<V: Word> Kernel for Gather<V> {
    type Args = GatherArgs<V>;
    const STATIC_SHARED: u32 = ROWS_SHARED;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(ROWS_BOUNDS);

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: rows and offsets are as many as the arguments say; outputs below the capacity are in the output.
        unsafe {
            let total = simt.load(args.offsets, args.rows, Hint::ReadOnly).min(args.capacity);
            let Some(outputs) = WarpOutputs::new(simt, args.offsets, args.rows, total) else { return };
            outputs.each(simt, |at, places| {
                let positions = args.positions(simt, places);
                args.write(simt, &outputs, at, (places, positions));
            });
        }
    }
}

kernel_args! {
    /// Arguments of [`GatherPairs`].
    pub struct GatherPairsArgs<K, V> {
        /// The rows and their values.
        pub rows: GatherArgs<V>,
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
    }
}

/// Copies the values of rows as [`Gather`] does, and their keys.
#[derive(Debug)]
pub struct GatherPairs<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Word> Kernel for GatherPairs<K, V> {
    type Args = GatherPairsArgs<K, V>;
    const STATIC_SHARED: u32 = ROWS_SHARED;
    // With one block more, registers spill for compute capability 12.0.
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { blocks: 3, ..ROWS_BOUNDS });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let rows = &args.rows;
        // SAFETY: rows and offsets are as many as the arguments say; outputs below the capacity are in the output; keys are of the row and below
        // their number.
        unsafe {
            let total = simt.load(rows.offsets, rows.rows, Hint::ReadOnly).min(rows.capacity);
            let Some(outputs) = WarpOutputs::new(simt, rows.offsets, rows.rows, total) else { return };
            outputs.each(simt, |at, places| {
                let positions = rows.positions(simt, places);
                rows.write(simt, &outputs, at, (places, positions));
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
