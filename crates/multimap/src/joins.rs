//! Equi-joins in host form.

use crate::MultiMap;
use crate::contents::read;
use crate::on_stream::{DeviceRows, JoinScratch, OnStream, RangeJoinScratch};
use core::ops::Range;
use lanetree_frame::room::{make_room, with_room};
use lanetree_frame::{Closed, Error, Join, JoinBounds, JoinRows, Result, Validity};
use lanetree_layout::{AnyKey, Word};

/// Probes that are on the device at a time, a multiple of 32.
const PIECE: usize = if cfg!(test) { 1 << 6 } else { 1 << 23 };

impl<K: AnyKey, V: Word> MultiMap<K, V> {
    /// [`MultiMap::join_many`] of any kind, with null probes or without. Probes go through the device in pieces, and the rows of a
    /// piece are on the device at a time.
    ///
    /// ```
    /// use lanetree::{Device, Join, MultiMap, no_row};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let orders = MultiMap::build(&Device::host(), &[7_u32, 5, 7], &[0_u32, 1, 2])?;
    /// let customers = [7, 6, 5];
    /// let left = orders.join_as_many(&customers, &Join::left())?;
    /// assert_eq!((left.probes()?, left.rows), (vec![0, 0, 1, 2], vec![0, 2, no_row(), 1]));
    /// assert_eq!(orders.join_as_many(&customers, &Join::semi())?.probes()?, [0, 2]);
    /// assert_eq!(orders.join_as_many(&customers, &Join::anti())?.probes()?, [1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`]; [`Error::OutputLength`] unless the validity has one bit per
    /// probe.
    pub fn join_as_many(&self, probes: &[K], join: &Join<'_>) -> Result<JoinRows<V>> {
        if let Some(validity) = join.validity() {
            validity.check(probes.len())?;
        }
        let most = probes.len().min(PIECE);
        let mut scratch = JoinScratch::new(&self.device, most)?;
        self.join_in_pieces(probes.len(), join, |on, piece, found| {
            let (queries, count) = (self.device.upload(&probes[piece.clone()])?, piece.len());
            on.locate_join(&queries, &mut scratch, &mut found.offsets)?;
            if self.make_room(on, count, found)? {
                on.copy_join(count, &mut scratch, &found.offsets, (&mut found.values, None))?;
            }
            Ok(())
        })
    }

    /// Joins ranges with the map: for each the values, such as row numbers, of the keys between `lows[i]` and `highs[i]`, in ascending
    /// order of the keys. `closed` says which bounds belong to the ranges; a reversed range is empty. Otherwise like
    /// [`MultiMap::join_as_many`].
    ///
    /// ```
    /// use lanetree::{Closed, Device, Join, MultiMap, no_row};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let orders = MultiMap::build(&Device::host(), &[7_u32, 5, 7], &[0_u32, 1, 2])?;
    /// let left = orders.range_join_many(&[5, 1], &[8, 5], Closed::Left, &Join::left())?;
    /// assert!(left.iter().eq([(0, 1), (0, 0), (0, 2), (1, no_row())]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`MultiMap::join_as_many`]; [`BoundLengths`](Error::BoundLengths) unless there are as many highs as lows.
    pub fn range_join_many(&self, lows: &[K], highs: &[K], closed: Closed, join: &Join<'_>) -> Result<JoinRows<V>> {
        self.join_between((lows, highs), JoinBounds::of_ranges(closed), join)
    }

    /// Joins probes with all values of the keys that are at most `distance` away. Otherwise like [`MultiMap::range_join_many`].
    ///
    /// # Errors
    /// As [`MultiMap::join_as_many`]; [`OptionValue`](Error::OptionValue) for keys that are floats.
    pub fn band_join_many(&self, probes: &[K], distance: u64, join: &Join<'_>) -> Result<JoinRows<V>> {
        self.join_between((probes, probes), JoinBounds::of_bands(distance)?, join)
    }

    fn join_between(&self, (lows, highs): (&[K], &[K]), how: JoinBounds<K>, join: &Join<'_>) -> Result<JoinRows<V>> {
        if lows.len() != highs.len() {
            return Err(Error::BoundLengths { starts: lows.len(), ends: highs.len() });
        }
        if let Some(validity) = join.validity() {
            validity.check(lows.len())?;
        }
        let mut scratch = RangeJoinScratch::new(&self.device, lows.len().min(PIECE))?;
        self.join_in_pieces(lows.len(), join, |on, piece, found| {
            let count = piece.len();
            let bounds = (self.device.upload(&lows[piece.clone()])?, self.device.upload(&highs[piece])?);
            on.locate_range_join((&bounds.0, &bounds.1), how, &mut scratch, &mut found.offsets)?;
            if self.make_room(on, count, found)? {
                on.copy_range_join(count, &scratch, &found.offsets, (&mut found.values, None))?;
            }
            Ok(())
        })
    }

    /// Joins probes in pieces. `find` finds the rows of a piece: the offsets, and the values of a join that has them.
    fn join_in_pieces(
        &self,
        probes: usize,
        join: &Join<'_>,
        mut find: impl FnMut(&OnStream<'_, K, V>, Range<usize>, &mut DeviceRows<V>) -> Result<()>,
    ) -> Result<JoinRows<V>> {
        let (device, kind) = (&self.device, join.kind());
        let stream = device.stream()?;
        let mut found = DeviceRows::new(device, probes.min(PIECE), 0)?;
        let mut all = JoinRows { offsets: with_room(probes + 1)?, rows: Vec::new() };
        all.offsets.push(0);
        for start in (0..probes).step_by(PIECE) {
            let piece = start..probes.min(start + PIECE);
            let valid = join.validity().map(|validity| words(&validity, start, piece.len())).transpose()?;
            let valid = valid.map(|words| device.upload(&words)).transpose()?;
            let on = self.on(&stream).kind(kind);
            let on = match &valid {
                Some(valid) => on.valid(valid, 0),
                None => on,
            };
            find(&on, piece.clone(), &mut found)?;
            let offsets = found.offsets.to_vec()?;
            let before = all.offsets[start];
            if kind.has_rows() {
                all.offsets.extend(offsets[1..=piece.len()].iter().map(|offset| before + offset));
                make_room(&mut all.rows, found.values.len())?;
                all.rows.extend(found.values.to_vec()?);
            } else {
                let kept = offsets[..=piece.len()].windows(2).map(|pair| kind.rows(pair[1] - pair[0]));
                all.offsets.extend(kept.scan(before, |end, rows| {
                    *end += rows;
                    Some(*end)
                }));
            }
        }
        Ok(all)
    }

    /// Makes room for the rows of `probes` probes, if the join has rows.
    fn make_room(&self, on: &OnStream<'_, K, V>, probes: usize, found: &mut DeviceRows<V>) -> Result<bool> {
        let has_rows = on.has_rows();
        if has_rows {
            let rows = read(&found.offsets, probes)?;
            found.values = self.device.alloc(usize::try_from(rows).unwrap_or(usize::MAX))?;
        }
        Ok(has_rows)
    }
}

/// The validity of `len` elements from `start` on, as words.
fn words(validity: &Validity<'_>, start: usize, len: usize) -> Result<Vec<u32>> {
    let mut words = with_room(len.div_ceil(32))?;
    words.extend((0..len.div_ceil(32)).map(|word| {
        let bits = word * 32..len.min(word * 32 + 32);
        bits.fold(0, |bits, i| bits | u32::from(validity.is_valid(start + i)) << (i % 32))
    }));
    Ok(words)
}

#[cfg(test)]
mod tests;
