//! Range queries, in two kernels with a prefix sum between them: [`Locate`] finds where each range begins and how many
//! pairs it has, [`Gather`] copies the pairs.

use crate::search::ArrayRef;
use core::marker::PhantomData;
use lanetree_simt::{GatherBatch, Hint, Kernel, LocateBatch, QueryArgs, Simt, Word};

/// Arguments of [`Locate`].
pub type LocateArgs<K, V> = QueryArgs<ArrayRef<K, V>, LocateBatch<K>>;

/// Locates a batch of ranges: one per thread, which searches for both bounds side by side; any block.
#[derive(Debug)]
pub struct Locate<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Locate<K, V> {
    type Args = LocateArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a range, and the array is valid.
        unsafe {
            let bounds = [args.starts, args.ends].map(|from| simt.load(from, index, Hint::Streaming));
            let words = bounds.map(|bound| bound.xor(args.tree.flip));
            let [start, end] = args.tree.ranks(simt, words, [false, true]);
            let mut limit = args.limit;
            if !args.limits.is_null() {
                limit = limit.min(simt.load(args.limits, index, Hint::Streaming));
            }
            simt.store(args.counts, index, end.saturating_sub(start).min(limit), Hint::Default);
            if !args.cursors.is_null() {
                simt.store(args.cursors, index, start, Hint::Default);
            }
        }
    }
}

/// Arguments of [`Gather`].
pub type GatherArgs<K, V> = QueryArgs<ArrayRef<K, V>, GatherBatch<K, V>>;

/// The lanes per range with which [`Gather`] is compiled: for short ranges and for others.
pub const GATHER_WIDTHS: [u32; 2] = [8, 32];

/// Copies the pairs of a batch of ranges: `G` lanes per group of [`GatherRows`](lanetree_simt::GatherRows); any block of whole warps.
#[derive(Debug)]
pub struct Gather<K, V, const G: u32>(PhantomData<(K, V)>);

impl<K: Word, V: Word, const G: u32> Kernel for Gather<K, V, G> {
    type Args = GatherArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the rows' pairs are in the array, whose cursors and counts these are, and the outputs have the window.
        unsafe {
            let part = args.rows.of_group(simt, simt.global_index() / u64::from(G));
            let mut at = part.at + u64::from(simt.lane() % G);
            while at < part.end {
                let from = part.cursor + part.skip + (at - part.at);
                let key = simt.load(args.tree.keys, from, Hint::ReadOnly).xor(args.tree.flip);
                let value = simt.load(args.tree.values, from, Hint::ReadOnly);
                if !args.keys.is_null() {
                    simt.store(args.keys, at, key, Hint::Streaming);
                }
                simt.store(args.values, at, value, Hint::Streaming);
                at += u64::from(G);
            }
        }
    }
}
