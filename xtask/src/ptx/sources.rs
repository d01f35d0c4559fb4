//! The kernel crates, and the hash of what their PTX is made from.

use super::manifest::sha256;
use crate::failure::{Failure, Result};
use crate::{paths, process};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A kernel crate.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Its folder's name in crates/kernels.
    pub(crate) name: String,
    /// Its package.
    pub(crate) package: String,
}

/// The kernel crates, sorted: all, or the one named.
pub(crate) fn discover(only: Option<&str>) -> Result<Vec<Source>> {
    let folder = paths::root().join("crates/kernels");
    let folders = paths::list(&folder).into_iter().filter(|path| path.join("Cargo.toml").is_file());
    let names: Vec<_> = folders.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    if let Some(only) = only.filter(|only| !names.iter().any(|name| name == only)) {
        let known = names.join(", ");
        return Err(Failure::CannotRun(format!("no kernel crate `{only}` in crates/kernels; there are: {known}")));
    }
    let chosen = names.into_iter().filter(|name| only.is_none_or(|only| only == name));
    Ok(chosen.map(|name| Source { package: format!("lanetree-kernels-{name}"), name }).collect())
}

impl Source {
    /// The hash of everything that goes into the crate's PTX besides the compiler: its sources, those
    /// of layout and simt, its other dependencies by version, and the profile. Comments on lines of
    /// their own and tests do not count; nor does the place of the workspace on the disk.
    pub(crate) fn hash(&self) -> Result<String> {
        let root = paths::root();
        let mut text = String::new();
        for folder in ["crates/layout", "crates/simt", &format!("crates/kernels/{}", self.name)] {
            for file in source_files(&root.join(folder)) {
                let name = file.strip_prefix(&root).unwrap_or(&file);
                let name = name.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/");
                let comment = if name.ends_with(".rs") { "//" } else { "#" };
                text.extend(["file ", &name, "\n", &significant(&paths::read(&file)?, comment)]);
            }
        }
        for dependency in self.dependencies()? {
            text.extend(["dependency ", &dependency, "\n"]);
        }
        text += &profiles(&paths::read(&root.join("Cargo.toml"))?);
        Ok(sha256(text.as_bytes()))
    }

    /// Names, versions and features of the crates from the registry that the device code uses.
    fn dependencies(&self) -> Result<BTreeSet<String>> {
        let mut command = process::cargo();
        command.args(["tree", "--locked", "--edges", "normal", "--target", super::TARGET, "--package", &self.package]);
        command.args(["--prefix", "none", "--no-dedupe", "--format", "{p} {f}"]);
        let output = process::output(&mut command)?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Failure::CannotRun(format!("`cargo tree` failed for {}: {reason}", self.package)));
        }
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let registry = lines.lines().filter(|line| !line.starts_with("lanetree-") && !line.is_empty());
        Ok(registry.map(|line| line.trim().to_owned()).collect())
    }
}

/// A crate's manifest and sources, without tests and without simt's emulator, which is host code.
fn source_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = vec![folder.join("Cargo.toml")];
    let mut folders = vec![folder.join("src")];
    while let Some(folder) = folders.pop() {
        for path in paths::list(&folder) {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if stem == "tests" || stem == "emulator" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The lines that are neither blank nor only a comment.
fn significant(text: &str, comment: &str) -> String {
    let lines = text.lines().map(str::trim_end);
    let kept = lines.filter(|line| !line.is_empty() && !line.trim_start().starts_with(comment));
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// The tables of the root manifest that say how kernels are compiled.
fn profiles(manifest: &str) -> String {
    let mut inside = false;
    let mut text = String::new();
    for line in significant(manifest, "#").lines() {
        if line.starts_with('[') {
            inside = ["[profile.release", "[profile.ptx"].iter().any(|table| line.starts_with(table));
        }
        if inside {
            text.extend([line, "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blank_lines_do_not_count() {
        let text = "//! Docs.\n\nfn f() {\n    // why\n    g(); // trailing\n}\n";
        assert_eq!(significant(text, "//"), "fn f() {\n    g(); // trailing\n}\n");
    }

    #[test]
    fn only_the_device_profiles_count() {
        let manifest = "[workspace]\nmembers = []\n# why\n[profile.release]\ndebug = 1\n[profile.dev]\nopt-level = 1\n\
            [profile.ptx]\nlto = \"fat\"\n";
        assert_eq!(profiles(manifest), "[profile.release]\ndebug = 1\n[profile.ptx]\nlto = \"fat\"\n");
    }

    #[test]
    fn the_emulator_and_tests_are_left_out() {
        let files = source_files(&paths::root().join("crates/simt"));
        assert!(files.iter().any(|file| file.ends_with("src/lib.rs")));
        assert!(files.iter().any(|file| file.ends_with("Cargo.toml")));
        assert!(!files.iter().any(|file| file.to_string_lossy().contains("emulator")));
    }

    #[test]
    fn an_unknown_crate_is_named_with_those_that_exist() {
        let error = discover(Some("btrie")).expect_err("no such crate").to_string();
        assert!(error.contains("btrie") && error.contains("harmonia"), "{error}");
    }
}
