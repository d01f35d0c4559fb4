//! The program `lanetree-bench`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    lanetree_bench::main()
}
