//! What Lanetree's host code and GPU kernels agree on, whichever index they belong to: words and keys, byte strings in the
//! order of keys, and the shape of B+trees. The layout of an index lies beside its kernels.
#![no_std]

mod arguments;
pub mod btree;
mod fixed;
mod word;

pub use arguments::{Access, KernelArgs};
pub use fixed::{FixedKey, MAX_KEY};
pub use word::{Key, Word};
