//! CuART's kernels.

pub mod build;
