//! What windows are asked: ranks, neighbours, the bounds of ranges, and scans.

use super::window::{Asked, Bound, Place, Windowed, staging_at};
use super::{InWindows, InWindowsArgs};
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

/// Arguments of [`NeighborSorted`].
pub type NeighborSortedArgs<K, V> = InWindowsArgs<TreeRef<K>, NeighborBatch<K, V>>;
/// Finds the predecessors or successors of sorted keys, or the nearer ones of both.
pub type NeighborSorted<K, V> = InWindows<K, V, NeighborBatch<K, V>>;

/// Arguments of [`LocateSorted`].
pub type LocateSortedArgs<K> = InWindowsArgs<TreeRef<K>, LocateBatch<K>>;
/// Locates ranges from sorted keys on.
pub type LocateSorted<K, V> = InWindows<K, V, LocateBatch<K>>;

/// Arguments of [`ScanSorted`].
pub type ScanSortedArgs<K, V> = InWindowsArgs<TreeRef<K>, ScanBatch<K, V>>;
/// Makes scans from sorted keys on.
pub type ScanSorted<K, V> = InWindows<K, V, ScanBatch<K, V>>;

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

/// Which neighbours a batch asks for.
#[derive(Clone, Copy)]
struct Sides {
    below: bool,
    above: bool,
}

impl Sides {
    #[inline(always)]
    fn of<K: KeyWord, V: Value>(batch: &NeighborBatch<K, V>) -> Self {
        let (predecessor, both) = (batch.predecessor != 0, batch.near.is_of_both());
        Self { below: predecessor || both, above: !predecessor || both }
    }
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
            let mut value = batch.miss;
            if let (Some((key, of_key)), Verdict::Found) = (neighbor, verdict) {
                simt.store(batch.keys, at, key.xor(flip), Hint::Streaming);
                value = of_key;
            }
            if verdict != Verdict::Kept {
                values::store(simt, batch.values, at, value, Hint::Streaming);
            }
            is_hit = verdict.is_hit();
        }
        store_hits(simt, batch.hits, at, is_hit, batch.count);
    }
}

impl<K: KeyWord, V: Value> Windowed<K, V> for NeighborBatch<K, V> {
    type Payload = V;
    const SCRATCH: u32 = 256 * (K::BYTES + V::BYTES) as u32;

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
        let (near, sides) = (&self.near, Sides::of(self));
        // SAFETY: pairs of the window; an output for each query.
        unsafe {
            let mut above = below;
            if near.is_of_both() && near.is_strict() {
                let is_equal = below < window.len(simt) && window.key(simt, below) == word;
                above += u32::from(is_equal);
            }
            // Few queries end at a border.
            let is_in = (!sides.below || below > 0) && (!sides.above || above < window.len(simt));
            if !simt.all(FULL_MASK, is_in) {
                return false;
            }
            let pair = |pair: u32| (window.key(simt, pair), window.payload(simt, pair));
            if !near.is_on() {
                let (key, value) = pair(if self.predecessor != 0 { below - 1 } else { above });
                if simt.opaque(at) < self.count {
                    simt.store(self.keys, at, key.xor(tree.flip), Hint::Streaming);
                    values::store(simt, self.values, at, value, Hint::Streaming);
                }
                store_hits(simt, self.hits, at, at < self.count, self.count);
                return true;
            }
            let mut neighbor = Some(if self.predecessor != 0 { pair(below - 1) } else { pair(above) });
            if near.is_of_both() {
                let counts = |pair: &(K, V)| near.accepts(word, pair.0);
                let (first, second) = (Some(pair(below - 1)).filter(counts), Some(pair(above)).filter(counts));
                neighbor = match (first, second) {
                    (Some(first), Some(second)) if !near.keeps(word, first.0, second.0) => Some(second),
                    (Some(first), _) => Some(first),
                    _ => second,
                };
            }
            settle(simt, (self, near), tree.flip, (at, word), neighbor);
        }
        true
    }

    #[inline(always)]
    unsafe fn descend<S: Simt>(&self, simt: S, tree: &TreeRef<K>, (at, word): (u64, K)) {
        let sides = Sides::of(self);
        let found = Staged::<K, V>::at(staging_at::<S, K, V>(simt));
        let mut near = Near { flags: self.near.flags & !Near::<K>::BOTH, ..self.near };
        let mut predecessor = sides.below;
        // SAFETY: the tree has pairs; an output for each query.
        unsafe {
            // One loop, as the code of a descent is long. The second one keeps what the first has written if that is nearer.
            loop {
                let sought = near.sought(word, predecessor);
                let neighbor = tree.neighbor(simt, tree.in_memory(), sought, predecessor, found);
                settle(simt, (self, &near), tree.flip, (at, word), neighbor);
                if simt.opaque(u32::from(predecessor && sides.above)) == 0 {
                    return;
                }
                // What a lane has written, others read.
                simt.sync_warp(FULL_MASK);
                predecessor = false;
                near.flags |= Near::<K>::SECOND;
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
            if simt.any(FULL_MASK, at < self.count && below + limit > window.len(simt)) {
                // The window ends before the scan, or the tree does.
                return false;
            }
            if simt.opaque(at) < self.count {
                simt.store(self.counts, at, limit, Hint::Streaming);
            }
            // All places of the warp's scans, one after another, so that lanes write side by side.
            let first = at - u64::from(simt.lane());
            let (mut scan, mut pair) = (simt.lane() / limit, simt.lane() % limit);
            let (scans, pairs) = (WARP / limit, WARP % limit);
            let mut round = 0;
            while round < limit {
                let from = simt.shuffle(FULL_MASK, below, scan) + pair;
                if first + u64::from(scan) < self.count {
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
    unsafe fn answer<S: Simt>(&self, simt: S, _: &TreeRef<K>, asked: Asked<K, V, Self>) -> bool {
        let Asked { window, at, end, below, .. } = asked;
        // SAFETY: pairs of the window; places of the outputs.
        unsafe {
            if simt.any(FULL_MASK, at < self.count && end > window.last(simt)) {
                return false;
            }
            let pairs = window.below(simt, Bound::upto(end)).saturating_sub(below);
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
    unsafe fn descend<S: Simt>(&self, simt: S, tree: &TreeRef<K>, query: (u64, K)) {
        // SAFETY: the caller's.
        unsafe { locate_row::<S, K, V>(simt, (tree, tree.in_memory()), self, query) };
    }
}
