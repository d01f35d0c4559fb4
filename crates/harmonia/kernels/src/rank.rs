//! Ranks: `lower_bound` and `upper_bound`.

use crate::tree::{Side, TreeRef, launch_bounds, locate, search_word, tile_start};
use core::marker::PhantomData;
use lanetree_simt::{Hint, Kernel, LaunchBounds, QueryArgs, RankBatch, Simt, WARP, Word};

/// Arguments of [`Rank`].
pub type RankArgs<K> = QueryArgs<TreeRef<K>, RankBatch<K>>;

/// Ranks a batch of keys. One warp per 32 queries; any block of whole warps.
#[derive(Debug)]
pub struct Rank<K, V, const SLOT: bool, const F: u32, const G: u32, const Q: usize>(PhantomData<(K, V)>);

impl<K: Word, V: Word, const SLOT: bool, const F: u32, const G: u32, const Q: usize> Kernel
    for Rank<K, V, SLOT, F, G, Q>
{
    type Args = RankArgs<K>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = launch_bounds::<K>(F, Q);

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tile = tile_start(simt, WARP);
        if tile >= args.count {
            return;
        }
        let index = tile + u64::from(simt.lane());
        let side = if args.upper != 0 { Side::Upper } else { Side::Lower };
        let mut word = Some(K::MIN);
        if index < args.count {
            // SAFETY: `index` is a query.
            let query = unsafe { simt.load(args.queries, index, Hint::Streaming) };
            word = search_word(query.xor(args.tree.flip), side);
        }
        let mut rank = 0;
        if args.tree.leaf_count > 0 {
            // SAFETY: the tree is valid and not empty.
            let (leaf, count) = unsafe { locate::<S, K, V, SLOT, F, G, Q>(simt, &args.tree, word.unwrap_or(K::MAX)) };
            // SAFETY: the leaf is one of the tree's.
            rank = if word.is_some() { unsafe { args.tree.rank(simt, leaf, count) } } else { args.tree.len };
        }
        if index < args.count {
            // SAFETY: `index` is a query.
            unsafe { simt.store(args.ranks, index, rank, Hint::Streaming) };
        }
    }
}
