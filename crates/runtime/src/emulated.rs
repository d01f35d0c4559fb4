//! The emulator as a device: host memory, and a list of which of it is buffers.

use crate::failure::{Failures, Fate};
use crate::host;
use crate::machine::{Entry, Machine, RawStream};
use crate::{DeviceKind, Error, Failure, Properties, Result};
use core::ffi::c_void;
use core::ops::Range;
use core::ptr::NonNull;
use lanetree_simt::emulator::{self, LaunchReport, Options, Region};
use lanetree_simt::{Access, KernelArgs, LaunchShape};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The bytes of memory that a pool lends.
const RECYCLED: u8 = 0xa5;

/// A device whose kernels the emulator runs.
pub(crate) struct Emulated {
    seed: u64,
    /// Bytes of every buffer, by its address: of a live allocation, or of what a pool has lent of one.
    allocations: Mutex<BTreeMap<usize, usize>>,
    failures: Mutex<Failures>,
    /// While launches are counted: the loads whose transactions are, and what there was so far.
    counted: Mutex<Option<(Range<usize>, LaunchReport)>>,
}

impl Emulated {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, allocations: Mutex::default(), failures: Mutex::default(), counted: Mutex::default() }
    }

    fn allocations(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        // A panic while the lock is held leaves the map whole: its operations are single calls.
        self.allocations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counted(&self) -> MutexGuard<'_, Option<(Range<usize>, LaunchReport)>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The allocations that the arguments point into, each once. A pointer into none gives no region:
    /// the emulator reports the access, if there is one.
    fn regions(&self, pointers: impl FnOnce(&mut dyn FnMut(usize, Access))) -> Vec<Region> {
        let allocations = self.allocations();
        let mut regions: Vec<Region> = Vec::new();
        pointers(&mut |address, access| {
            // An allocation's end is let in: a view of no elements may point there.
            let Some((&start, &bytes)) = allocations.range(..=address).next_back() else { return };
            if address > start + bytes {
                return;
            }
            let writable = access == Access::ReadWrite;
            match regions.iter_mut().find(|region| region.start == start) {
                Some(region) => region.writable |= writable,
                None => regions.push(Region { start, bytes, writable }),
            }
        });
        regions
    }
}

/// Visits the pointers of arguments.
///
/// # Safety
/// `args` points to an `A`.
pub(crate) unsafe fn pointers<A: KernelArgs>(args: *const c_void, visit: &mut dyn FnMut(usize, Access)) {
    // SAFETY: the caller's contract.
    unsafe { &*args.cast::<A>() }.pointers(visit);
}

/// Runs an entry on the emulator.
///
/// # Safety
/// `args` points to arguments of the entry's kernel, whose own contract holds.
unsafe fn run(device: &Emulated, entry: &Entry, shape: LaunchShape, args: *const c_void) -> Result<()> {
    let count_transactions = device.counted().as_ref().map(|(addresses, _)| addresses.clone());
    let options = Options { seed: device.seed, count_transactions, ..Options::default() };
    // SAFETY: the arguments are the entry's.
    let regions = device.regions(|visit| unsafe { (entry.pointers)(args, visit) });
    // SAFETY: the regions are live allocations of initialised bytes, and the caller's contract keeps them
    // so, and unused by others, until the launch, which is immediate, has returned.
    let report = unsafe { emulator::launch_program(&entry.program, &options, shape, args.cast(), &regions) }
        .map_err(Error::Emulator)?;
    if let Some((_, sum)) = device.counted().as_mut() {
        *sum += report;
    }
    Ok(())
}

impl Machine for Emulated {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Emulated
    }
    fn name(&self) -> String {
        "emulated".into()
    }
    fn label(&self) -> String {
        format!("seed {}", self.seed)
    }
    fn properties(&self) -> Result<Properties> {
        Ok(host::properties(self.name()))
    }
    fn working(&self) -> Result<()> {
        self.failures().check()
    }
    fn transfer(&self) -> Result<()> {
        self.failures().transfer()
    }
    fn alloc(&self, bytes: usize, _zeroed: bool) -> Result<NonNull<u8>> {
        let start = self.alloc_pinned(bytes)?;
        self.allocations().insert(start.addr().get(), bytes);
        Ok(start)
    }
    unsafe fn free(&self, at: NonNull<u8>, bytes: usize) {
        // Before the memory: another thread may be given the same address at once.
        self.allocations().remove(&at.addr().get());
        // SAFETY: the caller's contract is that of `host::free`.
        unsafe { host::free(at, bytes) }
    }
    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        let fails = self.failures().allocation()?;
        let start = if fails { None } else { host::alloc(bytes) };
        start.ok_or_else(|| self.out_of_memory(bytes as u128))
    }
    unsafe fn lend(&self, at: NonNull<u8>, bytes: usize) {
        // What a GPU's memory holds is anything, so nobody is to find zeros here and rely on them.
        // SAFETY: the caller's contract.
        unsafe { at.write_bytes(RECYCLED, bytes) };
        self.allocations().insert(at.addr().get(), bytes);
    }
    fn take_back(&self, at: NonNull<u8>) {
        self.allocations().remove(&at.addr().get());
    }
    fn inject(&self, failure: Option<Failure>) -> Option<Failure> {
        self.failures().inject(failure)
    }
    fn start_counting(&self, addresses: Range<usize>) {
        *self.counted() = Some((addresses, LaunchReport::default()));
    }
    fn stop_counting(&self) -> Option<LaunchReport> {
        self.counted().take().map(|(_, sum)| sum)
    }
    fn load(&self, _: &Entry) -> Result<()> {
        Ok(())
    }
    unsafe fn launch(&self, _: RawStream, entry: &Entry, shape: LaunchShape, args: *const c_void) -> Result<()> {
        entry.check(shape)?;
        let fate = self.failures().launch(entry.symbol)?;
        let shape = match fate {
            Fate::Runs => shape,
            Fate::IsCutShort => LaunchShape { blocks: shape.blocks / 2, ..shape },
        };
        if shape.blocks == 0 {
            return Ok(());
        }
        // SAFETY: the caller passes the arguments of the instance that `entry` was made of.
        unsafe { run(self, entry, shape, args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_resolve_to_whole_allocations_each_once() {
        let device = Emulated::new(0);
        let a = device.alloc(100, true).unwrap();
        let b = device.alloc(50, true).unwrap();
        let (start_a, start_b) = (a.addr().get(), b.addr().get());
        let regions = device.regions(|visit| {
            visit(0, Access::ReadWrite);
            visit(start_a + 40, Access::Read);
            visit(start_b + 50 + 1, Access::ReadWrite);
            visit(start_a, Access::ReadWrite);
        });
        assert_eq!(regions.len(), 1, "null and a pointer into no buffer give no region");
        assert_eq!((regions[0].start, regions[0].bytes, regions[0].writable), (start_a, 100, true));
        for (at, bytes) in [(a, 100), (b, 50)] {
            // SAFETY: allocated above with this size, and used no more.
            unsafe { device.free(at, bytes) };
        }
        assert!(device.allocations().is_empty());
    }
}
