//! New indexes from two: unions, intersections, differences.

use super::pairs::SortedPairs;
use super::{FixedIndex, OnStream, TASK, View};
use lanetree_base::Result;
use lanetree_base::error::same_device;
use lanetree_layout::{AnyKey, Value};
use lanetree_primitives::{MergeRule, MergeScratch, Pairs, PairsMut, SelectScratch, valued};
use lanetree_runtime::{Buffer, Stream};
use rayon::prelude::*;

/// Unions, intersections and differences of an index with another one over the same keys and values, of any kind, on the same
/// device. The result is a new index with this one's options, on this one's device; neither index changes. A call works on the
/// device from end to end, and returns when the new index is complete.
///
/// Beside both indexes and the new one, a call needs memory for about twice the pairs.
pub trait Combine: FixedIndex {
    /// The pairs of both. Of a key that is in both, the value of `other` is kept, as if its pairs were inserted into this
    /// index.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has no room, if `other` is on another device, or from the driver; [`Lost`](lanetree_base::Error::Lost) if
    /// either is lost; what the index's build gives for too many pairs.
    fn union(&self, other: &impl FixedIndex<Key = Self::Key, Value = Self::Value>) -> Result<Self> {
        check(self, other)?;
        let stream = self.device().stream()?;
        merged(self, &stream, &All::of(other, &stream)?)
    }

    /// The pairs of this index whose keys are in `other`, too, with this index's values.
    ///
    /// # Errors
    /// As [`Combine::union`].
    fn intersection(&self, other: &impl FixedIndex<Key = Self::Key, Value = Self::Value>) -> Result<Self> {
        check(self, other)?;
        let stream = self.device().stream()?;
        let all = All::of(self, &stream)?;
        let (hits, mut kept) = (all.hits(other, &stream)?, Kept::new(self, all.len)?);
        let mut scratch = SelectScratch::new(self.device(), all.len)?;
        valued::select(&stream, all.pairs(), &hits, kept.output(), &mut scratch)?;
        drop(all);
        let len = kept.len()?;
        self.build_like(&stream, (&kept.keys, &kept.values), len)
    }

    /// The pairs of this index whose keys are not in `other`.
    ///
    /// # Errors
    /// As [`Combine::union`].
    fn difference(&self, other: &impl FixedIndex<Key = Self::Key, Value = Self::Value>) -> Result<Self> {
        check(self, other)?;
        let (device, stream) = (self.device(), self.device().stream()?);
        let mut all = All::of(self, &stream)?;
        let (hits, mut partitioned) = (all.hits(other, &stream)?, Kept::new(self, all.len)?);
        let mut scratch = SelectScratch::new(device, all.len)?;
        valued::partition(&stream, all.pairs(), &hits, partitioned.output(), &mut scratch)?;
        // The others come after those that are in both.
        let rest = partitioned.len()?..all.len;
        all.keys.copy_from_buffer(&stream, 0, &partitioned.keys, rest.clone())?;
        all.values.copy_from_buffer(&stream, 0, &partitioned.values, rest.clone())?;
        drop(partitioned);
        self.build_like(&stream, (&all.keys, &all.values), rest.len())
    }

    /// [`Combine::union`] with a batch of pairs in ascending order of their keys. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Combine::union`]; [`LengthMismatch`](lanetree_base::Error::LengthMismatch), [`NotSorted`](lanetree_base::Error::NotSorted).
    fn union_sorted(&self, keys: &[Self::Key], values: &[Self::Value]) -> Result<Self> {
        self.check_not_lost()?;
        let stream = self.device().stream()?;
        let batch = All::upload(self, SortedPairs::from_sorted(keys, values)?)?;
        merged(self, &stream, &batch)
    }

    /// [`Combine::difference`] with a batch of keys in ascending order.
    ///
    /// # Errors
    /// As [`Combine::union_sorted`].
    fn difference_sorted(&self, keys: &[Self::Key]) -> Result<Self> {
        self.check_not_lost()?;
        let stream = self.device().stream()?;
        let batch = All::upload(self, SortedPairs::from_sorted(keys, &vec![Self::Value::default(); keys.len()])?)?;
        let other = self.build_like(&stream, (&batch.keys, &batch.values), batch.len)?;
        drop(batch);
        self.difference(&other)
    }
}

impl<I: FixedIndex> Combine for I {}

/// Whether both can be combined.
fn check<I: FixedIndex>(index: &I, other: &impl FixedIndex) -> Result<()> {
    index.check_not_lost()?;
    other.check_not_lost()?;
    same_device(index.device(), other.device(), "the other index")
}

/// The union of an index with pairs, which replace its own.
fn merged<I: FixedIndex>(index: &I, stream: &Stream, second: &All<I::Key, I::Value>) -> Result<I> {
    let first = All::of(index, stream)?;
    let room = first.len.saturating_add(second.len);
    let mut kept = Kept::new(index, room)?;
    let mut scratch = MergeScratch::new(index.device(), room)?;
    valued::merge(stream, MergeRule::SecondReplacesFirst, first.pairs(), second.pairs(), kept.output(), &mut scratch)?;
    drop(first);
    let len = kept.len()?;
    index.build_like(stream, (&kept.keys, &kept.values), len)
}

/// Distinct pairs on a device, in ascending order of their keys.
struct All<K, V> {
    keys: Buffer<K>,
    values: Buffer<V>,
    len: usize,
}

impl<K: AnyKey, V: Value> All<K, V> {
    /// All pairs of an index.
    fn of(index: &impl FixedIndex<Key = K, Value = V>, stream: &Stream) -> Result<Self> {
        let (device, len) = (index.device(), index.len() as usize);
        let mut all = Self { keys: device.alloc(len)?, values: device.alloc(len)?, len };
        if len == 0 {
            return Ok(all);
        }
        if let Some(view) = index.native() {
            let (Some(keys), Some(values)) = (all.keys.as_mut_slice(), all.values.as_mut_slice()) else {
                unreachable!("buffers of the host are in main memory")
            };
            let tasks = keys.par_chunks_mut(TASK).zip(values.par_chunks_mut(TASK)).enumerate();
            tasks.for_each(|(task, (keys, values))| view.copy((task * TASK) as u64, keys, values));
            return Ok(all);
        }
        let (cursors, offsets) = index.rows()?;
        let (cursors, offsets) = (device.upload(&cursors)?, device.upload(&offsets)?);
        let rows = (cursors.read_on(stream)?, offsets.read_on(stream)?);
        let pairs = (all.keys.write_on(stream)?.cast(), all.values.write_on(stream)?);
        // SAFETY: these are the index's cursors, and offsets up to its length; the pointers are for this stream.
        unsafe { index.launch_gather(stream, cursors.len(), len, rows, pairs, len)? };
        Ok(all)
    }

    /// Pairs from main memory, where an index is.
    fn upload(index: &impl FixedIndex, pairs: SortedPairs<K::Bits, V>) -> Result<Self> {
        let keys: Vec<K> = pairs.keys.par_iter().map(|&word| K::decode(word)).collect();
        let (device, len) = (index.device(), keys.len());
        Ok(Self { keys: device.upload(&keys)?, values: device.upload(&pairs.values)?, len })
    }

    fn pairs(&self) -> Pairs<'_, K, V> {
        Pairs { keys: &self.keys, values: &self.values, count: self.len.into() }
    }

    /// A bit for each pair: whether its key is in an index.
    fn hits(&self, index: &impl FixedIndex<Key = K, Value = V>, stream: &Stream) -> Result<Buffer<u32>> {
        let mut values = index.device().alloc(self.len)?;
        let mut hits = index.device().alloc(self.len.div_ceil(32))?;
        OnStream::new(index, stream).get(&self.keys, &mut values, Some(&mut hits), V::default())?;
        Ok(hits)
    }
}

/// Pairs that are kept, on a device.
struct Kept<K, V> {
    keys: Buffer<K>,
    values: Buffer<V>,
    count: Buffer<u64>,
}

impl<K: AnyKey, V: Value> Kept<K, V> {
    fn new(index: &impl FixedIndex, room: usize) -> Result<Self> {
        let device = index.device();
        Ok(Self { keys: device.alloc(room)?, values: device.alloc(room)?, count: device.alloc(1)? })
    }

    fn output(&mut self) -> PairsMut<'_, K, V> {
        PairsMut { keys: &mut self.keys, values: &mut self.values, count: &mut self.count }
    }

    /// How many there are. Waits for what writes them.
    fn len(&self) -> Result<usize> {
        Ok(self.count.to_vec()?[0] as usize)
    }
}

/// Gives an index over keys of a fixed size the methods of [`Combine`](crate::fixed::Combine) as its own, so that its users
/// need not name the trait.
#[macro_export]
macro_rules! inherent_combinations {
    (impl<$k:ident: $key:ident, $v:ident: Word> $index:ty) => {
        /// New indexes from two.
        impl<$k: $crate::$key, $v: $crate::Word> $index {
            /// [`Combine::union`]($crate::fixed::Combine::union).
            ///
            /// # Errors
            /// As there.
            pub fn union(&self, other: &impl $crate::fixed::FixedIndex<Key = $k, Value = $v>) -> $crate::Result<Self> {
                $crate::fixed::Combine::union(self, other)
            }

            /// [`Combine::intersection`]($crate::fixed::Combine::intersection).
            ///
            /// # Errors
            /// As there.
            pub fn intersection(
                &self,
                other: &impl $crate::fixed::FixedIndex<Key = $k, Value = $v>,
            ) -> $crate::Result<Self> {
                $crate::fixed::Combine::intersection(self, other)
            }

            /// [`Combine::difference`]($crate::fixed::Combine::difference).
            ///
            /// # Errors
            /// As there.
            pub fn difference(
                &self,
                other: &impl $crate::fixed::FixedIndex<Key = $k, Value = $v>,
            ) -> $crate::Result<Self> {
                $crate::fixed::Combine::difference(self, other)
            }

            /// [`Combine::union_sorted`]($crate::fixed::Combine::union_sorted).
            ///
            /// # Errors
            /// As there.
            pub fn union_sorted(&self, keys: &[$k], values: &[$v]) -> $crate::Result<Self> {
                $crate::fixed::Combine::union_sorted(self, keys, values)
            }

            /// [`Combine::difference_sorted`]($crate::fixed::Combine::difference_sorted).
            ///
            /// # Errors
            /// As there.
            pub fn difference_sorted(&self, keys: &[$k]) -> $crate::Result<Self> {
                $crate::fixed::Combine::difference_sorted(self, keys)
            }
        }
    };
}
