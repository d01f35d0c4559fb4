//! Ordered indexes for NVIDIA GPUs, in Rust from the kernel up.
//!
//! An index holds sorted key-value pairs and answers *batches*: point look-ups, ranks, neighbours and
//! ranges, thousands to billions at a time. There are six:
//!
//! * [`LaneTree`]: Lanetree's own, over integers, floats and keys of 16 bytes: the one to begin with (feature `lane-tree`); see [`lane_tree`];
//! * [`Harmonia`]: a B+tree over integers and floats (feature `harmonia`); see [`harmonia`] for its options;
//! * [`Cuart`]: an adaptive radix tree over byte strings (feature `cuart`); see [`cuart`] for its options;
//! * [`HbTree`]: a B+tree over integers and floats whose leaves lie in host memory, for more pairs than the GPU's memory
//!   holds, and a fast tree for CPUs (feature `hbtree`); see [`hbtree`] for its options;
//! * [`Cubpt`]: a B+tree with explicit references, over the same keys as Harmonia, whose batches of changes split and merge
//!   nodes in place on the device (feature `cubpt`); see [`cubpt`];
//! * [`SortedArray`]: binary search over integers and floats, with no memory besides the pairs (feature `sorted`); see
//!   [`sorted`] for when it is enough.
//!
//! [`LaneSet`] is LaneTree without values: an ordered set of keys.
//!
//! [`Sharded`] is one index over several devices, [`Replicated`] a copy on each (feature `sharded`); [`ShardedSet`] is a set in
//! shards, [`ShardedMultiMap`] a multi-map.
//!
//! The keys of all these are unique. [`MultiMap`] has any number of values of each key (feature `multimap`); see [`multimap`].
//! [`IntervalIndex`] finds the intervals that contain a point (feature `intervals`); see [`intervals`].
//!
//! The six implement [`OrderedIndex`], for code that is generic over the index, and their builders implement
//! [`IndexBuilder`]. [`Mirrored`] is an index on the host that takes the changes, with a copy on a device that answers
//! queries.
//!
//! An index lives on a [`Device`]:
//!
//! * [`Device::cuda`]: a GPU, with kernels compiled from Rust to PTX (feature `cuda`, which needs nothing to build, and at
//!   run time the driver; the feature `cust` adds sharing with the crate cust, [`runtime`]`::cust`);
//! * [`Device::host`]: the CPU, natively, over the same layout, on the threads of the current rayon pool (on the calling
//!   thread in a forked process, where its parent's threads are missing);
//! * [`Device::emulated`]: the GPU's kernels, thread by thread, on a CPU that checks them (feature `emulator`, off by default).
//!
//! [`Device::best`] is the first GPU if there is one, else the CPU. Without feature `cuda` (off by default) it is always the
//! CPU: print [`Device::why_no_gpu`]. It warns on stderr, once, if there is a GPU that cannot be used. [`primitives`] has the sorts, scans and merges that the indexes are built from.
//!
//! ```
//! use lanetree::{Device, LaneTree};
//!
//! # fn main() -> lanetree::Result<()> {
//! let keys: Vec<u64> = (0..1000).map(|i| i * 7).collect();
//! let values: Vec<u32> = (0..1000).collect();
//! let index = LaneTree::build(&Device::host(), &keys, &values)?;
//!
//! assert_eq!(index.get_many(&[14, 15, 6993])?, [Some(2), None, Some(999)]);
//! assert_eq!(index.lower_bound_many(&[15])?, [3]);
//! assert_eq!(index.predecessor_many(&[20])?, [Some((14, 2))]);
//!
//! let hits = index.range_many([10..=21, 6990..=u64::MAX])?;
//! assert_eq!(hits.get(0), (&[14, 21][..], &[2, 3][..]));
//! assert_eq!(hits.get(1), (&[6993][..], &[999][..]));
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//! Lanetree is not published yet: depend on a copy of its repository.
//! ```toml
//! [dependencies]
//! lanetree = { version = "0.1", path = "../lanetree/crates/lanetree", features = ["cuda", "files"] }
//! ```
//! | feature | what it gives | on by default? |
//! |---|---|---|
//! | `lane-tree` | [`LaneTree`], [`LaneSet`] | yes |
//! | `multimap` | [`MultiMap`] | yes |
//! | `intervals` | [`IntervalIndex`] | yes |
//! | `sharded` | [`Sharded`], [`Replicated`]: several devices as one | yes |
//! | `harmonia`, `cuart`, `hbtree`, `cubpt`, `sorted` | the other indexes: of papers, and for what LaneTree is not best at | no |
//! | `all-indexes` | all of the above | no |
//! | `cuda` | NVIDIA GPUs: [`Device::cuda`] | no |
//! | `emulator` | [`Device::emulated`], for tests without a GPU | no |
//! | `files` | saving and loading: [`files`] (on Unix) | no |
//! | `serde` | serde's traits for reports, statistics and options | no |
//! | `cust` | sharing with the crate cust; needs libcuda to link | no |
//! | `papers`, `check` | what the figures of papers, and the tests of Lanetree itself, need | no |
//!
//! # Keys and values
//! The keys of LaneTree, Harmonia and the sorted array are `u32`, `u64`, `i32`, `i64`, floats in total order ([`F32`],
//! [`F64`]), or a [`Composite`] of two keys that is 8 bytes wide; every value is a legal key. LaneTree's may also be `u128`,
//! `i128`, 16 bytes ([`Bytes16`]: UUIDs, IPv6 addresses), or any [`Composite`]. CuART's keys are byte strings ([`ByteKeys`],
//! [`ByteKeysBuf`], [`DeviceKeys`]). Values are `u32` or `u64`, for example row numbers; sets have none.
//!
//! Of equal keys in the input of a build, the last one's value is kept. For the first, or an error:
//! [`IndexBuilder::build_by`] with [`BuildRules`]. Builds from buffers (`build_on`) take no rules.
//!
//! # Two forms of every call
//! *Host form*: slices in, vectors out ([`LaneTree::get_many`]); it returns when the results are complete.
//! *Device form*: [`Buffer`]s in and out, on a [`Stream`] of the caller's ([`LaneTree::on`]). It allocates nothing,
//! synchronises nothing and may return before the work is done.
//!
//! All queries run on the host, too. Changes in device form (`apply_on`) need a device with kernels: without a GPU use
//! [`Device::emulated`].
//!
//! # Saving
//! With feature `files` (off by default), a file is sorted pairs, which any index can load; see [`files`].
//! ```ignore-windows
//! use lanetree::files::{Load, Save};
//! use lanetree::{Device, LaneTree};
//!
//! fn main() -> lanetree::Result<()> {
//!     let path = std::env::temp_dir().join("pairs.lanetree");
//! #   let folder = tempfile::tempdir().expect("a folder");
//! #   let path = folder.path().join("index");
//!     let device = Device::best();
//!     let index = LaneTree::build(&device, &[10_u64, 20], &[1_u64, 2])?;
//!     index.save(&path)?;
//!     let index = LaneTree::<u64, u64>::builder().load(&device, &path)?;
//!     assert_eq!(index.get(&20)?, Some(2));
//!     Ok(())
//! }
//! ```
//!
//! # Memory
//! An index and its scratch memory are allocated through the [`Device`] handle that they are made with, and report
//! their bytes. A handle from [`Pool::device`] takes memory from the [`Pool`] and returns it there. Host batches, builds
//! and scratch memory then need no driver calls for memory from one batch to the next.
//!
//! ```
//! use lanetree::{Device, LaneTree, Pool};
//!
//! # fn main() -> lanetree::Result<()> {
//! let pool = Pool::new(&Device::emulated()); // or Device::best()
//! let mut index = LaneTree::build(&pool.device(), &[1_u32, 2, 3], &[10_u32, 20, 30])?;
//! let mut allocations = 0;
//! for batch in 0..20 {
//!     index.update_many(&[1, 3], &[batch, batch])?;
//!     assert_eq!(index.get_many(&[3])?, [Some(batch)]);
//!     if batch == 1 {
//!         allocations = pool.stats().allocations;
//!     }
//! }
//! assert_eq!(pool.stats().allocations, allocations, "every later batch has found its memory in the pool");
//! # Ok(())
//! # }
//! ```
//!
//! # Kernels of your own
//! [`kernel`] has what kernels are written with, that look keys up in a [`LaneTree`] where they have them.
//!
//! # Errors
//! Invalid input never panics: it is an [`Error`] that names the value. A failed build leaves nothing behind. [`Error::kind`] says which
//! of a dozen kinds an error is, for programs that do something about some of them.
//! ```
//! use lanetree::{Device, ErrorKind, LaneTree};
//!
//! # fn main() -> lanetree::Result<()> {
//! let device = match Device::cuda(0) {
//!     Err(error) if matches!(error.kind(), ErrorKind::NoGpu | ErrorKind::NotCompiled) => Device::host(),
//!     device => device?,
//! };
//! let error = LaneTree::build(&device, &[1_u64, 2], &[1_u32]).unwrap_err();
//! assert_eq!((error.kind(), error.to_string()), (ErrorKind::InvalidInput, "2 keys but 1 values: give one value per key".into()));
//! # Ok(())
//! # }
//! ```

#![cfg_attr(target_os = "cuda", no_std)]

#[cfg(not(target_os = "cuda"))]
#[doc(hidden)]
pub mod bindings;
#[cfg(not(target_os = "cuda"))]
mod host;
pub mod kernel;

#[cfg(not(target_os = "cuda"))]
pub use host::*;

/// The README's example, compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
mod guide;

#[cfg(test)]
mod tests {
    #[test]
    fn indexes_can_be_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<crate::Harmonia<u64, u64>>();
        shared::<crate::LaneTree<u64, u64>>();
        shared::<crate::Cuart<u64>>();
        shared::<crate::cuart::Hybrid<u64>>();
        shared::<crate::HbTree<u64, u64>>();
        shared::<crate::SortedArray<u64, u64>>();
        shared::<crate::MultiMap<u64, u64>>();
        shared::<crate::IntervalIndex<u64, u64>>();
        shared::<crate::Error>();
    }
}
