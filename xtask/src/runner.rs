//! `verify` and `bench`: each is a program, which is built and handed over to.

use crate::failure::{Failure, Result};
use crate::{built, paths, process, stub};
use clap::{Args, ValueEnum};
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

/// The options of `verify`.
#[derive(Args, Default)]
pub(crate) struct VerifyOptions {
    /// Runs the program under this tool of compute-sanitizer; of the GPU a sample, unless the arguments say otherwise. Comes
    /// first
    #[arg(long, value_enum, value_name = "TOOL")]
    pub(crate) sanitize: Option<Tool>,
    #[command(flatten)]
    pub(crate) program: Options,
}

/// The tools of compute-sanitizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tool {
    /// Accesses outside of what is allocated
    Memcheck,
    /// Reads of global memory that nothing has written
    Initcheck,
    /// Barriers that some threads do not reach
    Synccheck,
    /// Races in shared memory
    Racecheck,
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

/// Runs the verifier, perhaps under compute-sanitizer.
pub(crate) fn verify(options: &VerifyOptions) -> Result<()> {
    let Some(tool) = options.sanitize else { return run(VERIFY, &options.program) };
    let sanitizer = process::which("compute-sanitizer").ok_or_else(|| {
        let reason = "compute-sanitizer is not on the PATH: it is in the folder bin of the CUDA toolkit";
        Failure::CannotRun(reason.to_owned())
    })?;
    if stub::driver().is_none() {
        return Err(Failure::CannotRun("compute-sanitizer needs a GPU, and there is no driver".to_owned()));
    }
    let program = build(&[VERIFY], true)?.join(VERIFY);
    let mut command = Command::new(sanitizer);
    command.args(["--tool", &tool.name(), "--error-exitcode", "1"]).arg(program);
    let status = command.args(sampled(&options.program.arguments)).status();
    let status = status.map_err(|error| Failure::CannotRun(format!("cannot start compute-sanitizer: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure::Runner(process::exit_code(status))) }
}

impl Tool {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// The arguments of a run on the GPU that ends under compute-sanitizer, unless they ask for something else.
fn sampled(arguments: &[OsString]) -> Vec<OsString> {
    let has = |names: &[&str]| {
        let is = |argument: &OsString, name: &&str| {
            argument.to_str().is_some_and(|argument| argument.split('=').next() == Some(name))
        };
        arguments.iter().any(|argument| names.iter().any(|name| is(argument, name)))
    };
    let mut all: Vec<OsString> = Vec::new();
    if !has(&["--device"]) {
        all.extend(["--device", "cuda"].map(OsString::from));
    }
    if !has(&["--sample", "--quick", "--full"]) {
        all.extend(["--sample", "1"].map(OsString::from));
    }
    all.extend_from_slice(arguments);
    all
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
    if programs.contains(&BENCH)
        && let Some(built) = built::from()
    {
        command.env(built::VARIABLE, built);
    }
    process::run(command.env("CARGO_TARGET_DIR", &target))?;
    Ok(target.join(profile))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_under_a_sanitizer_is_a_sample_on_the_gpu_unless_asked_otherwise() {
        let sampled = |arguments: &[&str]| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            sampled(&arguments)
                .into_iter()
                .map(|argument| argument.into_string().unwrap())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(sampled(&[]), "--device cuda --sample 1");
        assert_eq!(sampled(&["--index", "cubpt"]), "--device cuda --sample 1 --index cubpt");
        assert_eq!(sampled(&["--sample=3", "--device=cuda"]), "--sample=3 --device=cuda");
        assert_eq!(sampled(&["--quick"]), "--device cuda --quick");
        assert_eq!(Tool::Synccheck.name(), "synccheck");
    }
}
