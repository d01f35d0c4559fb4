//! Each index of the list through the directed cases and through random ones.

use lanetree_suite::indexes::{self, Conforms, Listed};
use lanetree_suite::lanetree::Device;
use lanetree_suite::{Tally, bounded, for_each_index};

/// Runs random cases, and sees that enough has happened in them.
fn random(name: &str) {
    let Listed { family, random_cases: cases, .. } = indexes::named(name);
    let Tally { changed, answered, refused, failed, lost } = bounded(cases, |case| family.check(case));
    println!("{changed} changed, {answered} answered, {refused} refused, {failed} failed, {lost} lost");
    // Fewer where the environment chooses the cases.
    if std::env::var_os("LANETREE_SUITE_CASES").is_none() {
        // An index that calls its device once per change has few points at which it can fail.
        assert!(changed > 2 * cases && answered > 4 * cases && failed > cases / 60, "too little has happened");
        assert!(refused < answered / 3, "too much is refused");
    }
}

/// Runs the written cases, and sees that the device has failed in some if it should.
fn written(family: &dyn Conforms, with_failures: bool) {
    let tally = family.conformance(with_failures).unwrap_or_else(|error| panic!("{error}"));
    assert!(tally.changed > 100 && tally.answered > 500, "{tally:?}");
    assert!(tally.failed > 2 || !with_failures, "{tally:?}");
}

macro_rules! tests {
    ($($name:ident = $family:expr, $cases:expr;)*) => {$(
        mod $name {
            #[test]
            fn conforms() {
                let listed = super::indexes::named(stringify!($name));
                super::written(&*listed.family, listed.with_failures);
            }

            #[test]
            fn answers_as_a_map() {
                super::random(stringify!($name));
            }
        }
    )*};
}
for_each_index!(tests);
for_each_index!(tests, pairs);

macro_rules! sets {
    ($($name:ident = $family:expr, $cases:expr;)*) => {$(
        #[test]
        fn $name() {
            random(stringify!($name));
        }
    )*};
}
for_each_index!(sets, sets);

/// All of its ways, with a failure of its device at every point.
#[test]
fn a_sharded_set_conforms() {
    let listed = indexes::named("sharded_set");
    written(&*listed.family, listed.with_failures);
}

/// The trees that sets are go through all with their values: here one set does, on the emulator built in one way.
#[test]
fn a_set_conforms() {
    let family = indexes::named("lanetree_set_narrow").family;
    for part in family.parts() {
        for way in 0..family.ways() {
            family.conformance_on(&Device::host(), way, part).unwrap();
        }
        family.conformance_on(&Device::emulated_with_seed(3), 0, part).unwrap();
    }
}

/// Without any code of its own in the suite. The list has its like, with failures.
#[test]
fn an_index_passes_by_giving_a_builder() {
    let builder = ::lanetree::Harmonia::<u32, u32>::builder();
    written(&indexes::fixed("harmonia", [builder, builder.fanout(8).fill(0.6)]), false);
}
