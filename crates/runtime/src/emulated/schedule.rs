//! The emulated device's streams: their queued work, and the order in which it runs.

use super::order::{self, Clock, History, StreamId, Work};
use crate::machine::Machine;
use crate::{Error, Result};
use lanetree_simt::emulator::Region;
use lanetree_simt::{Entry, LaunchShape};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Work in a stream.
pub(super) enum Task {
    Launch(Launch),
    /// A number of bytes, from one address to another.
    Copy {
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    },
    Zero {
        at: *mut u8,
        bytes: usize,
    },
    /// For an event: which of its recordings is done then.
    Record {
        event: usize,
        time: u64,
    },
    /// Runs once the event's recording is done.
    Wait {
        event: usize,
        time: u64,
    },
    /// Runs once a peer's event's recording is done.
    WaitForPeer(Awaited),
    /// A copy of a peer's has come.
    Arrive,
}

/// A recording of an event of another emulated device, which is asked by nobody's lock whether it is done.
#[derive(Clone)]
pub(super) struct Awaited {
    pub(super) peer: Arc<dyn Machine>,
    pub(super) time: u64,
    pub(super) done: Arc<AtomicU64>,
}

impl Awaited {
    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) >= self.time
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.time == other.time && Arc::ptr_eq(&self.done, &other.done)
    }
}

// SAFETY: addresses; the callers that passed them keep the memory alive, and others away from it, until the work is
// done.
unsafe impl Send for Task {}

/// A kernel, and all that it needs to run.
pub(super) struct Launch {
    pub(super) entry: &'static Entry,
    pub(super) shape: LaunchShape,
    /// A copy of the arguments, aligned for any.
    pub(super) args: Box<[u128]>,
    pub(super) regions: Vec<Region>,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    clock: Clock,
}

#[derive(Default)]
struct Recorded {
    clock: Clock,
    /// How often the recording was requested, and the last recording that was reached.
    asked: u64,
    done: Arc<AtomicU64>,
    /// Whether the program has destroyed it. Streams that wait for it still do.
    is_destroyed: bool,
}

impl Recorded {
    fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    fn finish(&self, time: u64) {
        self.done.store(time, Ordering::Release);
    }
}

/// A buffer: bytes from an address on.
struct Allocation {
    bytes: usize,
    history: History,
}

/// An access of a piece of work to a buffer, which is identified by its first byte.
pub(super) type Use = (usize, bool);

/// All streams of a device.
pub(super) struct Schedule {
    queues: BTreeMap<StreamId, Queue>,
    events: BTreeMap<usize, Recorded>,
    /// Every buffer, by its address: a live allocation, or the part of one that a pool has lent.
    allocations: BTreeMap<usize, Allocation>,
    /// What was done to memory that was returned to pools.
    returned: BTreeMap<usize, History>,
    /// What the program's threads have waited for.
    host: Clock,
    /// The device's number among all of the process.
    device: usize,
    /// The number of the last piece of work, and of the last stream or event.
    issued: u64,
    handles: usize,
    random: u64,
    /// The first rule that a kernel has broken, until it is reported.
    pub(super) fault: Option<Error>,
}

impl Schedule {
    pub(super) fn new(seed: u64) -> Self {
        static DEVICES: AtomicUsize = AtomicUsize::new(1);
        Self {
            queues: BTreeMap::new(),
            events: BTreeMap::new(),
            allocations: BTreeMap::new(),
            returned: BTreeMap::new(),
            host: Clock::default(),
            device: DEVICES.fetch_add(1, Ordering::Relaxed),
            issued: 0,
            handles: 0,
            random: seed,
            fault: None,
        }
    }

    fn handle(&mut self) -> usize {
        self.handles += 1;
        order::handle(self.device, self.handles)
    }

    pub(super) fn add_stream(&mut self) -> StreamId {
        let id = self.handle();
        self.queues.insert(id, Queue::default());
        id
    }

    /// The stream's work is done, and it will get no more.
    pub(super) fn remove_stream(&mut self, stream: StreamId) {
        self.queues.remove(&stream);
        // A buffer keeps the streams alive that it has to wait for, so no buffer has to wait for this one.
        let allocations = self.allocations.values_mut().map(|allocation| &mut allocation.history);
        allocations.chain(self.returned.values_mut()).for_each(|history| history.forget(stream));
        self.host.forget(stream);
        self.queues.values_mut().for_each(|queue| queue.clock.forget(stream));
    }

    pub(super) fn add_event(&mut self) -> usize {
        let id = self.handle();
        self.events.insert(id, Recorded::default());
        id
    }

    pub(super) fn remove_event(&mut self, event: usize) {
        if let Some(recorded) = self.events.get_mut(&event) {
            recorded.is_destroyed = true;
        }
        self.forget_event(event);
    }

    /// Forgets an event if it is destroyed and reached.
    fn forget_event(&mut self, event: usize) {
        if self.events.get(&event).is_some_and(|it| it.is_destroyed && it.done() == it.asked) {
            self.events.remove(&event);
        }
    }

    /// New memory, or memory that a pool lends.
    pub(super) fn add_allocation(&mut self, start: usize, bytes: usize) {
        let history = self.returned.remove(&start).unwrap_or_default();
        if history.conflict(&self.host, true).is_some() {
            let what = "what comes next in the memory of a buffer that was given back".to_owned();
            self.fail(Error::Unordered { what, bytes, address: start });
        }
        self.allocations.insert(start, Allocation { bytes, history: History::default() });
    }

    /// Memory is about to be freed. A GPU takes it from the other GPUs before it waits for work, so their copies must be known to
    /// be done.
    pub(super) fn check_free(&mut self, start: usize) {
        let Some(allocation) = self.allocations.get(&start) else { return };
        if allocation.history.is_written_from_abroad(&self.host) {
            let (what, bytes) = ("freeing memory to which another device copies".to_owned(), allocation.bytes);
            self.fail(Error::Unordered { what, bytes, address: start });
        }
    }

    /// Memory that is freed.
    pub(super) fn remove_allocation(&mut self, start: usize) {
        self.allocations.remove(&start);
        self.returned.remove(&start);
    }

    /// A pool's memory, over which work may still run.
    pub(super) fn return_allocation(&mut self, start: usize) {
        if let Some(allocation) = self.allocations.remove(&start) {
            self.returned.insert(start, allocation.history);
        }
    }

    /// The buffer that contains an address, or ends at it (an empty view may point there).
    pub(super) fn allocation_of(&self, address: usize) -> Option<(usize, usize)> {
        let (&start, allocation) = self.allocations.range(..=address).next_back()?;
        (address <= start + allocation.bytes).then_some((start, allocation.bytes))
    }

    /// Puts work into a stream.
    ///
    /// # Errors
    /// [`Error::Unordered`] if other work uses a buffer and the stream does not wait for that work.
    pub(super) fn put(&mut self, stream: StreamId, what: &str, uses: &[Use], task: Task) -> Result<()> {
        let clock = &mut self.queues.get_mut(&stream).expect("streams live while they are used").clock;
        clock.learn(&self.host);
        let clock = clock.clone();
        let work = (stream, self.issued + 1);
        self.access(what, &clock, Some((work, matches!(task, Task::Arrive))), uses)?;
        self.issued += 1;
        let queue = self.queues.get_mut(&stream).expect("as above");
        queue.clock.learn_work(work);
        queue.tasks.push_back(task);
        Ok(())
    }

    /// Checks what the CPU does to buffers itself.
    ///
    /// # Errors
    /// As [`Schedule::put`].
    pub(super) fn host_access(&mut self, what: &str, uses: &[Use]) -> Result<()> {
        let clock = self.host.clone();
        self.access(what, &clock, None, uses)
    }

    /// `work` says, too, whether it is another device's copy that has come.
    fn access(&mut self, what: &str, clock: &Clock, work: Option<(Work, bool)>, uses: &[Use]) -> Result<()> {
        for &(start, writes) in uses {
            let Some(allocation) = self.allocations.get(&start) else { continue };
            if allocation.history.conflict(clock, writes).is_some() {
                return Err(Error::Unordered { what: what.to_owned(), bytes: allocation.bytes, address: start });
            }
        }
        if let Some((work, is_from_abroad)) = work {
            for &(start, writes) in uses {
                if let Some(allocation) = self.allocations.get_mut(&start) {
                    allocation.history.note(work, writes);
                    if is_from_abroad {
                        allocation.history.note_from_abroad(work);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn record(&mut self, event: usize, stream: StreamId) -> Result<()> {
        let recorded = self.events.get_mut(&event).expect("events live while they are used");
        recorded.asked += 1;
        let time = recorded.asked;
        self.put(stream, "recording an event", &[], Task::Record { event, time })?;
        let clock = self.queues[&stream].clock.clone();
        self.events.get_mut(&event).expect("as above").clock = clock;
        Ok(())
    }

    pub(super) fn wait(&mut self, stream: StreamId, event: usize) -> Result<()> {
        let recorded = &self.events[&event];
        let (clock, time) = (recorded.clock.clone(), recorded.asked);
        self.queues.get_mut(&stream).expect("streams live while they are used").clock.learn(&clock);
        self.put(stream, "waiting for an event", &[], Task::Wait { event, time })
    }

    /// The program has waited for a stream.
    pub(super) fn host_after_stream(&mut self, stream: StreamId) {
        let clock = self.queues[&stream].clock.clone();
        self.host.learn(&clock);
    }

    /// The program has waited for an event.
    pub(super) fn host_after_event(&mut self, event: usize) {
        let clock = self.events[&event].clock.clone();
        self.host.learn(&clock);
    }

    /// The program has waited for all streams.
    pub(super) fn host_after_all(&mut self) {
        self.host.learn_all(self.device, self.issued);
    }

    pub(super) fn is_idle(&self, stream: StreamId) -> bool {
        self.queues.get(&stream).is_none_or(|queue| queue.tasks.is_empty())
    }

    pub(super) fn is_reached(&self, event: usize) -> bool {
        self.events.get(&event).is_none_or(|recorded| recorded.done() == recorded.asked)
    }

    /// What a peer's stream is to wait for, and what is then known to be done.
    pub(super) fn awaited(&self, event: usize, peer: Arc<dyn Machine>) -> (Awaited, Clock) {
        let recorded = &self.events[&event];
        (Awaited { peer, time: recorded.asked, done: recorded.done.clone() }, recorded.clock.clone())
    }

    /// Lets a stream wait for an event of another device, by which `clock` is done.
    pub(super) fn wait_abroad(&mut self, stream: StreamId, awaited: Awaited, clock: &Clock) -> Result<()> {
        self.queues.get_mut(&stream).expect("streams live while they are used").clock.learn(clock);
        self.put(stream, "waiting for another device", &[], Task::WaitForPeer(awaited))
    }

    /// What work that is put into a stream next comes after.
    pub(super) fn clock_of(&self, stream: StreamId) -> Clock {
        let mut clock = self.queues[&stream].clock.clone();
        clock.learn(&self.host);
        clock
    }

    /// Checks what work of another device, which comes after `clock`, does to buffers of this one.
    ///
    /// # Errors
    /// As [`Schedule::put`].
    pub(super) fn check_abroad(&mut self, what: &str, mut clock: Clock, uses: &[Use]) -> Result<()> {
        clock.learn(&self.host);
        self.access(what, &clock, None, uses)
    }

    /// What streams wait for of other devices. They may have done it just now, from another thread, after this device's last turn: then
    /// the caller sees that it is done, and that there is something to run again.
    pub(super) fn abroad(&self) -> Vec<Awaited> {
        let awaited = self.queues.values().filter_map(|queue| match queue.tasks.front() {
            Some(Task::WaitForPeer(awaited)) => Some(awaited.clone()),
            _ => None,
        });
        awaited.collect()
    }

    /// Takes the next work to run, from a random stream. `None` if there is none.
    pub(super) fn next(&mut self) -> Option<Task> {
        let events = &self.events;
        let ready = |task: &Task| match *task {
            Task::Wait { event, time } => events.get(&event).is_none_or(|recorded| recorded.done() >= time),
            Task::WaitForPeer(ref awaited) => awaited.is_done(),
            _ => true,
        };
        let runnable = self.queues.values().filter(|queue| queue.tasks.front().is_some_and(ready)).count();
        let chosen = if runnable < 2 { 0 } else { splitmix(&mut self.random) % runnable as u64 };
        let mut queues = self.queues.values_mut().filter(|queue| queue.tasks.front().is_some_and(ready));
        let task = queues.nth(chosen as usize)?.tasks.pop_front()?;
        if let Task::Record { event, time } = task
            && let Some(recorded) = self.events.get_mut(&event)
        {
            recorded.finish(time);
            self.forget_event(event);
        }
        Some(task)
    }

    /// A kernel has broken a rule: the queued work is dropped.
    pub(super) fn fail(&mut self, fault: Error) {
        self.fault.get_or_insert(fault);
        self.queues.values_mut().for_each(|queue| queue.tasks.clear());
        self.events.values_mut().for_each(|recorded| recorded.finish(recorded.asked));
        self.events.retain(|_, recorded| !recorded.is_destroyed);
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
