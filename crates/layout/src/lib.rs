//! What Lanetree's host code and GPU kernels agree on, whichever index they belong to: words and keys, byte strings in
//! the order of keys, and the shape of B+trees. Each index's own memory layout is in its kernel crate.
//!
//! ```
//! # extern crate lanetree_layout as lanetree;
//! use lanetree::AnyKey;
//!
//! // Kernels compare unsigned words, which are in the order of the keys.
//! assert!((-1_i64).encode() < 1_i64.encode());
//! ```
#![no_std]

mod arguments;
pub mod btree;
mod bytes16;
mod composite;
mod fixed;
mod float;
mod value;
mod word;

pub use arguments::{Access, KernelArgs};
pub use bytes16::Bytes16;
pub use composite::{Composite, CompositeBits, composite_word};
pub use fixed::{FixedKey, MAX_KEY};
pub use float::{F32, F64};
pub use value::Value;
pub use word::{AnyKey, Key, KeyWord, Word};
