//! LaneTree: an ordered index for the GPU. A random look-up reads one bucket of leaves, 64 bytes, and two nodes of quantised
//! separators that stay in the caches.
//!
//! The layout is drawn in [`lanetree_kernels_lane_tree::layout`]. Nodes are small because they do not hold keys: a node maps
//! the keys below it to small numbers, and the builder lets a child begin only where these numbers differ, so that they
//! decide as exactly as keys would.
//!
//! ```
//! use lanetree::{Device, LaneTree};
//!
//! # fn main() -> lanetree::Result<()> {
//! let mut index = LaneTree::build(&Device::emulated(), &[30_u64, 10, 20], &[3_u32, 1, 2])?;
//! assert_eq!(index.get_many(&[10, 15])?, [Some(1), None]);
//! assert_eq!(index.predecessor_many(&[15])?, [Some((10, 1))]);
//! assert_eq!(index.range_many([10..=20])?.get(0), (&[10, 20][..], &[1, 2][..]));
//!
//! let report = index.insert_many(&[15, 30], &[7, 8])?;
//! assert_eq!((report.inserted, report.replaced), (1, 1));
//! assert_eq!(index.lower_bound_many(&[20])?, [2]);
//! # Ok(())
//! # }
//! ```
//!
//! [`LaneTree::on`] has the device form of the queries. There a range that is known by its length is a scan, which
//! takes no scratch memory and has its pairs at a fixed position:
//! ```
//! use lanetree::{Device, LaneTree};
//!
//! # fn main() -> lanetree::Result<()> {
//! let device = Device::emulated();
//! let index = LaneTree::build(&device, &[10_u64, 20, 30], &[1_u32, 2, 3])?;
//! // Two pairs at most from each of these on.
//! let (starts, stream) = (device.upload(&[15, 30, 31])?, device.stream()?);
//! let (mut keys, mut values) = (device.alloc_zeroed(3 * 2)?, device.alloc_zeroed(3 * 2)?);
//! let mut counts = device.alloc(3)?;
//! index.on(&stream).scan(&starts, 2, &mut keys, &mut values, &mut counts)?;
//! assert_eq!(counts.to_vec()?, [2, 1, 0]);
//! assert_eq!((keys.to_vec()?, values.to_vec()?), (vec![20, 30, 30, 0, 0, 0], vec![2, 3, 3, 0, 0, 0]));
//! # Ok(())
//! # }
//! ```
//!
//! # Keys of 16 bytes
//! ```
//! use lanetree::{Bytes16, Device, LaneTree};
//! use std::net::Ipv6Addr;
//!
//! # fn main() -> lanetree::Result<()> {
//! let hosts = [1, 2, 9].map(|host| Bytes16::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host)));
//! let index = LaneTree::build(&Device::emulated(), &hosts, &[10_u32, 20, 90])?;
//! assert_eq!(index.get_many(&hosts[1..])?, [Some(20), Some(90)]);
//! assert_eq!(index.lower_bound_many(&[Bytes16::from([0xff; 16])])?, [3]);
//! # Ok(())
//! # }
//! ```
//! `u128` and `i128` are keys, too. All calls are the same. Built full over random keys, a pair takes less than 26.7 bytes,
//! or 22.4 with a value of 32 bits, all told. A look-up that hits reads its value after the bucket with its key, an access more than with narrower keys.
//!
//! # Sets
//! [`LaneSet`] is a tree without values: an ordered set of keys, in buckets of keys alone.
//!
//! # Joins, and new indexes from two
//! ```
//! use lanetree::{Device, LaneTree, Sorted};
//!
//! # fn main() -> lanetree::Result<()> {
//! let device = Device::emulated();
//! let index = LaneTree::build(&device, &[10_u64, 20, 30], &[1_u32, 2, 3])?;
//! // Which of these are present, and which pairs of the index they are.
//! let matches = index.join_many(&[30, 15, 10, 30])?;
//! assert!(matches.iter().eq([(0, 2), (2, 0), (3, 2)]));
//!
//! let other = LaneTree::build(&device, &[20_u64, 40], &[7_u32, 8])?;
//! assert_eq!(index.union(&other)?.pairs()?, [(10, 1), (20, 7), (30, 3), (40, 8)]);
//! assert_eq!(index.intersection(&other)?.pairs()?, [(20, 2)]);
//! assert_eq!(index.difference(Sorted::keys(&[10, 11]))?.pairs()?, [(20, 2), (30, 3)]);
//! # Ok(())
//! # }
//! ```
//! Where this is repeated: with a batch that is on the device, scratch memory that is reused, and new indexes from a pool.
//! ```
//! use lanetree::{CombineScratch, Device, LaneTree, Pool, Sorted};
//!
//! # fn main() -> lanetree::Result<()> {
//! let device = Pool::new(&Device::emulated()).device();
//! let mut index = LaneTree::build(&device, &[10_u64, 20, 30], &[1_u32, 2, 3])?;
//! let (keys, values) = (device.upload(&[20_u64, 40])?, device.upload(&[7_u32, 8])?);
//! let (stream, mut scratch) = (device.stream()?, CombineScratch::new(&device)?);
//! for _ in 0..3 {
//!     index = index.union_on(&stream, Sorted::pairs_on(&keys, &values, 2), &mut scratch)?;
//!     index = index.difference_on(&stream, Sorted::keys_on(&keys, 1), &mut scratch)?;
//! }
//! assert_eq!(index.pairs()?, [(10, 1), (30, 3), (40, 8)]);
//! # Ok(())
//! # }
//! ```
//!
//! # Kernels of your own
//! [`LaneTree::handle_on`] gives a [`Handle`], which a kernel takes as an argument, and with which it looks keys up where it
//! has them. Such a kernel is a function over `lanetree::kernel::Simt`, as Lanetree's own are; it is compiled for the device by
//! rustc, and runs on the emulator, which checks it. `templates/kernel` in Lanetree's repository is a crate to copy.

#[doc(hidden)]
pub mod ahead;
mod api;
mod build;
mod bulk;
#[cfg(any(test, feature = "check"))]
mod check;
mod device;
mod handle;
mod native;
mod node;
mod options;
mod parts;
mod set;
mod stats;
#[cfg(test)]
mod tests;
mod tuning;
mod update;
mod upper;
mod weights;

pub use build::Builder;
pub use handle::shape_for_rows;
pub use lanetree_frame::fixed::OnStream;
pub use lanetree_kernels_lane_tree::Handle;
#[doc(hidden)]
pub use lanetree_kernels_lane_tree::modules::MODULES;
pub use lanetree_primitives::BuildScratch;
pub use lanetree_runtime::Simd;
pub use set::{LaneSet, SetBuilder, SetIter, SetOnStream, SetRanges};
pub use stats::Stats;
pub use update::UpdateScratch;

use core::fmt;
use core::marker::PhantomData;
use lanetree_frame::fixed::{FixedIndex, Staging};
use lanetree_frame::{Device, Guarded};
use lanetree_layout::{AnyKey, Value};
use lanetree_primitives::ChangeStaging;
use options::Options;
use parts::Parts;

/// An ordered index of keys `K` with values `V`, on a device: what a `BTreeMap` does, for batches.
///
/// ```
/// use lanetree::{Device, LaneTree};
///
/// # fn main() -> lanetree::Result<()> {
/// let mut index = LaneTree::build(&Device::best(), &[30_u64, 10, 20], &[3_u32, 1, 2])?;
/// assert_eq!(index.get_many(&[10, 15])?, [Some(1), None]);
/// assert_eq!(index.range_many([10..=20])?.get(0), (&[10, 20][..], &[1, 2][..]));
/// index.insert_many(&[15, 30], &[7, 8])?;
/// assert_eq!(index.pairs()?, [(10, 1), (15, 7), (20, 2), (30, 8)]);
/// # Ok(())
/// # }
/// ```
///
/// | `BTreeMap` | `LaneTree` |
/// |---|---|
/// | from pairs, `from_iter` | [`build`](Self::build), [`build_pairs`](Self::build_pairs) |
/// | `get`, `contains_key` | [`get_many`](Self::get_many), [`contains_many`](Self::contains_many) |
/// | `insert`, `remove` | [`insert_many`](Self::insert_many), [`remove_many`](Self::remove_many), both in one batch: [`apply`](Self::apply) |
/// | `get_mut` | [`update_many`](Self::update_many) |
/// | `range` | [`range_many`](Self::range_many), [`count_range_many`](Self::count_range_many); of one range: [`range`](Self::range) |
/// | `range(..=key).next_back()` | [`predecessor_many`](Self::predecessor_many) |
/// | `range(..key).next_back()` | [`asof_many`](Self::asof_many), `&AsOf::backward().strict(true)` |
/// | `range(low..=high).rev().take(k)` | [`range_last_many`](Self::range_last_many) |
/// | `range(key..).next()` | [`successor_many`](Self::successor_many) |
/// | `iter`, `first_key_value`, `last_key_value` | [`iter`](Self::iter), [`first`](Self::first), [`last`](Self::last) |
/// | `len`, `clone`, `clear` | [`len`](Self::len), [`try_clone`](Self::try_clone), [`clear`](Self::clear) |
/// | none: ranks, joins | [`lower_bound_many`](Self::lower_bound_many), [`join_many`](Self::join_many), [`asof_many`](Self::asof_many) |
pub struct LaneTree<K: AnyKey, V: Value> {
    device: Device,
    options: Options,
    /// What the CPU's own path searches with.
    simd: Simd,
    parts: Guarded<Parts<K::Bits>>,
    /// The memory of host batches.
    staging: Staging<K, V>,
    /// The memory of host batches of changes.
    changes: ChangeStaging<K, V, UpdateScratch<K>>,
    words: PhantomData<(K, V)>,
}

impl<K: AnyKey, V: Value> fmt::Debug for LaneTree<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LaneTree<{}, {}>[{} pairs, on {}]", K::NAME, V::NAME, FixedIndex::len(self), self.device)
    }
}
