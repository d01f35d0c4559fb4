//! How a task ends that did not succeed.

use std::fmt;
use std::process::ExitCode;

/// Why a task failed; decides the exit code.
#[derive(Debug)]
pub enum Failure {
    /// Something checked is wrong: exit code 1.
    Wrong(String),
    /// The task could not run: exit code 2.
    CannotRun(String),
    /// A program that the task started failed, and has said why: its own exit code.
    Child {
        /// The command line.
        command: String,
        /// Its exit code.
        code: u8,
    },
    /// A program that was run in the task's place ended with this code, and has said why.
    Runner(u8),
}

/// What a task returns.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Prints the reason on stderr and gives the exit code.
    pub fn report(&self) -> ExitCode {
        if !matches!(self, Self::Runner(_)) {
            eprintln!("error: {self}");
        }
        ExitCode::from(self.code())
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Wrong(_) => 1,
            Self::CannotRun(_) => 2,
            Self::Child { code, .. } | Self::Runner(code) => *code,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(reason) | Self::CannotRun(reason) => f.write_str(reason),
            Self::Child { command, code } => write!(f, "`{command}` failed with exit code {code}"),
            Self::Runner(code) => write!(f, "the program ended with exit code {code}"),
        }
    }
}
