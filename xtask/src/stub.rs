//! A libcuda.so that cust can be linked with, on a machine without a driver.
//!
//! Its SONAME is that of the driver's library, so a binary linked with it loads the driver where there
//! is one. The stub itself is named libcuda.so only: a loader never takes it for the driver's.

use crate::failure::{Failure, Result};
use crate::{paths, process};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to set `CUDA_LIBRARY_PATH` to, to build with the feature `cust`: what the user has set, or else
/// a folder with a stub, made here.
pub(crate) fn library_path() -> Result<OsString> {
    match std::env::var_os("CUDA_LIBRARY_PATH") {
        Some(path) => Ok(path),
        None => make().map(PathBuf::into_os_string),
    }
}

/// Where the stub is, under `lib64/stubs`, as cust's build script wants it.
pub(crate) fn folder() -> PathBuf {
    paths::target().join("cuda-stub")
}

/// Makes the stub; returns [`folder`].
pub(crate) fn make() -> Result<PathBuf> {
    let functions = functions()?;
    let source = folder().join("cuda.c");
    let library = folder().join("lib64/stubs/libcuda.so");
    let text = c_source(&functions);
    if library.is_file() && std::fs::read_to_string(&source).is_ok_and(|old| old == text) {
        return Ok(folder());
    }
    let compiler = process::c_compiler().ok_or_else(|| {
        Failure::CannotRun(
            "no C compiler for the libcuda stub (cc, gcc or clang): apt-get install gcc libc6-dev".to_owned(),
        )
    })?;
    std::fs::create_dir_all(folder().join("lib64/stubs"))
        .map_err(|error| Failure::CannotRun(format!("cannot create {}: {error}", folder().display())))?;
    paths::write(&source, &text)?;
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1", "-o"]).arg(&library).arg(&source);
    process::run(&mut command)?;
    Ok(folder())
}

/// The driver functions that cust may call: those that cust_raw declares. (The runtime links none.)
fn functions() -> Result<BTreeSet<String>> {
    let mut folders = vec![cust_raw_sources()?];
    let mut functions = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for path in paths::list(&folder) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                functions.extend(declared(&paths::read(&path)?));
            }
        }
    }
    Ok(functions)
}

/// The names of the form `cuXyz` of the functions declared in a Rust source.
fn declared(source: &str) -> impl Iterator<Item = String> {
    let names = source.split("fn cu").skip(1).map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        &rest[..end]
    });
    names.filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase())).map(|name| format!("cu{name}"))
}

fn c_source(functions: &BTreeSet<String>) -> String {
    let mut text = String::from("/* Links in place of the CUDA driver; every call says CUDA_ERROR_NO_DEVICE. */\n");
    for function in functions {
        text.extend(["int ", function, "(void) { return 100; }\n"]);
    }
    text
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

/// Where cargo keeps cust_raw's sources.
fn cust_raw_sources() -> Result<PathBuf> {
    let output =
        process::output(process::cargo().args(["metadata", "--format-version=1", "--locked", "--all-features"]))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::CannotRun(format!("`cargo metadata` failed: {reason}")));
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::CannotRun(format!("cannot read what `cargo metadata` says: {error}")))?;
    let package = metadata.packages.into_iter().find(|package| package.name == "cust_raw");
    let folder = package.as_ref().and_then(|package| package.manifest_path.parent()).map(|folder| folder.join("src"));
    folder.ok_or_else(|| Failure::CannotRun("the workspace does not depend on cust_raw".to_owned()))
}

/// The NVIDIA driver's library, if this machine has it.
pub(crate) fn driver() -> Option<PathBuf> {
    const NAME: &str = "libcuda.so.1";
    let list = ["ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig"]
        .into_iter()
        .find_map(|program| process::stdout(Command::new(program).arg("-p")));
    let cached = list.unwrap_or_default().lines().find_map(|line| {
        let (name, path) = line.split_once("=>")?;
        name.trim().starts_with(NAME).then(|| PathBuf::from(path.trim()))
    });
    let from_variable = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64"];
    let folders = std::env::split_paths(&from_variable).chain(folders.into_iter().map(PathBuf::from));
    cached.or_else(|| folders.map(|folder| folder.join(Path::new(NAME))).find(|path| path.exists()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_declared_functions() {
        let source = "unsafe extern \"C\" {\n    pub fn cuInit(Flags: u32) -> CUresult;\n    fn cuMemAlloc_v2(\n    \
            fn cudaFree();\n    fn custom();\n}";
        assert_eq!(declared(source).collect::<Vec<_>>(), ["cuInit", "cuMemAlloc_v2"]);
    }

    #[test]
    fn every_function_is_defined() {
        let text = c_source(&["cuInit".to_owned()].into());
        assert!(text.ends_with("int cuInit(void) { return 100; }\n"), "{text}");
    }
}
