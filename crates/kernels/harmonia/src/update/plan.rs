//! Whether a batch's changes fit into the nodes that there are.

use super::{Changes, Effect, has_effect};
use crate::tree::TreeRef;
use core::marker::PhantomData;
use lanetree_simt::{Access, GlobalMut, Hint, Kernel, KernelArgs, Order, Scope, Shared, Simt, Word};

/// Arguments of [`Plan`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PlanArgs<K, V> {
    /// The tree.
    pub tree: TreeRef<K>,
    /// What is to change.
    pub changes: Changes<K, V>,
    /// Out: `[changes]`, the first change of each leaf that takes its own changes, in no particular order.
    pub leaf_heads: GlobalMut<u32>,
    /// Out: `[changes]`, the first change of each node whose leaves are to be filled evenly anew.
    pub node_heads: GlobalMut<u32>,
    /// In and out: how many heads of leaves, and of nodes, added to what is there; and 1 if the changes do not
    /// fit.
    pub plan: GlobalMut<u64>,
    /// Slots of a node.
    pub fanout: u32,
    /// Whether the leaves of a node can be filled evenly anew.
    pub by_node: u32,
}

// SAFETY: `repr(C)`; every pointer is visited.
unsafe impl<K: Word, V: Word> KernelArgs for PlanArgs<K, V> {
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        self.tree.pointers(visit);
        self.changes.pointers(visit);
        visit(self.leaf_heads.as_ptr().addr(), Access::ReadWrite);
        visit(self.node_heads.as_ptr().addr(), Access::ReadWrite);
        visit(self.plan.as_ptr().addr(), Access::ReadWrite);
    }
}

/// Heads of a block's leaves and nodes, and where they go.
const HEADS: Shared<u32> = Shared::at(0, 4);

/// Plans a batch. A thread per change, and perhaps more; blocks of [`THREADS`](crate::THREADS).
#[derive(Debug)]
pub struct Plan<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Plan<K, V> {
    type Args = PlanArgs<K, V>;
    const STATIC_SHARED: u32 = HEADS.end();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        if simt.thread_index() < 2 {
            // SAFETY: one thread per element; a barrier follows.
            unsafe { simt.shared_store(HEADS, simt.thread_index(), 0) };
        }
        simt.barrier();
        let change = simt.global_index();
        // SAFETY: one word.
        let count = unsafe { simt.load(args.changes.count, 0, Hint::ReadOnly) };
        let units = if args.by_node != 0 { args.changes.parents } else { args.changes.leaves };
        let mut is_head = change < count;
        if is_head && change > 0 {
            // SAFETY: both are changes.
            is_head =
                unsafe { simt.load(units, change, Hint::ReadOnly) != simt.load(units, change - 1, Hint::ReadOnly) };
        }
        let (mut run, mut place) = (Run { fit: Fit::No, leaves: 0, end: change }, 0);
        if is_head {
            // SAFETY: the first change of a node, or leaf; the counts were set before the barrier, and are added
            // to atomically until the next.
            unsafe {
                run = fit_of(simt, args, change, count);
                place = match run.fit {
                    Fit::Leaves => simt.shared_atomic_add(HEADS, 0, run.leaves),
                    Fit::Evenly => simt.shared_atomic_add(HEADS, 1, 1),
                    Fit::No => 0,
                };
            }
        }
        simt.barrier();
        if simt.thread_index() < 2 {
            let kind = simt.thread_index();
            // SAFETY: all have added; the plan has three words, accessed atomically only.
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
                            let leaf = simt.load(args.changes.leaves, at, Hint::ReadOnly);
                            if leaf != before {
                                simt.store(args.leaf_heads, u64::from(to), at as u32, Hint::Default);
                                (before, to) = (leaf, to + 1);
                            }
                            at += 1;
                        }
                    }
                    Fit::Evenly => {
                        let to = simt.shared_load(HEADS, 3) + place;
                        simt.store(args.node_heads, u64::from(to), change as u32, Hint::Default);
                    }
                    Fit::No => _ = simt.atomic_max(args.plan, 2, 1, Order::Relaxed, Scope::Device),
                }
            }
        }
    }
}

/// How changes fit.
#[derive(Clone, Copy)]
enum Fit {
    /// Each leaf has room, and keeps a pair.
    Leaves,
    /// Only together the leaves have room and pairs enough.
    Evenly,
    /// Not even that.
    No,
}

/// The changes of a node (or leaf).
#[derive(Clone, Copy)]
struct Run {
    fit: Fit,
    /// Leaves that change.
    leaves: u32,
    /// The first change behind them.
    end: u64,
}

/// Per thread. Whether the node (or leaf) of the changes from `first` on has room for them.
///
/// # Safety
/// `first` is the first change of a node, or leaf.
#[inline(always)]
unsafe fn fit_of<S: Simt, K: Word, V: Word>(simt: S, args: &PlanArgs<K, V>, first: u64, count: u64) -> Run {
    let changes = &args.changes;
    // SAFETY: a change, its leaf and its node.
    let (parent, mut leaf) = unsafe {
        (simt.load(changes.parents, first, Hint::ReadOnly), simt.load(changes.leaves, first, Hint::ReadOnly))
    };
    let (mut first_leaf, mut leaves) = (leaf, 1);
    if args.by_node != 0 {
        // SAFETY: a node of the last inner level.
        (first_leaf, leaves) = unsafe { children_of(simt, &args.tree, parent) };
    }
    // SAFETY: leaves of the tree.
    let (before, behind) =
        unsafe { (args.tree.leaf_ranks(simt, first_leaf).0, args.tree.leaf_ranks(simt, first_leaf + leaves - 1).1) };
    // More changes than this are not all inserts that fit, and changes of pairs that are there.
    let most = 2 * u64::from(leaves) * u64::from(args.fanout);
    let last = if count - first > most { first + most + 1 } else { count };
    let (mut len, mut each_fits) = (behind as i64 - before as i64, true);
    // SAFETY: a leaf of the tree.
    let mut leaf_len = unsafe { len_of(simt, &args.tree, leaf) };
    let mut changed = 1;
    let fits = |len: i64| len >= 1 && len <= i64::from(args.fanout);
    let mut change = first;
    while change < last {
        // SAFETY: a change, and leaves of the tree.
        unsafe {
            let its_leaf = simt.load(changes.leaves, change, Hint::ReadOnly);
            if its_leaf >= first_leaf + leaves {
                break;
            }
            if its_leaf != leaf {
                each_fits &= fits(leaf_len);
                leaf = its_leaf;
                changed += 1;
                leaf_len = len_of(simt, &args.tree, leaf);
            }
            let effect = simt.load(changes.effects, change, Hint::ReadOnly);
            let net = i64::from(has_effect(effect, Effect::Insert)) - i64::from(has_effect(effect, Effect::Remove));
            len += net;
            leaf_len += net;
        }
        change += 1;
    }
    each_fits &= fits(leaf_len);
    let fit = if change - first > most {
        Fit::No
    } else if each_fits {
        Fit::Leaves
    } else if leaves > 1 && len >= i64::from(leaves) && len <= i64::from(leaves) * i64::from(args.fanout) {
        Fit::Evenly
    } else {
        Fit::No
    };
    Run { fit, leaves: changed, end: change }
}

/// Per thread. The pairs of a leaf.
///
/// # Safety
/// A leaf of the tree.
#[inline(always)]
unsafe fn len_of<S: Simt, K: Word>(simt: S, tree: &TreeRef<K>, leaf: u32) -> i64 {
    // SAFETY: the caller's promise.
    let (before, behind) = unsafe { tree.leaf_ranks(simt, leaf) };
    (behind - before) as i64
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

/// Arguments of [`FillLens`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FillLensArgs<K> {
    /// The tree.
    pub tree: TreeRef<K>,
    /// Out: the pairs of each leaf: `[leaf_count]`.
    pub lens: GlobalMut<u32>,
}

// SAFETY: `repr(C)`; every pointer is visited.
unsafe impl<K: Word> KernelArgs for FillLensArgs<K> {
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        self.tree.pointers(visit);
        visit(self.lens.as_ptr().addr(), Access::ReadWrite);
    }
}

/// Writes down how many pairs each leaf has. A thread per leaf; any block.
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
                let len = len_of(simt, &args.tree, leaf as u32);
                simt.store(args.lens, leaf, len as u32, Hint::Default);
            }
        }
    }
}
