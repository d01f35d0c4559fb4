//! `python`: builds the package's wheel as users' installers do, and tests it where nothing else is installed.
//!
//! The crate is a workspace of its own, so that who builds the library compiles no pyo3: the checks of the main one pass it by, and
//! it has its own here.

use crate::failure::{Failure, Result};
use crate::{paths, process};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the Python package and tests it.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Also unpack the source distribution into an empty folder, and compile it there by cargo alone
    #[arg(long)]
    sdist: bool,
}

/// What builds and checks the wheel.
const TOOLS: [&str; 2] = ["maturin>=1.9,<2", "twine"];
/// What the tests import, in addition to the wheel and what it depends on.
const TESTS: [&str; 11] = [
    "basedpyright",
    "duckdb",
    "hypothesis",
    "ipykernel",
    "matplotlib",
    "mypy",
    "nbclient",
    "pandas",
    "polars",
    "pyarrow",
    "pytest",
];

/// Format, lints, the wheel with the emulator, the source distribution's files, the tests, the types.
pub(crate) fn run(options: &Options) -> Result<()> {
    process::run(cargo().args(["fmt", "--check"]))?;

    let tools = environment("python-tools", false)?;
    pip(&tools).args(TOOLS).run()?;
    let wheels = paths::target().join("python-wheels");
    let _ = fs::remove_dir_all(&wheels);
    let mut build = in_package(tools.join("bin/maturin"));
    build.args(["build", "--profile", "ci", "--features", "emulator", "--locked", "--out"]).arg(&wheels);
    process::run(with_lints(&mut build)?)?;
    process::run(in_package(tools.join("bin/maturin")).arg("sdist").arg("--out").arg(&wheels))?;
    let made = paths::list(&wheels);
    process::run(Command::new(tools.join("bin/twine")).args(["check", "--strict"]).args(&made))?;
    check_sdist(&made, options.sdist)?;

    // An empty one each time: only what the wheel asks for may be there.
    let empty = environment("python-env", true)?;
    let wheel = made.iter().find(|file| file.extension().is_some_and(|it| it == "whl"));
    let wheel = wheel.ok_or_else(|| Failure::Wrong("maturin has built no wheel".to_owned()))?;
    pip(&empty).arg(wheel).run()?;
    let python = empty.join("bin/python");
    // Notebooks are run by the tests, which need more than the wheel asks for.
    let is_script = |file: &PathBuf| file.extension().is_some_and(|it| it == "py");
    for example in paths::list(&folder().join("examples")).into_iter().filter(is_script) {
        process::run(outside(&python).arg(example))?;
    }
    pip(&empty).args(TESTS).run()?;
    process::run(
        outside(&python).args(["-m", "pytest"]).arg(folder().join("tests")).env("LANETREE_REQUIRE_EMULATOR", "1"),
    )?;
    let mypy = ["-m", "mypy", "--strict", "--cache-dir", "../mypy-cache"];
    process::run(outside(&python).args(mypy).args(["-p", "lanetree"]))?;
    process::run(outside(&python).args(mypy).arg(folder().join("examples")))
}

fn folder() -> PathBuf {
    paths::root().join("python")
}

/// Cargo in the package's workspace. Its folder stays apart from the main one: other features, other versions.
fn cargo() -> Command {
    let mut command = process::cargo();
    command.current_dir(folder()).env("CARGO_TARGET_DIR", paths::target().join("python"));
    command
}

/// Lets cargo compile the workspace's own crates by clippy, which compiles as rustc does: `cargo clippy` would check all dependencies,
/// and then the build would compile them.
fn with_lints(command: &mut Command) -> Result<&mut Command> {
    let sysroot = process::stdout(Command::new("rustc").current_dir(folder()).args(["--print", "sysroot"]));
    let clippy = sysroot.map(|sysroot| Path::new(&sysroot).join("bin/clippy-driver")).filter(|path| path.is_file());
    let clippy = clippy.ok_or_else(|| {
        Failure::CannotRun("the compiler has no clippy-driver: rustup component add clippy".to_owned())
    })?;
    // As `cargo clippy -- -D warnings` passes it.
    const DENY: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";
    Ok(command.env("RUSTC_WORKSPACE_WRAPPER", clippy).env("CLIPPY_ARGS", DENY))
}

fn in_package(program: PathBuf) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder()).env("CARGO_TARGET_DIR", paths::target().join("python"));
    command
}

/// A Python that finds the installed package, and not the sources, which have no native part.
fn outside(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.current_dir(paths::target().join("python-wheels"));
    command
}

/// A virtual environment below the target folder.
fn environment(name: &str, anew: bool) -> Result<PathBuf> {
    let folder = paths::target().join(name);
    if anew {
        let _ = fs::remove_dir_all(&folder);
    }
    if !folder.join("bin/python").exists() {
        let python = process::which("python3").ok_or_else(|| {
            Failure::CannotRun("python3 is not on the PATH: apt-get install python3 python3-venv".to_owned())
        })?;
        process::run(Command::new(python).args(["-m", "venv"]).arg(&folder))?;
    }
    Ok(folder)
}

/// `pip install`, in an environment.
struct Pip(Command);

fn pip(environment: &Path) -> Pip {
    let mut command = Command::new(environment.join("bin/python"));
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    Pip(command)
}

impl Pip {
    fn args(mut self, packages: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>) -> Self {
        self.0.args(packages);
        self
    }
    fn arg(self, package: impl AsRef<std::ffi::OsStr>) -> Self {
        self.args([package])
    }
    fn run(mut self) -> Result<()> {
        process::run(&mut self.0)
    }
}

/// Whether the source distribution has all files that it is compiled of; with `compile`, whether it is.
fn check_sdist(made: &[PathBuf], compile: bool) -> Result<()> {
    let archive = made.iter().find(|file| file.extension().is_some_and(|it| it == "gz"));
    let archive = archive.ok_or_else(|| Failure::Wrong("maturin has made no source distribution".to_owned()))?;
    let to = paths::target().join("python-sdist");
    let _ = fs::remove_dir_all(&to);
    fs::create_dir_all(&to)
        .map_err(|error| Failure::CannotRun(format!("cannot make {}: {error}", paths::shown(&to))))?;
    process::run(Command::new("tar").arg("xzf").arg(archive).args(["--strip-components", "1", "-C"]).arg(&to))?;
    let mut command = process::cargo();
    command.current_dir(to.join("python"));
    match compile {
        true => process::run(command.args(["build", "--release", "--locked"])),
        false => {
            let output = process::output(command.args(["metadata", "--locked", "--format-version", "1"]))?;
            match output.status.success() {
                true => Ok(()),
                false => Err(Failure::Wrong(String::from_utf8_lossy(&output.stderr).into_owned())),
            }
        }
    }
}
