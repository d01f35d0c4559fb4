//! Stacks for coroutines, kept from launch to launch: mapping one costs more than running most kernels.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};
use corosensei::stack::{DefaultStack, Stack, StackPointer};
use std::sync::{Mutex, PoisonError};

/// Bytes of a stack, without its guard page and what [`ThreadStack::unused`] takes. Only the pages that a kernel touches
/// are backed by memory; formatting a panic's message needs the most.
const BYTES: usize = 128 * 1024;

/// Bytes of a page: the period with which addresses compete for the sets of a first-level cache.
const PAGE: usize = 4096;

/// Stacks that may be mapped at once by one launch. Each is two mappings, its guard page being one, and
/// Linux allows a process 65530 by default.
pub(super) const MAX_PER_LAUNCH: u32 = 16 * 1024;

static SPARE: Mutex<Vec<ThreadStack>> = Mutex::new(Vec::new());

/// The stack of a thread.
pub(super) struct ThreadStack {
    stack: DefaultStack,
    /// Bytes at its upper end that are left unused. Mappings begin at pages, so without them the parts of all stacks
    /// that are in use would compete for a few sets of the cache.
    unused: usize,
}

impl ThreadStack {
    /// # Panics
    /// If the system maps no more memory.
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Five lines of the cache apart: 64 stacks have different offsets, and neighbours do not overlap much.
        let unused = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(5 * 64) % PAGE;
        Self { stack: DefaultStack::new(BYTES + PAGE).expect("address space for a stack of 132 KiB"), unused }
    }
}

// SAFETY: a part of a stack that keeps its limit, so its guard page, and at least `BYTES`.
unsafe impl Stack for ThreadStack {
    #[inline]
    fn base(&self) -> StackPointer {
        // A multiple of the stack's alignment below a multiple of it.
        NonZeroUsize::new(self.stack.base().get() - self.unused).expect("the stack is larger")
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        self.stack.limit()
    }

    #[cfg(windows)]
    fn teb_fields(&self) -> corosensei::stack::StackTebFields {
        self.stack.teb_fields()
    }

    #[cfg(windows)]
    fn update_teb_fields(&mut self, stack_limit: usize, guaranteed_stack_bytes: usize) {
        self.stack.update_teb_fields(stack_limit, guaranteed_stack_bytes);
    }
}

/// The stacks of a worker. The last used ones are reused first: their pages are in the cache.
#[derive(Default)]
pub(super) struct Stacks(Vec<ThreadStack>);

impl Stacks {
    /// # Panics
    /// If the system maps no more memory.
    pub(super) fn take(&mut self) -> ThreadStack {
        self.0.pop().unwrap_or_else(|| {
            // A warp's worth at a time, so that not every coroutine takes the lock.
            let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
            let from = spare.len().saturating_sub(32);
            self.0.extend(spare.drain(from..));
            drop(spare);
            self.0.pop().unwrap_or_else(ThreadStack::new)
        })
    }

    pub(super) fn put(&mut self, stack: ThreadStack) {
        self.0.push(stack);
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.0);
    }
}
