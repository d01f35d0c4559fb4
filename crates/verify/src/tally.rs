//! What a run counts: cases, queries and failures, by row of the table.

use super::answer::Answer;
use super::compare::Difference;
use core::time::Duration;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a row of the table is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Group {
    pub(crate) device: String,
    pub(crate) index: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) keys: &'static str,
}

/// A row's sums.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    pub(crate) cases: u64,
    pub(crate) failed: u64,
    pub(crate) queries: u64,
    /// The calls' time; where trees are verified in parallel, more than the clock's.
    pub(crate) time: Duration,
}

impl Sums {
    fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.failed += other.failed;
        self.queries += other.queries;
        self.time += other.time;
    }
}

/// A case that was answered wrongly, or not at all.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Failure {
    #[serde(flatten)]
    pub(crate) group: Group,
    pub(crate) case: String,
    /// The run's seed.
    pub(crate) seed: u64,
    /// The seed that the run's and the tree's name give.
    pub(crate) case_seed: u64,
    /// The output, the index, the query, the expected and the actual value; or the error.
    pub(crate) reason: String,
    /// The command that runs this case alone.
    pub(crate) reproduce: String,
}

/// The counts of a run, or of a part of one.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) rows: BTreeMap<Group, Sums>,
    pub(crate) failures: Vec<Failure>,
    /// Trees too large for the device, with the reason.
    pub(crate) skipped: Vec<String>,
}

/// How a case ended.
pub(crate) type Ending = Result<Answer, String>;

impl Tally {
    /// Counts a case; gives the reason if it failed.
    pub(crate) fn count(&mut self, group: Group, ending: Ending) -> Option<String> {
        let sums = self.rows.entry(group).or_default();
        sums.cases += 1;
        let reason = match ending {
            Ok(answer) => {
                sums.queries += answer.queries as u64;
                sums.time += answer.time;
                describe(&answer.difference?)
            }
            Err(reason) => reason,
        };
        sums.failed += 1;
        Some(reason)
    }

    /// Adds a later part of the run.
    pub(crate) fn merge(&mut self, part: Self) {
        for (group, part) in part.rows {
            self.rows.entry(group).or_default().add(part);
        }
        self.failures.extend(part.failures);
        self.skipped.extend(part.skipped);
    }

    /// The rows, summed over the types of keys: by device, index and operation.
    pub(crate) fn folded(&self) -> BTreeMap<(&str, &'static str, &'static str), Sums> {
        let mut folded = BTreeMap::<_, Sums>::new();
        for (Group { device, index, operation, .. }, &sums) in &self.rows {
            folded.entry((&**device, *index, *operation)).or_default().add(sums);
        }
        folded
    }

    pub(crate) fn cases(&self) -> u64 {
        self.rows.values().map(|sums| sums.cases).sum()
    }

    pub(crate) fn failed(&self) -> u64 {
        self.rows.values().map(|sums| sums.failed).sum()
    }
}

fn describe(difference: &Difference) -> String {
    let Difference { what, index, query, expected, actual } = difference;
    format!("{what}[{index}] is wrong: query {query}, expected {expected}, got {actual}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_a_failure_and_so_is_an_error() {
        let group = || Group { device: "host".into(), index: "harmonia", operation: "get", keys: "u32" };
        let difference =
            Difference { what: "values", index: 3, query: "7".into(), expected: "1".into(), actual: "2".into() };
        let answer = |difference| Ok(Answer { queries: 10, time: Duration::from_secs(1), difference });
        let mut tally = Tally::default();
        assert_eq!(tally.count(group(), answer(None)), None);
        let reason = tally.count(group(), answer(Some(difference))).unwrap();
        assert_eq!(reason, "values[3] is wrong: query 7, expected 1, got 2");
        assert_eq!(tally.count(group(), Err("fault".into())).as_deref(), Some("fault"));
        assert_eq!((tally.cases(), tally.failed()), (3, 2));
        let mut sum = Tally::default();
        sum.merge(tally);
        sum.count(Group { keys: "u64", ..group() }, Err("fault".into()));
        assert_eq!(sum.folded()[&("host", "harmonia", "get")].cases, 4);
        assert_eq!((sum.rows.len(), sum.folded().len()), (2, 1));
        assert_eq!(sum.rows[&group()], Sums { cases: 3, failed: 2, queries: 20, time: Duration::from_secs(2) });
    }
}
