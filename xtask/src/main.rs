//! Lanetree's tasks: `cargo xtask --help`.
//!
//! Each task is a file of its own and only starts other programs. Exit codes: 0 done, 1 something is
//! wrong, 2 the task could not run; a failed build or test keeps the code of the program that failed.

mod built;
mod bundle;
mod changes;
mod ci;
mod circles;
mod doctor;
mod first_build;
#[cfg(test)]
mod links;
mod markdown;
mod memory;
mod nvvm;
mod packages;
mod pages;
mod paths;
mod process;
mod ptx;
mod python;
mod release;
mod report;
mod runner;
mod rust_cuda;
mod site;
mod stub;
mod template;

use clap::{Parser, Subcommand};
use lanetree_ptx::failure;
use std::process::ExitCode;

/// Lanetree's tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

const EXAMPLES: &str = "Examples:
  cargo xtask doctor                          what is here, what is missing, how to fix it
  cargo xtask verify --quick                  every kernel against the oracle
  cargo xtask bench --json figures.json       measure, and keep the figures
  cargo xtask report --out report.html        the committed figures and the papers' claims, as a page
  cargo xtask ptx --check                     is the committed PTX what the sources compile to?";

#[derive(Subcommand)]
enum Task {
    /// Say what this machine has, what is missing, and the command that fixes it
    Doctor(doctor::Options),
    /// Compile the kernels to PTX, next to their sources: crates/*/kernels/ptx
    Ptx(ptx::Options),
    /// Check every kernel against the oracle (arguments are lanetree-verify's: try `verify --help`)
    #[command(disable_help_flag = true)]
    Verify(runner::VerifyOptions),
    /// Measure the indexes, their baselines and the card's ceilings (arguments are lanetree-bench's)
    #[command(disable_help_flag = true)]
    Bench(runner::Options),
    /// Make a page of HTML from the records: every figure, and the papers' claims (arguments are lanetree-report's)
    #[command(disable_help_flag = true)]
    Report(runner::Options),
    /// Build a folder that runs on a GPU machine with nothing but the driver
    Bundle(bundle::Options),
    /// Build the Python package's wheel, with the emulator, and test it in an empty environment
    Python(python::Options),
    /// Build the site: the documents as a book, the library's pages, and the page of figures
    Site(site::Options),
    /// List the crates to publish, in their order, and check that everything names a release's version
    Release(release::Options),
    /// What continuous integration runs: everything, or what a change can make fail
    Ci(ci::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Doctor(options) => doctor::run(&options),
        Task::Ptx(options) => ptx::run(&options),
        Task::Verify(options) => runner::verify(&options),
        Task::Bench(options) => runner::run(runner::BENCH, &options),
        Task::Report(options) => report::run(&options),
        Task::Bundle(options) => bundle::run(&options),
        Task::Python(options) => python::run(&options),
        Task::Site(options) => site::run(&options),
        Task::Release(options) => release::run(&options),
        Task::Ci(options) => ci::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn verify_passes_flags_through() {
        let arguments = Arguments::parse_from(["cargo xtask", "verify", "--quick", "--device", "emulated", "--help"]);
        let Task::Verify(options) = arguments.task else { panic!("parsed as another task") };
        assert_eq!(options.program.arguments, ["--quick", "--device", "emulated", "--help"]);
        assert_eq!(options.sanitize, None);
        let arguments = Arguments::parse_from(["cargo xtask", "verify", "--sanitize", "memcheck", "--sample", "2"]);
        let Task::Verify(options) = arguments.task else { panic!("parsed as another task") };
        assert_eq!((options.sanitize, options.program.arguments.len()), (Some(runner::Tool::Memcheck), 2));
    }
}
