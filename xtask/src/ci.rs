//! `ci`: everything that continuous integration runs, in order, up to the first failure.

use crate::failure::Result;
use crate::{paths, process, ptx, stub};
use std::process::Command;
use std::time::Instant;

/// Runs the steps.
pub(crate) fn run() -> Result<()> {
    let start = Instant::now();
    step("format", || cargo(&["fmt", "--all", "--check"]))?;
    step("clippy", || cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))?;
    step("clippy, feature cuda", || {
        let mut command = process::cargo();
        command.args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            "cuda",
            "--locked",
            "--",
            "-D",
            "warnings",
        ]);
        process::run(command.env("CUDA_LIBRARY_PATH", stub::library_path()?))
    })?;
    step("documentation", || {
        let mut command = process::cargo();
        command.args(["doc", "--workspace", "--no-deps", "--locked"]);
        process::run(command.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    step("ptx --check", || ptx::run(&ptx::Options::checking()))?;
    step("tests", || cargo(&["test", "--workspace", "--locked"]))?;
    step("verify --quick --device emulated", || {
        // The tests have just built it, in their profile; to build it by itself would compile all kernels again,
        // for as long as the tests took.
        let runner = paths::target().join("debug/lanetree-bench");
        process::run(Command::new(runner).args(["verify", "--quick", "--device", "emulated"]))
    })?;
    println!("\nall steps passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn step(name: &str, run: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("\n==== {name}");
    let start = Instant::now();
    let result = run();
    let outcome = if result.is_ok() { "passed" } else { "FAILED" };
    println!("==== {name}: {outcome} after {:.0} s", start.elapsed().as_secs_f64());
    result
}

fn cargo(arguments: &[&str]) -> Result<()> {
    process::run(process::cargo().args(arguments))
}
