//! The results of a join.

use crate::parallel::*;
use crate::room::zeroed;
use crate::{Join, JoinKind, Result};

/// Probes of a task of the CPU's: enough to outweigh its dispatch.
const TASK: usize = 1 << 15;

/// The matches of a batch of probes with an index, in compressed sparse row form: the matches of probe *i* are from
/// `offsets[i]` to `offsets[i + 1]`, in the order of the probes. As the keys of an index are distinct, a probe has at
/// most one.
///
/// [`JoinKind`] says which other rows there are: a row is a probe with its match, in a left join also one without, and in a semi- or
/// an anti-join a probe alone.
///
/// These are plain vectors; take one to save a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// One more than there are probes, ascending from 0.
    pub offsets: Vec<u64>,
    /// For each match the number of its probe in the batch; they ascend.
    pub probes: Vec<u64>,
    /// For each match the number of its pair in the index, which is the number of keys below the pair's; in a left join
    /// [`Matches::NO_ROW`] for a probe without a match. Semi- and anti-joins have none.
    pub rows: Vec<u64>,
}

impl Matches {
    /// The row of a probe without a match, which [`no_row`](crate::no_row) is, too. No pair has this number.
    pub const NO_ROW: u64 = u64::MAX;

    /// The matches of probes, from the number of the pair of each, or [`Matches::NO_ROW`].
    ///
    /// # Errors
    /// [`Error::Runtime`](crate::Error::Runtime) if main memory has no room for them.
    pub fn of_rows(rows: &[u64]) -> Result<Self> {
        let mut matches = Self::default();
        matches.fill(rows.len(), |own| {
            own.copy_from_slice(rows);
            Ok(())
        })?;
        Ok(matches)
    }

    /// Makes these the matches of `probes` probes, and reuses their memory: `find` writes the number of the pair of
    /// each, or [`Matches::NO_ROW`], over anything. After an error there are none.
    ///
    /// # Errors
    /// As [`Matches::of_rows`]; the errors of `find`.
    pub fn fill(&mut self, probes: usize, find: impl FnOnce(&mut [u64]) -> Result<()>) -> Result<()> {
        self.fill_as(probes, &Join::inner(), find)
    }

    /// [`Matches::fill`] with the rows of a join of any kind, with null probes or without.
    ///
    /// # Errors
    /// As [`Matches::fill`]; [`Error::OutputLength`](crate::Error::OutputLength) unless the validity has one bit per probe.
    pub fn fill_as(
        &mut self,
        probes: usize,
        join: &Join<'_>,
        find: impl FnOnce(&mut [u64]) -> Result<()>,
    ) -> Result<()> {
        let kind = join.kind();
        let Self { mut offsets, probes: mut found_probes, rows: mut found_rows } = core::mem::take(self);
        // Rows where offsets will be: each offset after the first is the end of a probe's matches.
        set_len(&mut offsets, probes + 1)?;
        offsets[0] = 0;
        let ends = &mut offsets[1..];
        if let Some(validity) = join.validity() {
            validity.check(probes)?;
        }
        find(ends)?;
        if let Some(validity) = join.validity() {
            validity.nulls().for_each(|null| ends[null] = Self::NO_ROW);
        }
        let is_row = |row: u64| match kind {
            JoinKind::Inner | JoinKind::Semi => row != Self::NO_ROW,
            JoinKind::Left => true,
            JoinKind::Anti => row == Self::NO_ROW,
        };
        let count = |rows: &[u64]| rows.iter().filter(|row| is_row(**row)).count();
        let counts: Vec<usize> = ends.par_chunks(TASK).map(count).collect();
        let total = counts.iter().sum();
        set_len(&mut found_probes, total)?;
        set_len(&mut found_rows, if kind.has_rows() { total } else { 0 })?;
        let (mut to_probes, mut to_rows) = (&mut found_probes[..], &mut found_rows[..]);
        let mut tasks = Vec::with_capacity(counts.len());
        let mut before = 0;
        for ((task, ends), count) in ends.chunks_mut(TASK).enumerate().zip(counts) {
            let (task_probes, task_rows);
            (task_probes, to_probes) = to_probes.split_at_mut(count);
            (task_rows, to_rows) = to_rows.split_at_mut(if kind.has_rows() { count } else { 0 });
            tasks.push((task * TASK, ends, before, task_probes, task_rows));
            before += count;
        }
        tasks.into_par_iter().for_each(|(first, ends, before, probes, rows)| {
            let mut count = 0;
            for (i, end) in ends.iter_mut().enumerate() {
                if is_row(*end) {
                    probes[count] = (first + i) as u64;
                    if let Some(row) = rows.get_mut(count) {
                        *row = *end;
                    }
                    count += 1;
                }
                *end = (before + count) as u64;
            }
        });
        *self = Self { offsets, probes: found_probes, rows: found_rows };
        Ok(())
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.offsets.last().map_or(0, |&total| total as usize)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of the pairs that match a probe.
    ///
    /// # Panics
    /// If there is no such probe, or there are no rows.
    pub fn of(&self, probe: usize) -> &[u64] {
        &self.rows[self.offsets[probe] as usize..self.offsets[probe + 1] as usize]
    }

    /// The number of the probe and the number of the pair of each match; nothing of a semi- or an anti-join.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.probes.iter().copied().zip(self.rows.iter().copied())
    }
}

/// Gives a vector `len` elements, of unspecified values. New memory is zero as it comes from the system, so that nobody
/// writes it twice.
fn set_len(vector: &mut Vec<u64>, len: usize) -> Result<()> {
    if vector.capacity() < len {
        // First, since both may be large.
        *vector = Vec::new();
        *vector = zeroed(len)?;
    }
    vector.resize(len, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn matches_keep_the_order_of_the_probes_over_tasks() {
        for len in [0, 1, 5, TASK, TASK + 1, 3 * TASK + 17] {
            let row = |i: usize| if i % 3 == 1 { Matches::NO_ROW } else { (i * 7 % 1000) as u64 };
            let rows: Vec<u64> = (0..len).map(row).collect();
            let matches = Matches::of_rows(&rows).unwrap();
            let expected: Vec<(u64, u64)> = (0..len).filter(|i| i % 3 != 1).map(|i| (i as u64, row(i))).collect();
            assert!(matches.iter().eq(expected.iter().copied()), "{len}");
            assert_eq!((matches.len(), matches.is_empty()), (expected.len(), expected.is_empty()));
            for i in 0..len {
                let own = [row(i)];
                assert_eq!(matches.of(i), if i % 3 == 1 { &[][..] } else { &own[..] }, "probe {i} of {len}");
            }
        }
    }

    #[test]
    fn memory_is_used_again_whatever_is_in_it() {
        let mut matches = Matches::of_rows(&[5; 100]).unwrap();
        matches.rows = vec![1; 3];
        let at = matches.offsets.as_ptr();
        for rows in [&[7, Matches::NO_ROW, 9][..], &[], &[Matches::NO_ROW; 40], &[4; 99]] {
            let filled = matches.fill(rows.len(), |own| {
                own.copy_from_slice(rows);
                Ok(())
            });
            filled.unwrap();
            assert_eq!(matches, Matches::of_rows(rows).unwrap());
            assert_eq!(matches.offsets.as_ptr(), at, "no new memory");
        }
        assert!(matches.fill(3, |_| Err(Error::LengthMismatch { keys: 1, values: 2 })).is_err());
        assert!(matches.is_empty() && matches.iter().len() == 0);
    }
}
