//! New indexes from two: unions, intersections, differences.

mod scratch;

pub use scratch::CombineScratch;

use super::FixedIndex;
use super::pairs::check_lengths;
use bytemuck::Pod;
use lanetree_base::Result;
use lanetree_base::error::same_device;
use lanetree_primitives::DevicePairs;
use lanetree_runtime::{Buffer, Stream};

/// Unions, intersections and differences of an index with another one over the same keys and values, of any kind, on the same
/// device, or with a sorted batch. The result is a new index with this one's options; neither index changes. A call works on the
/// device from end to end, and returns when the new index is complete: it waits for the device a few times meanwhile, to learn
/// how many pairs there are.
///
/// A union or a difference copies the pairs out of both indexes, merges them, and builds. An intersection looks up the keys of
/// the smaller side in the larger one, and so does a difference with a much larger index.
///
/// # Memory
/// Beside both indexes and the new one, a call in host form takes memory for about twice the pairs (for an intersection, 2.5
/// times those of the smaller side), from where the index has its own; only the result's pairs are still there when the new
/// index is built. Where this is repeated, a [`Pool`](lanetree_runtime::Pool) saves most of the time that a driver takes for
/// gigabytes. A call in device form takes it from a [`CombineScratch`], which keeps it, and the new index's from the stream's
/// device.
pub trait Combine: FixedIndex {
    /// The pairs of both. Of a key that is in both, the value of `other` is kept, as if its pairs were inserted into this
    /// index.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has no room, if `other` is on another device, or from the driver; [`Lost`](lanetree_base::Error::Lost) if
    /// either is lost; what the index's build gives for too many pairs.
    fn union(&self, other: &impl FixedIndex<Key = Self::Key, Value = Self::Value>) -> Result<Self> {
        check(self, other)?;
        alone(self, |stream, scratch| scratch.unite(stream, self, other))
    }

    /// The pairs of this index whose keys are in `other`, too, with this index's values.
    ///
    /// # Errors
    /// As [`Combine::union`].
    fn intersection(&self, other: &impl FixedIndex<Key = Self::Key, Value = Self::Value>) -> Result<Self> {
        check(self, other)?;
        alone(self, |stream, scratch| scratch.intersect(stream, self, other))
    }

    /// The pairs of this index whose keys are not in `other`.
    ///
    /// # Errors
    /// As [`Combine::union`].
    fn difference(&self, other: &impl FixedIndex<Key = Self::Key, Value = Self::Value>) -> Result<Self> {
        check(self, other)?;
        alone(self, |stream, scratch| scratch.subtract(stream, self, other))
    }

    /// [`Combine::union`] with a batch of pairs in ascending order of their keys. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Combine::union`]; [`LengthMismatch`](lanetree_base::Error::LengthMismatch), [`NotSorted`](lanetree_base::Error::NotSorted).
    fn union_sorted(&self, keys: &[Self::Key], values: &[Self::Value]) -> Result<Self> {
        self.check_not_lost()?;
        check_lengths(keys, values)?;
        alone(self, |stream, scratch| {
            let batch = (self.uploaded(keys)?, self.uploaded(values)?);
            scratch.unite_batch(stream, self, (&batch.0, &batch.1, keys.len()))
        })
    }

    /// [`Combine::intersection`] with a batch of keys in ascending order.
    ///
    /// # Errors
    /// As [`Combine::union_sorted`].
    fn intersection_sorted(&self, keys: &[Self::Key]) -> Result<Self> {
        self.check_not_lost()?;
        let (device, stream) = (self.device(), self.device().stream()?);
        let batch = self.uploaded(keys)?;
        self.intersection_sorted_on(&stream, &batch, keys.len(), &mut CombineScratch::new(device)?)
    }

    /// [`Combine::difference`] with a batch of keys in ascending order.
    ///
    /// # Errors
    /// As [`Combine::union_sorted`].
    fn difference_sorted(&self, keys: &[Self::Key]) -> Result<Self> {
        self.check_not_lost()?;
        alone(self, |stream, scratch| {
            let batch = self.uploaded(keys)?;
            scratch.subtract_batch(stream, self, (&batch, keys.len()))
        })
    }

    /// An array on the index's device.
    #[doc(hidden)]
    fn uploaded<T: Pod + Send + Sync>(&self, data: &[T]) -> Result<Buffer<T>> {
        self.staging().queries.buffer_of(self.device(), data)
    }

    /// [`Combine::union`] on a stream, with scratch memory that is reused. The new index's memory comes from the stream's device.
    ///
    /// # Errors
    /// As [`Combine::union`]; [`Runtime`](lanetree_base::Error::Runtime) if the stream or the scratch memory is another device's.
    fn union_on(
        &self,
        stream: &Stream,
        other: &impl FixedIndex<Key = Self::Key, Value = Self::Value>,
        scratch: &mut CombineScratch<Self::Key, Self::Value>,
    ) -> Result<Self> {
        check(self, other)?;
        on(self, stream, scratch, |scratch| scratch.unite(stream, self, other))
    }

    /// [`Combine::intersection`] on a stream; otherwise like [`Combine::union_on`].
    ///
    /// # Errors
    /// As [`Combine::union_on`].
    fn intersection_on(
        &self,
        stream: &Stream,
        other: &impl FixedIndex<Key = Self::Key, Value = Self::Value>,
        scratch: &mut CombineScratch<Self::Key, Self::Value>,
    ) -> Result<Self> {
        check(self, other)?;
        on(self, stream, scratch, |scratch| scratch.intersect(stream, self, other))
    }

    /// [`Combine::difference`] on a stream; otherwise like [`Combine::union_on`].
    ///
    /// # Errors
    /// As [`Combine::union_on`].
    fn difference_on(
        &self,
        stream: &Stream,
        other: &impl FixedIndex<Key = Self::Key, Value = Self::Value>,
        scratch: &mut CombineScratch<Self::Key, Self::Value>,
    ) -> Result<Self> {
        check(self, other)?;
        on(self, stream, scratch, |scratch| scratch.subtract(stream, self, other))
    }

    /// [`Combine::union_sorted`] with the first `len` pairs of two buffers; otherwise like [`Combine::union_on`].
    ///
    /// # Errors
    /// As [`Combine::union_on`]; [`OutputLength`](lanetree_base::Error::OutputLength) for buffers that are too small,
    /// [`NotSorted`](lanetree_base::Error::NotSorted).
    fn union_sorted_on(
        &self,
        stream: &Stream,
        keys: &Buffer<Self::Key>,
        values: &Buffer<Self::Value>,
        len: usize,
        scratch: &mut CombineScratch<Self::Key, Self::Value>,
    ) -> Result<Self> {
        on(self, stream, scratch, |scratch| scratch.unite_batch(stream, self, (keys, values, len)))
    }

    /// What `build` makes of the pairs of [`Combine::union_sorted_on`], in strictly ascending order of their keys.
    ///
    /// # Errors
    /// As [`Combine::union_sorted_on`], and those of `build`.
    #[doc(hidden)]
    fn united_sorted_on<R>(
        &self,
        stream: &Stream,
        batch: DevicePairs<'_, Self::Key, Self::Value>,
        scratch: &mut CombineScratch<Self::Key, Self::Value>,
        build: impl FnOnce(DevicePairs<'_, Self::Key, Self::Value>) -> Result<R>,
    ) -> Result<R> {
        check_on(self, stream, scratch)?;
        let len = scratch.unite_batch(stream, self, batch)?;
        build(scratch.result(len))
    }

    /// [`Combine::intersection_sorted`] with the first `len` keys of a buffer; otherwise like [`Combine::union_on`].
    ///
    /// # Errors
    /// As [`Combine::union_sorted_on`].
    fn intersection_sorted_on(
        &self,
        stream: &Stream,
        keys: &Buffer<Self::Key>,
        len: usize,
        scratch: &mut CombineScratch<Self::Key, Self::Value>,
    ) -> Result<Self> {
        check_on(self, stream, scratch)?;
        scratch.intersect_batch(stream, self, (keys, len), |(keys, values, len)| {
            // SAFETY: pairs that a selection made of a batch that ascends, each key once.
            unsafe { self.build_like(stream, (keys, values), len) }
        })
    }

    /// [`Combine::difference_sorted`] with the first `len` keys of a buffer; otherwise like [`Combine::union_on`].
    ///
    /// # Errors
    /// As [`Combine::union_sorted_on`].
    fn difference_sorted_on(
        &self,
        stream: &Stream,
        keys: &Buffer<Self::Key>,
        len: usize,
        scratch: &mut CombineScratch<Self::Key, Self::Value>,
    ) -> Result<Self> {
        on(self, stream, scratch, |scratch| scratch.subtract_batch(stream, self, (keys, len)))
    }
}

impl<I: FixedIndex> Combine for I {}

/// Whether both can be combined.
fn check<I: FixedIndex>(index: &I, other: &impl FixedIndex) -> Result<()> {
    index.check_not_lost()?;
    other.check_not_lost()?;
    same_device(index.device(), other.device(), "the other index")
}

/// Whether an index can be combined on this stream, with this scratch memory.
fn check_on<I: FixedIndex>(index: &I, stream: &Stream, scratch: &CombineScratch<I::Key, I::Value>) -> Result<()> {
    index.check_not_lost()?;
    same_device(index.device(), stream.device(), "the stream")?;
    scratch.check(stream)
}

/// A new index of the pairs that `make` makes, with memory that is free again when they are built into an index.
fn alone<I: FixedIndex>(
    index: &I,
    make: impl FnOnce(&Stream, &mut CombineScratch<I::Key, I::Value>) -> Result<usize>,
) -> Result<I> {
    let (stream, mut scratch) = (index.device().stream()?, CombineScratch::new(index.device())?);
    let len = make(&stream, &mut scratch)?;
    let (keys, values) = scratch.into_result();
    // SAFETY: what the scratch memory made of two strictly ascending sides: see `CombineScratch`.
    unsafe { index.build_like(&stream, (&keys, &values), len) }
}

/// A new index of the pairs that `make` makes.
fn on<I: FixedIndex>(
    index: &I,
    stream: &Stream,
    scratch: &mut CombineScratch<I::Key, I::Value>,
    make: impl FnOnce(&mut CombineScratch<I::Key, I::Value>) -> Result<usize>,
) -> Result<I> {
    check_on(index, stream, scratch)?;
    let len = make(scratch)?;
    let (keys, values, len) = scratch.result(len);
    // SAFETY: as in `alone`.
    unsafe { index.build_like(stream, (keys, values), len) }
}
