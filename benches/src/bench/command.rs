//! The command line, and a run from its start to its end.

use super::all;
use super::args::{Args, KeyWidth};
use super::driver;
use super::error::{Error, Result};
use super::figure::{Figure, Needs, Request, Run};
use super::figures::{FIGURES, parts};
use super::machine;
use super::made::Making;
use super::plan::{Plan, Scale};
use super::report::Report;
use super::session::Session;
use core::time::Duration;
use lanetree::{Device, DeviceKind};
use lanetree_console::choice::Chosen;
use lanetree_console::output::{JsonFile, say};
use lanetree_record::Built;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

/// Runs the command, of a program that was built from this.
pub(crate) fn run(args: &Args, built: Option<Built>) -> ExitCode {
    let outcome =
        args.check().and_then(|()| if args.is_several_runs() { all::run(args, built) } else { bench(args, built) });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn bench(args: &Args, built: Option<Built>) -> Result<()> {
    let making = Making::begin(built);
    let figures: Vec<&'static Figure> = match (args.figure, args.only.is_empty()) {
        (Some(figure), _) => vec![figure],
        (None, true) => parts().collect(),
        // In the list's order, and each once.
        (None, false) => parts().filter(|part| args.only.iter().any(|only| only.name == part.name)).collect(),
    };
    let (device, no_gpu) = match args.device.open_with(args.ptx.as_deref())? {
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
    report.record.made.push(making.end(report.record.rows.len()));
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
