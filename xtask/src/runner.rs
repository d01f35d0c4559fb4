//! `verify` and `bench`: each is a program, which is built and handed over to.

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

/// The packages, and the names of their programs.
pub(crate) const VERIFY: &str = "lanetree-verify";
pub(crate) const BENCH: &str = "lanetree-bench";

/// Runs a program, with CUDA by way of cust where there is a driver; its exit code is ours.
pub(crate) fn run(program: &str, options: &Options) -> Result<()> {
    let program = build(&[program], stub::driver().is_some())?.join(program);
    let status = Command::new(&program).args(&options.arguments).status();
    let status = status.map_err(|error| Failure::CannotRun(format!("cannot start {}: {error}", program.display())))?;
    if status.success() { Ok(()) } else { Err(Failure::Runner(process::exit_code(status))) }
}

/// Builds programs, with or without CUDA; returns their folder. With it, on cust: as the host programs run that Lanetree
/// was made for.
pub(crate) fn build(programs: &[&str], cuda: bool) -> Result<PathBuf> {
    let mut command = process::cargo();
    // Without a GPU, to verify takes less time than to optimise the verifier.
    let profile = if !cuda && programs == [VERIFY] { "verify" } else { "release" };
    command.args(["build", "--profile", profile, "--locked"]);
    command.args(programs.iter().flat_map(|program| ["--package", program]));
    let mut target = paths::target();
    if cuda {
        command.args(["--features", "cust"]).env("CUDA_LIBRARY_PATH", stub::library_path()?);
        // A folder of its own: the two builds would take turns in recompiling everything.
        target.push("cuda");
    }
    process::run(command.env("CARGO_TARGET_DIR", &target))?;
    Ok(target.join(profile))
}
