//! What windows are asked: ranks, neighbours, the bounds of ranges, and scans.

use super::window::{Asked, Windowed, upto};
use super::{BesideWindows, InWindows, InWindowsArgs, MOST_HALF};
use crate::queries::{Staged, store_hits};
use crate::range::{Slot, locate_row, store_count};
use crate::scan::scan_row;
use crate::search::TreeRef;
use crate::values;
use lanetree_layout::Value;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, KeyWord, LocateBatch, Near, NearArrays, NeighborBatch, RankBatch, ScanBatch,
    Simt, Verdict, WARP,
};

/// Arguments of [`RankSorted`].
pub type RankSortedArgs<K> = InWindowsArgs<TreeRef<K>, RankBatch<K>>;
/// Ranks sorted keys.
pub type RankSorted<K, V> = InWindows<K, V, RankBatch<K>>;
/// Answers those of [`RankSorted`] that it has left.
pub type RankBesideWindows<K, V> = BesideWindows<K, V, RankBatch<K>>;

/// Arguments of [`NeighborSorted`].
pub type NeighborSortedArgs<K, V> = InWindowsArgs<TreeRef<K>, NeighborBatch<K, V>>;
/// Finds the predecessors or successors of sorted keys, or the nearer ones of both.
pub type NeighborSorted<K, V> = InWindows<K, V, NeighborBatch<K, V>>;
/// Answers those of [`NeighborSorted`] that it has left.
pub type NeighborBesideWindows<K, V> = BesideWindows<K, V, NeighborBatch<K, V>>;

/// Arguments of [`LocateSorted`].
pub type LocateSortedArgs<K> = InWindowsArgs<TreeRef<K>, LocateBatch<K>>;
/// Locates ranges from sorted keys on.
pub type LocateSorted<K, V> = InWindows<K, V, LocateBatch<K>>;
/// Answers those of [`LocateSorted`] that it has left.
pub type LocateBesideWindows<K, V> = BesideWindows<K, V, LocateBatch<K>>;

/// Arguments of [`ScanSorted`].
pub type ScanSortedArgs<K, V> = InWindowsArgs<TreeRef<K>, ScanBatch<K, V>>;
/// Makes scans from sorted keys on.
pub type ScanSorted<K, V> = InWindows<K, V, ScanBatch<K, V>>;
/// Answers those of [`ScanSorted`] that it has left.
pub type ScanBesideWindows<K, V> = BesideWindows<K, V, ScanBatch<K, V>>;

/// Per thread. The value of a pair.
///
/// # Safety
/// The pair is there.
#[inline(always)]
pub(super) unsafe fn value_at<S: Simt, K: KeyWord, V: Value>(
    simt: S,
    tree: &TreeRef<K>,
    position: Slot,
    value: V,
) -> V {
    // SAFETY: the caller's.
    unsafe { tree.value(simt, position.bucket, position.slot, value) }
}

impl<K: KeyWord, V: Value> Windowed<K, V> for RankBatch<K> {
    type Payload = ();

    #[inline(always)]
    fn count(&self) -> u64 {
        self.count
    }

    #[inline(always)]
    fn queries(&self) -> Global<K> {
        self.queries
    }

    #[inline(always)]
    fn bound(&self, word: K) -> K {
        word.wrapping_add(K::truncate(u64::from(self.upper != 0)))
    }

    #[inline(always)]
    unsafe fn payload<S: Simt>(_: S, _: &TreeRef<K>, _: Slot, _: V) {}

    #[inline(always)]
    unsafe fn answer<S: Simt>(&self, simt: S, _: &TreeRef<K>, asked: Asked<K, V, Self>) -> bool {
        if asked.is_query {
            let rank = asked.window.rank(simt) + u64::from(asked.below);
            // SAFETY: an output for each query.
            unsafe { simt.store(self.ranks.skip(asked.first), asked.own.into(), rank, Hint::Streaming) };
        }
        true
    }

    #[inline(always)]
    fn numbers(&self) -> GlobalMut<u64> {
        self.ranks
    }

    #[inline(always)]
    unsafe fn descend<S: Simt>(&self, simt: S, tree: &TreeRef<K>, (at, word): (u64, K)) {
        // SAFETY: the tree has pairs; an output for each query.
        unsafe {
            let start = tree.start(simt, tree.in_memory(), word);
            let rank = tree.find::<S, V>(simt, start, word, (self.upper != 0, true), |_| ()).rank;
            if at < self.count {
                simt.store(self.ranks, at, rank, Hint::Streaming);
            }
        }
    }
}

/// A key that is as good a mark as any other.
#[inline(always)]
fn mark_of<K: KeyWord>() -> K {
    K::from_parts([0x5c3f_91a6_e7d2_084b; 2])
}

/// Warp collective (all lanes). Writes a query's neighbour, if it counts by a rule.
///
/// # Safety
/// As [`Windowed::answer`].
#[inline(always)]
unsafe fn settle<S: Simt, K: KeyWord, V: Value>(
    simt: S,
    (batch, near): (&NeighborBatch<K, V>, &Near<K>),
    flip: K,
    (at, word): (u64, K),
    neighbor: Option<(K, V)>,
) {
    let mut is_hit = false;
    // SAFETY: an output for each query.
    unsafe {
        if at < batch.count {
            let arrays = NearArrays { queries: batch.queries, keys: batch.keys, hits: batch.hits };
            let verdict = near.judge_word(simt, (at, word), flip, arrays, neighbor.map(|pair| pair.0));
            // Marks are looked for among keys, so a key is written if there is no neighbour, too.
            let (key, value) = match verdict {
                Verdict::Found => neighbor.unwrap_or((word, batch.miss)),
                _ => (word, batch.miss),
            };
            if verdict != Verdict::Kept {
                simt.store(batch.keys, at, key.xor(flip), Hint::Streaming);
                values::store(simt, batch.values, at, value, Hint::Streaming);
            }
            is_hit = verdict.is_hit();
        }
        store_hits(simt, batch.hits, at, is_hit, batch.count);
    }
}

impl<K: KeyWord, V: Value> Windowed<K, V> for NeighborBatch<K, V> {
    type Payload = V;
    const SCRATCH: u32 = (K::BYTES + V::BYTES) as u32;

    #[inline(always)]
    fn count(&self) -> u64 {
        self.count
    }

    #[inline(always)]
    fn queries(&self) -> Global<K> {
        self.queries
    }

    #[inline(always)]
    fn bound(&self, word: K) -> K {
        // The pair below is before it, and the one above is after it, if need be after keys that equal a strict query.
        let is_before = self.near.is_of_both() || self.predecessor != 0;
        word.wrapping_add(K::truncate(u64::from(is_before != self.near.is_strict())))
    }

    #[inline(always)]
    unsafe fn payload<S: Simt>(simt: S, tree: &TreeRef<K>, position: Slot, value: V) -> V {
        // SAFETY: the caller's.
        unsafe { value_at(simt, tree, position, value) }
    }

    #[inline(always)]
    unsafe fn answer<S: Simt>(&self, simt: S, tree: &TreeRef<K>, asked: Asked<K, V, Self>) -> bool {
        let Asked { window, first, own, is_query, word, below, around: (before, after), .. } = asked;
        // What a search on the other side has found is not looked at: such a batch has no windows.
        let near = &self.near;
        // Which key, which pair, and whether there is one: the first of all has no predecessor, and the last no successor.
        let (mut key, mut chosen, mut is_hit);
        // SAFETY: pairs of the window; an output for each query.
        unsafe {
            if near.is_of_both() {
                let is_equal = near.is_strict() && after == word && below < window.len(simt);
                let above = below + u32::from(is_equal);
                // That one is in the window, unless the next one would be the first after it.
                if !simt.all(FULL_MASK, above < window.limit(simt)) {
                    return false;
                }
                (key, chosen) = (window.key(simt, above), above);
                is_hit = above < window.len(simt) && near.is_near(word, key);
                let has_below = below > 0 && near.is_near(word, before);
                if has_below && (!is_hit || near.keeps(word, before, key)) {
                    (key, chosen, is_hit) = (before, below - 1, true);
                }
            } else {
                let is_before = self.predecessor != 0;
                (key, chosen) = if is_before { (before, below.wrapping_sub(1)) } else { (after, below) };
                is_hit = if is_before { below > 0 } else { below < window.len(simt) };
                if near.is_on() {
                    is_hit &= near.is_near(word, key);
                }
            }
            if is_query {
                // Marks are looked for among keys, so a key is written if there is no neighbour, too.
                let key = if is_hit { key } else { word };
                simt.store(self.keys.skip(first), own.into(), key.xor(tree.flip), Hint::Streaming);
                if V::IS_SOME {
                    let value = if is_hit { window.payload(simt, chosen) } else { self.miss };
                    values::store(simt, self.values.skip(first), own.into(), value, Hint::Streaming);
                }
            }
            if !self.hits.is_null() {
                let hits = simt.ballot(FULL_MASK, is_hit && is_query);
                if simt.lane() == 0 {
                    let at = u64::from(own / WARP);
                    simt.store(self.hits.skip(first / u64::from(WARP)), at, hits, Hint::Streaming);
                }
            }
        }
        true
    }

    #[inline(always)]
    unsafe fn mark<S: Simt>(&self, simt: S, at: u64) {
        if simt.lane() == 0 {
            // SAFETY: the caller's.
            unsafe { simt.store(self.keys, at, mark_of(), Hint::Default) };
        }
    }

    #[inline(always)]
    unsafe fn is_marked<S: Simt>(&self, simt: S, at: u64) -> bool {
        // SAFETY: the caller's.
        unsafe { simt.load(self.keys.as_const(), at, Hint::Default) == mark_of() }
    }

    #[inline(always)]
    unsafe fn descend<S: Simt>(&self, simt: S, tree: &TreeRef<K>, (at, word): (u64, K)) {
        let found = Staged::<K, V>::at(simt.warp() * WARP * (K::BYTES + V::BYTES) as u32);
        let mut predecessor = self.predecessor != 0 || self.near.is_of_both();
        // SAFETY: the tree has pairs; an output for each query.
        unsafe {
            // One loop, as the code of a descent is long. The second one keeps what the first has written if that is nearer.
            loop {
                let neighbor = {
                    let sought = self.near.sought(word, predecessor);
                    tree.neighbor(simt, tree.in_memory(), sought, predecessor, found)
                };
                let second = if self.near.is_of_both() && !predecessor { Near::<K>::SECOND } else { 0 };
                let near = Near { flags: self.near.flags & !Near::<K>::BOTH | second, ..self.near };
                settle(simt, (self, &near), tree.flip, (at, word), neighbor);
                if simt.opaque(u32::from(predecessor && self.near.is_of_both())) == 0 {
                    return;
                }
                // What a lane has written, others read.
                simt.sync_warp(FULL_MASK);
                predecessor = false;
            }
        }
    }
}

impl<K: KeyWord, V: Value> Windowed<K, V> for ScanBatch<K, V> {
    type Payload = V;

    #[inline(always)]
    fn count(&self) -> u64 {
        self.count
    }

    #[inline(always)]
    fn queries(&self) -> Global<K> {
        self.starts
    }

    #[inline(always)]
    unsafe fn payload<S: Simt>(simt: S, tree: &TreeRef<K>, position: Slot, value: V) -> V {
        // SAFETY: the caller's.
        unsafe { value_at(simt, tree, position, value) }
    }

    #[inline(always)]
    unsafe fn answer<S: Simt>(&self, simt: S, tree: &TreeRef<K>, asked: Asked<K, V, Self>) -> bool {
        let Asked { window, first, own, is_query, below, .. } = asked;
        // It is not 0, which the compiler does not know.
        let limit = (self.limit as u32).max(1);
        // SAFETY: pairs of the window; positions of the outputs.
        unsafe {
            let left = window.len(simt) - below;
            if simt.any(FULL_MASK, left < limit) && !window.has_last(simt) {
                return false;
            }
            if is_query {
                simt.store(self.counts.skip(first), own.into(), left.min(limit), Hint::Streaming);
            }
            // All positions of the warp's scans, one after another, so that lanes write side by side.
            let first = first + u64::from(own - simt.lane());
            let (mut scan, mut pair) = (simt.lane() / limit, simt.lane() % limit);
            let (scans, pairs) = (WARP / limit, WARP % limit);
            let mut round = 0;
            while round < limit {
                let from = simt.shuffle(FULL_MASK, below, scan) + pair;
                if first + u64::from(scan) < self.count && from < window.len(simt) {
                    let to = first * self.limit + u64::from(round * WARP + simt.lane());
                    simt.store(self.keys, to, window.key(simt, from).xor(tree.flip), Hint::Streaming);
                    values::store(simt, self.values, to, window.payload(simt, from), Hint::Streaming);
                }
                (scan, pair) = (scan + scans, pair + pairs);
                if pair >= limit {
                    (scan, pair) = (scan + 1, pair - limit);
                }
                round += 1;
            }
        }
        true
    }

    #[inline(always)]
    unsafe fn mark<S: Simt>(&self, simt: S, at: u64) {
        if simt.lane() == 0 {
            // SAFETY: the caller's.
            unsafe { simt.store(self.counts, at, u32::MAX, Hint::Default) };
        }
    }

    #[inline(always)]
    unsafe fn is_marked<S: Simt>(&self, simt: S, at: u64) -> bool {
        // SAFETY: the caller's.
        unsafe { simt.load(self.counts.as_const(), at, Hint::Default) == u32::MAX }
    }

    #[inline(always)]
    unsafe fn descend<S: Simt>(&self, simt: S, tree: &TreeRef<K>, query: (u64, K)) {
        // SAFETY: the caller's.
        unsafe { scan_row(simt, (tree, tree.in_memory()), self, query) };
    }
}

impl<K: KeyWord, V: Value> Windowed<K, V> for LocateBatch<K> {
    /// The pair's cursor.
    type Payload = u64;
    const LOCATES: bool = true;

    #[inline(always)]
    fn count(&self) -> u64 {
        self.count
    }

    #[inline(always)]
    fn queries(&self) -> Global<K> {
        self.starts
    }

    #[inline(always)]
    fn ends(&self) -> Global<K> {
        self.ends
    }

    #[inline(always)]
    unsafe fn payload<S: Simt>(_: S, _: &TreeRef<K>, position: Slot, _: V) -> u64 {
        position.cursor()
    }

    #[inline(always)]
    unsafe fn answer<S: Simt>(&self, simt: S, _: &TreeRef<K>, asked: Asked<K, V, Self>) -> bool {
        let Asked { window, first, own, is_query, word, end, below, .. } = asked;
        // SAFETY: pairs of the window; positions of the outputs.
        unsafe {
            let bound = upto(end);
            // Ranges are mostly short.
            let mut after = window.advance(simt, below, bound, MOST_HALF);
            // Where a range ends before it begins does not matter.
            let is_at_end = |after| end < word || window.is_in(simt, after, window.around(simt, after), bound);
            if !simt.all(FULL_MASK, is_at_end(after)) {
                after = window.below(simt, bound);
                // No key is above the last one of all.
                let is_all = end == K::MAX && window.has_last(simt);
                after = if is_all { window.len(simt) } else { after };
                if !simt.all(FULL_MASK, is_all || is_at_end(after)) {
                    return false;
                }
            }
            let pairs = if end < word { 0 } else { after - below };
            if is_query {
                let at = first + u64::from(own);
                if !self.cursors.is_null() {
                    let cursor = match below < window.len(simt) {
                        true => window.payload(simt, below),
                        // The slot after the last pair.
                        false => window.payload(simt, window.len(simt) - 1) + (1 << 32),
                    };
                    simt.store(self.cursors, at, cursor, Hint::Default);
                }
                store_count(simt, self, at, pairs.into());
            }
        }
        true
    }

    #[inline(always)]
    fn numbers(&self) -> GlobalMut<u64> {
        self.counts
    }

    #[inline(always)]
    unsafe fn descend<S: Simt>(&self, simt: S, tree: &TreeRef<K>, query: (u64, K)) {
        // SAFETY: the caller's.
        unsafe { locate_row::<S, K, V>(simt, (tree, tree.in_memory()), self, query) };
    }
}
