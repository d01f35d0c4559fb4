//! `doctor`: what this machine has, what is missing, and the command that fixes it.

use crate::failure::{Failure, Result};
use crate::{paths, process, rust_cuda, stub};
use clap::Args;
use lanetree_ptx::{ptxas, toolchain};
use std::process::Command;

/// Say what this machine has, what is missing, and the command that fixes it.
#[derive(Args)]
pub(crate) struct Options {
    /// Install NVIDIA's assembler into target/ptxas-venv first
    #[arg(long)]
    install_ptxas: bool,
    /// Install what rust-cuda needs, but for LLVM 7 and libclang: its toolchain, and libNVVM, libdevice and headers of CUDA into
    /// target/rust-cuda-toolkit
    #[arg(long)]
    install_rust_cuda: bool,
}

/// One thing looked for.
struct Finding {
    what: &'static str,
    /// What was found, or what to do about it.
    state: std::result::Result<String, String>,
    needed_for: &'static str,
    /// Without it not even the CPU paths work.
    required: bool,
}

/// Runs the task; fails when the CPU paths cannot work.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.install_ptxas {
        ptxas::install(&paths::target())?;
    }
    if options.install_rust_cuda {
        rust_cuda::install()?;
    }
    let findings =
        [host_compiler(), linker(), device_compiler(), assembler(), nvvm(), driver(), link_library(), machine()];
    for finding in &findings {
        match &finding.state {
            Ok(found) => println!("found    {:18} {found}", finding.what),
            Err(fix) => {
                println!("missing  {:18} needed for: {}", finding.what, finding.needed_for);
                println!("{:27} to fix it: {fix}", "");
            }
        }
    }
    let fatal: Vec<_> = findings.iter().filter(|f| f.required && f.state.is_err()).map(|f| f.what).collect();
    if fatal.is_empty() {
        println!("\nThe CPU and emulated paths work here.");
        return Ok(());
    }
    Err(Failure::Wrong(format!("nothing works without: {}", fatal.join(", "))))
}

fn host_compiler() -> Finding {
    let rustc = process::stdout(Command::new("rustc").current_dir(paths::root()).arg("--version"));
    Finding {
        what: "host rustc",
        state: rustc.ok_or_else(|| "install rustup (https://rustup.rs); it reads rust-toolchain.toml".to_owned()),
        needed_for: "everything",
        required: true,
    }
}

fn linker() -> Finding {
    let compiler = process::c_compiler().map(|path| path.display().to_string());
    Finding {
        what: "C compiler",
        state: compiler.ok_or_else(|| "apt-get install gcc libc6-dev".to_owned()),
        needed_for: "linking, and the libcuda stub",
        required: true,
    }
}

fn device_compiler() -> Finding {
    let state = toolchain::find(None).and_then(|found| {
        let found = found.ok_or_else(|| toolchain::INSTALL.to_owned())?;
        Ok(format!("{} ({})", found.version, found.path().display()))
    });
    Finding {
        what: "device compiler",
        state,
        needed_for: "`ptx`: to change kernels; not to use the library, as their PTX is checked in",
        required: false,
    }
}

fn assembler() -> Finding {
    let found = ptxas::find(&paths::target()).map(|ptxas| format!("{} ({})", ptxas.version, paths::shown(&ptxas.path)));
    Finding {
        what: "ptxas",
        state: found.ok_or_else(|| "cargo xtask doctor --install-ptxas   (or install the CUDA toolkit)".to_owned()),
        needed_for: "`ptx`: registers, spills, and whether the PTX assembles for every card",
        required: false,
    }
}

fn nvvm() -> Finding {
    let state = match rust_cuda::find() {
        Ok(found) => {
            let (llvm, toolkit) = (found.llvm_config.display(), found.toolkit.display());
            Ok(format!("rustup, LLVM 7 ({llvm}), libclang, and libNVVM of the CUDA toolkit in {toolkit}"))
        }
        Err(missing) => Err(missing.join(&format!("\n{:36}", ""))),
    };
    Finding { what: "rust-cuda", state, needed_for: "`ptx --codegen nvvm` only", required: false }
}

fn driver() -> Finding {
    let query = ["--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"];
    let cards = process::stdout(Command::new("nvidia-smi").args(query));
    let state = match (stub::driver(), cards) {
        (Some(_), Some(cards)) if is_too_old(&cards) => {
            Err(format!("update NVIDIA's driver: the kernels' PTX needs 470 or later, and this is {}", cards.trim()))
        }
        (Some(library), Some(cards)) => Ok(format!("{}; {}", cards.replace('\n', "; "), library.display())),
        (Some(library), None) => Ok(format!("{} (but nvidia-smi tells of no card)", library.display())),
        (None, _) => {
            Err("install NVIDIA's driver, 470 or later; or carry `cargo xtask bundle` to a machine with one".to_owned())
        }
    };
    Finding { what: "NVIDIA driver", state, needed_for: "running on a GPU", required: false }
}

/// Whether a card's driver cannot read the kernels' PTX (7.4, CUDA 11.4), by what `nvidia-smi` says: name, version and memory of
/// each card.
fn is_too_old(cards: &str) -> bool {
    let major = |card: &str| card.split(", ").nth(1)?.split('.').next()?.parse::<u32>().ok();
    cards.lines().filter_map(major).any(|major| major < 470)
}

fn link_library() -> Finding {
    let state = match std::env::var("CUDA_LIBRARY_PATH") {
        Ok(path) => Ok(format!("CUDA_LIBRARY_PATH={path}")),
        Err(_) => Ok(format!("a stub, which xtask makes as needed in {}", paths::shown(&stub::folder()))),
    };
    Finding {
        what: "libcuda to link",
        state,
        needed_for: "building with the feature `cust`, as `verify`, `bench` and `bundle` do; `cuda` needs nothing",
        required: false,
    }
}

fn machine() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next());
    let gigabytes = kilobytes.and_then(|kilobytes| kilobytes.parse::<f64>().ok()).map(|kilobytes| kilobytes / 1e6);
    let memory =
        gigabytes.map_or_else(|| "memory unknown".to_owned(), |free| format!("{free:.1} GB of memory available"));
    Finding { what: "machine", state: Ok(format!("{cores} cores, {memory}")), needed_for: "everything", required: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_cannot_read_the_kernels_is_too_old() {
        assert!(is_too_old("Tesla T4, 450.80.02, 15109 MiB\n"));
        assert!(is_too_old("NVIDIA H200, 580.65.06, 143771 MiB\nTesla T4, 460.32.03, 15109 MiB"));
        assert!(!is_too_old("Tesla T4, 470.57.02, 15109 MiB"));
        assert!(!is_too_old("NVIDIA H200, 580.65.06, 143771 MiB\n"));
        assert!(!is_too_old("something else"));
    }
}
