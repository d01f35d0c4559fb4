//! Whether a batch's changes fit into the existing nodes.

use super::{Changes, Effect, has_effect, head};
use crate::tree::{THREADS, TreeRef};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Order, Scope, Shared, Simt, Word, kernel_args};

kernel_args! {
    /// Arguments of [`Plan`].
    pub struct PlanArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// What is to change.
        pub changes: Changes<K, V>,
        /// Out: `[changes]`, the first operation with an effect of each leaf that takes its own changes, and the leaf
        /// in the upper half, in no particular order.
        pub leaf_heads: GlobalMut<u64>,
        /// Out: `[changes]`, the first operation of each node whose leaves are to be refilled evenly, and the node in
        /// the upper half.
        pub node_heads: GlobalMut<u64>,
        /// In and out: the numbers of heads of leaves and of nodes, added to the former values; 1 if the changes do not
        /// fit; and 1 if some node has too many operations to tell, since some of them may have no effect.
        pub plan: GlobalMut<u64>,
        /// The number of pairs of each leaf; null if only the tree's ranks give it.
        pub lens: Global<u32>,
        /// Not 0 if the operations are not sorted: then nothing is done.
        pub unsorted: Global<u64>,
        /// Slots of a node.
        pub fanout: u32,
        /// Whether the leaves of a node can be refilled evenly.
        pub by_node: u32,
    }
}

/// Heads of a block's leaves and nodes, and where they go.
const HEADS: Shared<u32> = Shared::at(0, 4);

/// A block's operations: their units, effects and leaves, and how many pairs those have.
const UNITS: Shared<u32> = Shared::at(HEADS.end(), THREADS);
const EFFECTS: Shared<u32> = Shared::at(UNITS.end(), THREADS);
const LEAVES: Shared<u32> = Shared::at(EFFECTS.end(), THREADS);
const LENS: Shared<u32> = Shared::at(LEAVES.end(), THREADS);

/// Plans a batch. At least one thread per change; blocks of [`THREADS`](crate::THREADS).
#[derive(Debug)]
pub struct Plan<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Plan<K, V> {
    type Args = PlanArgs<K, V>;
    const STATIC_SHARED: u32 = LENS.end();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: one word, the same for all threads.
        if unsafe { simt.load(args.unsorted, 0, Hint::ReadOnly) } != 0 {
            return;
        }
        if simt.thread_index() < 2 {
            // SAFETY: one thread per element; a barrier follows.
            unsafe { simt.shared_store(HEADS, simt.thread_index(), 0) };
        }
        let change = simt.global_index();
        let (count, thread) = (args.changes.count, simt.thread_index());
        let mut own = Operation { unit: 0, effect: 0, leaf: 0, len: 0 };
        if change < count {
            // SAFETY: an operation; each thread has its own elements until the barrier.
            unsafe {
                own = Operation::load(simt, args, change);
                simt.shared_store(UNITS, thread, own.unit);
                simt.shared_store(EFFECTS, thread, own.effect);
                simt.shared_store(LEAVES, thread, own.leaf);
                simt.shared_store(LENS, thread, own.len);
            }
        }
        simt.barrier();
        let mut is_head = change < count;
        if is_head && change > 0 {
            // SAFETY: an operation, in shared memory or not.
            is_head = own.unit
                != unsafe {
                    if thread > 0 {
                        simt.shared_load(UNITS, thread - 1)
                    } else {
                        simt.load(units(args), change - 1, Hint::ReadOnly)
                    }
                };
        }
        let (mut run, mut place) = (Run { fit: Fit::No, leaves: 0, end: change }, 0);
        if is_head {
            // SAFETY: the first change of a node, or leaf; the counts were set before the barrier, and are added
            // to atomically until the next.
            unsafe {
                run = fit_of(simt, args, change, own.unit);
                place = match run.fit {
                    Fit::Leaves => simt.shared_atomic_add(HEADS, 0, run.leaves),
                    Fit::Evenly => simt.shared_atomic_add(HEADS, 1, 1),
                    Fit::No | Fit::Unknown => 0,
                };
            }
        }
        simt.barrier();
        if simt.thread_index() < 2 {
            let kind = simt.thread_index();
            // SAFETY: all have added; the plan has four words, accessed atomically only.
            unsafe {
                let heads = simt.shared_load(HEADS, kind);
                let first =
                    simt.atomic_add(args.plan, u64::from(kind), u64::from(heads), Order::Relaxed, Scope::Device);
                simt.shared_store(HEADS, 2 + kind, first as u32);
            }
        }
        simt.barrier();
        if is_head {
            // SAFETY: stored before the barrier; there are no more heads than changes.
            unsafe {
                match run.fit {
                    Fit::Leaves => {
                        let mut to = simt.shared_load(HEADS, 2) + place;
                        let mut before = u32::MAX;
                        let mut at = change;
                        while at < run.end {
                            let operation = Operation::of_block(simt, args, at);
                            if !has_effect(operation.effect, Effect::None) && operation.leaf != before {
                                let head = head(at, operation.leaf);
                                simt.store(args.leaf_heads, u64::from(to), head, Hint::Default);
                                (before, to) = (operation.leaf, to + 1);
                            }
                            at += 1;
                        }
                    }
                    Fit::Evenly => {
                        let to = simt.shared_load(HEADS, 3) + place;
                        simt.store(args.node_heads, u64::from(to), head(change, own.unit), Hint::Default);
                    }
                    Fit::No => _ = simt.atomic_max(args.plan, 2, 1, Order::Relaxed, Scope::Device),
                    Fit::Unknown => _ = simt.atomic_max(args.plan, 3, 1, Order::Relaxed, Scope::Device),
                }
            }
        }
    }
}

/// The unit of planning: nodes, or leaves.
#[inline(always)]
fn units<K: Word, V: Word>(args: &PlanArgs<K, V>) -> Global<u32> {
    if args.by_node != 0 { args.changes.parents } else { args.changes.leaves }
}

/// How changes fit.
#[derive(Clone, Copy)]
enum Fit {
    /// Each leaf has room, and keeps a pair.
    Leaves,
    /// Only together do the leaves have enough room and pairs.
    Evenly,
    /// Not even that.
    No,
    /// There are more operations than slots for what they might insert and pairs that they might change.
    Unknown,
}

/// The operations of a node (or leaf).
#[derive(Clone, Copy)]
struct Run {
    fit: Fit,
    /// Leaves that change.
    leaves: u32,
    /// The first operation after them.
    end: u64,
}

/// Per thread. Whether the node (or leaf) of the operations from `first` on has room for them.
///
/// # Safety
/// `first` is the first operation of a node, or leaf, `unit`; the block's operations are in shared memory.
#[inline(always)]
unsafe fn fit_of<S: Simt, K: Word, V: Word>(simt: S, args: &PlanArgs<K, V>, first: u64, unit: u32) -> Run {
    let changes = &args.changes;
    let slots = if args.by_node != 0 { args.fanout * args.fanout } else { args.fanout };
    // If there are more changes than this, they cannot all be inserts that fit and changes of existing pairs.
    let most = 2 * u64::from(slots);
    let last = if changes.count - first > most { first + most + 1 } else { changes.count };
    let fits = |len: i64| len >= 1 && len <= i64::from(args.fanout);
    // Additional pairs of the whole run, and of the current leaf.
    let (mut net, mut leaf_len, mut each_fits) = (0, 1, true);
    let (mut leaf, mut changed) = (u32::MAX, 0);
    let mut change = first;
    while change < last {
        // SAFETY: an operation; the block's operations are in shared memory.
        let Operation { unit: its_unit, effect, leaf: its_leaf, len } =
            unsafe { Operation::of_block(simt, args, change) };
        if its_unit != unit {
            break;
        }
        if !has_effect(effect, Effect::None) {
            if its_leaf != leaf {
                each_fits &= fits(leaf_len);
                (leaf, changed, leaf_len) = (its_leaf, changed + 1, i64::from(len));
            }
            let more = i64::from(has_effect(effect, Effect::Insert)) - i64::from(has_effect(effect, Effect::Remove));
            net += more;
            leaf_len += more;
        }
        change += 1;
    }
    each_fits &= fits(leaf_len);
    let fit = if change - first > most {
        Fit::Unknown
    } else if each_fits {
        Fit::Leaves
    } else if args.by_node != 0 {
        // SAFETY: a node of the last inner level, and its leaves.
        unsafe {
            let (first_leaf, leaves) = children_of(simt, &args.tree, unit);
            let (before, _) = args.tree.leaf_ranks(simt, first_leaf);
            let (_, after) = args.tree.leaf_ranks(simt, first_leaf + leaves - 1);
            let (len, leaves) = ((after - before) as i64 + net, i64::from(leaves));
            if leaves > 1 && len >= leaves && len <= leaves * i64::from(args.fanout) { Fit::Evenly } else { Fit::No }
        }
    } else {
        Fit::No
    };
    Run { fit, leaves: changed, end: change }
}

/// The part of an operation that planning needs.
#[derive(Clone, Copy)]
struct Operation {
    unit: u32,
    effect: u32,
    leaf: u32,
    /// The leaf's pairs.
    len: u32,
}

impl Operation {
    /// Per thread.
    ///
    /// # Safety
    /// `index` is an operation.
    #[inline(always)]
    unsafe fn load<S: Simt, K: Word, V: Word>(simt: S, args: &PlanArgs<K, V>, index: u64) -> Self {
        // SAFETY: an operation and its leaf.
        unsafe {
            let unit = simt.load(units(args), index, Hint::ReadOnly);
            let (effect, leaf) = (args.changes.effect(simt, index), args.changes.leaf(simt, index));
            let len = if args.lens.is_null() {
                let (before, after) = args.tree.leaf_ranks(simt, leaf);
                (after - before) as u32
            } else {
                simt.load(args.lens, u64::from(leaf), Hint::ReadOnly)
            };
            Self { unit, effect, leaf, len }
        }
    }

    /// Per thread. From shared memory, if the operation is one of the block's.
    ///
    /// # Safety
    /// `index` is an operation, of the block or a later one; the block's operations have been stored, and a barrier
    /// passed since.
    #[inline(always)]
    unsafe fn of_block<S: Simt, K: Word, V: Word>(simt: S, args: &PlanArgs<K, V>, index: u64) -> Self {
        let at = index - u64::from(simt.block_index()) * u64::from(THREADS);
        // SAFETY: the caller's promise.
        unsafe {
            if at >= u64::from(THREADS) {
                return Self::load(simt, args, index);
            }
            Self {
                unit: simt.shared_load(UNITS, at as u32),
                effect: simt.shared_load(EFFECTS, at as u32),
                leaf: simt.shared_load(LEAVES, at as u32),
                len: simt.shared_load(LENS, at as u32),
            }
        }
    }
}

/// Per thread. The first leaf under a node of the last inner level, and how many there are.
///
/// # Safety
/// Such a node of the tree.
#[inline(always)]
pub(crate) unsafe fn children_of<S: Simt, K: Word>(simt: S, tree: &TreeRef<K>, node: u32) -> (u32, u32) {
    // SAFETY: the child region has an entry for every inner node; the next node's children follow.
    unsafe {
        let first = simt.load(tree.prefix_sum, u64::from(node), Hint::ReadOnly) - tree.first_leaf;
        let mut end = tree.leaf_count;
        if node + 1 < tree.first_leaf {
            end = simt.load(tree.prefix_sum, u64::from(node) + 1, Hint::ReadOnly) - tree.first_leaf;
        }
        (first, end - first)
    }
}

kernel_args! {
    /// Arguments of [`FillLens`].
    pub struct FillLensArgs<K> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// Out: the pairs of each leaf: `[leaf_count]`.
        pub lens: GlobalMut<u32>,
    }
}

/// Writes the number of pairs of each leaf. One thread per leaf; any block.
#[derive(Debug)]
pub struct FillLens<K>(PhantomData<K>);

impl<K: Word> Kernel for FillLens<K> {
    type Args = FillLensArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let leaf = simt.global_index();
        if leaf < u64::from(args.tree.leaf_count) {
            // SAFETY: a leaf of the tree.
            unsafe {
                let (before, after) = args.tree.leaf_ranks(simt, leaf as u32);
                simt.store(args.lens, leaf, (after - before) as u32, Hint::Default);
            }
        }
    }
}
