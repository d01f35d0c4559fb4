//! Scratch memory of batches on their own device, kept for the next ones.

use crate::slots::{reserve, with_spare};
use lanetree_frame::{AnyKey, Buffer, Device, Result, Stream, Word};
use std::sync::{Mutex, PoisonError};

/// For as-of look-ups and joins of null probes; one for each batch at a time on a device.
pub(crate) struct ScratchPool<K, V>(Mutex<Vec<Scratch<K, V>>>);

impl<K, V> Default for ScratchPool<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// What a batch uses on its device.
pub(crate) struct Scratch<K, V> {
    device: Device,
    pub(crate) sought: Buffer<K>,
    pub(crate) keys: Buffer<K>,
    pub(crate) values: Buffer<V>,
    pub(crate) hits: Buffer<u32>,
    /// No limits, as often as they were needed.
    unlimited: Buffer<u64>,
}

impl<K: AnyKey, V: Word> ScratchPool<K, V> {
    /// Lends memory on a stream's device. Its buffers order the work of one batch after that of another.
    ///
    /// # Errors
    /// Those of the function; [`Error::Runtime`](lanetree_frame::Error::Runtime) if the device has no room.
    pub(crate) fn lend(&self, stream: &Stream, with: impl FnOnce(&mut Scratch<K, V>) -> Result<()>) -> Result<()> {
        let device = stream.device();
        let known = {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().position(|scratch| scratch.device == *device).map(|at| kept.swap_remove(at))
        };
        let mut scratch = match known {
            Some(scratch) => scratch,
            None => Scratch {
                device: device.clone(),
                sought: device.alloc(0)?,
                keys: device.alloc(0)?,
                values: device.alloc(0)?,
                hits: device.alloc(0)?,
                unlimited: device.alloc(0)?,
            },
        };
        let done = with(&mut scratch);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        done
    }
}

impl<K: AnyKey, V: Word> Scratch<K, V> {
    /// Makes room for what a second search finds.
    pub(crate) fn reserve_found(&mut self, count: usize) -> Result<()> {
        reserve(&mut self.keys, count)?;
        reserve(&mut self.values, count)?;
        reserve(&mut self.hits, count.div_ceil(32))
    }

    /// Makes room for keys to search for.
    pub(crate) fn reserve_sought(&mut self, count: usize) -> Result<()> {
        reserve(&mut self.sought, count)
    }

    /// So many times that there is no limit.
    pub(crate) fn unlimited(&mut self, count: usize) -> Result<&Buffer<u64>> {
        if self.unlimited.len() < count {
            self.unlimited = self.device.upload(&vec![u64::MAX; with_spare(count)])?;
        }
        Ok(&self.unlimited)
    }
}
