//! Compiles kernel crates with rustc's own nvptx64 target.

use super::sources::Source;
use crate::failure::{Failure, Result};
use crate::toolchain::Toolchain;
use crate::{paths, process};
use std::time::SystemTime;

/// The oldest GPU served: Turing. Nothing that the kernels use asks for a newer one.
pub(crate) const CPU: &str = "sm_75";

/// The PTX version: 7.4 (CUDA 11.4) has the `L1::no_allocate` hint; a newer one would shut out older
/// drivers for nothing.
pub(crate) const ISA: (&str, &str) = ("ptx74", "7.4");

/// The PTX of one kernel crate, as the compiler wrote it.
pub(crate) fn compile(toolchain: &Toolchain, source: &Source) -> Result<String> {
    let folder = paths::target().join("ptx");
    let mut command = toolchain.cargo();
    command.current_dir(paths::root()).env("CARGO_TARGET_DIR", &folder);
    command.args(["rustc", "--quiet", "--locked", "--profile", "ptx", "--package", &source.package]);
    // The crate type from the command line: as plain libraries, kernel crates also serve the host.
    command.args(["--lib", "--crate-type", "cdylib", "-Zbuild-std=core", "--target", super::TARGET, "--"]);
    command.arg("-Ctarget-cpu=".to_owned() + CPU).arg("-Ctarget-feature=+".to_owned() + ISA.0);
    // `true` as the linker, as the assembly is all we want, and Debian has no llvm-bitcode-linker.
    command.args(["-Clinker=true", "--emit=asm"]);
    let output = process::output(&mut command)?;
    // Every run warns that the PTX version is chosen by an unstable feature: there is no other way.
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told =
        said.split_inclusive("\n\n").filter(|part| !part.contains("unstable feature specified for `-Ctarget-feature`"));
    eprint!("{}", told.collect::<String>());
    if !output.status.success() {
        let package = &source.package;
        return Err(Failure::Wrong(format!("{package} does not compile for {} (see above)", super::TARGET)));
    }
    // Cargo names the file after the package, with or without a hash.
    let stem = source.package.replace('-', "_");
    let deps = folder.join(super::TARGET).join("ptx/deps");
    let candidates = paths::list(&deps).into_iter().filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let rest = name.strip_prefix(&stem).and_then(|rest| rest.strip_suffix(".s"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    });
    let age =
        |path: &std::path::PathBuf| path.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let newest = candidates
        .max_by_key(age)
        .ok_or_else(|| Failure::CannotRun(format!("the compiler left no {stem}.s in {}", paths::shown(&deps))))?;
    paths::read(&newest)
}
