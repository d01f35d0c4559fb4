//! Starting other programs.

use crate::paths;
use std::path::PathBuf;
use std::process::Command;

pub(crate) use lanetree_ptx::process::{exit_code, output, run, stdout, which};

/// The cargo that runs this task, in the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(paths::root());
    command
}

/// The C compiler: `$CC`, or the first of cc, gcc and clang.
pub(crate) fn c_compiler() -> Option<PathBuf> {
    let named = std::env::var_os("CC").map(PathBuf::from);
    let named = named.filter(|cc| Command::new(cc).arg("--version").output().is_ok());
    named.or_else(|| ["cc", "gcc", "clang"].into_iter().find_map(which))
}
