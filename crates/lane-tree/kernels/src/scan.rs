//! Scans: ranges that are known by their first key and the number of their pairs. Their results lie at a fixed distance, so
//! one kernel finds and copies them: nothing is to be summed up in between.

use crate::layout::{MOST_CHUNK_SLOTS, chunk_slots, pairs_of};
use crate::queries::Tiles;
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

/// Scans whose first lines a lane has on their way at a time.
const AHEAD: usize = 4;

/// Most threads of a block of scans, which take more registers than other queries.
pub const fn scan_threads<K: KeyWord>() -> u32 {
    if K::BITS == 128 { 512 } else { 640 }
}

/// Scans a batch: a query per lane finds the line, `G` lanes copy the pairs from there on; launched as
/// [`Rank`](crate::Rank), in blocks of at most [`scan_threads`].
#[derive(Debug)]
pub struct Scan<K, V, const G: u32>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value, const G: u32> Kernel for Scan<K, V, G> {
    type Args = ScanArgs<K, V>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: scan_threads::<K>(), blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, limit) = (&args.tree, args.limit as u32);
        // In each of `G` steps a warp copies so many scans.
        let groups = WARP / G;
        let (group, within) = (simt.lane() / G, simt.lane() % G);
        // SAFETY: there are as many scans, and the tree is valid.
        unsafe {
            let mut tiles = Tiles::new(simt, tree, args.starts, args.count);
            while let Some(word) = tiles.word(simt) {
                let first = tiles.at - u64::from(simt.lane());
                // Scans that want no pairs, and those past the last one, begin after the last line.
                let mut line = tree.line_count;
                if tree.height > 0 && limit > 0 {
                    let of_word = tree.line_of_any::<S, V>(simt, word);
                    line = if tiles.at < args.count { of_word } else { line };
                }
                let mut own_pairs = 0;
                let lane = |step: u32| step * groups + group;
                let load = |step: u32| {
                    let line = simt.shuffle(FULL_MASK, line, lane(step) % WARP);
                    let reach = reach::<K, V, G>(tree, line, limit, true);
                    let is_read = step < G && within < reach * CHUNKS;
                    if is_read { chunk_from::<S, K, V>(simt, tree, line, within) } else { [0; 2] }
                };
                let mut ahead: [[u64; 2]; AHEAD] = core::array::from_fn(|i| load(i as u32));
                let mut step = 0;
                while step < G {
                    unroll!(AHEAD, i => {
                        let words = ahead[i];
                        ahead[i] = load(step + (i + AHEAD) as u32);
                        let lane = lane(step + i as u32);
                        let start = (simt.shuffle(FULL_MASK, word, lane), simt.shuffle(FULL_MASK, line, lane));
                        let pairs = copy::<S, K, V, G>(simt, args, first + u64::from(lane), start, words);
                        // From the first lane of those that have copied it.
                        let pairs = simt.shuffle(FULL_MASK, pairs, simt.lane() % groups * G);
                        if simt.lane() / groups == step + i as u32 {
                            own_pairs = pairs;
                        }
                    });
                    step += AHEAD as u32;
                }
                if simt.opaque(tiles.at) < args.count {
                    simt.store(args.counts, tiles.at, own_pairs, Hint::Streaming);
                }
                tiles.advance(simt);
            }
        }
    }
}

/// Per thread. How many lines a scan reads from one on, for so many pairs more; 0 from the end on.
#[inline(always)]
fn reach<K: KeyWord, V: Value, const G: u32>(tree: &TreeRef<K>, line: u32, pairs: u32, is_first: bool) -> u32 {
    lines_for::<K, V>(pairs, is_first).min(G / CHUNKS).min(tree.line_count - line)
}

/// Per thread. The chunk that is so many after the first one of a line.
///
/// # Safety
/// There is such a chunk.
#[inline(always)]
unsafe fn chunk_from<S: Simt, K: KeyWord, V: Value>(simt: S, tree: &TreeRef<K>, line: u32, within: u32) -> [u64; 2] {
    // SAFETY: the caller's contract.
    unsafe { tree.chunk::<S, V>(simt, u64::from(line) * u64::from(CHUNKS) + u64::from(within)) }
}

/// Warp collective (all lanes), with `G` lanes for each scan, which agree on it. Copies a scan's pairs, beginning with what the lanes
/// have of its first lines; how many they were.
///
/// # Safety
/// The tree is valid, the line is that of the key or the end, and the outputs have the scan's places.
#[inline(always)]
unsafe fn copy<S: Simt, K: KeyWord, V: Value, const G: u32>(
    simt: S,
    args: &ScanArgs<K, V>,
    number: u64,
    (mut from, mut line): (K, u32),
    mut words: [u64; 2],
) -> u32 {
    let (tree, limit) = (&args.tree, args.limit as u32);
    let (within, leader) = (simt.lane() % G, simt.lane() / G * G);
    let lanes = if G == WARP { FULL_MASK } else { ((1 << G) - 1) << leader };
    let slots = chunk_slots::<K, V>();
    let (mut is_first, mut found) = (true, 0);
    // SAFETY: the caller's.
    unsafe {
        loop {
            let reach = reach::<K, V, G>(tree, line, limit - found, is_first);
            let is_read = within < reach * CHUNKS;
            let pairs = pairs_of::<K, V>(words);
            let last = pairs[MOST_CHUNK_SLOTS - 1].0;
            let left = simt.shuffle_up(FULL_MASK, last, 1);
            let mut new = [false; MOST_CHUNK_SLOTS];
            let (mut place, mut count) = (found, 0);
            unroll!(MOST_CHUNK_SLOTS, slot => {
                if (slot as u32) < slots {
                    let key = pairs[slot].0;
                    // Free slots repeat what is before them. At first that is not known, and the scan may begin with this key.
                    let is_next = match (slot, within) {
                        (0, 0) => is_first || key > from,
                        (0, _) => key > left,
                        _ => key > pairs[slot.saturating_sub(1)].0,
                    };
                    new[slot] = is_read && is_next && key >= from;
                    let mask = simt.ballot(FULL_MASK, new[slot]) & lanes;
                    place += (mask & simt.lanes_below()).count_ones();
                    count += mask.count_ones();
                }
            });
            for (slot, &(key, value)) in pairs.iter().enumerate() {
                let to = place;
                place += u32::from(new[slot]);
                if new[slot] && to < limit {
                    let value = tree.value(simt, line + within / CHUNKS, within % CHUNKS, value);
                    let to = number * args.limit + u64::from(to);
                    simt.store(args.keys, to, key.xor(tree.flip), Hint::Streaming);
                    values::store(simt, args.values, to, value, Hint::Streaming);
                }
            }
            found = (found + count).min(limit);
            let is_open = reach > 0 && found < limit;
            if !simt.any(FULL_MASK, is_open) {
                return found;
            }
            let key = simt.shuffle(FULL_MASK, last, leader + (reach * CHUNKS).saturating_sub(1));
            from = if key > from { key } else { from };
            // All lines but the first have pairs from the start on; so if there were none, the last one that was read is free, and so
            // is the rest of its node.
            let at = line + reach.saturating_sub(1);
            line += reach;
            if simt.any(FULL_MASK, is_open && count == 0) {
                let end = tree.end_of_node(simt, at);
                line = if count == 0 { end } else { line };
            }
            // A scan that has all its pairs reads no more.
            line = if is_open { line } else { tree.line_count };
            is_first = false;
            let wanted = self::reach::<K, V, G>(tree, line, limit - found, is_first);
            words = if within < wanted * CHUNKS { chunk_from::<S, K, V>(simt, tree, line, within) } else { [0; 2] };
        }
    }
}
