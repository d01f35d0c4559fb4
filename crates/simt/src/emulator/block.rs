//! A block: its threads are coroutines that take turns on one worker.

use super::fault::{Collective, FaultKind, Whereabouts};
use super::lane::Lane;
use super::races::Stamp;
use super::random::Random;
use super::shared::SharedMemory;
use super::stacks::Stacks;
use super::transactions::OpenLoads;
use super::weak::View;
use super::{Body, Launch};
use crate::WARP;
use core::cell::Cell;
use core::panic::Location;
use core::sync::atomic::Ordering;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

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

/// How a block ended.
pub(super) enum Outcome {
    Done,
    /// The thread, and what it did.
    Fault(u32, FaultKind),
    /// It waited for a block that has faulted.
    Stopped,
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
    exited: Cell<u32>,
    /// The thread whose turn it is.
    current: Cell<u32>,
    pub(super) fault: Cell<Option<FaultKind>>,
}

type Fiber = Coroutine<(), (), (), DefaultStack>;

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

    /// Runs block `index` to its end.
    ///
    /// # Safety
    /// As [`super::launch_program`]; once for each block.
    pub(super) unsafe fn run(&self, index: u32, body: Body, stacks: &mut Stacks) -> Outcome {
        self.reset(index);
        let mut fibers: Vec<Option<Fiber>> = (0..self.launch.shape.threads).map(|_| None).collect();
        let start = |thread: u32, stack: DefaultStack| {
            // SAFETY: `self` and the arguments outlive the fibers, which end, unwound if need be, before this
            // function returns.
            unsafe {
                Fiber::with_stack_unchecked(stack, move |yielder, ()| {
                    let lane = Lane::new(self, yielder, thread);
                    // SAFETY: one fiber for each thread of the block; the rest is the caller's.
                    (body.program.thread)(lane.simt(), body.args)
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

    fn reset(&self, index: u32) {
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

    /// Lets the warps take turns until all threads have returned.
    fn turns(
        &self,
        fibers: &mut [Option<Fiber>],
        start: impl Fn(u32, DefaultStack) -> Fiber,
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
