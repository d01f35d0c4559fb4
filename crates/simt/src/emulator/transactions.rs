//! Memory transactions of warp-wide loads.
//!
//! A GPU issues a load for all lanes of a warp that reach it together, and transfers each 32-byte sector, or each
//! 128-byte line, that they touch once. The emulator's lanes run one after another, so which of their loads belong
//! together needs a definition; see the documentation of
//! [`Options::count_transactions`](super::Options::count_transactions).

use super::counters::Counters;
use crate::WARP;
use core::cell::{Cell, RefCell};
use core::panic::Location;

/// Bytes of the smallest unit in which memory moves, and of a line of the caches.
const SECTOR: usize = 32;
const LINE: usize = 128;

/// Loads that further lanes may still join, in the order in which their first lane came.
#[derive(Default)]
pub(super) struct OpenLoads(RefCell<Vec<WarpLoad>>);

/// One load by some lanes of a warp.
struct WarpLoad {
    place: &'static Location<'static>,
    /// The last collective of these lanes ([`Slot::synced`](super::block::Slot)).
    synced: u32,
    lanes: u32,
    /// Of each of `lanes`. An access is at most as long as a sector, and aligned to its length.
    sectors: [usize; WARP as usize],
}

impl OpenLoads {
    /// A lane's `k`-th load at a place in the source since a collective joins the other lanes' `k`-th load there since
    /// that collective.
    pub(super) fn join(&self, lane: u32, synced: u32, place: &'static Location<'static>, address: usize) {
        let mut open = self.0.borrow_mut();
        let joins = |load: &WarpLoad| load.synced == synced && load.place == place && load.lanes & 1 << lane == 0;
        let load = match open.iter().position(joins) {
            Some(found) => &mut open[found],
            None => {
                open.push(WarpLoad { place, synced, lanes: 0, sectors: [0; WARP as usize] });
                open.last_mut().expect("just pushed")
            }
        };
        load.lanes |= 1 << lane;
        load.sectors[lane as usize] = address / SECTOR;
    }

    /// Counts all of them. Called when no lane can join any more.
    pub(super) fn close(&self, counters: &Counters) {
        let add = |counter: &Cell<u64>, count: usize| counter.set(counter.get() + count as u64);
        for load in self.0.borrow_mut().drain(..) {
            let mut sectors: Vec<usize> =
                (0..WARP as usize).filter(|lane| load.lanes >> lane & 1 == 1).map(|lane| load.sectors[lane]).collect();
            sectors.sort_unstable();
            sectors.dedup();
            add(&counters.warp_loads, 1);
            add(&counters.sectors, sectors.len());
            sectors.dedup_by_key(|sector| *sector / (LINE / SECTOR));
            add(&counters.lines, sectors.len());
        }
    }
}
