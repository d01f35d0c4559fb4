//! The command line, and a run from its start to its end.

use super::driver;
use super::error::{Error, Result};
use super::figure::{Figure, Needs, Request, Run};
use super::figures::{FIGURES, alone, parts};
use super::machine;
use super::plan::{Plan, Scale};
use super::report::Report;
use super::session::Session;
use crate::keys::Format;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use core::time::Duration;
use lanetree::{Device, DeviceKind};
use lanetree_console::choice::{Choice, Chosen};
use lanetree_console::output::{JsonFile, say};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Measures the indexes, what they are compared with, and the hardware's ceilings
#[derive(clap::Parser, Debug)]
#[command(
    version,
    after_help = "\
Examples:
  lanetree-bench                                   all parts, on the GPU; without one, on the CPU
  lanetree-bench --device cuda --json figures.json
  lanetree-bench --sizes 24,26 --only ceilings,lookups
  lanetree-bench --figure harmonia-ntg --sizes 26
  lanetree-bench --figure cuart-cpu --sizes 20,24
  lanetree-bench --figure hbtree-sizes --sizes 28,31
  lanetree-bench --figure cuart-real --input DIR   addresses, words and paths of your own
  lanetree-bench --figure files --input DIR        on the disk of this folder
  lanetree-bench --keys books_200M_uint64 --only ceilings,lookups,ranges

Every output of a row's last run is compared with what is right before its figure is given.
Exit codes: 0 measured, 1 a wrong answer, 2 could not run (no GPU when one was asked for, bad
arguments, a corrupt file of keys)."
)]
pub(crate) struct Args {
    /// Where to run; auto: the first GPU, or without one the host
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    device: Choice,
    /// Keys of the trees, as powers of two [default on a GPU: 20,24,26,28, unless a figure has others]
    #[arg(long, value_name = "LOG2", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=31))]
    sizes: Vec<u32>,
    /// Queries of a batch, as a power of two [default on a GPU: 26]
    #[arg(long, value_name = "LOG2", value_parser = clap::value_parser!(u32).range(0..=30))]
    queries: Option<u32>,
    /// Only these parts [default: all]
    #[arg(long, value_parser = one_of(parts), value_delimiter = ',', value_name = "PART", conflicts_with = "figure")]
    only: Vec<&'static Figure>,
    /// A figure, instead of the parts
    #[arg(long, value_parser = one_of(alone))]
    figure: Option<&'static Figure>,
    /// Real keys, instead of uniform ones; sorted, and each taken once
    #[arg(long, value_name = "FILE", conflicts_with = "sizes")]
    keys: Option<PathBuf>,
    /// Bits of the file's keys
    #[arg(long, value_enum, default_value_t = KeyWidth::B64, requires = "keys")]
    key_width: KeyWidth,
    /// The format of the file
    #[arg(long, value_enum, default_value_t = Format::Sosd, requires = "keys")]
    format: Format,
    /// A folder with files geoip6, words or paths (one key per line) for the figure cuart-real [default: Debian's]; for the figure
    /// files, where it writes [default: the system's folder of temporary files]
    #[arg(long, value_name = "DIR")]
    input: Option<PathBuf>,
    /// Smaller trees and batches, fewer runs
    #[arg(long)]
    quick: bool,
    /// Decides all keys and queries
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Begins no row after this time, and lists what is missing
    #[arg(long, value_name = "SECONDS")]
    max_seconds: Option<u64>,
    /// Writes all rows, with the times of all runs, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The value of `--key-width`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum KeyWidth {
    #[value(name = "32")]
    B32,
    #[value(name = "64")]
    B64,
}

/// A parser of figures' names, which `--help` and errors list.
fn one_of<I: Iterator<Item = &'static Figure>>(figures: fn() -> I) -> impl TypedValueParser<Value = &'static Figure> {
    let names = figures().map(|figure| PossibleValue::new(figure.name).help(figure.about));
    PossibleValuesParser::new(names).map(|name| {
        let figure = FIGURES.iter().find(|figure| figure.name == name);
        *figure.expect("only names of the list are possible")
    })
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> ExitCode {
    match bench(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn bench(args: &Args) -> Result<()> {
    let figures: Vec<&'static Figure> = match (args.figure, args.only.is_empty()) {
        (Some(figure), _) => vec![figure],
        (None, true) => parts().collect(),
        // In the list's order, and each once.
        (None, false) => parts().filter(|part| args.only.iter().any(|only| only.name == part.name)).collect(),
    };
    check_options(args)?;
    let (device, no_gpu) = match args.device.open()? {
        Chosen::Device(device) => (device, None),
        Chosen::NoGpu(reason) => (Device::host(), Some(reason)),
    };
    let mut plan = Plan::of(Scale { kind: device.kind(), quick: args.quick });
    plan.asked.clone_from(&args.sizes);
    plan.queries = args.queries.unwrap_or(plan.queries);
    let json = args.json.as_deref().map(JsonFile::create).transpose()?;
    let machine = machine::of(&device)?;
    // Some figures are the same with a GPU and without.
    let is_instead = figures.iter().any(|figure| figure.needs != Needs::Nothing);
    say(|out| {
        writeln!(out, "{}", machine::header(&machine))?;
        instead_of_gpu(device.kind(), &figures).map_or(Ok(()), |line| writeln!(out, "{line}"))
    })?;
    let deadline = args.max_seconds.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
    let wants_ceilings = figures.iter().any(|figure| figure.with_ceilings);
    let report = Report::new(machine, device.kind(), args.seed);
    let mut session = Session::new(device, plan, wants_ceilings, deadline, report)?;
    if is_instead {
        say_what_is_missing(&mut session, no_gpu);
    }
    let outcome = measure(&mut session, &figures, args);
    let mut report = session.finish();
    report.record.failure = outcome.as_ref().err().map(ToString::to_string);
    say(|out| report.print(FIGURES.iter().filter_map(|figure| figure.table), out))?;
    if let Some(json) = json {
        json.write(&report.record)?;
    }
    outcome?;
    if report.is_empty() {
        return Err(Error::Usage("nothing was measured".into()));
    }
    Ok(())
}

/// Refuses options that would change nothing.
fn check_options(args: &Args) -> Result<()> {
    let takes = |takes: fn(&Figure) -> bool| args.figure.is_none_or(takes);
    let refuse = |option: &str| {
        let name = args.figure.map_or("the parts", |figure| figure.name);
        Err(Error::Usage(format!("figure {name} takes no {option}; leave it out")))
    };
    if !args.sizes.is_empty() && !takes(|figure| figure.takes.sizes) {
        return refuse("--sizes");
    }
    let most = args.figure.map_or(Figure::BASE.most, |figure| figure.most);
    if let Some(size) = args.sizes.iter().find(|&&size| size > most) {
        return refuse(&format!("--sizes above {most}, and {size} was asked for"));
    }
    if args.keys.is_some() && !takes(|figure| figure.takes.keys) {
        return refuse("--keys");
    }
    if args.input.is_some() && !args.figure.is_some_and(|figure| figure.takes.input) {
        let names: Vec<&str> = alone().filter(|figure| figure.takes.input).map(|figure| figure.name).collect();
        return Err(Error::Usage(format!("--input is for --figure {}; leave it out", names.join(", "))));
    }
    Ok(())
}

/// What is measured without a GPU, and what that says of one; `None` for what is the same with a GPU.
fn instead_of_gpu(kind: DeviceKind, figures: &[&Figure]) -> Option<&'static str> {
    let all_need = |needs| figures.iter().all(|figure| figure.needs == needs);
    match kind {
        DeviceKind::Cuda => None,
        _ if all_need(Needs::Nothing) => None,
        DeviceKind::Host if all_need(Needs::Kernels) => {
            Some("No GPU, and only kernels are asked for: nothing is measured. Ask for --device cuda or emulated.")
        }
        DeviceKind::Host => {
            Some("No GPU: native code on the CPU is measured instead. These figures say nothing of a GPU.")
        }
        DeviceKind::Emulated => {
            Some("No GPU: kernels are measured on the emulator instead. These figures say nothing of a GPU.")
        }
    }
}

/// Without a GPU: what there will not be.
fn say_what_is_missing(session: &mut Session, no_gpu: Option<String>) {
    if let Some(reason) = no_gpu {
        eprintln!("warning: no GPU, so the CPU only: {reason}");
        session.skip(format_args!("no GPU: neither its rows, nor binary search on it, nor its ceilings ({reason})"));
    } else if !session.runs_kernels() {
        session.skip("no GPU: --device host has neither its rows, nor binary search on it, nor its ceilings");
    }
}

/// Measures a figure, or parts.
fn measure(session: &mut Session, figures: &[&'static Figure], args: &Args) -> Result<()> {
    let keys = args.keys.as_deref().map(|path| match args.key_width {
        KeyWidth::B32 => driver::read::<u32>(session, path, args.format).map(Into::into),
        KeyWidth::B64 => driver::read::<u64>(session, path, args.format).map(Into::into),
    });
    let keys = keys.transpose()?;
    match figures {
        [figure] if !matches!(figure.run, Run::Part(_)) => {
            let request = Request { sizes: session.plan.sizes(figure.sizes), input: args.input.clone() };
            driver::figure(session, figure, &request, keys)
        }
        parts => driver::parts(session, parts, keys),
    }
}
