//! Scratch memory of changes in device form.

use super::engine::{self, UpdateEngine};
use lanetree_frame::parallel::*;
use lanetree_frame::{Error, Result};
use lanetree_primitives::SelectScratch;
use lanetree_runtime::{Buffer, Device};

/// Scratch memory of changes in device form, for batches of up to a number of operations, reusable for the next batch.
#[derive(Debug)]
pub struct ChangeScratch {
    pub(super) operations: usize,
    pub(super) engine: engine::Memory,
    pub(super) inserting: Option<Inserting>,
}

/// What inserts need beyond updates.
#[derive(Debug)]
pub(super) struct Inserting {
    pub(super) hits: Buffer<u32>,
    pub(super) positions: Buffer<u32>,
    pub(super) partitioned: Buffer<u32>,
    pub(super) counts: Buffer<u64>,
    pub(super) select: SelectScratch,
}

impl ChangeScratch {
    /// For updates by an engine, and removals: [`UpdateEngine`] says what each engine takes.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room; [`Error::TooManyOperations`] from 2^31 operations on.
    pub fn for_updates(device: &Device, operations: usize, engine: UpdateEngine) -> Result<Self> {
        if operations >= 1 << 31 {
            return Err(Error::TooManyOperations { operations });
        }
        Ok(Self { operations, engine: engine::Memory::new(device, operations, engine)?, inserting: None })
    }

    /// For inserts too: 8 bytes more for each operation.
    ///
    /// # Errors
    /// As [`ChangeScratch::for_updates`].
    pub fn for_inserts(device: &Device, operations: usize, engine: UpdateEngine) -> Result<Self> {
        let scratch = Self::for_updates(device, operations, engine)?;
        let positions = (0..operations as u32).into_par_iter().try_collect()?;
        let inserting = Inserting {
            hits: device.alloc(operations.div_ceil(32))?,
            positions: device.upload(&positions)?,
            partitioned: device.alloc(operations)?,
            counts: device.alloc(4)?,
            select: SelectScratch::new(device, operations)?,
        };
        Ok(Self { inserting: Some(inserting), ..scratch })
    }

    /// With [`UpdateEngine::HashTable`], one table for a whole batch, as in the paper (its figure 15 has 2^20 slots),
    /// rather than one for each piece of a batch: of `slots` slots, rounded up to a power of two and at most 2^31, 12 bytes
    /// each. All of them are cleared before each batch. The fuller the table, the longer the chains that operations follow; the paper
    /// names a larger table as the remedy. Other engines are as they were.
    ///
    /// # Errors
    /// [`Error::OutputLength`] for fewer slots than operations; [`Error::Runtime`] if the device has no room.
    pub fn one_table(mut self, slots: usize) -> Result<Self> {
        self.engine.one_table(self.operations, slots)?;
        Ok(self)
    }

    /// For tests: [`UpdateEngine::Auto`] processes batches of at least `from` operations in the order of their keys'
    /// first bytes.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room for 16 bytes more for each operation.
    #[cfg(any(test, feature = "check"))]
    pub fn order_from(mut self, from: usize) -> Result<Self> {
        self.engine.order_from(self.operations, from)?;
        Ok(self)
    }

    /// For tests: [`UpdateEngine::HashTable`] uses pieces of at most this many operations.
    #[cfg(any(test, feature = "check"))]
    #[must_use]
    pub fn pieces_of(mut self, operations: usize) -> Self {
        self.engine.pieces_of(operations);
        self
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let inserting = self.inserting.as_ref().map_or(0, |it| {
            it.hits.bytes() + it.positions.bytes() + it.partitioned.bytes() + it.counts.bytes() + it.select.bytes()
        });
        self.engine.bytes() + inserting
    }
}
