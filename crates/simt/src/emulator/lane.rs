//! A thread: where it is in its block, and how it waits and fails.

use super::block::{Block, Slot, Warp};
use super::fault::FaultKind;
use crate::WARP;
use core::cell::Cell;
use core::panic::Location;
use corosensei::Yielder;

/// A thread. Lives on the thread's own stack.
pub(super) struct Lane<'a> {
    pub(super) block: &'a Block<'a>,
    pub(super) warp: &'a Warp,
    pub(super) slot: &'a Slot,
    pub(super) thread: u32,
    pub(super) lane: u32,
    yielder: &'a Yielder<(), ()>,
    /// The buffer of its last access.
    pub(super) region: Cell<usize>,
}

impl<'a> Lane<'a> {
    pub(super) fn new(block: &'a Block<'a>, yielder: &'a Yielder<(), ()>, thread: u32) -> Self {
        Self {
            block,
            warp: &block.warps[(thread / WARP) as usize],
            slot: &block.slots[thread as usize],
            thread,
            lane: thread % WARP,
            yielder,
            region: Cell::new(0),
        }
    }

    #[inline]
    pub(super) fn suspend(&self) {
        self.yielder.suspend(());
    }

    /// Ends the block; the thread is unwound from here.
    #[cold]
    pub(super) fn fault(&self, kind: FaultKind) -> ! {
        self.block.fault.set(Some(kind));
        loop {
            self.suspend();
        }
    }

    /// Ends the block because of what another lane of the warp asked for.
    #[cold]
    pub(super) fn fault_of(&self, lane: u32, kind: FaultKind) -> ! {
        self.block.blame(self.thread / WARP * WARP + lane);
        self.fault(kind)
    }

    /// Goes to the end of the queue.
    pub(super) fn spin(&self) {
        let bit = 1 << self.lane;
        self.warp.runnable.set(self.warp.runnable.get() & !bit);
        self.warp.spinning.set(self.warp.spinning.get() | bit);
        self.suspend();
    }

    /// With a seed, sometimes lets other threads go first: after collectives and before atomics, where threads
    /// interfere.
    #[inline]
    pub(super) fn maybe_pause(&self) {
        if self.block.launch.options.seed != 0 && self.block.random.below(4) == 0 {
            self.spin();
        }
    }

    /// The value; ends the block if there is none.
    pub(super) fn checked<T>(&self, result: Result<T, FaultKind>) -> T {
        result.unwrap_or_else(|kind| self.fault(kind))
    }

    /// Notes a load, if loads from there are counted.
    #[inline]
    pub(super) fn count_transactions(&self, address: usize, place: &'static Location<'static>) {
        if let Some(counted) = &self.block.launch.options.count_transactions
            && counted.contains(&address)
        {
            self.warp.open_loads.join(self.lane, self.slot.synced.get(), place, address);
        }
    }

    /// At a collective of `mask`: if no other lane can continue, none can join the loads so far.
    #[inline]
    pub(super) fn after_collective(&self, mask: u32) {
        if self.warp.alive() & !mask == 0 {
            self.block.close_loads_of(self.warp);
        }
    }
}
