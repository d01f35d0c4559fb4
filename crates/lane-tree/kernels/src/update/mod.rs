//! Batches of changes.
//!
//! The operations are sorted, and find their buckets ([`Search`]). Buckets that have room for theirs are to be changed alone
//! ([`PlanBuckets`], [`WriteBuckets`]), others shift pairs to the next or previous bucket ([`PlanShifts`],
//! [`WriteShifts`]). Where that does not go, a node is to be rewritten in its own buckets or, if these are too few, in new ones
//! ([`PlanNodes`], [`WriteNodes`]); if a node takes no more, its pairs are split into new nodes with new buckets, as in a
//! build ([`SizeSplit`], [`MovePairs`], [`AssignParts`]), and the other nodes move aside ([`Relocate`]). Buckets
//! never move; where very many nodes would be split, the tree is rebuilt in one pass ([`Starts`], [`Spans`], [`Rebuild`]).
//!
//! All is planned while the tree is only read, so that nothing is half done if there is no memory.

mod bucket;
mod buckets;
mod fates;
mod nodes;
mod rebuild;
mod relocate;
mod search;
mod split;

pub use buckets::{BUCKET_THREADS, BucketChangesArgs, PlanBuckets, PlanShifts, WriteBuckets, WriteShifts};
pub use nodes::{
    CHANGE_WARPS, EVEN, ListNodes, ListNodesArgs, MORE, MOST_NODE_PLAN_WORDS, NodeChangesArgs, PlanNodes, WriteNodes,
};
pub use rebuild::{
    AssignOthers, AssignOthersArgs, OtherParts, REBUILD_WARPS, REBUILT_WORDS, Rebuild, RebuildArgs, SizeOthers,
    SizeOthersArgs, Spans, Starts, StartsArgs, rebuild_pairs,
};
pub use relocate::{Ends, EndsArgs, Ranks, RanksArgs, Relocate, RelocateArgs};
pub use search::{SEARCH_THREADS, Search, SearchArgs};
pub use split::{
    AssignParts, AssignPartsArgs, ListSplit, ListSplitArgs, MOVE_WARPS, MovePairs, MovePairsArgs, SizeSplit,
    SizeSplitArgs, move_warps,
};

use crate::layout::{
    BUCKET_WORDS, MOST_CHUNK_SLOTS, Record, chunk_at, chunk_slots, has_values_beside, pairs_of, record_at, value_at,
};
use crate::search::TreeRef;
use crate::values;
use lanetree_layout::Value;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, KeyWord, Order, Scope, Shared, Simt, WARP, kernel_args, unroll,
};

/// What an operation does to its node.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Effect {
    /// Nothing.
    None = 0,
    /// A new pair.
    Insert = 1,
    /// A new value.
    Replace = 2,
    /// One pair fewer.
    Remove = 3,
}

impl Effect {
    #[inline(always)]
    fn from_word(word: u32) -> Self {
        match word {
            0 => Self::None,
            1 => Self::Insert,
            2 => Self::Replace,
            _ => Self::Remove,
        }
    }
}

/// Where an operation has an effect, and which, in a word.
#[derive(Clone, Copy)]
struct Located(u32);

impl Located {
    /// After `before` pairs of its node, in a bucket of the node that has `len` pairs, and perhaps the node's last ones.
    /// `is_reached` says whether look-ups come to this bucket; they do not ask how far a key is from others.
    #[inline(always)]
    fn new(effect: Effect, before: u32, (bucket, len, is_last): (u32, u32, bool), is_reached: bool) -> Self {
        let flags = u32::from(is_reached) | u32::from(is_last) << 1;
        Self(before | bucket << 11 | (len.wrapping_sub(1) % 16) << 17 | flags << 21 | (effect as u32) << 30)
    }

    /// The pairs of the node before it.
    #[inline(always)]
    fn before(self) -> u32 {
        self.0 & 0x7ff
    }

    /// Its bucket in the node.
    #[inline(always)]
    fn bucket(self) -> u32 {
        self.0 >> 11 & 63
    }

    /// The pairs of that.
    #[inline(always)]
    fn len(self) -> u32 {
        (self.0 >> 17 & 15) + 1
    }

    /// Whether look-ups come to that bucket.
    #[inline(always)]
    fn is_reached(self) -> bool {
        self.0 >> 21 & 1 != 0
    }

    /// Whether the bucket has the node's last pairs.
    #[inline(always)]
    fn is_last(self) -> bool {
        self.0 >> 22 & 1 != 0
    }

    #[inline(always)]
    fn effect(self) -> Effect {
        Effect::from_word(self.0 >> 30)
    }
}

/// Per thread. The first operation from `from` to `to` for which something does not hold that holds for all before it.
#[inline(always)]
fn first_not(from: u64, to: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut base, mut left) = (from, to - from);
    while left > 0 {
        let half = left / 2;
        (base, left) = if holds(base + half) { (base + half + 1, left - half - 1) } else { (base, half) };
    }
    base
}

/// Per thread. The first operation of a node or of a later one; `nodes` has the node of each operation.
///
/// # Safety
/// There are `count` nodes, in ascending order.
#[inline(always)]
unsafe fn first_of_node<S: Simt>(simt: S, nodes: Global<u32>, count: u64, node: u32) -> u64 {
    // SAFETY: an operation.
    first_not(0, count, |at| unsafe { simt.load(nodes, at, Hint::ReadOnly) } < node)
}

/// Lanes that search together.
const SEARCHERS: u32 = WARP / 2;

/// Of a search of which lane `i` of [`SEARCHERS`] has looked at element `(i + 1) * step - 1`, if there is one, and the first `held` lanes
/// found that something holds there: how many elements it holds for at least, and how many after these are left.
#[inline(always)]
const fn narrowed(left: u64, step: u64, held: u32) -> (u64, u64) {
    let before = held as u64 * step;
    let rest = left - before;
    // Past the last lane's element, or to before that of the first lane for which it doesn't hold.
    (before, if held == SEARCHERS || rest < step { rest } else { step - 1 })
}

/// Warp collective (all lanes, for the same elements). How many of `count` elements something holds for, which holds for all elements
/// before the first for which it does not. It is given the half of the warp and an element: each half searches for its own.
#[inline(always)]
fn held_by_halves<S: Simt>(simt: S, count: u64, holds: impl Fn(u32, u64) -> bool) -> (u64, u64) {
    let (half, lane) = (simt.lane() / SEARCHERS, simt.lane() % SEARCHERS);
    let (mut base, mut left) = (0, count);
    // The same for all lanes, and the compiler knows it.
    while simt.any(FULL_MASK, left > 0) {
        // One half may be done before the other.
        let step = left.div_ceil(u64::from(SEARCHERS) + 1).max(1);
        let at = (u64::from(lane) + 1) * step - 1;
        let own_holds = at < left && holds(half, base + at);
        let held = simt.ballot(FULL_MASK, simt.opaque(u32::from(own_holds)) != 0) >> (half * SEARCHERS);
        let before;
        (before, left) = narrowed(left, step, (held & ((1 << SEARCHERS) - 1)).count_ones());
        base += before;
    }
    (simt.shuffle(FULL_MASK, base, 0), simt.shuffle(FULL_MASK, base, SEARCHERS))
}

/// Elements that a block appends to a list, and the list's before them.
const APPENDED: Shared<u32> = Shared::at(0, 2);

/// Bytes of shared memory of [`append`].
const APPEND_BYTES: u32 = APPENDED.end();

/// Block collective. The position of the thread's element in a list, if it has one; the elements come in any order. Callers branch by
/// the result only: if they branched again by what they pass, the compiler would put all of this, barriers too, on both sides of the
/// branch, and a warp whose lanes part would wait for itself.
///
/// # Safety
/// The list has room for every thread that calls; the block has shared memory for it, which nothing else uses.
#[inline(always)]
unsafe fn append<S: Simt>(simt: S, has_one: bool, count: GlobalMut<u64>) -> Option<u64> {
    // SAFETY: the caller's.
    unsafe {
        let has_one = simt.opaque(u32::from(has_one)) != 0;
        let own = simt.opaque(simt.ballot(FULL_MASK, has_one));
        if simt.thread_index() == 0 {
            simt.shared_store(APPENDED, 0, 0);
        }
        simt.barrier();
        let mut base = 0;
        if simt.lane() == 0 {
            base = simt.shared_atomic_add(APPENDED, 0, own.count_ones());
        }
        simt.barrier();
        // One sum for a block: sums at one address are slow.
        if simt.thread_index() == 0 {
            let of_block = u64::from(simt.shared_load(APPENDED, 0));
            let before = match of_block {
                0 => 0,
                _ => simt.atomic_add(count, 0, of_block, Order::Relaxed, Scope::Device),
            };
            simt.shared_store(APPENDED, 1, before as u32);
        }
        simt.barrier();
        let before = simt.shared_load(APPENDED, 1) + simt.shuffle(FULL_MASK, base, 0);
        let to = u64::from(before + (own & simt.lanes_below()).count_ones());
        (own >> simt.lane() & 1 != 0).then_some(to)
    }
}

/// A removal in [`SearchArgs::counts`]; an insert is 1.
const ONE_REMOVED: u64 = 1 << 32;

kernel_args! {
    /// A sorted batch whose operations have found their nodes, and the nodes that they touch.
    pub struct Changes<K, V> {
        /// The operations' keys, sorted, in the caller's form: `[count]`.
        pub keys: Global<K>,
        /// The index in the batch of each.
        pub order: Global<u32>,
        /// The batch's values, in its order.
        pub values: Global<V>,
        /// Nodes, from [`Search`].
        pub nodes: Global<u32>,
        /// Positions, from [`Search`].
        pub located: Global<u32>,
        /// Buckets, from [`Search`].
        pub buckets: Global<u32>,
        /// Sums of [`SearchArgs::counts`] before each operation, and the total: `[count + 1]`.
        pub before: Global<u64>,
        /// How many operations.
        pub count: u64,
    }
}

impl<K: KeyWord, V: Value> Changes<K, V> {
    /// Per thread. The new pairs less the removed ones of all operations before one, wrapping.
    ///
    /// # Safety
    /// An operation, or the end.
    #[inline(always)]
    unsafe fn growth<S: Simt>(&self, simt: S, at: u64) -> u64 {
        // SAFETY: the caller's.
        let counts = unsafe { simt.load(self.before, at, Hint::ReadOnly) };
        (counts & (ONE_REMOVED - 1)).wrapping_sub(counts >> 32)
    }

    /// Per thread. The first operation of a node, or of those after it.
    ///
    /// # Safety
    /// The operations are sorted.
    #[inline(always)]
    unsafe fn of_node<S: Simt>(&self, simt: S, node: u32) -> u64 {
        // SAFETY: the nodes of the operations.
        unsafe { first_of_node(simt, self.nodes, self.count, node) }
    }

    /// Warp collective (all lanes, for the same node). The first operation of a node, or of those after it, and the one after its last: half
    /// a warp searches for each.
    ///
    /// # Safety
    /// The operations are sorted.
    #[inline(always)]
    unsafe fn span_by_warp<S: Simt>(&self, simt: S, node: u32) -> (u64, u64) {
        // SAFETY: an operation.
        held_by_halves(simt, self.count, |half, at| unsafe { self.node(simt, at) } < node + half)
    }

    /// Per thread. The operation after the last one of the node of an operation, which is likely to be near.
    ///
    /// # Safety
    /// The operations are sorted, and this is one of them.
    #[inline(always)]
    unsafe fn end_of_node<S: Simt>(&self, simt: S, at: u64) -> u64 {
        // SAFETY: operations.
        unsafe {
            let node = self.node(simt, at);
            let is_own = |at: u64| self.node(simt, at) == node;
            let (mut from, mut step) = (at + 1, 8);
            while from + step < self.count && is_own(from + step) {
                (from, step) = (from + step + 1, 4 * step);
            }
            first_not(from, (from + step).min(self.count), is_own)
        }
    }

    /// Per thread. The position of a node's pair after the batch, by a search among the node's operations, from `from` to `to`; none if one of
    /// them removes the pair or gives it a value. `growth_before` is that before these operations.
    ///
    /// # Safety
    /// The operations are the pair's node's.
    #[inline(always)]
    unsafe fn moved<S: Simt>(
        &self,
        simt: S,
        (pair, key): (u32, K),
        flip: K,
        (from, to): (u64, u64),
        growth_before: u64,
    ) -> Option<u32> {
        // SAFETY: operations.
        unsafe {
            let after = first_not(from, to, |at| self.key(simt, at, flip) <= key);
            if after > from && self.key(simt, after - 1, flip) == key {
                let effect = self.located(simt, after - 1).effect();
                if matches!(effect, Effect::Replace | Effect::Remove) {
                    return None;
                }
            }
            Some(pair.wrapping_add(self.growth(simt, after).wrapping_sub(growth_before) as u32))
        }
    }

    /// Per thread. The ordered word of an operation's key.
    ///
    /// # Safety
    /// There is such an operation.
    #[inline(always)]
    unsafe fn key<S: Simt>(&self, simt: S, at: u64, flip: K) -> K {
        // SAFETY: the caller's.
        unsafe { simt.load(self.keys, at, Hint::ReadOnly) }.xor(flip)
    }

    /// Per thread. Where an operation has an effect.
    ///
    /// # Safety
    /// There is such an operation.
    #[inline(always)]
    unsafe fn located<S: Simt>(&self, simt: S, at: u64) -> Located {
        // SAFETY: the caller's.
        Located(unsafe { simt.load(self.located, at, Hint::ReadOnly) })
    }

    /// Per thread. The node of an operation.
    ///
    /// # Safety
    /// There is such an operation.
    #[inline(always)]
    unsafe fn node<S: Simt>(&self, simt: S, at: u64) -> u32 {
        // SAFETY: the caller's.
        unsafe { simt.load(self.nodes, at, Hint::ReadOnly) }
    }

    /// Per thread. The value that an operation brings.
    ///
    /// # Safety
    /// There is such an operation.
    #[inline(always)]
    unsafe fn value<S: Simt>(&self, simt: S, at: u64) -> V {
        if !V::IS_SOME {
            return V::default();
        }
        // SAFETY: the order holds indices of the batch.
        unsafe {
            let index = u64::from(simt.load(self.order, at, Hint::ReadOnly));
            values::load(simt, self.values, index, Hint::ReadOnly)
        }
    }
}

impl<K: KeyWord> TreeRef<K> {
    /// Per thread. The first bucket of a node of the lowest level, and how many it has.
    ///
    /// # Safety
    /// There is such a node.
    #[inline(always)]
    unsafe fn buckets_of<S: Simt>(&self, simt: S, number: u32) -> (u32, u32) {
        // SAFETY: nodes.
        unsafe {
            let first = self.first_bucket(simt, number);
            (first, self.end_bucket(simt, number) - first)
        }
    }

    /// Per thread. The rank of a node of the lowest level, or of the end.
    ///
    /// # Safety
    /// There is such a node.
    #[inline(always)]
    unsafe fn rank_of<S: Simt, V: Value>(&self, simt: S, number: u32) -> u64 {
        if number == self.leaf_nodes {
            return self.len;
        }
        let at = record_at::<K, V>(number) + u64::from(Record::<K>::RANK_WORD);
        // SAFETY: a word of the record.
        let word = unsafe { simt.load(self.records, at, Hint::Default) };
        if K::BITS == 32 { word >> 32 } else { word }
    }

    /// Warp collective (all lanes). Calls `each` with the position and the pair of every pair of a node, each in one lane.
    ///
    /// # Safety
    /// The node exists, and has `len` pairs.
    #[inline(always)]
    unsafe fn for_each_pair<S: Simt, V: Value>(
        &self,
        simt: S,
        (first, buckets): (u32, u32),
        len: u32,
        mut each: impl FnMut(u32, K, V),
    ) {
        let slots = chunk_slots::<K, V>();
        let (mut round, mut at) = (0, 0);
        let mut before = K::MIN;
        let chunks = buckets * (BUCKET_WORDS / 2);
        while at < len && round < chunks {
            // Their loads overlap.
            const TOGETHER: usize = 4;
            let mut words = [[0; 2]; TOGETHER];
            unroll!(TOGETHER, i => {
                let own = round + i as u32 * WARP + simt.lane();
                if own < chunks {
                    let from = u64::from(first) * u64::from(BUCKET_WORDS / 2) + u64::from(own);
                    // Coherent, as the kernel that calls may write the buckets afterwards.
                    // SAFETY: a bucket of the node.
                    words[i] = unsafe { simt.load_vector(self.buckets, chunk_at::<K, V>(from), Hint::Default) };
                }
            });
            unroll!(TOGETHER, i => {
                let own = round + i as u32 * WARP + simt.lane();
                let is_own = own < chunks;
                let pairs = pairs_of::<K, V>(words[i]);
                let last = pairs[MOST_CHUNK_SLOTS - 1].0;
                let left = simt.shuffle_up(FULL_MASK, last, 1);
                let left = if simt.lane() == 0 { before } else { left };
                // Free slots repeat what is before them.
                let is_first = own == 0;
                let mut new = [false; MOST_CHUNK_SLOTS];
                let (mut position, mut count) = (at, 0);
                unroll!(MOST_CHUNK_SLOTS, slot => {
                    if (slot as u32) < slots {
                        let before = if slot == 0 { left } else { pairs[slot.saturating_sub(1)].0 };
                        new[slot] = is_own && (slot == 0 && is_first || pairs[slot].0 > before);
                        let mask = simt.ballot(FULL_MASK, new[slot]);
                        position += (mask & simt.lanes_below()).count_ones();
                        count += mask.count_ones();
                    }
                });
                unroll!(MOST_CHUNK_SLOTS, slot => {
                    if (slot as u32) < slots && simt.opaque(u32::from(new[slot])) != 0 {
                        let (bucket, in_bucket) = (first + own / (BUCKET_WORDS / 2), own % (BUCKET_WORDS / 2));
                        let mut value = pairs[slot].1;
                        if has_values_beside::<K, V>() {
                            let at = value_at::<K, V>(bucket, in_bucket);
                            // SAFETY: a slot of the node; the only one of its chunk.
                            value = unsafe { values::load(simt, self.buckets.cast::<V>(), at, Hint::Default) };
                        }
                        each(position, pairs[slot].0, value);
                    }
                    position += u32::from(new[slot]);
                });
                at += count;
                before = simt.shuffle(FULL_MASK, last, WARP - 1);
            });
            round += TOGETHER as u32 * WARP;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_warp_finds_where_something_ends_to_hold() {
        for count in (0..200_u64).chain([288, 289, 290, 1023, 1024, 4912, 4913, 4914, 35_937]) {
            let all = 0..=count;
            for holds_for in all.step_by(count as usize / 200 + 1).chain([count]) {
                let (mut base, mut left) = (0, count);
                while left > 0 {
                    let step = left.div_ceil(u64::from(SEARCHERS) + 1);
                    let elements = (1..=u64::from(SEARCHERS)).map(|lane| lane * step - 1).filter(|&at| at < left);
                    let held = elements.filter(|at| base + at < holds_for).count() as u32;
                    let (before, after) = narrowed(left, step, held);
                    (base, left) = (base + before, after);
                }
                assert_eq!(base, holds_for, "of {count}");
            }
        }
    }
}
