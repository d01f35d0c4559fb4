//! What is verified.

/// A value of `--index`: the second part of a case's name, and what the kernels' modules begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Index {
    /// The B+tree, its builds and updates
    Harmonia,
    /// The radix tree, on the CPU too, and its builds
    Cuart,
    /// What CuART is compared with; on devices with kernels only
    Grt,
    /// Sorts, scans, selection, runs, merging
    Primitives,
}

impl Index {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Harmonia => "harmonia",
            Self::Cuart => "cuart",
            Self::Grt => "grt",
            Self::Primitives => "primitives",
        }
    }
}
