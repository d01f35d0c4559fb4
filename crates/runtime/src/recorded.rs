//! Which kernels a process has launched, for a tool that has to know that it left none out.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

static IS_ON: AtomicBool = AtomicBool::new(false);

/// Symbols.
static LAUNCHED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Begins or ends the recording of launches, on all devices and threads of the process. It is off at the start; while it
/// is off, a launch reads one flag and no more. Starting again forgets nothing.
pub fn record_kernels(on: bool) {
    // Relaxed: a launch on another thread at the same time may or may not be recorded, and nothing depends on it.
    IS_ON.store(on, Ordering::Relaxed);
}

/// The symbols of all kernels that were launched while recording was on. Of a launch, that the device took it; whether
/// the kernel ended well says the call that waits for it.
///
/// ```
/// # mod lanetree { pub use lanetree_runtime::{self as runtime, *}; }
/// lanetree::runtime::record_kernels(true);
/// assert!(lanetree::runtime::recorded_kernels().is_empty());
/// ```
pub fn recorded_kernels() -> BTreeSet<&'static str> {
    LAUNCHED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// As [`recorded_kernels`], and forgets them.
pub fn take_recorded_kernels() -> BTreeSet<&'static str> {
    core::mem::take(&mut LAUNCHED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Records a launch that succeeded, if launches are recorded.
#[inline]
pub(crate) fn record(symbol: &'static str) {
    if IS_ON.load(Ordering::Relaxed) {
        LAUNCHED.lock().unwrap_or_else(PoisonError::into_inner).insert(symbol);
    }
}
