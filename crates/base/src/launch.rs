//! Launches over the elements of a batch.

use crate::{Error, Result};
use lanetree_runtime::{Launch, Stream};
use lanetree_simt::LaunchShape;

/// Threads of a block, where a kernel takes any number.
pub const THREADS: u32 = 256;

/// A launch of `threads_per_item` threads for each of `items`, in blocks of `block` threads.
///
/// # Errors
/// [`Error::BatchTooLarge`].
pub fn over(stream: &Stream, items: u64, threads_per_item: u32, block: u32) -> Result<Launch<'_>> {
    let too_large = || Error::BatchTooLarge { queries: usize::try_from(items).unwrap_or(usize::MAX) };
    let threads = items.checked_mul(u64::from(threads_per_item)).ok_or_else(too_large)?;
    let shape = LaunchShape::covering(threads, block).ok_or_else(too_large)?;
    Ok(Launch::new(stream, shape))
}
