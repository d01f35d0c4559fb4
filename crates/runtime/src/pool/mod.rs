//! Memory that is reused instead of being freed.

mod arena;

use crate::machine::Machine;
use crate::{Device, Error, Result};
use arena::{Address, Arena, Block, Found, block_bytes};
use core::fmt;
use core::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A cache of a device's memory: memory of dropped buffers is kept for new ones.
///
/// The driver takes tens to hundreds of microseconds to allocate or free memory, and waits for the device meanwhile. A
/// program that allocates and drops buffers repeatedly, as every host batch and every scratch memory does, creates a
/// pool once and uses the handle from [`Pool::device`]. Everything that is allocated on that handle, including indexes
/// and scratch memory, takes its memory from the pool, and dropping it returns the memory. Handles of one pool share
/// it; a device can have several pools, and handles without one.
///
/// ```
/// # mod lanetree { pub use lanetree_runtime::{self as runtime, *}; }
/// use lanetree::{Device, Pool};
///
/// let pool = Pool::new(&Device::emulated());
/// let device = pool.device();
/// for batch in 0..100_u32 {
///     let keys = device.upload(&vec![batch; 1000])?;
///     assert_eq!(keys.to_vec()?[999], batch);
/// }
/// // One block of 4096 bytes has served all hundred.
/// assert_eq!((pool.bytes_in_use(), pool.bytes_cached(), pool.stats().allocations), (0, 4096, 1));
/// pool.trim();
/// assert_eq!(pool.bytes_cached(), 0);
/// # Ok::<(), lanetree::runtime::Error>(())
/// ```
///
/// # What waits for what
/// Dropping a pooled buffer waits for nothing, though kernels and copies on it may be in flight: its block is *pending*
/// until something waits for the whole device, by [`Device::synchronize`] on a handle of the pool, or the pool itself.
/// An allocation takes a block that is not pending. If only pending ones fit, it first synchronises the whole device,
/// with all its streams; afterwards none of them is pending. So a program that alternately drops and allocates waits
/// for the device at most once per round; a program that keeps its buffers never waits.
///
/// # How much it holds
/// A block is larger than the request by at most a quarter, or by less than 512 bytes, and exactly as large where the limit or
/// the device has no room for more; blocks are not split. A pool
/// holds at most twice what has been in use at once (and may hold 16 MiB): beyond that, the blocks that have been
/// unused longest go back to the driver when a new one is allocated. If the device has no room, all cached blocks are
/// freed, and the allocation is tried once more. [`Pool::trim`] frees them all at any time; dropping the pool, its
/// handles and their buffers does so too. Allocations outside the pool, or from another pool, cannot use its cached
/// blocks: call [`Pool::trim`] before.
///
/// Pinned memory ([`Device::pinned`]) is cached in the same way and counted separately; the limit does not apply to it.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

/// What a pool holds, and what it has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PoolStats {
    /// Bytes of device memory that buffers have, rounding included.
    pub in_use: usize,
    /// Bytes of device memory that wait for buffers.
    pub cached: usize,
    /// The most bytes of device memory that buffers have had at once, without rounding: since the pool was made, or since
    /// [`Pool::restart_peak`].
    pub peak: usize,
    /// Bytes of pinned memory that buffers have, including rounding.
    pub pinned_in_use: usize,
    /// Bytes of pinned memory that are free for new buffers.
    pub pinned_cached: usize,
    /// Blocks allocated by the driver, of both kinds of memory.
    pub allocations: u64,
    /// Requests that a cached block has served.
    pub reuses: u64,
    /// Times that the pool has waited for the device.
    pub waits: u64,
}

/// Which memory a block is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MemoryKind {
    Device,
    Pinned,
}

struct Shared {
    machine: Arc<dyn Machine>,
    /// Most bytes of device memory.
    limit: Option<usize>,
    state: Mutex<State>,
    /// Held while a request cannot be served from the cache, so that two threads do not both wait for the device, or
    /// both allocate, if one block is enough.
    growing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    device: Arena,
    pinned: Arena,
    /// Grows each time the pool waits for the device. A block is marked with the epoch in which it comes back: all work
    /// on it was launched before.
    epoch: u64,
    /// The latest epoch such that all work launched before its beginning is known to be done.
    waited: u64,
    allocations: u64,
    reuses: u64,
    waits: u64,
}

impl State {
    fn arena(&mut self, kind: MemoryKind) -> &mut Arena {
        match kind {
            MemoryKind::Device => &mut self.device,
            MemoryKind::Pinned => &mut self.pinned,
        }
    }

    fn find(&mut self, kind: MemoryKind, bytes: usize) -> Found {
        let waited = self.waited;
        let found = self.arena(kind).find(bytes, waited);
        self.reuses += u64::from(matches!(found, Found::Ready(_)));
        found
    }
}

impl Pool {
    /// A pool of a device's memory, empty at first.
    pub fn new(device: &Device) -> Self {
        Self::make(device, None)
    }

    /// A pool that holds at most `bytes` bytes of device memory, in use or cached. An allocation that would need more
    /// returns [`Error::PoolLimit`].
    pub fn with_limit(device: &Device, bytes: usize) -> Self {
        Self::make(device, Some(bytes))
    }

    fn make(device: &Device, limit: Option<usize>) -> Self {
        let machine = device.machine.clone();
        Self { shared: Arc::new(Shared { machine, limit, state: Mutex::default(), growing: Mutex::default() }) }
    }

    /// The pool's device, as a handle whose memory comes from the pool. It equals every other handle of the device, and
    /// streams, events and buffers of different handles can be used together.
    pub fn device(&self) -> Device {
        Device { machine: self.shared.machine.clone(), pool: Some(self.clone()), no_gpu: None }
    }

    /// The most bytes of device memory that it holds, if there is a limit.
    pub fn limit(&self) -> Option<usize> {
        self.shared.limit
    }

    /// Bytes of device memory that buffers have, rounding included.
    pub fn bytes_in_use(&self) -> usize {
        self.shared.state().device.in_use
    }

    /// Bytes of device memory that wait for buffers.
    pub fn bytes_cached(&self) -> usize {
        self.shared.state().device.cached_bytes
    }

    /// What it holds, and what it has done.
    pub fn stats(&self) -> PoolStats {
        let state = self.shared.state();
        PoolStats {
            in_use: state.device.in_use,
            cached: state.device.cached_bytes,
            peak: state.device.peak,
            pinned_in_use: state.pinned.in_use,
            pinned_cached: state.pinned.cached_bytes,
            allocations: state.allocations,
            reuses: state.reuses,
            waits: state.waits,
        }
    }

    /// Resets [`PoolStats::peak`] to what buffers have now: to learn what a call takes at most.
    ///
    /// ```
    /// # mod lanetree { pub use lanetree_runtime::{self as runtime, *}; }
    /// use lanetree::{Device, Pool};
    ///
    /// let pool = Pool::new(&Device::emulated());
    /// let kept = pool.device().alloc::<u8>(1000)?;
    /// drop(pool.device().alloc::<u8>(5000)?);
    /// assert_eq!(pool.stats().peak, 6000);
    /// pool.restart_peak();
    /// assert_eq!(pool.stats().peak, 1000);
    /// # drop(kept);
    /// # Ok::<(), lanetree::runtime::Error>(())
    /// ```
    pub fn restart_peak(&self) {
        self.shared.state().device.restart_peak();
    }

    /// Returns all cached blocks to the driver, device memory and pinned memory, and returns their bytes. Waits for all
    /// work on the device if there are any blocks.
    pub fn trim(&self) -> usize {
        self.shared.trim(MemoryKind::Device) + self.shared.trim(MemoryKind::Pinned)
    }

    /// Waits for all work on the device: blocks that were pending no longer are.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.shared.wait()
    }

    /// As [`Machine::alloc`].
    pub(crate) fn alloc(&self, bytes: usize, zeroed: bool) -> Result<NonNull<u8>> {
        let (at, _) = self.shared.take(MemoryKind::Device, bytes)?;
        let machine = &self.shared.machine;
        // SAFETY: the block has these bytes, and is ready: nobody else uses it.
        unsafe { machine.lend(at, bytes) };
        if zeroed {
            // SAFETY: as above.
            if let Err(error) = unsafe { machine.zero_now(at.as_ptr(), bytes) } {
                self.free(at);
                return Err(error);
            }
        }
        Ok(at)
    }

    /// Takes back memory from [`Pool::alloc`] that the caller no longer uses; work in flight may still use it.
    pub(crate) fn free(&self, at: NonNull<u8>) {
        // This comes first: once the block is back, another thread may take it.
        self.shared.machine.take_back(at);
        self.shared.give_back(MemoryKind::Device, at);
    }

    /// As [`Machine::alloc_pinned`].
    pub(crate) fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        let (at, used) = self.shared.take(MemoryKind::Pinned, bytes)?;
        if used {
            // SAFETY: the block has these bytes, and is ready: nobody else uses it.
            unsafe { at.write_bytes(0, bytes) };
        }
        Ok(at)
    }

    /// [`Pool::free`], for memory from [`Pool::alloc_pinned`].
    pub(crate) fn free_pinned(&self, at: NonNull<u8>) {
        self.shared.give_back(MemoryKind::Pinned, at);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held happens before anything is changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of at least `bytes` > 0 bytes that no work touches, and whether it was used before.
    fn take(&self, kind: MemoryKind, bytes: usize) -> Result<(NonNull<u8>, bool)> {
        // Bound to a variable first: a lock taken in the scrutinee is held in the arms.
        let found = self.state().find(kind, bytes);
        if let Found::Ready(at) = found {
            return Ok((at.0, true));
        }
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        // Meanwhile another thread may have waited for the device, or returned a fitting block.
        let mut found = self.state().find(kind, bytes);
        if found == Found::Pending {
            self.wait()?;
            let mut state = self.state();
            state.waits += 1;
            found = state.find(kind, bytes);
        }
        match found {
            Found::Ready(at) => Ok((at.0, true)),
            Found::Pending | Found::Nothing => Ok((self.grow(kind, bytes)?, false)),
        }
    }

    /// A new block: of a size that other requests fit, or of the exact one where there is no room for that.
    fn grow(&self, kind: MemoryKind, bytes: usize) -> Result<NonNull<u8>> {
        self.grow_to(kind, block_bytes(bytes), bytes).or_else(|error| match error {
            Error::PoolLimit { .. } | Error::OutOfMemory { .. } if block_bytes(bytes) > bytes => {
                self.grow_to(kind, bytes, bytes)
            }
            _ => Err(error),
        })
    }

    /// A new block of `block` bytes.
    fn grow_to(&self, kind: MemoryKind, block: usize, bytes: usize) -> Result<NonNull<u8>> {
        let limit = self.limit.filter(|_| kind == MemoryKind::Device);
        let reserved = self.state().arena(kind).reserve(block, limit.unwrap_or(usize::MAX));
        let too_much = |in_use: usize| Error::PoolLimit {
            requested: bytes,
            block: block_bytes(bytes),
            in_use,
            limit: limit.unwrap_or(usize::MAX),
            device: self.machine.description(),
        };
        self.release(kind, reserved.map_err(too_much)?);
        let new = self.machine_alloc(kind, block).or_else(|error| match error {
            Error::OutOfMemory { .. } if self.trim(kind) > 0 => self.machine_alloc(kind, block),
            _ => Err(error),
        });
        let mut state = self.state();
        match new {
            Ok(at) => {
                state.allocations += 1;
                state.arena(kind).lend(Address(at), block, bytes);
                Ok(at)
            }
            Err(error) => {
                state.arena(kind).cancel(block);
                drop(state);
                Err(match error {
                    // In the caller's numbers.
                    Error::OutOfMemory { .. } => self.machine.out_of_memory(bytes as u128),
                    error => error,
                })
            }
        }
    }

    fn machine_alloc(&self, kind: MemoryKind, bytes: usize) -> Result<NonNull<u8>> {
        match kind {
            MemoryKind::Device => self.machine.alloc(bytes, false),
            MemoryKind::Pinned => self.machine.alloc_pinned(bytes),
        }
    }

    fn give_back(&self, kind: MemoryKind, at: NonNull<u8>) {
        let mut state = self.state();
        let epoch = state.epoch;
        state.arena(kind).give_back(Address(at), epoch);
    }

    fn wait(&self) -> Result<()> {
        // Blocks that come back from here on belong to the new epoch: they may have been used after the wait began.
        let begun = {
            let mut state = self.state();
            state.epoch += 1;
            state.epoch
        };
        self.machine.synchronize()?;
        let mut state = self.state();
        state.waited = state.waited.max(begun);
        Ok(())
    }

    fn trim(&self, kind: MemoryKind) -> usize {
        let blocks = self.state().arena(kind).drain();
        let bytes = blocks.iter().map(|block| block.bytes).sum();
        self.release(kind, blocks);
        bytes
    }

    /// Gives blocks back to the driver, pending ones too.
    fn release(&self, kind: MemoryKind, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            // Freeing device memory waits for work by itself; for pinned memory the driver does not promise that. An
            // error is that of earlier work, and the caller's next call reports it.
            let _ = self.machine.synchronize();
        }
        for Block { bytes, at, .. } in blocks {
            // SAFETY: allocated with this size, and drained from the cache: nobody else has it.
            unsafe {
                match kind {
                    MemoryKind::Device => self.machine.free(at.0, bytes),
                    MemoryKind::Pinned => self.machine.free_pinned(at.0, bytes),
                }
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Every buffer keeps the pool alive, so no buffer is left: all blocks are cached.
        self.trim(MemoryKind::Device);
        self.trim(MemoryKind::Pinned);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoolStats { in_use, cached, .. } = self.stats();
        write!(f, "Pool[{in_use} bytes in use, {cached} cached, on {}]", self.shared.machine.description())
    }
}
