//! What the classes of indexes have in common: the lock over an index, and what closes it.

use crate::errors::{check_not_forked, is_forked};
use crate::memory::closed;
use pyo3::prelude::*;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// An index that many calls read or one changes, each without the GIL. Signal handlers may call the same index: they run between two
/// uses of the lock, and not within one.
pub(crate) struct Held<T>(RwLock<Option<T>>);

impl<T: Send + Sync> Held<T> {
    pub(crate) fn new(index: T) -> Self {
        Self(RwLock::new(Some(index)))
    }

    fn lock(&self) -> RwLockReadGuard<'_, Option<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read<R: Send>(&self, py: Python<'_>, call: impl FnOnce(&T) -> PyResult<R> + Send) -> PyResult<R> {
        check_not_forked()?;
        py.detach(|| call(self.lock().as_ref().ok_or_else(closed)?))
    }

    /// Reads two indexes, which may be one. A lock lets no reader in while a writer waits: so that of one index is taken once, and
    /// those of two in the order of their addresses.
    pub(crate) fn read_both<R: Send>(
        &self,
        other: &Self,
        py: Python<'_>,
        call: impl FnOnce(&T, &T) -> PyResult<R> + Send,
    ) -> PyResult<R> {
        if core::ptr::eq(self, other) {
            return self.read(py, |index| call(index, index));
        }
        check_not_forked()?;
        py.detach(|| {
            let (own, theirs);
            if core::ptr::from_ref(self) < core::ptr::from_ref(other) {
                own = self.lock();
                theirs = other.lock();
            } else {
                theirs = other.lock();
                own = self.lock();
            }
            call(own.as_ref().ok_or_else(closed)?, theirs.as_ref().ok_or_else(closed)?)
        })
    }

    pub(crate) fn change<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut T) -> PyResult<R> + Send,
    ) -> PyResult<R> {
        check_not_forked()?;
        py.detach(|| call(self.0.write().unwrap_or_else(PoisonError::into_inner).as_mut().ok_or_else(closed)?))
    }

    /// Frees its memory. Later calls are errors; a second close is none.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        check_not_forked()?;
        py.detach(|| drop(self.0.write().unwrap_or_else(PoisonError::into_inner).take()));
        Ok(())
    }

    pub(crate) fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        check_not_forked()?;
        Ok(py.detach(|| self.lock().is_none()))
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        // In a forked child the memory's locks may be held by threads of the parent, and a GPU's memory cannot be freed.
        if is_forked() {
            core::mem::forget(self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
