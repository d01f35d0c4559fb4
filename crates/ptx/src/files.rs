//! Files, with errors that name them.

use crate::failure::{Failure, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// `path` relative to the current folder where it lies inside, for messages.
pub fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

/// Reads a text file.
///
/// # Errors
/// [`Failure::CannotRun`], here and below.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| Failure::CannotRun(format!("cannot read {}: {error}", shown(path))))
}

/// Writes a file, with its folder, unless it holds just that already.
///
/// # Errors
/// As [`read`].
pub fn write(path: &Path, text: &str) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| Failure::CannotRun(format!("cannot write {}: {error}", shown(path))))
}

/// The paths in a folder, sorted; empty where there is no such folder.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
