//! The threads of the process, and processes that have none.

use core::sync::atomic::{AtomicU32, Ordering};

/// The number of threads that a loop on the CPU can use: the number of the current rayon pool, or 1 in a
/// [forked](is_forked) process.
pub fn threads() -> usize {
    if is_forked() { 1 } else { rayon::current_num_threads() }
}

/// Whether this process was forked from one in which Lanetree had asked for threads before. Threads do not survive a
/// `fork`: a process that gave them work would wait for it without end, so a forked process does it on the calling thread.
///
/// It does not know of threads that others have started: after a fork, code that used rayon before should spawn a process
/// instead.
pub fn is_forked() -> bool {
    /// The process that asked first; 0: none yet. No process has this number.
    static FIRST: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id();
    // A number only: the threads hand one another nothing by it. Loaded first, as an exchange on each call would move the line
    // from core to core.
    let first = match FIRST.load(Ordering::Relaxed) {
        0 => FIRST.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(own),
        first => first,
    };
    first != own
}
