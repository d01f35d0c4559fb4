//! The methods that make indexes of other ones, as [`inherent`](super::inherent) has the others.

/// Unions, intersections and differences; and rebuilding an index from its own pairs.
#[macro_export]
macro_rules! inherent_combinations {
    (impl<$k:ident: $key:ident, $v:ident: Word> $index:ident<$k2:ident, $v2:ident>) => {
        /// Copies, and memory.
        impl<$k: $crate::$key, $v: $crate::Word> $index<$k, $v> {
            /// A second index with the same pairs and options, on the same device, laid out as a build lays it out. Returns when it
            /// is complete. It isn't [`Clone`], because a device can be out of memory.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let mut index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20], &[1_u32, 2])?;")]
            /// let before = index.try_clone()?;
            /// index.clear()?;
            /// assert_eq!((index.len(), before.pairs()?), (0, vec![(10, 1), (20, 2)]));
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// [`Error::Lost`](lanetree_frame::Error::Lost); [`Error::Runtime`](lanetree_frame::Error::Runtime) if the device has no room for a
            /// copy of the pairs and the second index, or from the device.
            pub fn try_clone(&self) -> $crate::Result<Self> {
                $crate::fixed::copy(self)
            }

            /// Removes all pairs and gives back their memory; the index keeps its options. Returns when it is done.
            ///
            /// # Errors
            /// [`Error::Lost`](lanetree_frame::Error::Lost); [`Error::Runtime`](lanetree_frame::Error::Runtime) from the device: the index is as
            /// it was.
            pub fn clear(&mut self) -> $crate::Result<()> {
                $crate::fixed::clear(self)
            }

            /// Rebuilds the index from its pairs, with its options, in new memory. So it gives back the memory that insertions and
            /// removals have left unused. Returns by how many bytes of the device's memory the
            /// index has become smaller; 0 if it has not. Returns when it is done. Meanwhile the device holds both layouts and
            /// a copy of the pairs.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            /// let keys: Vec<u64> = (0..10_000).collect();
            #[doc = concat!("let mut index = ", stringify!($index), "::build(&Device::host(), &keys, &keys)?;")]
            /// index.remove_many(&keys[100..])?;
            /// index.compact()?;
            /// assert_eq!(index.len(), 100);
            #[doc = concat!("assert_eq!(index.bytes(), ", stringify!($index), "::build(&Device::host(), &keys[..100], &keys[..100])?.bytes());")]
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if the device has no room, or from the driver: the index is
            /// unchanged. [`Error::Lost`](lanetree_frame::Error::Lost).
            pub fn compact(&mut self) -> $crate::Result<u64> {
                $crate::fixed::compact(self)
            }
        }

        /// New indexes from two on the same device, of any kinds over the same keys and values (`&other`), or from an index and a
        /// [`Sorted`](lanetree_frame::fixed::Sorted) batch. The new index has this one's options; neither input changes. A call works on the device from end to end and
        /// returns when the new index is complete. [`Combine`](lanetree_frame::fixed::Combine) says what memory it takes.
        ///
        /// The forms that end in `_on` work on a stream of yours, with scratch memory that is reused;
        /// the new index's memory comes from the stream's device.
        impl<$k: $crate::$key, $v: $crate::Word> $index<$k, $v> {
            /// The pairs of both. A key that is in both gets the value of `other`, as if its pairs were inserted.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), ", Sorted};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            /// let device = Device::host();
            #[doc = concat!("let index = ", stringify!($index), "::build(&device, &[10_u64, 20], &[1_u32, 2])?;")]
            #[doc = concat!("let other = ", stringify!($index), "::build(&device, &[20_u64, 30], &[7_u32, 8])?;")]
            /// assert_eq!(index.union(&other)?.pairs()?, [(10, 1), (20, 7), (30, 8)]);
            /// assert_eq!(index.intersection(&other)?.pairs()?, [(20, 2)]);
            /// assert_eq!(index.difference(&other)?.pairs()?, [(10, 1)]);
            /// assert_eq!(index.union(Sorted::pairs(&[5], &[9]))?.len(), 3);
            /// assert_eq!(index.intersection(Sorted::keys(&[10, 11]))?.pairs()?, [(10, 1)]);
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if the device has no room, if `other` is on another device,
            /// or from the driver; [`Error::Lost`](lanetree_frame::Error::Lost) if either is lost; the errors of the index's
            /// build for too many pairs. Of a batch: [`NotSorted`](lanetree_frame::Error::NotSorted) names the first key that
            /// is below the one before it; [`LengthMismatch`](lanetree_frame::Error::LengthMismatch) unless there is one value
            /// per key; [`OutputLength`](lanetree_frame::Error::OutputLength) for buffers of fewer elements than it is long.
            pub fn union(&self, other: impl $crate::fixed::PairOperand<Self>) -> $crate::Result<Self> {
                $crate::fixed::Combine::union(self, other)
            }

            /// The pairs of this index whose keys are in `other` too, with this index's values.
            ///
            /// # Errors
            /// As [`union`](Self::union).
            pub fn intersection(&self, other: impl $crate::fixed::Operand<Self>) -> $crate::Result<Self> {
                $crate::fixed::Combine::intersection(self, other)
            }

            /// The pairs of this index whose keys are not in `other`.
            ///
            /// # Errors
            /// As [`union`](Self::union).
            pub fn difference(&self, other: impl $crate::fixed::Operand<Self>) -> $crate::Result<Self> {
                $crate::fixed::Combine::difference(self, other)
            }

            /// The [`union`](Self::union), on a stream, with scratch memory that is reused.
            ///
            /// # Errors
            /// As [`union`](Self::union); [`Error::Runtime`](lanetree_frame::Error::Runtime) if the stream or the scratch memory is
            /// another device's.
            pub fn union_on(
                &self,
                stream: &$crate::Stream,
                other: impl $crate::fixed::PairOperand<Self>,
                scratch: &mut $crate::fixed::CombineScratch<$k, $v>,
            ) -> $crate::Result<Self> {
                $crate::fixed::Combine::union_on(self, stream, other, scratch)
            }

            /// The [`intersection`](Self::intersection), on a stream, with scratch memory that is reused.
            ///
            /// # Errors
            /// As [`union_on`](Self::union_on).
            pub fn intersection_on(
                &self,
                stream: &$crate::Stream,
                other: impl $crate::fixed::Operand<Self>,
                scratch: &mut $crate::fixed::CombineScratch<$k, $v>,
            ) -> $crate::Result<Self> {
                $crate::fixed::Combine::intersection_on(self, stream, other, scratch)
            }

            /// The [`difference`](Self::difference), on a stream, with scratch memory that is reused.
            ///
            /// # Errors
            /// As [`union_on`](Self::union_on).
            pub fn difference_on(
                &self,
                stream: &$crate::Stream,
                other: impl $crate::fixed::Operand<Self>,
                scratch: &mut $crate::fixed::CombineScratch<$k, $v>,
            ) -> $crate::Result<Self> {
                $crate::fixed::Combine::difference_on(self, stream, other, scratch)
            }
        }
    };
}
