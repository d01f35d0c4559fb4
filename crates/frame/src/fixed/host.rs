//! Every query in host form: slices in, vectors out.

use super::aggregate::aggregate_many;
use super::asof::Searches;
use super::asof_join::asof_join;
use super::join::rows_of;
use super::nearest::{k_nearest_many, range_last_many};
use super::range::locate_rows;
use super::ranges::{Between, Each, LOCATING, Pieces, Source, anew};
use super::streaming::copy_past_caches;
use super::{Aggregate, AsOf, BitsOf, FixedIndex, Neighbors, Number, Query, Side, TASK, View};
use lanetree_base::error::check_bounds;
use lanetree_base::parallel::*;
use lanetree_base::ranges::RangeBatch;
use lanetree_base::room::{make_room, zeroed};
use lanetree_base::staging::{Addresses, Piece, PinnedBatch, PinnedPiece, Results, Route};
use lanetree_base::{Closed, Error, Join, JoinBounds, JoinRows, KeyRange, Matches, Ranges, Result};
use lanetree_layout::{AnyKey, KeyWord, Word};
use lanetree_runtime::{DeviceKind, PinnedBuffer};
use lanetree_simt::{GetBatch, Global, Near, NeighborBatch, RankBatch};

/// Every query of an index over keys of a fixed size, in host form. An index has them as its own methods, where they are documented;
/// code for any index takes an [`OrderedIndex`](crate::OrderedIndex).
#[doc(hidden)]
pub trait HostForm: FixedIndex {
    fn get_many(&self, keys: &[Self::Key]) -> Result<Vec<Option<Self::Value>>> {
        let mut out = filled(None, keys.len())?;
        self.get_many_into(keys, &mut out)?;
        Ok(out)
    }

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
            |queries, count, out| {
                let (values, miss) = (out.arrays[0].cast(), Self::Value::default());
                [Query::Get(GetBatch { queries, count, values, hits: out.hits, miss })]
            },
            |piece, out| {
                let values = piece.array::<Self::Value>(0);
                piece.place(out, |i| values[i]);
            },
        )
    }

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
            |queries, count, out| {
                let values = out.arrays[0].cast();
                [Query::Get(GetBatch { queries, count, values, hits: out.hits, miss })]
            },
            |piece, out| copy_past_caches(piece.array(0), out),
        )
    }

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
            |queries, count, out| {
                let (values, miss) = (out.arrays[0].cast(), Self::Value::default());
                [Query::Get(GetBatch { queries, count, values, hits: out.hits, miss })]
            },
            |piece, out| {
                let hits = piece.bits(0);
                out.iter_mut().enumerate().for_each(|(i, out)| *out = hits[i / 32] >> (i % 32) & 1 != 0);
            },
        )?;
        Ok(out)
    }

    fn lower_bound_many(&self, keys: &[Self::Key]) -> Result<Vec<u64>> {
        self.rank_many(keys, Side::Lower)
    }

    fn upper_bound_many(&self, keys: &[Self::Key]) -> Result<Vec<u64>> {
        self.rank_many(keys, Side::Upper)
    }

    /// The ranks of `keys` on one side.
    ///
    /// # Errors
    /// Those of `get_many`.
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
            |queries, count, out| {
                [Query::Rank(RankBatch { queries, count, ranks: out.arrays[0].cast(), upper: side as u32 })]
            },
            |piece, out| copy_past_caches(piece.array(0), out),
        )?;
        Ok(out)
    }

    fn predecessor_many(&self, keys: &[Self::Key]) -> Result<Neighbors<Self::Key, Self::Value>> {
        self.neighbor_many(keys, &Searches::any(Side::Upper), |key, value| (key, value))
    }

    fn successor_many(&self, keys: &[Self::Key]) -> Result<Neighbors<Self::Key, Self::Value>> {
        self.neighbor_many(keys, &Searches::any(Side::Lower), |key, value| (key, value))
    }

    fn asof_many(&self, keys: &[Self::Key], how: &AsOf) -> Result<Neighbors<Self::Key, Self::Value>> {
        self.neighbor_many(keys, &how.searches::<Self::Key>()?, |key, value| (key, value))
    }

    fn asof_join_many(&self, probes: &[Self::Key], how: &AsOf, join: &Join<'_>) -> Result<JoinRows<Self::Value>> {
        asof_join(self, probes, how, join)
    }

    fn k_nearest_many(&self, keys: &[Self::Key], k: u64, how: &AsOf) -> Result<Ranges<Self::Key, Self::Value>> {
        k_nearest_many(self, keys, k, how)
    }

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
            |queries, count, out| {
                let ([values, keys], hits, miss) = (out.arrays, out.hits, Self::Value::default());
                let (keys, values) = (keys.cast(), values.cast());
                let (predecessor, near) = (0, Near::ANY);
                let batch = NeighborBatch { queries, count, keys, values, hits, predecessor, miss, near };
                searches.queries(batch, false)
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

    fn join_many(&self, probes: &[Self::Key]) -> Result<Matches> {
        let mut out = Matches::default();
        self.join_many_into(probes, &mut out)?;
        Ok(out)
    }

    fn join_many_into(&self, probes: &[Self::Key], out: &mut Matches) -> Result<()> {
        out.fill(probes.len(), |rows| self.rows_of_many(probes, rows))
    }

    fn join_as_many(&self, probes: &[Self::Key], join: &Join<'_>) -> Result<Matches> {
        let mut out = Matches::default();
        out.fill_as(probes.len(), join, |rows| self.rows_of_many(probes, rows))?;
        Ok(out)
    }

    /// The number of the pair of each key, or [`Matches::NO_ROW`].
    ///
    /// # Errors
    /// Those of `get_many_into`.
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
            |queries, count, out| {
                // Ranks are at least as wide as values, which are not wanted: ranks take their place.
                let (ranks, hits, miss) = (out.arrays[0].cast(), out.hits, Self::Value::default());
                let get = Query::Get(GetBatch { queries, count, values: ranks.cast(), hits, miss });
                [get, Query::Rank(RankBatch { queries, count, ranks, upper: 0 })]
            },
            |piece, out| {
                let (ranks, hits) = (piece.array::<u64>(0), piece.bits(0));
                for (i, (row, &rank)) in out.iter_mut().zip(ranks).enumerate() {
                    *row = if hits[i / 32] >> (i % 32) & 1 != 0 { rank } else { Matches::NO_ROW };
                }
            },
        )
    }

    /// Sends keys through the device. `ask` is called for each piece, with the address and number of its queries and the addresses
    /// for their results: it says what is launched. `collect` is called when the results are complete, to put them
    /// into the piece's part of `out`. Both are called from several threads.
    fn stage<'k, T: Send, Q: IntoIterator<Item = Query<BitsOf<Self>, Self::Value>>>(
        &self,
        keys: &'k [Self::Key],
        out: &mut [T],
        results: Results,
        ask: impl Fn(Global<BitsOf<Self>>, u64, Addresses) -> Q + Sync,
        collect: impl Fn(&Piece<'_, &'k [Self::Key]>, &mut [T]) + Sync,
    ) -> Result<()> {
        self.check_not_lost()?;
        let route = Route {
            device: self.device(),
            results,
            scratch: 0,
            reads_once: true,
            launch: &|stream, keys: &[Self::Key], input, out| {
                ask(input.cast(), keys.len() as u64, out).into_iter().try_for_each(|query| {
                    // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                    unsafe { self.launch(stream, &Self::Tuning::default(), &query) }
                })
            },
            collect: &collect,
        };
        self.staging().queries.send(keys, out, &route)
    }

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
            let query = Query::Get(GetBatch { queries: queries.cast(), count: count as u64, values, hits, miss });
            // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
            unsafe { self.launch(stream, &Self::Tuning::default(), &query) }
        })
    }

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
            let (queries, count, keys) = (queries.cast(), count as u64, found.cast());
            let (predecessor, near) = (0, Near::ANY);
            let batch = NeighborBatch { queries, count, keys, values, hits, predecessor, miss, near };
            searches.queries(batch, false).try_for_each(|query| {
                // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                unsafe { self.launch(stream, &Self::Tuning::default(), &query) }
            })
        })
    }

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

    fn range_join_many(
        &self,
        lows: &[Self::Key],
        highs: &[Self::Key],
        closed: Closed,
    ) -> Result<JoinRows<Self::Value>> {
        self.join_between(lows, highs, JoinBounds::of_ranges(closed))
    }

    fn band_join_many(&self, probes: &[Self::Key], distance: u64) -> Result<JoinRows<Self::Value>> {
        self.join_between(probes, probes, JoinBounds::of_bands(distance)?)
    }

    fn range_join_as_many(
        &self,
        lows: &[Self::Key],
        highs: &[Self::Key],
        closed: Closed,
        join: &Join<'_>,
    ) -> Result<JoinRows<Self::Value>> {
        self.join_between_as(lows, highs, JoinBounds::of_ranges(closed), join)
    }

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

    fn aggregate_many<A: Number<Word = Self::Value>>(
        &self,
        aggregate: Aggregate,
        starts: &[Self::Key],
        ends: &[Self::Key],
    ) -> Result<Vec<Option<A::Wide>>>
    where
        Self::Value: Word,
    {
        aggregate_many::<A, Self>(self, aggregate, starts, ends)
    }

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
