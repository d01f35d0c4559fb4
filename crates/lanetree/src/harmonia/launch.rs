//! The way from a choice of kernel to its launch.

use crate::{Error, Result};
use lanetree_kernels_harmonia::THREADS;
use lanetree_runtime::Stream;
use lanetree_simt::{Instance, LaunchShape, Launcher};

/// Launches over a number of threads.
pub(super) struct Launch<'a> {
    stream: &'a Stream,
    shape: LaunchShape,
}

impl<'a> Launch<'a> {
    /// `threads_per_query` threads for each of `queries` queries.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`].
    pub(super) fn new(stream: &'a Stream, queries: usize, threads_per_query: u32) -> Result<Self> {
        let too_large = || Error::BatchTooLarge { queries };
        let threads = (queries as u64).checked_mul(u64::from(threads_per_query)).ok_or_else(too_large)?;
        Ok(Self { stream, shape: LaunchShape::covering(threads, THREADS).ok_or_else(too_large)? })
    }
}

impl Launcher for Launch<'_> {
    type Output = lanetree_runtime::Result<()>;

    fn launch<I: Instance>(self, args: &I::Args) -> Self::Output {
        // SAFETY: the callers in this module's siblings check the buffers' lengths and that they are of
        // the stream's device; the tree is valid by construction, borrowed for the call, and dropping
        // it, or any buffer, waits for the kernel.
        unsafe { self.stream.launch::<I>(self.shape, args) }
    }
}
