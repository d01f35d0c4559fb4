//! A sample of the cases, for tools that make kernels slow: a few cases of everything, and then more until every kernel has
//! run. The emulator, which such tools do not slow down, tells which kernels a case reaches, so a GPU runs few in vain.

use super::data::derived_seed;
use super::run::{self, Job, Sample, Settings, Target};
use super::tally::Tally;
use lanetree::DeviceKind;
use lanetree_runtime::take_recorded_kernels;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// No case of a sample is larger, unless a kernel runs in larger ones only.
const LONGEST: usize = 10_000;

/// Cases that are alike: by index, operation, and types or fanout.
struct Group {
    left: Vec<Job>,
    /// Those that reach no kernel that is missing, as the emulator has it.
    in_reserve: Vec<Job>,
    /// How many have run, or been passed by.
    ran: usize,
    /// How many of these since one reached a new kernel.
    in_vain: usize,
}

/// Runs a sample on a device, and adds the kernels that it launches there to those that `ran`. One case after another, so that
/// what a case has reached is known.
pub(crate) fn run(settings: &Settings, target: &Target, sample: &Sample, ran: &mut BTreeSet<&'static str>) -> Tally {
    let mut tally = Tally::default();
    for &index in &settings.indexes {
        let settings = Settings { indexes: vec![index], ..settings.clone() };
        run_index(&settings, target, sample, ran, &mut tally);
    }
    tally
}

fn run_index(
    settings: &Settings,
    target: &Target,
    sample: &Sample,
    ran: &mut BTreeSet<&'static str>,
    tally: &mut Tally,
) {
    let (start, kind) = (Instant::now(), target.device.kind());
    let has_kernels = kind != DeviceKind::Host;
    let wanted = if has_kernels { settings.wanted_kernels() } else { BTreeSet::new() };
    let mut had = BTreeSet::new();
    // First such cases as the emulator gets; a card with many multiprocessors may take larger ones for some kernels.
    let small = if has_kernels { DeviceKind::Emulated } else { kind };
    for (scale, max_len, least) in [(small, LONGEST, sample.cases), (kind, usize::MAX, 0)] {
        let least = if sample.kernels.is_some() { 0 } else { least };
        let mut all = run::jobs(settings, target, scale, max_len.min(settings.max_len));
        all.retain(|job| had.insert(job.name().to_owned()));
        let mut groups = groups(all, settings.seed);
        let scouts = [kind == DeviceKind::Cuda && scale == DeviceKind::Emulated, false];
        for scouts in if scouts[0] { &scouts[..] } else { &scouts[1..] } {
            for group in &mut groups {
                group.left.append(&mut group.in_reserve);
            }
            while let Some(next) = next(&groups, least, !wanted.is_subset(ran)) {
                if sample.time.is_some_and(|time| start.elapsed() >= time) {
                    return;
                }
                let group = &mut groups[next];
                let Some(job) = group.left.pop() else { break };
                let is_due = group.ran < least;
                group.ran += 1;
                group.in_vain += 1;
                if *scouts
                    && !is_due
                    && job.scout().iter().all(|kernel| ran.contains(kernel) || !wanted.contains(kernel))
                {
                    group.in_reserve.push(job);
                    continue;
                }
                take_recorded_kernels();
                tally.merge(job.run(settings, target));
                let launched = take_recorded_kernels();
                if launched.iter().any(|kernel| wanted.contains(kernel) && !ran.contains(kernel)) {
                    group.in_vain = 0;
                }
                ran.extend(launched);
            }
        }
    }
}

/// Job by the first three parts of their names, each group in an order that the seed chooses.
fn groups(subjects: Vec<Job>, seed: u64) -> Vec<Group> {
    let mut by_name = BTreeMap::<String, Vec<(u64, Job)>>::new();
    for subject in subjects {
        let name = subject.name().to_owned();
        let group = name.split('/').take(3).collect::<Vec<_>>().join("/");
        by_name.entry(group).or_default().push((derived_seed(seed, &name), subject));
    }
    let in_order = |mut subjects: Vec<(u64, Job)>| {
        subjects.sort_by_key(|(order, _)| *order);
        subjects.into_iter().map(|(_, subject)| subject).collect()
    };
    by_name
        .into_values()
        .map(|subjects| Group { left: in_order(subjects), in_reserve: Vec::new(), ran: 0, in_vain: 0 })
        .collect()
}

/// The group whose turn it is. Until each has run `least` cases, they take turns; then, if kernels are missing, the one that
/// reached a new one last.
fn next(groups: &[Group], least: usize, is_incomplete: bool) -> Option<usize> {
    let of = |is_due: &dyn Fn(&Group) -> bool, turn: &dyn Fn(&Group) -> (usize, usize)| {
        let due = groups.iter().enumerate().filter(|(_, group)| !group.left.is_empty() && is_due(group));
        due.min_by_key(|(_, group)| turn(group)).map(|(i, _)| i)
    };
    let first = of(&|group| group.ran < least, &|group| (group.ran, 0));
    first.or_else(|| if is_incomplete { of(&|_| true, &|group| (group.in_vain, group.ran)) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Mode;
    use crate::index::Index;
    use lanetree::Device;
    use lanetree_runtime::record_kernels;

    #[test]
    fn the_emulator_tells_which_kernels_a_case_reaches() {
        let settings = Settings {
            mode: Mode::Quick,
            seed: 1,
            max_len: usize::MAX,
            indexes: vec![Index::GRT],
            only: None,
            sabotage: None,
            sample: None,
        };
        let target = Target { device: Device::emulated() };
        record_kernels(true);
        for job in run::grt_jobs(&settings, &target, DeviceKind::Emulated, 1000) {
            // Other tests of the process may launch other kernels meanwhile.
            let of_grt = |mut kernels: BTreeSet<&'static str>| {
                kernels.retain(|kernel| kernel.starts_with("grt__"));
                kernels
            };
            let kernels = of_grt(job.scout());
            assert!(!kernels.is_empty(), "{}", job.name());
            assert!(job.run(&settings, &target).failed() == 0);
            assert_eq!(kernels, of_grt(take_recorded_kernels()), "{}", job.name());
        }
    }
}
