//! Where Lanetree's kernels run.
//!
//! A [`Device`] is one of three machines: an NVIDIA GPU (with the feature `cuda`), the emulator, which
//! runs and checks kernels on any CPU, or the host, which runs no kernels and whose buffers the
//! library's native CPU paths use. Memory on it is a [`Buffer`], work on it goes through a
//! [`Stream`], time is measured between two [`Event`]s. A [`HostArray`] is host memory, in
//! huge pages where wanted, that kernels can read, and a [`Line`] is what the CPU's caches hold
//! of it; [`Simd`] says which vector instructions the CPU has.
//!
//! [`Device::cuda`] never falls back: if the GPU cannot be used, it returns an [`Error`]. [`Device::best`] then takes the
//! host, and [`Device::why_no_gpu`] has that error; it warns on stderr if there is a GPU. Which pages an array has, it says.
//!
//! ```
//! # mod lanetree { pub use lanetree_runtime::{self as runtime, *}; }
//! use lanetree::Device;
//!
//! let device = Device::host(); // or Device::cuda(0)?, Device::best(), Device::emulated() (feature `emulator`)
//! let mut keys = device.upload(&[3_u64, 1, 2])?;
//! keys.copy_from(&[1, 2, 3])?;
//! assert_eq!(keys.to_vec()?, [1, 2, 3]);
//! # Ok::<(), lanetree::runtime::Error>(())
//! ```
//!
//! # What waits for what
//!
//! | call | on a GPU, and on the emulator |
//! |---|---|
//! | [`Stream::launch`], `Buffer::*_async`, [`Buffer::fill_zero`], [`Buffer::copy_from_buffer`], [`Buffer::copy_from_peers`], [`Event::record`] | returns at once; runs in the stream's order, after the work of other streams over the same buffers that it conflicts with |
//! | [`Buffer::copy_to`], [`Buffer::to_vec`], reading a [`PinnedBuffer`] | waits for the stream that writes the buffer; complete on return |
//! | [`Buffer::copy_from`], writing a [`PinnedBuffer`] | waits for all streams that use the buffer; complete on return |
//! | writing, unpinning or dropping a [`HostArray`] | waits for all streams that read the array; complete on return |
//! | [`Device::upload`], [`Device::alloc_zeroed`] | returns when the copy is complete; waits for no stream |
//! | [`Stream::synchronize`], [`Event::synchronize`], [`Event::elapsed_ms`] | waits for the work queued in that stream, or before that event |
//! | [`Device::synchronize`], dropping a [`Buffer`] that is not of a [`Pool`] | waits for all work on the device |
//! | dropping a [`Buffer`] of a [`Pool`] | returns at once; the memory is not reused before that work is done |
//! | [`Device::alloc`] and what calls it, from a [`Pool`] | returns at once, or waits for all work on the device: see [`Pool`] |
//!
//! So safe code gets right results without events or waits of its own, on any interleaving of streams and threads:
//! [`Buffer`] says how. It only has to borrow each buffer for the duration of each call.
//!
//! # Launching kernels
//! [`Stream::launch`] is unsafe: a kernel reads and writes through raw addresses. A caller gets these from
//! [`Buffer::read_on`], [`Buffer::write_on`] and [`HostArray::read_on`] for the stream of the launch, and states at the
//! call why the kernel's contract holds.
//!
//! # CUDA, and other libraries on it
//! The feature `cuda` needs nothing to build: no CUDA toolkit, and no driver. The driver's library (`libcuda.so.1`,
//! `nvcuda.dll`) is loaded when the first GPU is opened. Without a driver the program still runs: [`Device::cuda`]
//! returns [`Error::NoDriver`], and [`Device::best`] is the host.
//!
//! Every GPU is used through its primary context, like in other CUDA libraries. Take over their streams with
//! [`Device::stream_from_raw`] and their memory with [`Device::buffer_from_raw`]. Lend buffers to them with
//! [`Buffer::lend_on`] and [`Buffer::lend_mut_on`], for work in one stream, or give them away with
//! [`Buffer::into_raw`]. The table above holds for all of these, except for what their contracts leave to the caller.
//!
//! The driver compiles each kernel at its first launch, in 10 to 400 milliseconds, unless its own cache on disk has the
//! result. Drivers from CUDA 12 on compile several at once, so an index has all kernels of an operation compiled
//! together: [`Device::load_ahead`]. Where every start is a cold one, compile ahead of time: the program
//! `lanetree-compile-kernels` (`cargo install --path crates/lanetree --features cuda,all-indexes`) fills a folder with
//! machine code, and the environment variable [`MACHINE_CODE`] names it.
//!
//! With the feature `cust`, GPUs are opened through the crate cust, and the module `cust` shares contexts, streams and
//! buffers with it. cust links the driver, so building with this feature needs the CUDA toolkit, and starting the
//! program needs a driver.
//!
//! # The emulator
//! An emulated device is as the smallest card that is supported, or as another [`Card`]: it has its properties, and refuses the
//! launches that it would refuse. [`Device::emulated`] queues the work of its streams until somebody waits. Then the streams take turns, in an order
//! that its seed chooses. If a kernel breaks a rule, the next call that waits returns the error ([`Error::Emulator`]);
//! if no call did, dropping the device panics. Memory that was not requested zeroed is not zero. Work on a buffer that
//! is not ordered after other streams' work on it is rejected ([`Error::Unordered`]); only unsafe code can cause that.

mod buffer;
#[cfg(feature = "emulator")]
mod card;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
#[cfg(any(feature = "cuda", test))]
mod driver_error;
#[cfg(feature = "emulator")]
mod emulated;
mod error;
mod event;
mod failure;
#[cfg(feature = "check")]
mod for_tests;
mod host;
mod host_array;
mod host_memory;
mod line;
mod machine;
mod machine_code;
mod messages;
mod pages;
mod pinned;
mod pool;
#[cfg(feature = "check")]
mod recorded;
mod simd;
mod stream;
mod threads;
mod uses;

pub use buffer::{Buffer, PeerPart};
#[cfg(feature = "emulator")]
pub use card::Card;
#[cfg(feature = "cust")]
pub use cuda::cust;
pub use device::{Device, DeviceKind, MemoryInfo, Properties};
pub use error::{Error, ErrorKind, Result};
pub use event::Event;
pub use failure::Failure;
#[cfg(feature = "check")]
pub use for_tests::gpu_or_skip;
pub use host_array::HostArray;
pub use lanetree_simt::Call;
#[cfg(feature = "check")]
pub use lanetree_simt::LaunchReport;
pub use line::{Line, prefetch};
pub use machine_code::{MACHINE_CODE, machine_code_file};
pub use pages::{GrantedPages, Pages, prefer_huge_pages};
pub use pinned::PinnedBuffer;
pub use pool::{Pool, PoolStats};
#[cfg(feature = "check")]
pub use recorded::{record_kernels, recorded_kernels, take_recorded_kernels};
#[cfg(target_arch = "x86_64")]
pub use simd::{Avx2, Avx512};
pub use simd::{Compare, Portable, Simd, SimdTask};
pub use stream::{Launch, Stream};
pub use threads::{is_forked, threads};
