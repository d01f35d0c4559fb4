//! `bundle`: a folder that runs on a GPU machine with nothing but the driver.

use crate::failure::{Failure, Result};
use crate::{paths, process, runner};
use clap::Args;
use std::path::PathBuf;
use std::process::Command;

/// Build a folder that runs on a GPU machine with nothing but the driver.
#[derive(Args)]
pub(crate) struct Options {
    /// The folder to put it into
    #[arg(long, default_value = "bundle")]
    out: PathBuf,
}

const README: &str = "# Lanetree's runner

One program, for Linux on x86-64 with an NVIDIA driver of 470 or later. Nothing else is needed: the
kernels are in it, as PTX that the driver compiles.

    ./lanetree-bench verify --quick               every kernel against the oracle, small sizes
    ./lanetree-bench verify --full                all sizes, key types and distributions
    ./lanetree-bench bench                        the figures
    ./lanetree-bench bench --json figures.json    and keep them
    ./lanetree-bench --help

Under NVIDIA's compute-sanitizer, one tool at a time:

    for tool in memcheck racecheck initcheck synccheck; do
        compute-sanitizer --tool $tool --error-exitcode 1 ./lanetree-bench verify --quick --device cuda || break
    done

Exit codes: 0 passed, 1 wrong, 2 could not run.

If the program does not start: `libcuda.so.1: cannot open shared object file` says that the driver is
missing or not on the loader's path; `version GLIBC_… not found`, that this machine's system is older
than the one the bundle was built on.
";

/// Runs the task.
pub(crate) fn run(options: &Options) -> Result<()> {
    let built = runner::build(true)?;
    let folder = paths::root().join(&options.out);
    let program = folder.join("lanetree-bench");
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::copy(&built, &program))
        .map_err(|error| Failure::CannotRun(format!("cannot write {}: {error}", program.display())))?;
    match process::which("strip") {
        Some(strip) => process::run(Command::new(strip).arg(&program))?,
        None => eprintln!("warning: not stripped, as there is no `strip`: apt-get install binutils"),
    }
    paths::write(&folder.join("README.md"), README)?;
    let bytes = program.metadata().map_or(0, |data| data.len());
    println!("{}: {:.1} MB, and how to run it in README.md", paths::shown(&program), bytes as f64 / 1e6);
    Ok(())
}
