//! The bounded run: for each index the same cases each time.

use lanetree_fuzz::{bounded, parsers, targets};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

#[test]
fn harmonia_answers_as_a_map() {
    bounded(300, targets::HARMONIA);
}

#[test]
fn harmonia_with_wide_keys_answers_as_a_map() {
    bounded(200, targets::HARMONIA_WIDE);
}

#[test]
fn harmonia_with_signed_keys_answers_as_a_map() {
    bounded(200, targets::HARMONIA_SIGNED);
}

#[test]
fn harmonia_mirrored_answers_as_a_map() {
    bounded(200, targets::HARMONIA_MIRRORED);
}

#[test]
fn cuart_answers_as_a_map() {
    bounded(300, targets::CUART);
}

#[test]
fn cuart_with_narrow_values_answers_as_a_map() {
    bounded(200, targets::CUART_NARROW);
}

#[test]
fn cuart_mirrored_answers_as_a_map() {
    bounded(200, targets::CUART_MIRRORED);
}

#[test]
fn hybrid_answers_as_a_map() {
    bounded(200, targets::HYBRID);
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
