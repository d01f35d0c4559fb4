//! Longer scans: a warp reads eight buckets of one at a time.

use crate::layout::{MOST_CHUNK_SLOTS, chunk_slots, pairs_of};
use crate::queries::Tiles;
use crate::range::CHUNKS;
use crate::scan::ScanArgs;
use crate::search::{TABLE_BYTES, TreeRef};
use crate::values;
use crate::walk::Walk;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, Hint, Kernel, KeyWord, LaunchBounds, Simt, WARP, unroll};

/// The buckets that a scan reads at a time for `pairs` more pairs: as many as are needed if no slot is free, and one
/// more for free slots; at first another one, for the pairs before its start.
#[inline(always)]
const fn buckets_for<K: KeyWord, V: Value>(pairs: u32, is_first: bool) -> u32 {
    pairs.div_ceil(chunk_slots::<K, V>() * CHUNKS) + 1 + is_first as u32
}

/// Scans whose first buckets a lane has on their way at a time.
const AHEAD: usize = 4;

/// Most threads of a block of [`ScanWide`], which takes more registers than other queries.
pub const fn scan_wide_threads<K: KeyWord>() -> u32 {
    if K::BITS == 128 { 512 } else { 640 }
}

/// Scans a batch, as [`Scan`](crate::Scan), but a warp copies the pairs of each of its scans in turn; in blocks of at most
/// [`scan_wide_threads`].
#[derive(Debug)]
pub struct ScanWide<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for ScanWide<K, V> {
    type Args = ScanArgs<K, V>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: scan_wide_threads::<K>(), blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, limit) = (&args.tree, args.limit as u32);
        // SAFETY: there are as many scans, and the tree is valid.
        unsafe {
            let mut tiles = Tiles::new(simt, tree, args.starts, args.count);
            while let Some(word) = tiles.word(simt) {
                let first = tiles.at - u64::from(simt.lane());
                // Scans that want no pairs, and those past the last one, have no buckets.
                let mut buckets = tree.no_buckets();
                if tree.height > 0 && limit > 0 {
                    let of_word = tree.walk_of_any::<S, V>(simt, tree.first_top(), word);
                    buckets = if tiles.at < args.count { of_word } else { buckets };
                }
                let mut own_pairs = 0;
                let load = |scan: u32| {
                    let buckets = buckets.of_lane(simt, scan % WARP);
                    let reach = reach::<K, V>(buckets, limit, true);
                    let is_read = scan < WARP && simt.lane() < reach * CHUNKS;
                    if is_read { chunk_from::<S, K, V>(simt, tree, buckets.bucket) } else { [0; 2] }
                };
                let mut ahead: [[u64; 2]; AHEAD] = core::array::from_fn(|i| load(i as u32));
                let mut next = 0;
                while next < WARP {
                    unroll!(AHEAD, i => {
                        let (words, scan) = (ahead[i], next + i as u32);
                        ahead[i] = load(scan + AHEAD as u32);
                        let start = (simt.shuffle(FULL_MASK, word, scan), buckets.of_lane(simt, scan));
                        let pairs = copy::<S, K, V>(simt, args, first + u64::from(scan), start, words);
                        if simt.lane() == scan {
                            own_pairs = pairs;
                        }
                    });
                    next += AHEAD as u32;
                }
                if simt.opaque(tiles.at) < args.count {
                    simt.store(args.counts, tiles.at, own_pairs, Hint::Streaming);
                }
                tiles.advance(simt);
            }
        }
    }
}

/// How many buckets of a node a scan reads, for `pairs` more pairs; 0 if there are no buckets.
#[inline(always)]
fn reach<K: KeyWord, V: Value>(buckets: Walk, pairs: u32, is_first: bool) -> u32 {
    buckets_for::<K, V>(pairs, is_first).min(WARP / CHUNKS).min(buckets.end - buckets.bucket)
}

/// Per thread. The lane's chunk of a bucket and those after it.
///
/// # Safety
/// There is such a chunk.
#[inline(always)]
unsafe fn chunk_from<S: Simt, K: KeyWord, V: Value>(simt: S, tree: &TreeRef<K>, bucket: u32) -> [u64; 2] {
    // SAFETY: the caller's contract.
    unsafe { tree.chunk::<S, V>(simt, u64::from(bucket) * u64::from(CHUNKS) + u64::from(simt.lane())) }
}

/// Warp collective (all lanes). Copies a scan's pairs, beginning with what the lanes have of its first buckets; how many they were.
///
/// # Safety
/// The tree is valid, the buckets are those from the key on or none, and the outputs have the scan's positions.
#[inline(always)]
unsafe fn copy<S: Simt, K: KeyWord, V: Value>(
    simt: S,
    args: &ScanArgs<K, V>,
    number: u64,
    (mut from, mut buckets): (K, Walk),
    mut words: [u64; 2],
) -> u32 {
    let (tree, limit) = (&args.tree, args.limit as u32);
    let (within, slots) = (simt.lane(), chunk_slots::<K, V>());
    let (mut to, mut left) = (number * args.limit, limit);
    let mut is_first = true;
    // SAFETY: the caller's.
    unsafe {
        loop {
            let reach = reach::<K, V>(buckets, left, is_first);
            let is_read = within < reach * CHUNKS;
            let pairs = pairs_of::<K, V>(words);
            let last = pairs[MOST_CHUNK_SLOTS - 1].0;
            let of_left = simt.shuffle_up(FULL_MASK, last, 1);
            let mut new = [false; MOST_CHUNK_SLOTS];
            let (mut position, mut found) = (0, 0);
            unroll!(MOST_CHUNK_SLOTS, slot => {
                if (slot as u32) < slots {
                    let key = pairs[slot].0;
                    // Free slots repeat what is before them. At first that is not known, and the scan may begin with this key.
                    let is_next = match (slot, within) {
                        (0, 0) => is_first || key > from,
                        (0, _) => key > of_left,
                        _ => key > pairs[slot.saturating_sub(1)].0,
                    };
                    new[slot] = is_read && is_next && key >= from;
                    let mask = simt.ballot(FULL_MASK, new[slot]);
                    position += (mask & simt.lanes_below()).count_ones();
                    found += mask.count_ones();
                }
            });
            for (slot, &(key, value)) in pairs.iter().enumerate() {
                let own = position;
                position += u32::from(new[slot]);
                if new[slot] && own < left {
                    let value = tree.value(simt, buckets.bucket + within / CHUNKS, within % CHUNKS, value);
                    simt.store(args.keys, to + u64::from(own), key.xor(tree.flip), Hint::Streaming);
                    values::store(simt, args.values, to + u64::from(own), value, Hint::Streaming);
                }
            }
            let is_open = reach > 0 && found < left;
            to += u64::from(found);
            left = left.saturating_sub(found);
            // The same for all lanes.
            if !is_open {
                return limit - left;
            }
            let key = simt.shuffle(FULL_MASK, last, reach * CHUNKS - 1);
            from = if key > from { key } else { from };
            // All buckets but the first have pairs from the start on; so if there were none, the last one that was read is free,
            // and so is the rest of its node.
            buckets.bucket = if found == 0 { buckets.end } else { buckets.bucket + reach };
            if buckets.bucket == buckets.end {
                buckets = tree.next_node(simt, buckets);
            }
            is_first = false;
            let wanted = self::reach::<K, V>(buckets, left, is_first);
            words = if within < wanted * CHUNKS { chunk_from::<S, K, V>(simt, tree, buckets.bucket) } else { [0; 2] };
        }
    }
}
