//! Lanetree's bench: how fast the indexes are. It needs nothing but itself, and for a GPU its driver.
//!
//! The program calls [`main`]. The library is there for it and for its tests alone.

mod bench;
pub mod keys;

use clap::Parser;
use std::process::ExitCode;

/// Does what the program's arguments ask for; gives its exit code.
pub fn main() -> ExitCode {
    bench::run(&bench::Args::parse())
}
