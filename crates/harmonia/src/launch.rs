//! Launches over the operations of a batch.

use lanetree_frame::{Result, launch};
use lanetree_kernels_harmonia::THREADS;
use lanetree_runtime::{Launch, Stream};

/// A launch of `lanes` threads for each of `count` queries, or of what else there is.
///
/// # Errors
/// [`Error::BatchTooLarge`](lanetree_frame::Error::BatchTooLarge).
pub(super) fn over(stream: &Stream, count: u64, lanes: u32) -> Result<Launch<'_>> {
    launch::over(stream, count, lanes, THREADS)
}
