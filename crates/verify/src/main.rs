//! Lanetree's verifier: every kernel, on every device, against the oracle. It needs nothing but itself, and for a GPU its
//! driver.

mod answer;
mod cases;
mod command;
mod compare;
mod conformance;
mod coverage;
mod cuart;
mod cuart_build;
mod data;
mod grt;
mod index;
mod intervals;
mod joins;
mod kernels;
mod multimap;
mod primitives;
mod radix_sort;
mod report;
mod run;
mod sample;
mod sharded;
mod tally;
mod types;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    command::run(&command::Args::parse())
}
