//! The bounded run: for each index the same cases each time.

use lanetree_fuzz::index::{CuartIndex, HarmoniaIndex, HybridIndex, MirroredCuart, MirroredHarmonia};
use lanetree_fuzz::{bounded, check, parsers};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

#[test]
fn harmonia_answers_as_a_map() {
    bounded(300, check::<HarmoniaIndex<u32, u32>>);
}

#[test]
fn harmonia_with_wide_keys_answers_as_a_map() {
    bounded(200, check::<HarmoniaIndex<u64, u64>>);
}

#[test]
fn harmonia_with_signed_keys_answers_as_a_map() {
    bounded(200, check::<HarmoniaIndex<i64, u32>>);
}

#[test]
fn harmonia_mirrored_answers_as_a_map() {
    bounded(200, check::<MirroredHarmonia<u64, u64>>);
}

#[test]
fn cuart_answers_as_a_map() {
    bounded(300, check::<CuartIndex<u64>>);
}

#[test]
fn cuart_with_narrow_values_answers_as_a_map() {
    bounded(200, check::<CuartIndex<u32>>);
}

#[test]
fn cuart_mirrored_answers_as_a_map() {
    bounded(200, check::<MirroredCuart<u64>>);
}

#[test]
fn hybrid_answers_as_a_map() {
    bounded(200, check::<HybridIndex<u64>>);
}

#[test]
fn packed_strings_are_taken_or_refused() {
    for seed in 0..3000 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut bytes = vec![0; rng.random_range(4..200)];
        rng.fill_bytes(&mut bytes);
        parsers::byte_keys(&bytes);
    }
}
