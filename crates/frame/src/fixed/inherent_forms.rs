//! The queries in host form that an index over keys of a fixed size has as its own methods: see `inherent.rs`.

/// Every query in host form.
#[macro_export]
macro_rules! inherent_forms {
    (impl<$k:ident: $key:ident, $v:ident: Word> $index:ident<$k2:ident, $v2:ident>) => {
        /// Queries in host form: slices in, vectors out. A call returns when its results are complete.
        ///
        /// On a GPU a batch passes through the device in pieces, several in flight at a time, so it may be larger than the
        /// device's memory. The memory for that is kept for the next batch ([`staging_bytes`](Self::staging_bytes)). On the host,
        /// all threads of the current rayon pool search.
        impl<$k: $crate::$key, $v: $crate::Word> $index<$k, $v> {
            /// The value of one key; `None` if it is absent. On a GPU one key costs a launch and two trips over the bus: look
            /// up many with [`get_many`](Self::get_many).
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many).
            pub fn get(&self, key: &$k) -> $crate::Result<Option<$v>> {
                let mut out = [None];
                self.get_many_into(core::slice::from_ref(key), &mut out)?;
                Ok(out[0])
            }

            /// The value of each key, in the order of `keys`; `None` for a key that is absent. Keys may repeat, in any order.
            /// Sorted keys are found faster.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;")]
            /// assert_eq!(index.get_many(&[20, 25, 10])?, [Some(2), None, Some(1)]);
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if device or host memory has no room for the batch, or from the
            /// driver; [`Error::Lost`](lanetree_frame::Error::Lost) after a batch of changes that failed half-way on the device.
            pub fn get_many(&self, keys: &[$k]) -> $crate::Result<Vec<Option<$v>>> {
                $crate::fixed::HostForm::get_many(self, keys)
            }

            /// The value of each key, into a slice: `out[i]` becomes the value of `keys[i]`, or `None` if it is absent.
            /// Keys may repeat, in any order. Returns when the results are complete.
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many); [`OutputLength`](lanetree_frame::Error::OutputLength) unless `out` has one element per
            /// key.
            pub fn get_many_into(&self, keys: &[$k], out: &mut [Option<$v>]) -> $crate::Result<()> {
                $crate::fixed::HostForm::get_many_into(self, keys, out)
            }

            /// The value of each key, or `miss` for a key that is absent, into a slice: `out[i]` is for `keys[i]`. It writes half
            /// of the bytes of [`get_many_into`](Self::get_many_into).
            ///
            /// # Errors
            /// As [`get_many_into`](Self::get_many_into).
            pub fn get_many_or(&self, keys: &[$k], miss: $v, out: &mut [$v]) -> $crate::Result<()> {
                $crate::fixed::HostForm::get_many_or(self, keys, miss, out)
            }

            /// Look-ups from pinned memory to pinned memory: `values[i]` becomes the value of `keys[i]`, or `miss`. Bit `i % 32`
            /// of `hits[i / 32]` (the hit mask) says whether key `i` is present. The bus carries keys and values in both
            /// directions at once, and the CPU copies nothing. Returns when the results are complete.
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many); [`OutputLength`](lanetree_frame::Error::OutputLength) unless `values` has one element per
            /// key and `hits` one per 32.
            pub fn get_many_pinned(
                &self,
                keys: &$crate::PinnedBuffer<$k>,
                miss: $v,
                values: &mut $crate::PinnedBuffer<$v>,
                hits: Option<&mut $crate::PinnedBuffer<u32>>,
            ) -> $crate::Result<()> {
                $crate::fixed::HostForm::get_many_pinned(self, keys, miss, values, hits)
            }

            /// Whether each of `keys` is present, in the order of `keys`. Returns when the results are complete.
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many).
            pub fn contains_many(&self, keys: &[$k]) -> $crate::Result<Vec<bool>> {
                $crate::fixed::HostForm::contains_many(self, keys)
            }

            /// Whether one key is present. On a GPU one key costs a launch and two trips over the bus: ask for many with
            /// [`contains_many`](Self::contains_many).
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many).
            pub fn contains(&self, key: &$k) -> $crate::Result<bool> {
                Ok(self.contains_many(core::slice::from_ref(key))?[0])
            }

            /// The pair with the smallest key; `None` if there are no pairs.
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many).
            pub fn first(&self) -> $crate::Result<Option<($k, $v)>> {
                Ok(self.successor_many(&[<$k as $crate::AnyKey>::MIN])?[0])
            }

            /// The pair with the largest key; `None` if there are no pairs.
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many).
            pub fn last(&self) -> $crate::Result<Option<($k, $v)>> {
                Ok(self.predecessor_many(&[<$k as $crate::AnyKey>::MAX])?[0])
            }

            /// For each of `keys` the number of pairs with a smaller key: the rank that the key has, or would have if it were
            /// inserted (`bisect_left`).
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;")]
            /// assert_eq!(index.lower_bound_many(&[20, 25])?, [1, 2]);
            /// assert_eq!(index.upper_bound_many(&[20, 25])?, [2, 2]);
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many).
            pub fn lower_bound_many(&self, keys: &[$k]) -> $crate::Result<Vec<u64>> {
                $crate::fixed::HostForm::lower_bound_many(self, keys)
            }

            /// For each of `keys` the number of pairs with a key that is smaller or equal (`bisect_right`).
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many).
            pub fn upper_bound_many(&self, keys: &[$k]) -> $crate::Result<Vec<u64>> {
                $crate::fixed::HostForm::upper_bound_many(self, keys)
            }

            /// For each of `keys` the last pair whose key is smaller or equal; `None` if there is none.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;")]
            /// assert_eq!(index.predecessor_many(&[20, 25, 9])?, [Some((20, 2)), Some((20, 2)), None]);
            /// assert_eq!(index.successor_many(&[20, 25, 31])?, [Some((20, 2)), Some((30, 3)), None]);
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many).
            pub fn predecessor_many(&self, keys: &[$k]) -> $crate::Result<Vec<Option<($k, $v)>>> {
                $crate::fixed::HostForm::predecessor_many(self, keys)
            }

            /// For each of `keys` the first pair whose key is equal or larger; `None` if there is none.
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many).
            pub fn successor_many(&self, keys: &[$k]) -> $crate::Result<Vec<Option<($k, $v)>>> {
                $crate::fixed::HostForm::successor_many(self, keys)
            }

            /// For each of `keys` the pair that an as-of look-up finds: the nearest key on a side, strictly or not, within a
            /// distance, and for [`Composite`](lanetree_frame::Composite) keys within the keys that have the same first key. `None` if
            /// there is none. [`AsOf`](lanetree_frame::fixed::AsOf) has an example.
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many); [`OptionValue`](lanetree_frame::Error::OptionValue) for a distance between floats,
            /// and for [`Ties::Both`](lanetree_frame::fixed::Ties::Both), which only
            /// [`asof_join_many`](Self::asof_join_many) takes.
            pub fn asof_many(
                &self,
                keys: &[$k],
                how: &$crate::fixed::AsOf,
            ) -> $crate::Result<Vec<Option<($k, $v)>>> {
                $crate::fixed::HostForm::asof_many(self, keys, how)
            }

            /// As-of look-ups from pinned memory to pinned memory: `values[i]` becomes the value of the pair that
            /// [`asof_many`](Self::asof_many) finds for `keys[i]`, or `miss`. Bit `i % 32` of `hits[i / 32]` (the hit mask) says
            /// whether there is one. The bus carries keys and values in both directions at once, and the CPU copies nothing.
            /// Returns when the results are complete.
            ///
            /// ```
            #[doc = concat!("use lanetree::{AsOf, Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            /// let device = Device::host();
            #[doc = concat!("let index = ", stringify!($index), "::build(&device, &[10_u64, 20, 30], &[1_u32, 2, 3])?;")]
            /// let (mut keys, mut values) = (device.pinned(2)?, device.pinned(2)?);
            /// keys.copy_from_slice(&[25, 9]);
            /// index.asof_many_pinned(&keys, &AsOf::backward(), u32::MAX, &mut values, None)?;
            /// assert_eq!(values[..], [2, u32::MAX]);
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`asof_many`](Self::asof_many); [`OutputLength`](lanetree_frame::Error::OutputLength) unless `values` has one
            /// element per key and `hits` one per 32.
            pub fn asof_many_pinned(
                &self,
                keys: &$crate::PinnedBuffer<$k>,
                how: &$crate::fixed::AsOf,
                miss: $v,
                values: &mut $crate::PinnedBuffer<$v>,
                hits: Option<&mut $crate::PinnedBuffer<u32>>,
            ) -> $crate::Result<()> {
                $crate::fixed::HostForm::asof_many_pinned(self, keys, how, miss, values, hits)
            }

            /// Joins `probes` with the index as of them: for each the value, such as a row number, of the pair that
            /// [`asof_many`](Self::asof_many) finds, or of both that are equally near with
            /// [`Ties::Both`](lanetree_frame::fixed::Ties::Both), the value of the smaller key first.
            /// [`JoinKind`](lanetree_frame::JoinKind) says what other rows there are.
            ///
            /// ```
            #[doc = concat!("use lanetree::{AsOf, Device, Join, ", stringify!($index), ", Ties, no_row};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;")]
            /// let how = AsOf::nearest().ties(Ties::Both).tolerance(5);
            /// let left = index.asof_join_many(&[25, 11, 90], &how, &Join::left())?;
            /// assert!(left.iter().eq([(0, 2), (0, 3), (1, 1), (2, no_row())]));
            /// assert_eq!(index.asof_join_many(&[25, 11, 90], &how, &Join::anti())?.probes()?, [2]);
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`asof_many`](Self::asof_many), but for [`Ties::Both`](lanetree_frame::fixed::Ties::Both);
            /// [`OutputLength`](lanetree_frame::Error::OutputLength) unless the validity has one bit per probe.
            pub fn asof_join_many(
                &self,
                probes: &[$k],
                how: &$crate::fixed::AsOf,
                join: &$crate::Join<'_>,
            ) -> $crate::Result<$crate::JoinRows<$v>> {
                $crate::fixed::HostForm::asof_join_many(self, probes, how, join)
            }

            /// For each of `keys` the pairs that are nearest to it, at most `k`, the nearest first: on the side, strictly or not,
            /// within the distance and the group that [`AsOf`](lanetree_frame::fixed::AsOf) says. Of two that are equally near, the one
            /// below is first, unless it says otherwise. With [`AsOf::backward`](lanetree_frame::fixed::AsOf::backward) these are the
            /// last `k` pairs at or below a key, in descending order. On one side they are copied as those of ranges are; for
            /// both sides a batch takes `k` rounds of look-ups. [`Ties::Both`](lanetree_frame::fixed::Ties::Both) is as
            /// `Backward`.
            ///
            /// ```
            #[doc = concat!("use lanetree::{AsOf, Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30, 60], &[1_u32, 2, 3, 6])?;")]
            /// let nearest = index.k_nearest_many(&[25, 60], 3, &AsOf::nearest())?;
            /// assert_eq!(nearest.get(0), (&[20, 30, 10][..], &[2, 3, 1][..]));
            /// let descending = index.k_nearest_many(&[25, 60], 3, &AsOf::backward())?;
            /// assert_eq!(descending.get(1), (&[60, 30, 20][..], &[6, 3, 2][..]));
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many); [`OptionValue`](lanetree_frame::Error::OptionValue) for a distance between floats;
            /// [`TooManyRows`](lanetree_frame::Error::TooManyRows) if main memory has no room for the pairs.
            pub fn k_nearest_many(
                &self,
                keys: &[$k],
                k: u64,
                how: &$crate::fixed::AsOf,
            ) -> $crate::Result<$crate::Ranges<$k, $v>> {
                $crate::fixed::HostForm::k_nearest_many(self, keys, k, how)
            }

            /// The last pairs of the ranges from `starts[i]` to `ends[i]`, both inclusive, at most `k` of each, in descending order
            /// of their keys. A range whose end is below its start is empty. They are copied as those of
            /// [`range_many`](Self::range_many) are, and turned around.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30, 60], &[1_u32, 2, 3, 6])?;")]
            /// let top = index.range_last_many(&[0, 25], &[50, 50], 2)?;
            /// assert_eq!(top.get(0), (&[30, 20][..], &[3, 2][..]));
            /// assert_eq!(top.get(1), (&[30][..], &[3][..]));
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many); [`BoundLengths`](lanetree_frame::Error::BoundLengths) unless there are as many ends as
            /// starts; [`TooManyRows`](lanetree_frame::Error::TooManyRows) if main memory has no room for the pairs.
            pub fn range_last_many(
                &self,
                starts: &[$k],
                ends: &[$k],
                k: u64,
            ) -> $crate::Result<$crate::Ranges<$k, $v>> {
                $crate::fixed::HostForm::range_last_many(self, starts, ends, k)
            }

            /// Joins `probes` with the index: the numbers of the probes that are present, in ascending order, and for each of
            /// them its pair's row, which is the number of pairs with smaller keys. Probes may repeat.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;")]
            /// let matches = index.join_many(&[30, 15, 10, 30])?;
            /// assert!(matches.iter().eq([(0, 2), (2, 0), (3, 2)]));
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many).
            pub fn join_many(&self, probes: &[$k]) -> $crate::Result<$crate::Matches> {
                $crate::fixed::HostForm::join_many(self, probes)
            }

            /// As [`join_many`](Self::join_many), in place of other matches, whose memory is reused, whatever their contents.
            /// After an error `out` is empty.
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many).
            pub fn join_many_into(&self, probes: &[$k], out: &mut $crate::Matches) -> $crate::Result<()> {
                $crate::fixed::HostForm::join_many_into(self, probes, out)
            }

            /// As [`join_many`](Self::join_many), but a join of any kind ([`JoinKind`](lanetree_frame::JoinKind)), with null probes or
            /// without.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, Join, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;")]
            /// let probes = [30, 15, 10];
            /// // 15 has no row.
            /// assert_eq!(index.join_as_many(&probes, &Join::left())?.rows, [2, u64::MAX, 0]);
            /// assert_eq!(index.join_as_many(&probes, &Join::semi())?.probes, [0, 2]);
            /// assert_eq!(index.join_as_many(&probes, &Join::anti())?.probes, [1]);
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many); [`OutputLength`](lanetree_frame::Error::OutputLength) unless the validity has one bit
            /// per probe.
            pub fn join_as_many(&self, probes: &[$k], join: &$crate::Join<'_>) -> $crate::Result<$crate::Matches> {
                $crate::fixed::HostForm::join_as_many(self, probes, join)
            }

            /// Joins ranges with the index: for each probe `i` the values, such as row numbers, of the pairs whose keys are between
            /// `lows[i]` and `highs[i]`, in ascending order of the keys. `closed` says which bounds belong to the ranges; a
            /// reversed range is empty. On a device the keys cross the bus, too, and are dropped.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Closed, Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;")]
            /// let matches = index.range_join_many(&[10, 30, 20], &[30, 20, 20], Closed::Right)?;
            /// assert_eq!((matches.of(0), matches.of(1), matches.of(2)), (&[2, 3][..], &[][..], &[][..]));
            /// // The two columns of the join.
            /// assert_eq!((matches.probes()?, matches.rows), (vec![0, 0], vec![2, 3]));
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many); [`BoundLengths`](lanetree_frame::Error::BoundLengths) unless there are as many highs as
            /// lows.
            pub fn range_join_many(
                &self,
                lows: &[$k],
                highs: &[$k],
                closed: $crate::Closed,
            ) -> $crate::Result<$crate::JoinRows<$v>> {
                $crate::fixed::HostForm::range_join_many(self, lows, highs, closed)
            }

            /// Joins probes with all pairs whose keys are at most `distance` away: `|key - probes[i]| <= distance`, which never
            /// wraps around at the ends of the type. Of [`Composite`](lanetree_frame::Composite) keys the second ones are compared, within
            /// the group of the first. Otherwise like [`range_join_many`](Self::range_join_many).
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;")]
            /// let matches = index.band_join_many(&[25, 0, u64::MAX], 5)?;
            /// assert!(matches.iter().eq([(0, 2), (0, 3)]));
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`range_join_many`](Self::range_join_many); [`OptionValue`](lanetree_frame::Error::OptionValue) for keys that are floats.
            pub fn band_join_many(&self, probes: &[$k], distance: u64) -> $crate::Result<$crate::JoinRows<$v>> {
                $crate::fixed::HostForm::band_join_many(self, probes, distance)
            }

            /// As [`range_join_many`](Self::range_join_many), but a join of any kind ([`JoinKind`](lanetree_frame::JoinKind)), with null
            /// probes or without.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Closed, Device, Join, ", stringify!($index), ", no_row};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;")]
            /// let (lows, highs) = ([10, 21], [25, 29]);
            /// let left = index.range_join_as_many(&lows, &highs, Closed::Both, &Join::left())?;
            /// assert!(left.iter().eq([(0, 1), (0, 2), (1, no_row())]));
            /// let anti = index.range_join_as_many(&lows, &highs, Closed::Both, &Join::anti())?;
            /// assert_eq!(anti.probes()?, [1]);
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`range_join_many`](Self::range_join_many); [`OutputLength`](lanetree_frame::Error::OutputLength) unless the validity has
            /// one bit per probe.
            pub fn range_join_as_many(
                &self,
                lows: &[$k],
                highs: &[$k],
                closed: $crate::Closed,
                join: &$crate::Join<'_>,
            ) -> $crate::Result<$crate::JoinRows<$v>> {
                $crate::fixed::HostForm::range_join_as_many(self, lows, highs, closed, join)
            }

            /// As [`band_join_many`](Self::band_join_many), but a join of any kind, like
            /// [`range_join_as_many`](Self::range_join_as_many).
            ///
            /// # Errors
            /// As [`band_join_many`](Self::band_join_many); [`OutputLength`](lanetree_frame::Error::OutputLength) unless the validity has
            /// one bit per probe.
            pub fn band_join_as_many(
                &self,
                probes: &[$k],
                distance: u64,
                join: &$crate::Join<'_>,
            ) -> $crate::Result<$crate::JoinRows<$v>> {
                $crate::fixed::HostForm::band_join_as_many(self, probes, distance, join)
            }

            /// The pairs of each range, in ascending order of their keys, in compressed rows (CSR): row `i` is for range `i`.
            /// Takes range expressions (`3..7`, `..=7`, pairs of [`Bound`](core::ops::Bound)s) or
            /// [`KeyRange`](lanetree_frame::KeyRange)s, which can have a limit.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, KeyRange, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;")]
            /// let rows = index.range_many([10..=25, 31..=40])?;
            /// assert_eq!(rows.get(0), (&[10, 20][..], &[1, 2][..]));
            /// assert_eq!(rows.get(1), (&[][..], &[][..]));
            /// // The first pair from 11 on.
            /// let first = index.range_many([KeyRange::new(11..).limit(1)])?;
            /// assert_eq!(first.get(0), (&[20][..], &[2][..]));
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many); [`ReversedRange`](lanetree_frame::Error::ReversedRange) for a range whose end is below
            /// its start; [`TooManyRows`](lanetree_frame::Error::TooManyRows) if main memory has no room for the pairs.
            pub fn range_many(
                &self,
                ranges: impl IntoIterator<Item = impl Into<$crate::KeyRange<$k>>>,
            ) -> $crate::Result<$crate::Ranges<$k, $v>> {
                $crate::fixed::HostForm::range_many(self, ranges)
            }

            /// As [`range_many`](Self::range_many), in place of other results, whose memory is reused, whatever their contents.
            /// After an error `out` is empty.
            ///
            /// # Errors
            /// As [`range_many`](Self::range_many).
            pub fn range_many_into(
                &self,
                ranges: impl IntoIterator<Item = impl Into<$crate::KeyRange<$k>>>,
                out: &mut $crate::Ranges<$k, $v>,
            ) -> $crate::Result<()> {
                $crate::fixed::HostForm::range_many_into(self, ranges, out)
            }

            /// As [`range_many_into`](Self::range_many_into), for ranges in two columns: from `starts[i]` to `ends[i]`, both
            /// inclusive. A range whose end is below its start is empty.
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many); [`BoundLengths`](lanetree_frame::Error::BoundLengths) unless there is one end per start.
            pub fn range_between_many_into(
                &self,
                starts: &[$k],
                ends: &[$k],
                out: &mut $crate::Ranges<$k, $v>,
            ) -> $crate::Result<()> {
                $crate::fixed::HostForm::range_between_many_into(self, starts, ends, out)
            }

            /// An aggregate of the values of each range from `starts[i]` to `ends[i]`, both inclusive, as numbers of type `A`, without
            /// copying its pairs; `None` for a range that has none, as one whose end is below its start.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Aggregate, Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, u32::MAX])?;")]
            /// assert_eq!(index.aggregate_many::<u32>(Aggregate::Max, &[10, 21], &[20, 29])?, [Some(2), None]);
            /// assert_eq!(index.aggregate_many::<i32>(Aggregate::Sum, &[10], &[30])?, [Some(2_i64)]);
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`count_between_many`](Self::count_between_many); [`SumOverflow`](lanetree_frame::Error::SumOverflow) names the
            /// first range whose sum 64 bits do not hold.
            pub fn aggregate_many<A: $crate::fixed::Number<Word = $v>>(
                &self,
                aggregate: $crate::fixed::Aggregate,
                starts: &[$k],
                ends: &[$k],
            ) -> $crate::Result<Vec<Option<A::Wide>>> {
                $crate::fixed::HostForm::aggregate_many::<A>(self, aggregate, starts, ends)
            }

            /// The number of pairs in each range, without copying them: the difference of two ranks, and at most the limit of a
            /// [`KeyRange`](lanetree_frame::KeyRange) that has one.
            ///
            /// # Errors
            /// As [`range_many`](Self::range_many).
            pub fn count_range_many(
                &self,
                ranges: impl IntoIterator<Item = impl Into<$crate::KeyRange<$k>>>,
            ) -> $crate::Result<Vec<u64>> {
                $crate::fixed::HostForm::count_range_many(self, ranges)
            }

            /// As [`count_range_many`](Self::count_range_many), for ranges in two columns: from `starts[i]` to `ends[i]`, both
            /// inclusive. A range whose end is below its start has no pairs.
            ///
            /// ```
            #[doc = concat!("use lanetree::{Device, ", stringify!($index), "};")]
            ///
            /// # fn main() -> lanetree::Result<()> {
            #[doc = concat!("let index = ", stringify!($index), "::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;")]
            /// assert_eq!(index.count_between_many(&[10, 30], &[25, 10])?, [2, 0]);
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// As [`get_many`](Self::get_many); [`BoundLengths`](lanetree_frame::Error::BoundLengths) unless there is one end per start.
            pub fn count_between_many(&self, starts: &[$k], ends: &[$k]) -> $crate::Result<Vec<u64>> {
                $crate::fixed::HostForm::count_between_many(self, starts, ends)
            }
        }
    };
}
