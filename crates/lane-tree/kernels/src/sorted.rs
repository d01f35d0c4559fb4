//! Look-ups of sorted queries: neighbours share lines, so a warp copies the lines between two queries to shared memory, once,
//! and searches there. An order that is only claimed costs speed, not answers.

use crate::layout::{LINE_WORDS, chunk_slots, has_values_beside, line_slots, pairs_of};
use crate::queries::{GetArgs, found_at};
use crate::search::{TABLE_BYTES, TreeRef, load_top, own, store_hits};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Hint, Kernel, KeyWord, LaunchBounds, Shared, Simt, WARP, Word, unroll};

/// Queries of a part, whose lines are copied together.
const PART: u32 = 128;
/// Queries of a part that each lane has.
const OWN: usize = (PART / WARP) as usize;
/// Parts of a tile: a bound for each, and one after the last.
const PARTS: u32 = WARP - 1;
/// Queries of a warp's tile.
pub const SORTED_TILE: u32 = PARTS * PART;
/// Most lines that are copied for a part.
const WINDOW: u32 = 64;
/// Bytes of a warp's window.
const WINDOW_BYTES: u32 = WINDOW * LINE_WORDS * 8;

/// Threads of a block of [`GetSorted`].
pub const SORTED_THREADS: u32 = 768;

/// Looks up a batch of sorted keys. One warp per [`SORTED_TILE`] queries; any grid of blocks of at most [`SORTED_THREADS`]
/// threads, with shared memory for the table and a window for each warp.
#[derive(Debug)]
pub struct GetSorted<K, V>(PhantomData<(K, V)>);

/// Bytes of shared memory per thread that [`GetSorted`] needs beside the table.
pub const SORTED_BYTES: u32 = WINDOW_BYTES / WARP;

impl<K: KeyWord, V: Word> Kernel for GetSorted<K, V> {
    type Args = GetArgs<K, V>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: SORTED_THREADS, blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let warps = simt.grid_dim() * (simt.block_dim() / WARP);
        let mut tile = u64::from(simt.block_index() * (simt.block_dim() / WARP) + simt.warp()) * u64::from(SORTED_TILE);
        // SAFETY: there are as many queries; the tree is valid and has pairs.
        unsafe {
            load_top(simt, tree);
            while tile < args.count {
                // The first query of each part, and of the part after the last one.
                let index = tile + u64::from(simt.lane()) * u64::from(PART);
                let index = if index < args.count { index } else { args.count - 1 };
                let bound = tree.load(simt, args.queries, index, args.count);
                let line = tree.line_of_any(simt, bound);
                let mut part = 0;
                while part < PARTS && tile + u64::from(part * PART) < args.count {
                    let span = Span {
                        first: simt.shuffle(FULL_MASK, bound, part),
                        last: simt.shuffle(FULL_MASK, bound, part + 1),
                        from: simt.shuffle(FULL_MASK, line, part),
                        to: simt.shuffle(FULL_MASK, line, part + 1),
                    };
                    look_up_part(simt, args, tile + u64::from(part * PART), &span);
                    part += 1;
                }
                tile += u64::from(warps) * u64::from(SORTED_TILE);
            }
        }
    }
}

/// What sorted queries lie between.
struct Span<K> {
    /// The first query, and one that is not below the last.
    first: K,
    last: K,
    /// Their lines.
    from: u32,
    to: u32,
}

/// Warp collective (all lanes). Looks up the queries of the part that begins with `start`.
///
/// # Safety
/// As for the kernel; `start` is a query.
#[inline(always)]
unsafe fn look_up_part<S: Simt, K: KeyWord, V: Word>(simt: S, args: &GetArgs<K, V>, start: u64, span: &Span<K>) {
    let tree = &args.tree;
    let at = |j: usize| start + j as u64 * u64::from(WARP) + u64::from(simt.lane());
    let own: [K; OWN] = core::array::from_fn(|j| {
        // Past the last query, the last query is repeated.
        let index = if at(j) < args.count { at(j) } else { args.count - 1 };
        // SAFETY: a query.
        unsafe { tree.load(simt, args.queries, index, args.count) }
    });
    let mut is_between = span.to.wrapping_sub(span.from) < WINDOW;
    for key in own {
        is_between &= key >= span.first && key <= span.last;
    }
    let is_near = simt.all(FULL_MASK, is_between);
    let mut round = 0;
    // SAFETY: lines of the tree; a warp's own window.
    unsafe {
        if !is_near {
            // Not unrolled: the descent is long.
            while round < OWN as u32 {
                let index = start + u64::from(simt.opaque(round) * WARP + simt.lane());
                let key = tree.load(simt, args.queries, index, args.count);
                let line = tree.line_of_any(simt, key);
                let (mut value, mut is_hit) = (args.miss, false);
                let mut slot = 0;
                while slot < line_slots::<K, V>() {
                    let (other, of_other) = tree.pair::<S, V>(simt, line, slot);
                    if other == key {
                        (value, is_hit) = (of_other, index < args.count);
                    }
                    slot += 1;
                }
                if index < args.count {
                    simt.store(args.values, index, value, Hint::Streaming);
                }
                store_hits(simt, args.hits, index, is_hit, args.count);
                round += 1;
            }
            return;
        }
        let slots = line_slots::<K, V>();
        let window = found_at(tree.top_count) + simt.warp() * WINDOW_BYTES;
        // Values first, if they are wider.
        let (keys, values) = if has_values_beside::<K>() {
            // The values stay where they are.
            (Shared::<K>::at(window, WINDOW * slots), Shared::<V>::at(window, 0))
        } else if K::BITS >= V::BITS {
            let keys = Shared::<K>::at(window, WINDOW * slots);
            (keys, Shared::<V>::at(keys.end(), WINDOW * slots))
        } else {
            let values = Shared::<V>::at(window, WINDOW * slots);
            (Shared::<K>::at(values.end(), WINDOW * slots), values)
        };
        let lines = span.to - span.from + 1;
        let mut chunk = simt.lane();
        while chunk < lines * (LINE_WORDS / 2) {
            let from = u64::from(span.from) * u64::from(LINE_WORDS / 2) + u64::from(chunk);
            let pairs = pairs_of::<K, V>(tree.chunk::<S, V>(simt, from));
            let to = chunk * chunk_slots::<K, V>();
            simt.shared_store(keys, to, pairs[0].0);
            if !has_values_beside::<K>() {
                simt.shared_store(values, to, pairs[0].1);
            }
            if chunk_slots::<K, V>() == 2 {
                simt.shared_store(keys, to + 1, pairs[1].0);
                simt.shared_store(values, to + 1, pairs[1].1);
            }
            chunk += WARP;
        }
        simt.sync_warp(FULL_MASK);
        // Halving, always inside the window: no branch separates the probes of one step.
        let len = lines * slots;
        let mut below = [0_u32; OWN];
        let mut left = len;
        while left > 1 {
            let half = left / 2;
            let probes: [K; OWN] = core::array::from_fn(|j| simt.shared_load(keys, below[j] + half - 1));
            for j in 0..OWN {
                below[j] += if probes[j] < own[j] { half } else { 0 };
            }
            left -= half;
        }
        unroll!(OWN, j => {
            // The halving leaves one slot, or the one after it.
            if simt.shared_load(keys, below[j]) < own[j] && below[j] + 1 < len {
                below[j] += 1;
            }
            let is_hit = simt.shared_load(keys, below[j]) == own[j] && at(j) < args.count;
            let value = match is_hit {
                true if has_values_beside::<K>() => {
                    tree.value(simt, span.from + below[j] / slots, below[j] % slots, args.miss)
                }
                true => simt.shared_load(values, below[j]),
                false => args.miss,
            };
            if at(j) < args.count {
                simt.store(args.values, at(j), value, Hint::Streaming);
            }
            store_hits(simt, args.hits, at(j), is_hit, args.count);
        });
        simt.sync_warp(FULL_MASK);
    }
}

impl<K: KeyWord> TreeRef<K> {
    /// Warp collective (all lanes). The line of each lane's word, which may be absent.
    ///
    /// # Safety
    /// As [`TreeRef::descend`].
    #[inline(always)]
    unsafe fn line_of_any<S: Simt>(&self, simt: S, word: K) -> u32 {
        // SAFETY: the same contract.
        unsafe {
            let (numbers, _) = self.descend::<S, true>(simt, word);
            let first = self.first_of(simt, own(simt, numbers));
            own(simt, self.children::<S, true>(simt, numbers, word, first, self.formats).numbers())
        }
    }
}
