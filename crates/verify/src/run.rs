//! Works through the cases: small ones side by side, large ones one after another.

use super::answer::Answer;
use super::cases::{self, LARGE, Mode, Size};
use super::compare::Sabotage;
use super::data::derived_seed;
use super::index::Index;
use super::primitives::{self, Operation};
use super::tally::{Ending, Failure, Group, Tally};
use super::types::{with_types, with_value};
use super::{conformance, coverage, cuart, cuart_build, grt, intervals, joins, multimap, radix_sort, sharded};
use indicatif::{ProgressBar, ProgressStyle};
use lanetree::{Device, DeviceKind, Error, runtime};
use lanetree_console::choice;
use lanetree_runtime::take_recorded_kernels;
use lanetree_suite::indexes::{self, Listed};
use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What all devices of a run have in common.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) seed: u64,
    pub(crate) max_len: usize,
    pub(crate) indexes: Vec<Index>,
    pub(crate) only: Option<String>,
    pub(crate) sabotage: Option<Sabotage>,
    pub(crate) sample: Option<Sample>,
}

impl Settings {
    /// The kernels that should run. Where only a part of the cases is asked for, nothing is said of kernels.
    pub(crate) fn wanted_kernels(&self) -> BTreeSet<&'static str> {
        if self.only.is_some() || self.max_len != usize::MAX {
            return BTreeSet::new();
        }
        let mut wanted = coverage::compiled(&self.indexes);
        let part = self.sample.as_ref().and_then(|sample| sample.kernels.as_deref());
        wanted.retain(|symbol| part.is_none_or(|part| symbol.contains(part)));
        wanted
    }

    /// The argument that asks for these cases, without its dashes.
    pub(crate) fn mode_name(&self) -> String {
        match (&self.sample, self.mode) {
            (Some(sample), _) => format!("sample {}", sample.cases),
            (None, Mode::Quick) => "quick".into(),
            (None, Mode::Full) => "full".into(),
        }
    }
}

/// Which cases are in a sample. The seed of the run chooses among them.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// So many of each operation and type of keys.
    pub(crate) cases: usize,
    /// No more of an index are begun after this time.
    pub(crate) time: Option<Duration>,
    /// Only kernels whose symbols contain this are looked for.
    pub(crate) kernels: Option<String>,
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
        choice::name(self.device.kind())
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
    let all = jobs(settings, target, target.device.kind(), settings.max_len);
    let (large, small): (Vec<_>, Vec<_>) = all.into_iter().partition(|job| job.len >= LARGE);
    let progress = progress_bar(small.len() + large.len(), &target.label());
    let mut tally = Tally::default();
    for part in in_parallel(&small, |job| job.run(settings, target), &progress) {
        tally.merge(part);
    }
    for job in &large {
        tally.merge(job.run(settings, target));
        progress.inc(1);
    }
    progress.finish_and_clear();
    tally
}

/// Runs a case on a device.
type Work = Box<dyn Fn(&Device) -> lanetree::Result<Answer> + Sync>;

/// A case that makes its own data.
pub(crate) struct Job {
    index: Index,
    /// `index/…`.
    path: String,
    keys: &'static str,
    operation: &'static str,
    /// Decides emulated schedules, and for some cases the data.
    seed: u64,
    /// Pairs, where there may be too many for a device.
    len: usize,
    work: Work,
}

impl Job {
    /// The case's name, after that of the device.
    pub(crate) fn name(&self) -> &str {
        &self.path
    }

    /// The kernels that the case launches on the emulator, whatever it answers there.
    pub(crate) fn scout(&self) -> BTreeSet<&'static str> {
        take_recorded_kernels();
        // Its answer is not a GPU's.
        let _ = guarded(|| (self.work)(&Device::emulated_with_seed(self.seed)));
        take_recorded_kernels()
    }

    pub(crate) fn run(&self, settings: &Settings, target: &Target) -> Tally {
        let Self { index, keys, operation, seed, len, .. } = *self;
        let mut tally = Tally::default();
        let name = format!("{}/{}", target.prefix(), self.path);
        let ending = match guarded(|| (self.work)(&target.for_case(seed))) {
            Err(error) if error.out_of_memory && len >= LARGE => {
                tally.skipped.push(format!("{name}: {}", error.reason));
                return tally;
            }
            ending => ending.map_err(|error| error.reason),
        };
        Case { settings, target, name, seed, index, keys, operation }.count(&mut tally, ending);
        tally
    }
}

/// The seed of a case that has other data on each device.
fn own_seed(seed: u64, target: &Target, path: &str) -> u64 {
    derived_seed(seed, &format!("{}/{path}", target.prefix()))
}

/// The cases of GRT. Apart from the others, so that unit tests run these and their program is not the whole verifier, compiled a
/// second time.
pub(crate) fn grt_jobs(settings: &Settings, target: &Target, kind: DeviceKind, max_len: usize) -> Vec<Job> {
    let Settings { mode, seed, sabotage, .. } = *settings;
    let job = |case: grt::Case| {
        let path = case.name();
        let (keys, operation, seed) = (case.keys(), case.operation(), own_seed(seed, target, &path));
        let work = Box::new(move |device: &Device| case.run(device, seed, sabotage));
        Job { index: Index::GRT, path, keys, operation, seed, len: 0, work }
    };
    grt::cases(mode, kind, max_len).into_iter().map(job).collect()
}

/// All cases that are wanted, in the sizes for a kind of device, which need not be the target's.
pub(crate) fn jobs(settings: &Settings, target: &Target, kind: DeviceKind, max_len: usize) -> Vec<Job> {
    let Settings { mode, seed, sabotage, .. } = *settings;
    let mut jobs = Vec::new();
    let own_seed = |path: &str| own_seed(seed, target, path);
    for operation in primitives::operations(kind) {
        let Operation { name, words: keys, run } = operation;
        let short_name: String = name.replace([' ', ','], "_");
        for len in primitives::LENGTHS {
            let is_too_much = (len > 1 << 20 && mode == Mode::Quick)
                || (len > primitives::LONGEST_EMULATED && kind == DeviceKind::Emulated);
            if len <= max_len && !is_too_much {
                let path = format!("primitives/{short_name}/{keys}/n{len}");
                let seed = own_seed(&path);
                let work = Box::new(move |device: &Device| run(device, len, seed, sabotage));
                jobs.push(Job { index: Index::PRIMITIVES, path, keys, operation: name, seed, len: 0, work });
            }
        }
    }
    for sort in radix_sort::cases(mode, kind, max_len) {
        let path = format!("primitives/{}", sort.name());
        let (keys, operation, seed) = (sort.keys, sort.operation(), own_seed(&path));
        let work = Box::new(move |device: &Device| sort.run(device, seed, sabotage));
        jobs.push(Job { index: Index::PRIMITIVES, path, keys, operation, seed, len: 0, work });
    }
    jobs.extend(grt_jobs(settings, target, kind, max_len));
    for case in intervals::cases(mode, kind, max_len) {
        let path = case.name();
        let (keys, operation, seed) = (case.key, intervals::Case::OPERATION, own_seed(&path));
        let work = Box::new(move |device: &Device| case.run(device, seed, sabotage));
        jobs.push(Job { index: Index::INTERVALS, path, keys, operation, seed, len: 0, work });
    }
    for case in multimap::cases(mode, kind, max_len) {
        let path = case.name();
        let (keys, operation, seed) = (case.key, multimap::Case::OPERATION, own_seed(&path));
        let work = Box::new(move |device: &Device| match case.key {
            "u128" => with_value!(case.value, |V| case.run::<u128, V>(device, seed, sabotage)),
            _ => with_types!(case.key, case.value, |K, V| case.run::<K, V>(device, seed, sabotage)),
        });
        jobs.push(Job { index: Index::MULTIMAP, path, keys, operation, seed, len: 0, work });
    }
    for case in joins::cases(mode, kind, max_len) {
        let path = case.name();
        let (keys, seed) = (case.keys(), own_seed(&path));
        let work = Box::new(move |device: &Device| case.run(device, seed, sabotage));
        jobs.push(Job { index: Index::LANE_TREE, path, keys, operation: "example joins", seed, len: 0, work });
    }
    for case in sharded::cases(mode, kind, max_len) {
        let path = case.name();
        let (keys, operation, seed) = (case.key, sharded::Case::OPERATION, own_seed(&path));
        let work = Box::new(move |device: &Device| case.run(device, seed, sabotage));
        jobs.push(Job { index: Index::SHARDED, path, keys, operation, seed, len: 0, work });
    }
    // And these the same on all.
    for spec in cuart_build::specs(mode, kind, max_len) {
        let (keys, operation, case_seed) = (spec.keys(), "build on the device", derived_seed(seed, &spec.name()));
        let path = format!("cuart/{}", spec.name());
        let work = Box::new(move |device: &Device| {
            with_value!(spec.value, |V| cuart_build::run::<V>(&spec, device, seed, sabotage))
        });
        jobs.push(Job { index: Index::CUART, path, keys, operation, seed: case_seed, len: 0, work });
    }
    for spec in cuart::specs(mode, kind, max_len) {
        let (keys, operation, case_seed) = (spec.keys(), spec.operation(), derived_seed(seed, &spec.name()));
        let path = format!("cuart/{}", spec.name());
        let work = Box::new(move |device: &Device| {
            with_value!(spec.value, |V| cuart::run::<V>(&spec, device, seed, sabotage))
        });
        jobs.push(Job { index: Index::CUART, path, keys, operation, seed: case_seed, len: 0, work });
    }
    // The suite, over every index of its list. Its written cases pass on the emulator in its own tests, all of them in the
    // first way: here they are in samples, and where everything is asked for.
    let with_written = kind != DeviceKind::Emulated || mode == Mode::Full || settings.sample.is_some();
    for Listed { name, family, .. } in indexes::with_builders().into_iter().chain(indexes::sets()) {
        let (index, family) = (Index::of_family(name), Arc::new(family));
        let (of_parts, of_sizes) = cases::ways(index, kind, with_written);
        if max_len == usize::MAX && sabotage.is_none() {
            for (way, part) in
                (0..family.ways().min(of_parts)).flat_map(|way| family.parts().into_iter().map(move |part| (way, part)))
            {
                let short_part = part.replace([' ', ','], "_");
                let path = format!("{}/conformance/{name}/way{way}/{short_part}", index.name());
                let (seed, family) = (own_seed(&path), family.clone());
                let work = Box::new(move |device: &Device| conformance::run(&**family, device, way, part));
                jobs.push(Job { index, path, keys: "the suite's", operation: "conformance", seed, len: 0, work });
            }
        }
        // It compares without guards: see there.
        if sabotage.is_some_and(|sabotage| sabotage != Sabotage::Tree) {
            continue;
        }
        for way in 0..family.ways().min(of_sizes) {
            for Size { len, spread, batch } in cases::sizes(mode, kind, way, max_len) {
                let path = format!("{}/at-size/{name}/way{way}/{}/n{len}", index.name(), spread.name());
                let (seed, family) = (derived_seed(seed, &path), family.clone());
                let size = lanetree_suite::Size { len, spread, batch, seed, lacks_smallest: sabotage.is_some() };
                let work = Box::new(move |device: &Device| conformance::at_size(&**family, device, way, &size));
                jobs.push(Job { index, path, keys: name, operation: "at size", seed, len, work });
            }
        }
    }
    jobs.retain(|job| is_wanted(settings, &format!("{}/{}", target.prefix(), job.path)));
    jobs
}

/// A bar on stderr; none where that is not a terminal.
fn progress_bar(subjects: usize, label: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} subjects, {elapsed}");
    ProgressBar::new(subjects as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(label.to_owned())
}

/// Runs `work` on each subject, one thread per core; the results in the subjects' order.
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
    index: Index,
    keys: &'static str,
    operation: &'static str,
}

impl Case<'_> {
    fn count(self, tally: &mut Tally, ending: Ending) {
        let group =
            Group { device: self.target.label(), index: self.index.name(), operation: self.operation, keys: self.keys };
        let Some(reason) = tally.count(group.clone(), ending) else { return };
        let Settings { seed, max_len, .. } = *self.settings;
        let mode = self.settings.mode_name();
        let cap = if max_len == usize::MAX { String::new() } else { format!(" --max-len {max_len}") };
        let sabotage =
            self.settings.sabotage.map_or(String::new(), |sabotage| format!(" --sabotage {}", sabotage.name()));
        let (prefix, name) = (self.target.prefix(), self.name);
        tally.failures.push(Failure {
            group,
            seed,
            case_seed: self.seed,
            reason,
            reproduce: format!(
                "lanetree-verify --device {prefix} --{mode} --seed {seed}{cap}{sabotage} --only '{name}'"
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
