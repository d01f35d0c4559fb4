//! `lanetree-ptx`: compiles a kernel crate to PTX.

use clap::Parser;
use lanetree_ptx::failure::{Failure, Result};
use lanetree_ptx::{Options, Source, ptxas};
use std::path::PathBuf;
use std::process::ExitCode;

/// Compile a crate of kernels, written over Lanetree's trait, to PTX: into the folder `ptx` next to its Cargo.toml
#[derive(Parser)]
#[command(name = "lanetree-ptx", version, after_help = EXAMPLES)]
struct Arguments {
    /// The kernel crate's Cargo.toml
    #[arg(long, value_name = "FILE", default_value = "Cargo.toml")]
    manifest_path: PathBuf,
    /// Another folder for the PTX and its manifest (the macro `modules!` reads `ptx` next to Cargo.toml)
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
    /// Install NVIDIA's assembler, from PyPI, into the crate's target folder first
    #[arg(long)]
    install_ptxas: bool,
}

const EXAMPLES: &str = "Examples:
  lanetree-ptx                                   compile the crate in this folder
  lanetree-ptx --check                           is the PTX here what the sources compile to?
  lanetree-ptx --install-ptxas --assemble        count registers and spills, too
  lanetree-ptx --manifest-path k/Cargo.toml --arch 75,90

Exit codes: 0 done, 1 the kernels or their PTX are wrong, 2 it could not run.";

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let mut source = Source::at(&arguments.manifest_path)?;
    if let Some(out) = arguments.out {
        source.ptx = std::path::absolute(&out)
            .map_err(|error| Failure::CannotRun(format!("--out {}: {error}", out.display())))?;
    }
    if arguments.install_ptxas {
        ptxas::install(&source.target)?;
    }
    let crates = [source];
    lanetree_ptx::run(&arguments.options, &crates, &crates, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
