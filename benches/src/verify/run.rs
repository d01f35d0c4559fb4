//! Works through the cases: small trees side by side, large ones one after another.

use super::cases::{self, Check, LARGE, Mode, Tree};
use super::compare::Sabotage;
use super::data::derived_seed;
use super::harmonia::Subject;
use super::primitives::{self, Operation};
use super::tally::{Ending, Failure, Group, Tally};
use super::{Index, cuart, cuart_build, grt, radix_sort, updates};
use indicatif::{ProgressBar, ProgressStyle};
use lanetree::{Device, DeviceKind, Error, Key, Word, runtime};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What all devices of a run have in common.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) seed: u64,
    pub(crate) max_len: usize,
    pub(crate) indexes: Vec<Index>,
    pub(crate) only: Option<String>,
    pub(crate) sabotage: Option<Sabotage>,
}

/// A device that is verified.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) device: Device,
}

impl Target {
    /// The device's name in tables.
    pub(crate) fn label(&self) -> String {
        match self.device.kind() {
            // Each tree has one of its own, with its own seed.
            DeviceKind::Emulated => "emulated".into(),
            DeviceKind::Cuda | DeviceKind::Host => self.device.to_string(),
        }
    }

    /// What names of cases begin with, and what `--device` calls it.
    fn prefix(&self) -> &'static str {
        match self.device.kind() {
            DeviceKind::Cuda => "cuda",
            DeviceKind::Host => "host",
            DeviceKind::Emulated => "emulated",
        }
    }

    /// The device for a case: on the emulator, the seed decides in which order threads run.
    fn for_case(&self, seed: u64) -> Device {
        match self.device.kind() {
            DeviceKind::Emulated => Device::emulated_with_seed(seed),
            DeviceKind::Cuda | DeviceKind::Host => self.device.clone(),
        }
    }
}

/// Runs all cases on a device.
pub(crate) fn run(settings: &Settings, target: &Target) -> Tally {
    let kind = target.device.kind();
    let trees = cases::trees(settings.mode, kind, settings.max_len);
    let (large, small): (Vec<Tree>, Vec<Tree>) = trees.into_iter().partition(|tree| tree.len >= LARGE);
    let progress = progress_bar(primitives::operations().len() + small.len() + large.len(), &target.label());
    let mut tally = Tally::default();
    for part in
        in_parallel(&primitives::operations(), |operation| run_primitive(settings, target, operation), &progress)
    {
        tally.merge(part);
    }
    tally.merge(updates(settings, target));
    tally.merge(cuart_builds(settings, target));
    tally.merge(cuarts(settings, target));
    tally.merge(radix_sorts(settings, target));
    tally.merge(grts(settings, target));
    for part in in_parallel(&small, |tree| run_tree(settings, target, tree), &progress) {
        tally.merge(part);
    }
    for tree in &large {
        tally.merge(run_tree(settings, target, tree));
        progress.inc(1);
    }
    progress.finish_and_clear();
    tally
}

/// A bar on stderr; none where that is not a terminal.
fn progress_bar(subjects: usize, label: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} subjects, {elapsed}");
    ProgressBar::new(subjects as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(label.to_owned())
}

/// Runs `work` on each subject, on as many threads as there are cores; the results in their order.
///
/// On threads of its own, not rayon's: a thread of rayon's that waits for a part of one tree may begin
/// another one meanwhile, and so on, as deep as there are trees.
fn in_parallel<T: Sync>(subjects: &[T], work: impl Fn(&T) -> Tally + Sync, progress: &ProgressBar) -> Vec<Tally> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(subjects.len().max(1));
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(subjects.len()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(subject) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    subjects.get(index).map(|subject| (index, subject))
                } {
                    let result = work(subject.1);
                    progress.inc(1);
                    results.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((subject.0, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_by_key(|result| result.0);
    results.into_iter().map(|result| result.1).collect()
}

/// A case on its way into a tally.
struct Case<'a> {
    settings: &'a Settings,
    target: &'a Target,
    name: String,
    seed: u64,
    subject: &'static str,
    keys: &'static str,
    operation: &'static str,
}

impl Case<'_> {
    fn count(self, tally: &mut Tally, ending: Ending) {
        let device = self.target.label();
        let group = Group { device: device.clone(), subject: self.subject, keys: self.keys, operation: self.operation };
        let Some(reason) = tally.count(group, ending) else { return };
        let Settings { seed, max_len, .. } = *self.settings;
        let mode = if self.settings.mode == Mode::Quick { "quick" } else { "full" };
        let cap = if max_len == usize::MAX { String::new() } else { format!(" --max-len {max_len}") };
        let sabotage =
            self.settings.sabotage.map_or(String::new(), |sabotage| format!(" --sabotage {}", sabotage.name()));
        let (prefix, name) = (self.target.prefix(), self.name);
        tally.failures.push(Failure {
            device,
            seed,
            case_seed: self.seed,
            operation: self.operation.into(),
            reason,
            reproduce: format!(
                "lanetree-bench verify --device {prefix} --{mode} --seed {seed}{cap}{sabotage} --only '{name}'"
            ),
            case: name,
        });
    }
}

/// Whether a case is, by its name: `device/index/…`.
fn is_wanted(settings: &Settings, name: &str) -> bool {
    let index = name.split('/').nth(1);
    settings.indexes.iter().any(|wanted| index == Some(wanted.name()))
        && settings.only.as_ref().is_none_or(|only| name.contains(only))
}

fn run_primitive(settings: &Settings, target: &Target, operation: &Operation) -> Tally {
    let mut tally = Tally::default();
    let kind = target.device.kind();
    let short_name: String = operation.name.replace([' ', ','], "_");
    for len in primitives::LENGTHS {
        let name = format!("{}/primitives/{short_name}/{}/n{len}", target.prefix(), operation.words);
        let too_much = (len > 1 << 20 && settings.mode == Mode::Quick)
            || (len > primitives::LONGEST_EMULATED && kind == DeviceKind::Emulated);
        if len > settings.max_len || too_much || !is_wanted(settings, &name) {
            continue;
        }
        let seed = derived_seed(settings.seed, &name);
        let ending = guarded(|| (operation.run)(&target.for_case(seed), len, seed, settings.sabotage));
        if kind != DeviceKind::Host {
            tally.kernels.extend(operation.kernels.iter().copied().map(String::from));
        }
        let case = Case {
            settings,
            target,
            name,
            seed,
            subject: "primitives",
            keys: operation.words,
            operation: operation.name,
        };
        case.count(&mut tally, ending.map_err(|e| e.reason));
    }
    tally
}

/// Trees that are built and updated on the device.
fn updates(settings: &Settings, target: &Target) -> Tally {
    let kind = target.device.kind();
    let specs = updates::specs(settings.mode, kind, settings.max_len);
    let progress = progress_bar(specs.len(), &target.label());
    let mut tally = Tally::default();
    for part in in_parallel(&specs, |spec| update(settings, target, spec), &progress) {
        tally.merge(part);
    }
    progress.finish_and_clear();
    tally
}

fn update(settings: &Settings, target: &Target, spec: &updates::Spec) -> Tally {
    let run = match (spec.key, spec.value) {
        ("u32", "u32") => updates::run::<u32, u32>,
        ("u32", _) => updates::run::<u32, u64>,
        ("i32", "u32") => updates::run::<i32, u32>,
        ("i32", _) => updates::run::<i32, u64>,
        ("u64", "u32") => updates::run::<u64, u32>,
        ("u64", _) => updates::run::<u64, u64>,
        (_, "u32") => updates::run::<i64, u32>,
        (_, _) => updates::run::<i64, u64>,
    };
    let mut tally = Tally::default();
    let name = format!("{}/harmonia/{}", target.prefix(), spec.name());
    if !is_wanted(settings, &name) {
        return tally;
    }
    let seed = derived_seed(settings.seed, &spec.name());
    let ending = guarded(|| run(spec, &target.for_case(seed), settings.seed, settings.sabotage));
    let ending = ending.map(|outcome| {
        if target.device.kind() != DeviceKind::Host {
            tally.kernels.extend(outcome.kernels);
        }
        outcome.answer
    });
    let (subject, keys, operation) = ("harmonia", spec.key, "build, apply");
    Case { settings, target, name, seed, subject, keys, operation }.count(&mut tally, ending.map_err(|e| e.reason));
    tally
}

/// CuART trees that are built on the device.
fn cuart_builds(settings: &Settings, target: &Target) -> Tally {
    let kind = target.device.kind();
    let specs = cuart_build::specs(settings.mode, kind, settings.max_len);
    let progress = progress_bar(specs.len(), &target.label());
    let mut tally = Tally::default();
    for part in in_parallel(&specs, |spec| cuart_build(settings, target, spec), &progress) {
        tally.merge(part);
    }
    progress.finish_and_clear();
    tally
}

fn cuart_build(settings: &Settings, target: &Target, spec: &cuart_build::Spec) -> Tally {
    let mut tally = Tally::default();
    let name = format!("{}/cuart/{}", target.prefix(), spec.name());
    if !is_wanted(settings, &name) {
        return tally;
    }
    let run = if spec.value == "u32" { cuart_build::run::<u32> } else { cuart_build::run::<u64> };
    let seed = derived_seed(settings.seed, &spec.name());
    let ending = guarded(|| run(spec, &target.for_case(seed), settings.seed, settings.sabotage)).map(|outcome| {
        tally.kernels.extend(outcome.kernels);
        outcome.answer
    });
    let (subject, keys, operation) = ("cuart", spec.keys(), "build on the device");
    Case { settings, target, name, seed, subject, keys, operation }.count(&mut tally, ending.map_err(|e| e.reason));
    tally
}

/// CuART trees, and what they go through on the device.
fn cuarts(settings: &Settings, target: &Target) -> Tally {
    let specs = cuart::specs(settings.mode, target.device.kind(), settings.max_len);
    let progress = progress_bar(specs.len(), &target.label());
    let mut tally = Tally::default();
    for part in in_parallel(&specs, |spec| cuart(settings, target, spec), &progress) {
        tally.merge(part);
    }
    progress.finish_and_clear();
    tally
}

fn cuart(settings: &Settings, target: &Target, spec: &cuart::Spec) -> Tally {
    let mut tally = Tally::default();
    let name = format!("{}/cuart/{}", target.prefix(), spec.name());
    if !is_wanted(settings, &name) {
        return tally;
    }
    let run = if spec.value == "u32" { cuart::run::<u32> } else { cuart::run::<u64> };
    let seed = derived_seed(settings.seed, &spec.name());
    let ending = guarded(|| run(spec, &target.for_case(seed), settings.seed, settings.sabotage)).map(|outcome| {
        tally.kernels.extend(outcome.kernels);
        outcome.answer
    });
    let (subject, keys, operation) = ("cuart", spec.keys(), spec.operation());
    Case { settings, target, name, seed, subject, keys, operation }.count(&mut tally, ending.map_err(|e| e.reason));
    tally
}

fn radix_sorts(settings: &Settings, target: &Target) -> Tally {
    let mut tally = Tally::default();
    let kind = target.device.kind();
    for sort in radix_sort::cases(settings.mode, kind, settings.max_len) {
        let name = format!("{}/primitives/{}", target.prefix(), sort.name());
        if !is_wanted(settings, &name) {
            continue;
        }
        let seed = derived_seed(settings.seed, &name);
        let ending = guarded(|| sort.run(&target.for_case(seed), seed, settings.sabotage));
        if kind != DeviceKind::Host {
            tally.kernels.extend(sort.kernels());
        }
        let (subject, keys, operation) = ("primitives", sort.keys, sort.operation());
        Case { settings, target, name, seed, subject, keys, operation }.count(&mut tally, ending.map_err(|e| e.reason));
    }
    tally
}

/// The baseline of CuART, where there are kernels.
fn grts(settings: &Settings, target: &Target) -> Tally {
    let mut tally = Tally::default();
    for case in grt::cases(settings.mode, target.device.kind(), settings.max_len) {
        let name = format!("{}/{}", target.prefix(), case.name());
        if !is_wanted(settings, &name) {
            continue;
        }
        let seed = derived_seed(settings.seed, &name);
        let ending = guarded(|| case.run(&target.for_case(seed), seed, settings.sabotage));
        tally.kernels.extend(case.kernels());
        let (subject, keys, operation) = ("grt", case.keys(), case.operation());
        Case { settings, target, name, seed, subject, keys, operation }.count(&mut tally, ending.map_err(|e| e.reason));
    }
    tally
}

fn run_tree(settings: &Settings, target: &Target, tree: &Tree) -> Tally {
    match (tree.key, tree.value) {
        ("u32", "u32") => run_tree_of::<u32, u32>(settings, target, tree),
        ("u32", _) => run_tree_of::<u32, u64>(settings, target, tree),
        ("i32", "u32") => run_tree_of::<i32, u32>(settings, target, tree),
        ("i32", _) => run_tree_of::<i32, u64>(settings, target, tree),
        ("u64", "u32") => run_tree_of::<u64, u32>(settings, target, tree),
        ("u64", _) => run_tree_of::<u64, u64>(settings, target, tree),
        (_, "u32") => run_tree_of::<i64, u32>(settings, target, tree),
        (_, _) => run_tree_of::<i64, u64>(settings, target, tree),
    }
}

fn run_tree_of<K: Key, V: Word>(settings: &Settings, target: &Target, tree: &Tree) -> Tally {
    let mut tally = Tally::default();
    let kind = target.device.kind();
    let tree_name = format!("{}/{}", target.prefix(), tree.name());
    let mut wanted: Vec<(Check, String)> =
        cases::checks(tree, kind).into_iter().map(|check| (check, format!("{tree_name}/{}", check.name()))).collect();
    wanted.retain(|(_, name)| is_wanted(settings, name));
    if wanted.is_empty() {
        return tally;
    }
    let seed = derived_seed(settings.seed, &tree.name());
    let case =
        |name: String, operation| Case { settings, target, name, seed, subject: "harmonia", keys: K::NAME, operation };
    let device = target.for_case(seed);
    let mut subject = match guarded(|| Subject::<K, V>::build(*tree, settings.seed, settings.sabotage, &device)) {
        Ok(subject) => subject,
        Err(error) if error.out_of_memory && tree.len >= LARGE => {
            tally.skipped.push(format!("{tree_name}: {}", error.reason));
            return tally;
        }
        Err(error) => {
            case(format!("{tree_name}/{}", wanted[0].0.name()), "build").count(&mut tally, Err(error.reason));
            return tally;
        }
    };
    for (check, name) in wanted {
        let ending = guarded(|| subject.run(check)).map_err(|error| error.reason);
        if kind != DeviceKind::Host {
            tally.kernels.extend(check.kernels(tree));
        }
        case(name, check.operation()).count(&mut tally, ending);
    }
    tally
}

/// Why a call gave no answer.
struct Broken {
    reason: String,
    out_of_memory: bool,
}

/// Calls the library. An error is a failure of the case, and so is a panic.
fn guarded<T>(call: impl FnOnce() -> lanetree::Result<T>) -> Result<T, Broken> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Broken {
            reason: format!("error: {error}"),
            out_of_memory: matches!(error, Error::Runtime(runtime::Error::OutOfMemory { .. })),
        }),
        Err(panic) => Err(Broken { reason: format!("panicked: {}", panic_message(&*panic)), out_of_memory: false }),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
