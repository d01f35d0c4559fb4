//! Predecessors and successors.

use crate::layout::{leaf_offset, leaf_values_offset};
use crate::tree::{Side, TreeRef, launch_bounds, locate, search_word, tile_start};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Hint, Kernel, LaunchBounds, NearArrays, NeighborBatch, QueryArgs, Simt, Verdict, WARP, Word,
};

/// Arguments of [`Neighbor`].
pub type NeighborArgs<K, V> = QueryArgs<TreeRef<K>, NeighborBatch<K, V>>;

/// Finds the predecessors or successors of a batch of keys. One warp per 32 queries; any block of
/// whole warps.
#[derive(Debug)]
pub struct Neighbor<K, V, const SLOT: bool, const F: u32, const G: u32, const Q: usize>(PhantomData<(K, V)>);

impl<K: Word, V: Word, const SLOT: bool, const F: u32, const G: u32, const Q: usize> Kernel
    for Neighbor<K, V, SLOT, F, G, Q>
{
    type Args = NeighborArgs<K, V>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = launch_bounds::<K>(F, Q);

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let tile = tile_start(simt, WARP);
        if tile >= args.count {
            return;
        }
        let lane = simt.lane();
        let index = tile + u64::from(lane);
        let side = if args.predecessor != 0 { Side::Upper } else { Side::Lower };
        let mut word = Some(K::MIN);
        if index < args.count {
            // SAFETY: `index` is a query.
            let query = unsafe { simt.load(args.queries, index, Hint::Streaming) };
            word = search_word(args.near.sought(query.xor(tree.flip), side == Side::Upper), side);
        }
        let mut place = None;
        if tree.leaf_count > 0 {
            // SAFETY: the tree is valid and not empty.
            let (leaf, count) = unsafe { locate::<S, K, V, SLOT, F, G, Q>(simt, tree, word.unwrap_or(K::MAX)) };
            // The last slot of a leaf always holds its last pair; so when all slots are below a query,
            // all pairs are.
            place = match side {
                Side::Lower if count < F => Some((leaf, count)),
                Side::Lower => (leaf + 1 < tree.leaf_count).then_some((leaf + 1, 0)),
                Side::Upper if word.is_none() => Some((tree.leaf_count - 1, F - 1)),
                Side::Upper if count > 0 => Some((leaf, count - 1)),
                Side::Upper => (leaf > 0).then(|| (leaf - 1, F - 1)),
            };
        }
        let mut verdict = Verdict::Missed;
        if index < args.count {
            let mut value = args.miss;
            // SAFETY: the slot holds a pair of the tree, and `index` is a query.
            unsafe {
                let found = place.map(|(leaf, slot)| {
                    let key_at = tree.leaves.byte_add(leaf_offset::<K, V>(F, leaf)).cast::<K>();
                    (simt.load(key_at, u64::from(slot), Hint::ReadOnly), leaf, slot)
                });
                let arrays = NearArrays { queries: args.queries, keys: args.keys, hits: args.hits };
                verdict = args.near.judge(simt, index, tree.flip, arrays, found.map(|(key, ..)| key));
                if let (Some((key, leaf, slot)), Verdict::Found) = (found, verdict) {
                    let value_at = tree.leaves.byte_add(leaf_values_offset::<K, V>(F, leaf)).cast::<V>();
                    simt.store(args.keys, index, key.xor(tree.flip), Hint::Streaming);
                    value = simt.load(value_at, u64::from(slot), Hint::ReadOnly);
                }
                if verdict != Verdict::Kept {
                    simt.store(args.values, index, value, Hint::Streaming);
                }
            }
        }
        if !args.hits.is_null() {
            let bits = simt.ballot(FULL_MASK, verdict.is_hit());
            if lane == 0 {
                // SAFETY: one word per started tile.
                unsafe { simt.store(args.hits, tile / u64::from(WARP), bits, Hint::Streaming) };
            }
        }
    }
}
