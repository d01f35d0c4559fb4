//! The scratch memory of an engine.

use super::UpdateEngine;
use crate::device::sequence::has_sequence;
use crate::device::tuning::TUNING;
use crate::parts::Parts;
use lanetree_frame::{Error, Result};
use lanetree_layout::Word;
use lanetree_primitives::{RadixSortScratch, RunScratch};
use lanetree_runtime::{Buffer, Device};

/// Operations of a piece with [`UpdateEngine::HashTable`].
const PIECE: usize = 1 << 19;

/// Scratch memory of an engine.
#[derive(Debug)]
pub(in crate::device) struct Memory {
    pub(super) engine: UpdateEngine,
    pub(super) owners: Buffer<u64>,
    pub(super) highest: Buffer<u32>,
    pub(super) slots: Buffer<u32>,
    pub(super) links: Buffer<u64>,
    pub(super) sorting: Option<Sorting>,
    pub(super) ordering: Option<Ordering>,
    /// [`Tuning::ordered_from`](crate::device::tuning::Tuning::ordered_from), but in tests.
    pub(super) ordered_from: usize,
    /// [`PIECE`], but in tests and with one table.
    pub(super) piece: usize,
    /// Slots of the one table for whole batches; `None` for a table of twice a piece.
    one_table: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Sorting {
    pub(super) links: Buffer<u64>,
    pub(super) operations: Buffer<u32>,
    pub(super) last_links: Buffer<u64>,
    pub(super) last_operations: Buffer<u32>,
    pub(super) count: Buffer<u64>,
    pub(super) sort: RadixSortScratch<u64, u32>,
    pub(super) runs: RunScratch,
}

#[derive(Debug)]
pub(super) struct Ordering {
    pub(super) heads: Buffer<u32>,
    pub(super) sorted: Buffer<u32>,
    pub(super) picks: Buffer<u32>,
    pub(super) sort: RadixSortScratch<u32, u32>,
}

impl Ordering {
    fn new(device: &Device, operations: usize) -> Result<Self> {
        Ok(Self {
            heads: device.alloc(operations)?,
            sorted: device.alloc(operations)?,
            picks: device.alloc(operations)?,
            sort: RadixSortScratch::for_pairs(device, operations)?,
        })
    }
}

impl Memory {
    pub(in crate::device) fn new(device: &Device, operations: usize, engine: UpdateEngine) -> Result<Self> {
        let of = |engines: &[UpdateEngine], len: usize| if engines.contains(&engine) { len } else { 0 };
        let piece = operations.min(PIECE).next_power_of_two();
        let places = of(&[UpdateEngine::HashTable], 2 * piece);
        let with_links = [UpdateEngine::Auto, UpdateEngine::Stamps, UpdateEngine::Sort];
        let sorting = (engine == UpdateEngine::Sort).then(|| -> Result<_> {
            Ok(Sorting {
                links: device.alloc(operations)?,
                operations: device.alloc(operations)?,
                last_links: device.alloc(operations)?,
                last_operations: device.alloc(operations)?,
                count: device.alloc(1)?,
                sort: RadixSortScratch::for_pairs(device, operations)?,
                runs: RunScratch::new(device, operations)?,
            })
        });
        let ordered_from = TUNING.on(device)?.ordered_from;
        let ordered = engine == UpdateEngine::Auto && operations >= ordered_from;
        Ok(Self {
            engine,
            owners: device.alloc(places)?,
            highest: device.alloc(places)?,
            slots: device.alloc(places / 2)?,
            links: device.alloc(of(&with_links, operations))?,
            sorting: sorting.transpose()?,
            ordering: if ordered { Some(Ordering::new(device, operations)?) } else { None },
            ordered_from,
            piece: PIECE,
            one_table: None,
        })
    }

    /// One table of at least `slots` slots, for batches of up to `operations` operations, which are at most `slots`.
    pub(in crate::device) fn one_table(&mut self, operations: usize, slots: usize) -> Result<()> {
        let slots = slots.clamp(1, 1 << 31).next_power_of_two();
        if slots < operations {
            let what = "the slots of the hash table";
            return Err(Error::OutputLength { what, expected: operations, actual: slots });
        }
        if self.engine == UpdateEngine::HashTable {
            let device = self.device().clone();
            self.owners = device.alloc(slots)?;
            self.highest = device.alloc(slots)?;
            self.slots = device.alloc(operations)?;
            (self.piece, self.one_table) = (operations.max(1), Some(slots));
        }
        Ok(())
    }

    /// Slots of the table for a piece of that many operations.
    pub(super) fn places(&self, count: usize) -> usize {
        self.one_table.unwrap_or(2 * count.next_power_of_two())
    }

    /// Splits batches into pieces of at most this many operations; 0 counts as 1.
    #[cfg(any(test, feature = "check"))]
    pub(in crate::device) fn pieces_of(&mut self, operations: usize) {
        self.piece = operations.clamp(1, PIECE);
    }

    /// Sorts batches of at least this many operations, up to `operations`.
    #[cfg(any(test, feature = "check"))]
    pub(in crate::device) fn order_from(&mut self, operations: usize, from: usize) -> Result<()> {
        self.ordered_from = from;
        if self.engine == UpdateEngine::Auto && operations >= from && self.ordering.is_none() {
            self.ordering = Some(Ordering::new(self.device(), operations)?);
        }
        Ok(())
    }

    pub(in crate::device) fn device(&self) -> &Device {
        self.owners.device()
    }

    pub(in crate::device) fn bytes(&self) -> usize {
        let sorting = self.sorting.as_ref().map_or(0, |it| {
            let pairs = it.links.bytes() + it.operations.bytes() + it.last_links.bytes() + it.last_operations.bytes();
            pairs + it.count.bytes() + it.sort.bytes() + it.runs.bytes()
        });
        let ordering = self
            .ordering
            .as_ref()
            .map_or(0, |it| it.heads.bytes() + it.sorted.bytes() + it.picks.bytes() + it.sort.bytes());
        let own = self.owners.bytes() + self.highest.bytes() + self.slots.bytes() + self.links.bytes();
        own + sorting + ordering
    }

    /// Checks that the engine can serve the tree, also if it gets keys of more than 32 bytes besides its own.
    pub(in crate::device) fn check<V: Word>(&self, tree: &Parts, with_long_keys: bool) -> Result<()> {
        if self.engine == UpdateEngine::Sequence && (with_long_keys || !has_sequence::<V>(tree)) {
            return Err(Error::UpdateEngine {
                engine: "Sequence",
                reason: if V::BITS == 32 {
                    "the tree has keys of more than 32 bytes; choose another engine, or `Auto`"
                } else {
                    "values have 64 bits; choose another engine, or `Auto`"
                },
            });
        }
        Ok(())
    }

    /// Operations of a piece.
    pub(super) fn piece(&self) -> usize {
        self.slots.len().min(self.piece)
    }
}
