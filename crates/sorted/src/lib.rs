//! A sorted array with binary search: the smallest index. Feature `sorted` of the crate `lanetree`.
//!
//! It is the example to copy when an index is added, and the baseline that trees are measured against: what they are
//! for is to be faster than this, so every file here is about as short as its purpose allows.
//!
//! It is the right choice where pairs are mostly read and memory is short. It takes the memory of the keys and the
//! values, and nothing more. A look-up reads one key per halving, `log2(len)` in all. The first of these are the same
//! for all queries and stay in the caches; the last ones are not, and a tree reads several keys at once there. Queries
//! that are sorted by their top bits share more of them.
//!
//! A batch of changes is merged with all pairs in main memory, and the array is replaced. So each batch costs a copy of the
//! whole array, however small it is; from a GPU the pairs come to main memory and go back. The old buffers stay until the
//! new ones are complete: there must be room for both, and a batch that fails leaves the index as it was. It is never
//! [lost](lanetree_frame::Error::Lost).
//!
//! ```
//! use lanetree::{Device, SortedArray};
//!
//! # fn main() -> lanetree::Result<()> {
//! let mut index = SortedArray::build(&Device::emulated(), &[30_i32, -10, 20], &[3_u64, 1, 2])?;
//! assert_eq!(index.get_many(&[-10, 15])?, [Some(1), None]);
//! assert_eq!(index.predecessor_many(&[15])?, [Some((-10, 1))]);
//! assert_eq!(index.range_many([-10..=20])?.get(0), (&[-10, 20][..], &[1, 2][..]));
//!
//! let report = index.insert_many(&[15, 30], &[7, 8])?;
//! assert_eq!((report.inserted, report.replaced), (1, 1));
//! assert_eq!(index.lower_bound_many(&[20])?, [2]);
//! # Ok(())
//! # }
//! ```
//!
//! [`SortedArray::on`] has the device form: queries and results in buffers, on a stream of the caller's.

mod build;
mod device;
mod native;
mod stats;
mod update;

pub use build::Builder;
pub use lanetree_frame::fixed::OnStream;
#[doc(hidden)]
pub use lanetree_kernels_sorted::modules::MODULES;
pub use stats::Stats;

use core::fmt;
use lanetree_frame::fixed::Staging;
use lanetree_frame::{Device, Result};
use lanetree_layout::{Key, Word};
use lanetree_runtime::Buffer;

/// A sorted array of keys `K` with values `V`, on a device. Feature `sorted`.
pub struct SortedArray<K: Key, V: Word> {
    device: Device,
    /// Ordered words, strictly ascending.
    keys: Buffer<K::Bits>,
    /// A value for each.
    values: Buffer<V>,
    /// The memory of host batches.
    staging: Staging<K, V>,
}

impl<K: Key, V: Word> SortedArray<K, V> {
    /// The builder, which also builds from sorted pairs.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }

    /// Builds an index over pairs in any order. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build(device: &Device, keys: &[K], values: &[V]) -> Result<Self> {
        Self::builder().build(device, keys, values)
    }
}

lanetree_frame::inherent! {
    impl<K: Key, V: Word> SortedArray<K, V>
}

impl<K: Key, V: Word> fmt::Debug for SortedArray<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SortedArray<{}, {}>[{} pairs, on {}]", K::NAME, V::NAME, self.len(), self.device)
    }
}
