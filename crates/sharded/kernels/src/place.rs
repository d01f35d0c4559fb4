//! Where a query of a piece is: a word with its shard in the upper bits, and its place in the piece's room in the others.
//!
//! Of few shards less is written. A *row* is 32 queries side by side, and those of one shard lie side by side in its bucket, in their
//! order. So it is enough to know which shard each is of (a row's *planes*: the lowest bits of the shards' numbers, those above,
//! and so on, a bit for each query), and where each shard's first one is: for two shards 3/8 of a byte for each query instead of 4.

/// Bits of a place in the piece's room.
pub const BITS: u32 = 26;

/// The word of a shard and a place, which is below `1 << BITS`.
#[inline(always)]
pub const fn word(shard: u32, place: u32) -> u32 {
    shard << BITS | place
}

/// The shard of a word.
#[inline(always)]
pub const fn shard(word: u32) -> u32 {
    word >> BITS
}

/// The place of a word in the piece's room.
#[inline(always)]
pub const fn of(word: u32) -> u32 {
    word & ((1 << BITS) - 1)
}

/// Up to so many shards it takes fewer bytes to write down rows.
pub const MOST_IN_ROWS: u32 = 16;

/// Planes of a row: the bits of the number of a shard.
#[inline(always)]
pub const fn bits_of(shards: u32) -> u32 {
    u32::BITS - (shards - 1).leading_zeros()
}
