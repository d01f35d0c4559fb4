//! [`OrderedIndex`]: what every index does, whatever its keys are.
//!
//! The indexes have these methods of their own too, in forms that suit their keys, so that only generic code needs the
//! trait.
//!
//! ```
//! use lanetree::{Domain, OrderedIndex, Result, Word};
//!
//! /// How many of some keys an index has.
//! fn hits<I: OrderedIndex>(index: &I, keys: &[<I::Domain as Domain>::Key]) -> Result<usize> {
//!     let keys = keys.iter().cloned().collect();
//!     let values = index.get_many(I::Domain::batch(&keys))?;
//!     Ok(values.iter().flatten().count())
//! }
//!
//! # fn main() -> Result<()> {
//! use lanetree::{Cuart, Device, Harmonia};
//! let numbers = Harmonia::build(&Device::host(), &[1_u64, 2, 3], &[10_u32, 20, 30])?;
//! assert_eq!(hits(&numbers, &[2, 3, 4])?, 2);
//! let words: lanetree::ByteKeysBuf = ["car", "cart"].into_iter().collect();
//! let strings = Cuart::build(&Device::host(), &words, &[1_u32, 2])?;
//! assert_eq!(hits(&strings, &[b"cart".to_vec(), b"dog".to_vec()])?, 1);
//! # Ok(())
//! # }
//! ```

use crate::build_rules::{BuildRules, build_by};
use crate::domain::Domain;
use crate::fixed::Query;
use core::fmt::Debug;
use lanetree_base::parallel::*;
use lanetree_base::{Matches, Op, Result, UpdateReport};
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::Global;

/// A key of an index.
pub type KeyOf<I> = <<I as OrderedIndex>::Domain as Domain>::Key;
/// A batch of keys for an index.
pub type BatchOf<'a, I> = <<I as OrderedIndex>::Domain as Domain>::Batch<'a>;
/// A range of keys of an index.
pub type RangeOf<'a, I> = <<I as OrderedIndex>::Domain as Domain>::Range<'a>;
/// The pairs of ranges of an index.
pub type RangesOf<I> = <<I as OrderedIndex>::Domain as Domain>::Ranges<<I as OrderedIndex>::Value>;

/// For each query to an index the pair next to it, if there is one.
pub type NeighborsOf<I> = Vec<Option<(KeyOf<I>, <I as OrderedIndex>::Value)>>;

/// An ordered index: sorted pairs of keys and values, which answers batches of queries and takes batches of changes.
///
/// All calls are in host form: slices in, vectors out; they return when the results are complete. On a lost index, every call
/// that returns a [`Result`] returns [`Error::Lost`](lanetree_base::Error::Lost).
pub trait OrderedIndex: Sized + Send + Sync + Debug {
    /// What its keys are.
    type Domain: Domain;
    /// Its values.
    type Value: Word;
    /// Its name, such as `harmonia`.
    const NAME: &'static str;

    /// The device that holds it.
    fn device(&self) -> &Device;

    /// The number of pairs; in a lost index, the number before the change that failed.
    fn len(&self) -> u64;

    /// Whether there are no pairs.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the device's memory that it takes.
    fn bytes(&self) -> u64;

    /// Bytes of main memory that it takes, in addition to its device memory; 0 for an index that is on its device as a
    /// whole.
    fn host_bytes(&self) -> u64 {
        0
    }

    /// Whether a change failed half-way on the device, so that the index's contents are unknown.
    fn is_lost(&self) -> bool;

    /// The value of each key; `None` for a key that is absent.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_base::Error::Runtime), [`Error::Lost`](lanetree_base::Error::Lost).
    fn get_many(&self, keys: BatchOf<'_, Self>) -> Result<Vec<Option<Self::Value>>>;

    /// Whether each key is present.
    ///
    /// # Errors
    /// As [`OrderedIndex::get_many`].
    fn contains_many(&self, keys: BatchOf<'_, Self>) -> Result<Vec<bool>> {
        self.get_many(keys)?.into_par_iter().map(|value| value.is_some()).try_collect()
    }

    /// How many keys are below each of `keys`.
    ///
    /// # Errors
    /// As [`OrderedIndex::get_many`]; [`Error::NotCompact`](lanetree_base::Error::NotCompact) from an index that needs
    /// [`OrderedIndex::restore_order`] first.
    fn lower_bound_many(&self, keys: BatchOf<'_, Self>) -> Result<Vec<u64>>;

    /// How many keys are not above each of `keys`.
    ///
    /// # Errors
    /// As [`OrderedIndex::lower_bound_many`].
    fn upper_bound_many(&self, keys: BatchOf<'_, Self>) -> Result<Vec<u64>>;

    /// The last pair whose key is not above each of `keys`.
    ///
    /// # Errors
    /// As [`OrderedIndex::lower_bound_many`].
    fn predecessor_many(&self, keys: BatchOf<'_, Self>) -> Result<NeighborsOf<Self>>;

    /// The first pair whose key is not below each of `keys`.
    ///
    /// # Errors
    /// As [`OrderedIndex::lower_bound_many`].
    fn successor_many(&self, keys: BatchOf<'_, Self>) -> Result<NeighborsOf<Self>>;

    /// Joins `probes` with the index: which of them are present, in their order, and the number of the pair of each, which
    /// is the number of keys below the pair's.
    ///
    /// # Errors
    /// As [`OrderedIndex::lower_bound_many`].
    fn join_many(&self, probes: BatchOf<'_, Self>) -> Result<Matches> {
        let present = self.get_many(probes)?;
        let ranks = self.lower_bound_many(probes)?;
        let row = |(value, rank): (Option<Self::Value>, u64)| value.map_or(Matches::NO_ROW, |_| rank);
        Matches::of_rows(&present.into_par_iter().zip(ranks).map(row).try_collect()?)
    }

    /// The pairs of each range, in ascending order of their keys.
    ///
    /// # Errors
    /// As [`OrderedIndex::lower_bound_many`]; [`Error::ReversedRange`](lanetree_base::Error::ReversedRange) for one that
    /// ends before it starts.
    fn range_many(&self, ranges: &[RangeOf<'_, Self>]) -> Result<RangesOf<Self>>;

    /// How many pairs each range has.
    ///
    /// # Errors
    /// As [`OrderedIndex::range_many`].
    fn count_range_many(&self, ranges: &[RangeOf<'_, Self>]) -> Result<Vec<u64>>;

    /// All pairs in ascending order of their keys.
    ///
    /// # Errors
    /// As [`OrderedIndex::get_many`].
    fn pairs(&self) -> Result<Vec<(KeyOf<Self>, Self::Value)>>;

    /// Applies a batch of operations, with the effect of one after another in the batch's order.
    ///
    /// # Errors
    /// The index's own for keys that it does not take; [`Error::Runtime`](lanetree_base::Error::Runtime): the index is
    /// unchanged. [`Error::Lost`](lanetree_base::Error::Lost) if the device failed half-way, now or earlier.
    fn apply(&mut self, ops: &[Op<KeyOf<Self>, Self::Value>]) -> Result<UpdateReport>;

    /// Inserts pairs; if a key is present, its value is replaced. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`OrderedIndex::apply`]; [`Error::LengthMismatch`](lanetree_base::Error::LengthMismatch).
    fn insert_many(&mut self, keys: BatchOf<'_, Self>, values: &[Self::Value]) -> Result<UpdateReport>;

    /// Replaces the values of the keys that are present. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`OrderedIndex::insert_many`].
    fn update_many(&mut self, keys: BatchOf<'_, Self>, values: &[Self::Value]) -> Result<UpdateReport>;

    /// Removes the keys that are present.
    ///
    /// # Errors
    /// As [`OrderedIndex::apply`].
    fn remove_many(&mut self, keys: BatchOf<'_, Self>) -> Result<UpdateReport>;

    /// Restores what changes disturb in some indexes and ranks and ranges need (CuART on a device: its leaves' order).
    /// Returns whether there was anything to restore.
    ///
    /// # Errors
    /// As [`OrderedIndex::apply`].
    fn restore_order(&mut self) -> Result<bool> {
        // A lost index says so here too.
        if self.is_lost() { self.pairs().map(|_| false) } else { Ok(false) }
    }

    /// Rebuilds the index from its pairs, with its options, in new memory: so it gives back memory that
    /// insertions and removals have left unused, and restores what [`OrderedIndex::restore_order`] does. Returns by how many
    /// bytes the index has become smaller, on its device and in main memory; 0 if it has not. An index that has no such memory may
    /// stay as it is. Meanwhile there are both layouts and a copy of the pairs.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_base::Error::Runtime) if there is no room, or from the device: the index is unchanged.
    /// [`Error::Lost`](lanetree_base::Error::Lost).
    fn compact(&mut self) -> Result<u64>;

    /// The index's queries in device form, if it has them.
    fn device_form(&self) -> Option<&dyn DeviceForm<Self::Domain, Self::Value>> {
        None
    }

    /// The index's launches, if each query is one launch over a batch.
    #[doc(hidden)]
    fn launches(&self) -> Option<&dyn Launches<Self::Domain, Self::Value>> {
        None
    }
}

/// The launches of an index over keys of a fixed size, for code that knows its types by [`OrderedIndex`] alone.
///
/// # Safety
/// As [`FixedIndex`](crate::fixed::FixedIndex): every result that is asked for is written, and nothing else.
#[doc(hidden)]
pub unsafe trait Launches<D: Domain, V: Word>: Send + Sync {
    /// [`FixedIndex::launch`](crate::fixed::FixedIndex::launch), tuned for sorted queries if they are.
    ///
    /// # Errors
    /// The errors of the launch.
    ///
    /// # Safety
    /// The safety contract of that method.
    unsafe fn launch(&self, stream: &Stream, is_sorted: bool, query: &Query<D::Word, V>) -> Result<()>;

    /// [`FixedIndex::READS_COUNTS`](crate::fixed::FixedIndex::READS_COUNTS).
    fn reads_counts(&self) -> bool;

    /// [`FixedIndex::launch_counted`](crate::fixed::FixedIndex::launch_counted).
    ///
    /// # Errors
    /// The errors of the launch.
    ///
    /// # Safety
    /// The safety contract of that method.
    ///
    /// # Panics
    /// Unless the index [reads counts](Self::reads_counts).
    unsafe fn launch_counted(&self, stream: &Stream, query: &Query<D::Word, V>, count: Global<u32>) -> Result<()>;
}

/// Queries in device form: buffers in and out, in a stream's order. A call allocates nothing, synchronises nothing, and may
/// return before its work is done; but one that several devices answer keeps memory for the next one, and where they do not use
/// each other's memory, waits until it knows how many queries each of them has.
pub trait DeviceForm<D: Domain, V: Word> {
    /// Looks up `queries`: `values[i]` becomes the value of key `queries[i]`, or `miss`; bit `i % 32` of `hits[i / 32]`
    /// says whether it is present.
    ///
    /// # Errors
    /// [`Error::OutputLength`](lanetree_base::Error::OutputLength),
    /// [`Error::BatchTooLarge`](lanetree_base::Error::BatchTooLarge), [`Error::Lost`](lanetree_base::Error::Lost),
    /// [`Error::Runtime`](lanetree_base::Error::Runtime).
    fn get(
        &self,
        stream: &Stream,
        queries: &D::Buffer,
        values: &mut Buffer<V>,
        hits: Option<&mut Buffer<u32>>,
        miss: V,
    ) -> Result<()>;

    /// Ranks `queries`: `ranks[i]` becomes the number of keys below `queries[i]`.
    ///
    /// # Errors
    /// As [`DeviceForm::get`]; [`Error::NotCompact`](lanetree_base::Error::NotCompact).
    fn lower_bound(&self, stream: &Stream, queries: &D::Buffer, ranks: &mut Buffer<u64>) -> Result<()>;

    /// Ranks `queries`: `ranks[i]` becomes the number of keys not above `queries[i]`.
    ///
    /// # Errors
    /// As [`DeviceForm::lower_bound`].
    fn upper_bound(&self, stream: &Stream, queries: &D::Buffer, ranks: &mut Buffer<u64>) -> Result<()>;
}

/// The builder of an index, with its options.
pub trait IndexBuilder: Clone + Debug + Send + Sync {
    /// The index.
    type Index: OrderedIndex;

    /// Builds an index over pairs in any order. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`](lanetree_base::Error::LengthMismatch), [`Error::Runtime`](lanetree_base::Error::Runtime),
    /// and the index's own for invalid options and for keys that it does not take.
    fn build(
        &self,
        device: &Device,
        keys: BatchOf<'_, Self::Index>,
        values: &[<Self::Index as OrderedIndex>::Value],
    ) -> Result<Self::Index>;

    /// [`IndexBuilder::build`], with rules for rows whose key is null, or is another row's, too.
    /// [`Duplicates::First`](lanetree_base::Duplicates::First) builds twice if keys repeat; rows with null keys are dropped on the
    /// CPU first. Builds from buffers take no rules.
    ///
    /// # Errors
    /// As [`IndexBuilder::build`]; [`Error::NullKey`](lanetree_base::Error::NullKey) and
    /// [`Error::RepeatedKey`](lanetree_base::Error::RepeatedKey) for what the rules refuse;
    /// [`Error::OutputLength`](lanetree_base::Error::OutputLength) for a bitmap that is not of as many keys.
    fn build_by(
        &self,
        device: &Device,
        keys: BatchOf<'_, Self::Index>,
        values: &[<Self::Index as OrderedIndex>::Value],
        rules: &BuildRules<'_>,
    ) -> Result<Self::Index> {
        build_by::<<Self::Index as OrderedIndex>::Domain, _, _>(keys, values, rules, |keys, values| {
            let index = self.build(device, keys, values)?;
            Ok((index.len(), index))
        })
    }
}

/// A builder that takes pairs which are on a device.
pub trait DeviceBuilder: IndexBuilder {
    /// Builds an index over the first `len` pairs of two buffers, on the stream's device: quickest where their keys ascend. Of equal
    /// keys, the last one's value is kept. The buffers are freed before it returns. Returns when the index is complete.
    ///
    /// # Errors
    /// As [`IndexBuilder::build`]; [`Error::OutputLength`](lanetree_base::Error::OutputLength) for buffers that are too
    /// short; [`Error::Runtime`](lanetree_base::Error::Runtime) for buffers of another device. The buffers are freed
    /// after an error, too.
    fn build_owned_on(
        &self,
        stream: &Stream,
        keys: <<Self::Index as OrderedIndex>::Domain as Domain>::Buffer,
        values: Buffer<<Self::Index as OrderedIndex>::Value>,
        len: usize,
    ) -> Result<Self::Index>;
}
