//! The device-wide primitives under the indexes.

mod local_sort;
mod merge;
mod runs;
mod scan;
mod select;

use super::compare::{Difference, Output, Sabotage};
use super::harmonia::Answer;
use core::fmt::Debug;
use lanetree::{Device, Result};

/// An operation over words of given types.
pub(crate) struct Operation {
    /// What it is called in names of cases and in tables.
    pub(crate) name: &'static str,
    /// The types of keys and values.
    pub(crate) words: &'static str,
    /// The kernels that it runs.
    pub(crate) kernels: &'static [&'static str],
    /// Runs it on so many elements.
    pub(crate) run: fn(&Device, usize, u64, Option<Sabotage>) -> Result<Answer>,
}

/// Lengths at the borders of warps, blocks and tiles, and beyond what a look-back sees at once.
pub(crate) const LENGTHS: [usize; 13] =
    [0, 1, 31, 255, 257, 2047, 2048, 2049, 3073, 5000, 9001, 200_003, (1 << 22) + 1];

/// The longest for the emulator.
pub(crate) const LONGEST_EMULATED: usize = 10_000;

macro_rules! operation {
    ($name:literal, $words:literal, $run:expr, [$($module:literal $kernel:literal),*]) => {
        Operation { name: $name, words: $words, kernels: &[$(concat!("primitives_", $module, "__", $kernel)),*], run: $run }
    };
}

/// All operations over keys and values of four types.
macro_rules! pairs {
    ($operations:ident, $k:ty, $v:ty, $words:literal, $key_module:literal, $module:literal, $sort:literal, $lengths:literal) => {
        $operations.extend([
            operation!("select", $words, select::run::<$k, $v, false>, [$key_module "select", $module "select"]),
            operation!(
                "partition", $words, select::run::<$k, $v, true>,
                [$key_module "partition", $module "partition", "scan" "count_flags"]
            ),
            operation!("unique, last by key", $words, runs::last::<$k, $v>, [$key_module "unique", $module "last"]),
            operation!("run lengths", $words, runs::lengths::<$k, $v>, [$key_module $lengths]),
            operation!("local_sort_pairs", $words, local_sort::run::<$k, $v>, [$sort "local_sort"]),
            operation!("sum by key", $words, runs::sums::<$k, $v>, [$module "sums"]),
            operation!(
                "merge", $words, merge::run::<$k, $v, false>,
                [$key_module "merge", $key_module "splits", $module "merge", $module "splits"]
            ),
            operation!(
                "merge, replacing", $words, merge::run::<$k, $v, true>,
                [$key_module "merge_replacing", $key_module "splits", $module "merge_replacing", $module "splits"]
            ),
        ]);
    };
}

/// Every operation.
pub(crate) fn operations() -> Vec<Operation> {
    let mut operations = vec![
        operation!("exclusive_scan", "u64", scan::sums::<u64>, ["scan" "exclusive_sum_u64"]),
        operation!("exclusive_scan", "u32", scan::sums::<u32>, ["scan" "exclusive_sum_u32"]),
        operation!("inclusive_max_scan", "u64", scan::maxima::<u64>, ["scan" "inclusive_max_u64"]),
        operation!("inclusive_max_scan", "u32", scan::maxima::<u32>, ["scan" "inclusive_max_u32"]),
    ];
    pairs!(operations, u32, u32, "u32-u32", "u32", "u32_u32", "sort_u32_u32", "lengths_u32");
    pairs!(operations, i32, u64, "i32-u64", "u32", "u32_u64", "sort_u32_u64", "lengths_u64");
    pairs!(operations, u64, u32, "u64-u32", "u64", "u64_u32", "sort_u64_u32", "lengths_u32");
    pairs!(operations, i64, u64, "i64-u64", "u64", "u64_u64", "sort_u64_u64", "lengths_u64");
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
