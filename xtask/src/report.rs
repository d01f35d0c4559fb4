//! `report`: the page of figures and claims, made by a crate of its own from the records.

use crate::failure::{Failure, Result};
use crate::runner::Options;
use crate::{paths, process};
use std::process::Command;

/// Builds the program and runs it, with the caller's arguments and in the caller's folder; its exit code is ours.
pub(crate) fn run(options: &Options) -> Result<()> {
    process::run(process::cargo().args(["build", "--locked", "--package", "lanetree-report"]))?;
    let program = paths::target().join("debug/lanetree-report");
    let status = Command::new(&program).args(&options.arguments).status();
    let status = status.map_err(|error| Failure::CannotRun(format!("cannot start {}: {error}", program.display())))?;
    if status.success() { Ok(()) } else { Err(Failure::Runner(process::exit_code(status))) }
}
