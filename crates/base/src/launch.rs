//! Launches over the elements of a batch.

use crate::{Error, Result};
use lanetree_runtime::{Launch, Stream};
use lanetree_simt::{LaunchShape, WARP};

/// Threads of a block, where a kernel takes any number.
pub const THREADS: u32 = 256;

/// A launch of `threads_per_item` threads for each of `items`, in blocks of `block` threads, or in one block of fewer
/// whole warps if those are enough. For kernels that run in blocks of any size.
///
/// # Errors
/// [`Error::BatchTooLarge`].
pub fn over(stream: &Stream, items: u64, threads_per_item: u32, block: u32) -> Result<Launch<'_>> {
    let too_large = || Error::BatchTooLarge { queries: usize::try_from(items).unwrap_or(usize::MAX) };
    let threads = items.checked_mul(u64::from(threads_per_item)).ok_or_else(too_large)?;
    let mut shape = LaunchShape::covering(threads, block).ok_or_else(too_large)?;
    if shape.blocks == 1 {
        // `threads` is at most `block`.
        shape.threads = (threads.max(1) as u32).next_multiple_of(WARP).min(block);
    }
    Ok(Launch::new(stream, shape))
}
