//! Where the buckets of a node begin: each has as many pairs as it is to have or, since a node must tell the first key of a bucket
//! from the key before it, nearly as many.
//!
//! How long a bucket is depends on where it begins, so buckets follow one after the other. A warp finds all of them at once: each
//! lane has a stretch of the pairs, and works out where buckets lead that begin with any of its first ones. Maps of this kind
//! are composed, as sums are in a scan; then each lane knows which of its pairs the first bucket begins with.

use crate::plan_memory::PlanMemory;
use lanetree_simt::{FULL_MASK, Simt, WARP, unroll};

/// How buckets are to be filled.
#[derive(Clone, Copy)]
pub(crate) struct Filling {
    /// Pairs of a bucket, in units of 1/256.
    bucket: u32,
    /// 2^22 divided by that.
    inverse: u32,
}

impl Filling {
    #[inline(always)]
    pub(crate) fn new(bucket: u32) -> Self {
        Self { bucket, inverse: (1 << 22) / bucket.max(1) }
    }

    /// How near a bucket's beginning the pairs are after which it is not to end, though it might: less than half a bucket. So a bucket
    /// that had to end early makes the next one longer, not shorter.
    #[inline(always)]
    const fn too_near(self) -> u32 {
        self.bucket >> 9
    }

    /// Where buckets are to end among the pairs after this one, up to `most`: bit `i` says that one may end after `i`
    /// pairs. Buckets are to be full, and then there is no such bit, or to end at equal distances from the node's first
    /// pair on.
    #[inline(always)]
    fn ends(self, start: u32, most: u32, slots: u32) -> u64 {
        let mut ends = 0;
        if self.bucket < slots * 256 {
            // The division may be one too low.
            let mut distances = match slots {
                0..=8 => ((start * 256 + 255) * self.inverse) >> 22,
                // With this number of pairs, the product may have more than 32 bits.
                _ => ((u64::from(start * 256 + 255) * u64::from(self.inverse)) >> 22) as u32,
            };
            let mut end = 0;
            while end <= start + most {
                ends |= if end > start { 1 << (end - start) } else { 0 };
                distances += 1;
                end = (distances * self.bucket) >> 8;
            }
        }
        ends
    }
}

/// What becomes of a node's pairs.
pub(crate) enum BucketCut {
    /// So many buckets, and which of its stretch's pairs they begin with in the lane.
    Into { buckets: u32, begun: u32 },
    /// More buckets than there may be.
    TooMany,
    /// A bucket that begins with one of the pairs may not end within its slots.
    Crowded,
}

/// For each of the first pairs of a stretch, how many pairs past its end the buckets lead that begin with it: four bits each.
#[derive(Clone, Copy)]
struct Exits {
    low: u32,
    /// Of the ninth pair and those after it.
    high: u32,
}

impl Exits {
    /// The exits of a stretch without pairs.
    const NONE: Self = Self { low: 0x7654_3210, high: 0xfedc_ba98 };

    #[inline(always)]
    fn of(self, pair: u32, slots: u32) -> u32 {
        let word = if slots > 8 && pair >= 8 { self.high } else { self.low };
        word >> (pair % 8 * 4) & 15
    }

    /// The exits of this stretch with one more pair, before its first.
    #[inline(always)]
    fn with(self, exit: u32) -> Self {
        Self { low: self.low << 4 | exit, high: self.high << 4 | self.low >> 28 }
    }

    /// The exits of two stretches, of which this is the second.
    #[inline(always)]
    fn after(self, first: Self, slots: u32) -> Self {
        let mut both = Self { low: 0, high: 0 };
        unroll!(16, pair => {
            let pair = pair as u32;
            if pair < slots {
                let exit = self.of(first.of(pair, slots), slots) << (pair % 8 * 4);
                if pair < 8 {
                    both.low |= exit;
                } else {
                    both.high |= exit;
                }
            }
        });
        both
    }
}

/// A lane's part of a node's pairs.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    /// Slots of a bucket.
    slots: u32,
    /// Pairs of the node.
    len: u32,
    /// Pairs of a stretch; the last ones may have fewer.
    share: u32,
    /// The first of this one.
    first: u32,
    /// Bit `i`: a bucket may begin with the pair `i` after the first, or it is the node's end. So far as buckets of this stretch
    /// lead.
    begins: u64,
}

impl Stretch {
    /// Warp collective (all lanes). The lane's stretch. The memory's beginnings may be written again then.
    ///
    /// # Safety
    /// The memory has the beginnings of `len` pairs, at least one and at most 32 for each lane, and then a word with
    /// the end.
    #[inline(always)]
    pub(crate) unsafe fn of<S: Simt>(simt: S, len: u32, slots: u32, memory: PlanMemory) -> Self {
        let share = len.div_ceil(WARP);
        let first = simt.lane() * share;
        let mut begins = 0;
        if first < len {
            let (word, bit) = (first / 32, first % 32);
            // SAFETY: words up to the one after the end's.
            unsafe {
                let (low, high) = (simt.shared_load(memory.begins, word), simt.shared_load(memory.begins, word + 1));
                begins = (u64::from(high) << 32 | u64::from(low)) >> bit;
                // The buckets of short stretches lead less than 33 pairs on.
                if slots > 8 && (word + 2) * 32 <= len {
                    let third = simt.shared_load(memory.begins, word + 2);
                    begins |= (u64::from(third) << 32) << (32 - bit);
                }
            }
        }
        simt.sync_warp(FULL_MASK);
        Self { slots, len, share, first, begins }
    }

    /// Pairs of a bucket that begins with one of the stretch's pairs: as many as go up to where it is to end, or more if it may not
    /// end before; 0 if it may not end within its slots.
    #[inline(always)]
    fn bucket(self, at: u32, wanted: u64, too_near: u32) -> u32 {
        // Bit `i`: it may have `i + 1` pairs.
        let after = |bits: u64| if self.slots > 8 { (bits >> (at + 1)) as u32 } else { bits as u32 >> (at + 1) };
        let ends = after(self.begins) & ((1 << self.slots) - 1);
        let lowest = |bits: u32| bits & bits.wrapping_neg();
        let wanted = lowest(after(wanted) >> too_near << too_near);
        let short = ends & (wanted | wanted.wrapping_sub(1));
        let end = if short != 0 { short } else { lowest(ends) };
        32 - end.leading_zeros()
    }

    /// Warp collective (all lanes). Cuts the node's pairs into at most `most` buckets.
    #[inline(always)]
    pub(crate) fn cut<S: Simt>(self, simt: S, filling: Filling, most: u32) -> BucketCut {
        let (lane, slots) = (simt.lane(), self.slots);
        let (wanted, too_near) = (filling.ends(self.first, self.share + slots, slots), filling.too_near());
        let mut exits = Exits::NONE;
        let mut at = self.share;
        while at > 0 {
            at -= 1;
            // A bucket that cannot end leads anywhere: it is found below.
            exits = exits.with(exits.of(self.bucket(at, wanted, too_near).wrapping_sub(1), slots));
        }
        let mut step = 1;
        while step < WARP {
            let low = simt.shuffle_up(FULL_MASK, exits.low, step);
            let high = if slots > 8 { simt.shuffle_up(FULL_MASK, exits.high, step) } else { 0 };
            let both = exits.after(Exits { low, high }, slots);
            exits = if lane >= step { both } else { exits };
            step *= 2;
        }
        let entry = simt.shuffle_up(FULL_MASK, exits.low, 1) & 15;
        let mut at = if lane == 0 { 0 } else { entry };
        let end = self.share.min(self.len.saturating_sub(self.first));
        let (mut begun, mut is_stuck) = (0_u32, false);
        while at < end && !is_stuck {
            begun |= 1 << at;
            let pairs = self.bucket(at, wanted, too_near);
            is_stuck = pairs == 0;
            at += pairs;
        }
        let own = begun.count_ones();
        let stuck = simt.ballot(FULL_MASK, is_stuck);
        if stuck != 0 {
            // After the first lane that is stuck, nothing is right.
            let is_right = lane <= stuck.trailing_zeros();
            let upto = simt.reduce_add(FULL_MASK, if is_right { own } else { 0 });
            return if upto <= most { BucketCut::Crowded } else { BucketCut::TooMany };
        }
        let buckets = simt.reduce_add(FULL_MASK, own);
        if buckets > most { BucketCut::TooMany } else { BucketCut::Into { buckets, begun } }
    }
}

/// Warp collective (all lanes). Puts the first pair of each bucket into the memory, and the number of pairs after the last:
/// `begun` says which of its stretch's pairs buckets begin with.
///
/// # Safety
/// The memory is the warp's own.
#[inline(always)]
pub(crate) unsafe fn put_starts<S: Simt>(simt: S, begun: u32, (buckets, len): (u32, u32), memory: PlanMemory) {
    let (lane, own) = (simt.lane(), begun.count_ones());
    let mut upto = own;
    let mut step = 1;
    while step < WARP {
        let before = simt.shuffle_up(FULL_MASK, upto, step);
        upto += if lane >= step { before } else { 0 };
        step *= 2;
    }
    let (first, mut begun, mut bucket) = (lane * len.div_ceil(WARP), begun, upto - own);
    // SAFETY: an element for each bucket, and one more.
    unsafe {
        while begun != 0 {
            simt.shared_store(memory.starts, bucket, first + begun.trailing_zeros());
            begun &= begun - 1;
            bucket += 1;
        }
        if lane == 0 {
            simt.shared_store(memory.starts, buckets, len);
        }
    }
    simt.sync_warp(FULL_MASK);
}
