//! Kernels on any CPU, checked.
//!
//! [`launch`] runs every thread of a block as a coroutine. Lanes meet at warp collectives and at the
//! block barrier; blocks run in parallel, each on one worker from its start to its end; atomics are
//! real. Every access to memory is checked. Errors that a GPU does not report (a lane missing at a collective, a read
//! of shared memory that nobody wrote, an address just past a buffer) are returned as a [`Fault`] that names the
//! thread, and the launch stops.
//!
//! ```
//! use lanetree_simt::emulator::{FaultKind, Options, Region, launch_kernel};
//! use lanetree_simt::{Access, GlobalMut, Hint, Kernel, KernelArgs, LaunchShape, Simt};
//!
//! /// Writes each thread's index. It should stop at the end of the buffer, but does not.
//! struct Indexes;
//!
//! #[repr(C)]
//! #[derive(Clone, Copy)]
//! struct Args {
//!     out: GlobalMut<u32>,
//! }
//!
//! // SAFETY: `repr(C)`; the pointer is visited.
//! unsafe impl KernelArgs for Args {
//!     fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
//!         visit(self.out.as_ptr().addr(), Access::ReadWrite);
//!     }
//! }
//!
//! impl Kernel for Indexes {
//!     type Args = Args;
//!     unsafe fn run<S: Simt>(simt: S, args: &Args) {
//!         let index = simt.global_index();
//!         // SAFETY: the emulator checks the access.
//!         unsafe { simt.store(args.out, index, index as u32, Hint::Default) }
//!     }
//! }
//!
//! let mut out = [0_u32; 64];
//! let args = Args { out: GlobalMut::new(out.as_mut_ptr()) };
//! let region = Region { start: args.out.as_ptr().addr(), bytes: size_of_val(&out), writable: true };
//! let launch = |threads| {
//!     let shape = LaunchShape { blocks: 1, threads, dynamic_shared: 0 };
//!     // SAFETY: the region is the array, which nothing else uses meanwhile.
//!     unsafe { launch_kernel::<Indexes>("indexes", &Options::default(), shape, &args, &[region]) }
//! };
//! assert!(launch(64).is_ok());
//! let fault = launch(65).unwrap_err();
//! assert_eq!(fault.thread, 64);
//! assert!(matches!(fault.kind, FaultKind::GlobalOutOfBounds { .. }));
//! assert_eq!(out[63], 63);
//! ```
//!
//! Within a block the order of everything is a function of the seed ([`Options::seed`]). A correct kernel gives the
//! same result with every seed.
//!
//! Races are faults: accesses of different threads to the same shared or global memory, one of them a write, without
//! an order between them, unless both are atomic and of one width. An order is a barrier, a collective of the warp, or,
//! on global memory, a release that was acquired, by accesses or by fences.
//!
//! [`Options::memory`] makes memory weak: stores arrive late and out of order, and loads may return older values, as
//! far as the memory orders allow it.
//!
//! Not seen:
//!
//! * a loop without [`Simt::spin_hint`](crate::Simt::spin_hint) that waits for another thread: it hangs;
//! * some races: only the last write of each word and one read since then are remembered; a collective orders a thread
//!   after everything that its warp did before, whatever its mask; an acquire orders it after all releases up to the
//!   one that it read from, by any thread; a relaxed store does not end the release sequence that an earlier release to
//!   the same word began; and within a launch, blocks from the 2^24th on are not checked, nor is a block after 2^26
//!   barriers, collectives and releases. Atomics on global memory do not order accesses to shared memory;
//! * scopes: atomics and fences of [`Scope::Block`](crate::Scope::Block) are treated as if they had device scope;
//! * without [`MemoryModel::Weak`], memory orders weaker than the CPU's; and with it, some of those that a GPU allows:
//!   a thread that acquires sees everything that any thread wrote until the release; loads never return what is stored
//!   later; read-modify-write operations never take effect late; shared memory is not weak; and blocks run one after
//!   another, so that a thread sees of other blocks only what earlier blocks have left;
//! * interleavings that no seed has chosen: threads switch only at collectives, at atomics and where a thread waits.

mod access;
mod block;
mod collective;
mod counters;
mod emulated;
mod fault;
mod global;
mod lane;
mod memory;
mod operation;
mod races;
mod random;
mod shared;
mod stacks;
mod transactions;
mod turns;
mod weak;
mod zeros;

pub use access::{Earlier, GlobalAccess, GlobalAccessKind};
pub use emulated::Emulated;
pub use fault::{Collective, Fault, FaultKind, Nearest, SharedAccess, Whereabouts};
pub use memory::Region;

use crate::{Instance, Kernel, LaunchReport, LaunchShape};
use block::Block;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use memory::Memory;
use random::Permutation;
use stacks::Stacks;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use turns::Outcome;
use weak::WeakMemory;

/// How weak memory is: what threads see of each other's stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryModel {
    /// As the CPU's.
    #[default]
    Cpu,
    /// As weak as a GPU's, as far as the emulator can: stores are written late and out of order, and a load may return
    /// an older value, unless barriers, collectives, fences, acquires and releases prevent it. The seed chooses what
    /// happens. Slow, and blocks run one after another.
    Weak,
    /// The same, but releases are treated as relaxed, and fences release nothing. A kernel that needs them then fails
    /// with some seeds, so a test can show that it would notice a missing one.
    WeakWithoutReleases,
    /// The same, but acquires are treated as relaxed, and fences acquire nothing.
    WeakWithoutAcquires,
}

/// How a launch runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Chooses the order in which lanes, warps and blocks run. With 0, blocks, warps and lanes start in
    /// their natural order and run until they wait; any other seed mixes them, and sometimes lets other threads go
    /// first at collectives and atomics.
    pub seed: u64,
    /// Whether to report two threads of a block that touch the same shared memory without a barrier or
    /// collective between. Turn it off for a kernel that orders them through atomics on global memory.
    pub shared_races: bool,
    /// Whether to report two threads that touch the same global memory, one of them to write, without an order
    /// between them: [`FaultKind::GlobalRace`], [`FaultKind::MixedWidths`].
    pub global_races: bool,
    /// How weak memory is.
    pub memory: MemoryModel,
    /// How long a block may do nothing but spin, while no other finishes, before it counts as a
    /// [livelock](FaultKind::Livelock).
    pub patience: Duration,
    /// Counts the memory transactions of loads from these addresses (`0..usize::MAX`: from all), into
    /// [`LaunchReport::warp_loads`], [`LaunchReport::sectors`] and [`LaunchReport::lines`]. Off by default,
    /// since it takes time.
    ///
    /// On a GPU the lanes of a warp that reach a load issue it together. Here they run one after another, so a
    /// definition is needed. Take the *k*-th load that a lane executes at one place in the source since the last
    /// barrier or the last collective in which the lane took part. It forms one warp-wide load with the *k*-th load at
    /// that place of every other lane of the warp whose last collective was the same. This is what a GPU does if its
    /// lanes reconverge after each branch and loop; it does not depend on the seed. Plain loads are counted, a vector
    /// as one load; stores and atomics are not. A function that two branches call is one place in the source.
    pub count_transactions: Option<Range<usize>>,
    /// Whether the calling thread runs all blocks, rather than all threads of the current rayon pool.
    pub on_one_thread: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            shared_races: true,
            global_races: true,
            memory: MemoryModel::Cpu,
            patience: Duration::from_secs(30),
            count_transactions: None,
            on_one_thread: false,
        }
    }
}

/// What the blocks of a launch have in common.
struct Launch<'l> {
    options: &'l Options,
    shape: LaunchShape,
    shared_bytes: u64,
    memory: Memory,
    weak: Option<WeakMemory>,
    order: Permutation,
    /// Blocks begun, and ended.
    begun: AtomicU32,
    finished: AtomicU32,
    /// Whether a block has faulted.
    stop: AtomicBool,
    result: Mutex<(LaunchReport, Option<Fault>)>,
}

/// Runs an instance over `regions`, the buffers that its arguments point into. Returns when all blocks
/// are done.
///
/// # Errors
/// The fault of the block with the lowest index among those that faulted before the launch stopped. What the kernel had
/// written by then remains.
///
/// # Safety
/// As [`launch_kernel`].
pub unsafe fn launch<I: Instance>(
    options: &Options,
    shape: LaunchShape,
    args: &I::Args,
    regions: &[Region],
) -> Result<LaunchReport, Fault> {
    // SAFETY: the same contract.
    unsafe { launch_program(I::ENTRY.program(), options, shape, (&raw const *args).cast(), regions) }
}

/// Runs any kernel; its faults call it `name`. Otherwise like [`launch`].
///
/// # Errors
/// As [`launch`].
///
/// # Safety
/// As [`launch_program`].
pub unsafe fn launch_kernel<K: Kernel>(
    name: &'static str,
    options: &Options,
    shape: LaunchShape,
    args: &K::Args,
    regions: &[Region],
) -> Result<LaunchReport, Fault> {
    // SAFETY: the same contract; the arguments are of the program's type.
    unsafe { launch_program(&Program::of::<K>(name), options, shape, (&raw const *args).cast(), regions) }
}

/// A kernel with its types erased, so that everything but the kernel itself is compiled once, not once per kernel.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    name: &'static str,
    static_shared: u32,
    thread: unsafe fn(Emulated<'_>, *const ()),
}

impl Program {
    /// The program of a kernel; its faults call it `name`.
    pub const fn of<K: Kernel>(name: &'static str) -> Self {
        /// # Safety
        /// `args` points to a `K::Args`; the rest as [`Kernel::run`].
        unsafe fn thread<K: Kernel>(simt: Emulated<'_>, args: *const ()) {
            // SAFETY: the caller's contract.
            unsafe { K::run(simt, &*args.cast::<K::Args>()) }
        }
        Self { name, static_shared: K::STATIC_SHARED, thread: thread::<K> }
    }
}

/// A program and its arguments, for all threads of a launch.
#[derive(Clone, Copy)]
struct Body {
    program: Program,
    args: *const (),
}

// SAFETY: arguments are `Sync` (`KernelArgs`), and threads only read them.
unsafe impl Send for Body {}
// SAFETY: as above.
unsafe impl Sync for Body {}

/// Runs a program. Otherwise like [`launch`].
///
/// # Errors
/// As [`launch`].
///
/// # Safety
/// `args` points to arguments of the program's kernel. Each region is initialised memory, valid for
/// reads, and if it is writable for writes, that nothing else accesses until the call returns. The
/// arguments' pointers carry the provenance of the regions that they point into. The kernel's own contract holds,
/// except for what the emulator checks: bounds, alignment, and which lanes take part in a collective. The kernel
/// touches memory only through [`Simt`](crate::Simt), and accesses atomically what other threads access atomically at
/// the same time.
pub unsafe fn launch_program(
    program: &Program,
    options: &Options,
    shape: LaunchShape,
    args: *const (),
    regions: &[Region],
) -> Result<LaunchReport, Fault> {
    let (name, body) = (program.name, Body { program: *program, args });
    let LaunchShape { blocks, threads, dynamic_shared } = shape;
    if !(1..1 << 31).contains(&blocks) || !(1..=1024).contains(&threads) {
        let kind = FaultKind::LaunchShape { blocks, threads };
        return Err(Fault { kernel: name, block: 0, thread: 0, kind });
    }
    let launch = Launch {
        options,
        shape,
        shared_bytes: u64::from(program.static_shared) + u64::from(dynamic_shared),
        memory: Memory::new(regions, options.global_races),
        weak: (options.memory != MemoryModel::Cpu).then(|| WeakMemory::new(options)),
        order: Permutation::new(options.seed, blocks),
        begun: AtomicU32::new(0),
        finished: AtomicU32::new(0),
        stop: AtomicBool::new(false),
        result: Mutex::default(),
    };
    let on_one_thread = options.on_one_thread || launch.weak.is_some();
    let workers = if on_one_thread { 1 } else { rayon::current_num_threads() as u32 };
    let workers = workers.min(stacks::MAX_PER_LAUNCH / threads).min(blocks);
    if workers == 1 {
        // SAFETY: the caller's contract.
        unsafe { work(&launch, name, body) };
    } else {
        rayon::in_place_scope(|scope| {
            for _ in 1..workers {
                // SAFETY: the caller's contract.
                scope.spawn(|_| unsafe { work(&launch, name, body) });
            }
            // SAFETY: the caller's contract. The calling thread works too, so that a launch from within
            // rayon's pool goes on even while no other worker of the pool is free.
            unsafe { work(&launch, name, body) };
        });
    }
    if let Some(weak) = &launch.weak {
        weak.finish();
    }
    let (report, fault) = launch.result.into_inner().unwrap_or_else(PoisonError::into_inner);
    fault.map_or(Ok(report), Err)
}

/// Runs one block after another until none is left or one has faulted.
///
/// A block that has begun keeps its worker until it ends. So blocks that take their number from an atomic counter and
/// wait only for lower numbers always finish: the lowest one waits for none.
///
/// # Safety
/// As [`launch_program`].
unsafe fn work(launch: &Launch<'_>, name: &'static str, body: Body) {
    let block = Block::new(launch);
    let mut stacks = Stacks::default();
    let mut first_fault: Option<Fault> = None;
    while !launch.stop.load(Ordering::Relaxed) {
        let turn = launch.begun.fetch_add(1, Ordering::Relaxed);
        if turn >= launch.shape.blocks {
            break;
        }
        let index = launch.order.at(turn);
        // SAFETY: the caller's contract; no two turns are alike, so no two blocks.
        match unsafe { block.run(index, body, &mut stacks) } {
            Outcome::Done => {
                launch.finished.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Stopped => {}
            Outcome::Fault(thread, kind) => {
                launch.stop.store(true, Ordering::Relaxed);
                first_fault = Some(Fault { kernel: name, block: index, thread, kind });
            }
        }
    }
    let mut result = launch.result.lock().unwrap_or_else(PoisonError::into_inner);
    result.0 += LaunchReport::from(&block.counters);
    if let Some(fault) = first_fault
        && result.1.as_ref().is_none_or(|other| fault.block < other.block)
    {
        result.1 = Some(fault);
    }
}
