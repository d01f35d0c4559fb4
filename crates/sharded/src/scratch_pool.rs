//! Scratch memory of batches, kept for the next ones.

use lanetree_frame::{Device, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Scratch memory on several devices. A batch has its own as long as its call runs.
pub(crate) struct ScratchPool<T>(Mutex<Vec<(Device, T)>>);

impl<T> Default for ScratchPool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> ScratchPool<T> {
    /// Calls `run` with scratch memory on a device: kept or new.
    ///
    /// # Errors
    /// Those of the functions.
    pub(crate) fn with<R>(
        &self,
        device: &Device,
        new: impl FnOnce() -> Result<T>,
        run: impl FnOnce(&mut T) -> Result<R>,
    ) -> Result<R> {
        let kept = {
            let mut kept = self.lock();
            kept.iter().position(|(of, _)| of == device).map(|at| kept.swap_remove(at).1)
        };
        let mut scratch = kept.map_or_else(new, Ok)?;
        let done = run(&mut scratch);
        self.lock().push((device.clone(), scratch));
        done
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Device, T)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
