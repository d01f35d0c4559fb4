//! Bounded runs: the same cases each time, and what fails made short.

use crate::{Case, Family, Tally, check};
use arbitrary::{Arbitrary, Unstructured};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Most cases that are tried to make one shorter.
const MOST_TRIES: usize = 2000;

/// Runs a check on `cases` cases, or on as many as `LANETREE_SUITE_CASES` says, with the seed `LANETREE_SUITE_SEED` or
/// 0; returns their tally.
///
/// # Panics
/// For the first case in which something differs or panics, with the shortest like it that was found, as Rust.
pub fn bounded(cases: u64, check: impl Fn(&Case) -> Result<Tally, String>) -> Tally {
    let mut tally = Tally::default();
    let variable = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let (cases, seed) =
        (variable("LANETREE_SUITE_CASES").unwrap_or(cases), variable("LANETREE_SUITE_SEED").unwrap_or(0));
    for number in 0..cases {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(number));
        let mut bytes = vec![0; rng.random_range(30..300)];
        rng.fill_bytes(&mut bytes);
        let Ok(case) = Case::arbitrary(&mut Unstructured::new(&bytes)) else { continue };
        match outcome(&check, &case) {
            Ok(of_case) => tally = tally.plus(of_case),
            Err(error) => {
                let (case, shortened) = shortest(case, &check);
                let shortened = shortened.as_ref().unwrap_or(&error);
                panic!("case {number} of seed {seed}: {error}\nshortened: {shortened}\n{case:#?}");
            }
        }
    }
    tally
}

/// What a case comes to, a panic included.
fn outcome(check: &impl Fn(&Case) -> Result<Tally, String>, case: &Case) -> Result<Tally, String> {
    catch_unwind(AssertUnwindSafe(|| check(case))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("of another kind")))
    })
}

/// A shorter case that fails too, and how.
fn shortest(mut case: Case, check: &impl Fn(&Case) -> Result<Tally, String>) -> (Case, Option<String>) {
    let (mut left, mut error) = (MOST_TRIES, None);
    'shorter: loop {
        for simpler in case.simpler() {
            if left == 0 {
                break 'shorter;
            }
            left -= 1;
            if let Err(other) = outcome(check, &simpler) {
                (case, error) = (simpler, Some(other));
                continue 'shorter;
            }
        }
        break;
    }
    (case, error)
}

/// Runs the case that bytes stand for: what a fuzzer calls.
///
/// # Panics
/// Where something differs.
pub fn on_bytes(family: &impl Family, bytes: &[u8]) {
    let Ok(case) = Case::arbitrary(&mut Unstructured::new(bytes)) else { return };
    if let Err(error) = check(family, &case) {
        panic!("{error}\n{case:#?}");
    }
}
