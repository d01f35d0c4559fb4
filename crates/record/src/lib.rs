//! Records of measurements: what `lanetree-bench --json` writes, and what `lanetree-report` reads.
//!
//! A [`Record`] is a run: the machine, the seed, and a [`Row`] for each measurement. A row has columns that every figure
//! has, and [extras](Row::with) that some have. Who writes rows keeps names as `&'static str` and checksums as numbers;
//! who reads them has text. Hence the parameters of [`Row`].

mod extra;
mod made;
mod read;
mod row;
mod timing;

pub use extra::{Extra, IntoExtra};
pub use made::{Built, Gpu, Host, Made};
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
    /// The runs that gave the rows, in their order: one, or a piece each; none in records of versions that did not write it.
    pub made: Vec<Made>,
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
    /// More of the computer; `None` in records of versions that did not write it.
    pub host: Option<Host>,
    /// How the card is set; `None` without a card, and where its driver's program does not say it.
    pub gpu: Option<Gpu>,
}

impl Machine {
    /// Whether another description is of the same machine, set in the same way: the clocks of the moment do not count.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.lasting() == other.lasting()
    }

    /// What of it does not change from moment to moment.
    fn lasting(&self) -> Self {
        let mut lasting = self.clone();
        if let Some(host) = &mut lasting.host {
            host.cpu_mhz = None;
        }
        if let Some(gpu) = &mut lasting.gpu {
            gpu.settings.retain(|(name, _)| !Gpu::OF_THE_MOMENT.contains(&&**name));
        }
        lasting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_the_same_at_another_clock() {
        let machine = |mhz, sm: &str, kernel: &str| Machine {
            device: "NVIDIA H200 (cuda:0)".into(),
            cuda: None,
            driver: None,
            compute_capability: None,
            multiprocessors: None,
            l2_bytes: None,
            memory_bytes: None,
            cpu: "x".into(),
            cpu_threads: 16,
            host: Some(Host { cpu_mhz: Some(mhz), kernel: Some(kernel.into()), ..Host::default() }),
            gpu: Some(Gpu { settings: vec![("clocks.sm".into(), sm.into())] }),
        };
        assert!(machine(1, "2", "6").is_same_as(&machine(3, "4", "6")));
        assert!(!machine(1, "2", "6").is_same_as(&machine(1, "2", "7")));
    }
}
