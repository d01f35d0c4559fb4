//! Bounded runs: what fails is made short.

use lanetree_suite::{Case, Change, Step, Tally, bounded};
use std::panic::catch_unwind;

#[test]
fn what_fails_is_shortened_to_what_it_takes() {
    // Fails where a key is removed and a later step inserts any.
    let check = |case: &Case| {
        let kinds = case.steps.iter().filter_map(|step| match step {
            Step::Change(change, keys, _) if !keys.numbers().is_empty() => Some(*change),
            _ => None,
        });
        let kinds: Vec<Change> = kinds.collect();
        let removed = kinds.iter().position(|&kind| kind == Change::Remove);
        match removed {
            Some(at) if kinds[at..].contains(&Change::Insert) => Err("both".into()),
            _ => Ok(Tally::default()),
        }
    };
    let message = catch_unwind(|| bounded(10_000, check)).unwrap_err();
    let message = message.downcast_ref::<String>().unwrap();
    assert!(message.contains("shortened: both"), "{message}");
    assert_eq!(message.matches("count: 1,").count(), 2, "{message}");
    assert_eq!(message.matches("Change(").count(), 2, "{message}");
    assert!(!message.contains("Ask(") && !message.contains("Upkeep("), "{message}");
}
