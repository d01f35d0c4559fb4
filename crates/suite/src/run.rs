//! A case, step by step.

use crate::{
    Answer, Case, Change, Failing, Family, Form, Keys, Model, Numbered, Place, Question, Side, Step, Subject, Upkeep,
};
use core::fmt::{self, Debug, Write as _};
use core::ops::Bound;
use lanetree::runtime::Failure;
use lanetree::{Device, DeviceKind, Error, Op};

/// Runs a case on an index and on its model.
///
/// # Errors
/// What differs, and in which step.
pub fn check<F: Family>(family: &F, case: &Case) -> Result<Tally, String> {
    check_on(family, case, &device(case.place))
}

/// [`check`] on another device than the case's, a GPU perhaps. Failures of the device that the case asks for come to pass
/// on the emulator only.
///
/// # Errors
/// As [`check`].
pub fn check_on<F: Family>(family: &F, case: &Case, device: &Device) -> Result<Tally, String> {
    let mut run = Run::build(family, device, case.options, &case.keys)?;
    for (number, step) in case.steps.iter().enumerate() {
        run.step(step).map_err(|error| format!("step {number}, {step:?}: {error}"))?;
        if run.tally.lost > 0 {
            return Ok(run.tally);
        }
    }
    run.upkeep(Upkeep::Iterate).map_err(|error| format!("in the end: {error}"))?;
    Ok(run.tally)
}

/// The value of a number.
pub(crate) fn value<S: Subject>(number: u64) -> u64 {
    if S::HAS_VALUES { number } else { 0 }
}

/// The device of a place.
pub(crate) fn device(place: Place) -> Device {
    match place {
        Place::Host => Device::host(),
        Place::Emulated(seed) => Device::emulated_with_seed(seed.into()),
    }
}

/// The pairs that an index is built from: keys by their numbers, and values that count up.
pub(crate) fn pairs<S: Subject>(keys: &Keys) -> Vec<(S::Key, u64)> {
    keys.numbers().into_iter().map(S::Key::key).zip((0..).map(value::<S>)).collect()
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

/// An index and its model.
pub(crate) struct Run<S: Subject> {
    /// Taken only while it goes elsewhere.
    index: Option<S>,
    model: Model<S::Key>,
    pub(crate) tally: Tally,
    /// The next value: no two changes write the same.
    stamp: u64,
}

impl<S: Subject> Run<S> {
    /// Builds both, and compares them.
    ///
    /// # Errors
    /// The build's, and what differs.
    pub(crate) fn build<F: Family<Subject = S>>(
        family: &F,
        device: &Device,
        options: u8,
        keys: &Keys,
    ) -> Result<Self, String> {
        let pairs = pairs::<S>(keys);
        let index = family.build(device, options, &pairs).map_err(|error| format!("the build: {error}"))?;
        Self::of(index, pairs).map_err(|error| format!("after the build: {error}"))
    }

    /// Of an index that was built from these pairs.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn of(index: S, pairs: Vec<(S::Key, u64)>) -> Result<Self, String> {
        let (index, model) = (Some(index), Model::of(pairs));
        let mut run = Self { index, model, stamp: 1000, tally: Tally::default() };
        run.upkeep(Upkeep::Iterate)?;
        Ok(run)
    }

    /// What the index should have.
    pub(crate) fn model(&self) -> &Model<S::Key> {
        &self.model
    }

    pub(crate) fn index(&mut self) -> &mut S {
        self.index.as_mut().expect("it has arrived")
    }

    pub(crate) fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Change(change, keys, form) => self.change(*change, keys, *form, None).map(drop),
            Step::FailingChange(failing, change, keys, form) => {
                self.change(*change, keys, *form, Some(failure(*failing))).map(drop)
            }
            Step::Ask(ask, form) => self.question(&Question::of(ask, value::<S>), *form),
            Step::Upkeep(upkeep) => self.upkeep(*upkeep),
        }
    }

    /// Makes a change, during which the device may be made to fail; whether it has failed.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn change(
        &mut self,
        change: Change,
        keys: &Keys,
        form: Form,
        failure: Option<Failure>,
    ) -> Result<bool, String> {
        self.change_keys(change, keys.numbers().into_iter().map(S::Key::key).collect(), form, failure)
    }

    /// [`Run::change`] of keys that have no numbers.
    pub(crate) fn change_keys(
        &mut self,
        change: Change,
        keys: Vec<S::Key>,
        form: Form,
        failure: Option<Failure>,
    ) -> Result<bool, String> {
        let ops = self.ops(change, keys);
        let mut after = self.model.clone();
        let expected = after.apply(&ops);
        let needs_device = self.index().needs_device();
        let (done, has_failed) = self.failing(failure, |index| index.apply(change, &ops, form));
        match done {
            Ok(_) if has_failed && needs_device => Err("the device has failed, and the call says nothing".into()),
            Ok(counts) => {
                self.model = after;
                self.tally.changed += 1;
                if !counts.agree(&expected) {
                    return Err(format!("{counts:?} instead of {expected:?}"));
                }
                self.upkeep(Upkeep::Iterate)?;
                self.finds_all(form)
            }
            // Memory is reserved before the first write.
            Err(error) if has_failed && is_lost(&error) && matches!(failure, Some(Failure::Allocation(_))) => {
                Err(format!("lost for a lack of memory: {error}"))
            }
            Err(error) if has_failed => self.after_failure(&error, after),
            Err(error) if self.index().may_refuse(&error) => {
                self.tally.refused += 1;
                self.upkeep(Upkeep::Iterate)
            }
            Err(error) => Err(error.to_string()),
        }?;
        Ok(has_failed)
    }

    /// Calls the index, with a failure of its device to come if there is one; and whether it has come. The device works
    /// again afterwards.
    pub(crate) fn failing<R>(&mut self, failure: Option<Failure>, call: impl FnOnce(&mut S) -> R) -> (R, bool) {
        let device = self.index().device().clone();
        // The host has no kernels that could fail.
        let failure = failure.filter(|_| device.kind() == DeviceKind::Emulated);
        if failure.is_some() {
            device.inject(failure);
        }
        let done = call(self.index());
        (done, failure.is_some() && device.inject(None).is_none())
    }

    /// The index has the batch, or does not, or says that it is lost.
    fn after_failure(&mut self, error: &Error, after: Model<S::Key>) -> Result<(), String> {
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
                self.is_whole(error)
            }
            Err(other) => Err(format!("after \"{error}\", it cannot be repaired: {other}")),
        }
    }

    /// Whether the index is as the model after this error.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn is_whole(&mut self, error: &Error) -> Result<(), String> {
        if self.index().is_lost() == Some(true) {
            return Err(format!("it is lost, but the call says: {error}"));
        }
        self.upkeep(Upkeep::Iterate).map_err(|differs| format!("after \"{error}\": {differs}"))?;
        self.finds_all(Form::Host).map_err(|differs| format!("after \"{error}\": {differs}"))
    }

    /// Whether the index is not lost, and as the model.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn is_untouched(&mut self, form: Form) -> Result<(), String> {
        if self.index().is_lost() == Some(true) {
            return Err("it is lost".into());
        }
        self.upkeep(Upkeep::Iterate)?;
        self.finds_all(form)
    }

    /// Whether each key that the index has is found: from the root downwards, where a pass over all pairs may follow the
    /// leaves. Ranks say, too, that the descent ends in the right leaf; and the index checks its nodes, if it can.
    ///
    /// # Errors
    /// What differs.
    fn finds_all(&mut self, form: Form) -> Result<(), String> {
        let (keys, values): (Vec<_>, Vec<_>) = self.model.pairs().iter().cloned().unzip();
        let ranks = (0..keys.len() as u64).collect();
        let index = self.index();
        index.check_structure();
        let expected = [Answer::Values(values.into_iter().map(Some).collect()), Answer::Numbers(ranks)];
        for (question, expected) in
            [Question::Get(keys.clone()), Question::Rank(keys, Side::Lower)].iter().zip(expected)
        {
            let found = index.ask(question, form).expect("every index has them");
            same(index, found, expected).map_err(|error| format!("{} of all keys: {error}", question.name()))?;
        }
        Ok(())
    }

    /// Whether every call says that the index is lost, and nothing but that.
    ///
    /// # Errors
    /// The call that says something else.
    pub(crate) fn says_that_it_is_lost(&mut self, first: &Error) -> Result<(), String> {
        let keys = [S::Key::key(0), S::Key::key(5)];
        let everything = (Bound::Unbounded, Bound::Unbounded, None);
        let between = (Bound::Included(keys[0].clone()), Bound::Included(keys[1].clone()), None);
        let of_none = Question::every(&[], &[], value::<S>);
        let of_two = Question::every(&keys, &[everything, between], value::<S>);
        let index = self.index();
        if index.is_lost() == Some(false) {
            return Err(format!("after \"{first}\", it says not to be lost"));
        }
        let mut said = vec![("all pairs".to_owned(), index.pairs().err())];
        said.push(("restore_order".to_owned(), index.restore_order().err()));
        said.push(("compact".to_owned(), index.compact().err()));
        let op = |kind: u16| match kind {
            0 => Op::Insert(keys[0].clone(), 0),
            1 => Op::Update(keys[0].clone(), 0),
            _ => Op::Remove(keys[0].clone()),
        };
        for form in [Form::Host, Form::Device] {
            for (questions, keys) in [(&of_none, "no keys"), (&of_two, "two keys")] {
                let ask = |question| Some((question, index.ask(question, form)?.err()));
                let answers = questions.iter().filter_map(ask);
                said.extend(answers.map(|(question, error)| (format!("{} of {keys}", question.name()), error)));
            }
            said.push(("a change of none".to_owned(), index.apply(Change::Insert, &[], form).err()));
            for (kind, change) in (0..).zip([Change::Insert, Change::Update, Change::Remove, Change::Mixed(0)]) {
                said.push(("a change".to_owned(), index.apply(change, &[op(kind % 3)], form).err()));
            }
        }
        for (call, error) in said {
            match error {
                Some(error) if is_lost(&error) => {}
                Some(error) => return Err(format!("after \"{first}\", {call} says: {error}")),
                None => return Err(format!("after \"{first}\", {call} answers")),
            }
        }
        Ok(())
    }

    fn ops(&mut self, change: Change, keys: impl IntoIterator<Item = S::Key>) -> Vec<Op<S::Key, u64>> {
        let mut ops = Vec::new();
        for (i, key) in keys.into_iter().enumerate() {
            let value = value::<S>(self.stamp);
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

    /// Asks the index and the model; an index that has no such call is not asked.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn question(&mut self, question: &Question<S::Key>, form: Form) -> Result<(), String> {
        let Some(found) = self.index().ask(question, form) else { return Ok(()) };
        let answered = match self.model.answer(question) {
            Some(expected) => same(self.index(), found, expected)?,
            None => match found {
                Err(Error::OptionValue { .. }) => true,
                found => return Err(format!("{} instead of a refusal", shown(&found))),
            },
        };
        self.count(answered);
        Ok(())
    }

    fn count(&mut self, answered: bool) {
        *(if answered { &mut self.tally.answered } else { &mut self.tally.refused }) += 1;
    }

    pub(crate) fn upkeep(&mut self, upkeep: Upkeep) -> Result<(), String> {
        match upkeep {
            Upkeep::Iterate => {
                let len = self.index().size();
                // Never refused.
                let found = self.index().pairs().map_err(|error| error.to_string())?;
                let expected = self.model.pairs();
                if len != expected.len() as u64 {
                    return Err(format!("it says to have {len} pairs instead of {}", expected.len()));
                }
                if found != expected {
                    let at = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
                    let (found, expected) = (found.get(at), expected.get(at));
                    return Err(format!("pair {at} is {found:?} instead of {expected:?}"));
                }
                self.count(true);
                Ok(())
            }
            Upkeep::RestoreOrder => {
                self.index().restore_order().map_err(|error| error.to_string())?;
                self.upkeep(Upkeep::Iterate)
            }
            Upkeep::Compact => {
                self.index().compact().map_err(|error| error.to_string())?;
                self.upkeep(Upkeep::Iterate)?;
                self.finds_all(Form::Host)
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
fn same<S: Subject, T: PartialEq + Debug>(index: &S, found: lanetree::Result<T>, expected: T) -> Result<bool, String> {
    match found {
        Ok(found) if found == expected => Ok(true),
        Ok(found) => Err(format!("{} instead of {}", shown(&found), shown(&expected))),
        Err(error) if index.may_refuse(&error) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

/// The beginning of what may be long.
fn shown(value: &impl Debug) -> String {
    /// Takes no more once it is full, so that the rest is not even written.
    struct Beginning(String);
    impl fmt::Write for Beginning {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.push_str(text);
            if self.0.len() < 10_000 { Ok(()) } else { Err(fmt::Error) }
        }
    }
    let mut beginning = Beginning(String::new());
    if write!(beginning, "{value:?}").is_err() {
        beginning.0.push_str(" and so on");
    }
    beginning.0
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

/// Whether an error says that the index is lost.
pub(crate) fn is_lost(error: &Error) -> bool {
    matches!(error, Error::Lost { .. })
}
