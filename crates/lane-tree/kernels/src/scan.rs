//! Scans: ranges that are known by their first key and the number of their pairs. Their results lie at a fixed distance, so
//! one kernel finds and copies them: nothing is to be summed up in between.

use crate::layout::{MOST_CHUNK_SLOTS, chunk_slots, pairs_of};
use crate::queries::{Tiles, ordered_bounds};
use crate::range::CHUNKS;
use crate::search::{TABLE_BYTES, TreeRef};
use crate::values;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Simt, WARP, kernel_args, unroll,
};

kernel_args! {
    /// Arguments of [`Scan`].
    pub struct ScanArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// Where scans begin: `[count]`.
        pub starts: Global<K>,
        /// How many there are.
        pub count: u64,
        /// Most pairs of each, of 32 bits.
        pub limit: u64,
        /// Out: `[count * limit]`, the keys of the first pairs from `starts[i]` on, from `keys[i * limit]` on.
        pub keys: GlobalMut<K>,
        /// Out: `[count * limit]`, their values.
        pub values: GlobalMut<V>,
        /// Out: `[count]`, how many pairs there are.
        pub counts: GlobalMut<u32>,
    }
}

/// The lanes per scan with which [`Scan`] is compiled.
pub const SCAN_WIDTHS: [u32; 2] = [16, 32];

/// The lines that a scan reads at a time for so many pairs more: as if none of their slots were free, and one for slots that are; at
/// first another one, for the pairs before its start.
#[inline(always)]
const fn lines_for<K: KeyWord, V: Value>(pairs: u32, is_first: bool) -> u32 {
    pairs.div_ceil(chunk_slots::<K, V>() * CHUNKS) + 1 + is_first as u32
}

/// Whether a scan of so many pairs is best made with the fewest of [`SCAN_WIDTHS`].
pub const fn is_narrow<K: KeyWord, V: Value>(limit: u32) -> bool {
    lines_for::<K, V>(limit, true) * CHUNKS <= SCAN_WIDTHS[0]
}

/// Scans that a lane has a part in at a time: their loads overlap.
const AT_ONCE: usize = 4;

/// Scans a batch: a query per lane finds the line, `G` lanes copy the pairs from there on; launched as [`Rank`](crate::Rank).
#[derive(Debug)]
pub struct Scan<K, V, const G: u32>(PhantomData<(K, V)>);

/// How far a scan has come.
#[derive(Clone, Copy)]
struct Progress<K> {
    /// Where it begins; later the key before the next line.
    from: K,
    /// The next line.
    line: u32,
    /// Pairs that were found.
    pairs: u32,
    /// Whether it needs more.
    is_open: bool,
}

impl<K: KeyWord, V: Value, const G: u32> Kernel for Scan<K, V, G> {
    type Args = ScanArgs<K, V>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = ordered_bounds::<K>();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        // Scans that a warp copies at a time, in each of so many steps.
        let groups = WARP / G;
        let group = simt.lane() / G;
        // SAFETY: there are as many scans, and the tree is valid.
        unsafe {
            let mut tiles = Tiles::new(simt, tree, args.starts, args.count);
            while let Some(word) = tiles.word(simt) {
                let first = tiles.at - u64::from(simt.lane());
                let mut line = 0;
                if tree.height > 0 {
                    line = tree.line_of_any::<S, V>(simt, word);
                }
                let mut own_pairs = 0;
                let mut step = 0;
                while step < G {
                    let number = first + u64::from(step * groups + group);
                    let mut scans: [Progress<K>; AT_ONCE] = core::array::from_fn(|i| {
                        let lane = (step + i as u32) * groups + group;
                        let (from, line) = (simt.shuffle(FULL_MASK, word, lane), simt.shuffle(FULL_MASK, line, lane));
                        let is_open = tree.height > 0 && first + u64::from(lane) < args.count && args.limit > 0;
                        Progress { from, line, pairs: 0, is_open }
                    });
                    copy::<S, K, V, G>(simt, args, number, &mut scans);
                    unroll!(AT_ONCE, i => {
                        // From the first lane of those that have copied them.
                        let pairs = simt.shuffle(FULL_MASK, scans[i].pairs, simt.lane() % groups * G);
                        if simt.lane() / groups == step + i as u32 {
                            own_pairs = pairs;
                        }
                    });
                    step += AT_ONCE as u32;
                }
                if simt.opaque(tiles.at) < args.count {
                    simt.store(args.counts, tiles.at, own_pairs, Hint::Streaming);
                }
                tiles.advance(simt);
            }
        }
    }
}

/// Warp collective (all lanes), with `G` lanes for each scan, which agree on it. Copies pairs until no scan needs more; they are
/// every `WARP / G`th of the batch from a number on.
///
/// # Safety
/// The tree is valid, the lines are those of the keys, and the outputs have the scans' places.
#[inline(always)]
unsafe fn copy<S: Simt, K: KeyWord, V: Value, const G: u32>(
    simt: S,
    args: &ScanArgs<K, V>,
    number: u64,
    scans: &mut [Progress<K>; AT_ONCE],
) {
    let (tree, limit) = (&args.tree, args.limit as u32);
    let (within, leader) = (simt.lane() % G, simt.lane() / G * G);
    let lanes = if G == WARP { FULL_MASK } else { ((1 << G) - 1) << leader };
    let slots = chunk_slots::<K, V>();
    let mut is_first_round = true;
    // SAFETY: the caller's.
    unsafe {
        while simt.any(FULL_MASK, scans[0].is_open | scans[1].is_open | scans[2].is_open | scans[3].is_open) {
            // How many lines each reads; the lanes past these have none.
            let reach: [u32; AT_ONCE] = core::array::from_fn(|i| {
                let wanted = lines_for::<K, V>(limit - scans[i].pairs, is_first_round).min(G / CHUNKS);
                if scans[i].is_open { wanted.min(tree.line_count - scans[i].line) } else { 0 }
            });
            let words: [[u64; 2]; AT_ONCE] = core::array::from_fn(|i| {
                let chunk = u64::from(scans[i].line) * u64::from(CHUNKS) + u64::from(within);
                if within < reach[i] * CHUNKS { tree.chunk::<S, V>(simt, chunk) } else { [0; 2] }
            });
            unroll!(AT_ONCE, i => {
                let scan = &mut scans[i];
                let pairs = pairs_of::<K, V>(words[i]);
                let last = pairs[MOST_CHUNK_SLOTS - 1].0;
                let left = simt.shuffle_up(FULL_MASK, last, 1);
                let mut new = [false; MOST_CHUNK_SLOTS];
                let (mut place, mut count) = (0, 0);
                unroll!(MOST_CHUNK_SLOTS, slot => {
                    if (slot as u32) < slots {
                        let key = pairs[slot].0;
                        // Free slots repeat what is before them. At first that is not known, and the scan may begin with this key.
                        let is_next = match (slot, within) {
                            (0, 0) => is_first_round || key > scan.from,
                            (0, _) => key > left,
                            _ => key > pairs[slot.saturating_sub(1)].0,
                        };
                        new[slot] = within < reach[i] * CHUNKS && is_next && key >= scan.from;
                        let mask = simt.ballot(FULL_MASK, new[slot]) & lanes;
                        place += (mask & simt.lanes_below()).count_ones();
                        count += mask.count_ones();
                    }
                });
                for (slot, &(key, value)) in pairs.iter().enumerate() {
                    let to = scan.pairs + place;
                    place += u32::from(new[slot]);
                    if new[slot] && to < limit {
                        let value = tree.value(simt, scan.line + within / CHUNKS, within % CHUNKS, value);
                        let to = (number + (i as u32 * (WARP / G)) as u64) * args.limit + u64::from(to);
                        simt.store(args.keys, to, key.xor(tree.flip), Hint::Streaming);
                        values::store(simt, args.values, to, value, Hint::Streaming);
                    }
                }
                // The last line that was read, if any was.
                let is_read = reach[i] > 0;
                let at = scan.line + reach[i] - u32::from(is_read);
                let key = simt.shuffle(FULL_MASK, last, leader + (reach[i] * CHUNKS).saturating_sub(1));
                scan.from = if is_read && key > scan.from { key } else { scan.from };
                scan.line += reach[i];
                scan.pairs = (scan.pairs + count).min(limit);
                // All lines but the first have pairs from the start on; so this one is free, and so is the rest of its node.
                let is_free = is_read && count == 0;
                if simt.any(FULL_MASK, is_free) {
                    let end = tree.end_of_node(simt, at);
                    scan.line = if is_free { end } else { scan.line };
                }
                scan.is_open = is_read && scan.pairs < limit && scan.line < tree.line_count;
            });
            is_first_round = false;
        }
    }
}
