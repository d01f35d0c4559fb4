//! The buffer of one type of nodes or leaves, with room to grow and places to use again.

use crate::Result;
use bytemuck::Pod;
use lanetree_runtime::Buffer;

/// The nodes or leaves of one type. The first `used` elements are the tree's or lie on the free list, and
/// what is behind them has never been used.
pub(super) struct Region<T> {
    pub(super) buffer: Buffer<T>,
    pub(super) used: usize,
    /// The indexes that were given back and can be used again, the first `free_len` of them; the last one
    /// first. Dynamically sized leaves, of which the elements are units, lie here by their first ones.
    pub(super) free: Buffer<u64>,
    pub(super) free_len: usize,
}

impl<T: Pod> Region<T> {
    /// Of a buffer that is in use as a whole.
    pub(super) fn full(buffer: Buffer<T>) -> Result<Self> {
        let free = buffer.device().alloc(0)?;
        Ok(Self { used: buffer.len(), buffer, free, free_len: 0 })
    }

    /// The used elements, if the CPU can reach them.
    pub(super) fn as_slice(&self) -> Option<&[T]> {
        Some(&self.buffer.as_slice()?[..self.used])
    }

    /// The used elements, writable, if the CPU can reach them.
    pub(super) fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        Some(&mut self.buffer.as_mut_slice()?[..self.used])
    }

    /// Elements that are neither free nor never used.
    pub(super) fn live(&self) -> u64 {
        (self.used - self.free_len) as u64
    }

    /// Bytes of all of it, free and unused elements and the free list too.
    pub(super) fn bytes(&self) -> u64 {
        (self.buffer.bytes() + self.free.bytes()) as u64
    }

    /// Bytes behind the used elements.
    pub(super) fn spare_bytes(&self) -> u64 {
        ((self.buffer.len() - self.used) * size_of::<T>()) as u64
    }

    /// Bytes of the elements on the free list, where each has one.
    pub(super) fn free_bytes(&self) -> u64 {
        (self.free_len * size_of::<T>()) as u64
    }
}
