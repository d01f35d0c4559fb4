//! Scratch memory for as-of look-ups, and for joins of null probes.

use crate::slots::{reserve, with_spare};
use lanetree_frame::{AnyKey, Buffer, Device, Result, Word};

/// Scratch memory of a batch on one device. Its buffers order the work of one batch after that of another.
pub(crate) struct Scratch<K, V> {
    device: Device,
    pub(crate) sought: Buffer<K>,
    pub(crate) keys: Buffer<K>,
    pub(crate) values: Buffer<V>,
    pub(crate) hits: Buffer<u32>,
    /// `u64::MAX`, repeated.
    no_limits: Buffer<u64>,
}

impl<K: AnyKey, V: Word> Scratch<K, V> {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            sought: device.alloc(0)?,
            keys: device.alloc(0)?,
            values: device.alloc(0)?,
            hits: device.alloc(0)?,
            no_limits: device.alloc(0)?,
        })
    }

    /// Makes `keys`, `values` and `hits` hold the results of `count` queries.
    pub(crate) fn reserve_results(&mut self, count: usize) -> Result<()> {
        reserve(&mut self.keys, count)?;
        reserve(&mut self.values, count)?;
        reserve(&mut self.hits, count.div_ceil(32))
    }

    /// `count` limits or more that exclude nothing.
    pub(crate) fn no_limits(&mut self, count: usize) -> Result<&Buffer<u64>> {
        if self.no_limits.len() < count {
            self.no_limits = self.device.upload(&vec![u64::MAX; with_spare(count)])?;
        }
        Ok(&self.no_limits)
    }
}
