//! Nodes that are rewritten, each in its own buckets or, if these are too few, in new ones.

use super::buckets::{is_marked, mark};
use super::fates::{Fates, node_pairs};
use super::{APPEND_BYTES, Changes, append};
use crate::layout::{BITMAP_CHILDREN, bucket_slots};
use crate::node::{NodeOutputs, NodePosition, Source, note_formats, plan, plan_words, save, saved, write};
use crate::plan_memory::PlanMemory;
use crate::search::TreeRef;
use crate::stretch::Filling;
use crate::values::SharedValues;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, Order, Scope, Shared, Simt, WARP, kernel_args,
};

kernel_args! {
    /// Arguments of [`ListNodes`].
    pub struct ListNodesArgs<K, V> {
        /// The batch.
        pub changes: Changes<K, V>,
        /// A bit for each node of the lowest level: whether it is marked.
        pub marks: Global<u32>,
        /// Out: the marked nodes, in any order.
        pub listed: GlobalMut<u32>,
        /// Out: the first operation of each, and the one after its last.
        pub spans: GlobalMut<u64>,
        /// In and out: how many nodes are listed; added to the former value.
        pub listed_count: GlobalMut<u64>,
    }
}

/// Lists the marked nodes: a thread per operation.
#[derive(Debug)]
pub struct ListNodes<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for ListNodes<K, V> {
    type Args = ListNodesArgs<K, V>;
    const STATIC_SHARED: u32 = APPEND_BYTES;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (at, changes) = (simt.global_index(), &args.changes);
        // SAFETY: operations; there are no more nodes than operations that are the first of one.
        unsafe {
            let (mut node, mut is_listed) = (0, false);
            if at < changes.count {
                node = changes.node(simt, at);
                let is_first = at == 0 || changes.node(simt, at - 1) != node;
                is_listed = is_first && is_marked(simt, args.marks, node);
            }
            if let Some(to) = append(simt, is_listed, args.listed_count) {
                simt.store(args.listed, to, node, Hint::Default);
                simt.store(args.spans, 2 * to, at, Hint::Default);
                simt.store(args.spans, 2 * to + 1, changes.end_of_node(simt, at), Hint::Default);
            }
        }
    }
}

/// Pairs in shared memory.
pub(super) struct Staged<K, V: Value> {
    keys: Shared<K>,
    values: SharedValues<V>,
}

impl<K, V: Value> Clone for Staged<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V: Value> Copy for Staged<K, V> {}

impl<K: KeyWord, V: Value> Staged<K, V> {
    /// Bytes of so many.
    pub(super) const fn bytes(pairs: u32) -> u32 {
        pairs * (K::BYTES + V::BYTES) as u32
    }

    /// So many from a byte offset on.
    #[inline(always)]
    pub(super) fn at(offset: u32, pairs: u32, has_values: bool) -> Self {
        // The wider ones first, which need the stricter alignment.
        if !has_values || K::BYTES >= V::BYTES {
            let keys = Shared::at(offset, pairs);
            Self { keys, values: SharedValues::at(keys.end(), pairs) }
        } else {
            let values = SharedValues::at(offset, pairs);
            Self { keys: Shared::at(values.end(), pairs), values }
        }
    }

    /// Per thread. Stores a key, and a value if there is one.
    ///
    /// # Safety
    /// There is room for such a pair.
    #[inline(always)]
    pub(super) unsafe fn put<S: Simt>(self, simt: S, at: u32, key: K, value: Option<V>) {
        // SAFETY: the caller's.
        unsafe {
            simt.shared_store(self.keys, at, key);
            if let Some(value) = value {
                self.values.store(simt, at, value);
            }
        }
    }
}

impl<K: KeyWord, V: Value> Source<K, V> for Staged<K, V> {
    #[inline(always)]
    unsafe fn key<S: Simt>(self, simt: S, at: u32) -> K {
        // SAFETY: the caller's.
        unsafe { simt.shared_load(self.keys, at) }
    }
    #[inline(always)]
    unsafe fn value<S: Simt>(self, simt: S, at: u32) -> V {
        // SAFETY: the caller's.
        unsafe { self.values.load(simt, at) }
    }
}

kernel_args! {
    /// Arguments of [`PlanNodes`] and [`WriteNodes`].
    pub struct NodeChangesArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// The nodes to rewrite: `[*listed_count]`.
        pub listed: Global<u32>,
        /// How many.
        pub listed_count: Global<u64>,
        /// If there are more, nothing is done.
        pub most_listed: u64,
        /// The first operation of each, and the one after its last.
        pub spans: Global<u64>,
        /// `node_plan_words` of each, which [`PlanNodes`] notes, in the order of [`PlanWord`].
        pub plans: GlobalMut<u32>,
        /// In and out, of [`PlanNodes`]: how many nodes must be split, how many new buckets nodes get, and how many they had
        /// instead; added to the former values.
        pub counts: GlobalMut<u64>,
        /// Of [`WriteNodes`]: the first of all new buckets.
        pub new_bucket: u64,
        /// A bit for each node of the lowest level. [`PlanNodes`] sets the bits of nodes that must be split;
        /// [`WriteNodes`] skips nodes whose bits are set.
        pub must_split: GlobalMut<u32>,
        /// Out, of [`WriteNodes`]: the tree's nodes.
        pub nodes: GlobalMut<u32>,
        /// Out, of [`WriteNodes`]: its records.
        pub records: GlobalMut<u64>,
        /// Out, of [`WriteNodes`]: where the buckets of its nodes end.
        pub ends: GlobalMut<u32>,
        /// Out, of [`WriteNodes`]: its buckets.
        pub buckets: GlobalMut<u64>,
        /// Out, of [`WriteNodes`]: the formats of all nodes.
        pub formats: GlobalMut<u32>,
    }
}

/// What [`PlanNodes`] notes of a node.
#[derive(Clone, Copy)]
#[repr(u32)]
enum PlanWord {
    /// Its pairs before the batch.
    Len = 0,
    /// The new buckets that it gets; 0 if it keeps its own.
    NewBuckets = 1,
    /// The new buckets before them; without any, 0.
    Before = 2,
    /// The first word of its plan as it is saved, at an even index.
    Plan = 4,
}

/// Words of [`NodeChangesArgs::plans`] for each node.
const fn node_plan_words<K: KeyWord, V: Value>() -> u32 {
    PlanWord::Plan as u32 + plan_words::<K, V>()
}

/// The most of them.
pub const MOST_NODE_PLAN_WORDS: u32 = node_plan_words::<u32, ()>();

/// New buckets that a node gets for each pair and slot, in units of 1/256, so that they are filled to 0.7.
pub const MORE: u32 = 366;

/// By how much more than evenly a rewritten node's buckets are filled, in units of 1/256: some buckets must end early.
pub const EVEN: u32 = 272;

/// A node with more operations is split, so that there is a thread for each of them.
const MOST_CHANGES: u64 = 4096;

/// Warps of a block of [`PlanNodes`] or [`WriteNodes`].
pub const CHANGE_WARPS: u32 = 4;

/// Bytes of shared memory that a warp has for what becomes of a node's pairs, and then to plan a node.
pub(super) const fn rest_bytes<K: KeyWord, V: Value>() -> u32 {
    let (fates, plan) = (Fates::bytes::<K, V>(), PlanMemory::bytes(bucket_slots::<K, V>()));
    if fates > plan { fates } else { plan }
}

/// Bytes of shared memory of a warp of theirs; who only plans has no values there.
const fn warp_bytes<K: KeyWord, V: Value>(writes: bool) -> u32 {
    let pairs = node_pairs::<K, V>();
    let staged = if writes { Staged::<K, V>::bytes(pairs) } else { pairs * K::BYTES as u32 };
    staged + rest_bytes::<K, V>()
}

/// Finds out which of the nodes must be split: any number of warps, in blocks of [`CHANGE_WARPS`].
#[derive(Debug)]
pub struct PlanNodes<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for PlanNodes<K, V> {
    type Args = NodeChangesArgs<K, V>;
    const STATIC_SHARED: u32 = CHANGE_WARPS * warp_bytes::<K, V>(false);

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the same contract.
        unsafe { change_all(simt, args, false) };
    }
}

/// Rewrites the nodes, with their changes, but those that must be split. Launched as [`PlanNodes`].
#[derive(Debug)]
pub struct WriteNodes<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for WriteNodes<K, V> {
    type Args = NodeChangesArgs<K, V>;
    const STATIC_SHARED: u32 = CHANGE_WARPS * warp_bytes::<K, V>(true);

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the same contract.
        unsafe { change_all(simt, args, true) };
    }
}

/// Warp collective (all lanes). Plans the warp's nodes, and writes them.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn change_all<S: Simt, K: KeyWord, V: Value>(simt: S, args: &NodeChangesArgs<K, V>, writes: bool) {
    // SAFETY: the caller's.
    unsafe {
        let listed = simt.load(args.listed_count, 0, Hint::ReadOnly);
        if listed > args.most_listed {
            return;
        }
        let warps = u64::from(simt.grid_dim()) * u64::from(simt.block_dim() / WARP);
        let mut index = simt.global_index() / u64::from(WARP);
        // The same for all lanes, and the compiler knows it.
        while simt.any(FULL_MASK, index < listed) {
            change(simt, args, index, writes);
            // The next node has the same shared memory.
            simt.sync_warp(FULL_MASK);
            index += warps;
        }
    }
}

/// Warp collective (all lanes). Plans a node of the list, and writes it.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn change<S: Simt, K: KeyWord, V: Value>(simt: S, args: &NodeChangesArgs<K, V>, index: u64, writes: bool) {
    let (tree, changes, lane) = (&args.tree, &args.changes, simt.lane());
    let slots = bucket_slots::<K, V>();
    let (offset, end) = (simt.warp() * warp_bytes::<K, V>(writes), (simt.warp() + 1) * warp_bytes::<K, V>(writes));
    let staged = Staged::<K, V>::at(offset, node_pairs::<K, V>(), writes);
    // What becomes of the pairs is known no more when the node is planned.
    let (fates, memory) =
        (Fates::at::<K, V>(end - rest_bytes::<K, V>()), PlanMemory::at(end - rest_bytes::<K, V>(), slots));
    // SAFETY: nodes of the tree and their operations.
    unsafe {
        let number = simt.load(args.listed, index, Hint::ReadOnly);
        if writes && is_marked(simt, args.must_split.as_const(), number) {
            return;
        }
        let from = simt.load(args.spans, 2 * index, Hint::ReadOnly);
        let to = simt.load(args.spans, 2 * index + 1, Hint::ReadOnly);
        let (rank, (first_bucket, room)) = (tree.rank_of::<S, V>(simt, number), tree.buckets_of(simt, number));
        let word = |word: PlanWord| index * u64::from(node_plan_words::<K, V>()) + word as u64;
        let noted = |at: PlanWord| simt.load(args.plans.as_const(), word(at), Hint::ReadOnly);
        // The buckets that it gets, if it gets new ones, and the first of them.
        let (mut new_room, mut new_bucket) = (0, args.new_bucket as u32);
        let len = if writes {
            new_room = noted(PlanWord::NewBuckets);
            new_bucket += noted(PlanWord::Before);
            noted(PlanWord::Len)
        } else {
            (tree.rank_of::<S, V>(simt, number + 1) - rank) as u32
        };
        let growth_before = changes.growth(simt, from);
        let new_len = u64::from(len).wrapping_add(changes.growth(simt, to)).wrapping_sub(growth_before);
        let mut is_planned = None;
        let has_slots = 0 < new_len && new_len <= u64::from(BITMAP_CHILDREN * slots);
        if has_slots && to - from <= MOST_CHANGES {
            fates.find(simt, changes, (from, to), len);
            tree.for_each_pair(simt, (first_bucket, room), len, |position, key, value: V| {
                if let Some(to) = fates.position::<S, K, V>(simt, position) {
                    staged.put(simt, to, key, writes.then_some(value));
                }
            });
            let mut at = from + u64::from(lane);
            while at < to {
                if let Some(position) = changes.position_of_own(simt, at, growth_before) {
                    let value = writes.then(|| changes.value(simt, at));
                    staged.put(simt, position as u32, changes.key(simt, at, tree.flip), value);
                }
                at += u64::from(WARP);
            }
            simt.sync_warp(FULL_MASK);
            let new_len = new_len as u32;
            // One after the other, as a plan is long: in its own buckets; then in new ones, if it gets more.
            let more = (new_len * MORE).div_ceil(slots * 256).min(BITMAP_CHILDREN);
            let mut buckets = room;
            if !writes {
                loop {
                    // Evenly over nearly all buckets; if these are too few, into full ones.
                    let even = (new_len * EVEN).div_ceil(buckets.max(1)).max(256);
                    let full = Filling::new(slots * 256);
                    let fillings = if even < slots * 256 { (Filling::new(even), Some(full)) } else { (full, None) };
                    is_planned = plan(simt, staged, new_len, fillings, buckets, memory);
                    if is_planned.is_some() || more <= buckets {
                        break;
                    }
                    (buckets, new_room) = (more, more);
                }
            }
            if writes {
                let from = (args.plans.as_const(), word(PlanWord::Plan));
                is_planned = Some(saved::<S, K, V>(simt, from));
            }
        }
        if !writes {
            let note = |at: PlanWord, value: u32| simt.store(args.plans, word(at), value, Hint::Default);
            if let Some(plan) = is_planned {
                save::<S, K, V>(simt, plan, (args.plans, word(PlanWord::Plan)));
            }
            if lane == 0 {
                let add = |word: u64, by: u32| {
                    simt.atomic_add(args.counts, word, u64::from(by), Order::Relaxed, Scope::Device)
                };
                let mut before = 0;
                if is_planned.is_none() {
                    mark(simt, args.must_split, number);
                    add(0, 1);
                } else if new_room > 0 {
                    before = add(1, new_room) as u32;
                    add(2, room);
                }
                note(PlanWord::Before, before);
                note(PlanWord::Len, len);
                note(PlanWord::NewBuckets, new_room);
            }
        } else if let Some(plan) = is_planned {
            let outputs =
                NodeOutputs { nodes: args.nodes, records: args.records, ends: args.ends, buckets: args.buckets };
            let is_new = new_room > 0;
            let (first_bucket, buckets) = if is_new { (new_bucket, new_room) } else { (first_bucket, room) };
            let position = NodePosition { number, first_bucket, rank, buckets, is_new };
            write(simt, staged, new_len as u32, plan, position, outputs, memory);
            if lane == 0 {
                note_formats(simt, args.formats, plan.quantiser.format() as u32);
            }
        }
    }
}
