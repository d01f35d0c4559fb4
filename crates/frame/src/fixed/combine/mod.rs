//! New indexes from two: unions, intersections, differences.

mod operand;
mod scratch;

#[doc(hidden)]
pub use operand::Made;
pub use operand::{Operand, PairOperand, Sorted};
pub use scratch::CombineScratch;

use super::FixedIndex;
use lanetree_base::Result;
use lanetree_base::error::same_device;
use lanetree_runtime::Stream;

/// Unions, intersections and differences of an index with another one over the same keys and values, of any kind, on the same
/// device (`&other`), or with a [`Sorted`] batch. The result is a new index with this one's options; neither index changes. A call works on the
/// device from end to end, and returns when the new index is complete: it waits for the device a few times meanwhile, to learn
/// how many pairs there are.
///
/// A union or a difference copies the pairs out of both indexes, merges them, and builds. An intersection looks up the keys of
/// the smaller side in the larger one, and so does a difference with a much larger index.
///
/// # Memory
/// In addition to both indexes and the new one, a call in host form takes memory for about twice the pairs (an
/// intersection: for 2.5 times the pairs of the smaller side), from the device or pool that the index uses. While the
/// new index is built, only the result's pairs still take such memory. Where calls are repeated, a
/// [`Pool`](lanetree_runtime::Pool) saves most of the time that a driver takes for gigabytes. A call in device form
/// takes it from a [`CombineScratch`], which keeps it, and the new index's from the stream's device.
pub trait Combine: FixedIndex {
    /// The pairs of both. Of a key that is in both, the value of `other` is kept, as if its pairs were inserted into this
    /// index.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has no room, if `other` is on another device, or from the driver;
    /// [`Lost`](lanetree_base::Error::Lost) if either is lost; what the index's build gives for too many pairs. Of a batch:
    /// [`NotSorted`](lanetree_base::Error::NotSorted) names the first key that is below the one before it;
    /// [`LengthMismatch`](lanetree_base::Error::LengthMismatch) unless there is one value per key;
    /// [`OutputLength`](lanetree_base::Error::OutputLength) for buffers of fewer elements than it is long.
    fn union(&self, other: impl PairOperand<Self>) -> Result<Self> {
        other.check(self)?;
        alone(self, |stream, scratch| other.unite(stream, self, scratch))
    }

    /// The pairs of this index whose keys are in `other`, too, with this index's values.
    ///
    /// # Errors
    /// As [`Combine::union`].
    fn intersection(&self, other: impl Operand<Self>) -> Result<Self> {
        other.check(self)?;
        alone(self, |stream, scratch| other.intersect(stream, self, scratch))
    }

    /// The pairs of this index whose keys are not in `other`.
    ///
    /// # Errors
    /// As [`Combine::union`].
    fn difference(&self, other: impl Operand<Self>) -> Result<Self> {
        other.check(self)?;
        alone(self, |stream, scratch| other.subtract(stream, self, scratch))
    }

    /// [`Combine::union`] on a stream, with scratch memory that is reused. The new index's memory comes from the stream's device.
    ///
    /// # Errors
    /// As [`Combine::union`]; [`Runtime`](lanetree_base::Error::Runtime) if the stream or the scratch memory is another device's.
    fn union_on(
        &self,
        stream: &Stream,
        other: impl PairOperand<Self>,
        scratch: &mut CombineScratch<Self::Key, Self::Value>,
    ) -> Result<Self> {
        other.check(self)?;
        on(self, stream, scratch, |scratch| other.unite(stream, self, scratch))
    }

    /// [`Combine::intersection`] on a stream; otherwise like [`Combine::union_on`].
    ///
    /// # Errors
    /// As [`Combine::union_on`].
    fn intersection_on(
        &self,
        stream: &Stream,
        other: impl Operand<Self>,
        scratch: &mut CombineScratch<Self::Key, Self::Value>,
    ) -> Result<Self> {
        other.check(self)?;
        on(self, stream, scratch, |scratch| other.intersect(stream, self, scratch))
    }

    /// [`Combine::difference`] on a stream; otherwise like [`Combine::union_on`].
    ///
    /// # Errors
    /// As [`Combine::union_on`].
    fn difference_on(
        &self,
        stream: &Stream,
        other: impl Operand<Self>,
        scratch: &mut CombineScratch<Self::Key, Self::Value>,
    ) -> Result<Self> {
        other.check(self)?;
        on(self, stream, scratch, |scratch| other.subtract(stream, self, scratch))
    }
}

impl<I: FixedIndex> Combine for I {}

/// A new index of what `make` makes, with memory that is free again when its pairs are built into an index.
fn alone<I: FixedIndex>(
    index: &I,
    make: impl FnOnce(&Stream, &mut CombineScratch<I::Key, I::Value>) -> Result<Made<I>>,
) -> Result<I> {
    let (stream, mut scratch) = (index.device().stream()?, CombineScratch::new(index.device())?);
    let len = match make(&stream, &mut scratch)? {
        Made::Pairs(len) => len,
        Made::Index(built) => return Ok(built),
    };
    let (keys, values) = scratch.into_result();
    // SAFETY: what the scratch memory made of two strictly ascending sides: see `CombineScratch`.
    unsafe { index.build_like(&stream, (&keys, &values), len) }
}

/// A new index of what `make` makes.
fn on<I: FixedIndex>(
    index: &I,
    stream: &Stream,
    scratch: &mut CombineScratch<I::Key, I::Value>,
    make: impl FnOnce(&mut CombineScratch<I::Key, I::Value>) -> Result<Made<I>>,
) -> Result<I> {
    same_device(index.device(), stream.device(), "the stream")?;
    scratch.check(stream)?;
    let len = match make(scratch)? {
        Made::Pairs(len) => len,
        Made::Index(built) => return Ok(built),
    };
    let pairs = scratch.result(len);
    // SAFETY: as in `alone`.
    unsafe { index.build_like(stream, (pairs.keys, pairs.values), pairs.len) }
}
