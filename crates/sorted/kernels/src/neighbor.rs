//! Predecessors and successors.

use crate::search::{ArrayRef, IN_FLIGHT, places, store_hits};
use core::marker::PhantomData;
use lanetree_simt::{Hint, Kernel, NearArrays, NeighborBatch, QueryArgs, Simt, Verdict, Word};

/// Arguments of [`Neighbor`].
pub type NeighborArgs<K, V> = QueryArgs<ArrayRef<K, V>, NeighborBatch<K, V>>;

/// Finds the predecessors or successors of a batch of keys: [`IN_FLIGHT`] per thread; any block of whole warps.
#[derive(Debug)]
pub struct Neighbor<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Neighbor<K, V> {
    type Args = NeighborArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (array, places, predecessor) = (&args.tree, places(simt), args.predecessor != 0);
        // SAFETY: there are as many queries, and the array is valid.
        let ranks = unsafe {
            let words = array.load(simt, args.queries, places, args.count);
            array.ranks(simt, words.map(|word| args.near.sought(word, predecessor)), [predecessor; IN_FLIGHT])
        };
        let mut hits = [false; IN_FLIGHT];
        for j in 0..IN_FLIGHT {
            // Before the first pair this wraps around, to past the last one.
            let at = ranks[j].wrapping_sub(u64::from(args.predecessor));
            if places[j] < args.count {
                let mut value = args.miss;
                // SAFETY: a pair's rank, and the place of a query.
                unsafe {
                    let key = (at < array.len).then(|| simt.load(array.keys, at, Hint::ReadOnly));
                    let arrays = NearArrays { queries: args.queries, keys: args.keys, hits: args.hits };
                    let verdict = args.near.judge(simt, places[j], array.flip, arrays, key);
                    if let (Some(key), Verdict::Found) = (key, verdict) {
                        simt.store(args.keys, places[j], key.xor(array.flip), Hint::Streaming);
                        value = simt.load(array.values, at, Hint::ReadOnly);
                    }
                    if verdict != Verdict::Kept {
                        simt.store(args.values, places[j], value, Hint::Streaming);
                    }
                    hits[j] = verdict.is_hit();
                }
            }
        }
        // SAFETY: there are as many queries.
        unsafe { store_hits(simt, args.hits, places, hits, args.count) };
    }
}
