//! The tree as an argument of a user's own kernels.

use crate::LaneTree;
use crate::device::shape_over;
use crate::tuning::TUNING;
use lanetree_frame::error::same_device;
use lanetree_frame::{Error, Result, Stream};
use lanetree_kernels_lane_tree::Handle;
use lanetree_layout::{AnyKey, Value};
use lanetree_simt::LaunchShape;

impl<K: AnyKey, V: Value> LaneTree<K, V> {
    /// The tree for a kernel of your own that is launched next on `stream`: a `Copy` struct, to be a field of the kernel's
    /// arguments. The kernel calls [`Handle::enter`], and then looks keys up where it has them, or walks along the pairs from
    /// a bound on. So a join or a filter needs no pass for its look-ups, and no memory for their results. A complete example
    /// is the crate `lanetree-joins` in Lanetree's repository.
    ///
    /// The handle has addresses, as [`Buffer::read_on`](lanetree_frame::Buffer::read_on) returns them, and the same
    /// rules hold. The stream waits for other streams that write the tree, and whatever changes or drops the tree later
    /// waits for the stream. The caller of a launch states, with [`Stream::launch`]'s contract, that the tree has
    /// been borrowed from this call to the launch: a handle is for one launch, and after a batch of changes call
    /// `handle_on` again.
    ///
    /// A kernel has keys as words, in the form in which a buffer of keys holds them: an `i64` is the `u64` of its bits.
    ///
    /// # Errors
    /// [`Error::Lost`]; [`Error::Runtime`] for a stream of another device. On the host, which runs no kernels, the launch is an
    /// error.
    pub fn handle_on(&self, stream: &Stream) -> Result<Handle<K::Bits, V>> {
        let parts = self.parts.get()?;
        same_device(&self.device, stream.device(), "the stream")?;
        Ok(Handle::new(parts.tree_ref(stream, K::FLIP)?))
    }
}

/// A shape of a launch over `rows` rows, each of them a thread's, for a kernel that probes trees: at most one block on each
/// multiprocessor, since each block copies what is above the nodes; its threads then take one row after another. A block has
/// at most `most_threads` threads, a multiple of 32 from 128 to 1024.
///
/// `shared_bytes` gives the dynamic shared memory of a block by its threads: for one tree
/// `|threads| handle.shared_bytes(threads)`, for two the sum of both. A block has fewer threads where the device has
/// too little shared memory for them; of two trees with any [`table_nodes`](crate::Builder::table_nodes) it has at
/// least 256.
///
/// # Errors
/// [`Error::OptionValue`] for another number of threads; [`Error::SharedMemory`] where the device has too little shared memory even
/// for 32 threads; [`Error::Runtime`] from the device.
pub fn shape_for_rows(
    stream: &Stream,
    rows: u64,
    most_threads: u32,
    shared_bytes: impl Fn(u32) -> u32,
) -> Result<LaunchShape> {
    if !(128..=1024).contains(&most_threads) || !most_threads.is_multiple_of(32) {
        let (what, value) = ("a number of threads of a block", most_threads.to_string());
        return Err(Error::OptionValue { what, value, allowed: "multiples of 32 from 128 to 1024" });
    }
    let rows = rows.max(1);
    shape_over(stream, rows, rows.min(TUNING.on(stream.device())?.block_threads)..=most_threads.into(), 0, shared_bytes)
}
