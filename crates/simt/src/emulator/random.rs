//! The order in which things run, as a function of the seed.

use core::cell::Cell;

/// splitmix64. One generator per block, so that a block's order does not depend on which others run.
pub(super) struct Random(Cell<u64>);

impl Random {
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let random = Self(Cell::new(0));
        random.reseed(seed, stream);
        random
    }

    pub(super) fn reseed(&self, seed: u64, stream: u64) {
        self.0.set(seed);
        self.0.set(self.next() ^ stream);
    }

    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut z = self.0.get();
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// In `0..bound`.
    #[inline]
    pub(super) fn below(&self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// A permutation of `0..len` without memory: `index * stride + offset`, the stride prime to `len`.
pub(super) struct Permutation {
    len: u64,
    stride: u64,
    offset: u64,
}

impl Permutation {
    /// Natural with seed 0.
    pub(super) fn new(seed: u64, len: u32) -> Self {
        let (len, mut stride, mut offset) = (u64::from(len), 1, 0);
        if seed != 0 {
            let random = Random::new(seed, u64::MAX);
            stride = 1 + random.next() % len;
            while gcd(stride, len) != 1 {
                stride += 1;
            }
            offset = random.next() % len;
        }
        Self { len, stride, offset }
    }

    pub(super) fn at(&self, index: u32) -> u32 {
        // Below 2^64: a grid has fewer than 2^31 blocks, and the stride is at most twice as large.
        ((u64::from(index) * self.stride + self.offset) % self.len) as u32
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_reaches_every_index_once() {
        for len in [1, 2, 3, 7, 12, 30, 97, 210] {
            for seed in 0..20 {
                let permutation = Permutation::new(seed, len);
                let mut reached: Vec<u32> = (0..len).map(|index| permutation.at(index)).collect();
                assert!(seed != 0 || reached.is_sorted());
                reached.sort_unstable();
                assert_eq!(reached, Vec::from_iter(0..len), "seed {seed}");
            }
        }
    }

    #[test]
    fn below_stays_below() {
        let random = Random::new(3, 4);
        for bound in 1..200 {
            assert!(random.below(bound) < bound);
        }
    }
}
