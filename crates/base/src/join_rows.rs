//! The results of a join whose probes match any number of rows.

use crate::join_bounds::number_on_host;
use crate::room::{check_rows, collected, make_room_expecting, with_room, zeroed};
use crate::staging::Staging;
use crate::{Join, JoinKind, Result, no_row};
use core::ops::Range;
use lanetree_layout::Value;
use lanetree_runtime::Buffer;

/// The rows that match a batch of probes, in compressed sparse row form: the rows of probe *i* are from `offsets[i]` to
/// `offsets[i + 1]`, in the order of the probes.
///
/// In a left join a probe without a match has one row, [`no_row`](crate::no_row). Semi- and anti-joins have offsets alone, one row for
/// each probe that they keep: [`JoinRows::probes`] has the probes' numbers.
///
/// These are plain vectors; take one to save a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinRows<V> {
    /// One more than there are probes, ascending from 0.
    pub offsets: Vec<u64>,
    /// For each match the row of the index's side; none of semi- and anti-joins.
    pub rows: Vec<V>,
}

impl<V: Copy> JoinRows<V> {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.offsets.last().map_or(0, |&total| usize::try_from(total).unwrap_or(usize::MAX))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows that match a probe.
    ///
    /// # Panics
    /// If there is no such probe, or there are no rows.
    pub fn of(&self, probe: usize) -> &[V] {
        &self.rows[self.offsets[probe] as usize..self.offsets[probe + 1] as usize]
    }

    /// The number of the probe and the row of each match.
    pub fn iter(&self) -> impl Iterator<Item = (u64, V)> {
        let probes = self.offsets.windows(2).zip(0_u64..);
        let probes = probes.flat_map(|(pair, probe)| (pair[0]..pair[1]).map(move |_| probe));
        probes.zip(self.rows.iter().copied())
    }

    /// For each match the number of its probe, in ascending order. Together with [`JoinRows::rows`], the two columns of
    /// the join.
    ///
    /// ```
    /// use lanetree::JoinRows;
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let matches = JoinRows { offsets: vec![0, 2, 2, 3], rows: vec![70, 71, 90] };
    /// assert_eq!(matches.probes()?, [0, 0, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::TooManyRows`](crate::Error::TooManyRows) or [`Error::Runtime`](crate::Error::Runtime) if main memory has no room
    /// for it.
    pub fn probes(&self) -> Result<Vec<u64>> {
        check_rows(self.len() as u64, self.len() as u128 * u128::from(u64::BITS / 8))?;
        let mut probes = zeroed(self.len())?;
        if !self.offsets.is_empty() {
            number_on_host(&self.offsets, &mut probes);
        }
        Ok(probes)
    }
}

impl<V: Value> JoinRows<V> {
    /// Appends all rows of a piece of the probes, of which there are `probes` in all, from a device: `offsets[i]` says where those of
    /// the piece's probe `i` begin.
    ///
    /// # Errors
    /// [`Error::Runtime`](crate::Error::Runtime) if main memory has no room, or from the device.
    #[doc(hidden)]
    pub fn append_piece(
        &mut self,
        staging: &Staging,
        (piece, probes): (Range<usize>, usize),
        offsets: &Buffer<u64>,
        rows: &Buffer<V>,
    ) -> Result<()> {
        let (before, more) = (self.rows.len(), rows.len());
        // The remaining probes have as many rows each, within reason.
        let left = (before + more) as f64 * (probes - piece.end) as f64 / piece.end as f64;
        make_room_expecting(&mut self.rows, more, left as usize)?;
        staging.append(rows, 0..more, &mut self.rows)?;
        staging.append_made(offsets, 1..piece.len() + 1, &mut self.offsets, &|own, out| {
            out.fill(|i| own[i] + before as u64)
        })
    }

    /// Makes the rows of a join of any kind, with or without null probes, from the rows of an inner join without nulls.
    ///
    /// # Errors
    /// [`Error::OutputLength`](crate::Error::OutputLength) unless the validity has one bit per probe;
    /// [`Error::TooManyRows`](crate::Error::TooManyRows) or [`Error::Runtime`](crate::Error::Runtime) if main memory has no room for
    /// the rows.
    pub fn of_kind(mut self, join: &Join<'_>) -> Result<Self> {
        if let Some(validity) = join.validity() {
            validity.mask_rows(&mut self)?;
        }
        let counts = |pair: &[u64]| pair[1] - pair[0];
        match join.kind() {
            JoinKind::Inner => Ok(self),
            JoinKind::Left => {
                let misses = self.offsets.windows(2).filter(|pair| counts(pair) == 0).count();
                if misses == 0 {
                    return Ok(self);
                }
                let len = self.rows.len() + misses;
                check_rows(len as u64, len as u128 * size_of::<V>() as u128)?;
                let (mut rows, mut first) = (with_room(len)?, 0);
                for end in self.offsets.iter_mut().skip(1) {
                    let own = &self.rows[first..*end as usize];
                    first = *end as usize;
                    if own.is_empty() {
                        rows.push(no_row());
                    } else {
                        rows.extend_from_slice(own);
                    }
                    *end = rows.len() as u64;
                }
                Ok(Self { offsets: self.offsets, rows })
            }
            JoinKind::Semi | JoinKind::Anti => {
                let found = collected(self.offsets.windows(2).map(counts))?;
                Self::of_counts(&found, &Join::new(join.kind()))
            }
        }
    }

    /// The rows of a semi- or an anti-join, from the number of matches of each probe.
    ///
    /// # Errors
    /// As [`JoinRows::of_kind`].
    pub fn of_counts(counts: &[u64], join: &Join<'_>) -> Result<Self> {
        let validity = join.validity();
        if let Some(validity) = validity {
            validity.check(counts.len())?;
        }
        let mut offsets = with_room(counts.len() + 1)?;
        offsets.push(0);
        let mut end = 0;
        offsets.extend(counts.iter().enumerate().map(|(i, &count)| {
            let is_valid = validity.is_none_or(|validity| validity.is_valid(i));
            end += join.kind().rows(if is_valid { count } else { 0 });
            end
        }));
        Ok(Self { offsets, rows: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_of_probes_is_that_of_the_offsets_over_tasks() {
        assert_eq!(JoinRows::<u32>::default().probes().unwrap(), []);
        for rows in [&[0][..], &[0, 0, 5, 0, 1], &[1 << 15, 3, 0, 0, (2 << 15) + 7, 0]] {
            let mut offsets = vec![0];
            let mut expected = Vec::new();
            for (&count, probe) in rows.iter().zip(0_u64..) {
                offsets.push(offsets[offsets.len() - 1] + count);
                expected.extend((0..count).map(|_| probe));
            }
            let matches = JoinRows { offsets, rows: expected.clone() };
            assert_eq!(matches.probes().unwrap(), expected);
            assert!(matches.iter().eq(expected.iter().map(|&probe| (probe, probe))));
            assert_eq!(matches.of(0).len() as u64, rows[0]);
        }
    }
}
