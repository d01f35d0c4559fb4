//! Queries in host form.

use crate::IntervalIndex;
use crate::on_stream::{DeviceRows, Scratch};
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::error::check_bounds;
use lanetree_frame::fixed::FixedIndex;
use lanetree_frame::parallel::*;
use lanetree_frame::room::{check_rows, with_room};
use lanetree_frame::row_pieces::{self, RowPieces};
use lanetree_frame::staging::is_set;
use lanetree_frame::{JoinRows, Result};
use lanetree_layout::{AnyKey, Word};

/// Results that a thread converts at a time: fewer take less time than to wake it.
const TASK: usize = 1 << 14;

/// Probes of a join that are on the device at a time.
const PIECE: usize = if cfg!(test) { 1 << 6 } else { 1 << 23 };

/// Rows that are on the device at a time, unless one probe has more.
const MOST_ROWS: u64 = if cfg!(test) { 1 << 7 } else { row_pieces::MOST_ROWS };

impl<K: AnyKey, V: Word> IntervalIndex<K, V> {
    /// The row of the most specific interval around each point; `None` where no interval contains it. Bounds belong to their
    /// intervals.
    ///
    /// Of the intervals that contain a point, the most specific one is that with the greatest start; of these the one with the
    /// smallest end; of these the one that was given first. Where intervals are nested, it is the innermost one, as the longest
    /// prefix of an address is; intervals may overlap in any other way, too.
    ///
    /// ```
    /// use lanetree::{Device, IntervalIndex};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let index = IntervalIndex::build(&Device::host(), &[10_i64, 20, 20, 30], &[40, 28, 25, 50])?;
    /// let found = index.most_specific_many(&[10, 25, 26, 35, 45, 51])?;
    /// assert_eq!(found, [Some(0), Some(2), Some(1), Some(3), Some(3), None]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device or main memory has no room for the batch, or from the
    /// driver.
    pub fn most_specific_many(&self, points: &[K]) -> Result<Vec<Option<V>>> {
        let (device, count) = (self.device(), points.len());
        let (stream, points) = (device.stream()?, device.upload(points)?);
        let (mut rows, mut hits) = (device.alloc(count)?, device.alloc(count.div_ceil(32))?);
        let mut scratch = Scratch::new(device, count)?;
        self.on(&stream).hits(&mut hits).miss(V::MIN).most_specific(&points, &mut rows, &mut scratch)?;
        let (rows, hits) = (rows.to_vec()?, hits.to_vec()?);
        let found = |(i, row)| is_set(&hits, i).then_some(row);
        rows.into_par_iter().with_min_len(TASK).enumerate().map(found).try_collect()
    }

    /// All intervals: their starts, ends and rows, in the order in which [`IntervalIndex::stab_many`] gives them: in
    /// descending order of their starts; with the same start, in ascending order of their ends; equal ones as they were
    /// given. A build of these gives the same index.
    ///
    /// ```
    /// use lanetree::{Device, IntervalIndex};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let index = IntervalIndex::build(&Device::host(), &[10_i64, 20, 20], &[40, 28, 25])?;
    /// assert_eq!(index.intervals()?, (vec![20, 20, 10], vec![25, 28, 40], vec![2, 1, 0]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Runtime`] if main memory has no room for them, or from the driver.
    pub fn intervals(&self) -> Result<(Vec<K>, Vec<K>, Vec<V>)> {
        let (ends, mut rows) = (self.intervals.ends.to_vec()?, self.intervals.rows.to_vec()?);
        let mut starts = Vec::with_capacity(rows.len());
        for (start, last) in self.started.pairs()? {
            starts.resize(last as usize + 1, start);
        }
        starts.reverse();
        rows.reverse();
        let ends = ends[..rows.len()].iter().rev().map(|&end| K::decode(end)).collect();
        Ok((starts, ends, rows))
    }

    /// The rows of all intervals that contain each point, the most specific one first: in descending order of their
    /// starts; with the same start, in ascending order of their ends; equal ones as they were given.
    ///
    /// ```
    /// use lanetree::{Device, IntervalIndex};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::host();
    /// let index = IntervalIndex::build_with_rows(&device, &[10_u64, 20], &[40, 25], &[7_u64, 8])?;
    /// let found = index.stab_many(&[20, 9, 30])?;
    /// assert_eq!(found.offsets, [0, 2, 2, 3]);
    /// assert_eq!((found.of(0), found.of(1), found.of(2)), (&[8, 7][..], &[][..], &[7][..]));
    /// // The number of the point and the row of the interval of each pair.
    /// assert!(found.iter().eq([(0, 8), (0, 7), (2, 7)]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`IntervalIndex::most_specific_many`]; [`Error::TooManyRows`] if main memory has no room for the rows of so many points.
    pub fn stab_many(&self, points: &[K]) -> Result<JoinRows<V>> {
        self.join(points, None)
    }

    /// The rows of all intervals that have a point in common with each range from `lows[i]` to `highs[i]`, both inclusive: an overlap
    /// join. A reversed range has none. In the order of [`IntervalIndex::stab_many`]: those that start within the range first.
    ///
    /// ```
    /// use lanetree::{Device, IntervalIndex};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let index = IntervalIndex::build(&Device::host(), &[10_u64, 20, 60], &[40, 25, 70])?;
    /// let found = index.overlap_many(&[25, 26, 41, 9], &[60, 59, 59, 0])?;
    /// assert_eq!((found.of(0), found.of(1)), (&[2, 1, 0][..], &[0][..]));
    /// // The two columns of the join.
    /// assert_eq!((found.probes()?, found.rows), (vec![0, 0, 0, 1], vec![2, 1, 0, 0]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`IntervalIndex::stab_many`]; [`Error::BoundLengths`] unless there are as many highs as lows.
    pub fn overlap_many(&self, lows: &[K], highs: &[K]) -> Result<JoinRows<V>> {
        self.join(lows, Some(highs))
    }

    /// How many intervals have a point in common with each range, as [`IntervalIndex::overlap_many`] would find them.
    ///
    /// # Errors
    /// As [`IntervalIndex::overlap_many`].
    pub fn count_overlaps_many(&self, lows: &[K], highs: &[K]) -> Result<Vec<u64>> {
        check_bounds(lows.len(), highs.len())?;
        let (device, count) = (self.device(), lows.len());
        let (stream, lows, highs) = (device.stream()?, device.upload(lows)?, device.upload(highs)?);
        let mut counts = device.alloc(count)?;
        self.on(&stream).count_overlaps(&lows, &highs, &mut counts, &mut Scratch::new(device, count)?)?;
        Ok(counts.to_vec()?)
    }

    /// All intervals that contain points, or, with `highs`, that overlap ranges. Probes go through the device in pieces, of which a
    /// piece that would have very many rows has fewer probes.
    fn join(&self, lows: &[K], highs: Option<&[K]>) -> Result<JoinRows<V>> {
        check_bounds(lows.len(), highs.unwrap_or(lows).len())?;
        let (device, most) = (self.device(), lows.len().min(PIECE));
        let (stream, mut scratch) = (device.stream()?, Scratch::new(device, most)?);
        let mut out = DeviceRows::new(device, most, 0)?;
        let mut all = JoinRows { offsets: with_room(lows.len() + 1)?, rows: Vec::new() };
        all.offsets.push(0);
        let mut pieces = RowPieces::new(lows.len(), PIECE, MOST_ROWS);
        let (staging, probes) = (&self.started.staging().queries, lows.len());
        while let Some(piece) = pieces.piece() {
            let (count, before) = (piece.len(), all.offsets[piece.start]);
            let highs = highs.map(|highs| staging.uploaded(device, &highs[piece.clone()])).transpose()?;
            let lows = staging.uploaded(device, &lows[piece.clone()])?;
            self.on(&stream).locate(&lows, highs.as_ref(), &mut scratch, &mut out.offsets)?;
            let mut total = [0];
            out.offsets.copy_range_to(count, &mut total)?;
            let [rows] = total;
            check_rows(before.saturating_add(rows), u128::from(rows) * size_of::<V>() as u128)?;
            if !pieces.takes(&piece, rows) {
                continue;
            }
            let rows = usize::try_from(rows).unwrap_or(usize::MAX);
            out.rows = device.alloc(rows)?;
            self.on(&stream).copy(&lows, &scratch, &mut out)?;
            all.append_piece(staging, (piece, probes), &out.offsets, &out.rows)?;
        }
        Ok(all)
    }

    /// How many intervals contain each point. It takes two searches per point, however many there are.
    ///
    /// ```
    /// use lanetree::{Device, IntervalIndex};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let index = IntervalIndex::build(&Device::host(), &[10_u64, 20], &[40, 25])?;
    /// assert_eq!(index.count_many(&[20, 9, 30])?, [2, 0, 1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`IntervalIndex::most_specific_many`].
    pub fn count_many(&self, points: &[K]) -> Result<Vec<u64>> {
        let (device, count) = (self.device(), points.len());
        let (stream, points, mut counts) = (device.stream()?, device.upload(points)?, device.alloc(count)?);
        self.on(&stream).count(&points, &mut counts, &mut Scratch::new(device, count)?)?;
        Ok(counts.to_vec()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_frame::Device;

    #[test]
    fn joins_in_many_pieces_are_those_of_nested_loops() {
        for device in [Device::host(), Device::emulated()] {
            // Of nested intervals, so that a piece of probes has more rows than fit, and a probe alone, too.
            let starts: Vec<u32> = (0..300).map(|i| if i < 200 { i } else { i * 20 }).collect();
            let ends: Vec<u32> = (0..300).map(|i| if i < 200 { 1000 - i } else { i * 20 + 5 }).collect();
            let index = IntervalIndex::build(&device, &starts, &ends).unwrap();
            let lows: Vec<u32> = (0..3 * PIECE as u32 + 5).map(|i| i * 137 % 7000).collect();
            let highs: Vec<u32> = lows.iter().map(|low| low + low % 90).collect();
            for (found, highs) in [(index.stab_many(&lows), &lows), (index.overlap_many(&lows, &highs), &highs)] {
                let found = found.unwrap();
                assert_eq!(found.offsets.len(), lows.len() + 1);
                for (i, (&low, &high)) in lows.iter().zip(highs).enumerate() {
                    let mut rows: Vec<u32> =
                        (0..300).filter(|&at| starts[at as usize] <= high && low <= ends[at as usize]).collect();
                    rows.sort_by_key(|&at| (core::cmp::Reverse(starts[at as usize]), ends[at as usize], at));
                    assert_eq!(found.of(i), rows, "{low} to {high} on {device}");
                }
            }
            assert!(index.stab_many(&[150; 1]).unwrap().rows.len() as u64 > MOST_ROWS, "one probe has too many");
        }
    }
}
