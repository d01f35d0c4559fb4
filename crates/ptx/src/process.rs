//! Starting other programs.

use crate::failure::{Failure, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a command whose output goes where ours goes.
///
/// # Errors
/// [`Failure::CannotRun`] if it does not start, [`Failure::Child`] if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::Child { command: line(command), code: exit_code(status) })
}

/// Runs a command and returns what it printed, whether it succeeded or not.
///
/// # Errors
/// [`Failure::CannotRun`] if it does not start.
pub fn output(command: &mut Command) -> Result<Output> {
    command.output().map_err(|error| cannot_start(command, &error))
}

/// What a command printed on stdout; `None` where it could not be started or failed.
pub fn stdout(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The exit code, or 2 for a program ended by a signal.
pub fn exit_code(status: std::process::ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2)
}

/// The program `name` on the PATH.
pub fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Failure {
    Failure::CannotRun(format!("cannot start `{}`: {error}", command.get_program().to_string_lossy()))
}

/// The command as one would type it, with the program's folder left out.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    std::iter::once(name).chain(arguments).collect::<Vec<_>>().join(" ")
}
