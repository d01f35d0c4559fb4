//! What windows are asked: ranks, neighbours, the bounds of ranges, and scans.

use super::window::{Asked, Bound, Place, Windowed};
use super::{BesideWindows, InWindows, InWindowsArgs, MOST_HALF};
use crate::queries::{Staged, store_hits};
use crate::range::{Slot, locate_row, store_count};
use crate::scan::scan_row;
use crate::search::TreeRef;
use crate::values;
use lanetree_layout::Value;
use lanetree_simt::{
    FULL_MASK, Global, Hint, KeyWord, LocateBatch, Near, NearArrays, NeighborBatch, RankBatch, ScanBatch, Simt,
    Verdict, WARP,
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
unsafe fn value_at<S: Simt, K: KeyWord, V: Value>(simt: S, tree: &TreeRef<K>, place: Place, value: V) -> V {
    // SAFETY: the caller's.
    unsafe { tree.value(simt, place.line, place.slot, value) }
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
    fn bound(&self, word: K) -> Bound<K> {
        if self.upper != 0 { Bound::upto(word) } else { Bound::below(word) }
    }

    #[inline(always)]
    unsafe fn payload<S: Simt>(_: S, _: &TreeRef<K>, _: Place, _: V) {}

    #[inline(always)]
    unsafe fn answer<S: Simt>(&self, simt: S, _: &TreeRef<K>, asked: Asked<K, V, Self>) -> bool {
        if asked.at < self.count {
            let rank = asked.window.rank(simt) + u64::from(asked.below);
            // SAFETY: an output for each query.
            unsafe { simt.store(self.ranks, asked.at, rank, Hint::Streaming) };
        }
        true
    }

    #[inline(always)]
    unsafe fn mark<S: Simt>(&self, simt: S, at: u64) {
        if simt.lane() == 0 {
            // SAFETY: the caller's.
            unsafe { simt.store(self.ranks, at, u64::MAX, Hint::Default) };
        }
    }

    #[inline(always)]
    unsafe fn is_marked<S: Simt>(&self, simt: S, at: u64) -> bool {
        // SAFETY: the caller's.
        unsafe { simt.load(self.ranks.as_const(), at, Hint::Default) == u64::MAX }
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
            // A mark may be looked for in the place of a key, so one is written if there is no neighbour, too.
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
    fn bound(&self, word: K) -> Bound<K> {
        // The pair below is before it, and the one above is after it, if need be after keys that equal a strict query.
        match (self.near.is_of_both(), self.predecessor != 0) {
            (true, _) if self.near.is_strict() => Bound::below(word),
            (true, _) => Bound::upto(word),
            (false, true) => Bound::upto(self.near.sought(word, true)),
            (false, false) => Bound::below(self.near.sought(word, false)),
        }
    }

    #[inline(always)]
    unsafe fn payload<S: Simt>(simt: S, tree: &TreeRef<K>, place: Place, value: V) -> V {
        // SAFETY: the caller's.
        unsafe { value_at(simt, tree, place, value) }
    }

    #[inline(always)]
    unsafe fn answer<S: Simt>(&self, simt: S, tree: &TreeRef<K>, asked: Asked<K, V, Self>) -> bool {
        let Asked { window, at, word, below, .. } = asked;
        // There is no code for what a search on the other side has found: such a batch has no windows.
        let near = &Near { flags: self.near.flags & !Near::<K>::SECOND, ..self.near };
        // SAFETY: pairs of the window; an output for each query.
        unsafe {
            let len = window.len(simt);
            let key = |pair: u32| window.key(simt, pair);
            // Which pair, and whether there is one: the first of all has no predecessor, and the last no successor.
            let (mut chosen, mut is_there) = (below, below < len);
            if near.is_of_both() {
                let is_equal = near.is_strict() && is_there && key(below) == word;
                let above = below + u32::from(is_equal);
                // That one is in the window, unless the next one would be the first after it.
                if simt.any(FULL_MASK, above == len && !window.has_last(simt, tree)) {
                    return false;
                }
                let has_above = above < len && near.accepts(word, key(above));
                let has_below = below > 0 && near.accepts(word, key(below - 1));
                let is_above = has_above && !(has_below && near.keeps(word, key(below - 1), key(above)));
                (chosen, is_there) = (if is_above { above } else { below.wrapping_sub(1) }, has_above || has_below);
            } else if self.predecessor != 0 {
                (chosen, is_there) = (below.wrapping_sub(1), below > 0);
            }
            let neighbor = is_there.then(|| (key(chosen), window.payload(simt, chosen)));
            settle(simt, (self, near), tree.flip, (at, word), neighbor);
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
    fn bound(&self, word: K) -> Bound<K> {
        Bound::below(word)
    }

    #[inline(always)]
    unsafe fn payload<S: Simt>(simt: S, tree: &TreeRef<K>, place: Place, value: V) -> V {
        // SAFETY: the caller's.
        unsafe { value_at(simt, tree, place, value) }
    }

    #[inline(always)]
    unsafe fn answer<S: Simt>(&self, simt: S, tree: &TreeRef<K>, asked: Asked<K, V, Self>) -> bool {
        let Asked { window, at, below, .. } = asked;
        // It is not 0, which the compiler does not know.
        let limit = (self.limit as u32).max(1);
        // SAFETY: pairs of the window; places of the outputs.
        unsafe {
            let left = window.len(simt) - below;
            if simt.any(FULL_MASK, left < limit) && !window.has_last(simt, tree) {
                return false;
            }
            if simt.opaque(at) < self.count {
                simt.store(self.counts, at, left.min(limit), Hint::Streaming);
            }
            // All places of the warp's scans, one after another, so that lanes write side by side.
            let first = at - u64::from(simt.lane());
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
    unsafe fn load<S: Simt>(&self, simt: S, at: u64) -> (K, K) {
        // SAFETY: the caller's.
        unsafe { (simt.load(self.starts, at, Hint::Streaming), simt.load(self.ends, at, Hint::Streaming)) }
    }

    #[inline(always)]
    fn bound(&self, word: K) -> Bound<K> {
        Bound::below(word)
    }

    #[inline(always)]
    unsafe fn payload<S: Simt>(_: S, _: &TreeRef<K>, place: Place, _: V) -> u64 {
        let Place { node, line, slot } = place;
        Slot { node, line, slot }.cursor()
    }

    #[inline(always)]
    unsafe fn answer<S: Simt>(&self, simt: S, tree: &TreeRef<K>, asked: Asked<K, V, Self>) -> bool {
        let Asked { window, at, word, end, below } = asked;
        // SAFETY: pairs of the window; places of the outputs.
        unsafe {
            let bound = Bound::upto(end);
            let mut after = [below];
            // Ranges are mostly short.
            window.advance(simt, &mut after, &[bound], MOST_HALF);
            let [mut after] = after;
            // Where a range ends before it begins does not matter.
            let is_at_end = |after| end < word || window.is_in(simt, tree, after, bound);
            if !simt.all(FULL_MASK, is_at_end(after)) {
                after = window.below(simt, bound);
                let is_all = bound.is_past_all && window.has_last(simt, tree);
                after = if is_all { window.len(simt) } else { after };
                if !simt.all(FULL_MASK, is_all || is_at_end(after)) {
                    return false;
                }
            }
            let pairs = if end < word { 0 } else { after - below };
            if simt.opaque(at) < self.count {
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
    unsafe fn mark<S: Simt>(&self, simt: S, at: u64) {
        if simt.lane() == 0 {
            // SAFETY: the caller's.
            unsafe { simt.store(self.counts, at, u64::MAX, Hint::Default) };
        }
    }

    #[inline(always)]
    unsafe fn is_marked<S: Simt>(&self, simt: S, at: u64) -> bool {
        // SAFETY: the caller's.
        unsafe { simt.load(self.counts.as_const(), at, Hint::Default) == u64::MAX }
    }

    #[inline(always)]
    unsafe fn descend<S: Simt>(&self, simt: S, tree: &TreeRef<K>, query: (u64, K)) {
        // SAFETY: the caller's.
        unsafe { locate_row::<S, K, V>(simt, (tree, tree.in_memory()), self, query) };
    }
}
