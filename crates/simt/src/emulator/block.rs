//! A block, its warps and its threads: what they wait for, and what they know.

use super::Launch;
use super::counters::Counters;
use super::fault::{Collective, FaultKind};
use super::races::Stamp;
use super::random::Random;
use super::shared::SharedMemory;
use super::transactions::OpenLoads;
use super::weak::View;
use crate::WARP;
use core::cell::Cell;
use core::panic::Location;

/// What a thread waits for, and the result it gets. Written by the thread; the last one to arrive writes the result.
pub(super) struct Slot {
    pub(super) payload: Cell<u64>,
    pub(super) result: Cell<u64>,
    /// The lane, mask or distance that a shuffle names.
    pub(super) operand: Cell<u32>,
    pub(super) mask: Cell<u32>,
    /// [`Warp::time`] after the last collective in which the lane took part.
    pub(super) synced: Cell<u32>,
    /// [`Block::time`] after that collective.
    pub(super) met: Cell<u32>,
    /// The last release that the thread knows of.
    pub(super) knows: Cell<Stamp>,
    /// The last release that it has read with a relaxed access: a fence makes it known.
    pub(super) read: Cell<Stamp>,
    /// Its last fence, as a release: its later stores publish it.
    pub(super) fenced: Cell<Stamp>,
    /// What it sees if memory is weak.
    pub(super) view: Cell<View>,
    pub(super) op: Cell<Collective>,
    pub(super) location: Cell<&'static Location<'static>>,
}

/// The lanes of a warp, each in exactly one of these sets unless it is absent.
#[derive(Default)]
pub(super) struct Warp {
    /// Can continue. The running lane is one of them.
    pub(super) runnable: Cell<u32>,
    /// Can continue once the others have had a turn.
    pub(super) spinning: Cell<u32>,
    /// At a warp collective.
    pub(super) waiting: Cell<u32>,
    /// At the block barrier.
    pub(super) at_barrier: Cell<u32>,
    /// Returned.
    pub(super) exited: Cell<u32>,
    /// Collectives completed in this block.
    pub(super) time: Cell<u32>,
    /// Loads whose transactions have yet to be counted.
    pub(super) open_loads: OpenLoads,
}

impl Warp {
    /// The lanes that have not returned.
    #[inline]
    pub(super) fn alive(&self) -> u32 {
        self.runnable.get() | self.spinning.get() | self.waiting.get() | self.at_barrier.get()
    }
}

/// The block that a worker runs; reused for the next one.
pub(super) struct Block<'l> {
    pub(super) launch: &'l Launch<'l>,
    pub(super) index: Cell<u32>,
    pub(super) warps: Vec<Warp>,
    pub(super) slots: Vec<Slot>,
    pub(super) shared: SharedMemory,
    pub(super) random: Random,
    pub(super) counters: Counters,
    /// Threads at the barrier, and returned.
    pub(super) arrived: Cell<u32>,
    /// Advances at every barrier, collective and release of the block.
    pub(super) time: Cell<u32>,
    /// Its value after the last barrier.
    pub(super) barrier_time: Cell<u32>,
    pub(super) exited: Cell<u32>,
    /// The thread whose turn it is.
    pub(super) current: Cell<u32>,
    pub(super) fault: Cell<Option<FaultKind>>,
}

impl<'l> Block<'l> {
    pub(super) fn new(launch: &'l Launch<'l>) -> Self {
        let warps = launch.shape.threads.div_ceil(WARP);
        let nowhere = Location::caller();
        let slot = || Slot {
            payload: Cell::new(0),
            result: Cell::new(0),
            operand: Cell::new(0),
            mask: Cell::new(0),
            synced: Cell::new(0),
            met: Cell::new(0),
            knows: Cell::new(0),
            read: Cell::new(0),
            fenced: Cell::new(0),
            view: Cell::default(),
            op: Cell::new(Collective::SyncWarp),
            location: Cell::new(nowhere),
        };
        Self {
            launch,
            index: Cell::new(0),
            warps: (0..warps).map(|_| Warp::default()).collect(),
            slots: (0..warps * WARP).map(|_| slot()).collect(),
            shared: SharedMemory::new(launch.shared_bytes, launch.options.shared_races),
            random: Random::new(0, 0),
            counters: Counters::default(),
            arrived: Cell::new(0),
            time: Cell::new(0),
            barrier_time: Cell::new(0),
            exited: Cell::new(0),
            current: Cell::new(0),
            fault: Cell::new(None),
        }
    }

    /// Attributes the next fault to `thread`.
    pub(super) fn blame(&self, thread: u32) {
        self.current.set(thread);
    }

    /// Advances the block's clock; returns its new value.
    #[inline]
    pub(super) fn tick(&self) -> u32 {
        let time = self.time.get().saturating_add(1);
        self.time.set(time);
        time
    }

    /// Makes it block `index`, which has not begun.
    pub(super) fn reset(&self, index: u32) {
        self.index.set(index);
        self.random.reseed(self.launch.options.seed, u64::from(index));
        self.shared.next_block();
        self.arrived.set(0);
        self.exited.set(0);
        self.time.set(1);
        self.barrier_time.set(0);
        for slot in &self.slots {
            slot.synced.set(0);
            slot.met.set(0);
            slot.view.set(View::default());
            for stamp in [&slot.knows, &slot.read, &slot.fenced] {
                stamp.set(0);
            }
        }
        let mut left = self.launch.shape.threads;
        for warp in &self.warps {
            let lanes = left.min(WARP);
            left -= lanes;
            let present = u32::MAX >> (WARP - lanes);
            warp.runnable.set(present);
            for set in [&warp.spinning, &warp.waiting, &warp.at_barrier, &warp.exited, &warp.time] {
                set.set(0);
            }
        }
    }

    /// Adds 1 to a counter.
    #[inline]
    pub(super) fn count(&self, counter: impl Fn(&Counters) -> &Cell<u64>) {
        let counter = counter(&self.counters);
        counter.set(counter.get() + 1);
    }

    /// Counts the loads of a warp, which no lane can join any more.
    #[inline]
    pub(super) fn close_loads_of(&self, warp: &Warp) {
        if self.launch.options.count_transactions.is_some() {
            warp.open_loads.close(&self.counters);
        }
    }

    /// At a barrier, and at the end of a block.
    pub(super) fn close_loads(&self) {
        self.warps.iter().for_each(|warp| self.close_loads_of(warp));
    }
}
