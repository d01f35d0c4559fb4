//! The `k` pairs nearest to a key, on one side or both, and the last `k` pairs of a range. Look-ups of neighbours find them, each from
//! the pair that the look-up before it found. On one side the k pairs are adjacent, so they are located and copied like a range; pairs
//! below the query are reversed.

use super::on_stream::OnStream;
use super::options::Uses;
use super::range::{Bounds, DeviceRanges, RangeScratch};
use super::steps::check_ranges;
use super::{AsOf, BitsOf, Direction, FixedIndex, Side, Steps, Ties};
use core::ops::Range;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_base::Error;
use lanetree_base::error::check_bounds;
use lanetree_base::nearest_steps::{NearestRows, NearestSide, add_counts, keep_last, reverse_rows, take_nearest};
use lanetree_base::room::{check_rows, with_room};
use lanetree_base::row_pieces::{MOST_ROWS, RowPieces};
use lanetree_base::{Closed, JoinBounds, Ranges, Result};
use lanetree_layout::{AnyKey, Value};
use lanetree_primitives::exclusive_scan;
use lanetree_runtime::{Buffer, Device};

/// Queries of a piece of a host batch.
const PIECE: usize = 1 << 18;

/// A side of the queries.
#[derive(Debug)]
struct SideScratch<K, V> {
    /// The bound of the side that is farther from the query.
    far: Buffer<K>,
    sought: Buffer<K>,
    left: Buffer<u64>,
    keys: Buffer<K>,
    values: Buffer<V>,
}

impl<K: AnyKey, V: Value> SideScratch<K, V> {
    fn new(device: &Device, queries: usize) -> Result<Self> {
        Ok(Self {
            far: device.alloc(queries)?,
            sought: device.alloc(queries)?,
            left: device.alloc(queries)?,
            keys: device.alloc(queries)?,
            values: device.alloc(queries)?,
        })
    }

    fn bytes(&self) -> usize {
        self.far.bytes() + self.sought.bytes() + self.left.bytes() + self.keys.bytes() + self.values.bytes()
    }
}

/// Scratch memory of [`OnStream::k_nearest`] and [`OnStream::range_last`]: eight keys, two values and 32 bytes per query, reusable for
/// the next batch.
#[derive(Debug)]
pub struct NearestScratch<K, V> {
    /// The bounds of each query's group, or of what is within its tolerance.
    lows: Buffer<K>,
    highs: Buffer<K>,
    below: SideScratch<K, V>,
    above: SideScratch<K, V>,
    ranges: RangeScratch,
}

impl<K: AnyKey, V: Value> NearestScratch<K, V> {
    /// Memory on `device` for batches of up to `queries` queries, allocated now.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, queries: usize) -> Result<Self> {
        Ok(Self {
            lows: device.alloc(queries)?,
            highs: device.alloc(queries)?,
            below: SideScratch::new(device, queries)?,
            above: SideScratch::new(device, queries)?,
            ranges: RangeScratch::new(device, queries)?,
        })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        self.lows.bytes() + self.highs.bytes() + self.below.bytes() + self.above.bytes() + self.ranges.bytes()
    }
}

/// What is asked of each query.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// The most pairs of a query.
    k: u64,
    has_below: bool,
    has_above: bool,
    ties_above: bool,
}

impl<I: FixedIndex> OnStream<'_, I> {
    /// Finds for each query the pairs that are nearest to it, at most `k`, the nearest first: on the side, strictly or
    /// not, within the distance and the group that `how` says. The pairs of query `i` are from `out.offsets[i]` to
    /// `out.offsets[i + 1]`. Of two that are equally near, the one below is first, unless `how` says otherwise.
    ///
    /// On one side, the pairs are located and copied as those of ranges are, whatever `k` is. For both sides a round of look-ups, in
    /// three launches, finds one pair of each query. There are `k` rounds, or as many as the index has pairs if these are fewer.
    /// [`Ties::Both`] is as `Backward`.
    ///
    /// ```
    /// use lanetree::{AsOf, Device, DeviceRanges, LaneTree, NearestScratch};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let index = LaneTree::build(&device, &[10_u64, 20, 30, 60], &[1_u32, 2, 3, 6])?;
    /// let (stream, queries) = (device.stream()?, device.upload(&[24_u64, 90])?);
    /// let (mut scratch, mut out) = (NearestScratch::new(&device, 2)?, DeviceRanges::new(&device, 2, 4)?);
    /// index.on(&stream).k_nearest(&queries, 2, &AsOf::nearest(), &mut scratch, &mut out)?;
    /// assert_eq!(out.offsets.to_vec()?, [0, 2, 4]);
    /// assert_eq!((out.keys.to_vec()?, out.values.to_vec()?), (vec![20, 30, 60, 30], vec![2, 3, 6, 3]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`OnStream::range`]; [`OptionValue`](lanetree_base::Error::OptionValue) for a distance between floats.
    pub fn k_nearest(
        &self,
        queries: &Buffer<I::Key>,
        k: u64,
        how: &AsOf,
        scratch: &mut NearestScratch<I::Key, I::Value>,
        out: &mut DeviceRanges<I::Key, I::Value>,
    ) -> Result<()> {
        self.options.check("k_nearest", Uses::Nothing)?;
        check_ranges(self, queries.len(), out)?;
        let asked = begin_nearest(self, queries, k, how, scratch)?;
        self.count_sides(queries.len(), asked, scratch, &mut out.offsets)?;
        self.find(queries, asked, k.min(self.index.len()), scratch, out)
    }

    /// Finds the last `k` pairs of the ranges from `starts[i]` to `ends[i]`, both inclusive, in descending order of
    /// their keys. A range whose end is below its start is empty. The pairs of range `i` are from `out.offsets[i]` to
    /// `out.offsets[i + 1]`.
    ///
    /// They are located and copied as those of [`range`](Self::range) are, and then turned around in place.
    ///
    /// ```
    /// use lanetree::{Device, DeviceRanges, LaneTree, NearestScratch};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let index = LaneTree::build(&device, &[10_u64, 20, 30, 60], &[1_u32, 2, 3, 6])?;
    /// let (starts, ends) = (device.upload(&[0_u64, 25])?, device.upload(&[50_u64, 50])?);
    /// let (stream, mut scratch) = (device.stream()?, NearestScratch::new(&device, 2)?);
    /// let mut out = DeviceRanges::new(&device, 2, 3)?;
    /// index.on(&stream).range_last(&starts, &ends, 2, &mut scratch, &mut out)?;
    /// assert_eq!(out.offsets.to_vec()?, [0, 2, 3]);
    /// assert_eq!((out.keys.to_vec()?, out.values.to_vec()?), (vec![30, 20, 30], vec![3, 2, 3]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`OnStream::range`]; [`BoundLengths`](lanetree_base::Error::BoundLengths) unless there are as many ends as starts.
    pub fn range_last(
        &self,
        starts: &Buffer<I::Key>,
        ends: &Buffer<I::Key>,
        k: u64,
        scratch: &mut NearestScratch<I::Key, I::Value>,
        out: &mut DeviceRanges<I::Key, I::Value>,
    ) -> Result<()> {
        self.options.check("range_last", Uses::Nothing)?;
        check_ranges(self, starts.len(), out)?;
        let asked = begin_last(self, (starts, ends), k, scratch)?;
        self.count_sides(starts.len(), asked, scratch, &mut out.offsets)?;
        self.find(ends, asked, k.min(self.index.len()), scratch, out)
    }

    /// Counts the pairs of each query. On one side it also finds where they begin.
    fn count_sides(
        &self,
        count: usize,
        asked: Asked,
        scratch: &mut NearestScratch<I::Key, I::Value>,
        offsets: &mut Buffer<u64>,
    ) -> Result<()> {
        let (stream, k) = (self.stream, asked.k);
        if asked.has_below && asked.has_above {
            return count_sides(self, count, asked, scratch, offsets);
        }
        let NearestScratch { below, above, ranges, .. } = scratch;
        let RangeScratch { cursors, counts, scan } = ranges;
        if asked.has_below {
            let (starts, ends) = (&below.far, &below.sought);
            let all = Bounds { count, starts, ends, limits: None, limit: u64::MAX };
            self.locate_into(all, Some(cursors), &mut below.left)?;
            add_counts(stream, count, &below.left, None, k, counts)?;
        } else {
            let (starts, ends) = (&above.sought, &above.far);
            self.locate_into(Bounds { count, starts, ends, limits: None, limit: k }, Some(cursors), counts)?;
        }
        exclusive_scan(stream, counts, count, offsets, scan)
    }

    /// Finds the pairs of queries that were counted, on both sides in as many rounds.
    fn find(
        &self,
        queries: &Buffer<I::Key>,
        asked: Asked,
        rounds: u64,
        scratch: &mut NearestScratch<I::Key, I::Value>,
        out: &mut DeviceRanges<I::Key, I::Value>,
    ) -> Result<()> {
        let (count, stream) = (queries.len(), self.stream);
        match (asked.has_below, asked.has_above) {
            (true, true) => find_rounds(self, queries, asked, rounds, scratch, out),
            (true, false) => {
                let (skips, capacity) = (&mut scratch.below.left, out.capacity());
                keep_last(stream, count, skips, &out.offsets, capacity)?;
                self.gather_after(count, &scratch.ranges, Some(skips), out)?;
                let DeviceRanges { offsets, keys, values } = out;
                // SAFETY: prefix sums were written to the offsets before, in the stream's order.
                unsafe {
                    if !keys.is_empty() {
                        reverse_rows::<BitsOf<I>, _>(stream, count, offsets, capacity, keys)?;
                    }
                    if !I::Value::IS_SOME {
                        return Ok(());
                    }
                    reverse_rows::<<I::Value as Value>::Word, _>(stream, count, offsets, capacity, values)
                }
            }
            _ => self.gather(count, &scratch.ranges, out),
        }
    }
}

/// [`OnStream::k_nearest`], in rounds of look-ups whatever the sides are.
#[doc(hidden)]
pub fn k_nearest<S: Steps>(
    on: &S,
    queries: &Buffer<S::Key>,
    k: u64,
    how: &AsOf,
    scratch: &mut NearestScratch<S::Key, S::Value>,
    out: &mut DeviceRanges<S::Key, S::Value>,
) -> Result<()> {
    on.options().check("k_nearest", Uses::Nothing)?;
    check_ranges(on, queries.len(), out)?;
    let asked = begin_nearest(on, queries, k, how, scratch)?;
    count_sides(on, queries.len(), asked, scratch, &mut out.offsets)?;
    find_rounds(on, queries, asked, k.min(on.len()), scratch, out)
}

/// [`OnStream::range_last`], in rounds of look-ups.
#[doc(hidden)]
pub fn range_last<S: Steps>(
    on: &S,
    (starts, ends): (&Buffer<S::Key>, &Buffer<S::Key>),
    k: u64,
    scratch: &mut NearestScratch<S::Key, S::Value>,
    out: &mut DeviceRanges<S::Key, S::Value>,
) -> Result<()> {
    on.options().check("range_last", Uses::Nothing)?;
    check_ranges(on, starts.len(), out)?;
    let asked = begin_last(on, (starts, ends), k, scratch)?;
    count_sides(on, starts.len(), asked, scratch, &mut out.offsets)?;
    find_rounds(on, ends, asked, k.min(on.len()), scratch, out)
}

/// Makes the sides of queries.
fn begin_nearest<S: Steps>(
    on: &S,
    queries: &Buffer<S::Key>,
    k: u64,
    how: &AsOf,
    scratch: &mut NearestScratch<S::Key, S::Value>,
) -> Result<Asked> {
    how.rule::<S::Key>()?;
    let direction = how.direction();
    let asked = Asked {
        k,
        has_below: direction != Direction::Forward,
        has_above: direction != Direction::Backward,
        ties_above: how.tie() == Ties::Forward,
    };
    let (count, stream) = (queries.len(), on.stream());
    check_scratch(on, count, queries, scratch)?;
    let NearestScratch { lows, highs, below, above, .. } = scratch;
    JoinBounds::within(how.distance()).on_stream(stream, queries, queries, lows, highs)?;
    if asked.has_below {
        let closed = if how.is_strict() { Closed::Left } else { Closed::Both };
        let out = (&mut below.far, &mut below.sought);
        JoinBounds::of_ranges(closed).first_on_stream(stream, count, lows, queries, out)?;
    }
    if asked.has_above {
        // A key that equals the query is on one side only.
        let closed = if how.is_strict() || asked.has_below { Closed::Right } else { Closed::Both };
        let out = (&mut above.sought, &mut above.far);
        JoinBounds::of_ranges(closed).first_on_stream(stream, count, queries, highs, out)?;
    }
    Ok(asked)
}

/// The same, of ranges from their ends downwards.
fn begin_last<S: Steps>(
    on: &S,
    (starts, ends): (&Buffer<S::Key>, &Buffer<S::Key>),
    k: u64,
    scratch: &mut NearestScratch<S::Key, S::Value>,
) -> Result<Asked> {
    let asked = Asked { k, has_below: true, has_above: false, ties_above: false };
    check_scratch(on, starts.len(), starts, scratch)?;
    let SideScratch { far, sought, .. } = &mut scratch.below;
    JoinBounds::of_ranges(Closed::Both).on_stream(on.stream(), starts, ends, far, sought)?;
    Ok(asked)
}

fn check_scratch<S: Steps>(
    on: &S,
    count: usize,
    queries: &Buffer<S::Key>,
    scratch: &NearestScratch<S::Key, S::Value>,
) -> Result<()> {
    on.check("the queries' buffer", count, queries)?;
    on.check("the scratch memory", count, &scratch.lows)
}

/// Counts the pairs of each side, and those that each query has in all.
fn count_sides<S: Steps>(
    on: &S,
    count: usize,
    asked: Asked,
    scratch: &mut NearestScratch<S::Key, S::Value>,
    offsets: &mut Buffer<u64>,
) -> Result<()> {
    let (stream, k) = (on.stream(), asked.k);
    let NearestScratch { below, above, ranges, .. } = scratch;
    if asked.has_below {
        on.count_first(count, (&below.far, &below.sought), k, &mut below.left)?;
    }
    if asked.has_above {
        on.count_first(count, (&above.sought, &above.far), k, &mut above.left)?;
    }
    let counts = match (asked.has_below, asked.has_above) {
        (true, true) => {
            add_counts(stream, count, &below.left, Some(&above.left), k, &mut ranges.counts)?;
            &ranges.counts
        }
        (true, false) => &below.left,
        _ => &above.left,
    };
    exclusive_scan(stream, counts, count, offsets, &mut ranges.scan)
}

/// Finds one pair of each query after another.
fn find_rounds<S: Steps>(
    on: &S,
    queries: &Buffer<S::Key>,
    asked: Asked,
    rounds: u64,
    scratch: &mut NearestScratch<S::Key, S::Value>,
    out: &mut DeviceRanges<S::Key, S::Value>,
) -> Result<()> {
    let (count, stream, capacity) = (queries.len(), on.stream(), out.capacity());
    let DeviceRanges { offsets, keys, values } = out;
    let mut keys = (!keys.is_empty()).then_some(keys);
    for round in 0..rounds {
        let side = |is_wanted: bool, side: &mut SideScratch<S::Key, S::Value>, toward| {
            if !is_wanted {
                return Ok(());
            }
            on.neighbors_first(count, toward, &side.sought, &mut side.keys, &mut side.values)
        };
        side(asked.has_below, &mut scratch.below, Side::Upper)?;
        side(asked.has_above, &mut scratch.above, Side::Lower)?;
        let sides = [(asked.has_below, &mut scratch.below), (asked.has_above, &mut scratch.above)];
        let sides = sides.map(|(is_wanted, side)| {
            let SideScratch { sought, left, keys, values, .. } = side;
            is_wanted.then_some(NearestSide { sought, left, keys, values })
        });
        let rows = NearestRows { offsets, capacity, keys: keys.as_deref_mut(), values };
        take_nearest(stream, count, round, queries, sides, asked.ties_above, rows)?;
    }
    Ok(())
}

/// [`HostForm::k_nearest_many`](super::HostForm::k_nearest_many).
pub(super) fn k_nearest_many<I: FixedIndex>(
    index: &I,
    queries: &[I::Key],
    k: u64,
    how: &AsOf,
) -> Result<Ranges<I::Key, I::Value>> {
    how.rule::<I::Key>()?;
    in_pieces(index, queries.len(), |on, piece, scratch| {
        let queries = index.staging().queries.uploaded(index.device(), &queries[piece])?;
        let asked = begin_nearest(on, &queries, k, how, scratch)?;
        Ok((queries, asked))
    })
}

/// [`HostForm::range_last_many`](super::HostForm::range_last_many).
pub(super) fn range_last_many<I: FixedIndex>(
    index: &I,
    starts: &[I::Key],
    ends: &[I::Key],
    k: u64,
) -> Result<Ranges<I::Key, I::Value>> {
    check_bounds(starts.len(), ends.len())?;
    in_pieces(index, starts.len(), |on, piece, scratch| {
        let upload = |bounds| index.staging().queries.uploaded(index.device(), bounds);
        let (starts, ends) = (upload(&starts[piece.clone()])?, upload(&ends[piece])?);
        let asked = begin_last(on, (&starts, &ends), k, scratch)?;
        Ok((ends, asked))
    })
}

/// Sends a host batch through the device a piece at a time. Only as many rounds are made as the longest row has pairs.
///
/// # Errors
/// Those of `begin`; [`Error::TooManyRows`] if main memory has no room for the pairs; [`Error::Runtime`].
fn in_pieces<I: FixedIndex>(
    index: &I,
    len: usize,
    mut begin: impl FnMut(
        &OnStream<'_, I>,
        Range<usize>,
        &mut NearestScratch<I::Key, I::Value>,
    ) -> Result<(Buffer<I::Key>, Asked)>,
) -> Result<Ranges<I::Key, I::Value>> {
    // Of no queries, too.
    index.check_not_lost()?;
    let (device, stream) = (index.device(), index.device().stream()?);
    let on = OnStream::new(index, &stream);
    let mut scratch = NearestScratch::new(device, len.min(PIECE))?;
    let mut all = Ranges { offsets: with_room(len + 1)?, ..Ranges::default() };
    all.offsets.push(0);
    let mut pieces = RowPieces::new(len, PIECE, MOST_ROWS);
    while let Some(piece) = pieces.piece() {
        let mut offsets = device.alloc(piece.len() + 1)?;
        let (queries, asked) = begin(&on, piece.clone(), &mut scratch)?;
        on.count_sides(piece.len(), asked, &mut scratch, &mut offsets)?;
        let (rows, before) = (offsets.to_vec()?, all.keys.len());
        let counted = rows[piece.len()];
        let bytes = (size_of::<I::Key>() + size_of::<I::Value>()) as u128;
        check_rows((before as u64).saturating_add(counted), u128::from(counted) * bytes)?;
        if !pieces.takes(&piece, counted) {
            continue;
        }
        let rounds = rows.windows(2).map(|row| row[1] - row[0]).max().unwrap_or(0);
        let pairs = usize::try_from(counted).unwrap_or(usize::MAX);
        let mut out = DeviceRanges { offsets, keys: device.alloc(pairs)?, values: device.alloc(pairs)? };
        on.find(&queries, asked, rounds, &mut scratch, &mut out)?;
        all.offsets.extend(rows[1..].iter().map(|&row| row + before as u64));
        index.staging().queries.append(&out.keys, 0..pairs, &mut all.keys)?;
        index.staging().queries.append(&out.values, 0..pairs, &mut all.values)?;
    }
    Ok(all)
}
