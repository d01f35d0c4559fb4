//! Ranks after a batch, and nodes that move aside.

use super::Changes;
use crate::layout::{
    BUCKET_WORDS, MOST_CHUNK_SLOTS, NODE_WORDS, Record, bucket_at, node_at, pairs_of, record_at, record_words,
};
use crate::parts::{BUCKET_BITS, SplitNodes, SplitWord};
use crate::search::TreeRef;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, Simt, kernel_args};

kernel_args! {
    /// Arguments of [`Ranks`].
    pub struct RanksArgs<K, V> {
        /// The batch.
        pub changes: Changes<K, V>,
        /// The nodes that are split, if there are any.
        pub split: SplitNodes,
        /// Nodes << [`BUCKET_BITS`] and buckets of the parts before each of these nodes' parts.
        pub before: Global<u64>,
        /// Nodes of the lowest level.
        pub leaf_nodes: u64,
        /// In and out: the tree's records.
        pub records: GlobalMut<u64>,
        /// Out, unless it is null: the new number of each node; [`u32::MAX`] if it is split.
        pub moves: GlobalMut<u32>,
    }
}

/// Gives every node its new rank, and a new number: a thread per node.
#[derive(Debug)]
pub struct Ranks<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Ranks<K, V> {
    type Args = RanksArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let node = simt.global_index();
        if node >= args.leaf_nodes {
            return;
        }
        // SAFETY: the node's own record; the operations are sorted.
        unsafe {
            let growth = args.changes.growth(simt, args.changes.of_node(simt, node as u32));
            let growth = if K::BITS == 32 { growth << 32 } else { growth };
            let word = record_at::<K, V>(node) + u64::from(Record::<K>::RANK_WORD);
            let rank = simt.load(args.records.as_const(), word, Hint::Default);
            simt.store(args.records, word, rank.wrapping_add(growth), Hint::Default);
            if args.moves.is_null() {
                return;
            }
            let mut to = node as u32;
            let split = &args.split;
            let index = if split.count > 0 { split.upto(simt, SplitWord::Node, node) } else { 0 };
            if index > 0 {
                let before = simt.load(args.before, split.get(simt, index, SplitWord::Parts), Hint::ReadOnly);
                to = to.wrapping_sub(index as u32).wrapping_add((before >> BUCKET_BITS) as u32);
                if split.get(simt, index - 1, SplitWord::Node) == node {
                    to = u32::MAX;
                }
            }
            simt.store(args.moves, node, to, Hint::Default);
        }
    }
}

kernel_args! {
    /// Arguments of [`Relocate`].
    pub struct RelocateArgs<K> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// From [`Ranks`].
        pub moves: Global<u32>,
        /// Out: nodes of the lowest level.
        pub nodes: GlobalMut<u32>,
        /// Out: their records.
        pub records: GlobalMut<u64>,
        /// Out: the bucket after the last one of each.
        pub ends: GlobalMut<u32>,
    }
}

/// Lanes that move a node.
const LANES: u32 = 8;

impl<K> RelocateArgs<K> {
    /// Threads for each node of the lowest level.
    pub const THREADS: u32 = LANES;
}

/// Copies the nodes that are not split to where they are to be: [`RelocateArgs::THREADS`] for each.
#[derive(Debug)]
pub struct Relocate<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Relocate<K, V> {
    type Args = RelocateArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (node, lane) = (simt.global_index() / u64::from(LANES), simt.lane() % LANES);
        if node >= u64::from(args.tree.leaf_nodes) {
            return;
        }
        // SAFETY: a node and its record; there is room for them where they are to be.
        unsafe {
            let to = simt.load(args.moves, node, Hint::ReadOnly);
            if to == u32::MAX {
                return;
            }
            let to = u64::from(to);
            let mut own = lane;
            while own < NODE_WORDS {
                let at = |number: u64| node_at(number) + u64::from(own);
                let word = simt.load(args.tree.nodes, at(node), Hint::ReadOnly);
                simt.store(args.nodes, at(to), word, Hint::Default);
                own += LANES;
            }
            if lane < record_words::<K, V>() {
                let at = |number: u64| record_at::<K, V>(number) + u64::from(lane);
                let word = simt.load(args.tree.records, at(node), Hint::ReadOnly);
                simt.store(args.records, at(to), word, Hint::Default);
            }
            if lane == 0 {
                simt.store(args.ends, to, args.tree.end_bucket(simt, node as u32), Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Ends`].
    pub struct EndsArgs<K> {
        /// The records of nodes of the lowest level, each with at least one pair.
        pub records: Global<u64>,
        /// The bucket after the last one of each.
        pub ends: Global<u32>,
        /// Their buckets.
        pub buckets: Global<u64>,
        /// Nodes.
        pub leaf_nodes: u64,
        /// Out: for each node a key that is at most its first key, and above all keys of the node before.
        pub firsts: GlobalMut<K>,
        /// Out: the last key of each node.
        pub lasts: GlobalMut<K>,
    }
}

/// Finds out from where to where the keys of every node of the lowest level are: a thread for each.
#[derive(Debug)]
pub struct Ends<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Ends<K, V> {
    type Args = EndsArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let node = simt.global_index();
        if node >= args.leaf_nodes {
            return;
        }
        // SAFETY: a node's record, and its last bucket.
        unsafe {
            let at = record_at::<K, V>(node);
            let first = match K::BITS {
                128 => K::from_parts(simt.load_vector(args.records, at, Hint::ReadOnly)),
                _ => K::truncate(simt.load(args.records, at, Hint::ReadOnly)),
            };
            let end = simt.load(args.ends, node, Hint::ReadOnly);
            // Buckets that are free, and slots, repeat the last pair.
            let last = bucket_at::<K, V>(end - 1) + u64::from(BUCKET_WORDS - 2);
            let last = pairs_of::<K, V>(simt.load_vector(args.buckets, last, Hint::EvictFirst))[MOST_CHUNK_SLOTS - 1].0;
            simt.store(args.firsts, node, first, Hint::Default);
            simt.store(args.lasts, node, last, Hint::Default);
        }
    }
}
