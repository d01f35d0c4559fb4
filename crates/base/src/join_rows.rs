//! The results of a join whose probes match any number of rows.

use crate::Result;
use crate::join_bounds::number_on_host;
use crate::room::zeroed;

/// The rows that match a batch of probes, in compressed sparse row form: those of probe *i* are from `offsets[i]` to
/// `offsets[i + 1]`, in the order of the probes.
///
/// These are plain vectors; take one to save a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinRows<V> {
    /// One more than there are probes, ascending from 0.
    pub offsets: Vec<u64>,
    /// For each match the row of the index's side.
    pub rows: Vec<V>,
}

impl<V: Copy> JoinRows<V> {
    /// How many matches there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows that match a probe.
    ///
    /// # Panics
    /// If there is no such probe, or the rows were taken.
    pub fn of(&self, probe: usize) -> &[V] {
        &self.rows[self.offsets[probe] as usize..self.offsets[probe + 1] as usize]
    }

    /// The number of the probe and the row of each match.
    pub fn iter(&self) -> impl Iterator<Item = (u64, V)> {
        let probes = self.offsets.windows(2).zip(0_u64..);
        let probes = probes.flat_map(|(pair, probe)| (pair[0]..pair[1]).map(move |_| probe));
        probes.zip(self.rows.iter().copied())
    }

    /// For each match the number of its probe, in ascending order: the other column of the join, beside [`JoinRows::rows`].
    ///
    /// ```
    /// use lanetree_base::JoinRows;
    ///
    /// # fn main() -> lanetree_base::Result<()> {
    /// let matches = JoinRows { offsets: vec![0, 2, 2, 3], rows: vec![70, 71, 90] };
    /// assert_eq!(matches.probes()?, [0, 0, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Runtime`](crate::Error::Runtime) if main memory has no room for it.
    pub fn probes(&self) -> Result<Vec<u64>> {
        let mut probes = zeroed(self.offsets.last().map_or(0, |&total| usize::try_from(total).unwrap_or(usize::MAX)))?;
        if !self.offsets.is_empty() {
            number_on_host(&self.offsets, &mut probes);
        }
        Ok(probes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than a task of the CPU's.
    const TASK: usize = 1 << 15;

    #[test]
    fn the_column_of_probes_is_that_of_the_offsets_over_tasks() {
        assert_eq!(JoinRows::<u32>::default().probes().unwrap(), []);
        for rows in [&[0][..], &[0, 0, 5, 0, 1], &[TASK as u64, 3, 0, 0, 2 * TASK as u64 + 7, 0]] {
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
