//! Launches over the operations of a batch.

use crate::{Error, Result};
use lanetree_kernels_harmonia::THREADS;
use lanetree_launch::Launch;
pub(super) use lanetree_launch::harmonia::{gather, get, get_sorted, neighbor, range, rank, scatter, update};
use lanetree_runtime::Stream;
use lanetree_simt::LaunchShape;

/// A launch of `threads_per_query` threads for each of `queries` queries.
///
/// # Errors
/// [`Error::BatchTooLarge`].
pub(super) fn over(stream: &Stream, queries: usize, threads_per_query: u32) -> Result<Launch<'_>> {
    over_in_blocks(stream, queries, threads_per_query, THREADS)
}

/// [`over`], in blocks of a number of threads.
///
/// # Errors
/// [`Error::BatchTooLarge`].
pub(super) fn over_in_blocks(
    stream: &Stream,
    queries: usize,
    threads_per_query: u32,
    block: u32,
) -> Result<Launch<'_>> {
    let too_large = || Error::BatchTooLarge { queries };
    let threads = (queries as u64).checked_mul(u64::from(threads_per_query)).ok_or_else(too_large)?;
    let shape = LaunchShape::covering(threads, block).ok_or_else(too_large)?;
    Ok(Launch::new(stream, shape))
}
