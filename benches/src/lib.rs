//! Lanetree's runner: `verify` says whether the indexes are right, `bench` how fast they are. It needs
//! nothing but itself, and for a GPU its driver.
//!
//! The program calls [`main`]. The library is there for it and for its tests alone.

mod bench;
mod choice;
mod kernels;
pub mod keys;
mod output;
mod verify;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Verifies and measures Lanetree's indexes, on a GPU, on the CPU or emulated
#[derive(Parser, Debug)]
#[command(
    name = "lanetree-bench",
    version,
    after_help = "\
Examples:
  lanetree-bench verify                     check every kernel: on the GPU, or emulated without one
  lanetree-bench verify --device cuda --full --json verified.json
  lanetree-bench bench --help               what can be measured

Exit codes: 0 passed, 1 a wrong answer, 2 could not run."
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand, Debug)]
enum Task {
    Verify(verify::Args),
    Bench(bench::Args),
    /// What the figure of this name runs in new processes
    #[command(hide = true)]
    FirstAnswer(bench::FirstAnswer),
}

/// Does what the program's arguments ask for; gives its exit code.
pub fn main() -> ExitCode {
    match Cli::parse().task {
        Task::Verify(args) => verify::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::FirstAnswer(args) => bench::first_answer(&args),
    }
}
