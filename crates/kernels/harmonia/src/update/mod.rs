//! Batches of updates on the device.
//!
//! The host sorts a batch's operations by key; then, each step a kernel:
//!
//! 1. [`Locate`]: every operation finds its leaf; the last one of each key knows what it does to the tree
//!    (its [`Effect`]), the others do nothing;
//! 2. prefix sums and [`Compact`]: the operations with an effect, next to each other;
//! 3. [`Plan`]: whether the leaves, or the leaves of one inner node together, have room;
//! 4. if they have, [`ApplyLeaves`] and [`ApplyNodes`]: these leaves are written anew, in place;
//! 5. if not, [`Place`] and [`Move`] write the pairs of batch and tree into new leaves.

mod apply;
mod instances;
mod leaves;
mod locate;
mod plan;
mod rebuild;

pub use apply::{ApplyArgs, ApplyNodes, apply_warps, is_by_node};
pub use leaves::ApplyLeaves;
pub use locate::{Compact, CompactArgs, Locate, LocateArgs, MarkBases, MarkBasesArgs};
pub use plan::{FillLens, FillLensArgs, Plan, PlanArgs};
pub use rebuild::{MOVE_SLOTS, Move, Place, RebuildArgs};

use lanetree_simt::{Access, Global, Word};

/// What an operation of a batch is.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Inserts a pair or replaces a value.
    Insert = 0,
    /// Replaces a value.
    Update = 1,
    /// Removes a pair.
    Remove = 2,
}

/// What an operation does to the tree.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: a later operation has the same key, or the key is not there.
    None = 0,
    /// A new pair.
    Insert = 1,
    /// A new value.
    Replace = 2,
    /// A pair less.
    Remove = 3,
}

/// The effect and the slot of an operation in one word.
#[inline(always)]
pub(crate) fn pack(effect: Effect, slot: u32) -> u32 {
    slot << 2 | effect as u32
}

/// Whether a word packed by [`pack`] has this effect.
#[inline(always)]
pub(crate) fn has_effect(packed: u32, effect: Effect) -> bool {
    packed & 3 == effect as u32
}

/// The slot of a word packed by [`pack`].
#[inline(always)]
pub(crate) fn slot_of(packed: u32) -> u32 {
    packed >> 2
}

/// The operations of a batch that have an effect, in ascending order of their keys, which are distinct.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Changes<K, V> {
    /// Ordered words.
    pub keys: Global<K>,
    /// New values; unspecified for a removal.
    pub values: Global<V>,
    /// What each does, and the first slot of its leaf whose key is not below its own.
    pub effects: Global<u32>,
    /// Their leaves, numbered from 0.
    pub leaves: Global<u32>,
    /// The inner nodes above those.
    pub parents: Global<u32>,
    /// How many: on the device, since the host learns it last.
    pub count: Global<u64>,
}

impl<K: Word, V: Word> Changes<K, V> {
    /// Names the buffers, for [`KernelArgs::pointers`](lanetree_simt::KernelArgs::pointers).
    pub(crate) fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        for address in [
            self.keys.as_ptr().addr(),
            self.values.as_ptr().addr(),
            self.effects.as_ptr().addr(),
            self.leaves.as_ptr().addr(),
            self.parents.as_ptr().addr(),
            self.count.as_ptr().addr(),
        ] {
            visit(address, Access::Read);
        }
    }
}
