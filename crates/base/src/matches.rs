//! The results of a join.

use rayon::prelude::*;

/// Probes of a task of the CPU's: enough to outweigh its dispatch.
const TASK: usize = 1 << 15;

/// The matches of a batch of probes with an index, in compressed sparse row form: those of probe *i* are from `offsets[i]`
/// to `offsets[i + 1]`, in the order of the probes. As the keys of an index are distinct, a probe has at most one.
///
/// These are plain vectors; take one to save a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// One more than there are probes, ascending from 0.
    pub offsets: Vec<u64>,
    /// For each match the number of its probe in the batch; they ascend.
    pub probes: Vec<u64>,
    /// For each match the number of its pair in the index: the number of keys below the pair's.
    pub rows: Vec<u64>,
}

impl Matches {
    /// What [`Matches::of_rows`] takes for a probe without a match. No pair has this number.
    pub const NO_ROW: u64 = u64::MAX;

    /// The matches of probes, from the number of the pair of each, or [`Matches::NO_ROW`].
    pub fn of_rows(rows: &[u64]) -> Self {
        let counts: Vec<usize> =
            rows.par_chunks(TASK).map(|rows| rows.iter().filter(|&&row| row != Self::NO_ROW).count()).collect();
        let total = counts.iter().sum();
        let mut matches = Self { offsets: vec![0; rows.len() + 1], probes: vec![0; total], rows: vec![0; total] };
        let (mut probes, mut found) = (&mut matches.probes[..], &mut matches.rows[..]);
        let mut tasks = Vec::with_capacity(counts.len());
        let mut before = 0;
        for ((task, rows), count) in rows.chunks(TASK).enumerate().zip(counts) {
            let (task_probes, task_found);
            (task_probes, probes) = probes.split_at_mut(count);
            (task_found, found) = found.split_at_mut(count);
            tasks.push((task * TASK, rows, before, task_probes, task_found));
            before += count;
        }
        // Each offset after the first is the end of a probe's matches.
        let ends = matches.offsets[1..].par_chunks_mut(TASK);
        tasks.into_par_iter().zip(ends).for_each(|((first, rows, before, probes, found), ends)| {
            let mut count = 0;
            for (i, (&row, end)) in rows.iter().zip(ends).enumerate() {
                if row != Self::NO_ROW {
                    (probes[count], found[count]) = ((first + i) as u64, row);
                    count += 1;
                }
                *end = (before + count) as u64;
            }
        });
        matches
    }

    /// How many matches there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of the pairs that match a probe.
    ///
    /// # Panics
    /// If there is no such probe, or the rows were taken.
    pub fn of(&self, probe: usize) -> &[u64] {
        &self.rows[self.offsets[probe] as usize..self.offsets[probe + 1] as usize]
    }

    /// The number of the probe and the number of the pair of each match.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.probes.iter().copied().zip(self.rows.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_keep_the_order_of_the_probes_over_tasks() {
        for len in [0, 1, 5, TASK, TASK + 1, 3 * TASK + 17] {
            let row = |i: usize| if i % 3 == 1 { Matches::NO_ROW } else { (i * 7 % 1000) as u64 };
            let rows: Vec<u64> = (0..len).map(row).collect();
            let matches = Matches::of_rows(&rows);
            let expected: Vec<(u64, u64)> = (0..len).filter(|i| i % 3 != 1).map(|i| (i as u64, row(i))).collect();
            assert!(matches.iter().eq(expected.iter().copied()), "{len}");
            assert_eq!((matches.len(), matches.is_empty()), (expected.len(), expected.is_empty()));
            for i in 0..len {
                let own = [row(i)];
                assert_eq!(matches.of(i), if i % 3 == 1 { &[][..] } else { &own[..] }, "probe {i} of {len}");
            }
        }
    }
}
