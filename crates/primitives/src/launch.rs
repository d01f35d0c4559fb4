//! Launches over tiles.

use lanetree_base::{Error, Result};
use lanetree_kernels_primitives::THREADS;
use lanetree_kernels_primitives::lookback::state_words;
use lanetree_runtime::Launch;
use lanetree_runtime::{Buffer, Stream};
use lanetree_simt::LaunchShape;

/// A launch of a block for each tile of `tile` elements, at least one.
///
/// # Errors
/// [`Error::BatchTooLarge`].
pub(super) fn tiles(stream: &Stream, elements: usize, tile: u64) -> Result<Launch<'_>> {
    let blocks = (elements as u64).div_ceil(tile).max(1);
    if blocks >= 1 << 31 {
        return Err(Error::BatchTooLarge { queries: elements });
    }
    let shape = LaunchShape { blocks: blocks as u32, threads: THREADS, dynamic_shared: 0 };
    Ok(Launch::new(stream, shape))
}

/// Zeroes the state of a look-back over the tiles of a launch, in the stream's order.
pub(super) fn reset(launch: Launch<'_>, state: &mut Buffer<u64>, carry_words: usize) -> Result<()> {
    let words = state_len(launch.shape().blocks.into(), carry_words);
    Ok(state.fill_zero_range(launch.stream(), 0..words)?)
}

/// Words of the state of a look-back over that many tiles.
pub(super) fn state_len(tiles: u64, carry_words: usize) -> usize {
    usize::try_from(state_words(tiles, carry_words)).unwrap_or(usize::MAX)
}
