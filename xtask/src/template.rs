//! The template of a crate with kernels, as users have it: a copy outside of the workspace.

use crate::failure::{Failure, Result};
use crate::{paths, process};
use std::fs;
use std::path::{Path, PathBuf};

/// Where it is in the workspace.
pub(crate) const FOLDER: &str = "templates/kernel";

/// What names the library in its manifest.
const LIBRARY: &str = "path = \"../../crates/lanetree\"";

/// Checks the copy's PTX with `lanetree-ptx`, and runs its tests, on the emulator. Both build in the workspace's target folder, where
/// all but the copy itself stays for the next time.
pub(crate) fn run() -> Result<()> {
    let copy = Copy::new(&paths::root().join(FOLDER))?;
    let manifest = copy.0.join("Cargo.toml");
    let mut command = process::cargo();
    command.args(["run", "--quiet", "--package", "lanetree-ptx", "--locked", "--", "--check", "--strict"]);
    // The step `ptx --check` has assembled it.
    command.args(["--no-assemble", "--manifest-path"]).arg(&manifest);
    process::run(command.env("CARGO_TARGET_DIR", paths::target()))?;
    let mut command = process::cargo();
    command.current_dir(&copy.0).args(["test", "--quiet", "--locked"]);
    process::run(command.env("CARGO_TARGET_DIR", paths::target()))
}

/// A copy in the temporary folder, removed when dropped.
struct Copy(PathBuf);

impl Copy {
    fn new(template: &Path) -> Result<Self> {
        let copy = Self(std::env::temp_dir().join(format!("lanetree-template-{}", std::process::id())));
        let cannot = |error| Failure::CannotRun(format!("cannot write {}: {error}", copy.0.display()));
        for file in files(template) {
            let to = copy.0.join(file.strip_prefix(template).unwrap_or(&file));
            fs::create_dir_all(to.parent().unwrap_or(&copy.0)).and_then(|()| fs::copy(&file, &to)).map_err(cannot)?;
        }
        let manifest = copy.0.join("Cargo.toml");
        // A path is quoted in TOML as in Rust.
        let library = format!("path = {:?}", paths::root().join("crates/lanetree"));
        paths::write(&manifest, &elsewhere(&paths::read(&manifest)?, &library)?)?;
        Ok(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

/// The template's files, without what a build in its folder leaves.
fn files(folder: &Path) -> Vec<PathBuf> {
    let inner = paths::list(folder).into_iter().filter(|path| !path.ends_with("target"));
    inner.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The manifest, with another path to the library.
fn elsewhere(manifest: &str, library: &str) -> Result<String> {
    if !manifest.contains(LIBRARY) {
        return Err(Failure::Wrong(format!("{FOLDER}/Cargo.toml does not name the library by `{LIBRARY}`")));
    }
    Ok(manifest.replace(LIBRARY, library))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_named_by_a_path_that_a_copy_replaces() {
        let manifest = paths::read(&paths::root().join(FOLDER).join("Cargo.toml")).expect("it is there");
        let text = elsewhere(&manifest, "path = \"/a\"").expect("it names the library");
        assert!(text.contains("lanetree = { path = \"/a\" }") && !text.contains("../.."), "{text}");
        assert!(elsewhere(&text, "path = \"/b\"").is_err());
    }
}
