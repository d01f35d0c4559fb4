//! Decoupled look-back: how a block learns the total of all tiles before its own, in a single pass over the input
//! (after Merrill and Garland, *Single-pass Parallel Prefix Scan with Decoupled Look-back*, 2016).
//!
//! Blocks take a ticket in the order in which they start, so every tile before a block's own has a block that has
//! started and will make progress. A block publishes the carry of its own tile as soon as it has it, then looks back:
//! it adds up the carries of the tiles before it, until it finds an inclusive one, which covers all tiles before it
//! too. Then it publishes its own inclusive carry.
//!
//! Carries are up to 64 bits wide (some are wrapping sums), and need a flag that says what they are. A 64-bit word has
//! no room for both, and PTX has no atomic 128-bit access on Turing. A separate flag, stored with release and loaded
//! with acquire, would make each step of the look-back wait for two loads, one after the other. So a carry is split
//! into words of at most 62 bits, with the flag in the top bits of *each*. The words are loaded together, relaxed, and
//! if their flags differ the tile counts as not yet published. A word's content is determined by its flag, so equal
//! flags mean words of one carry. Nothing else is read because of a flag, so no order is needed.

use lanetree_simt::{FULL_MASK, GlobalMut, KeyWord, Order, Scope, Shared, Simt, WARP, Word};

/// Words of the state before the tiles': the ticket, in 256 bytes of its own.
const HEADER: u64 = 32;

/// The most words of a carry.
const MOST_WORDS: usize = 3;

/// Bits of a word below its flag.
const FLAG_SHIFT: u32 = 62;
const PAYLOAD: u64 = (1 << FLAG_SHIFT) - 1;

/// Nothing is published yet: a zeroed state.
const EMPTY: u64 = 0;
/// The tile's own.
const AGGREGATE: u64 = 1;
/// The tile's, and of all before it.
const INCLUSIVE: u64 = 2;

/// 64-bit words of the state for `tiles` tiles with carries of `words` words. A launch over a state needs it
/// zeroed.
pub const fn state_words(tiles: u64, words: usize) -> u64 {
    HEADER.saturating_add(tiles.saturating_mul(words as u64))
}

/// The carry from tile to tile: a part for which the order of tiles does not matter, and possibly an open part, which a
/// later tile may end.
pub trait Carry: Copy {
    /// Words that it is published in, 1 to 3.
    const WORDS: usize;
    /// The neutral element.
    const NONE: Self;
    /// Whether there is an open part.
    const OPENS: bool;
    /// Combines both parts of two carries, in any order: an associative and commutative operation.
    fn join(self, other: Self) -> Self;
    /// Whether the open part of earlier tiles ends here.
    fn cuts(self) -> bool;
    /// The carry, the neutral element if not `counted`; without its open part if not `open`.
    fn only(self, counted: bool, open: bool) -> Self;
    /// The words: the first [`Carry::WORDS`], each below 2^62.
    fn pack(self) -> [u64; MOST_WORDS];
    /// The inverse of [`Carry::pack`].
    fn unpack(words: [u64; MOST_WORDS]) -> Self;
    /// The carry with `f` applied to each of its fields, as numbers: shuffles it.
    fn map(self, f: impl Fn(u64) -> u64) -> Self;

    /// Combines the carry of earlier tiles with that of the tiles after them.
    #[inline(always)]
    fn then(self, later: Self) -> Self {
        later.join(self.only(true, !later.cuts()))
    }
}

/// The number of kept elements, below 2^62, and the sum after the last of them, which is still open, in `OPEN` words:
/// none, one (below 2^62), or two (any).
#[derive(Clone, Copy, Debug)]
pub struct Compacted<const OPEN: usize> {
    /// Kept elements.
    pub kept: u64,
    /// The sum over the elements after the last one kept.
    pub open: u64,
}

impl<const OPEN: usize> Carry for Compacted<OPEN> {
    const WORDS: usize = 1 + OPEN;
    const NONE: Self = Self { kept: 0, open: 0 };

    const OPENS: bool = OPEN > 0;

    #[inline(always)]
    fn join(self, other: Self) -> Self {
        Self { kept: self.kept.wrapping_add(other.kept), open: self.open.wrapping_add(other.open) }
    }
    #[inline(always)]
    fn cuts(self) -> bool {
        self.kept > 0
    }
    #[inline(always)]
    fn only(self, counted: bool, open: bool) -> Self {
        Self { kept: if counted { self.kept } else { 0 }, open: if counted && open { self.open } else { 0 } }
    }
    #[inline(always)]
    fn pack(self) -> [u64; MOST_WORDS] {
        match OPEN {
            1 => [self.kept, self.open & PAYLOAD, 0],
            _ => [self.kept, u64::from(self.open.low()), u64::from(self.open.high())],
        }
    }
    #[inline(always)]
    fn unpack([kept, low, high]: [u64; MOST_WORDS]) -> Self {
        let open = match OPEN {
            0 => 0,
            1 => low,
            _ => low | high << 32,
        };
        Self { kept, open }
    }
    #[inline(always)]
    fn map(self, f: impl Fn(u64) -> u64) -> Self {
        Self { kept: f(self.kept), open: if OPEN == 0 { 0 } else { f(self.open) } }
    }
}

/// Block collective. The tile of the calling block, the same in all threads: blocks get theirs in the order
/// in which they start, and take further ones in the order in which they ask.
///
/// # Safety
/// `state` begins with a ticket that was 0 before the launch, and `slot` is not used for anything else. There is a barrier between
/// two calls.
#[inline(always)]
pub(crate) unsafe fn next_tile<S: Simt>(simt: S, state: GlobalMut<u64>, slot: Shared<u32>) -> u64 {
    // SAFETY: the caller's; the barrier separates the store from the loads.
    unsafe {
        if simt.thread_index() == 0 {
            let ticket = simt.atomic_add(state.cast::<u32>(), 0, 1, Order::Relaxed, Scope::Device);
            simt.shared_store(slot, 0, ticket);
        }
        simt.barrier();
        u64::from(simt.shared_load(slot, 0))
    }
}

/// Per thread, by one thread of the block, before anything else. Publishes the carry of the block's tile alone.
///
/// # Safety
/// `state` is [`state_words`] for the grid's blocks as tiles, or of carries of one word for any number of tiles, zeroed before
/// the launch; `tile` is the block's, from [`next_tile`].
#[inline(always)]
pub(crate) unsafe fn publish<S: Simt, C: Carry>(simt: S, state: GlobalMut<u64>, tile: u64, own: C) {
    let flag = if tile == 0 { INCLUSIVE } else { AGGREGATE };
    // SAFETY: the caller's.
    unsafe { publish_as(simt, state, tile, own, flag) };
}

/// # Safety
/// As [`publish`].
#[inline(always)]
unsafe fn publish_as<S: Simt, C: Carry>(simt: S, state: GlobalMut<u64>, tile: u64, carry: C, flag: u64) {
    let words = carry.pack();
    for (plane, word) in words[..C::WORDS].iter().enumerate() {
        let at = HEADER + plane as u64 * u64::from(simt.grid_dim()) + tile;
        // SAFETY: the caller's: one word of each plane is the tile's.
        unsafe { simt.atomic_store(state, at, flag << FLAG_SHIFT | word, Order::Relaxed, Scope::Device) };
    }
}

/// Warp collective, by all lanes of one warp of the block, after [`publish`]. Returns the carry of all tiles before the
/// block's, in all lanes, and publishes it combined with `own` for later tiles. Waits for blocks with lower tickets.
///
/// # Safety
/// As [`publish`].
#[inline(always)]
pub(crate) unsafe fn look_back<S: Simt, C: Carry>(simt: S, state: GlobalMut<u64>, tile: u64, own: C) -> C {
    let mut before = C::NONE;
    if tile == 0 {
        return before;
    }
    let lane = simt.lane();
    // Whether the open part of earlier tiles counts.
    let mut open = true;
    // Windows of 32 tiles, going back from the block's own: lane 0 has the last. Several windows at a time were slower:
    // the state has few lines, and all waiting blocks read them.
    let mut end = tile;
    loop {
        let (mut flag, mut carry) = (INCLUSIVE, C::NONE);
        if u64::from(lane) < end {
            // SAFETY: a tile before the own, which a block of the grid has.
            (flag, carry) = unsafe { read(simt, state, end - 1 - u64::from(lane)) };
        }
        let empty = simt.ballot(FULL_MASK, flag == EMPTY);
        let inclusive = simt.ballot(FULL_MASK, flag == INCLUSIVE);
        // An inclusive carry includes all tiles before it. Lane 32 if there is none.
        let last = inclusive.trailing_zeros();
        if empty.trailing_zeros() < last {
            simt.spin_hint();
            continue;
        }
        let mut counts_open = open;
        if C::OPENS {
            let cut = simt.ballot(FULL_MASK, carry.cuts()).trailing_zeros();
            counts_open &= lane <= cut;
            open &= cut == WARP;
        }
        let mut sum = carry.only(lane <= last, counts_open);
        let mut lanes = WARP / 2;
        while lanes > 0 {
            sum = sum.join(sum.map(|field| simt.shuffle_xor(FULL_MASK, field, lanes)));
            lanes /= 2;
        }
        before = before.join(sum);
        if inclusive != 0 {
            break;
        }
        end -= u64::from(WARP);
    }
    if lane == 0 {
        // SAFETY: the caller's.
        unsafe { publish_as(simt, state, tile, before.then(own), INCLUSIVE) };
    }
    before
}

/// Per thread. The carry that a tile has published, and its flag.
///
/// # Safety
/// As [`publish`]; `tile` is one of the grid's.
#[inline(always)]
unsafe fn read<S: Simt, C: Carry>(simt: S, state: GlobalMut<u64>, tile: u64) -> (u64, C) {
    let mut words = [0; MOST_WORDS];
    for (plane, word) in words[..C::WORDS].iter_mut().enumerate() {
        let at = HEADER + plane as u64 * u64::from(simt.grid_dim()) + tile;
        // SAFETY: the caller's.
        *word = unsafe { simt.atomic_load(state, at, Order::Relaxed, Scope::Device) };
    }
    let flag = words[0] >> FLAG_SHIFT;
    let whole = words[..C::WORDS].iter().all(|word| word >> FLAG_SHIFT == flag);
    (if whole { flag } else { EMPTY }, C::unpack(words.map(|word| word & PAYLOAD)))
}
