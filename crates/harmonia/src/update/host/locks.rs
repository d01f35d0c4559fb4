//! The two grains of Algorithm 1's locking.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The coarse lock: it protects the count of updates in process that neither split nor merge, and a split
/// or merge holds it throughout.
#[derive(Debug, Default)]
pub(super) struct TreeLock {
    coarse: Mutex<InProcess>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct InProcess {
    /// The paper's `global_count`.
    count: usize,
    /// Splits and merges that wait for it to be 0.
    waiting: usize,
}

impl TreeLock {
    /// Counts the caller's updates in, lines 3 to 5; dropping the guard counts them out, lines 10 to 12.
    ///
    /// Unlike the paper's lock, it lets waiting splits and merges go first: otherwise they would never see a count of 0
    /// while new updates keep coming.
    pub(super) fn enter(&self) -> Entered<'_> {
        let mut coarse = self.lock();
        while coarse.waiting > 0 {
            coarse = self.wait(coarse);
        }
        coarse.count += 1;
        Entered { lock: self }
    }

    /// Waits until no counted update is in process and keeps the coarse lock, lines 16 to 24. The paper
    /// retries in a loop; here the retry sleeps until the count has changed.
    pub(super) fn exclusive(&self) -> Exclusive<'_> {
        let mut coarse = self.lock();
        coarse.waiting += 1;
        while coarse.count > 0 {
            coarse = self.wait(coarse);
        }
        coarse.waiting -= 1;
        Exclusive { lock: self, _coarse: coarse }
    }

    fn lock(&self) -> MutexGuard<'_, InProcess> {
        self.coarse.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, coarse: MutexGuard<'a, InProcess>) -> MutexGuard<'a, InProcess> {
        self.changed.wait(coarse).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Updates that are counted: leaves may be accessed under their own locks.
pub(super) struct Entered<'a> {
    lock: &'a TreeLock,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut coarse = self.lock.lock();
        coarse.count -= 1;
        if coarse.count == 0 && coarse.waiting > 0 {
            self.lock.changed.notify_all();
        }
    }
}

/// The tree to oneself.
pub(super) struct Exclusive<'a> {
    lock: &'a TreeLock,
    _coarse: MutexGuard<'a, InProcess>,
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        // Woken threads wait for the mutex, which is released right after this.
        self.lock.changed.notify_all();
    }
}

/// The fine lock, of one leaf. Zero bytes are an open lock.
#[derive(Debug, Default)]
pub(super) struct LeafLock(AtomicU8);

impl LeafLock {
    /// Iterations of the loop before the thread lets others run: a leaf is held for tens of nanoseconds, unless its
    /// holder has been suspended.
    const SPINS: u32 = 100;

    /// Line 7; dropping the guard is line 9. A thread holds one leaf at a time.
    pub(super) fn lock(&self) -> LeafGuard<'_> {
        let mut spins = 0;
        while self.0.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            spins += 1;
            if spins % Self::SPINS == 0 {
                std::thread::yield_now();
            } else {
                spin_loop();
            }
        }
        LeafGuard(self)
    }
}

/// Exclusive access to a leaf, among counted updates.
pub(super) struct LeafGuard<'a>(&'a LeafLock);

impl Drop for LeafGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicUsize;

    #[test]
    fn splits_and_merges_run_alone_and_are_not_starved() {
        let (tree, leaf) = (TreeLock::default(), LeafLock::default());
        let (inside, held) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (tree, leaf, inside, held) = (&tree, &leaf, &inside, &held);
                scope.spawn(move || {
                    for turn in 0..300 {
                        if (turn + thread) % 3 == 0 {
                            let exclusive = tree.exclusive();
                            assert_eq!(inside.load(Ordering::Relaxed), 0);
                            drop(exclusive);
                        } else {
                            let entered = tree.enter();
                            inside.fetch_add(1, Ordering::Relaxed);
                            let guard = leaf.lock();
                            assert_eq!(held.fetch_add(1, Ordering::Relaxed), 0);
                            std::thread::yield_now();
                            held.fetch_sub(1, Ordering::Relaxed);
                            drop(guard);
                            inside.fetch_sub(1, Ordering::Relaxed);
                            drop(entered);
                        }
                    }
                });
            }
        });
    }
}
