//! Scans: ranges that are known by their first key and the number of their pairs. Their results lie at a fixed distance, so
//! one kernel finds and copies them: nothing is to be summed up in between.

use crate::layout::{MOST_CHUNK_SLOTS, bucket_slots, chunk_slots, pairs_of};
use crate::quads::{QUAD, own};
use crate::queries::{Tiles, ordered_bounds};
use crate::search::{Above, TABLE_BYTES, TreeRef};
use crate::values;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, Hint, Kernel, KeyWord, LaunchBounds, QueryArgs, ScanBatch, Simt, unroll};

/// Arguments of [`Scan`].
pub type ScanArgs<K, V> = QueryArgs<TreeRef<K>, ScanBatch<K, V>>;

/// Buckets that four lanes read at a time, a quarter of each per lane.
const AT_ONCE: u32 = 4;

/// The buckets that a scan reads for `pairs` pairs: as many as are needed if no slot is free, one more for free slots,
/// and one for the pairs before its start.
const fn buckets_for<K: KeyWord, V: Value>(pairs: u32) -> u32 {
    pairs.div_ceil(bucket_slots::<K, V>()) + 2
}

/// Whether scans of `limit` pairs are for [`Scan`]: scans whose buckets are mostly read at once. Longer ones are for
/// [`ScanWide`](crate::ScanWide).
pub const fn is_short_scan<K: KeyWord, V: Value>(limit: u32) -> bool {
    buckets_for::<K, V>(limit) <= AT_ONCE
}

/// Scans a batch: a query per lane finds the bucket; then four lanes copy the pairs of each of their four scans in turn. Launched
/// as [`Rank`](crate::Rank).
#[derive(Debug)]
pub struct Scan<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Scan<K, V> {
    type Args = ScanArgs<K, V>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = ordered_bounds::<K>();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let QueryArgs { tree, batch } = args;
        // SAFETY: there are as many scans, and the tree is valid.
        unsafe {
            let mut tiles = Tiles::new(simt, tree, args.starts, args.count);
            while let Some(word) = tiles.word(simt) {
                scan_row(simt, (tree, tree.first_top()), batch, (tiles.at, word));
                tiles.advance(simt);
            }
        }
    }
}

/// Warp collective (all lanes). Makes the scans from each lane's word on, of which the lane's own has the position `at`; none past the last.
///
/// # Safety
/// The tree is valid and its table is there; the outputs have the scans' positions.
#[inline(always)]
pub(crate) unsafe fn scan_row<S: Simt, K: KeyWord, V: Value>(
    simt: S,
    (tree, top): (&TreeRef<K>, impl Above),
    batch: &ScanBatch<K, V>,
    (at, word): (u64, K),
) {
    let (within, leader) = (simt.lane() % QUAD, simt.lane() / QUAD * QUAD);
    // SAFETY: the caller's.
    unsafe {
        // Scans that want no pairs, and those past the last one, have no buckets.
        let (mut node, mut bucket) = (tree.leaf_nodes, 0);
        if tree.height > 0 && batch.limit > 0 {
            let (descent, own_node) = tree.descend_any::<S, V>(simt, top, word);
            if at < batch.count {
                (node, bucket) = (own_node, own(simt, descent.children.numbers()));
            }
        }
        let first = at - u64::from(within);
        let mut own_pairs = 0;
        let mut next = 0;
        // Not unrolled: the copy is long, and waits for its loads.
        while next < QUAD {
            let scan = simt.opaque(next);
            let source = leader + scan;
            let of_source = |word: u32| simt.shuffle(FULL_MASK, word, source);
            let start = (simt.shuffle(FULL_MASK, word, source), of_source(node), of_source(bucket));
            let pairs = copy::<S, K, V>(simt, (tree, batch), first + u64::from(scan), start);
            if within == scan {
                own_pairs = pairs;
            }
            next += 1;
        }
        if simt.opaque(at) < batch.count {
            simt.store(batch.counts, at, own_pairs, Hint::Streaming);
        }
    }
}

/// Warp collective (all lanes), with four lanes for each scan, which agree on it. Copies a scan's pairs from a key on, which is in
/// a bucket of a node or would be, or from none if there is no such node; how many they were.
///
/// # Safety
/// The tree is valid, the bucket is the key's, and the outputs have the scan's positions.
#[inline(always)]
unsafe fn copy<S: Simt, K: KeyWord, V: Value>(
    simt: S,
    (tree, batch): (&TreeRef<K>, &ScanBatch<K, V>),
    number: u64,
    (mut from, mut node, mut bucket): (K, u32, u32),
) -> u32 {
    let limit = batch.limit as u32;
    let (within, leader) = (simt.lane() % QUAD, simt.lane() / QUAD * QUAD);
    let slots = chunk_slots::<K, V>();
    let (mut to, mut left) = (number * batch.limit, limit);
    let mut is_first = true;
    // SAFETY: the caller's.
    unsafe {
        loop {
            let mut buckets = if node < tree.leaf_nodes { tree.walk(simt, node, bucket) } else { tree.no_buckets() };
            if buckets.bucket >= buckets.end {
                buckets = tree.next_node(simt, buckets);
            }
            (node, bucket) = (buckets.node, buckets.bucket);
            // As if no slot were free, and a bucket for slots that are; at first another one, for the pairs before the start.
            let wanted = left.div_ceil(bucket_slots::<K, V>()) + 1 + u32::from(is_first);
            let reach = wanted.min(AT_ONCE).min(buckets.end - bucket);
            let words: [[u64; 2]; AT_ONCE as usize] = core::array::from_fn(|round| {
                let chunk = (u64::from(bucket) + round as u64) * u64::from(QUAD) + u64::from(within);
                if (round as u32) < reach { tree.chunk::<S, V>(simt, chunk) } else { [0; 2] }
            });
            let mut found = 0;
            unroll!(AT_ONCE as usize, round => {
                let is_read = (round as u32) < reach;
                let pairs = pairs_of::<K, V>(words[round]);
                let last = pairs[MOST_CHUNK_SLOTS - 1].0;
                let of_left = simt.shuffle_up(FULL_MASK, last, 1);
                let mut position = found;
                let mut new = [false; MOST_CHUNK_SLOTS];
                unroll!(MOST_CHUNK_SLOTS, slot => {
                    if (slot as u32) < slots {
                        let key = pairs[slot].0;
                        // Free slots repeat what is before them. At first that is not known, and the scan may begin with this key.
                        let is_next = match (slot, within) {
                            (0, 0) => is_first && round == 0 || key > from,
                            (0, _) => key > of_left,
                            _ => key > pairs[slot.saturating_sub(1)].0,
                        };
                        new[slot] = is_read && is_next && key >= from;
                        let mask = simt.ballot(FULL_MASK, new[slot]) >> leader & 15;
                        position += (mask & ((1 << within) - 1)).count_ones();
                        found += mask.count_ones();
                    }
                });
                for (slot, &(key, value)) in pairs.iter().enumerate() {
                    let own = position;
                    position += u32::from(new[slot]);
                    if new[slot] && own < left {
                        let value = tree.value(simt, bucket + round as u32, within, value);
                        simt.store(batch.keys, to + u64::from(own), key.xor(tree.flip), Hint::Streaming);
                        values::store(simt, batch.values, to + u64::from(own), value, Hint::Streaming);
                    }
                }
                let last = simt.shuffle(FULL_MASK, last, leader + QUAD - 1);
                from = if is_read && last > from { last } else { from };
            });
            let is_open = reach > 0 && found < left;
            to += u64::from(found);
            left = left.saturating_sub(found);
            if !simt.any(FULL_MASK, is_open) {
                return limit - left;
            }
            // All buckets but the first have pairs from the start on; so if there were none, the last one that was read is free,
            // and so is the rest of its node.
            bucket = if found == 0 { u32::MAX } else { bucket + reach };
            // A scan that has all its pairs reads no more.
            node = if is_open { node } else { tree.leaf_nodes };
            is_first = false;
        }
    }
}
