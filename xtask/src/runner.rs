//! `verify` and `bench`: builds the runner and hands over to it.

use crate::failure::{Failure, Result};
use crate::{paths, process, stub};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// Everything after the task's name goes to the program.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// The program's arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<OsString>,
}

/// Runs a task of the runner, with CUDA by way of cust where there is a driver; its exit code is ours.
pub(crate) fn run(task: &str, options: &Options) -> Result<()> {
    let program = build(stub::driver().is_some())?;
    let mut command = Command::new(&program);
    let status = command.arg(task).args(&options.arguments).status();
    let status = status.map_err(|error| Failure::CannotRun(format!("cannot start {}: {error}", program.display())))?;
    if status.success() { Ok(()) } else { Err(Failure::Runner(process::exit_code(status))) }
}

/// Builds the runner, with or without CUDA; returns the program. With it, on cust: as the host programs run that
/// Lanetree was made for.
pub(crate) fn build(cuda: bool) -> Result<PathBuf> {
    let mut command = process::cargo();
    command.args(["build", "--release", "--locked", "--package", "lanetree-bench"]);
    let mut target = paths::target();
    if cuda {
        command.args(["--features", "cust"]).env("CUDA_LIBRARY_PATH", stub::library_path()?);
        // A folder of its own: the two builds would take turns in recompiling everything.
        target.push("cuda");
    }
    process::run(command.env("CARGO_TARGET_DIR", &target))?;
    Ok(target.join("release/lanetree-bench"))
}
