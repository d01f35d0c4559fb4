//! The HB+-tree's kernels: the descent through inner levels that lie in device memory, to leaves that lie in host memory,
//! and the search of such leaves, read across the bus.
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

#[cfg(not(target_os = "cuda"))]
pub mod calls;
mod descend;
mod finish;
mod implicit;
mod instances;
pub mod layout;
pub mod modules;
mod narrow;
mod regular;
mod shared;

pub use descend::{Descend, DescendArgs, IN_FLIGHT};
pub use finish::{Finish, FinishArgs};
pub use implicit::ImplicitRef;
pub use narrow::{Narrow, NarrowArgs};
pub use regular::{DescendRegular, DescendRegularArgs, DescendRegularShared, RegularRef};
pub use shared::DescendShared;

/// Threads of a block, in every kernel of this crate.
pub const THREADS: u32 = 256;
