//! Every query in host form: slices in, vectors out.

use super::asof::Searches;
use super::asof_join::asof_join;
use super::join::rows_of;
use super::nearest::{k_nearest_many, range_last_many};
use super::range::locate_rows;
use super::ranges::{Between, Each, LOCATING, Pieces, Source, anew};
use super::streaming::copy_past_caches;
use super::{AsOf, BitsOf, FixedIndex, NeighborOutputs, Neighbors, Side, TASK, View};
use lanetree_base::error::check_bounds;
use lanetree_base::parallel::*;
use lanetree_base::ranges::RangeBatch;
use lanetree_base::room::{make_room, zeroed};
use lanetree_base::staging::{Addresses, Piece, PinnedBatch, PinnedPiece, Results, Route};
use lanetree_base::{Closed, Error, Join, JoinBounds, JoinRows, KeyRange, Matches, Ranges, Result};
use lanetree_layout::{AnyKey, KeyWord};
use lanetree_runtime::{DeviceKind, PinnedBuffer, Stream};
use lanetree_simt::Global;

/// Every query of an index over keys of a fixed size, in host form. A call returns when its results are there.
pub trait HostForm: FixedIndex {
    /// The value of each key, `None` for a key that is not present. Returns when the results are complete.
    ///
    /// On a GPU a large batch goes through in pieces, several on their way at a time
    /// ([`HostForm::get_many_pinned`] saves the copies that this takes on the CPU). What memory that takes is
    /// kept for the next batch.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room for the batch or main memory none for the results, or from the device's
    /// driver. [`Error::Lost`] after a batch of
    /// updates that failed half-way on the device.
    fn get_many(&self, keys: &[Self::Key]) -> Result<Vec<Option<Self::Value>>> {
        let mut out = filled(None, keys.len())?;
        self.get_many_into(keys, &mut out)?;
        Ok(out)
    }

    /// [`HostForm::get_many`] into a slice of as many elements as there are keys.
    ///
    /// # Errors
    /// As [`HostForm::get_many`], and [`Error::OutputLength`].
    fn get_many_into(&self, keys: &[Self::Key], out: &mut [Option<Self::Value>]) -> Result<()> {
        check_output(keys.len(), out.len())?;
        if let Some(tree) = self.native() {
            keys.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).for_each(|(keys, out)| {
                tree.get(keys, |i, value| out[i] = value);
            });
            return Ok(());
        }
        self.stage(
            keys,
            out,
            Results { arrays: [size_of::<Self::Value>(), 0], bits: 1 },
            |stream, queries, count, out| {
                // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                unsafe {
                    self.launch_get(
                        stream,
                        &Self::Tuning::default(),
                        queries,
                        count,
                        out.arrays[0].cast(),
                        out.hits,
                        Self::Value::default(),
                    )
                }
            },
            |piece, out| {
                let values = piece.array::<Self::Value>(0);
                piece.place(out, |i| values[i]);
            },
        )
    }

    /// The value of each key, or `miss` for one that is not there, into a slice: half as much to write as
    /// [`HostForm::get_many_into`] has. Returns when the results are complete.
    ///
    /// # Errors
    /// As [`HostForm::get_many_into`].
    fn get_many_or(&self, keys: &[Self::Key], miss: Self::Value, out: &mut [Self::Value]) -> Result<()> {
        check_output(keys.len(), out.len())?;
        if let Some(tree) = self.native() {
            keys.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).for_each(|(keys, out)| {
                tree.get(keys, |i, value| out[i] = value.unwrap_or(miss));
            });
            return Ok(());
        }
        self.stage(
            keys,
            out,
            Results { arrays: [size_of::<Self::Value>(), 0], bits: 0 },
            |stream, queries, count, out| {
                // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                unsafe {
                    self.launch_get(
                        stream,
                        &Self::Tuning::default(),
                        queries,
                        count,
                        out.arrays[0].cast(),
                        out.hits,
                        miss,
                    )
                }
            },
            |piece, out| copy_past_caches(piece.array(0), out),
        )
    }

    /// Whether each of `keys` is present. Otherwise like [`HostForm::get_many`].
    ///
    /// # Errors
    /// As [`HostForm::get_many`].
    fn contains_many(&self, keys: &[Self::Key]) -> Result<Vec<bool>> {
        let mut out = filled(false, keys.len())?;
        if let Some(tree) = self.native() {
            keys.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).for_each(|(keys, out)| {
                tree.get(keys, |i, value| out[i] = value.is_some());
            });
            return Ok(out);
        }
        // Values are not wanted, but the kernel writes them.
        self.stage(
            keys,
            &mut out,
            Results { arrays: [size_of::<Self::Value>(), 0], bits: 1 },
            |stream, queries, count, out| {
                let (values, tuning) = (out.arrays[0].cast(), Self::Tuning::default());
                // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                unsafe { self.launch_get(stream, &tuning, queries, count, values, out.hits, Self::Value::default()) }
            },
            |piece, out| {
                let hits = piece.bits(0);
                out.iter_mut().enumerate().for_each(|(i, out)| *out = hits[i / 32] >> (i % 32) & 1 != 0);
            },
        )?;
        Ok(out)
    }

    /// The number of keys below each of `keys`: the rank that the key has, or would have if inserted.
    ///
    /// # Errors
    /// As [`HostForm::get_many`].
    fn lower_bound_many(&self, keys: &[Self::Key]) -> Result<Vec<u64>> {
        self.rank_many(keys, Side::Lower)
    }

    /// The number of keys at or below each of `keys`.
    ///
    /// # Errors
    /// As [`HostForm::get_many`].
    fn upper_bound_many(&self, keys: &[Self::Key]) -> Result<Vec<u64>> {
        self.rank_many(keys, Side::Upper)
    }

    /// The ranks of `keys` on one side.
    ///
    /// # Errors
    /// As [`HostForm::get_many`].
    fn rank_many(&self, keys: &[Self::Key], side: Side) -> Result<Vec<u64>> {
        let mut out = zeroed(keys.len())?;
        if let Some(tree) = self.native() {
            keys.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).for_each(|(keys, out)| {
                tree.rank(keys, side == Side::Upper, |i, rank| out[i] = rank);
            });
            return Ok(out);
        }
        self.stage(
            keys,
            &mut out,
            Results { arrays: [u64::BYTES, 0], bits: 0 },
            |stream, queries, count, out| {
                // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                unsafe { self.launch_rank(stream, queries, count, out.arrays[0].cast(), side) }
            },
            |piece, out| copy_past_caches(piece.array(0), out),
        )?;
        Ok(out)
    }

    /// The last pair whose key is at or below each of `keys`: the key itself if it is present.
    ///
    /// # Errors
    /// As [`HostForm::get_many`].
    fn predecessor_many(&self, keys: &[Self::Key]) -> Result<Neighbors<Self::Key, Self::Value>> {
        self.neighbor_many(keys, &Searches::any(Side::Upper), |key, value| (key, value))
    }

    /// The first pair whose key is at or above each of `keys`: the key itself if it is present.
    ///
    /// # Errors
    /// As [`HostForm::get_many`].
    fn successor_many(&self, keys: &[Self::Key]) -> Result<Neighbors<Self::Key, Self::Value>> {
        self.neighbor_many(keys, &Searches::any(Side::Lower), |key, value| (key, value))
    }

    /// The pair that an as-of look-up of each of `keys` finds.
    ///
    /// # Errors
    /// As [`HostForm::get_many`]; [`Error::OptionValue`] for a distance between floats.
    fn asof_many(&self, keys: &[Self::Key], how: &AsOf) -> Result<Neighbors<Self::Key, Self::Value>> {
        self.neighbor_many(keys, &how.searches::<Self::Key>()?, |key, value| (key, value))
    }

    /// An as-of join of any kind: the values of what as-of look-ups of `probes` find. A probe has one row, or two with
    /// [`Ties::Both`](super::Ties::Both), the row of the smaller key first.
    ///
    /// # Errors
    /// As [`HostForm::asof_many`]; [`Error::OutputLength`] unless the validity has one bit per probe.
    fn asof_join_many(&self, probes: &[Self::Key], how: &AsOf, join: &Join<'_>) -> Result<JoinRows<Self::Value>> {
        asof_join(self, probes, how, join)
    }

    /// The pairs nearest to each of `keys` that an as-of look-up could find, at most `k` of each, the nearest first: with
    /// [`AsOf::backward`] the last `k` at or below it, in descending order. With [`AsOf::nearest`] each round of look-ups finds one more
    /// of each; on one side they are copied as those of ranges are.
    ///
    /// # Errors
    /// As [`HostForm::asof_many`].
    fn k_nearest_many(&self, keys: &[Self::Key], k: u64, how: &AsOf) -> Result<Ranges<Self::Key, Self::Value>> {
        k_nearest_many(self, keys, k, how)
    }

    /// The last pairs of the ranges from `starts[i]` to `ends[i]`, both inclusive, at most `k` of each, in descending order of their
    /// keys.
    ///
    /// # Errors
    /// As [`HostForm::range_between_many_into`].
    fn range_last_many(
        &self,
        starts: &[Self::Key],
        ends: &[Self::Key],
        k: u64,
    ) -> Result<Ranges<Self::Key, Self::Value>> {
        range_last_many(self, starts, ends, k)
    }

    /// What a function makes of the neighbours of `keys` that searches find.
    #[doc(hidden)]
    fn neighbor_many<T: Copy + Send + Sync>(
        &self,
        keys: &[Self::Key],
        searches: &Searches<BitsOf<Self>>,
        make: impl Fn(Self::Key, Self::Value) -> T + Sync,
    ) -> Result<Vec<Option<T>>> {
        let mut out = filled(None, keys.len())?;
        if let Some(tree) = self.native() {
            keys.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).for_each(|(keys, out)| {
                searches.on_host(tree, keys, |i, pair| out[i] = pair.map(|(key, value)| make(key, value)));
            });
            return Ok(out);
        }
        self.stage(
            keys,
            &mut out,
            Results { arrays: [size_of::<Self::Value>(), <Self::Key as AnyKey>::Bits::BYTES], bits: 1 },
            |stream, queries, count, out| {
                let [values, keys] = out.arrays;
                let outputs = NeighborOutputs { keys: keys.cast(), values: values.cast(), hits: out.hits };
                searches.iter().try_for_each(|search| {
                    // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                    unsafe { self.launch_neighbor(stream, queries, count, outputs, Self::Value::default(), search) }
                })
            },
            |piece, out| {
                let (values, keys) = (piece.array::<Self::Value>(0), piece.array::<<Self::Key as AnyKey>::Bits>(1));
                // Results are in the caller's form, not ordered words.
                let key = |i: usize| Self::Key::decode(keys[i].xor(Self::Key::FLIP));
                piece.place(out, |i| make(key(i), values[i]));
            },
        )?;
        Ok(out)
    }

    /// Joins `probes` with the index: which of them are present, and which pairs these are. Returns when the results are
    /// complete.
    ///
    /// On a GPU a large batch goes through in pieces: it may be larger than the device's memory. Most of the time of a large batch
    /// is the system's, which finds memory for the results: [`HostForm::join_many_into`] uses what is there.
    ///
    /// # Errors
    /// As [`HostForm::get_many`].
    fn join_many(&self, probes: &[Self::Key]) -> Result<Matches> {
        let mut out = Matches::default();
        self.join_many_into(probes, &mut out)?;
        Ok(out)
    }

    /// [`HostForm::join_many`] in place of other matches, whose memory is reused. What these are does not matter: any of their
    /// fields may have been taken or changed. After an error there are none.
    ///
    /// # Errors
    /// As [`HostForm::join_many`].
    fn join_many_into(&self, probes: &[Self::Key], out: &mut Matches) -> Result<()> {
        out.fill(probes.len(), |rows| self.rows_of_many(probes, rows))
    }

    /// [`HostForm::join_many`] of any kind, with null probes or without.
    ///
    /// # Errors
    /// As [`HostForm::get_many`]; [`Error::OutputLength`] unless the validity has one bit per probe.
    fn join_as_many(&self, probes: &[Self::Key], join: &Join<'_>) -> Result<Matches> {
        let mut out = Matches::default();
        out.fill_as(probes.len(), join, |rows| self.rows_of_many(probes, rows))?;
        Ok(out)
    }

    /// The number of the pair of each key, or [`Matches::NO_ROW`].
    ///
    /// # Errors
    /// As [`HostForm::get_many_into`].
    fn rows_of_many(&self, keys: &[Self::Key], out: &mut [u64]) -> Result<()> {
        check_output(keys.len(), out.len())?;
        if let Some(tree) = self.native() {
            rows_of(tree, keys, out);
            return Ok(());
        }
        self.stage(
            keys,
            out,
            Results { arrays: [u64::BYTES, 0], bits: 1 },
            |stream, queries, count, out| {
                let (ranks, tuning) = (out.arrays[0], Self::Tuning::default());
                // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream. Ranks are at least
                // as wide as values, which are not wanted: ranks take their place.
                unsafe {
                    self.launch_get(stream, &tuning, queries, count, ranks.cast(), out.hits, Self::Value::default())?;
                    self.launch_rank(stream, queries, count, ranks.cast(), Side::Lower)
                }
            },
            |piece, out| {
                let (ranks, hits) = (piece.array::<u64>(0), piece.bits(0));
                for (i, (row, &rank)) in out.iter_mut().zip(ranks).enumerate() {
                    *row = if hits[i / 32] >> (i % 32) & 1 != 0 { rank } else { Matches::NO_ROW };
                }
            },
        )
    }

    /// Sends keys through the device. `launch` is called for each piece, with its stream, the address and number of its
    /// queries, and the addresses for their results. `collect` is called when the results are complete, to put them
    /// into the piece's part of `out`. Both are called from several threads.
    fn stage<'k, T: Send>(
        &self,
        keys: &'k [Self::Key],
        out: &mut [T],
        results: Results,
        launch: impl Fn(&Stream, Global<<Self::Key as AnyKey>::Bits>, usize, Addresses) -> Result<()> + Sync,
        collect: impl Fn(&Piece<'_, &'k [Self::Key]>, &mut [T]) + Sync,
    ) -> Result<()> {
        self.check_not_lost()?;
        let route = Route {
            device: self.device(),
            results,
            scratch: 0,
            reads_once: true,
            launch: &|stream, keys: &[Self::Key], input, out| launch(stream, input.cast(), keys.len(), out),
            collect: &collect,
        };
        self.staging().queries.send(keys, out, &route)
    }

    /// The value of each key, or `miss`, from pinned memory to pinned memory: the bus carries keys and values in both
    /// directions at once, and the CPU copies nothing. Bit `i % 32` of `hits[i / 32]` (the hit mask) says whether key
    /// `i` is present. Returns when the results are complete.
    ///
    /// # Errors
    /// As [`HostForm::get_many_into`].
    fn get_many_pinned(
        &self,
        keys: &PinnedBuffer<Self::Key>,
        miss: Self::Value,
        values: &mut PinnedBuffer<Self::Value>,
        hits: Option<&mut PinnedBuffer<u32>>,
    ) -> Result<()> {
        let mut batch = PinnedBatch { queries: keys, width: 1, values, hits, finds_keys: false };
        batch.check()?;
        if self.device().kind() == DeviceKind::Host {
            batch.fill(self.get_many(keys)?, miss);
            return Ok(());
        }
        self.check_not_lost()?;
        self.staging().pinned.send(self.device(), batch, &|stream, piece| {
            let PinnedPiece { queries, count, values, hits, .. } = piece;
            // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
            unsafe { self.launch_get(stream, &Self::Tuning::default(), queries.cast(), count, values, hits, miss) }
        })
    }

    /// The value of the pair that an as-of look-up of each of `keys` finds, or `miss`, from pinned memory to pinned memory;
    /// otherwise like [`HostForm::get_many_pinned`].
    ///
    /// # Errors
    /// As [`HostForm::get_many_pinned`]; [`Error::OptionValue`] for a distance between floats, and for both of two ties.
    fn asof_many_pinned(
        &self,
        keys: &PinnedBuffer<Self::Key>,
        how: &AsOf,
        miss: Self::Value,
        values: &mut PinnedBuffer<Self::Value>,
        hits: Option<&mut PinnedBuffer<u32>>,
    ) -> Result<()> {
        let mut batch = PinnedBatch { queries: keys, width: 1, values, hits, finds_keys: true };
        batch.check()?;
        let searches = how.searches::<Self::Key>()?;
        if self.device().kind() == DeviceKind::Host {
            batch.fill(self.neighbor_many(keys, &searches, |_, value| value)?, miss);
            return Ok(());
        }
        self.check_not_lost()?;
        self.staging().pinned.send(self.device(), batch, &|stream, piece| {
            let PinnedPiece { queries, count, values, hits, found } = piece;
            let outputs = NeighborOutputs { keys: found.cast(), values, hits };
            searches.iter().try_for_each(|search| {
                // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                unsafe { self.launch_neighbor(stream, queries.cast(), count, outputs, miss, search) }
            })
        })
    }

    /// The pairs of each range, in ascending order of their keys. Takes range expressions (`3..7`, `..=7`, pairs of
    /// [`Bound`](core::ops::Bound)s) or [`KeyRange`]s, which can have a limit. Returns when the results are complete.
    ///
    /// On a GPU a large batch is split into pieces, several of which are in flight at a time. The memory for this is
    /// kept for the next batch.
    ///
    /// # Errors
    /// [`ReversedRange`](lanetree_base::Error::ReversedRange) for a range whose end is below its start;
    /// [`TooManyRows`](lanetree_base::Error::TooManyRows) if main memory has no room for the pairs;
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has none for the batch, or from the device's driver; [`Lost`](lanetree_base::Error::Lost) after a batch of updates that failed
    /// half-way on the device.
    fn range_many(
        &self,
        ranges: impl IntoIterator<Item = impl Into<KeyRange<Self::Key>>>,
    ) -> Result<Ranges<Self::Key, Self::Value>> {
        let mut out = Ranges::default();
        self.range_many_into(ranges, &mut out)?;
        if out.keys.capacity() / 2 > out.keys.len() {
            out.keys.shrink_to_fit();
            out.values.shrink_to_fit();
        }
        Ok(out)
    }

    /// [`HostForm::range_many`] in place of other results, whose memory is reused. What these are does not matter: any
    /// of their fields may have been taken or changed. After an error there are no results, neither old ones nor new
    /// ones.
    ///
    /// # Errors
    /// As [`HostForm::range_many`].
    fn range_many_into(
        &self,
        ranges: impl IntoIterator<Item = impl Into<KeyRange<Self::Key>>>,
        out: &mut Ranges<Self::Key, Self::Value>,
    ) -> Result<()> {
        let ranges = ranges.into_iter();
        anew(out, |out| match self.device().kind() {
            DeviceKind::Host => {
                let batch = RangeBatch::new(ranges)?;
                let limits = (!batch.limits.is_empty()).then_some(&batch.limits[..]);
                self.range_on_host(&batch.starts, &batch.ends, limits, out)
            }
            _ => self.range_in_pieces(&mut Each::new(ranges), out),
        })
    }

    /// [`HostForm::range_many_into`] of the ranges from `starts[i]` to `ends[i]`, both inclusive. A range whose
    /// end is below its start is empty.
    ///
    /// # Errors
    /// As [`HostForm::range_many`]; [`BoundLengths`](lanetree_base::Error::BoundLengths) unless there are as many ends as
    /// starts.
    fn range_between_many_into(
        &self,
        starts: &[Self::Key],
        ends: &[Self::Key],
        out: &mut Ranges<Self::Key, Self::Value>,
    ) -> Result<()> {
        anew(out, |out| {
            check_bounds(starts.len(), ends.len())?;
            match self.device().kind() {
                DeviceKind::Host => self.range_on_host(starts, ends, None, out),
                _ => self.range_in_pieces(&mut Between { starts, ends }, out),
            }
        })
    }

    /// Joins ranges with the index: the values, in the order of their keys, of the pairs whose keys are between `lows[i]` and
    /// `highs[i]`. A reversed range has none. On a device the keys are copied, too.
    ///
    /// # Errors
    /// As [`HostForm::range_between_many_into`].
    fn range_join_many(
        &self,
        lows: &[Self::Key],
        highs: &[Self::Key],
        closed: Closed,
    ) -> Result<JoinRows<Self::Value>> {
        self.join_between(lows, highs, JoinBounds::of_ranges(closed))
    }

    /// Joins probes with all pairs whose keys are at most `distance` away, in the order of the keys, and of the probe's group.
    ///
    /// # Errors
    /// As [`HostForm::range_between_many_into`]; [`Error::OptionValue`] for keys that are floats.
    fn band_join_many(&self, probes: &[Self::Key], distance: u64) -> Result<JoinRows<Self::Value>> {
        self.join_between(probes, probes, JoinBounds::of_bands(distance)?)
    }

    /// [`HostForm::range_join_many`] of any kind, with null probes or without.
    ///
    /// # Errors
    /// As [`HostForm::range_between_many_into`]; [`Error::OutputLength`] unless the validity has one bit per probe.
    fn range_join_as_many(
        &self,
        lows: &[Self::Key],
        highs: &[Self::Key],
        closed: Closed,
        join: &Join<'_>,
    ) -> Result<JoinRows<Self::Value>> {
        self.join_between_as(lows, highs, JoinBounds::of_ranges(closed), join)
    }

    /// [`HostForm::band_join_many`] of any kind, with null probes or without.
    ///
    /// # Errors
    /// As [`HostForm::band_join_many`]; [`Error::OutputLength`] unless the validity has one bit per probe.
    fn band_join_as_many(&self, probes: &[Self::Key], distance: u64, join: &Join<'_>) -> Result<JoinRows<Self::Value>> {
        self.join_between_as(probes, probes, JoinBounds::of_bands(distance)?, join)
    }

    /// A join of any kind. What need not be copied is counted.
    #[doc(hidden)]
    fn join_between_as(
        &self,
        lows: &[Self::Key],
        highs: &[Self::Key],
        bounds: JoinBounds<Self::Key>,
        join: &Join<'_>,
    ) -> Result<JoinRows<Self::Value>> {
        if let Some(validity) = join.validity() {
            validity.check(lows.len())?;
        }
        if join.kind().has_rows() {
            return self.join_between(lows, highs, bounds)?.of_kind(join);
        }
        let (lows, highs) = bounds.on_host(lows, highs)?;
        JoinRows::of_counts(&self.count_between_many(&lows, &highs)?, join)
    }

    /// Joins ranges with the index, whose bounds are made of these.
    #[doc(hidden)]
    fn join_between(
        &self,
        lows: &[Self::Key],
        highs: &[Self::Key],
        bounds: JoinBounds<Self::Key>,
    ) -> Result<JoinRows<Self::Value>> {
        let mut out = Ranges::default();
        if bounds.are_inclusive() {
            self.range_between_many_into(lows, highs, &mut out)?;
        } else {
            let (lows, highs) = bounds.on_host(lows, highs)?;
            self.range_between_many_into(&lows, &highs, &mut out)?;
        }
        Ok(JoinRows { offsets: out.offsets, rows: out.values })
    }

    /// How many pairs each range has, [`HostForm::range_many`] without copying them.
    ///
    /// # Errors
    /// As [`HostForm::range_many`].
    fn count_range_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<Self::Key>>>) -> Result<Vec<u64>> {
        self.check_not_lost()?;
        let ranges = ranges.into_iter();
        if let Some(tree) = self.native() {
            let batch = RangeBatch::new(ranges)?;
            let limits = (!batch.limits.is_empty()).then_some(&batch.limits[..]);
            let (mut ranks, mut counts) = (zeroed(batch.starts.len())?, zeroed(batch.starts.len())?);
            locate_rows(tree, (&batch.starts, &batch.ends), limits, u64::MAX, &mut ranks, &mut counts);
            return Ok(counts);
        }
        count_in_pieces(self, &mut Each::new(ranges))
    }

    /// How many pairs the ranges from `starts[i]` to `ends[i]` have, both inclusive. A range whose end is below its start has none.
    ///
    /// # Errors
    /// As [`HostForm::range_between_many_into`].
    fn count_between_many(&self, starts: &[Self::Key], ends: &[Self::Key]) -> Result<Vec<u64>> {
        self.check_not_lost()?;
        check_bounds(starts.len(), ends.len())?;
        if let Some(tree) = self.native() {
            let (mut ranks, mut counts) = (zeroed(starts.len())?, zeroed(starts.len())?);
            locate_rows(tree, (starts, ends), None, u64::MAX, &mut ranks, &mut counts);
            return Ok(counts);
        }
        count_in_pieces(self, &mut Between { starts, ends })
    }
}

impl<I: FixedIndex> HostForm for I {}

/// How many pairs each range has, on a device.
fn count_in_pieces<I: FixedIndex>(index: &I, source: &mut impl Source<I::Key>) -> Result<Vec<u64>> {
    let mut counts = Vec::new();
    let sizes = index.staging().ranges.sizes;
    let mut taken = index.staging().ranges.take();
    let piece = |_: &[usize; 2]| sizes.piece;
    index.in_pieces(source, &mut taken.slots, piece, |_, slots, piece, _| {
        let slot = &mut slots.locating[piece % LOCATING];
        slot.synchronize()?;
        let count = slot.busy.take().unwrap_or(0);
        make_room(&mut counts, count)?;
        counts.extend(slot.staged_offsets[..=count].windows(2).map(|pair| pair[1] - pair[0]));
        Ok([count, 0])
    })?;
    Ok(counts)
}

fn check_output(keys: usize, out: usize) -> Result<()> {
    if out == keys {
        return Ok(());
    }
    Err(Error::OutputLength { what: "the output", expected: keys, actual: out })
}
