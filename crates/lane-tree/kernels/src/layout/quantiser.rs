//! How a node maps keys to quantised keys, and how children are counted by them.

use super::{CELLS, UNUSED_HALF};
use core::ops::RangeInclusive;
use lanetree_simt::{KeyWord, shl_clamped};

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
