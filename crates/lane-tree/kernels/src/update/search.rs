//! The search of a batch's operations.

use super::{Effect, Located, ONE_REMOVED};
use crate::quads::own;
use crate::queries::Tiles;
use crate::search::{Position, TABLE_BYTES, TreeRef};
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Order, Scope, Simt, kernel_args, unroll,
};

/// Kinds of operations.
const INSERT: u32 = 0;
/// See [`INSERT`].
const UPDATE: u32 = 1;
/// See [`INSERT`].
const REMOVE: u32 = 2;

kernel_args! {
    /// Arguments of [`Search`].
    pub struct SearchArgs<K> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The operations' keys, sorted, in the caller's form: `[count]`.
        pub keys: Global<K>,
        /// What the operations of each key do together, stored at the key's last operation: 0 to insert, 1 to update, 2
        /// to remove; another number at the others: `[count]`. Null for a batch of inserts.
        pub kinds: Global<u32>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, nodes of the lowest level.
        pub nodes: GlobalMut<u32>,
        /// Out: `[count]`, positions in these, and effects.
        pub located: GlobalMut<u32>,
        /// Out: `[count]`, buckets.
        pub buckets: GlobalMut<u32>,
        /// Out: `[count]`, 1 for an insert and 2^32 for a removal, else 0.
        pub counts: GlobalMut<u64>,
        /// In and out: how many keys are inserted, replaced, removed, and left unchanged, and how many are inserted into nodes to
        /// which look-ups do not come, as the levels above do not reach so far; added to the former values.
        pub tally: GlobalMut<u64>,
        /// Not 0 if the keys are not sorted after all: then nothing has an effect.
        pub unsorted: Global<u64>,
    }
}

/// What became of a block's operations: as [`SearchArgs::tally`].
const TALLY: u32 = 5;

/// Most threads of a block of [`Search`].
pub const SEARCH_THREADS: u32 = 640;

/// Finds the node, the position and the effect of each operation; launched as [`Rank`](crate::Rank), in blocks of at most
/// [`SEARCH_THREADS`].
#[derive(Debug)]
pub struct Search<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Search<K, V> {
    type Args = SearchArgs<K>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: SEARCH_THREADS, blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let mut tally = [0_u32; TALLY as usize];
        // SAFETY: there are as many operations; the tree is valid.
        unsafe {
            let is_sorted = simt.load(args.unsorted, 0, Hint::ReadOnly) == 0;
            let mut tiles = Tiles::new(simt, tree, args.keys, args.count);
            loop {
                let next = tiles.word(simt);
                // The same for all lanes, and the compiler knows it: sums over the warp follow the loop.
                if !simt.any(FULL_MASK, next.is_some()) {
                    break;
                }
                let (at, word) = (tiles.at, next.unwrap_or(K::MIN));
                let (mut number, mut after, mut position) = (0, 0, Position::default());
                let (mut is_reached, mut is_bucket_reached) = (false, false);
                // Loaded before the search, which takes as long.
                let (mut kind, mut is_last) = (INSERT, true);
                // Opaque, as the loop has branched by it; what is branched by is not to reach the ballots.
                let is_own = simt.opaque(at) < args.count;
                if is_own && !args.kinds.is_null() {
                    kind = simt.load(args.kinds, at, Hint::ReadOnly);
                    is_last = kind <= REMOVE;
                } else if simt.opaque(at) + 1 < args.count {
                    is_last = simt.load(args.keys, at + 1, Hint::ReadOnly).xor(tree.flip) != word;
                }
                is_last &= is_sorted;
                if tree.height > 0 {
                    let start = tree.start(simt, tree.first_top(), word);
                    position = tree.find::<S, V>(simt, start, word, (false, true), |own| {
                        (number, after) = (own, tree.rank_of::<S, V>(simt, own + 1));
                    });
                    (is_reached, is_bucket_reached) = (position.is_plain, position.is_plain);
                    if !simt.all(FULL_MASK, position.is_plain) {
                        // Look-ups must come to the same bucket. From the top, as others are to have the registers of a start.
                        let start = tree.start(simt, tree.first_top(), word);
                        let plain = tree.descend::<S, false>(simt, start, word, |_| K::MIN);
                        is_reached = own(simt, plain.nodes) == number;
                        // A node's record is to have at most its first key.
                        let is_after_first = tree.first_of::<S, V>(simt, number) <= word;
                        is_bucket_reached = own(simt, plain.children.numbers()) == position.bucket && is_after_first;
                    }
                }
                if simt.opaque(at) < args.count {
                    let is_there = position.slot < position.len
                        && tree.pair::<S, V>(simt, position.bucket, position.slot).0 == word;
                    let effect = match (kind, is_there) {
                        _ if !is_last => Effect::None,
                        (INSERT, false) => Effect::Insert,
                        (INSERT | UPDATE, true) => Effect::Replace,
                        (REMOVE, true) => Effect::Remove,
                        _ => Effect::None,
                    };
                    let count = match effect {
                        Effect::Insert => 1,
                        Effect::Remove => ONE_REMOVED,
                        Effect::None | Effect::Replace => 0,
                    };
                    let ends_node = after == position.rank + u64::from(position.len - position.slot);
                    let bucket = (position.of_node, position.len, ends_node);
                    // A set's key is as it was.
                    let noted = if effect == Effect::Replace && !V::IS_SOME { Effect::None } else { effect };
                    let located = Located::new(noted, position.before, bucket, is_bucket_reached);
                    // Where keys are not in order, all are in the same node, which then is not touched.
                    simt.store(args.nodes, at, if is_sorted { number } else { 0 }, Hint::Default);
                    simt.store(args.located, at, located.0, Hint::Default);
                    simt.store(args.buckets, at, if is_sorted { position.bucket } else { 0 }, Hint::Default);
                    simt.store(args.counts, at, count, Hint::Default);
                    tally[0] += u32::from(effect == Effect::Insert);
                    tally[1] += u32::from(effect == Effect::Replace);
                    tally[2] += u32::from(effect == Effect::Remove);
                    tally[3] += u32::from(effect == Effect::None && is_last);
                    tally[4] += u32::from(effect == Effect::Insert && !is_reached);
                }
                tiles.advance(simt);
            }
            unroll!(TALLY as usize, class => {
                let sum = simt.reduce_add(FULL_MASK, tally[class]);
                if simt.lane() == 0 && sum > 0 {
                    simt.atomic_add(args.tally, class as u64, u64::from(sum), Order::Relaxed, Scope::Device);
                }
            });
        }
    }
}
