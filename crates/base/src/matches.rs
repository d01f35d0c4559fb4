//! The results of a join.

use crate::{Found, Join, Result};

/// The matches of a batch of probes with an index, in compressed sparse row form: the matches of probe *i* are from
/// `offsets[i]` to `offsets[i + 1]`, in the order of the probes. As the keys of an index are distinct, a probe has at
/// most one.
///
/// [`JoinKind`](crate::JoinKind) says which other rows there are: a row is a probe with its match, in a left join also one without, and in a semi- or
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
        let found = Found::in_tasks(rows.len(), Vec::new(), |probes, found| {
            let own = rows[probes].iter().copied().enumerate();
            own.filter(|(_, row)| *row != Self::NO_ROW).for_each(|(i, row)| found(i, row));
        })?;
        Self::of_found(found, &Join::inner(), Self::default())
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
