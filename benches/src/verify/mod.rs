//! `verify`: every kernel, on every device, against the oracle.

mod cases;
mod compare;
mod cuart;
mod cuart_build;
mod data;
mod grt;
mod harmonia;
mod primitives;
mod radix_sort;
mod ranges;
mod report;
mod run;
mod tally;
mod updates;

use cases::Mode;
use clap::ValueEnum;
use compare::Sabotage;
use lanetree::{Device, DeviceKind};
use report::{Machine, Report};
use run::{Settings, Target};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tally::Tally;

/// Checks every kernel against a sorted vector
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  lanetree-bench verify                              the GPU, or host and emulator, within 2 minutes
  lanetree-bench verify --device cuda --full --json verified.json
  lanetree-bench verify --device emulated --seed 7
  lanetree-bench verify --device host --only u64-u32/f16
  lanetree-bench verify --index cuart,grt            the radix trees alone
  compute-sanitizer lanetree-bench verify --device cuda --max-len 4096

Exit codes: 0 all passed, 1 a wrong answer, 2 could not run (no GPU when one was asked for,
bad arguments, no such case).")]
pub(crate) struct Args {
    /// Where to run; auto: the first GPU, or without one the host and the emulator
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    device: Choice,
    /// Only these indexes, or what stands beside them [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "INDEX")]
    index: Vec<Index>,
    /// Every kernel, up to 2^16 pairs (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// More of everything; on a GPU up to 2^26 pairs
    #[arg(long)]
    full: bool,
    /// Decides all keys, queries and emulated schedules
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// No tree and no batch larger than this
    #[arg(long, value_name = "N")]
    max_len: Option<usize>,
    /// Only cases whose name contains this
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,
    /// Keeps all rows and all failures in this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Puts verify itself to the test: makes every answer wrong in this way
    #[arg(long, value_enum, hide = true)]
    sabotage: Option<Sabotage>,
}

/// The value of `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choice {
    Auto,
    Cuda,
    Host,
    Emulated,
}

/// A value of `--index`: the second part of a case's name, and what the kernels' modules begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Index {
    /// The B+tree, its builds and updates
    Harmonia,
    /// The radix tree, beside the CPU's too, and its builds
    Cuart,
    /// What CuART is compared with; on devices with kernels only
    Grt,
    /// Sorts, scans, selection, runs, merging
    Primitives,
}

impl Index {
    fn name(self) -> &'static str {
        match self {
            Self::Harmonia => "harmonia",
            Self::Cuart => "cuart",
            Self::Grt => "grt",
            Self::Primitives => "primitives",
        }
    }
}

/// A wrong answer.
const WRONG: u8 = 1;
/// No answer.
const COULD_NOT_RUN: u8 = 2;

/// Runs the command.
pub(crate) fn run(args: &Args) -> ExitCode {
    match verify(args) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}

/// # Errors
/// What kept it from running.
fn verify(args: &Args) -> Result<ExitCode, String> {
    let (targets, no_gpu) = targets(args.device)?;
    let mut machines = Vec::new();
    for target in &targets {
        let properties = target.device.properties().map_err(|error| error.to_string())?;
        machines.push(Machine::new(target.label(), &properties));
    }
    // Before the work, not after it: a file that cannot be written is worth no minutes.
    let json = match &args.json {
        None => None,
        Some(path) => {
            Some((path, File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()))?))
        }
    };
    let settings = Settings {
        mode: if args.full { Mode::Full } else { Mode::Quick },
        seed: args.seed,
        max_len: args.max_len.unwrap_or(usize::MAX),
        indexes: if args.index.is_empty() { Index::value_variants().into() } else { args.index.clone() },
        only: args.only.clone(),
        sabotage: args.sabotage,
    };
    let labels: Vec<String> = targets.iter().map(Target::label).collect();
    say(|out| writeln!(out, "{}", report::header(settings.mode, settings.seed, &labels)))?;
    if let Some(reason) = &no_gpu {
        eprintln!("warning: no GPU, so host and emulator only: {reason}");
    }
    let mut tally = Tally::default();
    for target in &targets {
        tally.merge(run::run(&settings, target));
    }
    let (compiled, missing) = coverage(args, &settings.indexes, &targets, &tally);
    let report = Report {
        mode: settings.mode,
        seed: settings.seed,
        machines: &machines,
        tally: &tally,
        no_gpu,
        compiled,
        missing,
    };
    report.print_failures(&mut io::stderr().lock()).map_err(|error| format!("cannot write to stderr: {error}"))?;
    say(|out| report.print(out))?;
    if let Some((path, file)) = json {
        let mut file = BufWriter::new(file);
        let written = serde_json::to_writer_pretty(&mut file, &report.json()).map_err(io::Error::from);
        written
            .and_then(|()| writeln!(file))
            .and_then(|()| file.flush())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
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
        return Err(message);
    }
    // A kernel that nobody ran was not verified, whatever else passed.
    Ok(ExitCode::from(if report.missing.is_empty() { 0 } else { COULD_NOT_RUN }))
}

/// The devices to verify; and why there is no GPU, if one was looked for.
fn targets(choice: Choice) -> Result<(Vec<Target>, Option<String>), String> {
    let (host, emulated) = (|| Target { device: Device::host() }, || Target { device: Device::emulated() });
    Ok(match choice {
        Choice::Host => (vec![host()], None),
        Choice::Emulated => (vec![emulated()], None),
        Choice::Cuda => (vec![Target { device: Device::cuda(0).map_err(|error| error.to_string())? }], None),
        Choice::Auto => match Device::cuda(0) {
            Ok(device) => (vec![Target { device }], None),
            Err(error) => (vec![host(), emulated()], Some(error.to_string())),
        },
    })
}

/// How many kernels are compiled, and which of them did not run. Where only a part of the cases was
/// asked for, or nothing that runs kernels, there is nothing to say.
fn coverage(args: &Args, indexes: &[Index], targets: &[Target], tally: &Tally) -> (usize, Vec<String>) {
    if args.only.is_some() || args.max_len.is_some() || targets.iter().all(|t| t.device.kind() == DeviceKind::Host) {
        return (0, Vec::new());
    }
    let compiled = compiled_kernels(indexes);
    (compiled.len(), compiled.difference(&tally.kernels).cloned().collect())
}

/// The symbols of these indexes' kernels in the PTX that is part of the program.
fn compiled_kernels(indexes: &[Index]) -> BTreeSet<String> {
    let symbols = crate::compiled::modules().flat_map(lanetree_simt::Module::symbols);
    // A module is called after its index, alone or with more behind it.
    let module = |name: &str| match name.split('_').next() {
        // Batches of byte strings.
        Some("keys") => "cuart".to_owned(),
        first => first.unwrap_or_default().to_owned(),
    };
    symbols.filter(|name| indexes.iter().any(|index| module(name) == index.name())).map(String::from).collect()
}

/// Writes to stdout. A reader who has seen enough and left is no error.
fn say(write: impl FnOnce(&mut io::StdoutLock<'static>) -> io::Result<()>) -> Result<(), String> {
    match write(&mut io::stdout().lock()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot write to stdout: {error}")),
        _ => Ok(()),
    }
}
