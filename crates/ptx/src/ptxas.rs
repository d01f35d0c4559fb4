//! NVIDIA's assembler: finding it, and installing it into a virtual environment of its own.

use crate::failure::{Failure, Result};
use crate::{files, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The wheel that holds it: CUDA 13.0, the toolkit of driver 580.
const WHEEL: &str = "nvidia-cuda-nvcc==13.0.88";

/// What to do when there is none.
pub const INSTALL: &str = "lanetree-ptx --install-ptxas (in a checkout of Lanetree: cargo xtask doctor --install-ptxas), or the CUDA \
                           toolkit";

/// A ptxas.
#[derive(Clone, Debug)]
pub struct Ptxas {
    /// The program.
    pub path: PathBuf,
    /// Its version, `13.0.88`.
    pub version: String,
}

/// The ptxas of this machine: first the one that [`install`] puts into the target folder, whose version is fixed, then
/// the one in the PATH, in `$CUDA_HOME`, in /usr/local/cuda.
pub fn find(target: &Path) -> Option<Ptxas> {
    let from_cuda_home = std::env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin/ptxas"));
    let system = Some(PathBuf::from("/usr/local/cuda/bin/ptxas"));
    let candidates = [in_environment(target), process::which("ptxas"), from_cuda_home, system];
    candidates.into_iter().flatten().find_map(|path| {
        let text = process::stdout(Command::new(&path).arg("--version"))?;
        Some(Ptxas { version: parse_version(&text)?, path })
    })
}

/// Creates a virtual environment of Python in the target folder and installs ptxas into it, unless it is there.
///
/// # Errors
/// Without Python or its package index.
pub fn install(target: &Path) -> Result<()> {
    if let Some(path) = in_environment(target) {
        println!("ptxas is installed: {}", files::shown(&path));
        return Ok(());
    }
    let folder = environment(target);
    let python = process::which("python3").ok_or_else(|| {
        Failure::CannotRun("python3 is not on the PATH: apt-get install python3 python3-venv".to_owned())
    })?;
    process::run(Command::new(python).args(["-m", "venv"]).arg(&folder))?;
    // The wheel alone: what it depends on is for nvcc.
    process::run(Command::new(folder.join("bin/python")).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        WHEEL,
    ]))?;
    match in_environment(target) {
        Some(path) => println!("installed {WHEEL}: {}", files::shown(&path)),
        None => return Err(Failure::CannotRun(format!("{WHEEL} holds no ptxas for this machine"))),
    }
    Ok(())
}

fn environment(target: &Path) -> PathBuf {
    target.join("ptxas-venv")
}

/// lib/pythonX.Y/site-packages/nvidia/cuNN/bin/ptxas.
fn in_environment(target: &Path) -> Option<PathBuf> {
    let pythons = files::list(&environment(target).join("lib"));
    let toolkits = pythons.iter().flat_map(|python| files::list(&python.join("site-packages/nvidia")));
    toolkits.map(|toolkit| toolkit.join("bin/ptxas")).find(|path| path.is_file())
}

/// The version in `Cuda compilation tools, release 13.0, V13.0.88`.
fn parse_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("Cuda compilation tools"))?;
    line.rsplit_once(", V").map(|(_, version)| version.to_owned())
}

impl Ptxas {
    /// Whether it can assemble for an architecture.
    pub fn knows(&self, architecture: u32) -> bool {
        let mut parts = self.version.split('.').map(|part| part.parse().unwrap_or(0));
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        let since: (u32, u32) = match architecture {
            100.. => (12, 8),
            89.. => (11, 8),
            _ => (11, 4),
        };
        version >= since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version() {
        let text = "ptxas: NVIDIA (R) Ptx optimizing assembler\nCopyright\nBuilt on x\n\
            Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0";
        assert_eq!(parse_version(text).as_deref(), Some("13.0.88"));
        assert_eq!(parse_version("gcc 12"), None);
    }

    #[test]
    fn knows_architectures_by_version() {
        let ptxas = |version: &str| Ptxas { path: "ptxas".into(), version: version.to_owned() };
        assert!(ptxas("13.0.88").knows(120) && ptxas("12.8.61").knows(100));
        assert!(ptxas("12.4.1").knows(90) && !ptxas("12.4.1").knows(120));
        assert!(!ptxas("11.4.0").knows(89) && ptxas("11.4.0").knows(75));
    }
}
