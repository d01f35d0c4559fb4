//! Stacks for coroutines, kept from launch to launch: mapping one costs more than running most kernels.

use corosensei::stack::DefaultStack;
use std::sync::{Mutex, PoisonError};

/// Bytes of a stack, without its guard page. Only the pages that a kernel touches are backed by memory; formatting a
/// panic's message needs the most.
const BYTES: usize = 128 * 1024;

/// Stacks that may be mapped at once by one launch. Each is two mappings, its guard page being one, and
/// Linux allows a process 65530 by default.
pub(super) const MAX_PER_LAUNCH: u32 = 16 * 1024;

static SPARE: Mutex<Vec<DefaultStack>> = Mutex::new(Vec::new());

/// The stacks of a worker. The last used ones are reused first: their pages are in the cache.
#[derive(Default)]
pub(super) struct Stacks(Vec<DefaultStack>);

impl Stacks {
    /// # Panics
    /// If the system maps no more memory.
    pub(super) fn take(&mut self) -> DefaultStack {
        self.0.pop().unwrap_or_else(|| {
            // A warp's worth at a time, so that not every coroutine takes the lock.
            let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
            let from = spare.len().saturating_sub(32);
            self.0.extend(spare.drain(from..));
            drop(spare);
            self.0.pop().unwrap_or_else(|| DefaultStack::new(BYTES).expect("address space for a stack of 128 KiB"))
        })
    }

    pub(super) fn put(&mut self, stack: DefaultStack) {
        self.0.push(stack);
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.0);
    }
}
