//! The command line, and a run from its start to its end.

use super::cases::Mode;
use super::compare::Sabotage;
use super::coverage::Coverage;
use super::index::{self, Index};
use super::report::{self, Machine, Report};
use super::run::{self, Sample, Settings, Target};
use super::sample;
use super::tally::Tally;
use lanetree::{Device, DeviceKind, runtime};
use lanetree_console::choice::{Choice, Chosen};
use lanetree_console::output::{self, JsonFile, say};
use lanetree_runtime::{record_kernels, take_recorded_kernels};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Checks every kernel against a sorted vector
#[derive(clap::Parser, Debug)]
#[command(
    version,
    after_help = "\
Examples:
  lanetree-verify                              the GPU, or host and emulator, within 2 minutes
  lanetree-verify --device cuda --full --json verified.json
  lanetree-verify --device emulated --seed 7
  lanetree-verify --device host --only u64-u32/f16
  lanetree-verify --index cuart,grt            the radix trees alone
  compute-sanitizer lanetree-verify --device cuda --sample 1
  compute-sanitizer --tool racecheck lanetree-verify --device cuda --sample 1 --kernels primitives_sort --seconds 120

Exit codes: 0 all passed, 1 a wrong answer, or a kernel that no case ran, 2 could not run (no GPU
when one was asked for, bad arguments, no such case)."
)]
pub(crate) struct Args {
    /// Where to run; auto: the first GPU, or without one the host and the emulator
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    device: Choice,
    /// On a GPU: the kernels' PTX from this folder, which `cargo xtask ptx --out DIR` writes
    #[arg(long, value_name = "DIR")]
    ptx: Option<PathBuf>,
    /// Only these indexes, baselines or primitives [default: all]
    #[arg(long, value_delimiter = ',', value_name = "INDEX", value_parser = index::parse)]
    index: Vec<Index>,
    /// Every kernel, up to 2^16 pairs (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// More of everything; on a GPU up to 2^26 pairs
    #[arg(long)]
    full: bool,
    /// N small cases of each operation and type of keys, and more until every kernel has run: for compute-sanitizer
    #[arg(long, conflicts_with_all = ["quick", "full"], value_name = "N")]
    sample: Option<usize>,
    /// With --sample: begins no case of an index after this number of seconds
    #[arg(long, requires = "sample", value_name = "S")]
    seconds: Option<u64>,
    /// With --sample: only what runs kernels whose symbols contain this
    #[arg(long, requires = "sample", value_name = "SUBSTRING")]
    kernels: Option<String>,
    /// Decides all keys, queries and emulated schedules
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// No tree and no batch larger than this
    #[arg(long, value_name = "N")]
    max_len: Option<usize>,
    /// Only cases whose name contains this
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,
    /// A row for each type of keys, not only for each operation
    #[arg(long)]
    verbose: bool,
    /// Writes all rows and all failures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Puts verify itself to the test: makes every answer wrong in this way
    #[arg(long, value_enum, hide = true)]
    sabotage: Option<Sabotage>,
}

/// What kept a run from its end.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
    #[error(transparent)]
    Output(#[from] output::Error),
    #[error("cannot write to stderr: {0}")]
    Stderr(io::Error),
    #[error("{0}")]
    NoCase(String),
}

/// A wrong answer, or a kernel that gave none.
const WRONG: u8 = 1;
/// No answer.
const COULD_NOT_RUN: u8 = 2;

/// Runs the command.
pub(crate) fn run(args: &Args) -> ExitCode {
    match verify(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}

/// # Errors
/// What kept it from running.
fn verify(args: &Args) -> Result<ExitCode, Error> {
    let (targets, no_gpu) = targets(args.device, args.ptx.as_deref())?;
    let mut machines = Vec::new();
    for target in &targets {
        machines.push(Machine::new(target.label(), &target.device.properties()?));
    }
    let json = args.json.as_deref().map(JsonFile::create).transpose()?;
    let settings = Settings {
        mode: if args.full { Mode::Full } else { Mode::Quick },
        seed: args.seed,
        max_len: args.max_len.unwrap_or(usize::MAX),
        indexes: if args.index.is_empty() { Index::all() } else { args.index.clone() },
        only: args.only.clone(),
        sabotage: args.sabotage,
        sample: args.sample.map(|cases| Sample {
            cases,
            time: args.seconds.map(Duration::from_secs),
            kernels: args.kernels.clone(),
        }),
    };
    let labels: Vec<String> = targets.iter().map(Target::label).collect();
    say(|out| writeln!(out, "{}", report::header(&settings, &labels)))?;
    if let Some(reason) = &no_gpu {
        eprintln!("warning: no GPU, so host and emulator only: {reason}");
    }
    // What ran is known, not predicted: a kernel that no case reached is found, whatever the reason.
    record_kernels(true);
    let (mut tally, mut ran) = (Tally::default(), BTreeSet::new());
    for target in &targets {
        tally.merge(match &settings.sample {
            Some(sample) => sample::run(&settings, target, sample, &mut ran),
            None => run::run(&settings, target),
        });
        ran.extend(take_recorded_kernels());
    }
    record_kernels(false);
    let coverage = coverage(&settings, &targets, &ran);
    let report = Report { settings: &settings, machines: &machines, tally: &tally, no_gpu, coverage };
    report.print_failures(&mut io::stderr().lock()).map_err(Error::Stderr)?;
    say(|out| report.print(args.verbose, out))?;
    if let Some(json) = json {
        json.write(&report.json())?;
    }
    if tally.failed() > 0 {
        return Ok(ExitCode::from(WRONG));
    }
    if tally.cases() == 0 {
        let mut message = "no case was run".to_owned();
        if let Some(only) = &settings.only {
            message += &format!(": none has {only:?} in its name");
        }
        if !args.index.is_empty() {
            let names: Vec<_> = args.index.iter().map(|index| index.name()).collect();
            message += &format!("; --index was {}", names.join(","));
        }
        return Err(Error::NoCase(message));
    }
    // A kernel that nobody ran was not verified, whatever else passed.
    Ok(ExitCode::from(if report.coverage.missing.is_empty() { 0 } else { WRONG }))
}

/// The devices to verify; and why there is no GPU, if one was looked for.
fn targets(choice: Choice, ptx: Option<&Path>) -> Result<(Vec<Target>, Option<String>), Error> {
    if ptx.is_some() && matches!(choice, Choice::Host | Choice::Emulated) {
        return Err(Error::NoCase("--ptx is for a GPU; leave it out".into()));
    }
    Ok(match choice.open_with(ptx)? {
        Chosen::Device(device) => (vec![Target { device }], None),
        Chosen::NoGpu(reason) => {
            (vec![Target { device: Device::host() }, Target { device: Device::emulated() }], Some(reason))
        }
    })
}

/// The kernels that ran. Where nothing runs kernels, there is nothing to say.
fn coverage(settings: &Settings, targets: &[Target], ran: &BTreeSet<&'static str>) -> Coverage {
    let runs_kernels = targets.iter().any(|target| target.device.kind() != DeviceKind::Host);
    if !runs_kernels {
        return Coverage::default();
    }
    Coverage::of(&settings.wanted_kernels(), ran)
}
