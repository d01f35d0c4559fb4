//! The methods that an index over keys of a fixed size has as its own, so that its users need not name the traits. Their
//! documentation stands here, once, for all of them.

/// All methods of an index: its size, its pairs and batches of changes, queries in both forms, and new indexes from two.
#[macro_export]
macro_rules! inherent {
    ($($index:tt)*) => {
        $crate::inherent_basics! { $($index)* }
        $crate::inherent_device_form! { $($index)* }
        $crate::inherent_combinations! { $($index)* }
        $crate::inherent_forms! { $($index)* }
    };
}

/// What every index has in addition to its queries: its size, its pairs, and batches of changes.
#[doc(hidden)]
#[macro_export]
macro_rules! inherent_basics {
    (impl<$k:ident: $key:ident, $v:ident: Word> $index:ident<$k2:ident, $v2:ident>) => {
        impl<'a, $k: $crate::$key, $v: $crate::Word> IntoIterator for &'a $index<$k, $v> {
            type Item = $crate::Result<($k, $v)>;
            type IntoIter = $crate::fixed::Iter<'a, $index<$k, $v>>;

            fn into_iter(self) -> Self::IntoIter {
                self.iter()
            }
        }

        /// Size, pairs, and batches of changes.
        impl<$k: $crate::$key, $v: $crate::Word> $index<$k, $v> {
            /// Builds an index over pairs in any order, with the default options. Of equal keys, the last one's value is kept.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), "};")]
            /// use std::collections::BTreeMap;
            ///
            /// # fn main() -> lanetree::Result<()> {
            /// let map = BTreeMap::from([(10_u64, 1_u32), (20, 2)]);
            #[doc = concat!("let index = ", stringify!($index), "::build_pairs(&Device::host(), map)?;")]
            /// assert_eq!(index.get(&20)?, Some(2));
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// The errors of the build; [`Error::Runtime`](lanetree_frame::Error::Runtime) if host memory has no room for the
            /// pairs, too.
            pub fn build_pairs(
                device: &$crate::Device,
                pairs: impl IntoIterator<Item = ($k, $v)>,
            ) -> $crate::Result<Self> {
                let (keys, values) = $crate::fixed::pairs::columns(pairs)?;
                Self::build(device, &keys, &values)
            }

            /// The device that holds the index.
            pub fn device(&self) -> &$crate::Device {
                $crate::fixed::FixedIndex::device(self)
            }

            /// The number of pairs. A lost index (see [`is_lost`](Self::is_lost)) has the number from before the batch that
            /// failed.
            pub fn len(&self) -> u64 {
                $crate::fixed::FixedIndex::len(self)
            }

            /// Whether there are no pairs.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Bytes of device memory that the index takes, including memory that is reserved for later changes.
            pub fn bytes(&self) -> u64 {
                $crate::fixed::FixedIndex::bytes(self)
            }

            /// Bytes of main memory that the index takes, in addition to its device memory: 0, since the whole index is
            /// on its device.
            pub fn host_bytes(&self) -> u64 {
                0
            }

            /// Bytes, including pinned memory, that host batches on a device have allocated and that are kept for the next
            /// batches.
            pub fn staging_bytes(&self) -> usize {
                $crate::fixed::FixedIndex::staging_bytes(self)
            }

            /// Whether a batch of changes failed half-way on the device, so that the index's contents are unknown. Every call
            /// that returns a [`Result`](lanetree_frame::Result) then returns [`Error::Lost`](lanetree_frame::Error::Lost): build it again.
            pub fn is_lost(&self) -> bool {
                $crate::fixed::FixedIndex::check_not_lost(self).is_err()
            }

            /// Iterates over all pairs in ascending order of their keys, or from the last one on (`.rev()`). Pairs come from the
            /// device in large windows; if that fails, the item is an error and the iteration ends.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[20_u64, 10], &[2_u32, 1])?;")]
            /// let mut keys = Vec::new();
            /// for pair in &index {
            ///     let (key, _) = pair?;
            ///     keys.push(key);
            /// }
            /// assert_eq!(keys, [10, 20]);
            /// # Ok(())
            /// # }
            /// ```
            pub fn iter(&self) -> $crate::fixed::Iter<'_, Self> {
                $crate::fixed::Iter::new(self)
            }

            /// Iterates over the pairs of a range of keys in ascending order, or from the last one on (`.rev()`): `3..7`, `..=7`,
            /// or a [`KeyRange`](lanetree_frame::KeyRange) with a limit. Two ranks find its ends; then pairs come in windows, as from
            /// [`iter`](Self::iter). Of many short ranges [`range_many`](Self::range_many) is far faster. Of a range with a limit,
            /// `.rev()` gives the same first pairs, the last of them first.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;")]
            /// let keys: lanetree::Result<Vec<u64>> = index.range(11..)?.rev().map(|pair| Ok(pair?.0)).collect();
            /// assert_eq!(keys?, [30, 20]);
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// [`ReversedRange`](lanetree_frame::Error::ReversedRange); as [`lower_bound_many`](Self::lower_bound_many).
            pub fn range(
                &self,
                range: impl Into<$crate::KeyRange<$k>>,
            ) -> $crate::Result<$crate::fixed::Iter<'_, Self>> {
                $crate::fixed::Iter::of_range(self, range.into())
            }

            /// All pairs in ascending order of their keys.
            ///
            /// # Errors
            /// [`Error::Lost`](lanetree_frame::Error::Lost); [`Error::Runtime`](lanetree_frame::Error::Runtime) if host memory has no room for
            /// the pairs, or from the device.
            pub fn pairs(&self) -> $crate::Result<Vec<($k, $v)>> {
                $crate::OrderedIndex::pairs(self)
            }

            /// Applies a batch of operations, with the effect of one after another in the batch's order: all of them, or none.
            /// Returns what they did, when it is done.
            ///
            /// Where the report's path is [`Rebuilt`](lanetree_frame::UpdatePath::Rebuilt), the whole index was rebuilt, which takes time in
            /// proportion to all pairs. On the host that is every batch of a `LaneTree`, a `Cubpt` or a `SortedArray`: make batches
            /// large there.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, Op, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let mut index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20], &[1_u32, 2])?;")]
            /// let report = index.apply(&[Op::Insert(15, 7), Op::Update(20, 8), Op::Remove(10), Op::Remove(11)])?;
            /// assert_eq!((report.inserted, report.replaced, report.removed), (1, 1, 1));
            /// assert_eq!(index.pairs()?, [(15, 7), (20, 8)]);
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if there is no memory, or from the device, and the index's own limits
            /// ([`TooManyOperations`](lanetree_frame::Error::TooManyOperations), [`TooManyPairs`](lanetree_frame::Error::TooManyPairs),
            /// [`TooManyLeaves`](lanetree_frame::Error::TooManyLeaves)): the index is as it was before the call.
            /// [`Error::Lost`](lanetree_frame::Error::Lost) if the device failed half-way, now or in an earlier call.
            pub fn apply(&mut self, ops: &[$crate::Op<$k, $v>]) -> $crate::Result<$crate::UpdateReport> {
                $crate::OrderedIndex::apply(self, ops)
            }

            /// Inserts pairs, in any order: `keys[i]` gets `values[i]`. The value of a key that is present is replaced. If a key
            /// is in the batch more than once, its last value is kept. All or nothing; returns when it is done. It may rebuild the
            /// index, as [`apply`](Self::apply) does.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let mut index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20], &[1_u32, 2])?;")]
            /// let report = index.insert_many(&[20, 15], &[8, 7])?;
            /// assert_eq!((report.inserted, report.replaced), (1, 1));
            /// assert_eq!(index.pairs()?, [(10, 1), (15, 7), (20, 8)]);
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`apply`](Self::apply); [`LengthMismatch`](lanetree_frame::Error::LengthMismatch) unless there is one value per key.
            pub fn insert_many(&mut self, keys: &[$k], values: &[$v]) -> $crate::Result<$crate::UpdateReport> {
                $crate::OrderedIndex::insert_many(self, keys, values)
            }

            /// Replaces the values of the keys in `keys` that are present; absent keys stay absent. If a key is in the
            /// batch more than once, its last value is kept. All or nothing; returns when it is done.
            ///
            /// # Errors
            /// As [`insert_many`](Self::insert_many).
            pub fn update_many(&mut self, keys: &[$k], values: &[$v]) -> $crate::Result<$crate::UpdateReport> {
                $crate::OrderedIndex::update_many(self, keys, values)
            }

            /// Removes the keys in `keys` that are present, with their values. All or nothing; returns when it is done.
            ///
            /// # Errors
            /// As [`apply`](Self::apply).
            pub fn remove_many(&mut self, keys: &[$k]) -> $crate::Result<$crate::UpdateReport> {
                $crate::OrderedIndex::remove_many(self, keys)
            }
        }
    };
}

/// Every query in device form.
#[macro_export]
macro_rules! inherent_device_form {
    (impl<$k:ident: $key:ident, $v:ident: Word> $index:ident<$k2:ident, $v2:ident>) => {
        impl<$k: $crate::$key, $v: $crate::Word> $index<$k, $v> {
            /// The index's queries on a stream of the same device: the device form of every call. Buffers go in and out; a call
            /// allocates nothing, does not wait, and may return before its work is done.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            /// let device = Device::host();
            #[doc = concat!("let index = ", stringify!($index), "::build(&device, &[10_u64, 20, 30], &[1_u32, 2, 3])?;")]
            /// let (stream, queries) = (device.stream()?, device.upload(&[20_u64, 25])?);
            /// let mut values = device.alloc(2)?;
            /// index.on(&stream).get(&queries, &mut values)?;
            /// assert_eq!(values.to_vec()?, [2, u32::MAX]); // the copy to the host waits for the look-up
            /// # Ok(())
            /// # }
            /// ```
            pub fn on<'a>(&'a self, stream: &'a $crate::Stream) -> $crate::fixed::OnStream<'a, Self> {
                $crate::fixed::OnStream::new(self, stream)
            }
        }
    };
}
