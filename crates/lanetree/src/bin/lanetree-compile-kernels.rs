//! Compiles all kernels to machine code ahead of time, for processes that must not wait for the GPU's driver to compile them:
//! in a container, say, every start is a cold one.
//!
//! `cargo install --path crates/lanetree --features cuda,all-indexes`, or with the features of the indexes that programs use, and
//! `lanetree-compile-kernels ptxas DIR 80 90`, with the `ptxas` of a CUDA toolkit that is not newer than the GPU's driver; then run programs of the same version of Lanetree with
//! `LANETREE_MACHINE_CODE=DIR`.

use lanetree::runtime::{MACHINE_CODE, machine_code_file};
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const USAGE: &str = "usage: lanetree-compile-kernels PTXAS DIR ARCHITECTURE..., for example ptxas kernels 80 90";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ptxas, folder, architectures @ ..] = &arguments[..] else {
        return Err(USAGE.into());
    };
    if architectures.is_empty() {
        return Err(USAGE.into());
    }
    std::fs::create_dir_all(folder)?;
    for architecture in architectures {
        let (mut files, mut bytes) = (0, 0);
        for module in lanetree::modules() {
            let file = Path::new(folder).join(machine_code_file(module, architecture.parse()?));
            // Complete, or not there at all: other processes may read meanwhile.
            let unfinished = file.with_extension("unfinished");
            let mut command = Command::new(ptxas);
            command.arg(format!("-arch=sm_{architecture}")).arg("-o").arg(&unfinished).arg("-");
            let mut child = command.stdin(Stdio::piped()).spawn()?;
            child.stdin.take().ok_or("ptxas takes no input")?.write_all(module.ptx.as_bytes())?;
            if !child.wait()?.success() {
                return Err(format!("{ptxas} refused the module {} for sm_{architecture}", module.name).into());
            }
            bytes += std::fs::metadata(&unfinished)?.len();
            std::fs::rename(unfinished, file)?;
            files += 1;
        }
        println!("sm_{architecture}: {files} modules, {:.1} MB", bytes as f64 / 1e6);
    }
    println!("run programs with {MACHINE_CODE}={folder}");
    Ok(())
}
