//! The device-wide primitives under the indexes.

mod batches;
mod columns;
mod expand;
mod local_sort;
mod merge;
mod runs;
mod scan;
mod select;

use super::answer::Answer;
use super::compare::{Difference, Output, Sabotage};
use core::fmt::Debug;
use lanetree::{Device, DeviceKind, Result};

/// An operation over words of given types.
pub(crate) struct Operation {
    /// What it is called in names of cases and in tables.
    pub(crate) name: &'static str,
    /// The types of keys and values.
    pub(crate) words: &'static str,
    /// Runs it on a number of elements, with a seed.
    pub(crate) run: fn(&Device, usize, u64, Option<Sabotage>) -> Result<Answer>,
}

/// Lengths at the borders of warps, blocks and tiles, and beyond what a look-back sees at once.
pub(crate) const LENGTHS: [usize; 13] =
    [0, 1, 31, 255, 257, 2047, 2048, 2049, 3073, 5000, 9001, 200_003, (1 << 22) + 1];

/// The longest for the emulator.
pub(crate) const LONGEST_EMULATED: usize = 10_000;

/// All operations over keys and values of a pair of types.
macro_rules! pairs {
    ($k:ty, $v:ty, $words:literal) => {
        [
            Operation { name: "select", words: $words, run: select::run::<$k, $v, false> },
            Operation { name: "partition", words: $words, run: select::run::<$k, $v, true> },
            Operation { name: "unique, last by key", words: $words, run: runs::last::<$k, $v> },
            Operation { name: "run lengths", words: $words, run: runs::lengths::<$k, $v> },
            Operation { name: "local_sort_pairs", words: $words, run: local_sort::run::<$k, $v> },
            Operation { name: "sum by key", words: $words, run: runs::sums::<$k, $v> },
            Operation { name: "merge", words: $words, run: merge::run::<$k, $v, false> },
            Operation { name: "merge, replacing", words: $words, run: merge::run::<$k, $v, true> },
        ]
    };
}

/// Every operation of a kind of device.
pub(crate) fn operations(kind: DeviceKind) -> Vec<Operation> {
    let mut operations = vec![
        Operation { name: "exclusive_scan", words: "u64", run: scan::sums::<u64> },
        Operation { name: "exclusive_scan", words: "u32", run: scan::sums::<u32> },
        Operation { name: "inclusive_max_scan", words: "u64", run: scan::maxima::<u64> },
        Operation { name: "inclusive_max_scan", words: "u32", run: scan::maxima::<u32> },
        Operation { name: "spans of values", words: "u32", run: expand::spans::<u32, u64> },
        Operation { name: "spans of values", words: "u64", run: expand::spans::<u64, u32> },
        Operation { name: "composite keys", words: "u32-i32", run: columns::compose::<u32, i32> },
        Operation { name: "composite keys", words: "i32-u64", run: columns::compose::<i32, u64> },
        Operation { name: "composite keys", words: "i64-u32", run: columns::compose::<i64, u32> },
        Operation { name: "composite keys", words: "u64-i64", run: columns::compose::<u64, i64> },
        Operation { name: "words of floats", words: "f32", run: columns::floats32 },
        Operation { name: "words of floats", words: "f64", run: columns::floats64 },
        Operation { name: "bytes of hits", words: "u32", run: columns::bits },
        Operation { name: "hits of nulls", words: "u32", run: columns::nulls },
        Operation { name: "clamped queries", words: "u64-u32", run: columns::clamped::<u32, u64> },
        Operation { name: "clamped queries", words: "i32-u32", run: columns::clamped::<u32, i32> },
        Operation { name: "clamped queries", words: "i32-u64", run: columns::clamped::<u64, i32> },
        Operation { name: "clamped queries", words: "u64-i64", run: columns::clamped::<i64, u64> },
        Operation { name: "clamped queries", words: "i32-u128", run: columns::clamped::<u128, i32> },
        Operation { name: "clamped queries", words: "i64-u128", run: columns::clamped::<u128, i64> },
        Operation { name: "bounds of joins", words: "i32", run: columns::join_bounds::<i32> },
        Operation { name: "bounds of joins", words: "u64", run: columns::join_bounds::<u64> },
        Operation { name: "bounds of joins", words: "u128", run: columns::join_bounds::<u128> },
        Operation { name: "numbers of probes", words: "u64", run: columns::numbers },
        Operation { name: "probes without a match", words: "u32", run: columns::misses::<u32> },
        Operation { name: "probes without a match", words: "u64", run: columns::misses::<u64> },
        Operation { name: "rows of probes", words: "u64", run: columns::settled },
    ];
    operations.extend(pairs!(u32, u32, "u32-u32"));
    operations.extend(pairs!(i32, u64, "i32-u64"));
    operations.extend(pairs!(u64, u32, "u64-u32"));
    operations.extend(pairs!(i64, u64, "i64-u64"));
    operations.extend(pairs!(u128, u32, "u128-u32"));
    operations.extend(pairs!(u128, u64, "u128-u64"));
    // The CPU folds and sorts batches by itself.
    if kind != DeviceKind::Host {
        operations.extend([
            Operation { name: "fold operations", words: "u64", run: batches::fold::<u64> },
            Operation { name: "fold operations", words: "i32", run: batches::fold::<i32> },
            Operation { name: "fold operations", words: "u128", run: batches::fold::<u128> },
            Operation { name: "pairs of a build", words: "u64-u64", run: batches::build::<u64, u64> },
            Operation { name: "pairs of a build", words: "i32-u32", run: batches::build::<i32, u32> },
            Operation { name: "pairs of a build", words: "u128-u32", run: batches::build::<u128, u32> },
            Operation { name: "pairs of a build", words: "u128-u64", run: batches::build::<u128, u64> },
            Operation { name: "keys of a build", words: "i32", run: batches::build::<i32, ()> },
            Operation { name: "keys of a build", words: "u128", run: batches::build::<u128, ()> },
        ]);
    }
    operations
}

/// An output of which `expected` should be written, with room for `room` elements.
fn output<T: bytemuck::Pod + PartialEq + Debug + Send + Sync>(
    device: &Device,
    what: &'static str,
    expected: usize,
    room: usize,
) -> Result<Output<T>> {
    Output::with_guard(device, what, expected, room - expected + 5)
}

/// Compares an output with what should be in it.
fn differs<T: bytemuck::Pod + PartialEq + Debug + Send + Sync>(
    output: Output<T>,
    expected: &[T],
    sabotage: Option<Sabotage>,
) -> Result<Option<Difference>> {
    Ok(output.read(sabotage)?.differs(&|i| Some(expected[i]), &|i| i.to_string()))
}
