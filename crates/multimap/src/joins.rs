//! Equi-joins in host form.

use crate::MultiMap;
use crate::contents::read;
use crate::on_stream::{DeviceRows, JoinScratch};
use lanetree_frame::room::{make_room, with_room};
use lanetree_frame::{Join, JoinRows, Result, Validity};
use lanetree_layout::{Key, Word};

/// Probes that are on the device at a time, a multiple of 32.
const PIECE: usize = if cfg!(test) { 1 << 6 } else { 1 << 23 };

impl<K: Key, V: Word> MultiMap<K, V> {
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
    /// As [`MultiMap::get_all_many`]; [`Error::OutputLength`](lanetree_frame::Error::OutputLength) unless the validity has one bit per
    /// probe.
    pub fn join_as_many(&self, probes: &[K], join: &Join<'_>) -> Result<JoinRows<V>> {
        if let Some(validity) = join.validity() {
            validity.check(probes.len())?;
        }
        let (device, kind, most) = (&self.device, join.kind(), probes.len().min(PIECE));
        let stream = device.stream()?;
        let mut scratch = JoinScratch::new(device, most)?;
        let mut found = DeviceRows::new(device, most, 0)?;
        let mut all = JoinRows { offsets: with_room(probes.len() + 1)?, rows: Vec::new() };
        all.offsets.push(0);
        for start in (0..probes.len()).step_by(PIECE) {
            let piece = &probes[start..probes.len().min(start + PIECE)];
            let queries = device.upload(piece)?;
            let valid = join.validity().map(|validity| words(&validity, start, piece.len())).transpose()?;
            let valid = valid.map(|words| device.upload(&words)).transpose()?;
            let on = self.on(&stream).kind(kind);
            let on = match &valid {
                Some(valid) => on.valid(valid, 0),
                None => on,
            };
            on.locate_join(&queries, &mut scratch, &mut found.offsets)?;
            let mut offsets = found.offsets.to_vec()?;
            offsets.truncate(piece.len() + 1);
            let rows = usize::try_from(read(&found.offsets, piece.len())?).unwrap_or(usize::MAX);
            let before = all.offsets[all.offsets.len() - 1];
            if kind.has_rows() {
                all.offsets.extend(offsets[1..].iter().map(|offset| before + offset));
                found.values = device.alloc(rows)?;
                on.copy_join(piece.len(), &mut scratch, &found.offsets, &mut found.values)?;
                make_room(&mut all.rows, rows)?;
                all.rows.extend(found.values.to_vec()?);
            } else {
                let kept = offsets.windows(2).map(|pair| kind.rows(pair[1] - pair[0]));
                all.offsets.extend(kept.scan(before, |end, rows| {
                    *end += rows;
                    Some(*end)
                }));
            }
        }
        Ok(all)
    }
}

/// The validity of so many elements from `start` on, as words.
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
