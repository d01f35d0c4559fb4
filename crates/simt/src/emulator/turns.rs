//! Running a block: its threads are coroutines that take turns on one worker.

use super::block::{Block, Warp};
use super::emulated::Emulated;
use super::fault::{FaultKind, Whereabouts};
use super::lane::Lane;
use super::stacks::{Stacks, ThreadStack};
use super::{Body, Launch};
use crate::WARP;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use corosensei::{Coroutine, CoroutineResult};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// How a block ended.
pub(super) enum Outcome {
    Done,
    /// The thread, and what it did.
    Fault(u32, FaultKind),
    /// It waited for a block that has faulted.
    Stopped,
}

type Fiber = Coroutine<(), (), (), ThreadStack>;

impl Block<'_> {
    /// Runs block `index` to its end.
    ///
    /// # Safety
    /// As [`super::launch_program`]; once for each block.
    pub(super) unsafe fn run(&self, index: u32, body: Body, stacks: &mut Stacks) -> Outcome {
        self.reset(index);
        let mut fibers: Vec<Option<Fiber>> = (0..self.launch.shape.threads).map(|_| None).collect();
        let start = |thread: u32, stack: ThreadStack| {
            // SAFETY: `self` and the arguments outlive the fibers, which end, unwound if need be, before this
            // function returns.
            unsafe {
                Fiber::with_stack_unchecked(stack, move |yielder, ()| {
                    let lane = Lane::new(self, yielder, thread);
                    // SAFETY: one fiber for each thread of the block; the rest is the caller's.
                    (body.program.thread)(Emulated::new(&lane), body.args)
                })
            }
        };
        let result = catch_unwind(AssertUnwindSafe(|| self.turns(&mut fibers, start, stacks)));
        for mut fiber in fibers.into_iter().flatten() {
            fiber.force_unwind();
            stacks.put(fiber.into_stack());
        }
        self.close_loads();
        result.unwrap_or_else(|panic| {
            let message = match panic.downcast::<String>() {
                Ok(message) => *message,
                Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or("?").into(),
            };
            Outcome::Fault(self.current.get(), FaultKind::Panic(message))
        })
    }

    /// Lets the warps take turns until all threads have returned.
    fn turns(
        &self,
        fibers: &mut [Option<Fiber>],
        start: impl Fn(u32, ThreadStack) -> Fiber,
        stacks: &mut Stacks,
    ) -> Outcome {
        let warps = self.warps.len() as u32;
        let seeded = self.launch.options.seed != 0;
        let mut patience = Patience::default();
        while self.exited.get() < self.launch.shape.threads {
            let mut progress = false;
            let first = if seeded { self.random.below(warps) } else { 0 };
            for turn in 0..warps {
                let index = (first + turn) % warps;
                let warp = &self.warps[index as usize];
                warp.runnable.set(warp.runnable.get() | warp.spinning.take());
                while warp.runnable.get() != 0 {
                    let lane = self.pick(warp.runnable.get());
                    let thread = index * WARP + lane;
                    self.current.set(thread);
                    let fiber = &mut fibers[thread as usize];
                    let running = fiber.get_or_insert_with(|| start(thread, stacks.take()));
                    if let CoroutineResult::Return(()) = running.resume(()) {
                        stacks.put(fiber.take().expect("it ran").into_stack());
                        warp.runnable.set(warp.runnable.get() & !(1 << lane));
                        warp.exited.set(warp.exited.get() | 1 << lane);
                        self.exited.set(self.exited.get() + 1);
                    } else if let Some(fault) = self.fault.take() {
                        return Outcome::Fault(self.current.get(), fault);
                    }
                    progress |= warp.spinning.get() & 1 << lane == 0;
                    // Sometimes another warp goes first.
                    if seeded && self.random.below(8) == 0 {
                        break;
                    }
                }
            }
            if progress {
                patience = Patience::default();
            } else if let Some((thread, fault)) = self.stuck() {
                return Outcome::Fault(thread, fault);
            } else if self.launch.stop.load(Ordering::Relaxed) {
                return Outcome::Stopped;
            } else if patience.ends(self.launch) {
                let spinning = |warp: &Warp| warp.spinning.get() | warp.runnable.get();
                let count = self.warps.iter().map(|warp| spinning(warp).count_ones()).sum();
                let thread = (0..self.launch.shape.threads)
                    .find(|&thread| spinning(&self.warps[(thread / WARP) as usize]) & 1 << (thread % WARP) != 0);
                return Outcome::Fault(thread.unwrap_or(0), FaultKind::Livelock { spinning: count });
            } else {
                std::thread::yield_now();
            }
        }
        Outcome::Done
    }

    /// The lane of a non-empty set that runs next.
    #[inline]
    fn pick(&self, lanes: u32) -> u32 {
        if self.launch.options.seed == 0 {
            return lanes.trailing_zeros();
        }
        let rotation = self.random.below(WARP);
        (lanes.rotate_right(rotation).trailing_zeros() + rotation) % WARP
    }

    /// The first thread that certainly waits for nothing. Called when no thread can do more than spin.
    ///
    /// Only lanes of the same warp complete a collective: if none of them can run, it will never complete. And a
    /// barrier needs the threads that are stuck that way, and those that have returned.
    fn stuck(&self) -> Option<(u32, FaultKind)> {
        let blocked = |warp: &Warp| warp.waiting.get() != 0 && warp.runnable.get() | warp.spinning.get() == 0;
        let barrier_broken = self.arrived.get() > 0 && (self.exited.get() > 0 || self.warps.iter().any(blocked));
        self.warps.iter().zip(0..).find_map(|(warp, index)| {
            let waiting = if blocked(warp) { warp.waiting.get() } else { 0 };
            let at_barrier = if barrier_broken { warp.at_barrier.get() } else { 0 };
            let lane = (waiting | at_barrier).trailing_zeros();
            (lane < WARP).then(|| {
                let thread = index * WARP + lane;
                let at_barrier = at_barrier & 1 << lane != 0;
                (thread, if at_barrier { self.barrier_fault(thread) } else { self.mismatch(thread) })
            })
        })
    }

    fn barrier_fault(&self, thread: u32) -> FaultKind {
        let threads = self.launch.shape.threads;
        let mut places = (0..threads).map(|other| (other, self.whereabouts(other)));
        let missing = |&(_, place): &(u32, Whereabouts)| !matches!(place, Whereabouts::AtBarrier(_));
        FaultKind::BarrierNotReached {
            location: self.slots[thread as usize].location.get(),
            arrived: self.arrived.get(),
            missing: threads - self.arrived.get(),
            example: places.find(missing).expect("or the barrier would be complete"),
        }
    }

    fn mismatch(&self, thread: u32) -> FaultKind {
        let slot = &self.slots[thread as usize];
        let (op, mask, location) = (slot.op.get(), slot.mask.get(), slot.location.get());
        let mut arrived = 0;
        let mut missing = Vec::new();
        for lane in (0..WARP).filter(|lane| mask & 1 << lane != 0) {
            match self.whereabouts(thread / WARP * WARP + lane) {
                Whereabouts::AtCollective { op: its_op, mask: its_mask, .. } if its_op == op && its_mask == mask => {
                    arrived |= 1 << lane
                }
                place => missing.push((lane, place)),
            }
        }
        FaultKind::CollectiveMismatch { op, location, mask, arrived, missing }
    }

    fn whereabouts(&self, thread: u32) -> Whereabouts {
        let warp = &self.warps[(thread / WARP) as usize];
        let slot = &self.slots[thread as usize];
        let location = slot.location.get();
        let is_in = |set: &Cell<u32>| set.get() & 1 << (thread % WARP) != 0;
        if thread >= self.launch.shape.threads {
            Whereabouts::Absent
        } else if is_in(&warp.exited) {
            Whereabouts::Exited
        } else if is_in(&warp.waiting) {
            Whereabouts::AtCollective { op: slot.op.get(), mask: slot.mask.get(), location }
        } else if is_in(&warp.at_barrier) {
            Whereabouts::AtBarrier(location)
        } else {
            Whereabouts::Spinning
        }
    }
}

/// How long a block has only spun while no other block finished.
#[derive(Default)]
struct Patience {
    since: Option<(Instant, u32)>,
}

impl Patience {
    fn ends(&mut self, launch: &Launch<'_>) -> bool {
        let finished = launch.finished.load(Ordering::Relaxed);
        match self.since {
            Some((since, then)) if then == finished => since.elapsed() > launch.options.patience,
            _ => {
                self.since = Some((Instant::now(), finished));
                false
            }
        }
    }
}
