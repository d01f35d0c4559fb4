//! A multi-map: an ordered index whose keys have any number of values, in the order in which they were inserted.
//!
//! The distinct keys are in a [`LaneTree`] whose values are *places*: where a key's values begin in one array of all values,
//! and how many they are ([`lanetree_kernels_multimap::layout`] draws it). So a look-up of all values of a key is one look-up
//! in the tree and a copy of neighbours, and 2^20 values of one key take the memory of the values and nothing else.
//!
//! ```
//! use lanetree::{Device, MultiMap};
//!
//! # fn main() -> lanetree::Result<()> {
//! let mut map = MultiMap::build(&Device::emulated(), &[5_u64, 3, 5, 9, 5], &[50_u32, 30, 51, 90, 50])?;
//! assert_eq!((map.len(), map.keys_len()), (5, 3));
//! let rows = map.get_all_many(&[5, 4, 3])?;
//! assert_eq!((rows.get(0), rows.get(1), rows.get(2)), (&[50, 51, 50][..], &[][..], &[30][..]));
//! assert_eq!(map.count_many(&[5, 4])?, [3, 0]);
//! assert_eq!(map.first_many(&[5, 4])?, [Some(50), None]);
//! assert_eq!(map.range_many([4..=9])?.get(0), (&[5, 5, 5, 9][..], &[50, 51, 50, 90][..]));
//!
//! map.insert_many(&[3, 5], &[31, 52])?;
//! assert_eq!(map.get_all_many(&[5])?.get(0), [50, 51, 50, 52]);
//! // One pair, the first of two equal ones; and all pairs of a key.
//! assert_eq!(map.remove_pairs_many(&[(5, 50)])?.removed, 1);
//! assert_eq!(map.get_all_many(&[5])?.get(0), [51, 50, 52]);
//! assert_eq!(map.remove_all_many(&[3, 4])?.removed, 2);
//! # Ok(())
//! # }
//! ```
//!
//! Keys may have 16 bytes, as a LaneTree's.
//!
//! # Memory
//! Bytes per pair, with random keys, by the number of values of a key ([`MultiMap::stats`] has the parts); a map whose keys have one value
//! each is better a [`LaneTree`]:
//!
//! | keys, values | 1 | 4 | 16 |
//! |---|---|---|---|
//! | `u32`, `u32` | 21.6 | 8.4 | 5.1 |
//! | `u64`, `u64` | 25.7 | 12.4 | 9.1 |
//!
//! # What a batch of changes costs
//! On the host a batch changes what it touches, in place, whatever the size of the map; the [last section](#on-the-host) says what that
//! costs. This section and the next one are about devices.
//!
//! The values are dense, so a batch of changes of any size makes a second map and then drops the first: it reads and writes
//! all keys and all values at least once, and sorts the batch. While it runs, it takes the memory of the second map, two keys
//! and about 32 bytes for each distinct key, and three times the memory of the batch; [`MultiMap::remove_pairs_many`] takes up to
//! 48 bytes for each value of the batch's keys. The map is replaced when the second one is complete, so a batch that fails
//! changes nothing. Many small changes are better made as few large batches, or in place.
//!
//! # Inserts in place
//! A map that is built with [room](Builder::room) for values inserts in place, as long as the room lasts: it reads and writes the
//! runs of values of the batch's keys, and changes the tree as a batch of a [`LaneTree`] does. A run that has no room after its
//! values moves past all others, where it gets up to a quarter more; where it was, the positions are unused until the map is rebuilt.
//! A batch for which too little room is left rebuilds the map, as do removals; all rebuilds leave room.
//!
//! Then the values are no longer in the order of the keys. All values of keys, counts, first and last values, joins, neighbours and
//! iteration are as fast as before. Ranks, ranges, their aggregates and scans count on the order and answer
//! [`NotCompact`](lanetree_frame::Error::NotCompact) until [`MultiMap::restore_order`] has rebuilt the map.
//! [`MultiMap::is_ordered`] tells. If the device fails while the tree is written, the map is [`Lost`](lanetree_frame::Error::Lost), as
//! a LaneTree is; a map without room never is.
//!
//! # On the host
//! Inserts and removals are in place, whatever the map was built with. A batch looks its keys up, copies the runs of values that grow and
//! have no room to the end of the values, and changes the tree of keys as a batch of a [`LaneTree`] does: that is the only step that
//! queries see, and it takes place or does not. A removal of pairs reads all values of the batch's keys. Nothing takes time for what a batch does not
//! touch, but for a few bytes for each thousand nodes of the tree; where nodes are split, for each node.
//!
//! The first batch after a build gets memory for half as many values again, or for as many as the [room](Builder::room) says if that is
//! more; it is not touched before it is used. Once it is full, a batch rebuilds the map, as do removals that leave less than a quarter of the
//! positions in use.
//!
//! All queries are exact right after a batch, with no call in between. The tree knows how many pairs are before each of its nodes, so a
//! rank is that number, and the numbers of values of the keys before it in its node. Ranks and ranges take longer then, since a rank
//! reads a part of its node, and a range's values are no longer adjacent; [`MultiMap::restore_order`] makes them as fast as after a
//! build.
//!
//! # Two forms
//! [`MultiMap::on`] has the device form of the queries, over buffers; [`MultiMap::insert_on`] and
//! [`MultiMap::remove_all_on`] are the device form of changes. In host form, queries with one result for each key go
//! through a GPU in pieces, several on their way at a time, in memory that is kept for the next batch
//! ([`MultiMap::staging_bytes`]). Queries with rows of results, and changes, copy the batch to the device as a whole
//! and allocate memory for the results; with a [`Pool`](lanetree_frame::Pool) that takes no calls of the driver.

mod build;
mod by_rank;
mod contents;
mod gather;
mod host;
mod in_place;
mod iter;
mod joins;
mod on_stream;
mod options;
mod places;
mod queries;
mod ranges;
mod removal;
mod staged;
mod stats;
mod update;
mod wanted;

pub use build::Builder;
pub use iter::Iter;
#[doc(hidden)]
pub use lanetree_kernels_multimap::modules::MODULES;
pub use on_stream::{
    AggregateScratch, DeviceJoin, DeviceRows, JoinScratch, OnStream, RangeJoinScratch, RangeScratch, Scratch,
};
pub use queries::ValueRows;
pub use stats::Stats;

use contents::Contents;
use core::fmt;
use lanetree_frame::staging::Staging;
use lanetree_frame::{Device, Stream};
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_lane_tree::LaneTree;
use lanetree_layout::{AnyKey, Word};
use options::Options;

/// The most values of a key.
pub const MOST_VALUES: u64 = lanetree_kernels_multimap::layout::MOST_VALUES;

/// The most pairs of a map.
pub const MOST_PAIRS: u64 = lanetree_kernels_multimap::layout::MOST_PAIRS;

/// A multi-map of keys `K` with values `V`, on a device. Pairs are ordered by their keys; pairs with the same key are
/// in the order in which they were inserted.
///
/// It has the calls of [`OrderedIndex`](lanetree_frame::OrderedIndex) that mean something where a key has several values, by the same
/// names, but it is none: there a key has one value, so that `get_many` has one result for each key, an insert replaces, ranks count keys,
/// and a row of `join_many` is the number of a pair. Here [`get_all_many`](Self::get_all_many) has a row for each key, an insert adds,
/// ranks count pairs, and `join_many` gives all values. [`remove_all_many`](Self::remove_all_many) is what `remove_many` is there, and
/// there is no `update_many` and no `apply`, as of several values none is the one to replace.
pub struct MultiMap<K: AnyKey, V: Word> {
    device: Device,
    contents: Contents<K, V>,
    options: Options<K>,
    /// The memory of host batches.
    staging: Staging,
}

impl<K: AnyKey, V: Word> MultiMap<K, V> {
    pub(crate) fn of(device: Device, contents: Contents<K, V>, options: Options<K>) -> Self {
        Self { device, contents, options, staging: Staging::default() }
    }

    /// The device that holds the map.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How many pairs it has; a lost map, how many it had before the batch that failed.
    pub fn len(&self) -> u64 {
        self.contents.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many distinct keys it has.
    pub fn keys_len(&self) -> u64 {
        self.contents.keys.len()
    }

    /// Whether an insert in place failed half-way on the device, so that the map's contents are unknown. Every call that returns a
    /// [`Result`](lanetree_frame::Result) then returns [`Error::Lost`](lanetree_frame::Error::Lost): build it again.
    pub fn is_lost(&self) -> bool {
        self.contents.keys.is_lost()
    }

    /// Whether the values are in the order of the keys, as ranks, ranges and scans need them on a device. On the host these are only faster
    /// then.
    pub fn is_ordered(&self) -> bool {
        self.contents.is_ordered()
    }

    /// The map's queries on a stream of the same device: the device form of every query.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> OnStream<'a, K, V> {
        OnStream::new(&self.contents, stream)
    }

    /// All pairs in order, fetched from the device in large blocks.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter::new(&self.contents)
    }
}

impl<'a, K: AnyKey, V: Word> IntoIterator for &'a MultiMap<K, V> {
    type Item = lanetree_frame::Result<(K, V)>;
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K: AnyKey, V: Word> fmt::Debug for MultiMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, pairs) = (self.keys_len(), self.len());
        write!(f, "MultiMap<{}, {}>[{pairs} pairs of {keys} keys, on {}]", K::NAME, V::NAME, self.device)
    }
}
