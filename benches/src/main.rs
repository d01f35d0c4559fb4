//! The program `lanetree-bench`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Here, so that another commit compiles no more than this file anew.
    lanetree_bench::main(option_env!("LANETREE_BUILT"))
}
