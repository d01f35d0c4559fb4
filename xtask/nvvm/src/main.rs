//! Compiles kernel crates to PTX with rust-cuda: `lanetree-nvvm WORKSPACE OUT CRATE...`.
//!
//! WORKSPACE is the copy of the device crates that `cargo xtask ptx --codegen nvvm` makes; OUT gets a
//! file CRATE.ptx for each CRATE, the kernel crate in crates/CRATE/kernels.

use cuda_builder::{CudaBuilder, NvvmArch};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(workspace), Some(out)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: lanetree-nvvm WORKSPACE OUT CRATE...; `cargo xtask ptx --codegen nvvm` calls it so");
        return ExitCode::from(2);
    };
    if let Err(error) = std::fs::create_dir_all(&out) {
        eprintln!("cannot create {}: {error}", out.display());
        return ExitCode::from(2);
    }
    for name in arguments {
        let built = CudaBuilder::new(workspace.join("crates").join(&name).join("kernels"))
            .arch(NvvmArch::Compute75)
            .generate_line_info(false)
            // Line tables crash the code generator.
            .build_args(&["--features", "cuda_std", "--config", "profile.release.debug=false"])
            .copy_to(out.join(&name).with_extension("ptx"))
            .build();
        if let Err(error) = built {
            eprintln!("crates/{}/kernels: {error}", name.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
