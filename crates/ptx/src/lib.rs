//! Compiles kernel crates, written over Lanetree's trait `Simt`, to PTX, and checks that PTX: the program `lanetree-ptx`, whose
//! command line is its interface. This library is for Lanetree's own tasks, and may change with any version.
//!
//! A kernel crate is a library whose instances of kernels are `nvptx64-nvidia-cuda`'s entries. [`run`] compiles it with fat LTO, splits
//! the text by module (`MODULE__KERNEL`), and writes `ptx/MODULE.ptx` and `ptx/manifest.json`: the compiler, the hash of all that the
//! text was made from, and the registers of each kernel. It refuses local memory, calls, and barriers on both sides of a branch.

mod assemble;
mod barriers;
mod check;
mod command;
mod compile;
mod digest;
pub mod failure;
pub mod files;
#[cfg(test)]
mod fixture;
mod list;
mod manifest;
pub mod process;
pub mod ptxas;
mod run;
mod source;
mod split;
pub mod toolchain;

pub use assemble::ARCHITECTURES;
pub use command::{Generator, Options};
pub use digest::sha256;
pub use manifest::COUNTED_ON;
pub use run::run;
pub use source::Source;
pub use split::kernels_with;
