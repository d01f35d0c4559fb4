//! What a launch counts.

use crate::LaunchReport;
use core::cell::Cell;

/// What a launch counts: first per block, then for all blocks.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) collectives: Cell<u64>,
    pub(super) barriers: Cell<u64>,
    pub(super) loads: Cell<u64>,
    pub(super) stores: Cell<u64>,
    pub(super) atomics: Cell<u64>,
    pub(super) warp_loads: Cell<u64>,
    pub(super) sectors: Cell<u64>,
    pub(super) lines: Cell<u64>,
}

impl From<&Counters> for LaunchReport {
    fn from(counters: &Counters) -> Self {
        Self {
            collectives: counters.collectives.get(),
            barriers: counters.barriers.get(),
            loads: counters.loads.get(),
            stores: counters.stores.get(),
            atomics: counters.atomics.get(),
            warp_loads: counters.warp_loads.get(),
            sectors: counters.sectors.get(),
            lines: counters.lines.get(),
        }
    }
}
