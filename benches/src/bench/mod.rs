//! `bench`: the indexes, their baselines and the hardware's ceilings, measured in one process.

mod ceilings;
mod cpu;
mod cuart;
mod data;
mod error;
mod host;
mod host_ranges;
mod ladder;
mod latency;
mod lookups;
mod machine;
mod memory;
mod plan;
mod primitives;
mod psa;
mod psa_figure;
mod psa_widths;
mod ranges;
mod report;
mod run;
mod rungs;
mod session;
mod subject;
mod table;
mod updates;

use crate::keys::Format;
use core::time::Duration;
use error::{Error, Result};
use lanetree::Device;
use machine::Machine;
use plan::Plan;
use report::{Report, Section};
use session::Session;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Measures the indexes, what they are compared with, and the hardware's ceilings
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  lanetree-bench bench                                   everything, on the GPU; without one, the CPU
  lanetree-bench bench --device cuda --json figures.json
  lanetree-bench bench --sizes 24,26 --only ceilings,lookups
  lanetree-bench bench --figure harmonia-ntg --sizes 26
  lanetree-bench bench --figure harmonia-ladder          the paper's optimisations, one by one
  lanetree-bench bench --figure harmonia-memory          memory transactions, counted without a GPU
  lanetree-bench bench --figure harmonia-psa             what sorting the queries costs, and gains
  lanetree-bench bench --figure latency                  small batches: medians and 99th percentiles
  lanetree-bench bench --figure cuart-widths             CuART and GRT, keys of 4 to 32 bytes
  lanetree-bench bench --figure cuart-long               CuART's three ways with keys of more than 32 bytes
  lanetree-bench bench --figure cuart-cpu --sizes 20,24  radix trees on the CPU
  lanetree-bench bench --figure cuart-real --input DIR   addresses, words and paths of one's own
  lanetree-bench bench --keys books_200M_uint64 --only ceilings,lookups,ranges

Every output of a row's last run is compared with what is right before its figure is given.
Exit codes: 0 measured, 1 a wrong answer, 2 could not run (no GPU when one was asked for, bad
arguments, a corrupt file of keys).")]
pub(crate) struct Args {
    /// Where to run; auto: the first GPU, or without one the host
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    device: Choice,
    /// Keys of the trees, as powers of two [default on a GPU: 20,24,26,28]
    #[arg(long, value_name = "LOG2", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=30))]
    sizes: Vec<u32>,
    /// Queries of a batch, as a power of two [default on a GPU: 26]
    #[arg(long, value_name = "LOG2", value_parser = clap::value_parser!(u32).range(0..=30))]
    queries: Option<u32>,
    /// Only these parts [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART", conflicts_with = "figure")]
    only: Vec<Section>,
    /// A figure of a paper, instead of the parts
    #[arg(long, value_enum)]
    figure: Option<Figure>,
    /// Real keys, instead of uniform ones; sorted, and each taken once
    #[arg(long, value_name = "FILE", conflicts_with = "sizes")]
    keys: Option<PathBuf>,
    /// Bits of the file's keys
    #[arg(long, value_enum, default_value_t = KeyWidth::B64, requires = "keys")]
    key_width: KeyWidth,
    /// How the file holds them
    #[arg(long, value_enum, default_value_t = Format::Sosd, requires = "keys")]
    format: Format,
    /// A folder with files geoip6, words or paths (one a line) for the figure cuart-real [default: as Debian has them]
    #[arg(long, value_name = "DIR")]
    input: Option<PathBuf>,
    /// Smaller trees and batches, fewer runs
    #[arg(long)]
    quick: bool,
    /// Decides all keys and queries
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Begins no row after this time; says which ones are missing
    #[arg(long, value_name = "SECONDS")]
    max_seconds: Option<u64>,
    /// Keeps all rows, with the times of all runs, in this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The value of `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Choice {
    Auto,
    Cuda,
    Host,
    Emulated,
}

/// The value of `--figure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Figure {
    /// Harmonia's fanouts, narrowed thread groups and child regions, at one size
    #[value(name = "harmonia-ntg")]
    Ntg,
    /// The paper's optimisations one after another, from a B+tree with child references on
    #[value(name = "harmonia-ladder")]
    Ladder,
    /// The paper's figures 2 and 3: memory transactions and comparisons, counted on the emulator
    #[value(name = "harmonia-memory")]
    Memory,
    /// The paper's figure 8: queries not sorted, partially sorted (PSA) and sorted, at every fanout; and whether
    /// the library's choice among them is the fastest
    #[value(name = "harmonia-psa")]
    Psa,
    /// Every fanout and width of thread groups, for queries sorted by few or many bits, at one size
    #[value(name = "harmonia-psa-widths")]
    PsaWidths,
    /// The latency of small batches in host memory, of Harmonia and CuART: medians and 99th percentiles
    #[value(name = "latency")]
    Latency,
    /// CuART's paper, figure 11: look-ups by the keys' width, beside GRT's
    #[value(name = "cuart-widths")]
    CuartWidths,
    /// CuART's paper, figure 10: look-ups by the tree's size, keys of 32 bytes, beside GRT's
    #[value(name = "cuart-sizes")]
    CuartSizes,
    /// CuART: look-ups by the lanes that compare a key, keys of 8 to 256 bytes
    #[value(name = "cuart-lanes")]
    CuartLanes,
    /// CuART's paper, figures 8 and 9: batches in host memory
    #[value(name = "cuart-batches")]
    CuartBatches,
    /// CuART's paper, figures 13 and 14, and the other two ways: batches in host memory, a share of them long keys;
    /// trees of at most 2^22 keys unless --sizes says otherwise
    #[value(name = "cuart-long")]
    CuartLong,
    /// CuART's paper, figures 15 to 17: updates by batch and engine, beside look-ups and GRT's updates
    #[value(name = "cuart-updates")]
    CuartUpdates,
    /// Beyond CuART's paper: bulk builds and compaction on the device
    #[value(name = "cuart-builds")]
    CuartBuilds,
    /// Beyond CuART's paper: inserts and removals on the device
    #[value(name = "cuart-inserts")]
    CuartInserts,
    /// CuART's paper, figure 7: look-ups on the CPU, beside the tree with pointers and two crates; needs no GPU
    #[value(name = "cuart-cpu")]
    CuartCpu,
    /// CuART's paper, figure 12: look-ups of keys with long common beginnings (synthetic URLs), beside GRT's
    #[value(name = "cuart-urls")]
    CuartUrls,
    /// Beyond CuART's paper: IPv6 addresses, words and file paths of a Debian system, beside GRT and the CPU
    #[value(name = "cuart-real")]
    CuartReal,
}

/// The value of `--key-width`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum KeyWidth {
    #[value(name = "32")]
    B32,
    #[value(name = "64")]
    B64,
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
    let (device, no_gpu) = device(args.device)?;
    let mut plan = Plan::of(device.kind(), args.quick);
    if !args.sizes.is_empty() {
        plan.cpu = args.sizes.clone();
        plan.cuart_cpu = args.sizes.clone();
        plan.sizes = args.sizes.clone();
        plan.ladder = args.sizes.clone();
        plan.psa = args.sizes.clone();
        plan.is_default = false;
        plan.long_keys = plan.main_size();
    }
    plan.queries = args.queries.unwrap_or(plan.queries);
    if args.figure == Some(Figure::Memory) && !(args.sizes.is_empty() && args.keys.is_none()) {
        return Err(Error::Usage("figure harmonia-memory counts in a tree of its own: no --sizes, no --keys".into()));
    }
    if args.input.is_some() && args.figure != Some(Figure::CuartReal) {
        return Err(Error::Usage("--input is for --figure cuart-real".into()));
    }
    // Before the work, not after it: a file that cannot be written is worth no minutes.
    let json = match &args.json {
        Some(path) => Some((path, File::create(path).map_err(|source| Error::Write { path: path.clone(), source })?)),
        None => None,
    };
    let machine = Machine::of(&device)?;
    say(|out| writeln!(out, "{}", machine.header()))?;
    let (command, version) = ("bench", env!("CARGO_PKG_VERSION"));
    let (rows, skipped) = (Vec::new(), Vec::new());
    let report = Report { command, version, machine, seed: args.seed, rows, memory: None, skipped, failure: None };
    let sections = match (args.figure, args.only.is_empty()) {
        (Some(Figure::Ntg), _) => [Section::HarmoniaNtg].into(),
        (Some(Figure::Ladder), _) => [Section::HarmoniaLadder].into(),
        (Some(Figure::Psa), _) => [Section::HarmoniaPsa].into(),
        (Some(Figure::PsaWidths), _) => [Section::HarmoniaPsaWidths].into(),
        (Some(Figure::Memory), _) => [].into(),
        (Some(Figure::Latency), _) => [Section::Latency].into(),
        (Some(Figure::CuartWidths | Figure::CuartSizes | Figure::CuartUrls), _) => {
            [Section::Ceilings, Section::CuartLookups].into()
        }
        (Some(Figure::CuartLanes), _) => [Section::CuartLanes].into(),
        (Some(Figure::CuartBatches), _) => [Section::CuartBatches].into(),
        (Some(Figure::CuartLong), _) => [Section::CuartLong].into(),
        (Some(Figure::CuartUpdates), _) => [Section::CuartUpdates].into(),
        (Some(Figure::CuartBuilds), _) => [Section::CuartBuilds].into(),
        (Some(Figure::CuartInserts), _) => [Section::CuartInserts].into(),
        (Some(Figure::CuartCpu), _) => [Section::CuartCpu].into(),
        (Some(Figure::CuartReal), _) => [Section::CuartReal].into(),
        (None, true) => run::PARTS.into(),
        (None, false) => args.only.iter().copied().collect(),
    };
    let deadline = args.max_seconds.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
    let mut session = Session::new(device, plan, sections, deadline, report)?;
    // These figures are the same with a GPU and without: counted on the emulator, or the CPU's.
    if !matches!(args.figure, Some(Figure::Memory | Figure::CuartCpu)) {
        say_what_is_missing(&mut session, no_gpu);
    }
    let outcome = run::run(&mut session, args);
    let mut report = session.finish();
    report.failure = outcome.as_ref().err().map(ToString::to_string);
    say(|out| table::print(&report, out))?;
    if let Some((path, file)) = json {
        write_json(&report, file, path)?;
    }
    outcome?;
    if report.rows.is_empty() && report.memory.is_none() {
        return Err(Error::Usage("nothing was measured".into()));
    }
    Ok(())
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

/// The device, and if that is none that was asked for, why there is no GPU.
fn device(choice: Choice) -> Result<(Device, Option<String>)> {
    Ok(match choice {
        Choice::Cuda => (Device::cuda(0)?, None),
        Choice::Host => (Device::host(), None),
        Choice::Emulated => (Device::emulated(), None),
        Choice::Auto => match Device::cuda(0) {
            Ok(device) => (device, None),
            Err(error) => (Device::host(), Some(error.to_string())),
        },
    })
}

fn write_json(report: &Report, file: File, path: &Path) -> Result<()> {
    let mut file = BufWriter::new(file);
    let written = serde_json::to_writer_pretty(&mut file, report).map_err(io::Error::from);
    let written = written.and_then(|()| writeln!(file)).and_then(|()| file.flush());
    written.map_err(|source| Error::Write { path: path.into(), source })
}

/// Writes to stdout. A reader who has seen enough and left is no error.
fn say(write: impl FnOnce(&mut io::StdoutLock<'static>) -> io::Result<()>) -> Result<()> {
    match write(&mut io::stdout().lock()) {
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::Write { path: "stdout".into(), source })
        }
        _ => Ok(()),
    }
}
