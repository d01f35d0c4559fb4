//! The device compiler: a rustc that can build `core` for nvptx64-nvidia-cuda.

use crate::process::{self, which};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The target of the kernels.
pub(crate) const TARGET: &str = "nvptx64-nvidia-cuda";

/// Older compilers do not know the edition and the features that the kernels use.
const OLDEST_MINOR: u32 = 95;

/// What to do when there is none.
pub const INSTALL: &str = "install one of
    on Debian:    apt-get install rustc-web cargo-web rust-web-src   (1.96 or later, from the security archive)
    with rustup:  rustup toolchain install nightly --component rust-src
  or name a rustc and a cargo whose sysroot has rust-src in LANETREE_DEVICE_RUSTC and LANETREE_DEVICE_CARGO";

/// A rustc with the sources of `core`, and the cargo that goes with it.
#[derive(Clone, Debug)]
pub struct Toolchain {
    rustc: PathBuf,
    cargo: PathBuf,
    /// Release, commit and LLVM: what decides the PTX.
    pub version: String,
}

/// The device compilers of this machine.
///
/// `Err` where the environment names one that will not do; the message says why.
fn find_all() -> Result<Vec<Toolchain>, String> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let Some(rustc) = named("LANETREE_DEVICE_RUSTC") {
        let cargo = named("LANETREE_DEVICE_CARGO").unwrap_or_else(|| rustc.with_file_name("cargo"));
        return Toolchain::at(rustc.clone(), cargo)
            .map(|toolchain| vec![toolchain])
            .map_err(|reason| format!("LANETREE_DEVICE_RUSTC={}: {reason}", rustc.display()));
    }
    let mut found = Vec::new();
    // Debian's, by its full path: rustup's shims usually stand before it on the PATH.
    found.extend(Toolchain::at("/usr/bin/rustc".into(), "/usr/bin/cargo".into()).ok());
    for sysroot in nightly_sysroots() {
        found.extend(Toolchain::at(sysroot.join("bin/rustc"), sysroot.join("bin/cargo")).ok());
    }
    Ok(found)
}

/// The device compiler to use: the one whose version is `recorded` if it is here, else the first.
///
/// # Errors
/// Why the one that the environment names will not do.
pub fn find(recorded: Option<&str>) -> Result<Option<Toolchain>, String> {
    let found = find_all()?;
    let same = found.iter().find(|toolchain| recorded == Some(&toolchain.version));
    Ok(same.or(found.first()).cloned())
}

impl Toolchain {
    fn at(rustc: PathBuf, cargo: PathBuf) -> Result<Self, String> {
        for program in [&rustc, &cargo] {
            if !program.is_file() {
                return Err(format!("{} is not there", program.display()));
            }
        }
        let print = |arguments: &[&str]| {
            process::stdout(clean(&mut Command::new(&rustc)).args(arguments))
                .ok_or_else(|| format!("`{} {}` failed", rustc.display(), arguments.join(" ")))
        };
        let version = Version::parse(&print(&["-vV"])?).ok_or("cannot read its version")?;
        if version.minor < OLDEST_MINOR {
            return Err(format!("it is {}; 1.{OLDEST_MINOR} or later is needed", version.release));
        }
        let sources = Path::new(&print(&["--print", "sysroot"])?).join("lib/rustlib/src/rust/library");
        if !sources.is_dir() {
            return Err(format!("no rust-src: {} is not there", sources.display()));
        }
        let version = format!("rustc {} ({}), LLVM {}", version.release, version.commit, version.llvm);
        Ok(Self { rustc, cargo, version })
    }

    /// Its cargo, told to use its rustc, with nothing of the host's toolchain or settings in the
    /// environment: the PTX must depend on the sources and the compiler alone.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(&self.cargo);
        clean(&mut command);
        // The nightly features also for a stable release, as Debian's is. Empty flags override those
        // of a user's configuration file.
        command.env("RUSTC", &self.rustc).env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", "");
        command
    }

    /// Where it is, for `doctor`.
    pub fn path(&self) -> &Path {
        &self.rustc
    }
}

/// Takes the settings of the cargo that runs us out of a command's environment, for another
/// toolchain; its network settings stay.
pub fn clean(command: &mut Command) -> &mut Command {
    const KEPT: [&str; 7] =
        ["CARGO_HOME", "CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTR", "CARGO_SOURCE_", "CARGO_TERM_", "CARGO_UNSTABLE_"];
    // `cargo run` puts the host toolchain's libraries into LD_LIBRARY_PATH.
    const DROPPED: [&str; 9] = [
        "CARGO",
        "LD_LIBRARY_PATH",
        "RUSTC",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTDOC",
        "RUSTDOCFLAGS",
        "RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
    ];
    for (name, _) in std::env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let kept = KEPT.iter().any(|prefix| text.starts_with(prefix));
        if DROPPED.contains(&text) || (text.starts_with("CARGO_") && !kept) {
            command.env_remove(&name);
        }
    }
    command
}

/// The sysroots of rustup's nightlies.
fn nightly_sysroots() -> Vec<PathBuf> {
    let Some(rustup) = which("rustup") else { return Vec::new() };
    let list = process::stdout(clean(&mut Command::new(&rustup)).args(["toolchain", "list"])).unwrap_or_default();
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| name.starts_with("nightly"))
        .filter_map(|name| {
            let mut command = Command::new(&rustup);
            clean(&mut command).args(["run", name, "rustc", "--print", "sysroot"]);
            process::stdout(&mut command).map(PathBuf::from)
        })
        .collect()
}

/// What `rustc -vV` says.
struct Version {
    release: String,
    minor: u32,
    commit: String,
    llvm: String,
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.map(str::to_owned)
        };
        let release = field("release")?;
        let minor = release.split('.').nth(1)?.parse().ok()?;
        Some(Self { release, minor, commit: field("commit-hash")?, llvm: field("LLVM version")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_verbose_version() {
        let text = "rustc 1.96.0 (ac68faa20 2026-05-25)\nbinary: rustc\ncommit-hash: ac68\ncommit-date: x\n\
            host: h\nrelease: 1.96.0\nLLVM version: 22.1.8\n";
        let version = Version::parse(text).expect("all fields are there");
        assert_eq!((version.release.as_str(), version.minor), ("1.96.0", 96));
        assert_eq!((version.commit.as_str(), version.llvm.as_str()), ("ac68", "22.1.8"));
    }

    #[test]
    fn reads_a_nightly_version() {
        let text = "commit-hash: e50a\nrelease: 1.97.0-nightly\nLLVM version: 22.1.4";
        assert_eq!(Version::parse(text).map(|version| version.minor), Some(97));
    }

    #[test]
    fn rejects_what_is_no_version() {
        assert!(Version::parse("command not found").is_none());
    }

    #[test]
    fn a_missing_compiler_is_named() {
        let error = Toolchain::at("/nowhere/rustc".into(), "/nowhere/cargo".into()).expect_err("not there");
        assert!(error.contains("/nowhere/rustc"), "{error}");
    }
}
