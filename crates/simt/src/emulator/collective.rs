//! Warp collectives: lanes meet, and the last one to arrive computes the result of each.

use super::block::{Block, Slot};
use super::fault::{Collective, FaultKind};
use super::lane::Lane;
use crate::WARP;
use core::panic::Location;

impl Lane<'_> {
    /// Returns the caller's result once all lanes of `mask` have called the same collective.
    pub(super) fn meet(
        &self,
        op: Collective,
        mask: u32,
        payload: u64,
        operand: u32,
        location: &'static Location<'static>,
    ) -> u64 {
        let (warp, slot, bit) = (self.warp, self.slot, 1 << self.lane);
        if mask & bit == 0 {
            self.fault(FaultKind::CallerNotInMask { op, location, mask });
        }
        slot.payload.set(payload);
        slot.operand.set(operand);
        slot.mask.set(mask);
        slot.op.set(op);
        slot.location.set(location);
        let waiting = warp.waiting.get() | bit;
        let slots = self.block.slots_of(self.thread / WARP);
        if waiting & mask == mask && agree(slots, op, mask) {
            if let Err((lane, kind)) = complete(slots, op, mask) {
                self.fault_of(lane, kind);
            }
            warp.waiting.set(waiting & !mask);
            warp.runnable.set(warp.runnable.get() | mask);
            self.block.count(|counters| &counters.collectives);
            let time = warp.time.get() + 1;
            warp.time.set(time);
            let met = self.block.tick();
            for lane in lanes(mask) {
                slots[lane].synced.set(time);
                slots[lane].met.set(met);
            }
            if self.block.launch.memory.releases.any() {
                share(lanes(mask).map(|lane| &slots[lane]));
            }
            if let Some(weak) = &self.block.launch.weak {
                let first = self.thread / WARP * WARP;
                let owner = |lane: usize| (self.block.index.get(), first + lane as u32);
                weak.meet(lanes(mask).map(|lane| (owner(lane), &slots[lane].view)));
            }
            self.after_collective(mask);
            self.maybe_pause();
        } else {
            warp.waiting.set(waiting);
            warp.runnable.set(warp.runnable.get() & !bit);
            self.suspend();
        }
        slot.result.get()
    }

    /// Returns once all threads of the block have called it.
    pub(super) fn meet_block(&self, location: &'static Location<'static>) {
        let (block, bit) = (self.block, 1 << self.lane);
        self.slot.location.set(location);
        self.warp.at_barrier.set(self.warp.at_barrier.get() | bit);
        self.warp.runnable.set(self.warp.runnable.get() & !bit);
        block.arrived.set(block.arrived.get() + 1);
        if block.arrived.get() == block.launch.shape.threads {
            block.arrived.set(0);
            block.shared.next_epoch();
            block.barrier_time.set(block.tick());
            if block.launch.memory.releases.any() {
                share(block.slots.iter());
            }
            if let Some(weak) = &block.launch.weak {
                let index = block.index.get();
                weak.meet(block.slots.iter().zip(0..).map(|(slot, thread)| ((index, thread), &slot.view)));
            }
            block.count(|counters| &counters.barriers);
            block.close_loads();
            for warp in &block.warps {
                warp.runnable.set(warp.runnable.get() | warp.at_barrier.take());
            }
            self.maybe_pause();
        } else {
            self.suspend();
        }
    }
}

impl Block<'_> {
    #[inline]
    fn slots_of(&self, warp: u32) -> &[Slot; WARP as usize] {
        let slots = self.slots.as_chunks().0;
        &slots[warp as usize]
    }
}

/// From here on each of these threads knows what any of them knew.
fn share<'a>(slots: impl Iterator<Item = &'a Slot> + Clone) {
    let knows = slots.clone().map(|slot| slot.knows.get()).max().unwrap_or(0);
    slots.for_each(|slot| slot.knows.set(knows));
}

/// The lanes of a mask, ascending.
#[inline]
fn lanes(mask: u32) -> impl Iterator<Item = usize> + Clone {
    let mut rest = mask;
    core::iter::from_fn(move || {
        let lane = rest.trailing_zeros();
        rest &= rest.wrapping_sub(1);
        (lane < WARP).then_some(lane as usize)
    })
}

/// Whether all lanes of `mask` (all of them wait) wait for this collective.
#[inline]
fn agree(slots: &[Slot; WARP as usize], op: Collective, mask: u32) -> bool {
    lanes(mask).all(|lane| slots[lane].mask.get() == mask && slots[lane].op.get() == op)
}

/// Computes the results of all lanes of `mask`, or says which lane asked for a value that does not exist.
fn complete(slots: &[Slot; WARP as usize], op: Collective, mask: u32) -> Result<(), (u32, FaultKind)> {
    let payload = |lane: usize| slots[lane].payload.get();
    let same = |result: u64| lanes(mask).for_each(|lane| slots[lane].result.set(result));
    let fold = |fold: fn(u32, u32) -> u32| {
        let values = lanes(mask).map(|lane| payload(lane) as u32);
        same(u64::from(values.reduce(fold).unwrap_or(0)))
    };
    let ballot = || lanes(mask).fold(0, |set, lane| set | payload(lane) << lane);
    // `from` gives the lane that a lane takes its value from; 32 or more if there is none.
    let shuffle = |outside_is_own: bool, from: fn(u32, u32) -> u32| {
        for lane in lanes(mask) {
            let mut source = from(lane as u32, slots[lane].operand.get());
            if source >= WARP && outside_is_own {
                source = lane as u32;
            }
            if source >= WARP || mask & 1 << source == 0 {
                let location = slots[lane].location.get();
                let kind = FaultKind::SourceLaneNotInMask { op, location, mask, source };
                return Err((lane as u32, kind));
            }
            slots[lane].result.set(payload(source as usize));
        }
        Ok(())
    };
    match op {
        Collective::Ballot => same(ballot()),
        Collective::Any => same(u64::from(ballot() != 0)),
        Collective::All => same(u64::from(ballot() == u64::from(mask))),
        Collective::Shuffle => shuffle(false, |_, source| source)?,
        Collective::ShuffleXor => shuffle(false, |lane, mask| lane ^ mask)?,
        Collective::ShuffleUp => shuffle(true, |lane, delta| lane.checked_sub(delta).unwrap_or(u32::MAX))?,
        Collective::ShuffleDown => shuffle(true, |lane, delta| lane.saturating_add(delta))?,
        Collective::MatchAny => {
            let mut rest = mask;
            while rest != 0 {
                let value = payload(rest.trailing_zeros() as usize);
                let equal = lanes(rest).filter(|&lane| payload(lane) == value);
                let equal = equal.fold(0, |set: u32, lane| set | 1 << lane);
                lanes(equal).for_each(|lane| slots[lane].result.set(u64::from(equal)));
                rest &= !equal;
            }
        }
        Collective::ReduceAdd => fold(u32::wrapping_add),
        Collective::ReduceMax => fold(u32::max),
        Collective::ReduceMin => fold(u32::min),
        Collective::SyncWarp => {}
    }
    Ok(())
}
