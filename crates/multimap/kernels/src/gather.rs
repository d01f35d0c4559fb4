//! Copies the pairs of rows.

use crate::layout::begin;
use crate::rows::{Part, STEPS};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, Simt, WARP, Word, kernel_args, last_where};

kernel_args! {
    /// Two arrays of values, one after the other.
    pub struct Values<V> {
        /// `[first_len]`.
        pub first: Global<V>,
        /// Values of the first array.
        pub first_len: u64,
        /// `[second_len]`, at the positions after those of the first array.
        pub second: Global<V>,
        /// Values of the second array; may be 0.
        pub second_len: u64,
    }
}

impl<V: Word> Values<V> {
    /// Per thread. The value at a position; none if there is no such position.
    ///
    /// # Safety
    /// The arrays are valid.
    #[inline(always)]
    pub(crate) unsafe fn load<S: Simt>(&self, simt: S, position: u64) -> Option<V> {
        let past = position.wrapping_sub(self.first_len);
        // SAFETY: checked to be in the array.
        unsafe {
            if position < self.first_len {
                Some(simt.load(self.first, position, Hint::EvictFirst))
            } else if past < self.second_len {
                Some(simt.load(self.second, past, Hint::EvictFirst))
            } else {
                None
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Gather`].
    pub struct GatherArgs<K, V> {
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
        /// With keys: the first of each row's keys, `[rows + 1]`.
        pub key_offsets: Global<u64>,
        /// With keys: the keys of all rows, `[keys_len]`; a row that has a pair in `capacity` has its keys there.
        pub keys: Global<K>,
        /// With keys: their places, `[keys_len]`.
        pub places: Global<u64>,
        /// With keys: how many.
        pub keys_len: u64,
        /// Out, with keys: `[capacity]`, the key of each value.
        pub out_keys: GlobalMut<K>,
        /// Bits below the begins.
        pub shift: u32,
        /// 0.
        pub reserved: u32,
    }
}

/// Copies the values of rows, and with `KEYS` their keys: [`OUTPUTS`](crate::OUTPUTS) pairs per warp; any block of whole
/// warps.
#[derive(Debug)]
pub struct Gather<K, V, const KEYS: bool>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Word, const KEYS: bool> Kernel for Gather<K, V, KEYS> {
    type Args = GatherArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: there are so many rows and offsets; outputs below the capacity are in the output; positions are checked; keys
        // are of the row and below their number.
        unsafe {
            let total = simt.load(args.offsets, args.rows, Hint::ReadOnly).min(args.capacity);
            let Some(part) = Part::new(simt, args.offsets, args.rows, total) else { return };
            let mut at = part.first + u64::from(simt.lane());
            for _ in 0..STEPS {
                if at >= part.end {
                    return;
                }
                let (row, within) = part.row(simt, args.offsets, at);
                let position = (simt.load(args.begins, row, Hint::ReadOnly) >> args.shift) + within;
                if let Some(value) = args.values.load(simt, position) {
                    simt.store(args.out_values, at, value, Hint::Streaming);
                }
                if KEYS {
                    let first = simt.load(args.key_offsets, row, Hint::ReadOnly).min(args.keys_len);
                    let end = simt.load(args.key_offsets, row + 1, Hint::ReadOnly).min(args.keys_len);
                    if first < end {
                        let holds = |key| begin(simt.load(args.places, key, Hint::ReadOnly)) <= position;
                        let key = last_where(first, end - first, holds);
                        simt.store(args.out_keys, at, simt.load(args.keys, key, Hint::ReadOnly), Hint::Streaming);
                    }
                }
                at += u64::from(WARP);
            }
        }
    }
}
