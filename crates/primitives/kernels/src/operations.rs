//! Operations of a batch of updates, sorted by their keys: what the operations of one key do together.

use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, Order, Scope, Simt, kernel_args};

/// What an operation of a batch is.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Inserts a pair or replaces a value.
    Insert = 0,
    /// Replaces a value.
    Update = 1,
    /// Removes a pair.
    Remove = 2,
}

/// The folded kind of an operation after which there is another one of the same key: it does nothing.
pub const SUPERSEDED: u32 = 3;

kernel_args! {
    /// Arguments of [`MarkBases`].
    pub struct MarkBasesArgs {
        /// Indexes in the batch of the sorted operations: `[count]`.
        pub order: Global<u32>,
        /// [`OpKind`]s, in the batch's order: `[count]`.
        pub kinds: Global<u32>,
        /// Out: `[count]`, 0 for an update, else the position in the sorted order, from 1.
        pub marks: GlobalMut<u32>,
        /// How many.
        pub count: u64,
        /// In and out: `[2]`. The number of operations of unknown kind is added to the first word. The second is raised
        /// to at least the kind of the first of them, with 2^32 - 1 minus its index in the batch in the upper half.
        pub unknown: GlobalMut<u64>,
    }
}

/// Marks the operations whose effect does not depend on what was there: their running maximum tells each update which
/// operation it builds on. Counts operations of unknown kind, which a batch should not have. One thread per operation;
/// any block.
#[derive(Debug)]
pub struct MarkBases;

impl Kernel for MarkBases {
    type Args = MarkBasesArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is an operation, and its place is one too; the last two words are accessed atomically
            // only.
            unsafe {
                let place = simt.load(args.order, index, Hint::ReadOnly);
                let kind = simt.load(args.kinds, u64::from(place), Hint::ReadOnly);
                let mark = if kind == OpKind::Update as u32 { 0 } else { index as u32 + 1 };
                simt.store(args.marks, index, mark, Hint::Default);
                if kind > OpKind::Remove as u32 {
                    let first = u64::from(u32::MAX - place) << 32 | u64::from(kind);
                    simt.atomic_add(args.unknown, 0, 1, Order::Relaxed, Scope::Device);
                    simt.atomic_max(args.unknown, 1, first, Order::Relaxed, Scope::Device);
                }
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`FoldKinds`].
    pub struct FoldKindsArgs<K> {
        /// The operations' keys, sorted: `[count]`.
        pub keys: Global<K>,
        /// Their indexes in the batch: `[count]`.
        pub order: Global<u32>,
        /// [`OpKind`]s, in the batch's order: `[count]`.
        pub kinds: Global<u32>,
        /// The running maximum of [`MarkBases`]' marks: `[count]`.
        pub bases: Global<u32>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, in the sorted order. For the last operation of a key the [`OpKind`] of all operations of
        /// the key together: an update after an insert is an insert, after a removal a removal. Else [`SUPERSEDED`].
        pub folded: GlobalMut<u32>,
    }
}

/// Folds the operations of each key into its last one. One thread per operation; any block.
#[derive(Debug)]
pub struct FoldKinds<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for FoldKinds<K> {
    type Args = FoldKindsArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is an operation; bases are 0 or operations, counted from 1; positions are operations.
        unsafe {
            let key = simt.load(args.keys, index, Hint::ReadOnly);
            let mut folded = SUPERSEDED;
            if index + 1 == args.count || simt.load(args.keys, index + 1, Hint::ReadOnly) != key {
                folded = OpKind::Update as u32;
                let base = simt.load(args.bases, index, Hint::ReadOnly);
                if base != 0 && simt.load(args.keys, u64::from(base - 1), Hint::ReadOnly) == key {
                    let place = simt.load(args.order, u64::from(base - 1), Hint::ReadOnly);
                    let kind = simt.load(args.kinds, u64::from(place), Hint::ReadOnly);
                    folded = if kind == OpKind::Remove as u32 { kind } else { OpKind::Insert as u32 };
                }
            }
            simt.store(args.folded, index, folded, Hint::Default);
        }
    }
}

kernel_args! {
    /// Arguments of [`CheckOrder`].
    pub struct CheckOrderArgs<K> {
        /// In the caller's form: `[count]`.
        pub keys: Global<K>,
        /// How many.
        pub count: u64,
        /// Out, both set before the launch: the smallest index of a key below the previous one (a minimum with the
        /// former value), and the number of keys that equal the previous one (added to the former value).
        pub findings: GlobalMut<u64>,
        /// Exclusive-or mask between the caller's keys and ordered words.
        pub flip: K,
    }
}

/// Checks whether keys ascend, and strictly. Any grid of whole warps (grid-stride loop).
#[derive(Debug)]
pub struct CheckOrder<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for CheckOrder<K> {
    type Args = CheckOrderArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let stride = u64::from(simt.grid_dim()) * u64::from(simt.block_dim());
        let (mut descent, mut equal) = (u64::MAX, 0_u32);
        let mut index = simt.global_index() + 1;
        while index < args.count {
            // SAFETY: both are keys.
            let (before, key) = unsafe {
                (simt.load(args.keys, index - 1, Hint::ReadOnly), simt.load(args.keys, index, Hint::ReadOnly))
            };
            if key.xor(args.flip) < before.xor(args.flip) && index < descent {
                descent = index;
            }
            equal += u32::from(key == before);
            index += stride;
        }
        let equal = simt.reduce_add(FULL_MASK, equal);
        // SAFETY: two words, accessed atomically only.
        unsafe {
            if descent != u64::MAX {
                simt.atomic_min(args.findings, 0, descent, Order::Relaxed, Scope::Device);
            }
            if equal > 0 && simt.lane() == 0 {
                simt.atomic_add(args.findings, 1, u64::from(equal), Order::Relaxed, Scope::Device);
            }
        }
    }
}
