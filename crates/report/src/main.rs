//! The program `lanetree-report`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    lanetree_report::main()
}
