//! Point look-ups of sorted queries: a warp copies the leaves that its queries span to shared memory, in whole lines,
//! and searches there.

use crate::get::{GetArgs, get_tile};
use crate::layout::{leaf_offset, leaf_values_offset};
use crate::tree::{THREADS, descend, tile_start};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Hint, Kernel, Shared, Simt, WARP, Word};

/// Lanes that descend for one bound. The groups of a warp find all bounds of its parts at once; more groups of fewer
/// lanes were not faster.
const BOUND_LANES: u32 = 4;

/// Parts of a warp's tile; there is one more bound than parts.
const PARTS: u32 = WARP / BOUND_LANES - 1;

/// Queries of a lane in a part. Twice as many had the same speed, with twice the registers.
const OWN: usize = 4;

/// Queries of a part.
const PART: u32 = OWN as u32 * WARP;

/// Queries of a warp's tile.
pub const SORTED_TILE: u32 = PARTS * PART;

/// Shared memory of a warp, in bytes: its window of leaves.
const WINDOW_BYTES: u32 = 4096;

/// The most windows that a warp processes for a part. Queries that lie further apart do not share leaves, and are
/// looked up one by one.
const WINDOWS: u32 = 4;

/// A query that was not found.
const NOWHERE: u32 = u32::MAX;

/// Looks up a batch of keys that are sorted, or nearly sorted. The results are right in any order, but queries outside
/// their part's bounds (its first query and the next part's) are slow. One warp per [`SORTED_TILE`] queries; blocks of
/// [`THREADS`]. `G`: lanes per query if they are looked up one by one.
#[derive(Debug)]
pub struct GetSorted<K, V, const F: u32, const G: u32>(PhantomData<(K, V)>);

impl<K: Word, V: Word, const F: u32, const G: u32> Kernel for GetSorted<K, V, F, G> {
    type Args = GetArgs<K, V>;
    const STATIC_SHARED: u32 = THREADS / WARP * WINDOW_BYTES;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tile = tile_start(simt, SORTED_TILE);
        if tile >= args.count {
            return;
        }
        let tree = &args.tree;
        let index = tile + u64::from(simt.lane() / BOUND_LANES) * u64::from(PART);
        let index = if index < args.count { index } else { args.count - 1 };
        // SAFETY: `index` is a query.
        let bound = unsafe { simt.load(args.queries, index, Hint::ReadOnly) }.xor(tree.flip);
        let mut leaf = 0;
        if tree.leaf_count > 0 {
            // SAFETY: the tree is valid and not empty.
            [leaf] = unsafe { descend::<S, K, true, F, BOUND_LANES, 1, false>(simt, tree, |_| None, [bound]) };
        }
        let mut part = 0;
        while part < PARTS {
            let start = tile + u64::from(part) * u64::from(PART);
            if start >= args.count {
                return;
            }
            let (before, after) = (part * BOUND_LANES, (part + 1) * BOUND_LANES);
            let span = Span {
                first: simt.shuffle(FULL_MASK, bound, before),
                last: simt.shuffle(FULL_MASK, bound, after),
                from: simt.shuffle(FULL_MASK, leaf, before),
                to: simt.shuffle(FULL_MASK, leaf, after),
            };
            // SAFETY: the same contract.
            unsafe { Self::part(simt, args, start, &span) };
            part += 1;
        }
    }
}

/// What sorted queries lie between.
struct Span<K> {
    /// The first query, and one that is not below the last.
    first: K,
    last: K,
    /// Their leaves.
    from: u32,
    to: u32,
}

impl<K: Word, V: Word, const F: u32, const G: u32> GetSorted<K, V, F, G> {
    /// Slots of a window.
    const SLOTS: u32 = WINDOW_BYTES / K::BYTES as u32;

    /// Warp collective (all lanes). Looks up the queries of the part that begins with `start`.
    ///
    /// # Safety
    /// As for the kernel; `start` is a query.
    #[inline(always)]
    unsafe fn part<S: Simt>(simt: S, args: &GetArgs<K, V>, start: u64, span: &Span<K>) {
        let tree = &args.tree;
        let at = |j: usize| start + j as u64 * u64::from(WARP) + u64::from(simt.lane());
        let own: [K; OWN] = core::array::from_fn(|j| {
            // Past the last query, the last query is repeated.
            let index = if at(j) < args.count { at(j) } else { args.count - 1 };
            // SAFETY: `index` is a query.
            unsafe { simt.load(args.queries, index, Hint::Streaming) }.xor(tree.flip)
        });
        let mut between = tree.leaf_count > 0 && span.to.wrapping_sub(span.from) < WINDOWS * Self::SLOTS / F;
        for key in own {
            between &= key >= span.first && key <= span.last;
        }
        if !simt.all(FULL_MASK, between) {
            let end = start + u64::from(PART);
            let end = if end < args.count { end } else { args.count };
            // Through a shuffle, so that the compiler does not see how few tiles there are, and does not duplicate the
            // descent for each.
            let end = simt.shuffle(FULL_MASK, end, 0);
            let mut tile = start;
            while tile < end {
                // SAFETY: the same contract; tiles are of 32.
                unsafe { get_tile::<S, K, V, true, F, G, 1, false>(simt, args, |_| None, tile) };
                tile += u64::from(WARP);
            }
            return;
        }
        // SAFETY: the tree is not empty, and the leaves are its own; a block has `THREADS` threads.
        let slots = unsafe { Self::search(simt, args, own, span) };
        let leaves = tree.leaves.byte_add(leaf_values_offset::<K, V>(F, span.from));
        // All loads come before the first store, since loads cannot be moved across it.
        let found: [V; OWN] = core::array::from_fn(|j| {
            let slot = if slots[j] == NOWHERE { 0 } else { slots[j] };
            let values = leaves.byte_add(leaf_offset::<K, V>(F, slot / F)).cast::<V>();
            // SAFETY: the slot lies inside a leaf.
            unsafe { simt.load(values, u64::from(slot % F), Hint::ReadOnly) }
        });
        for j in 0..OWN {
            let hit = slots[j] != NOWHERE && at(j) < args.count;
            if at(j) < args.count {
                let value = if hit { found[j] } else { args.miss };
                // SAFETY: a query's index.
                unsafe { simt.store(args.values, at(j), value, Hint::Streaming) };
            }
            if !args.hits.is_null() {
                let word = simt.ballot(FULL_MASK, hit);
                if simt.lane() == 0 && at(j) < args.count {
                    // SAFETY: one word per 32 queries, rounded up.
                    unsafe { simt.store(args.hits, at(j) / u64::from(WARP), word, Hint::Streaming) };
                }
            }
        }
    }

    /// Warp collective (all lanes). The slots of the lane's keys, counted from the first slot of the span's first leaf;
    /// [`NOWHERE`] for a key that is not present.
    ///
    /// # Safety
    /// The span's leaves are leaves of the tree; the block has at most [`THREADS`] threads.
    #[inline(always)]
    unsafe fn search<S: Simt>(simt: S, args: &GetArgs<K, V>, own: [K; OWN], span: &Span<K>) -> [u32; OWN] {
        let window = Shared::<K>::at(simt.warp() * WINDOW_BYTES, Self::SLOTS);
        let width = K::PER_VECTOR as u32;
        let mut slots = [NOWHERE; OWN];
        let mut leaf = span.from;
        while leaf <= span.to {
            let mut leaves = span.to - leaf + 1;
            if leaves > Self::SLOTS / F {
                leaves = Self::SLOTS / F;
            }
            let len = leaves * F;
            let mut slot = simt.lane() * width;
            while slot < len {
                let keys = args.tree.leaves.byte_add(leaf_offset::<K, V>(F, leaf + slot / F)).cast::<K>();
                // SAFETY: the slots lie inside a leaf, whose keys are aligned to 32 bytes; each lane
                // writes its own part of the window, which nobody reads before the warp has met.
                unsafe {
                    let words = simt.load_vector(keys, u64::from(slot % F), Hint::EvictFirst);
                    for (i, &word) in words.as_ref().iter().enumerate() {
                        simt.shared_store(window, slot + i as u32, word);
                    }
                }
                slot += WARP * width;
            }
            simt.sync_warp(FULL_MASK);
            // Halving, always inside the window: no branch separates the probes of one step.
            let mut below = [0_u32; OWN];
            let mut left = len;
            while left > 1 {
                let half = left / 2;
                // SAFETY: the slots were written before the warp met.
                let probes: [K; OWN] =
                    core::array::from_fn(|j| unsafe { simt.shared_load(window, below[j] + half - 1) });
                for j in 0..OWN {
                    below[j] += if probes[j] < own[j] { half } else { 0 };
                }
                left -= half;
            }
            // The halving leaves one slot, or the one after it.
            // SAFETY: as above.
            let probes: [K; OWN] = core::array::from_fn(|j| unsafe { simt.shared_load(window, below[j]) });
            for j in 0..OWN {
                below[j] += u32::from(probes[j] < own[j] && below[j] + 1 < len);
            }
            // SAFETY: as above.
            let probes: [K; OWN] = core::array::from_fn(|j| unsafe { simt.shared_load(window, below[j]) });
            for j in 0..OWN {
                if probes[j] == own[j] {
                    slots[j] = (leaf - span.from) * F + below[j];
                }
            }
            simt.sync_warp(FULL_MASK);
            leaf += leaves;
        }
        slots
    }
}
