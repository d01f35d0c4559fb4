//! What an index is combined with.

use super::CombineScratch;
use crate::fixed::FixedIndex;
use crate::fixed::pairs::check_lengths;
use bytemuck::Pod;
use lanetree_base::Result;
use lanetree_base::error::same_device;
use lanetree_primitives::DevicePairs;
use lanetree_runtime::{Buffer, Stream};

/// A batch in ascending order of its keys, which may have equal ones: what an index is combined with ([`Combine`](super::Combine)).
/// The order is checked.
///
/// ```
/// use lanetree::{CombineScratch, Device, LaneTree, Sorted};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::emulated();
/// let index = LaneTree::build(&device, &[10_u64, 20], &[1_u32, 2])?;
/// assert_eq!(index.union(Sorted::pairs(&[20, 30], &[7, 8]))?.pairs()?, [(10, 1), (20, 7), (30, 8)]);
/// assert_eq!(index.difference(Sorted::keys(&[20, 30]))?.pairs()?, [(10, 1)]);
///
/// // The same of buffers, on a stream, with scratch memory that is reused.
/// let (stream, mut scratch) = (device.stream()?, CombineScratch::new(&device)?);
/// let batch = device.upload(&[20_u64, 30])?;
/// let rest = index.difference_on(&stream, Sorted::keys_on(&batch, 2), &mut scratch)?;
/// assert_eq!(rest.pairs()?, [(10, 1)]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sorted<K, V = ()> {
    keys: K,
    values: V,
    len: usize,
}

impl<'a, K> Sorted<&'a [K]> {
    /// Keys: for an intersection or a difference, and for any combination of a set.
    pub fn keys(keys: &'a [K]) -> Self {
        Self { keys, values: (), len: keys.len() }
    }
}

impl<'a, K, V> Sorted<&'a [K], &'a [V]> {
    /// Pairs, one value per key. Of equal keys the last one's value is kept.
    pub fn pairs(keys: &'a [K], values: &'a [V]) -> Self {
        Self { keys, values, len: keys.len() }
    }
}

impl<'a, K: Pod> Sorted<&'a Buffer<K>> {
    /// The first `len` keys of a buffer, which ascend, as the second side of a combination.
    pub fn keys_on(keys: &'a Buffer<K>, len: usize) -> Self {
        Self { keys, values: (), len }
    }
}

impl<'a, K: Pod, V: Pod> Sorted<&'a Buffer<K>, &'a Buffer<V>> {
    /// The first `len` pairs of two buffers. Of equal keys the last one's value is kept.
    pub fn pairs_on(keys: &'a Buffer<K>, values: &'a Buffer<V>, len: usize) -> Self {
        Self { keys, values, len }
    }
}

/// What an operand has made.
#[doc(hidden)]
#[derive(Debug)]
pub enum Made<I> {
    /// So many pairs in the scratch memory, whose keys ascend strictly.
    Pairs(usize),
    /// The new index.
    Index(I),
}

/// The scratch memory of an index's combinations.
type Scratch<I> = CombineScratch<<I as FixedIndex>::Key, <I as FixedIndex>::Value>;

/// What the keys of an index can be intersected with, or subtracted: `&` an index of any kind over the same keys and values, or
/// [`Sorted`] keys, in main memory or in a buffer.
pub trait Operand<I: FixedIndex> {
    /// # Errors
    /// [`Lost`](lanetree_base::Error::Lost); [`LengthMismatch`](lanetree_base::Error::LengthMismatch);
    /// [`Runtime`](lanetree_base::Error::Runtime) for an index on another device.
    #[doc(hidden)]
    fn check(&self, index: &I) -> Result<()>;

    /// The pairs of the index whose keys it has.
    ///
    /// # Errors
    /// As [`Combine::intersection`](super::Combine::intersection).
    #[doc(hidden)]
    fn intersect(&self, stream: &Stream, index: &I, scratch: &mut Scratch<I>) -> Result<Made<I>>;

    /// The pairs of the index whose keys it does not have.
    ///
    /// # Errors
    /// As [`Combine::difference`](super::Combine::difference).
    #[doc(hidden)]
    fn subtract(&self, stream: &Stream, index: &I, scratch: &mut Scratch<I>) -> Result<Made<I>>;
}

/// What an index can be united with: an [`Operand`] that has values, or keys alone for a set.
pub trait PairOperand<I: FixedIndex>: Operand<I> {
    /// The pairs of both.
    ///
    /// # Errors
    /// As [`Combine::union`](super::Combine::union).
    #[doc(hidden)]
    fn unite(&self, stream: &Stream, index: &I, scratch: &mut Scratch<I>) -> Result<Made<I>>;
}

impl<I: FixedIndex, J: FixedIndex<Key = I::Key, Value = I::Value>> Operand<I> for &J {
    fn check(&self, index: &I) -> Result<()> {
        index.check_not_lost()?;
        self.check_not_lost()?;
        same_device(index.device(), self.device(), "the other index")
    }

    fn intersect(&self, stream: &Stream, index: &I, scratch: &mut Scratch<I>) -> Result<Made<I>> {
        scratch.intersect(stream, index, *self).map(Made::Pairs)
    }

    fn subtract(&self, stream: &Stream, index: &I, scratch: &mut Scratch<I>) -> Result<Made<I>> {
        scratch.subtract(stream, index, *self).map(Made::Pairs)
    }
}

impl<I: FixedIndex, J: FixedIndex<Key = I::Key, Value = I::Value>> PairOperand<I> for &J {
    fn unite(&self, stream: &Stream, index: &I, scratch: &mut Scratch<I>) -> Result<Made<I>> {
        scratch.unite(stream, index, *self).map(Made::Pairs)
    }
}

impl<I: FixedIndex, V> Operand<I> for Sorted<&Buffer<I::Key>, V> {
    fn check(&self, index: &I) -> Result<()> {
        index.check_not_lost()
    }

    fn intersect(&self, stream: &Stream, index: &I, scratch: &mut Scratch<I>) -> Result<Made<I>> {
        let built = scratch.intersect_batch(stream, index, (self.keys, self.len), |pairs| {
            // SAFETY: pairs that a selection made of a batch that ascends, each key once.
            unsafe { index.build_like(stream, (pairs.keys, pairs.values), pairs.len) }
        });
        built.map(Made::Index)
    }

    fn subtract(&self, stream: &Stream, index: &I, scratch: &mut Scratch<I>) -> Result<Made<I>> {
        scratch.subtract_batch(stream, index, (self.keys, self.len)).map(Made::Pairs)
    }
}

impl<I: FixedIndex> PairOperand<I> for Sorted<&Buffer<I::Key>, &Buffer<I::Value>> {
    fn unite(&self, stream: &Stream, index: &I, scratch: &mut Scratch<I>) -> Result<Made<I>> {
        let pairs = DevicePairs { keys: self.keys, values: self.values, len: self.len };
        scratch.unite_batch(stream, index, pairs).map(Made::Pairs)
    }
}

impl<I: FixedIndex<Value = ()>> PairOperand<I> for Sorted<&Buffer<I::Key>> {
    fn unite(&self, stream: &Stream, index: &I, scratch: &mut Scratch<I>) -> Result<Made<I>> {
        // As many values as keys. They take no memory.
        let values = self.keys.device().alloc(self.keys.len())?;
        let pairs = DevicePairs { keys: self.keys, values: &values, len: self.len };
        scratch.unite_batch(stream, index, pairs).map(Made::Pairs)
    }
}

impl<I: FixedIndex, V> Operand<I> for Sorted<&[I::Key], V> {
    fn check(&self, index: &I) -> Result<()> {
        index.check_not_lost()
    }

    fn intersect(&self, stream: &Stream, index: &I, scratch: &mut Scratch<I>) -> Result<Made<I>> {
        Sorted::keys_on(&uploaded(index, self.keys)?, self.len).intersect(stream, index, scratch)
    }

    fn subtract(&self, stream: &Stream, index: &I, scratch: &mut Scratch<I>) -> Result<Made<I>> {
        Sorted::keys_on(&uploaded(index, self.keys)?, self.len).subtract(stream, index, scratch)
    }
}

impl<I: FixedIndex> PairOperand<I> for Sorted<&[I::Key], &[I::Value]> {
    fn unite(&self, stream: &Stream, index: &I, scratch: &mut Scratch<I>) -> Result<Made<I>> {
        check_lengths(self.keys, self.values)?;
        let (keys, values) = (uploaded(index, self.keys)?, uploaded(index, self.values)?);
        Sorted::pairs_on(&keys, &values, self.len).unite(stream, index, scratch)
    }
}

impl<I: FixedIndex<Value = ()>> PairOperand<I> for Sorted<&[I::Key]> {
    fn unite(&self, stream: &Stream, index: &I, scratch: &mut Scratch<I>) -> Result<Made<I>> {
        Sorted::keys_on(&uploaded(index, self.keys)?, self.len).unite(stream, index, scratch)
    }
}

/// An array on the index's device.
fn uploaded<I: FixedIndex, T: Pod + Send + Sync>(index: &I, data: &[T]) -> Result<Buffer<T>> {
    index.staging().queries.buffer_of(index.device(), data)
}
