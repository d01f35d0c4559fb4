//! `ci`: what continuous integration runs, up to the first failure: everything, or what [a change](crate::changes) can make fail.
//!
//! Two steps leave one of two cores idle for minutes: the compiler of kernels, which links each crate on one, and Python's tests. They
//! run beside the others, whose ends leave a core idle too.

use crate::changes::{Plan, Rare, Scope};
use crate::failure::{Failure, Result};
use crate::{changes, circles, first_build, memory, pages, paths, process, report, runner, stub, template};
use clap::Args;
use std::fmt;
use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What continuous integration runs.
#[derive(Args)]
pub(crate) struct Options {
    /// Only what has changed since this commit, at which everything passed, can make fail; everything if it is no ancestor of this one,
    /// or older than four days
    #[arg(long, value_name = "REV")]
    since: Option<String>,
    /// Everything; and assemble all PTX anew, for every architecture (by default: for the one whose registers are counted, and, unless
    /// the manifests record it, for the oldest and the newest one). At the end `.ci/passed` names this commit, from which `.ci/run` takes
    /// the one for `--since`: commit it
    #[arg(long, conflicts_with = "since")]
    full: bool,
}

/// What the PTX is assembled for: the one that registers are counted and figures are measured on, in every run; the
/// oldest and the newest architecture, unless the same PTX is recorded to have been. Those in between are assembled
/// with `--full`.
const ARCHITECTURES: [u32; 3] = [75, 90, 120];

/// Runs the steps, and tells at the end what each took, and which were left out.
pub(crate) fn run(options: &Options) -> Result<()> {
    let (mut steps, start) = (Steps::default(), Instant::now());
    let commit = if options.full { Some(committed()?) } else { None };
    let scope = match options.full {
        true => Scope::Everything("that is what was asked for".to_owned()),
        false => Scope::since(options.since.as_deref())?,
    };
    match &scope {
        Scope::Everything(why) => println!("everything is run: {why}"),
        Scope::Some(plan) => println!("what has changed since {}: {plan}", plan.since),
    }
    let result = run_all(&mut steps, options, &scope);
    steps.total = start.elapsed();
    println!("\n{steps}");
    result?;
    commit.map_or(Ok(()), |commit| paths::write(&paths::root().join(PASSED), &format!("{commit}\n")))
}

/// Names the commit at which everything has passed last.
const PASSED: &str = ".ci/passed";

/// The commit of the working tree.
///
/// # Errors
/// [`Failure::CannotRun`] if it has other changes than of [`PASSED`].
fn committed() -> Result<String> {
    let git = |arguments: &[&str]| process::stdout(Command::new("git").current_dir(paths::root()).args(arguments));
    let changes = git(&["status", "--porcelain", "--", ".", &format!(":(exclude){PASSED}")]);
    match (git(&["rev-parse", "HEAD"]), changes.as_deref().map(str::trim)) {
        (Some(commit), Some("")) => Ok(commit.trim().to_owned()),
        (_, changes) => {
            let why = changes.unwrap_or("git does not say what has changed");
            Err(Failure::CannotRun(format!("`ci --full` says which commit has passed: commit or stash first\n{why}")))
        }
    }
}

fn run_all(steps: &mut Steps, options: &Options, scope: &Scope) -> Result<()> {
    let (stop, memory) = (AtomicBool::new(false), &memory::Folder::new());
    let (others, beside) = std::thread::scope(|threads| {
        let beside = threads.spawn(|| run_beside(options, scope, memory, &stop));
        let others = run_others(steps, scope, memory);
        stop.store(others.is_err(), Ordering::Relaxed);
        (others, beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    steps.list.extend(beside.0.list);
    others.and(beside.1)?;
    // It compiles in the folder that `ptx --check` compiles in.
    steps.rare("a user's own kernel", scope.left_out(Rare::Template), template::run)?;
    steps.rare("integrations", scope.left_out(Rare::Integrations), || {
        process::run(integrations().args(["fmt", "--check"]))?;
        process::run(memory.of(integrations().args(["test", "--workspace", "--locked"])))
    })
}

/// The steps that run beside others: tasks of this program, one after another until one fails or `stop` is set. What each says comes
/// when it has ended.
fn run_beside(options: &Options, scope: &Scope, memory: &memory::Folder, stop: &AtomicBool) -> (Steps, Result<()>) {
    let ptx = checking_ptx(options, scope.plan());
    let ptx: Vec<_> = ptx.iter().map(String::as_str).collect();
    let no_kernel = scope.plan().filter(|plan| plan.kernels.is_empty());
    let no_kernel = no_kernel.map(|plan| format!("no kernel has changed since {}", plan.since));
    let mut steps = Steps::default();
    let python = ("python", &["python"][..], scope.left_out(Rare::Python));
    for (name, arguments, left_out) in [("ptx --check", &ptx[..], no_kernel), python] {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if let Some(why) = left_out {
            steps.leave_out(name, why);
            continue;
        }
        let start = Instant::now();
        let result = task(arguments, memory);
        let said = std::fs::read_to_string(log(arguments[0])).unwrap_or_default();
        println!("\n==== {name}, beside the others\n{said}==== {name} ends");
        let outcome = Outcome::of(&result);
        steps.list.push(Step { name: name.to_owned(), time: start.elapsed(), outcome, beside: true });
        if result.is_err() {
            return (steps, result);
        }
    }
    (steps, Ok(()))
}

/// The task that checks the PTX, of all kernels or of those that a plan names.
fn checking_ptx(options: &Options, plan: Option<&Plan>) -> Vec<String> {
    let architectures = if options.full { &lanetree_ptx::ARCHITECTURES[..] } else { &ARCHITECTURES };
    let architectures = architectures.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let task = format!("ptx --check --strict --assemble --arch {architectures}");
    let unrecorded = if options.full { None } else { Some("--unrecorded") };
    let only =
        plan.map(|plan| format!("--crate={}", plan.kernels.iter().map(String::as_str).collect::<Vec<_>>().join(",")));
    task.split(' ').chain(unrecorded).map(str::to_owned).chain(only).collect()
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
fn run_others(steps: &mut Steps, scope: &Scope, memory: &memory::Folder) -> Result<()> {
    let plan = scope.plan();
    let since = plan.map_or("", |plan| &plan.since);
    steps.run("format", || {
        cargo(&["fmt", "--all", "--check"])?;
        let mut command = process::cargo();
        process::run(command.current_dir(paths::root().join(template::FOLDER)).args(["fmt", "--check"]))
    })?;
    steps.run("lock files", || {
        // Of workspaces that are compiled now and then, but whose dependencies change with this one's.
        changes::WORKSPACES.iter().try_for_each(|(folder, _)| {
            let mut command = process::cargo();
            command.current_dir(paths::root().join(folder)).args(["metadata", "--format-version=1", "--locked"]);
            process::run(command.stdout(std::process::Stdio::null()))
        })
    })?;
    steps.run("imports", circles::run)?;
    // Everything once, with all that can be had; and the runtime, which alone differs, without cust and without cuda.
    let clippy = |packages: &[&str]| on_cust(&[&["clippy"], packages, &["--locked", "--", "-D", "warnings"]].concat());
    steps.run("clippy", || {
        clippy(&[&packages(plan)[..], &["--all-targets", "--features", "cust"]].concat())?;
        if plan.is_some() {
            return Ok(());
        }
        clippy(&["--package", "lanetree-runtime", "--lib", "--features", "cuda"])?;
        clippy(&["--package", "lanetree-runtime", "--lib"])
    })?;
    let no_pages = plan.filter(|plan| !plan.has_pages).map(|_| format!("no source has changed since {since}"));
    steps.rare("documentation", no_pages, || {
        pages::prepare()?;
        let mut command = process::cargo();
        command.args(["doc", "--workspace", "--no-deps", "--features", "cust", "--locked"]);
        command.env("CUDA_LIBRARY_PATH", stub::library_path()?);
        process::run(command.env("RUSTDOCFLAGS", "-D warnings"))?;
        pages::run()
    })?;
    steps.run("tests", || {
        let mut command = process::cargo();
        // All that fails is told at once.
        command.arg("test").args(packages(plan)).args(["--locked", "--no-fail-fast"]);
        process::run(memory.of(tests(&mut command)))
    })?;
    let unchanged = |what: &str| plan.map(|_| format!("{what} has not changed since {since}"));
    steps.rare("tests of the runtime, feature cuda", unchanged("the runtime"), || {
        cargo(&["test", "--package", "lanetree-runtime", "--features", "cuda", "--locked"])
    })?;
    let no_record = plan.filter(|plan| !plan.has("lanetree-report")).and_then(|_| unchanged("what it reports"));
    steps.rare("report", no_record, || report::run(&runner::Options::default()))?;
    steps.rare("a user's first build", scope.left_out(Rare::FirstBuild), first_build::run)?;
    let arguments = verifying(plan);
    steps.run(&format!("verify {}", arguments.join(" ")), || {
        // The tests have just built it, in their profile; to build it by itself would compile all kernels again,
        // for as long as the tests took.
        let program = paths::target().join("debug").join(runner::VERIFY);
        process::run(tests(Command::new(program).args(&arguments)))
    })?;
    steps.rare("other platforms", scope.left_out(Rare::Platforms), other_platforms)
}

/// Names the packages for cargo.
fn packages(plan: Option<&Plan>) -> Vec<&str> {
    plan.map_or(vec!["--workspace"], |plan| {
        plan.packages().into_iter().flat_map(|package| ["--package", package]).collect()
    })
}

/// The verifier's arguments: all indexes, those that a plan names, or a sample.
fn verifying(plan: Option<&Plan>) -> Vec<String> {
    let how = match plan {
        None => "--quick".to_owned(),
        Some(plan) if plan.indexes.is_empty() => "--sample 0 --index lanetree,primitives,sorted".to_owned(),
        Some(plan) => {
            format!("--quick --index {}", plan.indexes.iter().map(String::as_str).collect::<Vec<_>>().join(","))
        }
    };
    format!("{how} --device emulated").split(' ').map(str::to_owned).collect()
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

/// What a step took, and what came of it.
struct Step {
    name: String,
    time: Duration,
    outcome: Outcome,
    beside: bool,
}

#[derive(PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// Why it was left out.
    LeftOut(String),
}

impl Outcome {
    fn of(result: &Result<()>) -> Self {
        if result.is_ok() { Self::Passed } else { Self::Failed }
    }
}

impl Steps {
    fn run(&mut self, name: &str, run: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n==== {name}");
        let start = Instant::now();
        let result = run();
        let (name, time) = (name.to_owned(), start.elapsed());
        self.list.push(Step { name, time, outcome: Outcome::of(&result), beside: false });
        result
    }

    /// Runs a step unless there is a reason to leave it out.
    fn rare(&mut self, name: &str, left_out: Option<String>, run: impl FnOnce() -> Result<()>) -> Result<()> {
        match left_out {
            Some(why) => {
                self.leave_out(name, why);
                Ok(())
            }
            None => self.run(name, run),
        }
    }

    fn leave_out(&mut self, name: &str, why: String) {
        self.list.push(Step {
            name: name.to_owned(),
            time: Duration::ZERO,
            outcome: Outcome::LeftOut(why),
            beside: false,
        });
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Step { name, time, outcome, beside } in &self.list {
            let outcome = match outcome {
                Outcome::Passed => "passed",
                Outcome::Failed => "FAILED",
                Outcome::LeftOut(why) => {
                    writeln!(f, "          left out  {name}: {why}")?;
                    continue;
                }
            };
            let beside = if *beside { " (beside the others)" } else { "" };
            writeln!(f, "{:6.0} s  {outcome}  {name}{beside}", time.as_secs_f64())?;
        }
        let has_failed = self.list.iter().any(|step| step.outcome == Outcome::Failed);
        let outcome = if has_failed { "the rest was not run" } else { "all steps passed" };
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
        let (name, time, outcome) = ("python".to_owned(), Duration::from_secs(60), Outcome::Passed);
        let python = Step { name, time, outcome, beside: true };
        steps.list.push(python);
        steps.total = Duration::from_secs(80);
        assert!(steps.rare("integrations", Some("unchanged".to_owned()), || panic!("left out")).is_ok());
        let text = "    75 s  passed  format\n    60 s  passed  python (beside the others)\n          left out  integrations: unchanged\n";
        assert_eq!(steps.to_string(), format!("{text}    80 s  all steps passed"));
        assert!(steps.run("tests", || Err(Failure::Wrong("x".to_owned()))).is_err());
        assert_eq!(steps.to_string(), format!("{text}     0 s  FAILED  tests\n    80 s  the rest was not run"));
    }

    #[test]
    fn tasks_beside_others_are_understood() {
        let mut plan = Plan::default();
        plan.kernels = ["base", "joins"].map(str::to_owned).into();
        for (full, plan) in [(false, None), (true, None), (false, Some(&plan))] {
            let task = checking_ptx(&Options { since: None, full }, plan);
            let program = ["cargo xtask".to_owned()];
            crate::Arguments::try_parse_from(program.iter().chain(&task)).expect("the task is well formed");
            assert_eq!(task.contains(&"--unrecorded".to_owned()), !full);
            assert_eq!(task.contains(&"--crate=base,joins".to_owned()), plan.is_some());
        }
    }

    #[test]
    fn packages_and_indexes_are_those_of_the_plan() {
        assert_eq!(
            (packages(None), verifying(None).join(" ")),
            (vec!["--workspace"], "--quick --device emulated".to_owned())
        );
        let mut plan = Plan::default();
        assert!(packages(Some(&plan)).windows(2).any(|two| two == ["--package", "lanetree"]));
        assert!(verifying(Some(&plan)).join(" ").starts_with("--sample"));
        plan.indexes = ["cuart", "grt"].map(str::to_owned).into();
        assert_eq!(verifying(Some(&plan)).join(" "), "--quick --index cuart,grt --device emulated");
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
