//! The bounded run: for each index the same cases each time.

use lanetree_fuzz::targets::{self, Target};
use lanetree_fuzz::{Tally, bounded, parsers};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// Runs the cases, and sees that enough has happened in them.
fn run(cases: u64, target: Target) {
    let Tally { changed, answered, refused, failed, lost } = bounded(cases, target);
    println!("{changed} changed, {answered} answered, {refused} refused, {failed} failed, {lost} lost");
    // Fewer where the cases are others than those of this run.
    if std::env::var_os("LANETREE_FUZZ_CASES").is_none() {
        assert!(changed > 2 * cases && answered > 4 * cases && failed > cases / 30, "too little has happened");
        assert!(refused < answered / 3, "too much is refused");
    }
}

#[test]
fn harmonia_answers_as_a_map() {
    run(300, targets::harmonia);
}

#[test]
fn harmonia_with_wide_keys_answers_as_a_map() {
    run(200, targets::harmonia_wide);
}

#[test]
fn harmonia_with_signed_keys_answers_as_a_map() {
    run(200, targets::harmonia_signed);
}

#[test]
fn harmonia_mirrored_answers_as_a_map() {
    run(200, targets::harmonia_mirrored);
}

#[test]
fn cuart_answers_as_a_map() {
    run(300, targets::cuart);
}

#[test]
fn cuart_with_narrow_values_answers_as_a_map() {
    run(200, targets::cuart_narrow);
}

#[test]
fn cuart_mirrored_answers_as_a_map() {
    run(200, targets::cuart_mirrored);
}

#[test]
fn hybrid_answers_as_a_map() {
    run(200, targets::hybrid);
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
