//! Where a query of a piece is: a word with its shard in the upper bits, and its position in the piece's room in the others.

/// Bits of a position in the piece's room.
pub const BITS: u32 = 26;

/// The word of a shard and a position, which is below `1 << BITS`.
#[inline(always)]
pub const fn word(shard: u32, position: u32) -> u32 {
    shard << BITS | position
}

/// The shard of a word.
#[inline(always)]
pub const fn shard(word: u32) -> u32 {
    word >> BITS
}

/// The position of a word in the piece's room.
#[inline(always)]
pub const fn of(word: u32) -> u32 {
    word & ((1 << BITS) - 1)
}
