//! How a record came about: what it was asked for by, built from and run on.

use serde::{Deserialize, Serialize};

/// A run of the bench.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// The program's arguments, but for the file of the record.
    pub arguments: Vec<String>,
    /// When it began, in UTC, such as 2026-11-26T07:30:00Z.
    pub began: String,
    /// How long it took, from its start to its end, in seconds.
    pub seconds: u64,
    /// How many of the record's rows are from it.
    pub rows: u64,
    /// What the program was built from; `None` if it was not built by `cargo xtask`.
    pub built: Option<Built>,
    /// Which outputs were compared with what is right.
    pub checked: String,
    /// Variables of the environment that decide on threads and caches, each as `NAME=value`.
    pub environment: Vec<String>,
}

/// What a program was built from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Built {
    /// The commit.
    pub commit: String,
    /// Whether the working tree was that commit.
    pub is_clean: bool,
    /// The compiler, such as `rustc 1.95.0 (...)`.
    pub rustc: String,
    /// The SHA-256 of all PTX that is in it.
    pub ptx_sha256: String,
}

/// A computer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Family, model and stepping of the CPU, which tell what its name hides; such as `6, 143, 8`.
    pub cpu_model: Option<String>,
    /// Sockets that the system sees.
    pub sockets: Option<u64>,
    /// NUMA nodes.
    pub numa_nodes: Option<u64>,
    /// Bytes of the last cache of all sockets.
    pub last_cache_bytes: Option<u64>,
    /// The clock of the first core when the run began.
    pub cpu_mhz: Option<u64>,
    /// Bytes of main memory.
    pub memory_bytes: Option<u64>,
    /// The system's kernel, such as `6.1.0`.
    pub kernel: Option<String>,
    /// What the system says of transparent huge pages, such as `madvise`.
    pub huge_pages: Option<String>,
}

/// How a card is set, as `nvidia-smi` says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Pairs of what and which, such as `clocks.max.sm` and `1980 MHz`.
    pub settings: Vec<(String, String)>,
}

impl Gpu {
    /// Settings that change while nothing is set.
    pub const OF_THE_MOMENT: [&str; 2] = ["clocks.sm", "clocks.mem"];
}
