//! How much is measured, by device: plain data.

use lanetree::DeviceKind;
use serde::Deserialize;

/// What defaults depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) kind: DeviceKind,
    pub(crate) quick: bool,
}

/// The default sizes of a figure, by device: keys of its trees, as exponents of two. A device that is not named has the
/// standard ones; a quick run that is not named has those of any other run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sizes {
    cuda: Option<Vec<u32>>,
    cuda_quick: Option<Vec<u32>>,
    host: Option<Vec<u32>>,
    host_quick: Option<Vec<u32>>,
    emulated: Option<Vec<u32>>,
    emulated_quick: Option<Vec<u32>>,
}

/// The standard ones everywhere.
pub(crate) static STANDARD: Sizes =
    Sizes { cuda: None, cuda_quick: None, host: None, host_quick: None, emulated: None, emulated_quick: None };

impl Sizes {
    pub(crate) fn of(&self, scale: Scale) -> Vec<u32> {
        let (any, quick) = match scale.kind {
            DeviceKind::Cuda => (&self.cuda, &self.cuda_quick),
            DeviceKind::Host => (&self.host, &self.host_quick),
            DeviceKind::Emulated => (&self.emulated, &self.emulated_quick),
        };
        let named = if scale.quick { quick.as_ref().or(any.as_ref()) } else { any.as_ref() };
        named.cloned().unwrap_or_else(|| standard(scale))
    }
}

/// Sizes are powers of two, and given as their exponents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) scale: Scale,
    /// The sizes that were asked for, instead of every figure's own; none if there were none.
    pub(crate) asked: Vec<u32>,
    /// Queries of a batch.
    pub(crate) queries: u32,
    /// Pairs that a batch of ranges returns, at most.
    pub(crate) range_pairs: u32,
    /// Queries of a batch that begins and ends in host memory.
    pub(crate) host_queries: u32,
    /// Ranges of such a batch.
    pub(crate) host_ranges: u32,
    /// Queries of a batch on the CPU.
    pub(crate) cpu_queries: u32,
    /// Bytes that are copied.
    pub(crate) copy_bytes: u32,
    /// Timed runs of a row.
    pub(crate) runs: usize,
}

/// The size at which everything is measured, if it is among the sizes.
const MAIN_SIZE: u32 = 26;

impl Plan {
    pub(crate) fn of(scale: Scale) -> Self {
        let plan = |queries, range_pairs, host_queries, cpu_queries, copy_bytes, runs| Self {
            scale,
            asked: Vec::new(),
            queries,
            range_pairs,
            host_queries,
            // Of 8 pairs each.
            host_ranges: if host_queries > 23 { 23 } else { host_queries },
            cpu_queries,
            copy_bytes,
            runs,
        };
        match (scale.kind, scale.quick) {
            (DeviceKind::Cuda, false) => plan(26, 29, 26, 22, 31, 5),
            (DeviceKind::Cuda, true) => plan(24, 27, 22, 20, 30, 3),
            (DeviceKind::Host, false) => plan(20, 22, 20, 20, 0, 5),
            (DeviceKind::Host, true) => plan(18, 18, 18, 18, 0, 3),
            (DeviceKind::Emulated, false) => plan(12, 14, 12, 12, 16, 1),
            (DeviceKind::Emulated, true) => plan(10, 11, 10, 10, 14, 1),
        }
    }

    /// The sizes that were asked for, or else these defaults.
    pub(crate) fn sizes(&self, default: &Sizes) -> Vec<u32> {
        if self.asked.is_empty() { default.of(self.scale) } else { self.asked.clone() }
    }

    /// Whether the sizes are neither those that were asked for nor the smaller ones of a quick run.
    pub(crate) fn is_default(&self) -> bool {
        self.asked.is_empty() && !self.scale.quick
    }
}

/// The sizes of the trees on the device, unless a figure has others.
fn standard(scale: Scale) -> Vec<u32> {
    match (scale.kind, scale.quick) {
        (DeviceKind::Cuda, false) => vec![20, 24, 26, 28],
        (DeviceKind::Cuda, true) => vec![20, 24],
        (DeviceKind::Host, false) => vec![18, 22],
        (DeviceKind::Host, true) => vec![16],
        (DeviceKind::Emulated, false) => vec![10, 14],
        (DeviceKind::Emulated, true) => vec![10],
    }
}

/// The size for what is measured at one only: 2^26, else the largest below, else the smallest.
pub(crate) fn main_of(sizes: &[u32]) -> u32 {
    let below = sizes.iter().filter(|&&size| size <= MAIN_SIZE).max();
    below.or(sizes.iter().min()).copied().unwrap_or(MAIN_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_size_is_one_of_the_sizes() {
        assert_eq!(main_of(&standard(Scale { kind: DeviceKind::Cuda, quick: false })), 26);
        assert_eq!(main_of(&[20, 24]), 24);
        assert_eq!(main_of(&[29, 28]), 28);
    }

    #[test]
    fn sizes_that_are_asked_for_replace_the_defaults() {
        let mut plan = Plan::of(Scale { kind: DeviceKind::Host, quick: false });
        assert_eq!((plan.sizes(&STANDARD), plan.is_default()), (vec![18, 22], true));
        plan.asked = vec![9];
        assert_eq!((plan.sizes(&STANDARD), plan.is_default()), (vec![9], false));
    }
}
