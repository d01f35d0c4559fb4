//! Compiles kernel crates with rustc's own nvptx64 target.

use crate::failure::{Failure, Result};
use crate::source::Source;
use crate::toolchain::{TARGET, Toolchain};
use crate::{files, process};
use std::path::{Path, PathBuf};

/// The oldest GPU served: Turing. Nothing that the kernels use asks for a newer one.
pub(crate) const CPU: &str = "sm_75";

/// The PTX version: 7.4 (CUDA 11.4) has the `L1::no_allocate` hint; a newer one would shut out older
/// drivers for nothing.
pub(crate) const ISA: (&str, &str) = ("ptx74", "7.4");

/// What kernels are compiled with, whatever the workspace says of its own builds: a profile `ptx`, as cargo's settings.
const PROFILE: [&str; 6] = [
    "profile.ptx.inherits='release'",
    "profile.ptx.opt-level=3",
    "profile.ptx.lto='fat'",
    "profile.ptx.codegen-units=1",
    "profile.ptx.panic='abort'",
    "profile.ptx.debug=false",
];

/// The PTX of one kernel crate, as the compiler wrote it just now.
pub(crate) fn compile(toolchain: &Toolchain, source: &Source) -> Result<String> {
    let folder = source.target.join("ptx");
    // What an earlier run left may be of another compiler or profile, and cargo takes it to be up to date when it
    // comes back to those: neither the text nor cargo's record of it stays.
    let stem = &source.library;
    let built = folder.join(TARGET).join("ptx");
    for path in texts(&built.join("deps"), stem) {
        std::fs::remove_file(&path).map_err(|error| cannot_remove(&path, &error))?;
    }
    let records = files::list(&built.join(".fingerprint"));
    for path in records.into_iter().filter(|path| is_of(path, &source.package, "")) {
        std::fs::remove_dir_all(&path).map_err(|error| cannot_remove(&path, &error))?;
    }
    let mut command = toolchain.cargo();
    command.current_dir(&source.root).env("CARGO_TARGET_DIR", &folder);
    command.args(["rustc", "--quiet", "--locked", "--profile", "ptx", "--package", &source.package]);
    command.args(PROFILE.iter().flat_map(|setting| ["--config", setting]));
    // The crate type from the command line: as plain libraries, kernel crates also serve the host.
    command.args(["--lib", "--crate-type", "cdylib", "-Zbuild-std=core", "--target", TARGET, "--"]);
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
        return Err(Failure::Wrong(format!("{package} does not compile for {} (see above)", TARGET)));
    }
    match &texts(&built.join("deps"), stem)[..] {
        [text] => files::read(text),
        found => {
            let (found, folder) = (found.len(), files::shown(&built));
            Err(Failure::CannotRun(format!("the compiler left {found} files {stem}*.s in {folder}, and not one")))
        }
    }
}

/// The compiler's texts of a crate. Cargo names the file after the package, with or without a hash.
fn texts(folder: &Path, stem: &str) -> Vec<PathBuf> {
    files::list(folder).into_iter().filter(|path| is_of(path, stem, ".s")).collect()
}

/// Whether a file is called `stem`, or that with a hash, before `suffix`.
fn is_of(path: &Path, stem: &str, suffix: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let rest = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(suffix));
    let hash = rest.and_then(|rest| if rest.is_empty() { Some(rest) } else { rest.strip_prefix('-') });
    hash.is_some_and(|hash| hash.chars().all(|c| c.is_ascii_hexdigit()))
}

fn cannot_remove(path: &Path, error: &std::io::Error) -> Failure {
    Failure::CannotRun(format!("cannot remove {}: {error}", files::shown(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crates_files_are_told_from_those_of_others() {
        let is_text = |name: &str| is_of(Path::new(name), "lanetree_kernels_cuart", ".s");
        assert!(is_text("lanetree_kernels_cuart.s") && is_text("lanetree_kernels_cuart-0123456789abcdef.s"));
        assert!(!is_text("lanetree_kernels_cuart_two-0123456789abcdef.s") && !is_text("lanetree_kernels_cuart.d"));
        let is_record = |name: &str| is_of(Path::new(name), "lanetree-kernels-cuart", "");
        assert!(is_record("lanetree-kernels-cuart-0123456789abcdef"));
        assert!(!is_record("lanetree-kernels-cuart-two-0123456789abcdef"));
    }
}
