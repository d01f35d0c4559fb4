//! Indexes over keys of a fixed size: what such an index supplies, [`FixedIndex`], and what it is given for it: the
//! device form of every query ([`OnStream`]) and the host form, with staging through the device.

mod aggregate;
mod all;
mod asof;
mod combine;
mod compact;
mod host;
mod host_joins;
mod in_pieces;
mod inherent;
mod inherent_combinations;
mod inherent_forms;
mod iter;
mod join;
mod nearest;
mod on_stream;
mod options;
mod ordered;
pub mod pairs;
mod query;
mod range;
mod range_join;
pub mod ranges;
mod scan;
mod staging;
mod steps;

#[doc(hidden)]
pub use aggregate::{AGGREGATE_PIECE, LocatedRanges, fold_rows};
pub use aggregate::{Aggregate, AggregateScratch, Number, aggregate_in_pieces, aggregates_of};
use all::{AllRows, copied_pairs};
pub use all::{Columns, copied, each_window};
#[doc(hidden)]
pub use asof::Searches;
pub use asof::{AsOf, Direction, Ties};
#[doc(hidden)]
pub use combine::Made;
pub use combine::{Combine, CombineScratch, Operand, PairOperand, Sorted};
pub use compact::{clear, compact, copy};
pub use host::HostForm;
pub use in_pieces::PieceScratch;
pub use iter::Iter;
#[doc(hidden)]
pub use join::join;
pub use join::{DeviceMatches, JoinScratch};
pub use lanetree_primitives::check_pairs;
pub use nearest::NearestScratch;
#[doc(hidden)]
pub use nearest::{k_nearest, range_last};
pub use on_stream::{OnStream, bits};
pub use options::{QueryOptions, Uses};
pub use pairs::SortedPairs;
pub use query::{Query, SortedRanges};
#[doc(hidden)]
pub use range::{Bounds, first_pairs_of};
pub use range::{DeviceRanges, RangeScratch};
pub use range_join::{DeviceRangeMatches, RangeJoinScratch};
#[doc(hidden)]
pub use range_join::{band_join, range_join};
pub use scan::Scans;
pub use staging::Staging;
#[doc(hidden)]
pub use steps::{RowsOfProbes, Steps, asof_on_host, asof_searches, check_ranges};

use core::fmt::Debug;
use core::ops::Range;
pub use lanetree_base::aggregate_steps::DeviceAggregates;
use lanetree_base::{BatchOrder, Op, Result, UpdateReport};
use lanetree_layout::{AnyKey, Value};
use lanetree_runtime::{Buffer, Device, DeviceKind, Stream};
use lanetree_simt::{AllPairs, GatherBatch};

/// Pairs of a part of a long range: a group of lanes copies one. As long as other groups take for some short ranges, and long enough
/// to be worth the search for where it begins.
pub(crate) const PART: u64 = 1 << 10;

/// Queries of one task of the CPU's: enough to outweigh its dispatch, and a multiple of 32 so that tasks share no
/// word of a hit mask.
pub const TASK: usize = 4096;

/// The word of an index's keys.
pub type BitsOf<I> = <<I as FixedIndex>::Key as AnyKey>::Bits;

/// For each query the pair next to it, if there is one.
pub type Neighbors<K, V> = Vec<Option<(K, V)>>;

/// Which of two bounds a search is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Side {
    /// The first key that is not below the query.
    Lower = 0,
    /// The first key that is above the query.
    Upper = 1,
}

/// An index as the CPU searches it, in main memory. The methods take a batch and call `each` for each query, with its
/// place in the batch.
pub trait View<K, V>: Copy + Send + Sync {
    /// Looks up `queries`.
    fn get(&self, queries: &[K], each: impl FnMut(usize, Option<V>));
    /// Ranks `queries`: with `upper` it counts the keys at or below a query, otherwise those below.
    fn rank(&self, queries: &[K], upper: bool, each: impl FnMut(usize, u64));
    /// Finds the last pair at or below each query, or the first one at or above it.
    fn neighbor(&self, queries: &[K], predecessor: bool, each: impl FnMut(usize, Option<(K, V)>));
    /// Copies pairs from a rank on; there are enough of them.
    fn copy(&self, rank: u64, keys: &mut [K], values: &mut [V]);
}

/// What an index over keys of a fixed size supplies. Its queries, in host form and in device form, are made from this.
///
/// [`FixedIndex::launch`] puts one kernel into a stream. It begins with the index's contents, by a call that fails if
/// it is lost, so no query can forget to ask.
///
/// # Safety
/// Other kernels read and write memory based on these methods. An implementation must guarantee that, while the index is borrowed,
/// it has [`FixedIndex::len`] pairs with distinct keys, [`FixedIndex::launch_copy_pairs`] and the view's copies write
/// all of them in ascending order of their keys, and the other launches write all results that they are asked for.
pub unsafe trait FixedIndex: Sized + Send + Sync + Debug {
    /// Its keys.
    type Key: AnyKey;
    /// Its values.
    type Value: Value;
    /// What it is called.
    const NAME: &'static str;
    /// How look-ups on a device can be tuned; `()` if they cannot.
    type Tuning: Copy + Default + Debug + Send + Sync;
    /// The index as the CPU searches it.
    type View<'a>: View<Self::Key, Self::Value>
    where
        Self: 'a;

    /// The device that holds it.
    fn device(&self) -> &Device;

    /// How many pairs it has.
    fn len(&self) -> u64;

    /// Whether it has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the device's memory that it takes.
    fn bytes(&self) -> u64;

    /// All pairs in ascending order of their keys.
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_base::Error::Lost); [`Error::Runtime`](lanetree_base::Error::Runtime) from the device, and where
    /// main memory has no room.
    fn pairs(&self) -> Result<Vec<(Self::Key, Self::Value)>> {
        copied_pairs(self)
    }

    /// Applies `count` operations, with the effect of one after another.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_base::Error::Runtime), and the index's own: it is as it was.
    /// [`Error::Lost`](lanetree_base::Error::Lost) where the device failed half-way.
    fn apply_each(
        &mut self,
        count: usize,
        op: impl Fn(usize) -> Op<Self::Key, Self::Value> + Sync,
    ) -> Result<UpdateReport>;

    /// The memory of host batches.
    fn staging(&self) -> &Staging<Self::Key, Self::Value>;

    /// Bytes, including pinned memory, that host batches on a device have allocated and that are kept for the next batches.
    fn staging_bytes(&self) -> usize {
        self.staging().bytes()
    }

    /// # Errors
    /// [`Error::Lost`](lanetree_base::Error::Lost).
    fn check_not_lost(&self) -> Result<()>;

    /// The index for the CPU; `None` where its memory is the GPU's.
    fn view(&self) -> Option<Self::View<'_>>;

    /// The index for the CPU, if it is the CPU that searches it.
    fn native(&self) -> Option<Self::View<'_>> {
        if self.device().kind() == DeviceKind::Host { self.view() } else { None }
    }

    /// Whether this index can be tuned so.
    ///
    /// # Errors
    /// One that names the value.
    fn check_tuning(&self, _tuning: &Self::Tuning) -> Result<()> {
        Ok(())
    }

    /// Whether one launch finds the neighbours on both sides of `count` queries, as [`Near::BOTH`](lanetree_simt::Near::BOTH) says.
    fn finds_both(&self, _tuning: &Self::Tuning, _count: u64) -> bool {
        false
    }

    /// This tuning, for queries in an order. An index that gains nothing from it ignores it.
    fn in_order(tuning: Self::Tuning, _order: BatchOrder) -> Self::Tuning {
        tuning
    }

    /// By which bits of their order-preserving words `count` queries are to be moved, so that those of a piece of the key space are
    /// answered one after another: at most 8 bits. `None` where that gains nothing, and for a number of queries that
    /// [cannot be moved](lanetree_primitives::can_be_moved).
    fn pieces(&self, _tuning: &Self::Tuning, _count: u64) -> Option<Range<u32>> {
        None
    }

    /// Launches a batch of queries, at least one. `tuning` says how look-ups are done.
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_base::Error::Lost); the errors of [`FixedIndex::check_tuning`] and of a launch.
    ///
    /// # Safety
    /// The stream may read what the batch points at, and write as many results as it has queries, in memory that the device reaches.
    /// Cursors are of the index's current state; a row has no more pairs than follow its cursor and what it skips.
    unsafe fn launch(
        &self,
        stream: &Stream,
        tuning: &Self::Tuning,
        query: &Query<BitsOf<Self>, Self::Value>,
    ) -> Result<()>;

    /// Launches what [`Query::Gather`] does of a whole batch of ranges, with about `mean` pairs in each, if `tuning` says that they are
    /// sorted and the index gains by it; otherwise launches nothing, and returns false.
    ///
    /// # Errors
    /// As [`FixedIndex::launch`].
    ///
    /// # Safety
    /// As [`FixedIndex::launch`]; the ranges are the batch's, which skips no pairs and begins with the first output.
    unsafe fn launch_gather_sorted(
        &self,
        _stream: &Stream,
        _tuning: &Self::Tuning,
        _ranges: SortedRanges<BitsOf<Self>>,
        _batch: GatherBatch<BitsOf<Self>, Self::Value>,
        _mean: u64,
    ) -> Result<bool> {
        Ok(false)
    }

    /// Launches the copying of all pairs, at least one, in ascending order of their keys. Some indexes allocate memory for that,
    /// and may wait.
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_base::Error::Lost); [`Error::Runtime`](lanetree_base::Error::Runtime) from the device.
    ///
    /// # Safety
    /// The stream may write as many pairs as the index has, in memory that the device can reach.
    unsafe fn launch_copy_pairs(
        &self,
        stream: &Stream,
        AllPairs { keys, values }: AllPairs<BitsOf<Self>, Self::Value>,
    ) -> Result<()> {
        let all = AllRows::new(self, stream.device())?;
        let rows = all.window(stream, 0..self.len(), PART)?;
        let query = Query::gather(GatherBatch { rows, keys, values }, self.len() as usize);
        // SAFETY: there is room for all pairs; the pointers are for this stream.
        unsafe { self.launch(stream, &Self::Tuning::default(), &query) }
    }

    /// An index with this one's options, on the stream's device, over the first `len` of these pairs, whose keys ascend
    /// strictly. Waits for the stream. An implementation begins with [`check_pairs`].
    ///
    /// # Errors
    /// [`Error::OutputLength`](lanetree_base::Error::OutputLength) for buffers of fewer pairs;
    /// [`Error::Runtime`](lanetree_base::Error::Runtime) for buffers of another device than the stream's; the errors of
    /// the index's build.
    ///
    /// # Safety
    /// Each of the first `len` keys is above the one before it when the stream comes to them. Kernels rely on that and need not
    /// check it: they may read and write outside their buffers where it does not hold.
    unsafe fn build_like(
        &self,
        stream: &Stream,
        pairs: (&Buffer<Self::Key>, &Buffer<Self::Value>),
        len: usize,
    ) -> Result<Self>;
}
