//! What launches did, counted.

use core::ops::AddAssign;

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchReport {
    /// Warp collectives completed, each counted once for all its lanes.
    pub collectives: u64,
    /// Block barriers completed, each counted once for all threads.
    pub barriers: u64,
    /// Plain loads from global memory, by single threads; a vector counts once.
    pub loads: u64,
    /// Plain stores to global memory, by single threads.
    pub stores: u64,
    /// Atomic accesses to global memory, by single threads.
    pub atomics: u64,
    /// Plain loads from global memory, each counted once for all lanes of a warp that execute it together:
    /// see `emulator::Options::count_transactions`, without which this and the two below are 0.
    pub warp_loads: u64,
    /// The sectors of 32 bytes that each of them touches, summed.
    pub sectors: u64,
    /// The lines of 128 bytes that each of them touches, summed.
    pub lines: u64,
}

impl AddAssign for LaunchReport {
    fn add_assign(&mut self, other: Self) {
        self.collectives += other.collectives;
        self.barriers += other.barriers;
        self.loads += other.loads;
        self.stores += other.stores;
        self.atomics += other.atomics;
        self.warp_loads += other.warp_loads;
        self.sectors += other.sectors;
        self.lines += other.lines;
    }
}
