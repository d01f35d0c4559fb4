//! Accesses to global memory: checked, counted, and then done.
//!
//! Neither these nor the collectives are inlined or generic: there are many kernels with many accesses each, so
//! compiling them would take minutes.

use super::access::{GlobalAccess, GlobalAccessKind};
use super::lane::Lane;
use super::memory::{Intent, Tracked};
use super::operation::{Operation, perform_narrow, perform_wide};
use super::races::{Knower, Stamp};
use super::weak::{Owner, View};
use crate::{Hint, Order};
use core::panic::Location;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

impl Lane<'_> {
    #[inline]
    fn check(&self, address: usize, bytes: usize, intent: Intent) -> &Tracked {
        self.checked(self.block.launch.memory.check(&self.region, address, bytes, intent))
    }

    fn knower(&self) -> Knower {
        Knower {
            block: self.block.index.get(),
            thread: self.thread,
            time: self.block.time.get(),
            met: self.slot.met.get(),
            barrier: self.block.barrier_time.get(),
            knows: self.slot.knows.get(),
        }
    }

    #[inline]
    fn touch(&self, tracked: &Tracked, address: usize, kind: GlobalAccessKind, bytes: usize) {
        if tracked.is_shadowed() {
            let access = GlobalAccess { kind, bytes: bytes as u32 };
            self.checked(tracked.touch(address, access, &self.knower(), &self.block.launch.memory.releases));
        }
    }

    pub(super) fn before_load(&self, address: usize, bytes: usize, hint: Hint, place: &'static Location<'static>) {
        let intent = match hint {
            Hint::ReadOnly | Hint::EvictFirst => Intent::ReadOnly,
            Hint::Default | Hint::Streaming => Intent::Read,
        };
        let tracked = self.check(address, bytes, intent);
        self.touch(tracked, address, GlobalAccessKind::Read, bytes);
        self.block.count(|counters| &counters.loads);
        self.count_transactions(address, place);
    }

    pub(super) fn before_store(&self, address: usize, bytes: usize) {
        let tracked = self.check(address, bytes, Intent::Write);
        self.touch(tracked, address, GlobalAccessKind::Write, bytes);
        self.block.count(|counters| &counters.stores);
    }

    /// Performs an atomic access to an element of 4 or 8 bytes; returns its former value.
    ///
    /// # Safety
    /// The pointer carries the provenance of the buffer that it points into, and other threads access the element
    /// atomically only.
    #[inline(never)]
    pub(super) unsafe fn atomic(
        &self,
        at: *mut u8,
        bytes: usize,
        (operation, value): (Operation, u64),
        order: Order,
    ) -> u64 {
        self.maybe_pause();
        self.block.count(|counters| &counters.atomics);
        let intent = if operation == Operation::Load { Intent::Read } else { Intent::Write };
        let tracked = self.check(at.addr(), bytes, intent);
        // Whether the comparison fails, so that nothing is written, is known too late: it counts as a write.
        self.touch(tracked, at.addr(), operation.kind(), bytes);
        if operation != Operation::Load {
            self.publish(tracked, at.addr(), operation.releases(order));
        }
        // SAFETY: checked to be in a buffer, writable if need be, and aligned; atomic by the caller's contract.
        let former = unsafe {
            if let Some(weak) = &self.block.launch.weak {
                self.with_view(|view| weak.atomic(self.owner(), view, (at, bytes), (operation, value), order))
            } else if bytes == 4 {
                u64::from(perform_narrow(AtomicU32::from_ptr(at.cast()), operation, value as u32))
            } else {
                perform_wide(AtomicU64::from_ptr(at.cast()), operation, value)
            }
        };
        if operation != Operation::Store {
            self.learn(tracked, at.addr(), operation.acquires(order));
        }
        former
    }

    /// Releases what the thread has done so far.
    fn release(&self) -> Stamp {
        let stamp = self.block.launch.memory.releases.release(&self.knower());
        self.block.tick();
        stamp
    }

    /// Before a store: a thread that reads it also sees what it publishes, if the store or a fence before it is a
    /// release.
    fn publish(&self, tracked: &Tracked, address: usize, releases: bool) {
        if !tracked.is_shadowed() {
            return;
        }
        let stamp = if releases { self.release() } else { self.slot.fenced.get() };
        if stamp > 0 {
            tracked.publish(address, stamp);
        }
    }

    /// After a load: the release that it has read is known, now or from the next fence on.
    fn learn(&self, tracked: &Tracked, address: usize, acquires: bool) {
        if self.block.launch.memory.releases.any() {
            let knows = if acquires { &self.slot.knows } else { &self.slot.read };
            knows.set(knows.get().max(tracked.published(address)));
        }
    }

    fn owner(&self) -> Owner {
        (self.block.index.get(), self.thread)
    }

    fn with_view<T>(&self, access: impl FnOnce(&mut View) -> T) -> T {
        let mut view = self.slot.view.get();
        let result = access(&mut view);
        self.slot.view.set(view);
        result
    }

    /// Reads 4 or 8 bytes if memory is weak; `None` if it is not, or if the memory is constant.
    ///
    /// # Safety
    /// Checked by [`Self::before_load`].
    pub(super) unsafe fn load_weakly(&self, at: *const u8, bytes: usize, hint: Hint) -> Option<u64> {
        let weak = self.block.launch.weak.as_ref()?;
        if matches!(hint, Hint::ReadOnly | Hint::EvictFirst) {
            return None;
        }
        // SAFETY: in a buffer of the launch.
        Some(self.with_view(|view| unsafe { weak.load(self.owner(), view, at.cast_mut(), bytes) }))
    }

    /// Writes 4 or 8 bytes if memory is weak; false if it is not.
    ///
    /// # Safety
    /// Checked by [`Self::before_store`].
    pub(super) unsafe fn store_weakly(&self, at: *mut u8, bytes: usize, value: u64) -> bool {
        let Some(weak) = &self.block.launch.weak else { return false };
        // SAFETY: in a writable buffer of the launch.
        unsafe { weak.store(self.owner(), at, bytes, value) };
        true
    }

    pub(super) fn fence(&self) {
        if let Some(weak) = &self.block.launch.weak {
            self.with_view(|view| weak.fence(self.owner(), view));
        }
        if self.block.launch.options.global_races {
            let slot = self.slot;
            slot.knows.set(slot.knows.get().max(slot.read.get()));
            slot.fenced.set(self.release());
        }
        fence(Ordering::SeqCst);
    }
}
