//! Under construction.

/// Measures the indexes
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> std::process::ExitCode {
    std::process::ExitCode::from(2)
}
