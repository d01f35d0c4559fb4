//! What Lanetree's host code and GPU kernels agree on: words and keys, the layout of nodes, and the
//! arithmetic of their addresses, computed here once for both.
//!
//! ```
//! use lanetree_layout::Key;
//! use lanetree_layout::harmonia::Shape;
//!
//! // Kernels compare unsigned words, which are in the order of the keys.
//! assert!((-1_i64).encode() < 1_i64.encode());
//!
//! // 65 pairs in full nodes of 8: 9 leaves, 2 nodes above them, and a root.
//! let shape = Shape::bulk(65, 8, 1.0).expect("few enough nodes");
//! assert_eq!((shape.leaves, shape.inner, shape.height), (9, 3, 2));
//! ```
#![no_std]

pub mod cuart;
pub mod grt;
pub mod harmonia;
pub mod pointer_btree;
mod word;

pub use word::{Key, Word};
