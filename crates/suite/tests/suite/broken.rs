//! Indexes that break one rule each: the suite finds every one, and nothing in the same index without a fault.

use lanetree::harmonia::Builder;
use lanetree::{
    Device, DeviceForm, Error, Harmonia, IndexBuilder, KeyRange, Op, OrderedIndex, Ranges, Result, UpdateReport,
};
use lanetree_suite::{Plain, bounded, check, conformance, ordered};
use std::panic::catch_unwind;

/// The rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// None is.
    None,
    /// A lost index answers.
    AnswersWhenLost,
    /// The last range lacks its last pair.
    DropsTheLastPair,
    /// Of equal keys in a batch, the first one's value stays.
    TheFirstWins,
    /// Bounds that are excluded are included.
    IncludesEveryBound,
    /// A range that ends before it starts is empty.
    TakesReversedRanges,
    /// Values without keys, and keys without values, are left out.
    TakesAnyLength,
    /// The second half of a batch may fail after the first was made.
    AppliesByHalves,
    /// An error of the device is not told.
    HidesFailures,
    /// Keys that are absent count as replaced.
    Miscounts,
    /// The largest key is never found.
    LosesTheLargestKey,
    /// Of equal keys in a build, the first one's value stays.
    BuildsFromTheFirst,
}

#[derive(Clone, Copy, Debug)]
struct Faulty(Builder<u64, u64>, Fault);

#[derive(Debug)]
struct FaultyIndex(Harmonia<u64, u64>, Fault);

impl IndexBuilder for Faulty {
    type Index = FaultyIndex;

    fn build(&self, device: &Device, keys: &[u64], values: &[u64]) -> Result<FaultyIndex> {
        let (mut keys, mut values) = (keys.to_vec(), values.to_vec());
        if self.1 == Fault::BuildsFromTheFirst {
            keys.reverse();
            values.reverse();
        }
        Ok(FaultyIndex(self.0.build(device, &keys, &values)?, self.1))
    }
}

impl OrderedIndex for FaultyIndex {
    type Domain = u64;
    type Value = u64;
    const NAME: &'static str = "faulty";

    fn device(&self) -> &Device {
        self.0.device()
    }
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn bytes(&self) -> u64 {
        OrderedIndex::bytes(&self.0)
    }
    fn is_lost(&self) -> bool {
        OrderedIndex::is_lost(&self.0)
    }
    fn get_many(&self, keys: &[u64]) -> Result<Vec<Option<u64>>> {
        let found = match self.0.get_many(keys) {
            Err(Error::Lost { .. }) if self.1 == Fault::AnswersWhenLost => return Ok(vec![None; keys.len()]),
            found => found?,
        };
        let keep = |&key: &u64| self.1 != Fault::LosesTheLargestKey || key != u64::MAX;
        Ok(keys.iter().zip(found).map(|(key, value)| value.filter(|_| keep(key))).collect())
    }
    fn lower_bound_many(&self, keys: &[u64]) -> Result<Vec<u64>> {
        self.0.lower_bound_many(keys)
    }
    fn upper_bound_many(&self, keys: &[u64]) -> Result<Vec<u64>> {
        self.0.upper_bound_many(keys)
    }
    fn predecessor_many(&self, keys: &[u64]) -> Result<Vec<Option<(u64, u64)>>> {
        self.0.predecessor_many(keys)
    }
    fn successor_many(&self, keys: &[u64]) -> Result<Vec<Option<(u64, u64)>>> {
        self.0.successor_many(keys)
    }
    fn range_many(&self, ranges: &[KeyRange<u64>]) -> Result<Ranges<u64, u64>> {
        let mut ranges = ranges.to_vec();
        for range in &mut ranges {
            match range.resolve(0) {
                Err(_) if self.1 == Fault::TakesReversedRanges => *range = KeyRange::from(0..0),
                Ok((start, end, limit)) if self.1 == Fault::IncludesEveryBound && start < end => {
                    *range = KeyRange::from(start.saturating_sub(1)..=end).limit(limit);
                }
                _ => {}
            }
        }
        let mut found = self.0.range_many(ranges)?;
        if let (Fault::DropsTheLastPair, [.., before, last]) = (self.1, &mut found.offsets[..])
            && *before < *last
        {
            *last -= 1;
            found.keys.pop();
            found.values.pop();
        }
        Ok(found)
    }
    fn count_range_many(&self, ranges: &[KeyRange<u64>]) -> Result<Vec<u64>> {
        self.0.count_range_many(ranges.iter().copied())
    }
    fn pairs(&self) -> Result<Vec<(u64, u64)>> {
        OrderedIndex::pairs(&self.0)
    }
    fn compact(&mut self) -> Result<u64> {
        OrderedIndex::compact(&mut self.0)
    }
    fn apply(&mut self, ops: &[Op<u64, u64>]) -> Result<UpdateReport> {
        let mut ops = ops.to_vec();
        if self.1 == Fault::TheFirstWins {
            ops.reverse();
        }
        let done = match self.1 {
            Fault::AppliesByHalves if ops.len() > 1 => {
                let mut key: Vec<u64> = ops.iter().map(|op| *op.key()).collect();
                key.sort_unstable();
                // No key is in both halves, so that the report is right.
                let (low, high): (Vec<_>, Vec<_>) = ops.iter().partition(|op| *op.key() < key[key.len() / 2]);
                let first = self.0.apply(&low)?;
                self.0.apply(&high).map(|second| second.plus(&first))
            }
            _ => self.0.apply(&ops),
        };
        match done {
            Ok(report) if self.1 == Fault::Miscounts => {
                Ok(UpdateReport { replaced: report.replaced + report.unmatched, unmatched: 0, ..report })
            }
            Err(_) if self.1 == Fault::HidesFailures => Ok(UpdateReport::default()),
            done => done,
        }
    }
    fn insert_many(&mut self, keys: &[u64], values: &[u64]) -> Result<UpdateReport> {
        self.check_lengths(keys, values)?;
        self.apply(&keys.iter().zip(values).map(|(&key, &value)| Op::Insert(key, value)).collect::<Vec<_>>())
    }
    fn update_many(&mut self, keys: &[u64], values: &[u64]) -> Result<UpdateReport> {
        self.check_lengths(keys, values)?;
        self.apply(&keys.iter().zip(values).map(|(&key, &value)| Op::Update(key, value)).collect::<Vec<_>>())
    }
    fn remove_many(&mut self, keys: &[u64]) -> Result<UpdateReport> {
        self.apply(&keys.iter().map(|&key| Op::Remove(key)).collect::<Vec<_>>())
    }
    fn device_form(&self) -> Option<&dyn DeviceForm<u64, u64>> {
        None
    }
}

impl FaultyIndex {
    fn check_lengths(&self, keys: &[u64], values: &[u64]) -> Result<()> {
        if keys.len() == values.len() || self.1 == Fault::TakesAnyLength {
            return Ok(());
        }
        Err(Error::LengthMismatch { keys: keys.len(), values: values.len() })
    }
}

/// What the battery says of an index with a fault.
fn said(fault: Fault) -> Option<String> {
    conformance(&ordered::<Plain, _>("faulty", [Faulty(Harmonia::builder(), fault)])).err()
}

#[test]
fn an_index_without_faults_passes() {
    assert_eq!(said(Fault::None), None);
}

macro_rules! found {
    ($($name:ident: $fault:ident, $words:expr;)*) => {$(
        #[test]
        fn $name() {
            let said = said(Fault::$fault).expect("the fault is found");
            assert!(said.contains($words), "{said}");
        }
    )*};
}
found! {
    a_lost_index_that_answers_is_found: AnswersWhenLost, "get of no keys answers";
    a_range_without_its_last_pair_is_found: DropsTheLastPair, "Range(";
    a_batch_whose_first_operation_wins_is_found: TheFirstWins, "equal keys in a batch";
    bounds_that_are_not_excluded_are_found: IncludesEveryBound, "Range(";
    reversed_ranges_that_are_taken_are_found: TakesReversedRanges, "range_many of a reversed range";
    lengths_that_differ_and_are_taken_are_found: TakesAnyLength, "insert_many";
    a_batch_of_which_half_is_made_is_found: AppliesByHalves, "a failing device";
    a_failure_that_is_hidden_is_found: HidesFailures, "the call says nothing";
    counts_that_are_wrong_are_found: Miscounts, "instead of Counts";
    a_largest_key_that_is_not_found_is_found: LosesTheLargestKey, "the smallest and the largest key";
    a_build_from_the_first_of_equal_keys_is_found: BuildsFromTheFirst, "equal keys in the build";
}

/// Random sequences alone find a fault too, and say it in few steps.
#[test]
fn random_sequences_find_a_fault() {
    let family = ordered::<Plain, _>("faulty", [Faulty(Harmonia::builder(), Fault::TheFirstWins)]);
    let message = catch_unwind(|| bounded(300, |case| check(&family, case))).unwrap_err();
    let message = message.downcast_ref::<String>().expect("a message");
    let (_, shortened) = message.split_once("Case {").expect("a shortened case");
    assert_eq!(shortened.matches("Change(").count(), 1, "{message}");
}
