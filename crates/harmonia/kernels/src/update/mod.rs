//! Batches of updates on the device.
//!
//! A batch's operations are sorted and folded before; then, each step a kernel:
//!
//! 1. [`Locate`]: every operation finds its leaf; the last one of each key knows what it does to the tree
//!    (its [`Effect`]), the others do nothing;
//! 2. [`Plan`]: whether the leaves, or the leaves of one inner node together, have room;
//! 3. if they have, [`ApplyLeaves`] and [`ApplyNodes`]: these leaves are rewritten in place;
//! 4. if not, [`MarkEffects`], prefix sums and [`Compact`] compact the operations with an effect, and [`Place`] and
//!    [`Move`] write the pairs of batch and tree into new leaves.
//!
//! The kernels of steps 2 and 3 skip operations without an effect. If skipping them would take long, because a node has
//! many of them, the kernels of step 4 remove them first.

mod apply;
mod compact;
mod instances;
mod leaves;
mod locate;
mod plan;
mod rebuild;

pub use apply::{ApplyArgs, ApplyNodes, apply_warps, is_by_node};
pub use compact::{Compact, CompactArgs, MarkEffects, MarkEffectsArgs};
pub use leaves::ApplyLeaves;
pub use locate::{Locate, LocateArgs};
pub use plan::{FillLens, FillLensArgs, Plan, PlanArgs};
pub use rebuild::{MOVE_SLOTS, Move, Place, RebuildArgs};

use lanetree_simt::{Global, Hint, Simt, Word, kernel_args};

/// What an operation does to the tree.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: a later operation has the same key, or the key is not present.
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

/// A head of operations, the first of a unit, in one word.
#[inline(always)]
pub(crate) fn head(first: u64, unit: u32) -> u64 {
    u64::from(unit) << 32 | first
}

/// The first operation and the unit of a word made by [`head`].
#[inline(always)]
pub(crate) fn split_head(head: u64) -> (u64, u32) {
    (head & u64::from(u32::MAX), (head >> 32) as u32)
}

kernel_args! {
    /// Operations of a batch in ascending order of their keys: all of them, or those that have an effect, whose keys
    /// are distinct. Of equal keys only the last has an effect.
    pub struct Changes<K, V> {
        /// Their keys.
        pub keys: Global<K>,
        /// New values; unspecified for a removal.
        pub values: Global<V>,
        /// The index of each operation's value; null if it is its own index.
        pub order: Global<u32>,
        /// What each does, and the first slot of its leaf whose key is not below its own.
        pub effects: Global<u32>,
        /// Their leaves, numbered from 0.
        pub leaves: Global<u32>,
        /// The inner nodes above those.
        pub parents: Global<u32>,
        /// How many.
        pub count: u64,
        /// Exclusive-or mask between a key and the word by which it is ordered.
        pub flip: K,
    }
}

impl<K: Word, V: Word> Changes<K, V> {
    /// Per thread. The ordered word of a key.
    ///
    /// # Safety
    /// One of the operations.
    #[inline(always)]
    pub(crate) unsafe fn key<S: Simt>(&self, simt: S, index: u64) -> K {
        // SAFETY: the caller's promise.
        unsafe { simt.load(self.keys, index, Hint::ReadOnly) }.xor(self.flip)
    }

    /// Per thread. Where an operation has its value.
    ///
    /// # Safety
    /// One of the operations.
    #[inline(always)]
    pub(crate) unsafe fn place<S: Simt>(&self, simt: S, index: u64) -> u64 {
        if self.order.is_null() {
            return index;
        }
        // SAFETY: the caller's promise.
        u64::from(unsafe { simt.load(self.order, index, Hint::ReadOnly) })
    }

    /// Per thread. A new value.
    ///
    /// # Safety
    /// One of the operations, not a removal.
    #[inline(always)]
    pub(crate) unsafe fn value<S: Simt>(&self, simt: S, index: u64) -> V {
        // SAFETY: the caller's promise.
        unsafe { simt.load(self.values, self.place(simt, index), Hint::ReadOnly) }
    }

    /// Per thread. What an operation does, packed by [`pack`].
    ///
    /// # Safety
    /// One of the operations.
    #[inline(always)]
    pub(crate) unsafe fn effect<S: Simt>(&self, simt: S, index: u64) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { simt.load(self.effects, index, Hint::ReadOnly) }
    }

    /// Per thread. The leaf of an operation.
    ///
    /// # Safety
    /// One of the operations.
    #[inline(always)]
    pub(crate) unsafe fn leaf<S: Simt>(&self, simt: S, index: u64) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { simt.load(self.leaves, index, Hint::ReadOnly) }
    }
}
