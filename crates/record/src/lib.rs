//! Records of measurements: what `lanetree-bench --json` writes, and what `lanetree-report` reads.
//!
//! A [`Record`] is a run: the machine, the seed, and a [`Row`] for each measurement. A row has columns that every figure
//! has, and [extras](Row::with) that some have. Who writes rows keeps names as `&'static str` and checksums as numbers;
//! who reads them has text. Hence the parameters of [`Row`].

mod extra;
mod read;
mod row;
mod timing;

pub use extra::{Extra, IntoExtra};
pub use read::Error;
pub use row::Row;
pub use timing::Timing;

use serde::Serialize;
use serde_json::{Map, Value};

/// A run of `bench`: all that it has to say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record<R = Row> {
    /// `bench`.
    pub command: String,
    /// The bench's version.
    pub version: String,
    /// What the figures were measured on.
    pub machine: Machine,
    /// The day on which it began, in UTC, such as 2026-11-23; `None` in records of versions that did not write it.
    pub date: Option<String>,
    /// What keys and queries follow from.
    pub seed: u64,
    /// What was measured.
    pub rows: Vec<R>,
    /// What was counted, and not timed, by its name.
    #[serde(flatten)]
    pub counts: Map<String, Value>,
    /// What was not measured, and why.
    pub skipped: Vec<String>,
    /// What ended the run before its end.
    pub failure: Option<String>,
}

/// What figures were measured on. What only GPUs have is `None` elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Name and ordinal.
    pub device: String,
    /// The CUDA version that the driver supports.
    pub cuda: Option<String>,
    /// The version of NVIDIA's kernel module, such as 580.159.04.
    pub driver: Option<String>,
    /// Such as 9.0.
    pub compute_capability: Option<String>,
    /// Its SMs.
    pub multiprocessors: Option<u64>,
    /// Bytes of L2.
    pub l2_bytes: Option<u64>,
    /// Bytes of device memory.
    pub memory_bytes: Option<u64>,
    /// The CPU's name.
    pub cpu: String,
    /// Threads that the run could use.
    pub cpu_threads: u64,
}
