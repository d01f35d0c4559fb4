//! What Lanetree's indexes are checked against and compared with.
//!
//! * [`oracle`]: the reference that `verify` and the tests believe.
//! * [`art`]: the adaptive radix tree with pointers, and its mapping to CuART's buffers.
//! * [`cpu`]: what a CPU programmer would use.
//! * [`fast`] and [`splus`]: static search trees for CPUs, tuned to cache lines, pages and SIMD.
//! * [`palm`]: B+trees that CPU threads build and update in batches.
//! * [`device`]: binary search and a B+tree with child references on a GPU, and the card's ceilings.
//! * [`grt`]: the radix tree on a GPU that CuART is measured against.

pub mod art;
mod checksum;
pub mod cpu;
pub mod device;
pub mod fast;
pub mod grt;
mod lines;
pub mod oracle;
pub mod palm;
mod simd;
pub mod splus;

pub use checksum::Checksum;
#[doc(hidden)]
pub use lanetree_kernels_baselines::modules::MODULES;
pub use lanetree_runtime::Simd;
pub use lines::MAX_IN_FLIGHT;
