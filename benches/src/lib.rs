//! Lanetree's bench: how fast the indexes are. It needs nothing but itself, and for a GPU its driver.
//!
//! The program calls [`main`]. The library is there for it and for its tests alone.

mod bench;
pub mod keys;

/// For tests that measure: as unit tests, they would compile all figures a second time.
#[doc(hidden)]
pub use bench::{measured, part_names};

use clap::Parser;
use std::process::ExitCode;

/// Does what the program's arguments ask for; gives its exit code. `built` says what the program was built from: the JSON of
/// a [`lanetree_record::Built`].
pub fn main(built: Option<&str>) -> ExitCode {
    // Of the program's own child processes; no option begins with it.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == bench::FIRST_ANSWER) {
        return bench::first_answer(&bench::FirstAnswer::parse_from(std::env::args_os().skip(1)));
    }
    bench::run(&bench::Args::parse(), built.and_then(|built| serde_json::from_str(built).ok()))
}
