//! `ci`: everything that continuous integration runs, in order, up to the first failure.

use crate::failure::Result;
use crate::{circles, first_build, paths, process, ptx, python, report, runner, stub, template};
use clap::Args;
use std::fmt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Everything that continuous integration runs.
#[derive(Args)]
pub(crate) struct Options {
    /// Assemble all PTX anew, for every architecture (by default: for the one whose registers are counted, and, unless
    /// the manifests record it, for the oldest and the newest one)
    #[arg(long)]
    full: bool,
}

/// What the PTX is assembled for: the one that registers are counted and figures are measured on, in every run; the
/// oldest and the newest architecture, unless the same PTX is recorded to have been. Those in between are assembled
/// with `--full`.
const ARCHITECTURES: [u32; 3] = [75, 90, 120];

/// Runs the steps, and tells at the end what each took.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut steps = Steps::default();
    let result = run_all(&mut steps, options);
    println!("\n{steps}");
    result
}

fn run_all(steps: &mut Steps, options: &Options) -> Result<()> {
    steps.run("format", || {
        cargo(&["fmt", "--all", "--check"])?;
        let mut command = process::cargo();
        process::run(command.current_dir(paths::root().join(template::FOLDER)).args(["fmt", "--check"]))
    })?;
    steps.run("imports", circles::run)?;
    // Everything once, with all that can be had; and the runtime, which alone differs, without cust and without cuda.
    let clippy =
        |packages: &[&'static str]| on_cust(&[&["clippy"], packages, &["--locked", "--", "-D", "warnings"]].concat());
    steps.run("clippy", || {
        clippy(&["--workspace", "--all-targets", "--features", "cust"])?;
        clippy(&["--package", "lanetree-runtime", "--lib", "--features", "cuda"])?;
        clippy(&["--package", "lanetree-runtime", "--lib"])
    })?;
    steps.run("documentation", || {
        let mut command = process::cargo();
        command.args(["doc", "--workspace", "--no-deps", "--features", "cust", "--locked"]);
        command.env("CUDA_LIBRARY_PATH", stub::library_path()?);
        process::run(command.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    let architectures = if options.full { &lanetree_ptx::ARCHITECTURES[..] } else { &ARCHITECTURES };
    steps.run("ptx --check", || ptx::run(&ptx::Options::checking(architectures, !options.full)))?;
    steps.run("tests", || {
        let mut command = process::cargo();
        process::run(tests(command.args(["test", "--workspace", "--locked"])))
    })?;
    steps.run("tests of the runtime, feature cuda", || {
        cargo(&["test", "--package", "lanetree-runtime", "--features", "cuda", "--locked"])
    })?;
    steps.run("report", || report::run(&runner::Options::default()))?;
    steps.run("a user's first build", first_build::run)?;
    steps.run("a user's own kernel", template::run)?;
    steps.run("verify --quick --device emulated", || {
        // The tests have just built it, in their profile; to build it by itself would compile all kernels again,
        // for as long as the tests took.
        let program = paths::target().join("debug").join(runner::VERIFY);
        process::run(tests(Command::new(program).args(["--quick", "--device", "emulated"])))
    })?;
    steps.run("other platforms", other_platforms)?;
    steps.run("python", || python::run(&python::Options::default()))?;
    steps.run("integrations", || {
        integrations(&["fmt", "--check"])?;
        integrations(&["test", "--workspace", "--locked"])
    })
}

/// Platforms that have no test machine: type-checked, with these features. Files are those of Unix.
const PLATFORMS: [(&str, &str); 2] = [
    ("aarch64-unknown-linux-gnu", "all-indexes,cuda,emulator,files"),
    ("x86_64-pc-windows-msvc", "all-indexes,cuda,emulator"),
];

/// Checks the library for other platforms. Rustup fetches their standard libraries.
fn other_platforms() -> Result<()> {
    let root = paths::root();
    process::run(
        Command::new("rustup").args(["target", "add"]).args(PLATFORMS.map(|(platform, _)| platform)).current_dir(&root),
    )?;
    for (platform, features) in PLATFORMS {
        cargo(&["check", "--package", "lanetree", "--features", features, "--target", platform, "--locked"])?;
    }
    Ok(())
}

/// Cargo in the workspace of arrow and DataFusion. Its folder stays apart from the main one: other features, other versions. No
/// clippy: it would compile all of DataFusion a second time.
fn integrations(arguments: &[&str]) -> Result<()> {
    let mut command = process::cargo();
    command.current_dir(paths::root().join("integrations"));
    process::run(command.args(arguments).env("CARGO_TARGET_DIR", paths::target().join("integrations")))
}

/// Fails calls at every eighth of their points after the first dozen instead of each, which would take minutes more; and lets tests
/// wait for one another while others run.
fn tests(command: &mut Command) -> &mut Command {
    command.env("LANETREE_FAILURE_STRIDE", "8").env("RUST_TEST_THREADS", "4")
}

/// The steps so far: what each took, and whether it passed.
#[derive(Default)]
struct Steps(Vec<(String, Duration, bool)>);

impl Steps {
    fn run(&mut self, name: &str, run: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n==== {name}");
        let start = Instant::now();
        let result = run();
        self.0.push((name.to_owned(), start.elapsed(), result.is_ok()));
        result
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, time, passed) in &self.0 {
            let outcome = if *passed { "passed" } else { "FAILED" };
            writeln!(f, "{:6.0} s  {outcome}  {name}", time.as_secs_f64())?;
        }
        let all: Duration = self.0.iter().map(|step| step.1).sum();
        let outcome = if self.0.iter().all(|step| step.2) { "all steps passed" } else { "the rest was not run" };
        write!(f, "{:6.0} s  {outcome}", all.as_secs_f64())
    }
}

fn cargo(arguments: &[&str]) -> Result<()> {
    process::run(process::cargo().args(arguments))
}

/// With what cust needs to be built.
fn on_cust(arguments: &[&str]) -> Result<()> {
    process::run(process::cargo().args(arguments).env("CUDA_LIBRARY_PATH", stub::library_path()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn the_oldest_the_counted_and_the_newest_architecture_are_assembled_for() {
        let [oldest, .., newest] = lanetree_ptx::ARCHITECTURES;
        assert_eq!(ARCHITECTURES, [oldest, lanetree_ptx::COUNTED_ON, newest]);
    }

    #[test]
    fn each_step_is_listed_with_its_time() {
        let mut steps = Steps::default();
        assert!(steps.run("format", || Ok(())).is_ok());
        steps.0[0].1 = Duration::from_secs(75);
        assert_eq!(steps.to_string(), "    75 s  passed  format\n    75 s  all steps passed");
        assert!(steps.run("tests", || Err(Failure::Wrong("x".to_owned()))).is_err());
        assert_eq!(
            steps.to_string(),
            "    75 s  passed  format\n     0 s  FAILED  tests\n    75 s  the rest was not run"
        );
    }
}
