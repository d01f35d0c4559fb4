//! The buffer of one type of nodes or leaves, with room to grow and places to use again.
//!
//! A free list says what its entries are by the type that it belongs to: in a [`Region`], elements, each as good as
//! any other; in [`LongLeaves`], whole leaves, of different sizes. Only the former can be counted against new elements.

use bytemuck::Pod;
use lanetree_frame::Result;
use lanetree_runtime::{Buffer, Device};

/// What was given back and can be used again, the last one first.
pub(super) struct FreeList {
    /// Indexes, the first `len` of them. Those of leaves that take several elements are their first ones'.
    pub(super) indexes: Buffer<u64>,
    pub(super) len: usize,
}

impl FreeList {
    pub(super) fn new(device: &Device) -> Result<Self> {
        Ok(Self { indexes: device.alloc(0)?, len: 0 })
    }
}

/// The nodes or leaves of one type, all of one size. The first `used` elements are the tree's or lie on the free list,
/// and what is past them has never been used.
pub(super) struct Region<T> {
    pub(super) buffer: Buffer<T>,
    pub(super) used: usize,
    pub(super) free: FreeList,
}

impl<T: Pod> Region<T> {
    /// Of a buffer that is in use as a whole.
    pub(super) fn full(buffer: Buffer<T>) -> Result<Self> {
        let free = FreeList::new(buffer.device())?;
        Ok(Self { used: buffer.len(), buffer, free })
    }

    /// The used elements, if the CPU can reach them.
    pub(super) fn as_slice(&self) -> Option<&[T]> {
        Some(&self.buffer.as_slice()?[..self.used])
    }

    /// The used elements, writable, if the CPU can reach them.
    pub(super) fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        Some(&mut self.buffer.as_mut_slice()?[..self.used])
    }

    /// How many elements the buffer has to have for `more` new ones, the free ones first.
    pub(super) fn needed(&self, more: usize) -> usize {
        self.used + more.saturating_sub(self.free.len)
    }

    /// Elements that are neither free nor never used.
    pub(super) fn live(&self) -> u64 {
        (self.used - self.free.len) as u64
    }

    /// Bytes of all of it, free and unused elements and the free list too.
    pub(super) fn bytes(&self) -> u64 {
        (self.buffer.bytes() + self.free.indexes.bytes()) as u64
    }

    /// Bytes past the used elements.
    pub(super) fn spare_bytes(&self) -> u64 {
        ((self.buffer.len() - self.used) * size_of::<T>()) as u64
    }

    /// Bytes of the elements on the free list.
    pub(super) fn free_bytes(&self) -> u64 {
        (self.free.len * size_of::<T>()) as u64
    }
}

/// A unit of the leaves of dynamic size: 16 bytes.
pub(super) type Unit = [u64; 2];

/// The leaves of dynamic size, each of several units. The first `used` units are the tree's, or of leaves on the free
/// list, or of leaves that a device removed, which are not used again; what is past them has never been used.
pub(super) struct LongLeaves {
    pub(super) units: Buffer<Unit>,
    pub(super) used: usize,
    /// Leaves.
    pub(super) count: u64,
    /// Leaves, by their first units, which hold their lengths; the host alone uses them again.
    pub(super) free: FreeList,
    /// Units of the free leaves.
    pub(super) free_units: u64,
}

impl LongLeaves {
    /// So many leaves that take all units of a buffer.
    pub(super) fn full(units: Buffer<Unit>, count: u64) -> Result<Self> {
        let free = FreeList::new(units.device())?;
        Ok(Self { used: units.len(), units, count, free, free_units: 0 })
    }

    /// The used units, if the CPU can reach them.
    pub(super) fn as_slice(&self) -> Option<&[Unit]> {
        Some(&self.units.as_slice()?[..self.used])
    }

    /// The used units, writable, if the CPU can reach them.
    pub(super) fn as_mut_slice(&mut self) -> Option<&mut [Unit]> {
        Some(&mut self.units.as_mut_slice()?[..self.used])
    }

    /// Bytes of all of it, free and unused units and the free list too.
    pub(super) fn bytes(&self) -> u64 {
        (self.units.bytes() + self.free.indexes.bytes()) as u64
    }

    /// Bytes past the used units.
    pub(super) fn spare_bytes(&self) -> u64 {
        ((self.units.len() - self.used) * size_of::<Unit>()) as u64
    }

    /// Bytes of the free leaves.
    pub(super) fn free_bytes(&self) -> u64 {
        self.free_units * size_of::<Unit>() as u64
    }
}
