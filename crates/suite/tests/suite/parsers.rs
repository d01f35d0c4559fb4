//! Packed strings: what is said of them is taken or refused.

use lanetree_suite::parsers;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

#[test]
fn packed_strings_are_taken_or_refused() {
    for seed in 0..3000 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut bytes = vec![0; rng.random_range(4..200)];
        rng.fill_bytes(&mut bytes);
        parsers::byte_keys(&bytes);
    }
}
