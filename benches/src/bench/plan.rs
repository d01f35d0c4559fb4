//! How much is measured, by device: plain data.

use lanetree::DeviceKind;

/// Sizes are powers of two, and given as their exponents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Keys of the trees.
    pub(super) sizes: Vec<u32>,
    /// Keys of the trees of the figure `harmonia-ladder`.
    pub(super) ladder: Vec<u32>,
    /// Keys of the trees of the figure `harmonia-psa`.
    pub(super) psa: Vec<u32>,
    /// Keys of the trees of the figure `cuart-long`.
    pub(super) long_keys: u32,
    /// Queries of a batch.
    pub(super) queries: u32,
    /// Pairs that a batch of ranges returns, at most.
    pub(super) range_pairs: u32,
    /// Queries of a batch that begins and ends in host memory.
    pub(super) host_queries: u32,
    /// Ranges of such a batch.
    pub(super) host_ranges: u32,
    /// Keys of the trees on the CPU, and queries of a batch there.
    pub(super) cpu: Vec<u32>,
    pub(super) cpu_queries: u32,
    /// Keys of the trees of the figure `cuart-cpu`.
    pub(super) cuart_cpu: Vec<u32>,
    /// Bytes that are copied.
    pub(super) copy_bytes: u32,
    /// Whether the sizes are not those that were asked for, nor the smaller ones of a quick run.
    pub(super) is_default: bool,
    /// Timed runs of a row.
    pub(super) runs: usize,
}

/// The size at which everything is measured, if it is among the sizes.
const MAIN_SIZE: u32 = 26;

/// The most keys of the figure `cuart-long`, which builds two dozen trees.
const LONG_KEYS: u32 = 22;

impl Plan {
    pub(super) fn of(kind: DeviceKind, quick: bool) -> Self {
        let plan = |sizes: &[u32],
                    ladder: &[u32],
                    queries,
                    range_pairs,
                    host_queries,
                    cpu: &[u32],
                    cpu_queries,
                    copy_bytes,
                    runs| Self {
            sizes: sizes.into(),
            ladder: ladder.into(),
            // The smallest of the ladder's sizes, and its largest.
            psa: ladder.iter().enumerate().filter(|&(i, _)| i == 0 || i + 1 == ladder.len()).map(|(_, &n)| n).collect(),
            long_keys: main_of(sizes).min(LONG_KEYS),
            queries,
            range_pairs,
            host_queries,
            // Of 8 pairs each.
            host_ranges: if host_queries > 23 { 23 } else { host_queries },
            cpu: cpu.into(),
            cpu_queries,
            cuart_cpu: match (kind, quick) {
                // A GPU's host is taken to have the memory and the cores.
                (DeviceKind::Cuda, false) => vec![16, 20, 22, 24],
                (DeviceKind::Host, false) => vec![16, 20, 22],
                (DeviceKind::Cuda | DeviceKind::Host, true) => vec![16, 20],
                (DeviceKind::Emulated, _) => cpu.into(),
            },
            copy_bytes,
            is_default: !quick,
            runs,
        };
        match (kind, quick) {
            (DeviceKind::Cuda, false) => {
                plan(&[20, 24, 26, 28], &[23, 24, 25, 26], 26, 29, 26, &[20, 24, 26], 22, 31, 5)
            }
            (DeviceKind::Cuda, true) => plan(&[20, 24], &[23], 24, 27, 22, &[20], 20, 30, 3),
            (DeviceKind::Host, false) => plan(&[18, 22], &[], 20, 22, 20, &[18, 22], 20, 0, 5),
            (DeviceKind::Host, true) => plan(&[16], &[], 18, 18, 18, &[16], 18, 0, 3),
            (DeviceKind::Emulated, false) => plan(&[10, 14], &[10, 12], 12, 14, 12, &[14], 12, 16, 1),
            (DeviceKind::Emulated, true) => plan(&[10], &[9], 10, 11, 10, &[10], 10, 14, 1),
        }
    }

    /// The size for what is measured at one only: 2^26, else the largest below, else the smallest.
    pub(super) fn main_size(&self) -> u32 {
        main_of(&self.sizes)
    }
}

fn main_of(sizes: &[u32]) -> u32 {
    let below = sizes.iter().filter(|&&size| size <= MAIN_SIZE).max();
    below.or(sizes.iter().min()).copied().unwrap_or(MAIN_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_size_is_one_of_the_sizes() {
        let plan = |sizes: &[u32]| Plan { sizes: sizes.into(), ..Plan::of(DeviceKind::Cuda, false) };
        assert_eq!(Plan::of(DeviceKind::Cuda, false).main_size(), 26);
        assert_eq!(Plan::of(DeviceKind::Cuda, false).long_keys, 22);
        assert_eq!(plan(&[20, 24]).main_size(), 24);
        assert_eq!(plan(&[29, 28]).main_size(), 28);
    }
}
