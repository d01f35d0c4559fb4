//! Where things lie in memory: buckets, nodes, records, and how a node quantises keys.
//!
//! ```text
//! a bucket, 64 bytes: four slots of a key and a value, 16 bytes each, or eight slots of 8 bytes if both are 32 bits wide
//! ┌──────────┬──────────┬──────────┬──────────┐
//! │ k0    v0 │ k1    v1 │ k2    v2 │ k2    v2 │   ascending; a slot that is free repeats the pair before it
//! └──────────┴──────────┴──────────┴──────────┘
//!
//! buckets of keys of 128 bits: four slots of a key alone; after two buckets their values of 64 bits, or after four those of 32
//! ┌──────────┬──────────┬──────────┬──────────┐
//! │ k0       │ k1       │ k2       │ k2       │
//! ├──────────┼──────────┼──────────┼──────────┤
//! │ k4       │ k5       │ k6       │ k7       │
//! ├────┬────┬┴───┬────┬─┴──┬────┬──┴─┬────┬───┘
//! │ v0 │ v1 │ v2 │ v2 │ v4 │ v5 │ v6 │ v7 │
//! └────┴────┴────┴────┴────┴────┴────┴────┘
//!
//! buckets of a set: keys alone, 4 of 128 bits, 8 of 64, or 16 of 32
//! ┌─────┬─────┬─────┬─────┬─────┬─────┬─────┬─────┐
//! │ k0  │ k1  │ k2  │ k3  │ k4  │ k4  │ k4  │ k4  │
//! └─────┴─────┴─────┴─────┴─────┴─────┴─────┴─────┘
//!
//! a node, 64 bytes
//! ┌────────────────────────────────────────────────────┬─────────────┬──────────────────────────────────┐
//! │ 14 words of separators                             │ first child │ base:16  rotation:6  code:10     │
//! └────────────────────────────────────────────────────┴─────────────┴──────────────────────────────────┘
//!   bitmap:  448 cells; a set bit is the cell in which a child begins: up to 64 children
//!   halves:  28 separators of 15 bits, two to a word, each below a guard bit: up to 29 children
//!   exact:   3 separators of 128 bits, 7 of 64, or 14 of 32: up to 4, 8 or 15 children
//!
//! a record, 32 bytes, or 48 with keys of 128 bits and in sets, for each node of the lowest level: what ordered queries need in addition
//! ┌───────────┬───────────┬──────────────────────────────────────────────────────────────────┐
//! │ first key │ rank      │ lengths, a plane for each bit of the pairs of a bucket, less one │
//! └───────────┴───────────┴──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A pair with a key of 128 bits and a value of 64 would take 24 bytes, of which two fill three quarters of a bucket. With the keys
//! alone a bucket has four, so there are half as many buckets, and half as many nodes above them; look-ups of absent keys, ranks
//! and bounds read one bucket. A hit reads its value in addition, 32 bytes at most 320 bytes away, once it is known which one. So a
//! pair takes 24 bytes, or 20; with slots that stay free, nodes and records less than 26.7, or 22.4 (random keys, built full).
//!
//! A set has the value `()`, of no bytes. Here it is a key without a value, and kernels load and store no values.
//!
//! The children of a node are consecutive: nodes of the level below or, at the lowest level, buckets. A node maps a key
//! to a small number, its *quantised key*: sixteen bits of the key, less the same bits of the node's base, times a
//! factor. The builder lets a child begin only where the quantised key of a key is larger than that of the key before,
//! so a comparison of quantised keys decides exactly, and no query ever has to look into a second child. Where no such
//! cut can be had, a node is exact: its separators are whole keys.
//!
//! The buckets of a node are consecutive, in the order of their keys; the next node's buckets may be anywhere: an array
//! says for each node which bucket is its last. A bucket of a node that is free repeats the node's last pair.

use core::ops::RangeInclusive;
use lanetree_layout::Value;
use lanetree_simt::{KeyWord, Word, shl_clamped};

/// 32-bit words of a node.
pub const NODE_WORDS: u32 = 16;
/// 64-bit words of a bucket.
pub const BUCKET_WORDS: u32 = 8;
/// 64-bit words of a record.
pub const fn record_words<K: KeyWord, V: Value>() -> u32 {
    if K::BITS == 128 || !V::IS_SOME { 6 } else { 4 }
}
/// The most of them.
pub const MOST_RECORD_WORDS: usize = 6;
/// Planes of a record: bits of the number of pairs in a bucket, less one.
pub const fn planes<K: KeyWord, V: Value>() -> u32 {
    let of_pairs = if K::BITS == 32 { 3 } else { 2 };
    if V::IS_SOME { of_pairs } else { bucket_slots::<K, V>().ilog2() }
}
/// The most of them.
pub const MOST_PLANES: usize = 4;
/// The words of a node that are separators, before the other two. So quantised keys, which are below the number of cells, never
/// reach what looks like cells in those.
pub const SEPARATORS: u32 = NODE_WORDS - 2;
/// The word with the first child's number.
pub const FIRST_CHILD: u32 = SEPARATORS;
/// The word with the quantiser.
pub const QUANTISER: u32 = SEPARATORS + 1;
/// Cells of a bitmap.
pub const CELLS: u32 = SEPARATORS * 32;
/// Most children of a node whose separators are a bitmap.
pub const BITMAP_CHILDREN: u32 = 64;
/// Most children of a node with separators of 15 bits.
pub const HALVES_CHILDREN: u32 = SEPARATORS * 2 + 1;
/// A separator of 15 bits that no query reaches.
pub const UNUSED_HALF: u32 = 0x7fff;
/// Buckets of the table above the nodes.
pub const TABLE_ENTRIES: u32 = 2048;
/// Slots of a bucket.
pub const fn bucket_slots<K: KeyWord, V: Value>() -> u32 {
    BUCKET_WORDS / 2 * chunk_slots::<K, V>()
}
/// The most of them.
pub const MOST_SLOTS: usize = 16;

/// Buckets that a build gives a node beyond those that it needs, if it doesn't fill them: later pairs may make buckets
/// end at other positions.
pub const fn spare_buckets(is_full: bool, buckets: u32) -> u32 {
    let most = BITMAP_CHILDREN.saturating_sub(buckets);
    match buckets / 16 {
        _ if is_full => 0,
        spare if spare < most => spare,
        _ => most,
    }
}

/// Whether buckets have keys alone.
pub const fn has_keys_alone<K: KeyWord, V: Value>() -> bool {
    K::BITS == 128 || !V::IS_SOME
}

/// Whether they have, with the values after every few buckets.
pub const fn has_values_beside<K: KeyWord, V: Value>() -> bool {
    has_keys_alone::<K, V>() && V::IS_SOME
}

/// Buckets that have their values after them, together in 64 bytes.
const fn buckets_of_values<K: KeyWord, V: Value>() -> u32 {
    64 / (bucket_slots::<K, V>() * V::BYTES as u32)
}

/// 64-bit words of `buckets` buckets, with their values.
pub const fn words_of_buckets<K: KeyWord, V: Value>(buckets: u64) -> u64 {
    if !has_values_beside::<K, V>() {
        return buckets * BUCKET_WORDS as u64;
    }
    // The last values come after as many buckets as others.
    let together = buckets_of_values::<K, V>() as u64;
    buckets.div_ceil(together) * (together + 1) * BUCKET_WORDS as u64
}

/// How many buckets have room in `words` 64-bit words, with their values.
pub const fn buckets_in_words<K: KeyWord, V: Value>(words: u64) -> u64 {
    if !has_values_beside::<K, V>() {
        return words / BUCKET_WORDS as u64;
    }
    let together = buckets_of_values::<K, V>() as u64;
    words / ((together + 1) * BUCKET_WORDS as u64) * together
}

/// Where a node begins among all, in 32-bit words.
#[inline(always)]
pub fn node_at(node: impl Into<u64>) -> u64 {
    node.into() * u64::from(NODE_WORDS)
}

/// Where a node's record begins among all, in 64-bit words.
#[inline(always)]
pub fn record_at<K: KeyWord, V: Value>(node: impl Into<u64>) -> u64 {
    node.into() * u64::from(record_words::<K, V>())
}

/// Where a bucket begins among all, in 64-bit words.
#[inline(always)]
pub const fn bucket_at<K: KeyWord, V: Value>(bucket: u32) -> u64 {
    let beside = if has_values_beside::<K, V>() { bucket / buckets_of_values::<K, V>() } else { 0 };
    (bucket as u64 + beside as u64) * BUCKET_WORDS as u64
}

/// Where 16 bytes of buckets begin, in 64-bit words: counted from the first bucket on.
#[inline(always)]
pub const fn chunk_at<K: KeyWord, V: Value>(chunk: u64) -> u64 {
    if !has_values_beside::<K, V>() {
        return chunk * 2;
    }
    let chunks = BUCKET_WORDS as u64 / 2;
    bucket_at::<K, V>((chunk / chunks) as u32) + chunk % chunks * 2
}

/// Where the value of a slot is, if buckets have keys alone: in values, from the first word of all buckets on.
#[inline(always)]
pub const fn value_at<K: KeyWord, V: Value>(bucket: u32, slot: u32) -> u64 {
    let (buckets, bytes) = (buckets_of_values::<K, V>(), V::BYTES as u64);
    let values = bucket_at::<K, V>(bucket - bucket % buckets) * 8 + buckets as u64 * 64;
    values / bytes + (bucket % buckets * bucket_slots::<K, V>() + slot) as u64
}

/// Slots of 16 bytes: 2 for keys and values of 32 bits, otherwise 1; of keys alone as many as there is room for.
pub const fn chunk_slots<K: KeyWord, V: Value>() -> u32 {
    if has_keys_alone::<K, V>() {
        128 / K::BITS
    } else if K::BITS == 32 && V::BYTES == 4 {
        2
    } else {
        1
    }
}

/// The most of them.
pub const MOST_CHUNK_SLOTS: usize = 4;

/// Something for each slot of 16 bytes; slots past the last have a copy of the last one's.
pub type OfChunk<T> = [T; MOST_CHUNK_SLOTS];

/// Most children of an exact node.
pub const fn exact_children<K: KeyWord>() -> u32 {
    SEPARATORS * 32 / K::BITS + 1
}

/// The pairs in 16 bytes of a bucket. If buckets have keys alone, values are 0.
#[inline(always)]
pub fn pairs_of<K: KeyWord, V: Value>(chunk: [u64; 2]) -> OfChunk<(K, V)> {
    let of = |key: u64, value: u64| (K::truncate(key), V::of(KeyWord::truncate(value)));
    let [low, high] = chunk;
    if !has_keys_alone::<K, V>() {
        return match chunk_slots::<K, V>() {
            2 => [of(low, low >> 32), of(high, high >> 32), of(high, high >> 32), of(high, high >> 32)],
            _ => [of(low, high); MOST_CHUNK_SLOTS],
        };
    }
    match K::BITS {
        32 => [of(low, 0), of(low >> 32, 0), of(high, 0), of(high >> 32, 0)],
        64 => [of(low, 0), of(high, 0), of(high, 0), of(high, 0)],
        _ => [(K::from_parts(chunk), V::default()); MOST_CHUNK_SLOTS],
    }
}

/// 16 bytes of a bucket with these pairs, or of keys alone.
#[inline(always)]
pub fn chunk_of<K: KeyWord, V: Value>(pairs: OfChunk<(K, V)>) -> [u64; 2] {
    let low = |slot: usize| pairs[slot].0.parts()[0];
    let value = |slot: usize| pairs[slot].1.word().widen();
    if !has_keys_alone::<K, V>() {
        return match chunk_slots::<K, V>() {
            2 => [low(0) | value(0) << 32, low(1) | value(1) << 32],
            _ => [low(0), value(0)],
        };
    }
    match K::BITS {
        32 => [low(0) | low(1) << 32, low(2) | low(3) << 32],
        64 => [low(0), low(1)],
        _ => pairs[0].0.parts(),
    }
}

/// How a node's separators are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Format {
    /// A bit for each cell in which a child begins.
    Bitmap = 1,
    /// Separators of 15 bits.
    Halves = 2,
    /// Whole keys.
    Exact = 4,
}

/// All formats.
pub const ANY_FORMAT: u32 = Format::Bitmap as u32 | Format::Halves as u32 | Format::Exact as u32;

/// Bits of a level's formats in the word that has them all.
pub const FORMAT_BITS: u32 = 4;

/// How a node maps keys to quantised keys: its second word.
///
/// The window of a key is its 16 low bits after a rotation to the right, less the base. The code has the format and the
/// factor: 0 for exact nodes, whose quantised key is of no meaning; then `factor - 446` for a bitmap, where a quantised key is a
/// cell, `window * factor / 2^16`; then `512 + factor` for quantised keys of 15 bits, `window * factor / 2^8`. With keys of 128
/// bits the base is even, and its lowest bit is the highest of the rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiser(pub u32);

/// The largest window of a node's own keys, before they are shifted; only keys beyond them have a larger one. Windows of the 16
/// highest bits have no keys beyond, and are not shifted.
const LAST_WINDOW: u32 = 0xfbfe;
/// The largest window that is taken for what it is: larger ones, of which a node has none, come to its last child wherever they are
/// cut off before they overflow. What is left between takes up shifted windows, and that the first key may be known only roughly.
const LAST_IN_REACH: u32 = LAST_WINDOW + 0x200;
/// By how much the window of a key may be overestimated as the first key is known only roughly, as a power of two.
const ROUGH_BITS: u32 = 8;
/// In how many ways a bitmap's cells can lie: each shifts them by a part of a cell. Where one has too many keys in a cell, the next
/// may not.
pub const SHIFTS: u32 = 64;
/// The farthest rotation to the left; to the right, it leaves the 16 highest bits.
const MOST_LEFT: i32 = 15;
/// Codes from this one on are of quantised keys of 15 bits.
const HALVES_CODE: u32 = 512;
/// Bitmaps: the factors that a code can say.
const BITMAP_FACTORS: RangeInclusive<u64> = 447..=957;

/// A word's 32 low bits after a rotation to the right.
#[inline(always)]
fn rotated<K: KeyWord>(word: K, rotation: u32) -> u32 {
    if K::BITS == 32 {
        return word.low().rotate_right(rotation);
    }
    let [mut parts, mut after] = word.parts().map(|part| [part as u32, (part >> 32) as u32]);
    if K::BITS == 64 {
        after = parts;
    } else if rotation & 64 != 0 {
        (parts, after) = (after, parts);
    }
    let (low, high) = if rotation & 32 == 0 { (parts[0], parts[1]) } else { (parts[1], after[0]) };
    ((u64::from(high) << 32 | u64::from(low)) >> (rotation & 31)) as u32
}

impl Quantiser {
    /// That of exact nodes.
    pub const EXACT: Self = Self(0);

    /// The rotation and the base by which the windows of keys from `first` to `last` take most of 16 bits; and the last
    /// window.
    #[inline(always)]
    fn window_of<K: KeyWord>(first: K, last: K) -> (u32, u32, u32) {
        let range = last.wrapping_sub(first);
        let mut shift = range.significant_bits() as i32 - 16;
        if shift < -MOST_LEFT {
            shift = -MOST_LEFT;
        }
        // The windows' difference may be one more than that of the keys, shifted.
        let difference = |shift: i32| match shift {
            0.. => last.shr(shift as u32).wrapping_sub(first.shr(shift as u32)).low(),
            // What the rotation brings around from above has grown by at most one.
            _ => (range.low() << -shift) + 1,
        };
        // If the window has the highest bits, no key is beyond it.
        if difference(shift) > LAST_WINDOW && shift + 16 < K::BITS as i32 {
            shift += 1;
        }
        let rotation = if shift >= 0 { shift as u32 } else { (K::BITS as i32 + shift) as u32 };
        let base = rotated(first, rotation) & Self::base_mask::<K>();
        (rotation, base, rotated(last, rotation).wrapping_sub(base) & 0xffff)
    }

    /// The bits of a base.
    #[inline(always)]
    const fn base_mask<K: KeyWord>() -> u32 {
        if K::BITS == 128 { 0xfffe } else { 0xffff }
    }

    /// The quantiser with these numbers.
    #[inline(always)]
    fn new<K: KeyWord>(base: u32, rotation: u32, code: u32) -> Self {
        let base = base & Self::base_mask::<K>();
        Self(base | rotation >> 6 | (rotation & 63) << 16 | code << 22)
    }

    #[inline(always)]
    fn rotation<K: KeyWord>(self) -> u32 {
        let low = self.0 >> 16 & 63;
        if K::BITS == 128 { low | (self.0 & 1) << 6 } else { low }
    }

    /// For a bitmap over keys from `first` to `last`, whose quantised keys are cells, in one of [`SHIFTS`] ways. Those that follow
    /// one another are far apart.
    #[inline(always)]
    pub fn bitmap<K: KeyWord>(first: K, last: K, shift: u32) -> Self {
        let (rotation, base, window) = Self::window_of(first, last);
        let most = *BITMAP_FACTORS.end() as u32;
        let factor = |window: u32| ((CELLS * 65536 - 1) / window.max(1)).min(most);
        let mut by = 0;
        let mut of_all = factor(window);
        // Windows of the highest bits are not shifted.
        if shift > 0 && rotation + 16 < K::BITS {
            // One factor for all, with room for a cell more: so every key moves by the same part of a cell.
            of_all = factor(window + 65536 / of_all.max(1) + 1);
            by = (65536 / SHIFTS * (shift * 27 % SHIFTS)) / of_all.max(1);
        }
        let code = of_all - (*BITMAP_FACTORS.start() as u32 - 1);
        Self::new::<K>(base.wrapping_sub(by), rotation, code)
    }

    /// For quantised keys of 15 bits of keys from `first` to `last`.
    #[inline(always)]
    pub fn halves<K: KeyWord>(first: K, last: K) -> Self {
        let (rotation, base, window) = Self::window_of(first, last);
        let factor = (UNUSED_HALF * 256 - 1) / if window == 0 { 1 } else { window };
        let factor = if factor < 256 { factor } else { 256 };
        Self::new::<K>(base, rotation, HALVES_CODE + factor)
    }

    /// How the node stores its separators.
    #[inline(always)]
    pub fn format(self) -> Format {
        match self.0 >> 22 {
            0 => Format::Exact,
            1..HALVES_CODE => Format::Bitmap,
            _ => Format::Halves,
        }
    }

    /// The quantised key of a key that is in the node; for other keys the result is unspecified.
    #[inline(always)]
    pub fn quantise<K: KeyWord>(self, word: K) -> u32 {
        self.scaled(self.window(word))
    }

    /// Whether [`Quantiser::quantise_any`] can do with a key that is below the node's first one by less than 2^`bits`. Keys below
    /// the first one must be known otherwise.
    #[inline(always)]
    pub fn takes_rough<K: KeyWord>(self, bits: u32) -> bool {
        let rotation = self.rotation::<K>();
        bits == 0 || rotation + 16 <= K::BITS && bits <= rotation + ROUGH_BITS
    }

    /// The quantised key of any key: the smallest for keys below the node's first key, the largest for keys too far
    /// above it.
    #[inline(always)]
    pub fn quantise_any<K: KeyWord>(self, word: K, first: K) -> u32 {
        let rotation = self.rotation::<K>();
        let mut window = self.window(word);
        if word < first {
            window = 0;
        } else {
            let distance = word.wrapping_sub(first);
            let last = K::truncate(u64::from(LAST_IN_REACH));
            let in_reach = match rotation + 16 <= K::BITS {
                true => rotation + 16 == K::BITS || distance.shr(rotation) <= last,
                false => distance <= last.shr(K::BITS - rotation),
            };
            if !in_reach {
                window = 0xffff;
            }
        }
        self.scaled(window)
    }

    #[inline(always)]
    fn window<K: KeyWord>(self, word: K) -> u32 {
        // A base's word has other bits above it, which do not matter.
        let base = if K::BITS == 128 { self.0 & !1 } else { self.0 };
        rotated(word, self.rotation::<K>()).wrapping_sub(base) & 0xffff
    }

    #[inline(always)]
    fn scaled(self, window: u32) -> u32 {
        if self.0 >> 22 < HALVES_CODE { self.cell_of(window) } else { self.half_of(window) }
    }

    /// Whether some bitmap of the same factor may have these two in one cell.
    #[inline(always)]
    pub fn may_share<K: KeyWord>(self, first: K, last: K) -> bool {
        let windows = self.window(last).wrapping_sub(self.window(first)) & 0xffff;
        windows * self.factor() < 65536
    }

    /// Whether some bitmap of the same keys may have these two in different cells, however its cells lie.
    #[inline(always)]
    pub fn may_part<K: KeyWord>(self, first: K, last: K) -> bool {
        let windows = self.window(last).wrapping_sub(self.window(first)) & 0xffff;
        windows * self.factor() >= 65536 / SHIFTS
    }

    /// Of a bitmap: how many cells 2^16 windows have.
    #[inline(always)]
    fn factor(self) -> u32 {
        (self.0 >> 22) + *BITMAP_FACTORS.start() as u32 - 1
    }

    /// [`Quantiser::quantise`] for bitmaps.
    #[inline(always)]
    pub fn cell<K: KeyWord>(self, word: K) -> u32 {
        self.cell_of(self.window(word))
    }

    /// [`Quantiser::quantise`] for quantised keys of 15 bits.
    #[inline(always)]
    pub fn half<K: KeyWord>(self, word: K) -> u32 {
        self.half_of(self.window(word))
    }

    #[inline(always)]
    fn cell_of(self, window: u32) -> u32 {
        ((window * self.factor()) >> 16).min(CELLS - 1)
    }

    #[inline(always)]
    fn half_of(self, window: u32) -> u32 {
        let quantised = (window * (self.0 >> 22 & (HALVES_CODE - 1))) >> 8;
        // Below an unused separator.
        quantised.min(UNUSED_HALF - 1)
    }
}

/// The last key that the quantised keys of a node should tell from others: all up to the next node's first key, if that is not so
/// far that the node's own keys could be told apart less well. `to` is the last key below the node. So keys that are inserted
/// between two nodes are found by look-ups too, which do not ask how far a key is.
#[inline(always)]
pub fn covered<K: KeyWord>(from: K, to: K, next: Option<K>) -> K {
    let Some(next) = next else { return to };
    let before_next = next.wrapping_add(K::MAX);
    let is_near = before_next.wrapping_sub(from).shr(1) <= to.wrapping_sub(from);
    if is_near { before_next } else { to }
}

/// How many children begin at or before the quantised key, of the children whose bits are in one word: `cells` is the
/// number of cells from the word's first one to the quantised key, and may be negative.
#[inline(always)]
pub fn begun_in_bitmap(word: u32, cells: i32) -> u32 {
    shl_clamped(word, (32 - cells).max(0) as u32).count_ones()
}

/// The guard bit above each separator of 15 bits.
const GUARDS: u32 = 0x8000_8000;

/// A quantised key of 15 bits for [`begun_in_guarded`].
#[inline(always)]
pub const fn guarded(quantised: u32) -> u32 {
    quantised | quantised << 16 | GUARDS
}

/// How many children begin at or before the quantised key, of those whose separators of 15 bits are in four words.
#[inline(always)]
pub fn begun_in_halves(words: [u32; 4], quantised: u32) -> u32 {
    begun_in_guarded(words, guarded(quantised))
}

/// As [`begun_in_halves`], for a [`guarded`] quantised key; for a quantised key of 0, which has no guards, none, whatever the words
/// are.
#[inline(always)]
pub fn begun_in_guarded(words: [u32; 4], quantised: u32) -> u32 {
    let [a, b, c, d] = words.map(|separators| quantised.wrapping_sub(separators));
    let is_guarded = (quantised as i32 >> 31) as u32;
    // One count for all: counting bits is slow.
    let begun = a & GUARDS | b >> 1 & GUARDS >> 1 | c >> 2 & GUARDS >> 2 | d >> 3 & GUARDS >> 3;
    (begun & is_guarded).count_ones()
}

/// How the table tells the keys at the top of a tree apart: by their prefixes, which are the upper 32 bits of their distances from
/// the first key. Where keys are in two clusters, the gap between these is left out of the distances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefixes<K> {
    /// The first key of all.
    pub origin: K,
    /// The first key after the gap.
    pub split: K,
    /// By how much distances from `split` on are less; 0 if there is no gap. If there is one, the distance of `split`
    /// itself, less the gap, is a multiple of 2^`shift`, and not 0.
    pub gap: K,
    /// By how much distances are shifted.
    pub shift: u32,
}

impl<K: KeyWord> Prefixes<K> {
    /// The prefixes of keys from `origin` to `last`, and by how much a prefix is shifted for its bucket of the table.
    #[inline(always)]
    pub fn new(origin: K, last: K, split: K, gap: K) -> (Self, u32) {
        let bits = last.wrapping_sub(origin).wrapping_sub(gap).significant_bits();
        let prefixes = Self { origin, split, gap, shift: bits.saturating_sub(32) };
        (prefixes, bits.min(32).saturating_sub(TABLE_ENTRIES.ilog2()))
    }

    /// The prefix of a key.
    #[inline(always)]
    pub fn of(self, word: K) -> u32 {
        let mut distance = if word > self.origin { word.wrapping_sub(self.origin) } else { K::MIN };
        // Such distances are not shifted, and need no gap.
        if K::BITS == 32 {
            return distance.low();
        }
        if self.gap != K::MIN {
            let most = self.split.wrapping_sub(self.origin).wrapping_sub(self.gap).wrapping_sub(K::truncate(1));
            distance = match word < self.split {
                true if distance < most => distance,
                true => most,
                false => distance.wrapping_sub(self.gap),
            };
        }
        let [low, high] = distance.shr(self.shift).parts();
        if low >> 32 == 0 && high == 0 { low as u32 } else { u32::MAX }
    }

    /// The smallest key with a prefix, where some key of the tree has that prefix.
    #[inline(always)]
    pub fn first(self, prefix: u32) -> K {
        let distance = match K::BITS {
            32 => K::truncate(u64::from(prefix)),
            64 => K::truncate(u64::from(prefix) << (self.shift & 63)),
            _ => {
                let wide = u128::from(prefix) << (self.shift & 127);
                K::from_parts([wide as u64, (wide >> 64) as u64])
            }
        };
        let first = self.origin.wrapping_add(distance);
        if K::BITS > 32 && self.gap != K::MIN && first >= self.split.wrapping_sub(self.gap) {
            return first.wrapping_add(self.gap);
        }
        first
    }
}

/// A node of the lowest level, as ordered queries see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<K> {
    /// At most the node's first key, and the base of its quantised keys.
    pub first: K,
    /// Pairs in all nodes before it.
    pub rank: u64,
    /// Bit `l` of plane `p` is bit `p` of the number of pairs, less one, in bucket `l`.
    pub planes: [u64; MOST_PLANES],
}

impl<K: KeyWord> Record<K> {
    /// A record's words in memory, of which there are [`record_words`]. Planes are the last ones.
    #[inline(always)]
    pub fn words<V: Value>(self) -> [u64; MOST_RECORD_WORDS] {
        let ([a, b, c, d], [low, high]) = (self.planes, self.first.parts());
        match (K::BITS, V::IS_SOME) {
            (32, true) => [low | self.rank << 32, a, b, c, 0, 0],
            (32, false) => [low | self.rank << 32, 0, a, b, c, d],
            (64, true) => [low, self.rank, a, b, 0, 0],
            (64, false) => [low, self.rank, 0, a, b, c],
            _ => [low, high, self.rank, 0, a, b],
        }
    }

    /// The record with these words.
    #[inline(always)]
    pub fn of<V: Value>([w0, w1, w2, w3, w4, w5]: [u64; MOST_RECORD_WORDS]) -> Self {
        let narrow = |rank: u64, planes: [u64; MOST_PLANES]| Self { first: K::truncate(w0), rank, planes };
        match (K::BITS, V::IS_SOME) {
            (32, true) => narrow(w0 >> 32, [w1, w2, w3, 0]),
            (32, false) => narrow(w0 >> 32, [w2, w3, w4, w5]),
            (64, true) => narrow(w1, [w2, w3, 0, 0]),
            (64, false) => narrow(w1, [w3, w4, w5, 0]),
            _ => Self { first: K::from_parts([w0, w1]), rank: w2, planes: [w4, w5, 0, 0] },
        }
    }

    /// The record in these words, which are [`record_words`].
    ///
    /// # Panics
    /// If they are not.
    pub fn of_slice<V: Value>(words: &[u64]) -> Self {
        let mut all = [0; MOST_RECORD_WORDS];
        all[..record_words::<K, V>() as usize].copy_from_slice(words);
        Self::of::<V>(all)
    }

    /// Where a record's rank is, among its words: in the high half, with keys of 32 bits.
    pub const RANK_WORD: u32 = match K::BITS {
        32 => 0,
        64 => 1,
        _ => 2,
    };

    /// The pairs in the buckets before a bucket of the node.
    #[inline(always)]
    pub fn before<V: Value>(&self, bucket: u32) -> u32 {
        // In halves: kernels count bits in 32-bit words.
        let below = |from: u32| {
            let bits = bucket.saturating_sub(from);
            if bits >= 32 { u32::MAX } else { (1 << bits) - 1 }
        };
        let (low, high) = (below(0), below(32));
        let mut pairs = bucket;
        for plane in 0..planes::<K, V>() as usize {
            let word = self.planes[plane];
            pairs += ((word as u32 & low).count_ones() + ((word >> 32) as u32 & high).count_ones()) << plane;
        }
        pairs
    }

    /// The pairs in a bucket.
    #[inline(always)]
    pub fn len(&self, bucket: u32) -> u32 {
        // Planes that there are not are 0.
        let [a, b, c, d] = self.planes;
        let bit = |plane: u64| (plane >> bucket & 1) as u32;
        1 + bit(a) + 2 * bit(b) + 4 * bit(c) + 8 * bit(d)
    }
}

/// What a record says of 32 of its node's buckets.
#[derive(Clone, Copy, Debug)]
pub struct HalfRecord {
    planes: [u32; MOST_PLANES],
}

impl<K: KeyWord> Record<K> {
    /// The first 32 of the node's buckets, or the others.
    #[inline(always)]
    pub fn half(&self, is_upper: bool) -> HalfRecord {
        HalfRecord { planes: self.planes.map(|plane| if is_upper { (plane >> 32) as u32 } else { plane as u32 }) }
    }
}

impl HalfRecord {
    /// The pairs in the buckets before one of them.
    #[inline(always)]
    pub fn before(&self, bucket: u32) -> u32 {
        let pairs = |(plane, &bits): (usize, &u32)| (bits & ((1 << bucket) - 1)).count_ones() << plane;
        bucket + self.planes.iter().enumerate().map(pairs).sum::<u32>()
    }

    /// What the record says of the buckets from one of them on, which becomes the first.
    #[inline(always)]
    pub fn from(&self, bucket: u32) -> Self {
        Self { planes: self.planes.map(|bits| bits >> bucket) }
    }

    /// The pairs in one of the buckets.
    #[inline(always)]
    pub fn own(&self, bucket: u32) -> u32 {
        let pairs = |(plane, &bits): (usize, &u32)| (bits >> bucket & 1) << plane;
        1 + self.planes.iter().enumerate().map(pairs).sum::<u32>()
    }

    /// The pairs in all 32.
    #[inline(always)]
    pub fn all(&self) -> u32 {
        let pairs = |(plane, &bits): (usize, &u32)| bits.count_ones() << plane;
        32 + self.planes.iter().enumerate().map(pairs).sum::<u32>()
    }
}

/// The last of `count` nodes for which something holds that holds for the first one.
#[inline(always)]
pub fn last_node(count: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut base, mut left) = (0, count);
    while left > 1 {
        let half = left / 2;
        base += if holds(base + half) { half } else { 0 };
        left -= half;
    }
    base
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More nodes and buckets than fit into any memory today, but not more than there are numbers for.
    #[test]
    fn nothing_wraps_for_the_last_numbers() {
        fn of<K: KeyWord, V: Value>() {
            for number in [1 << 27, 1 << 28, (1 << 28) + 1, u32::MAX - 1, u32::MAX] {
                let exactly = |words: u32| u128::from(number) * u128::from(words);
                assert_eq!(u128::from(node_at(number)), exactly(NODE_WORDS), "node {number}");
                assert_eq!(u128::from(record_at::<K, V>(number)), exactly(record_words::<K, V>()), "record {number}");
                let beside = if has_values_beside::<K, V>() { number / buckets_of_values::<K, V>() } else { 0 };
                let bucket = exactly(BUCKET_WORDS) + u128::from(beside) * u128::from(BUCKET_WORDS);
                assert_eq!(u128::from(bucket_at::<K, V>(number)), bucket, "bucket {number}");
                let chunk = u64::from(number) * u64::from(BUCKET_WORDS / 2) + 3;
                assert_eq!(u128::from(chunk_at::<K, V>(chunk)), bucket + 6, "chunk {chunk}");
                if has_values_beside::<K, V>() {
                    let slots = u128::from(bucket_slots::<K, V>());
                    let first = bucket_at::<K, V>(number - number % buckets_of_values::<K, V>());
                    let at = u128::from(first) * 8 / V::BYTES as u128
                        + u128::from(buckets_of_values::<K, V>()) * 64 / V::BYTES as u128;
                    let own = u128::from(number % buckets_of_values::<K, V>()) * slots + slots - 1;
                    assert_eq!(
                        u128::from(value_at::<K, V>(number, bucket_slots::<K, V>() - 1)),
                        at + own,
                        "value of bucket {number}"
                    );
                }
                let buckets = u64::from(number);
                assert!(
                    buckets_in_words::<K, V>(words_of_buckets::<K, V>(buckets)) >= buckets,
                    "room for {buckets} buckets"
                );
            }
        }
        of::<u32, u32>();
        of::<u32, ()>();
        of::<u64, u64>();
        of::<u64, ()>();
        of::<u128, u32>();
        of::<u128, u64>();
    }
}
