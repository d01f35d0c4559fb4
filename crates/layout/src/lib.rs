//! What Lanetree's host code and GPU kernels agree on: words and keys, the layout of nodes, and the
//! arithmetic of their addresses, computed here once for both.
#![no_std]

pub mod cuart;
pub mod grt;
pub mod harmonia;
pub mod pointer_btree;
mod word;

pub use word::{Key, Word};
