//! The emulator as a device: host memory, a list of which of it is buffers, and streams that run late.
//!
//! Work in a stream does not run at once. It runs when somebody waits: for that stream, for an event, for the device,
//! or in order to copy or read a buffer. Then the streams take turns, in an order that the device's seed chooses, until
//! the awaited work is done; the rest stays queued. So a result that is read too early is missing, and a buffer that is
//! written too early has its new contents too early. In addition, whatever the order was, `order` checks that work on a
//! buffer is ordered after other work on it.

mod failures;
mod launches;
mod order;
mod schedule;

use crate::machine::{Direction, Machine, RawEvent, RawStream, check_shape};
use crate::threads::is_forked;
use crate::{Card, DeviceKind, Error, Failure, Properties, Result, host_memory};
use core::ops::Range;
use core::ptr::{NonNull, without_provenance_mut};
use failures::{Failures, Fate};
use lanetree_simt::emulator::{self, Options};
use lanetree_simt::{Call, Entry, LaunchReport, LaunchShape};
use launches::emulated;
use schedule::{Awaited, Launch, Schedule, Task, Use};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

/// The bytes of memory that was not requested zeroed. A GPU's memory may hold anything, so code must not find zeros
/// here and rely on them.
const UNWRITTEN: u8 = 0xa5;

/// The threads that run blocks, in a separate pool: the thread that waits for the device holds a lock, and must not
/// take up other work of the program meanwhile, as rayon's threads do; that work might wait for the same device.
static WORKERS: LazyLock<rayon::ThreadPool> = LazyLock::new(|| {
    let name = |index| format!("emulator {index}");
    rayon::ThreadPoolBuilder::new().thread_name(name).build().expect("a process can have threads")
});

/// The schedule, locked.
type Held<'s> = MutexGuard<'s, Schedule>;

/// A device whose kernels the emulator runs.
pub(crate) struct Emulated {
    seed: u64,
    card: Card,
    schedule: Mutex<Schedule>,
    failures: Mutex<Failures>,
    /// The devices whose memory kernels reach.
    peers: Mutex<Vec<Weak<dyn Machine>>>,
    /// Set while launches are counted: the addresses whose transactions are counted, and the counts so far.
    counted: Mutex<Option<(Range<usize>, LaunchReport)>>,
}

impl Emulated {
    pub(crate) fn new(seed: u64, card: Card) -> Self {
        let schedule = Mutex::new(Schedule::new(seed));
        Self { seed, card, schedule, failures: Mutex::default(), peers: Mutex::default(), counted: Mutex::default() }
    }

    fn schedule(&self) -> Held<'_> {
        // A panic while the lock is held leaves the schedule intact: the work that panicked has been removed from it.
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counted(&self) -> MutexGuard<'_, Option<(Range<usize>, LaunchReport)>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs streams in turns until `done`, or nothing is left. Where all that is left waits for other devices, those run meanwhile,
    /// without this one's lock: they may wait for this one in turn.
    fn run_until<'s>(&'s self, mut schedule: Held<'s>, done: &dyn Fn(&Schedule) -> bool) -> Held<'s> {
        loop {
            self.run_own(&mut schedule, done);
            let wanted = schedule.abroad();
            if wanted.is_empty() || done(&schedule) {
                return schedule;
            }
            drop(schedule);
            self.run_others(&wanted);
            schedule = self.schedule();
        }
    }

    /// Runs other devices until one of these recordings is done: first the recordings' own devices, then, where that is
    /// not enough, the devices that those wait for.
    fn run_others(&self, first: &[Awaited]) {
        loop {
            let (mut wanted, mut at, mut has_run) = (first.to_vec(), 0, false);
            while let Some(awaited) = wanted.get(at).cloned() {
                if first.iter().any(Awaited::is_done) {
                    return;
                }
                at += 1;
                let peer = emulated(&awaited.peer);
                // This one can run nothing before one of the first is done.
                if awaited.is_done() || core::ptr::eq(peer, self) {
                    continue;
                }
                let mut schedule = peer.schedule();
                has_run |= peer.run_own(&mut schedule, &|_| awaited.is_done());
                for more in schedule.abroad() {
                    if wanted.iter().all(|known| !known.is_same(&more)) {
                        wanted.push(more);
                    }
                }
            }
            // Another thread may have run what was waited for, after the look at it.
            let is_lost = !has_run && !wanted.iter().any(Awaited::is_done);
            assert!(!is_lost, "another device has lost the work that a stream waits for");
        }
    }

    /// Runs this device's streams in turns until `done`, or none can go on; whether any did.
    fn run_own(&self, schedule: &mut Schedule, done: &dyn Fn(&Schedule) -> bool) -> bool {
        let mut has_run = false;
        while !done(schedule) {
            let Some(task) = schedule.next() else { break };
            has_run = true;
            match task {
                Task::Launch(launch) => {
                    if let Err(fault) = self.run(&launch) {
                        schedule.fail(fault);
                    }
                }
                // SAFETY: the code that queued the work keeps the ranges alive, and others away from them, until it is
                // done.
                Task::Copy { to, from, bytes } => unsafe { core::ptr::copy_nonoverlapping(from, to, bytes) },
                // SAFETY: as above.
                Task::Zero { at, bytes } => unsafe { core::ptr::write_bytes(at, 0, bytes) },
                Task::Record { .. } | Task::Wait { .. } | Task::WaitForPeer(_) | Task::Arrive => {}
            }
        }
        has_run
    }

    fn run_all(&self) -> Held<'_> {
        let mut schedule = self.run_until(self.schedule(), &|_| false);
        schedule.host_after_all();
        schedule
    }

    /// The error to report to the caller, which has waited.
    fn outcome(&self, schedule: &mut Schedule) -> Result<()> {
        match schedule.fault.take() {
            Some(fault) => Err(fault),
            None => self.failures().check(),
        }
    }

    /// Runs a kernel.
    fn run(&self, launch: &Launch) -> Result<()> {
        let Launch { entry, shape, args, regions } = launch;
        let count_transactions = self.counted().as_ref().map(|(addresses, _)| addresses.clone());
        // The pool's threads are the parent's.
        let on_one_thread = shape.blocks == 1 || is_forked();
        let options = Options { seed: self.seed, count_transactions, on_one_thread, ..Options::default() };
        let args = Arguments(args.as_ptr().cast());
        let run = || {
            // The whole of it, not its field.
            let Arguments(args) = { args };
            // SAFETY: the arguments are the entry's. The regions are live allocations of initialised bytes; the code
            // that launched keeps them so, and others away, until this is done.
            unsafe { emulator::launch_program(entry.program(), &options, *shape, args, regions) }
        };
        let report = if on_one_thread {
            run()
        } else if rayon::current_thread_index().is_none() {
            WORKERS.install(run)
        } else {
            // A thread of a pool would run other work of its pool while it waits, so another thread has to wait for it.
            std::thread::scope(|scope| scope.spawn(|| WORKERS.install(run)).join()).unwrap_or_else(|panic| {
                std::panic::resume_unwind(panic);
            })
        };
        let report = report.map_err(Error::Emulator)?;
        if let Some((_, sum)) = self.counted().as_mut() {
            *sum += report;
        }
        Ok(())
    }

    /// Refuses a block whose registers may not fit on a card. A kernel with launch bounds is compiled so that they do; any other may
    /// be compiled to the most registers that a thread can have.
    fn check_registers(&self, entry: &Entry, shape: LaunchShape) -> Result<()> {
        /// Threads whose registers, 255 each, fit into the 65,536 of a block.
        const ALWAYS_FIT: u32 = 256;
        if shape.threads <= ALWAYS_FIT || entry.launch_bounds().is_some() {
            return Ok(());
        }
        let reason = format!(
            "without launch bounds, a block on some card may have no registers for more than {ALWAYS_FIT} threads: state `Kernel::LAUNCH_BOUNDS`"
        );
        Err(Error::Launch { kernel: entry.symbol(), shape, reason })
    }

    /// A copy's bytes on the device's side, as work that uses buffers.
    fn sides(&self, schedule: &Schedule, direction: Direction, to: *mut u8, from: *const u8) -> Vec<Use> {
        let of = |address: usize, writes: bool| schedule.allocation_of(address).map(|(start, _)| (start, writes));
        let written = matches!(direction, Direction::ToDevice | Direction::Within).then(|| of(to.addr(), true));
        let read = matches!(direction, Direction::ToHost | Direction::Within).then(|| of(from.addr(), false));
        written.into_iter().chain(read).flatten().collect()
    }
}

/// Arguments on their way to other threads.
#[derive(Clone, Copy)]
struct Arguments(*const ());

// SAFETY: arguments are `Sync` (`KernelArgs`), and kernels only read them.
unsafe impl Send for Arguments {}
// SAFETY: as above.
unsafe impl Sync for Arguments {}

fn stream_of(id: usize) -> RawStream {
    RawStream(without_provenance_mut(id))
}

impl Machine for Emulated {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Emulated
    }
    fn name(&self) -> String {
        "emulated".into()
    }
    fn label(&self) -> String {
        let (seed, (major, minor)) = (self.seed, self.card.compute_capability);
        if self.card == Card::SMALLEST { format!("seed {seed}") } else { format!("seed {seed}, as {major}.{minor}") }
    }
    fn properties(&self) -> Result<Properties> {
        let Card { compute_capability, multiprocessors, shared_bytes_per_block } = self.card;
        Ok(Properties {
            name: "emulated",
            multiprocessors,
            l2_bytes: 0,
            compute_capability,
            shared_bytes_per_block,
            total_memory: host_memory::total(),
            driver_version: (0, 0),
        })
    }
    fn working(&self) -> Result<()> {
        self.failures().check()
    }
    fn synchronize(&self) -> Result<()> {
        let mut schedule = self.run_all();
        self.outcome(&mut schedule)
    }

    fn alloc(&self, bytes: usize, zeroed: bool) -> Result<NonNull<u8>> {
        let start = self.alloc_pinned(bytes)?;
        if !zeroed {
            // SAFETY: new memory of these bytes.
            unsafe { start.write_bytes(UNWRITTEN, bytes) };
        }
        self.schedule().add_allocation(start.addr().get(), bytes);
        Ok(start)
    }
    unsafe fn free(&self, at: NonNull<u8>, bytes: usize) {
        {
            self.schedule().check_free(at.addr().get());
            let mut schedule = self.run_all();
            // Before the memory: another thread may be given the same address at once.
            schedule.remove_allocation(at.addr().get());
        }
        // SAFETY: the caller's contract is that of `host_memory::free`.
        unsafe { host_memory::free(at, bytes) }
    }
    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        let fails = self.failures().allocation()?;
        let start = if fails { None } else { host_memory::alloc(bytes) };
        start.ok_or_else(|| self.out_of_memory(bytes as u128))
    }
    unsafe fn lend(&self, at: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's contract.
        unsafe { at.write_bytes(UNWRITTEN, bytes) };
        self.schedule().add_allocation(at.addr().get(), bytes);
    }
    fn take_back(&self, at: NonNull<u8>) {
        self.schedule().return_allocation(at.addr().get());
    }
    unsafe fn adopt(&self, at: NonNull<u8>, bytes: usize) -> Result<()> {
        self.schedule().add_allocation(at.addr().get(), bytes);
        Ok(())
    }
    fn disown(&self, at: NonNull<u8>) {
        self.schedule().remove_allocation(at.addr().get());
    }
    unsafe fn pin(&self, at: NonNull<u8>, bytes: usize) -> Result<NonNull<u8>> {
        if self.failures().allocation()? {
            let reason = "it has failed, as a test asked for".to_owned();
            return Err(Error::CannotPin { bytes, device: self.description(), reason });
        }
        self.schedule().add_allocation(at.addr().get(), bytes);
        Ok(at)
    }
    unsafe fn unpin(&self, at: NonNull<u8>, _bytes: usize) {
        self.schedule().remove_allocation(at.addr().get());
    }

    unsafe fn copy(
        &self,
        direction: Direction,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
        stream: Option<RawStream>,
    ) -> Result<()> {
        self.failures().transfer()?;
        let mut schedule = self.schedule();
        let uses = self.sides(&schedule, direction, to, from);
        match stream {
            Some(stream) => schedule.put(stream.0.addr(), "a copy", &uses, Task::Copy { to, from, bytes }),
            None => {
                schedule.host_access("a copy", &uses)?;
                // SAFETY: all memory of this machine is host memory; the ranges are valid and disjoint.
                unsafe { core::ptr::copy_nonoverlapping(from, to, bytes) };
                Ok(())
            }
        }
    }
    unsafe fn copy_to_peer(
        &self,
        _peer: &dyn Machine,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
        stream: RawStream,
    ) -> Result<()> {
        self.failures().transfer()?;
        let mut schedule = self.schedule();
        let uses: Vec<Use> = schedule.allocation_of(from.addr()).map(|(start, _)| (start, false)).into_iter().collect();
        schedule.put(stream.0.addr(), "a copy to another device", &uses, Task::Copy { to, from, bytes })
    }
    fn reach(&self, peer: &Arc<dyn Machine>) -> bool {
        self.add_peer(peer);
        true
    }
    fn reaches_address(&self, at: *const u8) -> bool {
        self.has_in_reach(at.addr())
    }
    unsafe fn arrive(&self, stream: RawStream, to: *mut u8) -> Result<()> {
        self.working()?;
        let mut schedule = self.schedule();
        let uses: Vec<Use> = schedule.allocation_of(to.addr()).map(|(start, _)| (start, true)).into_iter().collect();
        schedule.put(stream.0.addr(), "a copy from another device", &uses, Task::Arrive)
    }
    unsafe fn wait_for_peer(&self, stream: RawStream, peer: &Arc<dyn Machine>, event: RawEvent) -> Result<()> {
        self.working()?;
        let (awaited, clock) = emulated(peer).schedule().awaited(event.0.addr(), peer.clone());
        self.schedule().wait_abroad(stream.0.addr(), awaited, &clock)
    }
    unsafe fn zero(&self, at: *mut u8, bytes: usize, stream: RawStream) -> Result<()> {
        self.failures().transfer()?;
        let mut schedule = self.schedule();
        let uses: Vec<Use> = schedule.allocation_of(at.addr()).map(|(start, _)| (start, true)).into_iter().collect();
        schedule.put(stream.0.addr(), "a zeroing", &uses, Task::Zero { at, bytes })
    }

    fn create_stream(&self) -> Result<RawStream> {
        self.working()?;
        Ok(stream_of(self.schedule().add_stream()))
    }
    unsafe fn destroy_stream(&self, stream: RawStream) {
        let is_idle = |schedule: &Schedule| schedule.is_idle(stream.0.addr());
        let mut schedule = self.run_until(self.schedule(), &is_idle);
        schedule.remove_stream(stream.0.addr());
    }
    unsafe fn synchronize_stream(&self, stream: RawStream) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.quiesce_stream(stream) };
        self.outcome(&mut self.schedule())
    }
    unsafe fn quiesce_stream(&self, stream: RawStream) {
        let is_idle = |schedule: &Schedule| schedule.is_idle(stream.0.addr());
        let mut schedule = self.run_until(self.schedule(), &is_idle);
        schedule.host_after_stream(stream.0.addr());
    }
    unsafe fn is_stream_idle(&self, stream: RawStream) -> bool {
        let mut schedule = self.schedule();
        let idle = schedule.is_idle(stream.0.addr());
        if idle {
            // A caller that has been told so is ordered after it.
            schedule.host_after_stream(stream.0.addr());
        }
        idle
    }
    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.working()?;
        self.schedule().wait(stream.0.addr(), event.0.addr())
    }

    fn create_event(&self, _timed: bool) -> Result<RawEvent> {
        self.working()?;
        Ok(RawEvent(without_provenance_mut(self.schedule().add_event())))
    }
    unsafe fn destroy_event(&self, event: RawEvent) {
        self.schedule().remove_event(event.0.addr());
    }
    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        self.working()?;
        self.schedule().record(event.0.addr(), stream.0.addr())
    }
    unsafe fn synchronize_event(&self, event: RawEvent) -> Result<()> {
        let is_reached = |schedule: &Schedule| schedule.is_reached(event.0.addr());
        let mut schedule = self.run_until(self.schedule(), &is_reached);
        schedule.host_after_event(event.0.addr());
        self.outcome(&mut schedule)
    }

    fn inject(&self, failure: Option<Failure>) -> Option<Failure> {
        self.failures().inject(failure)
    }
    #[cfg(feature = "check")]
    fn start_counting(&self, addresses: Range<usize>) {
        drop(self.run_all());
        *self.counted() = Some((addresses, LaunchReport::default()));
    }
    #[cfg(feature = "check")]
    fn stop_counting(&self) -> Option<LaunchReport> {
        drop(self.run_all());
        self.counted().take().map(|(_, sum)| sum)
    }
    fn load(&self, _: &'static Entry) -> Result<()> {
        Ok(())
    }
    unsafe fn launch(&self, stream: RawStream, call: Call<'_>, shape: LaunchShape) -> Result<()> {
        let kernel = call.entry().symbol();
        check_shape((self, self.card.shared_bytes_per_block), call.entry(), shape)?;
        self.check_registers(call.entry(), shape)?;
        let fate = self.failures().launch(kernel)?;
        let shape = match fate {
            Fate::Runs => shape,
            Fate::IsCutShort => LaunchShape { blocks: shape.blocks / 2, ..shape },
        };
        if shape.blocks > 0 {
            let (launch, uses) = self.launch_task(stream, call, shape)?;
            self.schedule().put(stream.0.addr(), kernel, &uses, Task::Launch(launch))?;
        }
        if fate == Fate::IsCutShort {
            // From now on nothing runs any more, so queued work runs first.
            drop(self.run_all());
        }
        Ok(())
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        let fault = self.schedule.get_mut().unwrap_or_else(PoisonError::into_inner).fault.take();
        if let Some(fault) = fault
            && !std::thread::panicking()
        {
            panic!("nobody waited, who would have been told: {fault}");
        }
    }
}
