//! Removals: which keys and which pairs stay.

use crate::layout::{begin, count};
use crate::rows::{Part, STEPS};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, Order, Scope, Simt, WARP, Word, kernel_args, last_where,
};

kernel_args! {
    /// Arguments of [`MarkKeys`].
    pub struct MarkKeysArgs {
        /// The places of the keys to remove: `[count]`; 0 for an absent key.
        pub places: Global<u64>,
        /// The ranks of these keys: `[count]`.
        pub ranks: Global<u64>,
        /// How many.
        pub count: u64,
        /// In and out: `[keys]`, the number of values of every key; becomes 0 for those to remove.
        pub counts: GlobalMut<u64>,
        /// Keys of the map.
        pub keys: u64,
    }
}

/// Takes all values from keys. One thread per key to remove; any block.
#[derive(Debug)]
pub struct MarkKeys;

impl Kernel for MarkKeys {
    type Args = MarkKeysArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a key of the batch; the rank is checked; the counts are accessed atomically only.
        unsafe {
            let rank = simt.load(args.ranks, index, Hint::Streaming);
            if count(simt.load(args.places, index, Hint::Streaming)) > 0 && rank < args.keys {
                simt.atomic_store(args.counts, rank, 0, Order::Relaxed, Scope::Device);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Keep`].
    pub struct KeepArgs {
        /// `[count]`.
        pub counts: Global<u64>,
        /// How many.
        pub count: u64,
        /// Out: bit `i % 32` of word `i / 32` says whether count `i` is not 0.
        pub flags: GlobalMut<u32>,
    }
}

/// Flags what still has values. One thread per count; any block of whole warps.
#[derive(Debug)]
pub struct Keep;

impl Kernel for Keep {
    type Args = KeepArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let mut stays = false;
        if index < args.count {
            // SAFETY: `index` is a count.
            stays = unsafe { simt.load(args.counts, index, Hint::Streaming) } > 0;
        }
        let word = simt.ballot(FULL_MASK, stays);
        let index = simt.opaque(index);
        if simt.lane() == 0 && index < args.count {
            // SAFETY: a word for each 32 counts.
            unsafe { simt.store(args.flags, index / u64::from(WARP), word, Hint::Default) };
        }
    }
}

kernel_args! {
    /// Arguments of [`Match`].
    pub struct MatchArgs<V> {
        /// Places of the batch's keys, each key once: `[rows]`.
        pub places: Global<u64>,
        /// Sums of their numbers of values: `[rows + 1]`, ascending from 0.
        pub offsets: Global<u64>,
        /// How many, at least one.
        pub rows: u64,
        /// `[len]`.
        pub values: Global<V>,
        /// Values of the map.
        pub len: u64,
        /// The first wanted value of each key: `[rows + 1]`.
        pub wanted_offsets: Global<u64>,
        /// The wanted values, ascending strictly in each row: `[wanted_len]`.
        pub wanted: Global<V>,
        /// How many.
        pub wanted_len: u64,
        /// Values of the batch's keys in all.
        pub total: u64,
        /// Out: `[total]`, for each value of the batch's keys the wanted value that it equals, if there is one.
        pub matches: GlobalMut<u64>,
        /// Out: `[total]`, its position.
        pub positions: GlobalMut<u64>,
        /// Out: bit `i % 32` of word `i / 32` says whether value `i` equals a wanted one.
        pub hits: GlobalMut<u32>,
    }
}

/// Compares all values of keys with those that are wanted of each key: [`OUTPUTS`](crate::OUTPUTS) values per warp; any
/// block of whole warps.
#[derive(Debug)]
pub struct Match<V>(PhantomData<V>);

impl<V: Word> Kernel for Match<V> {
    type Args = MatchArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: rows and offsets are as many as the arguments say; outputs below the total are in the outputs; positions and wanted
        // values are checked.
        unsafe {
            let total = simt.load(args.offsets, args.rows, Hint::ReadOnly).min(args.total);
            let Some(part) = Part::new(simt, args.offsets, args.rows, total) else { return };
            for step in 0..STEPS {
                let first = part.first + step * u64::from(WARP);
                let at = first + u64::from(simt.lane());
                let mut hit = false;
                if at < part.end {
                    let (row, within) = part.row(simt, args.offsets, at);
                    let position = begin(simt.load(args.places, row, Hint::ReadOnly)) + within;
                    let from = simt.load(args.wanted_offsets, row, Hint::ReadOnly);
                    let end = simt.load(args.wanted_offsets, row + 1, Hint::ReadOnly).min(args.wanted_len);
                    if position < args.len && from < end {
                        let value = simt.load(args.values, position, Hint::EvictFirst);
                        let holds = |at| simt.load(args.wanted, at, Hint::ReadOnly) <= value;
                        let found = last_where(from, end - from, holds);
                        hit = simt.load(args.wanted, found, Hint::ReadOnly) == value;
                        simt.store(args.matches, at, found, Hint::Default);
                        simt.store(args.positions, at, position, Hint::Default);
                    }
                }
                let word = simt.ballot(FULL_MASK, hit);
                if simt.lane() == 0 && simt.opaque(first) < part.end {
                    simt.store(args.hits, first / u64::from(WARP), word, Hint::Default);
                }
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`RemovePairs`].
    pub struct RemovePairsArgs {
        /// The wanted value that each match equals, ascending: `[count]`.
        pub matches: Global<u64>,
        /// The matches' positions; the positions of one wanted value ascend: `[count]`.
        pub positions: Global<u64>,
        /// How many matches.
        pub count: u64,
        /// How often each wanted value is to be removed: `[wanted_len]`.
        pub times: Global<u64>,
        /// The row of each wanted value: `[wanted_len]`.
        pub rows: Global<u64>,
        /// How many.
        pub wanted_len: u64,
        /// The rank of each row's key.
        pub ranks: Global<u64>,
        /// In and out: `[keys]`, the number of values of every key; less by those that are removed.
        pub counts: GlobalMut<u64>,
        /// Keys of the map.
        pub keys: u64,
        /// In and out: bit `i % 32` of word `i / 32` is set if value `i` is removed.
        pub removed: GlobalMut<u32>,
        /// Values of the map.
        pub len: u64,
    }
}

/// Removes the first matches of each wanted value. One thread per match; any block.
#[derive(Debug)]
pub struct RemovePairs;

impl Kernel for RemovePairs {
    type Args = RemovePairsArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a match; wanted values, ranks and positions are checked; counts and bits are accessed atomically
        // only.
        unsafe {
            let own = simt.load(args.matches, index, Hint::ReadOnly);
            let position = simt.load(args.positions, index, Hint::Streaming);
            if own >= args.wanted_len || position >= args.len {
                return;
            }
            // Matches of smaller wanted values.
            let (mut before, mut left) = (0, index);
            while left > 0 {
                let half = left / 2;
                let is_smaller = simt.load(args.matches, before + half, Hint::ReadOnly) < own;
                before += if is_smaller { half + 1 } else { 0 };
                left = if is_smaller { left - half - 1 } else { half };
            }
            if index - before >= simt.load(args.times, own, Hint::ReadOnly) {
                return;
            }
            let rank = simt.load(args.ranks, simt.load(args.rows, own, Hint::ReadOnly), Hint::ReadOnly);
            if rank < args.keys {
                simt.atomic_add(args.counts, rank, u64::MAX, Order::Relaxed, Scope::Device);
                let bit = 1 << (position % u64::from(WARP));
                simt.atomic_or(args.removed, position / u64::from(WARP), bit, Order::Relaxed, Scope::Device);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`CountKept`].
    pub struct CountKeptArgs {
        /// Bit `i % 32` of word `i / 32` is set if value `i` is removed: `[len / 32]`, rounded up.
        pub removed: Global<u32>,
        /// Values.
        pub len: u64,
        /// Out: for each word, how many of its values stay.
        pub counts: GlobalMut<u32>,
    }
}

/// Counts the values that stay. One thread per word; any block.
#[derive(Debug)]
pub struct CountKept;

impl Kernel for CountKept {
    type Args = CountKeptArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let first = index * u64::from(WARP);
        if first < args.len {
            let values = (args.len - first).min(u64::from(WARP)) as u32;
            // SAFETY: `index` is a word.
            unsafe {
                let removed = simt.load(args.removed, index, Hint::ReadOnly);
                let kept = !removed & FULL_MASK >> (WARP - values);
                simt.store(args.counts, index, kept.count_ones(), Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Compact`].
    pub struct CompactArgs<V> {
        /// As [`CountKeptArgs::removed`].
        pub removed: Global<u32>,
        /// The exclusive prefix sums of [`CountKeptArgs::counts`].
        pub before: Global<u64>,
        /// `[len]`.
        pub values: Global<V>,
        /// Values.
        pub len: u64,
        /// Out: the values that stay.
        pub out: GlobalMut<V>,
        /// How many stay.
        pub out_len: u64,
    }
}

/// Copies the values that stay. One thread per value; any block of whole warps.
#[derive(Debug)]
pub struct Compact<V>(PhantomData<V>);

impl<V: Word> Kernel for Compact<V> {
    type Args = CompactArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.len {
            return;
        }
        let word = index / u64::from(WARP);
        // SAFETY: `index` is a value, and `word` its word; each value that stays has a place of its own, which is checked.
        unsafe {
            let kept = !simt.load(args.removed, word, Hint::ReadOnly);
            if kept >> simt.lane() & 1 != 0 {
                let before = (kept & simt.lanes_below()).count_ones();
                let to = simt.load(args.before, word, Hint::ReadOnly) + u64::from(before);
                if to < args.out_len {
                    simt.store(args.out, to, simt.load(args.values, index, Hint::EvictFirst), Hint::Default);
                }
            }
        }
    }
}
