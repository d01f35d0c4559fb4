//! `bundle`: a folder that runs on a GPU machine with nothing but the driver.

use crate::failure::{Failure, Result};
use crate::{paths, process, runner};
use clap::Args;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Build a folder that runs on a GPU machine with nothing but the driver.
#[derive(Args)]
pub(crate) struct Options {
    /// The folder to put it into
    #[arg(long, default_value = "bundle")]
    out: PathBuf,
}

/// Where Debian has what `bench --figure cuart-real` measures, and what it is called in the bundle.
const INPUTS: [(&str, &str); 2] = [("/usr/share/tor/geoip6", "geoip6"), ("/usr/share/dict/words", "words")];

/// The package manager's lists of paths.
const LISTS: &str = "/var/lib/dpkg/info";

const README: &str = "# Lanetree's verifier and bench

Two programs, for Linux on x86-64 with an NVIDIA driver of 470 or later. Nothing else is needed: the
kernels are in them, as PTX that the driver compiles.

    ./lanetree-verify --quick               every kernel against the oracle, small sizes
    ./lanetree-verify --full                all sizes, key types and distributions
    ./lanetree-verify --help
    ./lanetree-bench                        the figures
    ./lanetree-bench --json figures.json    and keep them
    ./lanetree-bench --figure all --json DIR    every figure of every paper; once more: what is missing
    ./lanetree-bench --figure cuart-real    addresses, words and paths: this machine's, or those in input/
    ./lanetree-bench --help

Under NVIDIA's compute-sanitizer, one tool at a time:

    for tool in memcheck racecheck initcheck synccheck; do
        compute-sanitizer --tool $tool --error-exitcode 1 ./lanetree-verify --quick --device cuda || break
    done

Exit codes: 0 passed, 1 wrong, 2 could not run.

If a program does not start: `libcuda.so.1: cannot open shared object file` says that the driver is
missing or not on the loader's path; `version GLIBC_… not found`, that this machine's system is older
than the one the bundle was built on.
";

/// Runs the task.
pub(crate) fn run(options: &Options) -> Result<()> {
    let programs = [runner::VERIFY, runner::BENCH];
    let built = runner::build(&programs, true)?;
    let folder = paths::root().join(&options.out);
    let strip = process::which("strip");
    if strip.is_none() {
        eprintln!("warning: not stripped, as there is no `strip`: apt-get install binutils");
    }
    for name in programs {
        let program = folder.join(name);
        fs::create_dir_all(&folder)
            .and_then(|()| fs::copy(built.join(name), &program))
            .map_err(|error| Failure::CannotRun(format!("cannot write {}: {error}", program.display())))?;
        if let Some(strip) = &strip {
            process::run(Command::new(strip).arg(&program))?;
        }
        let bytes = program.metadata().map_or(0, |data| data.len());
        println!("{}: {:.1} MB", paths::shown(&program), bytes as f64 / 1e6);
    }
    paths::write(&folder.join("README.md"), README)?;
    println!("{}: how to run them", paths::shown(&folder.join("README.md")));
    copy_inputs(&folder.join("input"))
}

/// Copies the inputs that this machine has.
fn copy_inputs(folder: &Path) -> Result<()> {
    let cannot_write = |error| Failure::CannotRun(format!("cannot write {}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(cannot_write)?;
    let mut parts = Vec::new();
    for (from, name) in INPUTS {
        if Path::new(from).is_file() {
            let bytes = fs::copy(from, folder.join(name)).map_err(cannot_write)?;
            parts.push(format!("{name} {:.1} MB", bytes as f64 / 1e6));
        } else {
            parts.push(format!("no {name}, as there is no {from}"));
        }
    }
    match paths_of_packages(Path::new(LISTS)) {
        Ok(text) if !text.is_empty() => {
            fs::write(folder.join("paths"), &text).map_err(cannot_write)?;
            parts.push(format!("paths {:.1} MB", text.len() as f64 / 1e6));
        }
        _ => parts.push(format!("no paths, as there are no lists in {LISTS}")),
    }
    println!("{}: {}", paths::shown(folder), parts.join(", "));
    Ok(())
}

/// The paths of all lists in a folder, sorted, each once and on a line of its own.
fn paths_of_packages(folder: &Path) -> io::Result<Vec<u8>> {
    let mut all = BTreeSet::new();
    for path in paths::list(folder).iter().filter(|path| path.extension().is_some_and(|name| name == "list")) {
        let text = fs::read(path)?;
        all.extend(text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec));
    }
    Ok(all.into_iter().flat_map(|path| path.into_iter().chain([b'\n'])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_sorted_and_each_is_there_once() {
        let folder = std::env::temp_dir().join(format!("lanetree-bundle-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("b.list"), "/.\n/usr\n/bin\n").unwrap();
        fs::write(folder.join("a.list"), "/.\n\n/usr\n").unwrap();
        fs::write(folder.join("a.md5sums"), "other\n").unwrap();
        let text = paths_of_packages(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(text, b"/.\n/bin\n/usr\n");
    }
}
