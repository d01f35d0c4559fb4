//! What four lanes do together for their four queries.

use lanetree_simt::{FULL_MASK, Simt, unroll};

/// Lanes that read a node together, and queries that they have.
pub(crate) const QUAD: u32 = 4;

/// Something for each query of four lanes.
pub(crate) type OfQuad<T> = [T; QUAD as usize];

/// Warp collective (all lanes). What each of four lanes has, in all of them.
#[inline(always)]
pub(crate) fn quad<S: Simt>(simt: S, value: u32) -> OfQuad<u32> {
    let leader = simt.lane() / QUAD * QUAD;
    core::array::from_fn(|round| simt.shuffle(FULL_MASK, value, leader + round as u32))
}

/// Per thread. Of what four lanes have in common, the lane's own.
#[inline(always)]
pub(crate) fn own<S: Simt>(simt: S, of_all: OfQuad<u32>) -> u32 {
    let mut own = of_all[0];
    unroll!(QUAD as usize, lane => {
        // Opaque, since comparisons of one number become a table of jumps, by which the lanes of a warp part.
        own = if simt.opaque(simt.lane() % QUAD) == lane as u32 { of_all[lane] } else { own };
    });
    own
}

/// Warp collective (all lanes). The sum over four lanes of a byte for each of their queries, in all of them.
#[inline(always)]
pub(crate) fn sum_bytes<S: Simt>(simt: S, bytes: u32) -> u32 {
    let of_two = bytes + simt.shuffle_xor(FULL_MASK, bytes, 1);
    of_two + simt.shuffle_xor(FULL_MASK, of_two, 2)
}

/// The byte of one of the queries.
#[inline(always)]
pub(crate) fn byte_of(bytes: u32, round: u32) -> u32 {
    bytes >> (8 * round) & 0xff
}
