//! The buffer of one type of nodes or leaves, with room to grow and a free list.
//!
//! What the entries of a free list are depends on its owner: in a [`Region`] they are elements, all of one size; in
//! [`LongLeaves`] they are whole leaves of different sizes. Only free elements can be counted against new ones.

use bytemuck::Pod;
use lanetree_frame::Result;
use lanetree_runtime::{Buffer, Device};

/// Freed entries that can be reused, the last one first.
pub(super) struct FreeList {
    /// Indexes, the first `len` of them. For a leaf that takes several elements, the index of its first one.
    pub(super) indexes: Buffer<u64>,
    pub(super) len: usize,
}

impl FreeList {
    pub(super) fn new(device: &Device) -> Result<Self> {
        Ok(Self { indexes: device.alloc(0)?, len: 0 })
    }
}

/// The nodes or leaves of one type, all of one size. The first `used` elements are in the tree or on the free list; the
/// others have never been used.
pub(super) struct Region<T> {
    pub(super) buffer: Buffer<T>,
    pub(super) used: usize,
    pub(super) free: FreeList,
}

impl<T: Pod> Region<T> {
    /// For a buffer that is completely in use.
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

    /// How many elements the buffer needs for `more` new ones, if free ones are used first.
    pub(super) fn needed(&self, more: usize) -> usize {
        self.used + more.saturating_sub(self.free.len)
    }

    /// Elements that are neither free nor never used.
    pub(super) fn live(&self) -> u64 {
        (self.used - self.free.len) as u64
    }

    /// Bytes of the whole region, including free and unused elements and the free list.
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

/// The leaves of dynamic size, each of several units. The first `used` units belong to the tree, to leaves on the free
/// list, or to leaves that a device removed, which are not reused; the others have never been used.
pub(super) struct LongLeaves {
    pub(super) units: Buffer<Unit>,
    pub(super) used: usize,
    /// Leaves.
    pub(super) count: u64,
    /// Leaves, by their first units, which hold their lengths; only the host reuses them.
    pub(super) free: FreeList,
    /// Units of the free leaves.
    pub(super) free_units: u64,
}

impl LongLeaves {
    /// A number of leaves that take all units of a buffer.
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

    /// Bytes of the whole region, including free and unused units and the free list.
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
