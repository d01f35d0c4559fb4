//! `ci`: everything that continuous integration runs, up to the first failure.
//!
//! Two steps leave one of two cores idle for minutes: the compiler of kernels, which links each crate on one, and Python's tests. They
//! run beside the others, whose ends leave a core idle too.

use crate::failure::{Failure, Result};
use crate::{circles, first_build, memory, pages, paths, process, report, runner, stub, template};
use clap::Args;
use std::fmt;
use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
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
    let (mut steps, start) = (Steps::default(), Instant::now());
    let result = run_all(&mut steps, options);
    steps.total = start.elapsed();
    println!("\n{steps}");
    result
}

fn run_all(steps: &mut Steps, options: &Options) -> Result<()> {
    let (stop, memory) = (AtomicBool::new(false), &memory::Folder::new());
    let (others, beside) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| run_beside(options, memory, &stop));
        let others = run_others(steps, memory);
        stop.store(others.is_err(), Ordering::Relaxed);
        (others, beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    steps.list.extend(beside.0.list);
    others.and(beside.1)?;
    // It compiles in the folder that `ptx --check` compiles in.
    steps.run("a user's own kernel", template::run)?;
    steps.run("integrations", || {
        process::run(integrations().args(["fmt", "--check"]))?;
        process::run(memory.of(integrations().args(["test", "--workspace", "--locked"])))
    })
}

/// The steps that run beside others: tasks of this program, one after another until one fails or `stop` is set. What each says comes
/// when it has ended.
fn run_beside(options: &Options, memory: &memory::Folder, stop: &AtomicBool) -> (Steps, Result<()>) {
    let ptx = checking_ptx(options);
    let ptx: Vec<_> = ptx.iter().map(String::as_str).collect();
    let mut steps = Steps::default();
    for (name, arguments) in [("ptx --check", &ptx[..]), ("python", &["python"])] {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let start = Instant::now();
        let result = task(arguments, memory);
        let said = std::fs::read_to_string(log(arguments[0])).unwrap_or_default();
        println!("\n==== {name}, beside the others\n{said}==== {name} ends");
        steps.list.push(Step { name: name.to_owned(), time: start.elapsed(), passed: result.is_ok(), beside: true });
        if result.is_err() {
            return (steps, result);
        }
    }
    (steps, Ok(()))
}

/// The task that checks the PTX.
fn checking_ptx(options: &Options) -> Vec<String> {
    let architectures = if options.full { &lanetree_ptx::ARCHITECTURES[..] } else { &ARCHITECTURES };
    let architectures = architectures.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let task = format!("ptx --check --strict --assemble --arch {architectures}");
    let unrecorded = if options.full { None } else { Some("--unrecorded") };
    task.split(' ').chain(unrecorded).map(str::to_owned).collect()
}

/// Runs a task of this program; what it says goes to [`log`].
fn task(arguments: &[&str], memory: &memory::Folder) -> Result<()> {
    let path = log(arguments[0]);
    paths::write(&path, "")?;
    let cannot = |error| Failure::CannotRun(format!("cannot write {}: {error}", paths::shown(&path)));
    let file = File::options().append(true).open(&path).map_err(cannot)?;
    // Not by its path, at which the tests put a program that they have built anew.
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments).stdin(std::process::Stdio::null());
    command.stdout(file.try_clone().map_err(cannot)?).stderr(file);
    process::run(memory.of(&mut command)).map_err(|failure| match failure {
        Failure::Child { code, .. } => Failure::Child { command: format!("cargo xtask {}", arguments.join(" ")), code },
        other => other,
    })
}

/// Where a task writes that runs beside others.
fn log(task: &str) -> std::path::PathBuf {
    paths::target().join("ci").join(format!("{task}.log"))
}

/// All other steps, but for those that follow both.
fn run_others(steps: &mut Steps, memory: &memory::Folder) -> Result<()> {
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
        pages::prepare()?;
        let mut command = process::cargo();
        command.args(["doc", "--workspace", "--no-deps", "--features", "cust", "--locked"]);
        command.env("CUDA_LIBRARY_PATH", stub::library_path()?);
        process::run(command.env("RUSTDOCFLAGS", "-D warnings"))?;
        pages::run()
    })?;
    steps.run("tests", || {
        let mut command = process::cargo();
        process::run(memory.of(tests(command.args(["test", "--workspace", "--locked"]))))
    })?;
    steps.run("tests of the runtime, feature cuda", || {
        cargo(&["test", "--package", "lanetree-runtime", "--features", "cuda", "--locked"])
    })?;
    steps.run("report", || report::run(&runner::Options::default()))?;
    steps.run("a user's first build", first_build::run)?;
    steps.run("verify --quick --device emulated", || {
        // The tests have just built it, in their profile; to build it by itself would compile all kernels again,
        // for as long as the tests took.
        let program = paths::target().join("debug").join(runner::VERIFY);
        process::run(tests(Command::new(program).args(["--quick", "--device", "emulated"])))
    })?;
    steps.run("other platforms", other_platforms)
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

/// Cargo in the workspace of arrow and DataFusion. Its target folder stays apart from the main one: other features, other versions. No
/// clippy: it would compile all of DataFusion a second time.
fn integrations() -> Command {
    let mut command = process::cargo();
    command.current_dir(paths::root().join("integrations"));
    command.env("CARGO_TARGET_DIR", paths::target().join("integrations"));
    command
}

/// Fails calls at every eighth of their points after the first dozen instead of each, which would take minutes more; and lets tests
/// wait for one another while others run.
fn tests(command: &mut Command) -> &mut Command {
    command.env("LANETREE_FAILURE_STRIDE", "8").env("RUST_TEST_THREADS", "4")
}

/// The steps so far, and the time of all.
#[derive(Default)]
struct Steps {
    list: Vec<Step>,
    total: Duration,
}

/// What a step took, and whether it passed.
struct Step {
    name: String,
    time: Duration,
    passed: bool,
    beside: bool,
}

impl Steps {
    fn run(&mut self, name: &str, run: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n==== {name}");
        let start = Instant::now();
        let result = run();
        let (name, time) = (name.to_owned(), start.elapsed());
        self.list.push(Step { name, time, passed: result.is_ok(), beside: false });
        result
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Step { name, time, passed, beside } in &self.list {
            let outcome = if *passed { "passed" } else { "FAILED" };
            let beside = if *beside { " (beside the others)" } else { "" };
            writeln!(f, "{:6.0} s  {outcome}  {name}{beside}", time.as_secs_f64())?;
        }
        let outcome =
            if self.list.iter().all(|step| step.passed) { "all steps passed" } else { "the rest was not run" };
        write!(f, "{:6.0} s  {outcome}", self.total.as_secs_f64())
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
    use clap::Parser;

    #[test]
    fn the_oldest_the_counted_and_the_newest_architecture_are_assembled_for() {
        let [oldest, .., newest] = lanetree_ptx::ARCHITECTURES;
        assert_eq!(ARCHITECTURES, [oldest, lanetree_ptx::COUNTED_ON, newest]);
    }

    #[test]
    fn each_step_is_listed_with_its_time() {
        let mut steps = Steps::default();
        assert!(steps.run("format", || Ok(())).is_ok());
        steps.list[0].time = Duration::from_secs(75);
        let python = Step { name: "python".to_owned(), time: Duration::from_secs(60), passed: true, beside: true };
        steps.list.push(python);
        steps.total = Duration::from_secs(80);
        let text = "    75 s  passed  format\n    60 s  passed  python (beside the others)\n";
        assert_eq!(steps.to_string(), format!("{text}    80 s  all steps passed"));
        assert!(steps.run("tests", || Err(Failure::Wrong("x".to_owned()))).is_err());
        assert_eq!(steps.to_string(), format!("{text}     0 s  FAILED  tests\n    80 s  the rest was not run"));
    }

    #[test]
    fn tasks_beside_others_are_understood() {
        for full in [false, true] {
            let task = checking_ptx(&Options { full });
            let program = ["cargo xtask".to_owned()];
            crate::Arguments::try_parse_from(program.iter().chain(&task)).expect("the task is well formed");
            assert_eq!(task.contains(&"--unrecorded".to_owned()), !full);
        }
    }

    #[test]
    fn a_task_beside_others_gives_its_outcome() {
        // This program is the tests', which know no such test, and no such option.
        let memory = memory::Folder::new();
        assert!(task(&["no-such-test"], &memory).is_ok());
        assert!(std::fs::read_to_string(log("no-such-test")).is_ok_and(|text| text.contains("0 passed")));
        assert!(task(&["--no-such-option"], &memory).is_err());
        for task in ["no-such-test", "--no-such-option"] {
            let _gone = std::fs::remove_file(log(task));
        }
    }
}
