//! The pairs of located ranges that begin with sorted keys: most of them are in the window of their tile.

use super::queries::value_at;
use super::window::{Asked, Windowed};
use super::{BesideWindows, InWindows, InWindowsArgs};
use crate::range::{Slot, copy};
use crate::search::TreeRef;
use crate::values;
use lanetree_layout::Value;
use lanetree_simt::{
    FULL_MASK, GatherBatch, Global, GlobalMut, Hint, KeyWord, RowPart, Simt, WARP, kernel_args, unroll,
};

kernel_args! {
    /// Copying the pairs of ranges whose keys are sorted.
    pub struct SortedGatherBatch<K, V> {
        /// Their first keys: `[gather.rows.count]`.
        pub starts: Global<K>,
        /// Their last keys.
        pub ends: Global<K>,
        /// How many pairs each has, as located. Where a warp's ranges are not copied, the first one's number becomes a mark.
        pub counts: GlobalMut<u64>,
        /// The ranges, of which no pairs are left out, and the outputs, of which the window begins with the first.
        pub gather: GatherBatch<K, V>,
    }
}

/// Arguments of [`GatherSorted`].
pub type GatherSortedArgs<K, V> = InWindowsArgs<TreeRef<K>, SortedGatherBatch<K, V>>;
/// Copies the pairs of ranges from sorted keys on.
pub type GatherSorted<K, V> = InWindows<K, V, SortedGatherBatch<K, V>>;
/// Copies those of [`GatherSorted`] that it has left.
pub type GatherBesideWindows<K, V> = BesideWindows<K, V, SortedGatherBatch<K, V>>;

/// Lanes that copy a range together, beside windows.
const LANES: u32 = 8;

impl<K: KeyWord, V: Value> Windowed<K, V> for SortedGatherBatch<K, V> {
    type Payload = V;
    const LOCATES: bool = true;

    #[inline(always)]
    fn count(&self) -> u64 {
        self.gather.rows.count
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
    unsafe fn payload<S: Simt>(simt: S, tree: &TreeRef<K>, position: Slot, value: V) -> V {
        // SAFETY: the caller's.
        unsafe { value_at(simt, tree, position, value) }
    }

    #[inline(always)]
    unsafe fn answer<S: Simt>(&self, simt: S, tree: &TreeRef<K>, asked: Asked<K, V, Self>) -> bool {
        let Asked { window, first, own, below, .. } = asked;
        let GatherBatch { rows, keys, values } = self.gather;
        let at = first + u64::from(own);
        // SAFETY: pairs of the window; offsets of all ranges and one more, and outputs up to the window's end.
        unsafe {
            // Past the last range, none.
            let offset =
                |row: u64| simt.load(rows.offsets, if row < rows.count { row } else { rows.count }, Hint::ReadOnly);
            let (begin, end) = (offset(at), offset(at + 1));
            if simt.any(FULL_MASK, end - begin > u64::from(window.len(simt) - below)) {
                return false;
            }
            // The warp's pairs go side by side: each lane looks for the range that the next one of them is of.
            let base = simt.shuffle(FULL_MASK, begin, 0);
            let before = (begin - base) as u32;
            let all = simt.shuffle(FULL_MASK, (end - base) as u32, WARP - 1);
            let from = below.wrapping_sub(before);
            let mut pair = simt.lane();
            while pair - simt.lane() < all {
                let mut row = 0;
                unroll!(5, step => {
                    let step = WARP >> (step + 1);
                    row += if simt.shuffle(FULL_MASK, before, row + step) <= pair { step } else { 0 };
                });
                let source = simt.shuffle(FULL_MASK, from, row).wrapping_add(pair);
                let to = base + u64::from(pair);
                if pair < all && to < rows.end {
                    if !keys.is_null() {
                        simt.store(keys, to, window.key(simt, source).xor(tree.flip), Hint::Streaming);
                    }
                    values::store(simt, values, to, window.payload(simt, source), Hint::Streaming);
                }
                pair += WARP;
            }
        }
        true
    }

    #[inline(always)]
    fn numbers(&self) -> GlobalMut<u64> {
        self.counts
    }

    #[inline(always)]
    unsafe fn descend<S: Simt>(&self, simt: S, tree: &TreeRef<K>, (at, _): (u64, K)) {
        let GatherBatch { rows, keys, values } = self.gather;
        // SAFETY: ranges of the batch, whose pairs are in the tree from their cursors on; the outputs have the window.
        unsafe {
            let own = rows.of_group(simt, rows.parts + at);
            let mut round = 0;
            // Not unrolled: the copy is long.
            while round < LANES {
                let lane = simt.lane() / LANES + simt.opaque(round) * (WARP / LANES);
                let of_lane = |word: u64| simt.shuffle(FULL_MASK, word, lane);
                let RowPart { cursor, at, end, .. } = own;
                let (cursor, at, end) = (of_lane(cursor), of_lane(at), of_lane(end));
                copy::<S, K, V, LANES>(simt, tree, cursor, (at, end), (keys, values));
                round += 1;
            }
        }
    }
}
