//! Every query in host form: slices in, vectors out.

use super::aggregate::aggregate_many;
use super::asof::Searches;
use super::host_joins::{asof_join, join};
use super::nearest::{k_nearest_many, range_last_many};
use super::range::locate_rows;
use super::ranges::{Between, Each, Pieces, anew};
use super::{Aggregate, AsOf, BitsOf, FixedIndex, Neighbors, Number, Query, Side, TASK, View};
use lanetree_base::error::check_bounds;
use lanetree_base::parallel::*;
use lanetree_base::ranges::RangeBatch;
use lanetree_base::room::zeroed;
use lanetree_base::staging::{Addresses, Piece, PinnedBatch, PinnedPiece, Results, Route};
use lanetree_base::uninit::{Uninit, Written, made, replace};
use lanetree_base::{BatchOrder, Closed, Error, Join, JoinBounds, JoinRows, KeyRange, Matches, Ranges, Result};
use lanetree_layout::{AnyKey, KeyWord, Word};
use lanetree_runtime::{DeviceKind, PinnedBuffer};
use lanetree_simt::{GetBatch, Global, Near, NeighborBatch, RankBatch};

/// Every query of an index over keys of a fixed size, in host form. An index has them as its own methods, where they are documented;
/// code for any index takes an [`OrderedIndex`](crate::OrderedIndex).
#[doc(hidden)]
pub trait HostForm: FixedIndex {
    fn get_many(&self, keys: &[Self::Key]) -> Result<Vec<Option<Self::Value>>> {
        match self.native() {
            Some(tree) => in_tasks(keys, None, |keys, out| tree.get(keys, |i, value| out[i] = value)),
            None => made(keys.len(), |out| self.get_staged(keys, out)),
        }
    }

    fn get_many_into(&self, keys: &[Self::Key], out: &mut [Option<Self::Value>]) -> Result<()> {
        check_output(keys.len(), out.len())?;
        let Some(tree) = self.native() else { return replace(out, |out| self.get_staged(keys, out)) };
        tasks(keys, out, |keys, out| tree.get(keys, |i, value| out[i] = value));
        Ok(())
    }

    /// Values on a device that runs kernels.
    #[doc(hidden)]
    fn get_staged<'o>(&self, keys: &[Self::Key], out: Uninit<'o, Option<Self::Value>>) -> Result<Written<'o>> {
        self.stage_get(keys, out, Self::Value::default(), 1, |piece, out| piece.found(out, |value: Self::Value| value))
    }

    fn get_many_or(&self, keys: &[Self::Key], miss: Self::Value, out: &mut [Self::Value]) -> Result<()> {
        check_output(keys.len(), out.len())?;
        let Some(tree) = self.native() else {
            return replace(out, |out| self.stage_get(keys, out, miss, 0, |piece, out| out.copy(piece.array(0))));
        };
        tasks(keys, out, |keys, out| tree.get(keys, |i, value| out[i] = value.unwrap_or(miss)));
        Ok(())
    }

    fn contains_many(&self, keys: &[Self::Key]) -> Result<Vec<bool>> {
        if let Some(tree) = self.native() {
            return in_tasks(keys, false, |keys, out| tree.get(keys, |i, value| out[i] = value.is_some()));
        }
        made(keys.len(), |out| self.stage_hits(keys, out, |piece, out| out.fill_bits(piece.bits(0), |hit| hit)))
    }

    /// Sends keys through the device, for the hit mask alone.
    #[doc(hidden)]
    fn stage_hits<'k, 'o, T: Copy + Send>(
        &self,
        keys: &'k [Self::Key],
        out: Uninit<'o, T>,
        collect: impl for<'p> Fn(&Piece<'_, &'k [Self::Key]>, Uninit<'p, T>) -> Written<'p> + Sync,
    ) -> Result<Written<'o>> {
        // Values are not wanted, but the kernel writes them: they stay on the device.
        let results = Results { scratch: size_of::<Self::Value>(), ..Results::new([0, 0], 1) };
        let ask = |queries, count, out: Addresses| {
            let (values, hits, miss) = (out.scratch.cast(), out.hits, Self::Value::default());
            [Query::Get(GetBatch { queries, count, values, hits, miss })]
        };
        self.stage(keys, out, results, ask, collect)
    }

    /// Sends keys through the device. `bits`: 1 if `collect` uses the hit mask.
    #[doc(hidden)]
    fn stage_get<'k, 'o, T: Copy + Send>(
        &self,
        keys: &'k [Self::Key],
        out: Uninit<'o, T>,
        miss: Self::Value,
        bits: usize,
        collect: impl for<'p> Fn(&Piece<'_, &'k [Self::Key]>, Uninit<'p, T>) -> Written<'p> + Sync,
    ) -> Result<Written<'o>> {
        let results = Results::new([size_of::<Self::Value>(), 0], bits);
        let ask = |queries, count, out: Addresses| {
            [Query::Get(GetBatch { queries, count, values: out.arrays[0].cast(), hits: out.hits, miss })]
        };
        self.stage(keys, out, results, ask, collect)
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
        if let Some(tree) = self.native() {
            let upper = side == Side::Upper;
            return in_tasks(keys, 0, |keys, out| tree.rank(keys, upper, |i, rank| out[i] = rank));
        }
        let results = Results::new([u64::BYTES, 0], 0);
        let ask = |queries, count, out: Addresses| {
            [Query::Rank(RankBatch { queries, count, ranks: out.arrays[0].cast(), upper: side as u32 })]
        };
        made(keys.len(), |out| self.stage(keys, out, results, ask, |piece, out| out.copy(piece.array(0))))
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
        if let Some(tree) = self.native() {
            return in_tasks(keys, None, |keys, out| {
                searches.on_host(tree, keys, |i, pair| out[i] = pair.map(|(key, value)| make(key, value)));
            });
        }
        let results = Results::new([size_of::<Self::Value>(), <Self::Key as AnyKey>::Bits::BYTES], 1);
        let ask = |queries, count, out: Addresses| {
            let ([values, keys], hits, miss) = (out.arrays, out.hits, Self::Value::default());
            let (keys, values) = (keys.cast(), values.cast());
            let (predecessor, near) = (0, Near::ANY);
            let batch = NeighborBatch { queries, count, keys, values, hits, predecessor, miss, near };
            searches.queries(batch, false)
        };
        made(keys.len(), |out| {
            self.stage(keys, out, results, ask, |piece, out| {
                // Results are in the caller's form, not ordered words.
                let key = |bits: <Self::Key as AnyKey>::Bits| Self::Key::decode(bits.xor(Self::Key::FLIP));
                piece.found_both(out, |value: Self::Value, bits| make(key(bits), value))
            })
        })
    }

    fn join_many(&self, probes: &[Self::Key]) -> Result<Matches> {
        self.join_as_many(probes, &Join::inner())
    }

    fn join_many_into(&self, probes: &[Self::Key], out: &mut Matches) -> Result<()> {
        let old = core::mem::take(out);
        *out = join(self, probes, &Join::inner(), old)?;
        Ok(())
    }

    fn join_as_many(&self, probes: &[Self::Key], how: &Join<'_>) -> Result<Matches> {
        join(self, probes, how, Matches::default())
    }

    /// Sends keys through the device. `ask` is called for each piece, with the address and number of its queries and the addresses
    /// for their results: it says what is launched. `collect` is called when the results are complete, to write
    /// them to the piece's part of `out`. Both are called from several threads.
    #[doc(hidden)]
    fn stage<'k, 'o, T: Copy + Send, Q: IntoIterator<Item = Query<BitsOf<Self>, Self::Value>>>(
        &self,
        keys: &'k [Self::Key],
        out: Uninit<'o, T>,
        results: Results,
        ask: impl Fn(Global<BitsOf<Self>>, u64, Addresses) -> Q + Sync,
        collect: impl for<'p> Fn(&Piece<'_, &'k [Self::Key]>, Uninit<'p, T>) -> Written<'p> + Sync,
    ) -> Result<Written<'o>> {
        self.check_not_lost()?;
        let route = Route {
            device: self.device(),
            results,
            reads_once: true,
            launch: &|stream, keys: &[Self::Key], input, out| {
                let tuning = Self::in_order(Self::Tuning::default(), BatchOrder::of_sample(keys));
                ask(input.cast(), keys.len() as u64, out).into_iter().try_for_each(|query| {
                    // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                    unsafe { self.launch(stream, &tuning, &query) }
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
            _ => self.range_in_pieces(&mut Each::new(ranges, &self.staging().ranges.made), true, out),
        })
    }

    fn range_between_many_into(
        &self,
        starts: &[Self::Key],
        ends: &[Self::Key],
        out: &mut Ranges<Self::Key, Self::Value>,
    ) -> Result<()> {
        anew(out, |out| self.range_between(starts, ends, true, out))
    }

    /// The pairs of ranges, or their values alone, in place of results that there are none of.
    #[doc(hidden)]
    fn range_between(
        &self,
        starts: &[Self::Key],
        ends: &[Self::Key],
        wants_keys: bool,
        out: &mut Ranges<Self::Key, Self::Value>,
    ) -> Result<()> {
        check_bounds(starts.len(), ends.len())?;
        match self.device().kind() {
            DeviceKind::Host => self.range_on_host(starts, ends, None, out),
            _ => self.range_in_pieces(&mut Between { starts, ends }, wants_keys, out),
        }
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
            self.range_between(lows, highs, false, &mut out)?;
        } else {
            let (lows, highs) = bounds.on_host(lows, highs)?;
            self.range_between(&lows, &highs, false, &mut out)?;
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
        self.count_in_pieces(&mut Each::new(ranges, &self.staging().ranges.made))
    }

    fn count_between_many(&self, starts: &[Self::Key], ends: &[Self::Key]) -> Result<Vec<u64>> {
        self.check_not_lost()?;
        check_bounds(starts.len(), ends.len())?;
        if let Some(tree) = self.native() {
            let (mut ranks, mut counts) = (zeroed(starts.len())?, zeroed(starts.len())?);
            locate_rows(tree, (starts, ends), None, u64::MAX, &mut ranks, &mut counts);
            return Ok(counts);
        }
        self.count_in_pieces(&mut Between { starts, ends })
    }
}

impl<I: FixedIndex> HostForm for I {}

/// Has the CPU answer each task's queries.
fn tasks<K: Sync, T: Send>(keys: &[K], out: &mut [T], answer: impl Fn(&[K], &mut [T]) + Sync) {
    keys.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).for_each(|(keys, out)| answer(keys, out));
}

/// The same into a new vector.
fn in_tasks<K: Sync, T: Copy + Send + Sync>(
    keys: &[K],
    none: T,
    answer: impl Fn(&[K], &mut [T]) + Sync,
) -> Result<Vec<T>> {
    let mut out = filled(none, keys.len())?;
    tasks(keys, &mut out, answer);
    Ok(out)
}

fn check_output(keys: usize, out: usize) -> Result<()> {
    if out == keys {
        return Ok(());
    }
    Err(Error::OutputLength { what: "the output", expected: keys, actual: out })
}
