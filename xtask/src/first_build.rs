//! A crate from nothing, on a machine as a user may have it: no CUDA toolkit, no driver.
//!
//! It depends on lanetree with the feature `cuda`, as a program does that is to run with a GPU and without one: on the packages that
//! would be published, not on the repository; and with the indexes that are on by default.

use crate::failure::{Failure, Result};
use crate::packages::{self, Package};
use crate::{paths, process, stub};
use std::fs;
use std::process::Command;

const MAIN: &str = r#"use lanetree::{Device, LaneTree};

fn main() -> lanetree::Result<()> {
    let device = Device::best();
    println!("{device}");
    if let Some(error) = device.why_no_gpu() {
        eprintln!("{error}");
    }
    let index = LaneTree::build(&device, &[1_u64, 4, 9], &[10_u32, 20, 30])?;
    println!("{:?}", index.get_many(&[4, 5])?);
    Ok(())
}
"#;

/// What the program says of its look-ups.
const FOUND: &str = "[Some(20), None]";

/// Builds the crate and runs it; an error unless it says what it should.
pub(crate) fn run() -> Result<()> {
    let folder = paths::target().join("first-build");
    paths::write(&folder.join("Cargo.toml"), &manifest(&packages::unpack()?))?;
    paths::write(&folder.join("src/main.rs"), MAIN)?;
    // The same versions as in the workspace: they are there, and nothing is looked up.
    let lock = folder.join("Cargo.lock");
    fs::copy(paths::root().join("Cargo.lock"), &lock)
        .map_err(|error| Failure::CannotRun(format!("cannot write {}: {error}", paths::shown(&lock))))?;

    let mut command = process::cargo();
    command.args(["build", "--offline"]).current_dir(&folder).env("CARGO_TARGET_DIR", paths::target());
    process::run(without_cuda(&mut command))?;
    let program = paths::target().join("debug").join(NAME);
    let output = process::output(without_cuda(&mut Command::new(&program)))?;
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(Failure::Wrong(format!("{} failed: {}", paths::shown(&program), complaint.trim())));
    }
    check(&said, stub::driver().is_some())?;
    print!("{said}");
    Ok(())
}

const NAME: &str = "lanetree-first-build";

fn manifest(packages: &[Package]) -> String {
    // Cargo's own profile, as users have it, less what takes time and no part: unoptimised, this takes half as long as with
    // the workspace's profile, though it compiles all dependencies anew. A path is quoted in TOML as in Rust.
    let patches = packages.iter().map(|Package { name, folder }| format!("{name} = {{ path = {folder:?} }}\n"));
    let patches: String = patches.collect();
    format!(
        "[package]\nname = \"{NAME}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
        [dependencies]\nlanetree = {{ version = \"*\", features = [\"cuda\"] }}\n\n\
        [patch.crates-io]\n{patches}\n\
        # Not a member of the workspace that it lies in.\n[workspace]\n\n\
        [profile.dev]\ndebug = false\n"
    )
}

/// Takes away what tells of CUDA: variables, and the folders of the PATH that have its compiler.
fn without_cuda(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CUDA_")) {
            command.env_remove(name);
        }
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| !folder.join("nvcc").exists());
    // What was split can be joined.
    let path = std::env::join_paths(folders).unwrap_or(path.clone());
    command.env("PATH", path)
}

/// An error unless a program that has said this has chosen its device, and found what is there.
fn check(said: &str, has_driver: bool) -> Result<()> {
    let mut lines = said.lines();
    let (device, found) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let is_host = device.starts_with("host (");
    // With a driver there may be no GPU.
    let is_device = is_host || has_driver && device.ends_with(')') && device.contains(" (cuda:");
    if is_device && found == FOUND {
        return Ok(());
    }
    let expected = if has_driver { "a GPU or the host" } else { "the host" };
    Err(Failure::Wrong(format!("a user's first build should name {expected} and print {FOUND}; it printed:\n{said}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_says_is_checked() {
        assert!(check("host (2 threads)\n[Some(20), None]\n", false).is_ok());
        assert!(check("NVIDIA H200 (cuda:0)\n[Some(20), None]\n", true).is_ok());
        assert!(check("NVIDIA H200 (cuda:0)\n[Some(20), None]\n", false).is_err());
        assert!(check("host (2 threads)\n[Some(20), Some(20)]\n", false).is_err());
        assert!(check("", true).is_err());
    }

    #[test]
    fn the_path_of_the_library_is_quoted() {
        let text = manifest(&[Package { name: "lanetree".to_owned(), folder: "/a \"b\"/lanetree".into() }]);
        assert!(text.contains(r#"lanetree = { path = "/a \"b\"/lanetree" }"#), "{text}");
    }
}
