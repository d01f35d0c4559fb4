//! A failure of the device at every point of a call: first at its first launch, then at its second, until none comes any
//! more; and so with kernels, transfers and allocations.

use crate::run::{Run, is_lost, pairs, value};
use crate::{Change, Family, Form, KeyRun, Keys, Numbered, Question, Subject, Tally};
use core::ops::Bound;
use lanetree::runtime::Failure;
use lanetree::{Device, Error, Pool};

/// More failures of a kind than any call here has points for.
const MOST: u64 = 2000;

/// Devices that fail: one of a pool, which says what memory has not come back, and one of none. A pool that finds no room
/// frees what it has cached and tries again, which succeeds.
struct Devices {
    alone: Device,
    pool: Pool,
}

impl Devices {
    fn new(seed: u64) -> Self {
        let alone = Device::emulated_with_seed(seed);
        Self { pool: Pool::new(&alone), alone }
    }

    fn of(&self, failure: Failure) -> Device {
        if matches!(failure, Failure::Allocation(_)) { self.alone.clone() } else { self.pool.device() }
    }

    /// Whether all memory has come back.
    fn are_empty(&self) -> Result<(), String> {
        let stats = self.pool.stats();
        match (stats.in_use, stats.pinned_in_use) {
            (0, 0) => Ok(()),
            bytes => Err(format!("{bytes:?} bytes, the latter of main memory, are still allocated")),
        }
    }
}

/// Runs a call with a failure at each of its points; the call says whether the failure has come.
fn at_every_point(what: &str, mut call: impl FnMut(&Device, Failure) -> Result<bool, String>) -> Result<(), String> {
    for kind in Failure::KINDS {
        for at in Failure::points(kind) {
            if at >= MOST {
                return Err(format!("{what}: no end of failures at {:?}", kind(at)));
            }
            let devices = Devices::new(at);
            let has_failed = call(&devices.of(kind(at)), kind(at));
            let has_failed = has_failed.and_then(|has_failed| devices.are_empty().map(|()| has_failed));
            if !has_failed.map_err(|error| format!("{what}, {:?}: {error}", kind(at)))? {
                break;
            }
        }
    }
    Ok(())
}

/// Fails at every point of a build, of changes in a form, of queries, of [`Subject::restore_order`] and of [`Subject::compact`]: each operation
/// took place or did not, or the index says that it is lost, in every call.
///
/// # Errors
/// The point, and what differs.
pub fn failures<F: Family>(family: &F, options: u8, form: Form) -> Result<Tally, String> {
    // Strings of one or two bytes, and some of more than 40.
    let long = |step, count| KeyRun { first: 7 << 8 | 40, step, count };
    let built = Keys(vec![KeyRun { first: 10, step: 2, count: 40 }, long(2, 6)]);
    // In no order, and of like keys, so that a sort by a few bits is not enough.
    let changed =
        Keys(vec![KeyRun { first: 300, step: 1, count: 16 }, KeyRun { first: 0, step: 4, count: 24 }, long(1, 8)]);
    // Large keys whose last bits are smaller than the last bits of the small keys that follow.
    let next =
        Keys(vec![KeyRun { first: 11 << 12 | 300, step: 1, count: 8 }, KeyRun { first: 301, step: 2, count: 16 }]);
    let mut tally = Tally::default();
    let build = |device: &Device| Run::build(family, device, options, &built);
    // The first three builders have different calls, where there are several.
    for options in options..family.ways().min(3).max(options + 1) {
        at_every_point("the build", |device, failure| a_build(family, device, options, &built, failure))?;
    }
    // In device form an index may have calls of its own for each kind of change, and ways of its own for inserts alone.
    let mixed = if form == Form::Host { Change::Mixed(0b10_00_01_10) } else { Change::Mixed(0) };
    for change in [Change::Insert, mixed, Change::Update, Change::Remove] {
        at_every_point(&format!("{change:?} in {form:?} form"), |device, failure| {
            let mut run = build(device)?;
            let has_failed = run.change(change, &changed, form, Some(failure))?;
            tally = tally.plus(run.tally);
            // The device works again, and so does the index; with a batch that has nothing in common with the one that failed.
            if run.tally.lost == 0 {
                run.change(Change::Insert, &next, form, None)?;
            }
            Ok(has_failed)
        })?;
    }
    queries(build, form)?;
    // It has one form.
    if form == Form::Device {
        return Ok(tally);
    }
    type Upkeep<S> = fn(&mut S) -> lanetree::Result<()>;
    let upkeep: [(&str, Upkeep<F::Subject>); 2] =
        [("restore_order", Subject::restore_order), ("compact", Subject::compact)];
    for (what, call) in upkeep {
        at_every_point(what, |device, failure| {
            let mut run = build(device)?;
            run.change(Change::Insert, &changed, Form::Host, None)?;
            let (done, has_failed) = run.failing(Some(failure), call);
            after(&mut run, done, has_failed)?;
            Ok(has_failed)
        })?;
    }
    Ok(tally)
}

/// A build either says that it has failed, or is whole.
fn a_build<F: Family>(family: &F, device: &Device, options: u8, keys: &Keys, failure: Failure) -> Result<bool, String> {
    let pairs = pairs::<F::Subject>(keys);
    device.inject(Some(failure));
    let built = family.build(device, options, &pairs);
    let has_failed = device.inject(None).is_none();
    match built {
        Ok(_) if has_failed => Err("the device has failed, and the build says nothing".into()),
        Err(error) if !has_failed => Err(error.to_string()),
        Err(_) => Ok(true),
        Ok(index) => Run::of(index, pairs).map(|_| false),
    }
}

/// A call that changes no pairs either says that it has failed, or is done; the index has its pairs all the same.
fn after<S: Subject>(run: &mut Run<S>, done: lanetree::Result<()>, has_failed: bool) -> Result<(), String> {
    match done {
        Ok(()) if has_failed => Err("the device has failed, and the call says nothing".into()),
        Ok(()) => run.upkeep(crate::Upkeep::Iterate),
        Err(error) if has_failed && is_lost(&error) => run.says_that_it_is_lost(&error),
        Err(error) if has_failed => {
            run.index().settle().map_err(|other| format!("after \"{error}\", it cannot be repaired: {other}"))?;
            run.is_whole(&error)
        }
        Err(error) if run.index().may_refuse(&error) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// A query changes nothing, whatever fails in it.
fn queries<S: Subject>(build: impl Fn(&Device) -> Result<Run<S>, String>, form: Form) -> Result<(), String> {
    let (keys, devices): (Vec<S::Key>, _) = ((0..33).chain(1830..1836).map(S::Key::key).collect(), Devices::new(3));
    let (mut alone, mut of_pool) = (build(&devices.alone)?, build(&devices.pool.device())?);
    for question in Question::every(&keys, &between(&keys), value::<S>) {
        if alone.index().ask(&question, form).is_none() {
            continue;
        }
        at_every_point(question.name(), |_, failure| {
            let run = if matches!(failure, Failure::Allocation(_)) { &mut alone } else { &mut of_pool };
            let ask = |index: &mut S| index.ask(&question, form).expect("it has the call");
            let (done, has_failed) = run.failing(Some(failure), ask);
            match done {
                Err(error @ Error::Lost { .. }) => Err(format!("a query says that the index is lost: {error}")),
                Err(error) if !has_failed && !run.index().may_refuse(&error) => Err(error.to_string()),
                Ok(_) if has_failed => Err("the device has failed, and the query says nothing".into()),
                Ok(found) if Some(&found) != run.model().answer(&question).as_ref() => {
                    Err("it answers something else after a failure".into())
                }
                _ => Ok(has_failed),
            }
        })?;
        for run in [&mut alone, &mut of_pool] {
            run.is_untouched(form).map_err(|differs| format!("after failures of {}: {differs}", question.name()))?;
        }
    }
    drop((alone, of_pool));
    devices.are_empty().map_err(|error| format!("after failures of queries: {error}"))
}

/// Ranges from each key to the next.
fn between<K: Ord + Clone>(keys: &[K]) -> Vec<crate::Range<K>> {
    let range = |pair: &[K]| {
        let (start, end) = (pair[0].clone().min(pair[1].clone()), pair[0].clone().max(pair[1].clone()));
        (Bound::Included(start), Bound::Included(end), None)
    };
    keys.windows(2).map(range).collect()
}
