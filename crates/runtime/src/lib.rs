//! Where Lanetree's kernels run.
//!
//! A [`Device`] is one of three machines: an NVIDIA GPU (with the feature `cuda`), the emulator, which
//! runs and checks kernels on any CPU, or the host, which runs no kernels and whose buffers the
//! library's native CPU paths use. Memory on it is a [`Buffer`], work on it goes through a
//! [`Stream`], time is measured between two [`Event`]s. Nothing falls back silently: a GPU that was
//! asked for and cannot be had is an [`Error`].
//!
//! ```
//! use lanetree_runtime::Device;
//!
//! let device = Device::emulated();
//! let mut keys = device.upload(&[3_u64, 1, 2])?;
//! keys.copy_from(&[1, 2, 3])?;
//! assert_eq!(keys.to_vec()?, [1, 2, 3]);
//! # Ok::<(), lanetree_runtime::Error>(())
//! ```
//!
//! # What waits for what
//!
//! | call | on a GPU, and on the emulator |
//! |---|---|
//! | [`Stream::launch`], `Buffer::*_async`, [`Buffer::fill_zero`], [`Buffer::copy_from_buffer`], [`Event::record`] | returns at once; runs in the stream's order, after the work of other streams over the same buffers that it conflicts with |
//! | [`Buffer::copy_to`], [`Buffer::to_vec`], reading a [`PinnedBuffer`] | waits for the stream that writes the buffer; complete on return |
//! | [`Buffer::copy_from`], writing a [`PinnedBuffer`] | waits for all streams that use the buffer; complete on return |
//! | [`Device::upload`], [`Device::alloc_zeroed`] | returns when the copy is complete; waits for no stream |
//! | [`Stream::synchronize`], [`Event::synchronize`], [`Event::elapsed_ms`] | waits for the work queued in that stream, or before that event |
//! | [`Device::synchronize`], dropping a [`Buffer`] that is not of a [`Pool`] | waits for all work on the device |
//! | dropping a [`Buffer`] of a [`Pool`] | returns at once; the memory goes to nobody else before that work is done |
//! | [`Device::alloc`] and what calls it, from a [`Pool`] | returns at once, or waits for all work on the device: see there |
//!
//! So safe code needs no event and no wait of its own for its results to be right, on any interleaving of streams and
//! threads: [`Buffer`] says how. What it takes is the borrow of each buffer during each call.
//!
//! # Launching kernels
//! [`Stream::launch`] is unsafe: a kernel reads and writes through raw addresses. A caller takes these by
//! [`Buffer::read_on`] and [`Buffer::write_on`] for the stream of the launch, and says at the call why the kernel's
//! contract holds.
//!
//! # The emulator
//! [`Device::emulated`] keeps what its streams are given until somebody waits, and then runs the streams in turns, in an
//! order that its seed chooses. A rule that a kernel has broken is the error of the next call that waits
//! ([`Error::Emulator`]); that nobody was told of one is a panic when the device is dropped. Memory that was not asked to
//! be zeroed holds no zeros. Work over a buffer that nothing orders after other streams' work over it is refused
//! ([`Error::Unordered`]); only unsafe code brings that about.

mod buffer;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
#[cfg(any(feature = "cuda", test))]
mod driver_error;
mod emulated;
mod error;
mod event;
mod failure;
mod host;
mod machine;
mod pinned;
mod pool;
mod recorded;
mod stream;
mod uses;

pub use buffer::Buffer;
pub use device::{Device, DeviceKind, MemoryInfo, Properties};
pub use error::{Error, Result};
pub use event::Event;
pub use failure::Failure;
pub use lanetree_simt::emulator::LaunchReport;
pub use pinned::PinnedBuffer;
pub use pool::{Pool, PoolStats};
pub use recorded::{record_kernels, recorded_kernels};
pub use stream::{Call, Stream};
