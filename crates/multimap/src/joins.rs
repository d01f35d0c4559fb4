//! Equi-joins in host form.

use crate::MultiMap;
use crate::contents::read;
use crate::on_stream::{JoinScratch, OnStream, RangeJoinScratch};
use crate::queries::total;
use core::ops::Range;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::error::check_bounds;
use lanetree_frame::room::{check_rows, with_room};
use lanetree_frame::row_pieces::{self, RowPieces};
use lanetree_frame::staging::Staging;
use lanetree_frame::{Buffer, Closed, Join, JoinBounds, JoinKind, JoinRows, Result, Validity, parallel};
use lanetree_layout::{AnyKey, Word};

/// Probes that are on the device at a time, a multiple of 32.
const PIECE: usize = if cfg!(test) { 1 << 6 } else { 1 << 23 };

/// Rows that are on the device at a time, unless one probe has more.
const MOST_ROWS: u64 = if cfg!(test) { 1 << 7 } else { row_pieces::MOST_ROWS };

impl<K: AnyKey, V: Word> MultiMap<K, V> {
    /// [`MultiMap::join_many`] of any kind, with null probes or without. Probes go through the device in pieces, of which a piece that
    /// would have very many rows has fewer probes; so only the rows of a single probe have to fit into the device's memory.
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
    /// probe; [`Error::TooManyRows`] if main memory has no room for the rows of a piece and those before.
    pub fn join_as_many(&self, probes: &[K], join: &Join<'_>) -> Result<JoinRows<V>> {
        if let Some(validity) = join.validity() {
            validity.check(probes.len())?;
        }
        let most = probes.len().min(PIECE);
        let mut scratch = JoinScratch::new(&self.device, most)?;
        self.join_in_pieces(
            probes.len(),
            join,
            &mut scratch,
            |on, piece, scratch, offsets| {
                let probes = self.staging.uploaded(&self.device, &probes[piece])?;
                on.locate_join(&probes, scratch, offsets)
            },
            |on, count, scratch, rows| on.copy_join(count, scratch, rows),
        )
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
    /// As [`MultiMap::join_as_many`]; [`BoundLengths`](Error::BoundLengths) unless there are as many highs as lows;
    /// [`NotCompact`](Error::NotCompact) after inserts in place on a device: see [`MultiMap::restore_order`].
    pub fn range_join_many(&self, lows: &[K], highs: &[K], closed: Closed, join: &Join<'_>) -> Result<JoinRows<V>> {
        self.join_between((lows, highs), JoinBounds::of_ranges(closed), join)
    }

    /// Joins probes with all values of the keys that are at most `distance` away. Otherwise like [`MultiMap::range_join_many`].
    ///
    /// # Errors
    /// As [`MultiMap::range_join_many`]; [`OptionValue`](Error::OptionValue) for keys that are floats.
    pub fn band_join_many(&self, probes: &[K], distance: u64, join: &Join<'_>) -> Result<JoinRows<V>> {
        self.join_between((probes, probes), JoinBounds::of_bands(distance)?, join)
    }

    fn join_between(&self, (lows, highs): (&[K], &[K]), how: JoinBounds<K>, join: &Join<'_>) -> Result<JoinRows<V>> {
        check_bounds(lows.len(), highs.len())?;
        if let Some(validity) = join.validity() {
            validity.check(lows.len())?;
        }
        let mut scratch = RangeJoinScratch::new(&self.device, lows.len().min(PIECE))?;
        self.join_in_pieces(
            lows.len(),
            join,
            &mut scratch,
            |on, piece, scratch, offsets| {
                let upload = |bounds| self.staging.uploaded(&self.device, bounds);
                let bounds = (upload(&lows[piece.clone()])?, upload(&highs[piece])?);
                on.locate_range_join((&bounds.0, &bounds.1), how, scratch, offsets)
            },
            |on, count, scratch, rows| on.copy_range_join(count, scratch, rows),
        )
    }

    /// Joins probes in pieces. `locate` finds where the rows of a piece are and their offsets, `copy` the values of a join that has
    /// them, into room for all. While the rows of a piece come back, the next one is located and copied on the device.
    fn join_in_pieces<S: Send>(
        &self,
        probes: usize,
        join: &Join<'_>,
        scratch: &mut S,
        mut locate: impl FnMut(&OnStream<'_, K, V>, Range<usize>, &mut S, &mut Buffer<u64>) -> Result<()> + Send,
        copy: impl Fn(&OnStream<'_, K, V>, usize, &mut S, &mut Buffer<V>) -> Result<()> + Sync,
    ) -> Result<JoinRows<V>> {
        let (device, kind) = (&self.device, join.kind());
        let stream = device.stream()?;
        let mut all = JoinRows { offsets: with_room(probes + 1)?, rows: Vec::new() };
        all.offsets.push(0);
        let (mut pieces, mut counted) = (RowPieces::new(probes, PIECE, MOST_ROWS), 0_u64);
        let mut next = |offsets: Option<Buffer<u64>>| -> Result<Option<Piece<V>>> {
            let mut offsets = offsets.map_or_else(|| device.alloc(probes.min(PIECE) + 1), Ok)?;
            while let Some(probes) = pieces.piece() {
                let count = probes.len();
                let valid = join.validity().map(|validity| words(&validity, probes.start, count)).transpose()?;
                let valid = valid.map(|words| device.upload(&words)).transpose()?;
                let on = self.on(&stream).kind(kind);
                let on = match &valid {
                    Some(valid) => on.valid(valid, 0),
                    None => on,
                };
                locate(&on, probes.clone(), scratch, &mut offsets)?;
                // Of semi- and anti-joins at most one per probe, which only the offsets tell.
                let rows = if kind.has_rows() { read(&offsets, count)? } else { 0 };
                check_rows(counted.saturating_add(rows), u128::from(rows) * size_of::<V>() as u128)?;
                if !pieces.takes(&probes, rows) {
                    continue;
                }
                counted = counted.saturating_add(rows);
                let mut values = device.alloc(total(rows))?;
                if kind.has_rows() {
                    copy(&on, count, scratch, &mut values)?;
                }
                stream.synchronize()?;
                return Ok(Some(Piece { probes, offsets, values }));
            }
            Ok(None)
        };
        let (mut piece, mut used) = (next(None)?, None);
        while let Some(own) = piece {
            let append = || own.append_to(&mut all, &self.staging, (probes, kind));
            let (appended, following) = parallel::join(append, || next(used.take()));
            appended?;
            (piece, used) = (following?, Some(own.offsets));
        }
        Ok(all)
    }
}

/// A piece whose rows are on the device.
struct Piece<V> {
    probes: Range<usize>,
    offsets: Buffer<u64>,
    values: Buffer<V>,
}

impl<V: Word> Piece<V> {
    /// Appends the rows to those of the pieces before it, of so many probes in all.
    fn append_to(&self, all: &mut JoinRows<V>, staging: &Staging, (probes, kind): (usize, JoinKind)) -> Result<()> {
        let (own, offsets) = (self.probes.clone(), &self.offsets);
        if kind.has_rows() {
            return all.append_piece(staging, (own, probes), offsets, &self.values);
        }
        let (before, offsets) = (all.offsets[own.start], staging.downloaded(offsets, 0..own.len() + 1)?);
        let kept = offsets.windows(2).map(|pair| kind.rows(pair[1] - pair[0]));
        all.offsets.extend(kept.scan(before, |end, rows| {
            *end += rows;
            Some(*end)
        }));
        Ok(())
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
