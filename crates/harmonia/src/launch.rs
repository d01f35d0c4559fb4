//! Launches over the operations of a batch.

use lanetree_frame::{Result, launch};
use lanetree_kernels_harmonia::THREADS;
use lanetree_runtime::Launch;
use lanetree_runtime::Stream;

/// A launch of `threads_per_query` threads for each of `queries` queries.
///
/// # Errors
/// [`Error::BatchTooLarge`](lanetree_frame::Error::BatchTooLarge).
pub(super) fn over(stream: &Stream, queries: usize, threads_per_query: u32) -> Result<Launch<'_>> {
    over_in_blocks(stream, queries, threads_per_query, THREADS)
}

/// A launch of `groups` groups of `lanes` lanes each.
///
/// # Errors
/// [`Error::BatchTooLarge`](lanetree_frame::Error::BatchTooLarge).
pub(super) fn groups(stream: &Stream, groups: u64, lanes: u32) -> Result<Launch<'_>> {
    launch::over(stream, groups, lanes, THREADS)
}

/// [`over`], in blocks of a number of threads.
///
/// # Errors
/// [`Error::BatchTooLarge`](lanetree_frame::Error::BatchTooLarge).
pub(super) fn over_in_blocks(
    stream: &Stream,
    queries: usize,
    threads_per_query: u32,
    block: u32,
) -> Result<Launch<'_>> {
    launch::over(stream, queries as u64, threads_per_query, block)
}
