//! A case, step by step.

use crate::index::{Index, is_lost};
use crate::model::{Model, Range};
use crate::{Ask, Bounds, Case, Change, Failing, Form, Keys, Place, Side, Span, Step, Upkeep};
use core::fmt::Debug;
use core::ops::Bound;
use lanetree::harmonia::Op;
use lanetree::runtime::Failure;
use lanetree::{Device, DeviceKind, Error};

/// Runs a case on an index and on its model.
///
/// # Errors
/// What differs, and in which step.
pub fn check<I: Index>(case: &Case) -> Result<Tally, String> {
    let device = match case.place {
        Place::Host => Device::host(),
        Place::Emulated(seed) => Device::emulated_with_seed(seed.into()),
    };
    let pairs: Vec<(I::Key, u64)> = case.keys.numbers().into_iter().map(I::key).zip(0..).collect();
    let index = I::build(&device, case.options, &pairs).map_err(|error| format!("the build: {error}"))?;
    let (index, model) = (Some(index), Model(pairs.into_iter().collect()));
    let mut run = Run { index, model, stamp: 1000, tally: Tally::default() };
    run.upkeep(Upkeep::Iterate).map_err(|error| format!("after the build: {error}"))?;
    for (number, step) in case.steps.iter().enumerate() {
        run.step(step).map_err(|error| format!("step {number}, {step:?}: {error}"))?;
        if run.tally.lost > 0 {
            return Ok(run.tally);
        }
    }
    run.upkeep(Upkeep::Iterate).map_err(|error| format!("in the end: {error}"))?;
    Ok(run.tally)
}

/// What has become of steps: a run of many cases in which nothing happens says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Batches of changes that were made.
    pub changed: u64,
    /// Batches of queries, and passes over all pairs, that were answered.
    pub answered: u64,
    /// Calls that were refused, as the documentation says.
    pub refused: u64,
    /// Batches of changes in which the device has failed.
    pub failed: u64,
    /// Indexes that were lost by that.
    pub lost: u64,
}

impl Tally {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            changed: self.changed + other.changed,
            answered: self.answered + other.answered,
            refused: self.refused + other.refused,
            failed: self.failed + other.failed,
            lost: self.lost + other.lost,
        }
    }
}

struct Run<I: Index> {
    /// Taken only while it goes elsewhere.
    index: Option<I>,
    model: Model<I::Key>,
    tally: Tally,
    /// The next value: no two changes write the same.
    stamp: u64,
}

impl<I: Index> Run<I> {
    fn index(&mut self) -> &mut I {
        self.index.as_mut().expect("it has arrived")
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Change(change, keys, form) => self.change(*change, keys, *form, None),
            Step::FailingChange(failing, change, keys, form) => self.change(*change, keys, *form, Some(*failing)),
            Step::Ask(ask, form) => self.ask(ask, *form),
            Step::Upkeep(upkeep) => self.upkeep(*upkeep),
        }
    }

    fn change(&mut self, change: Change, keys: &Keys, form: Form, failing: Option<Failing>) -> Result<(), String> {
        let ops = self.ops(change, keys);
        let mut after = self.model.clone();
        let expected = after.apply(&ops);
        let device = self.index().device().clone();
        // The host has no kernels that could fail.
        let failing = failing.filter(|_| device.kind() == DeviceKind::Emulated);
        if let Some(failing) = failing {
            device.inject(Some(failure(failing)));
        }
        let done = self.index().apply(change, &ops, form);
        let has_failed = failing.is_some() && device.inject(None).is_none();
        match done {
            Ok(_) if has_failed => Err("the device has failed, and the call says nothing".into()),
            Ok(counts) => {
                self.model = after;
                self.tally.changed += 1;
                let agree = counts.agree(&expected);
                if agree { self.upkeep(Upkeep::Iterate) } else { Err(format!("{counts:?} instead of {expected:?}")) }
            }
            Err(error) if has_failed => self.after_failure(&error, after),
            Err(error) if self.index().may_refuse(&error) => {
                self.tally.refused += 1;
                self.upkeep(Upkeep::Iterate)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The index has the batch, or does not, or says that it is lost.
    fn after_failure(&mut self, error: &Error, after: Model<I::Key>) -> Result<(), String> {
        self.tally.failed += 1;
        if is_lost(error) {
            self.tally.lost += 1;
            return self.says_that_it_is_lost(error);
        }
        match self.index().settle() {
            Ok(changed) => {
                if changed {
                    self.model = after;
                }
                self.upkeep(Upkeep::Iterate).map_err(|differs| format!("after \"{error}\": {differs}"))
            }
            Err(other) => Err(format!("after \"{error}\", it cannot be set right: {other}")),
        }
    }

    fn says_that_it_is_lost(&mut self, first: &Error) -> Result<(), String> {
        let keys = [I::key(0), I::key(5)];
        let remove = [Op::Remove(I::key(0))];
        let index = self.index();
        let said = [
            ("get", index.get(&keys, Form::Host).err()),
            ("get in device form", index.get(&keys, Form::Device).err()),
            ("all pairs", index.pairs().err()),
            ("change", index.apply(Change::Remove, &remove, Form::Host).err()),
            ("change in device form", index.apply(Change::Remove, &remove, Form::Device).err()),
        ];
        for (call, error) in said {
            match error {
                Some(error) if is_lost(&error) => {}
                Some(error) => return Err(format!("after \"{first}\", {call} says: {error}")),
                None => return Err(format!("after \"{first}\", {call} answers")),
            }
        }
        Ok(())
    }

    fn ops(&mut self, change: Change, keys: &Keys) -> Vec<Op<I::Key, u64>> {
        let mut ops = Vec::new();
        for (i, number) in keys.numbers().into_iter().enumerate() {
            let (key, value) = (I::key(number), self.stamp);
            self.stamp += 1;
            let kind = match change {
                Change::Insert => 0,
                Change::Update => 1,
                Change::Remove => 2,
                Change::Mixed(kinds) => kinds >> (2 * (i % 8)) & 3,
            };
            ops.push(match kind {
                1 => Op::Update(key, value),
                2 => Op::Remove(key),
                _ => Op::Insert(key, value),
            });
        }
        ops
    }

    fn ask(&mut self, ask: &Ask, form: Form) -> Result<(), String> {
        let answered = self.answer(ask, form)?;
        self.count(answered);
        Ok(())
    }

    fn count(&mut self, answered: bool) {
        *(if answered { &mut self.tally.answered } else { &mut self.tally.refused }) += 1;
    }

    /// Whether the index has answered.
    fn answer(&mut self, ask: &Ask, form: Form) -> Result<bool, String> {
        let of = |keys: &Keys| keys.numbers().into_iter().map(I::key).collect::<Vec<_>>();
        let model = self.model.clone();
        let index = self.index();
        match ask {
            Ask::Get(keys) => {
                let keys = of(keys);
                same(index, index.get(&keys, form), keys.iter().map(|key| model.0.get(key).copied()).collect())
            }
            Ask::Rank(keys, side) => {
                let (keys, upper) = (of(keys), *side == Side::Upper);
                let expected = keys.iter().map(|key| model.rank(key, upper)).collect();
                same(index, index.rank(&keys, *side, form), expected)
            }
            Ask::Neighbor(keys, side) => {
                let (keys, upper) = (of(keys), *side == Side::Upper);
                let expected = keys.iter().map(|key| model.neighbor(key, upper)).collect();
                same(index, index.neighbor(&keys, *side, form), expected)
            }
            Ask::Range(spans, starts, ends) => {
                let ranges = ranges(spans, of(starts), of(ends));
                let expected = ranges.iter().map(|range| model.range(range)).collect();
                same(index, index.range(&ranges, form), expected)
            }
            Ask::Count(spans, starts, ends) => {
                let ranges = ranges(spans, of(starts), of(ends));
                let expected = ranges.iter().map(|range| model.range(range).len() as u64).collect();
                same(index, index.count(&ranges, form), expected)
            }
            Ask::Prefix(keys, len) => {
                let prefixes: Vec<_> = of(keys).into_iter().map(|key| I::cut(key, usize::from(len % 48))).collect();
                let Some(found) = index.prefix(&prefixes) else { return Ok(true) };
                let under = |prefix| model.pairs().into_iter().filter(|pair| I::begins_with(&pair.0, prefix)).collect();
                same(index, found, prefixes.iter().map(under).collect::<Vec<Vec<_>>>())
            }
        }
    }

    fn upkeep(&mut self, upkeep: Upkeep) -> Result<(), String> {
        match upkeep {
            Upkeep::Iterate => {
                let expected = self.model.pairs();
                let len = self.index().size();
                if len != expected.len() as u64 {
                    return Err(format!("it says to have {len} pairs instead of {}", expected.len()));
                }
                let found = self.index().pairs();
                let answered = same(self.index(), found, expected)?;
                self.count(answered);
                Ok(())
            }
            Upkeep::Compact => {
                self.index().compact().map_err(|error| error.to_string())?;
                self.upkeep(Upkeep::Iterate)
            }
            Upkeep::Move => {
                let index = self.index.take().expect("it has arrived");
                self.index = Some(index.relocate().map_err(|error| error.to_string())?);
                self.upkeep(Upkeep::Iterate)
            }
        }
    }
}

/// Whether the index has answered; not where it may refuse to.
fn same<I: Index, T: PartialEq + Debug>(index: &I, found: lanetree::Result<T>, expected: T) -> Result<bool, String> {
    match found {
        Ok(found) if found == expected => Ok(true),
        Ok(found) => Err(format!("{found:?} instead of {expected:?}")),
        Err(error) if index.may_refuse(&error) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

/// The ranges between the keys of two batches, the lower one of two first.
fn ranges<K: Ord>(spans: &[Span], starts: Vec<K>, ends: Vec<K>) -> Vec<Range<K>> {
    let bound = |bounds, key| match bounds {
        Bounds::Included => Bound::Included(key),
        Bounds::Excluded => Bound::Excluded(key),
        Bounds::Unbounded => Bound::Unbounded,
    };
    let inclusive = [Span { start: Bounds::Included, end: Bounds::Included, limit: u8::MAX }];
    let spans = if spans.is_empty() { &inclusive[..] } else { spans };
    let keys = starts.into_iter().zip(ends).map(|(a, b)| if b < a { (b, a) } else { (a, b) });
    let range = |(&Span { start, end, limit }, (low, high))| {
        (bound(start, low), bound(end, high), (limit < 200).then_some(limit.into()))
    };
    spans.iter().cycle().zip(keys).map(range).collect()
}

fn failure(failing: Failing) -> Failure {
    // Batches of this size take fewer than 64 calls of a kind, most of them fewer than 16, and some very few.
    let at = |number: u8| match number {
        0..100 => u64::from(number % 5),
        100..200 => u64::from(number % 16),
        _ => u64::from(number % 64),
    };
    match failing {
        Failing::Launch(number) => Failure::Launch(at(number)),
        Failing::Kernel(number) => Failure::Kernel(at(number)),
        Failing::Transfer(number) => Failure::Transfer(at(number)),
        Failing::Allocation(number) => Failure::Allocation(at(number)),
    }
}
