//! The numbers of keys.

use lanetree_suite::Numbered;
use std::collections::BTreeSet;

fn keys<K: Numbered>() -> BTreeSet<K> {
    let keys: BTreeSet<K> = (0..=u16::MAX).map(K::key).collect();
    assert_eq!(keys.first(), Some(&K::key(K::SMALLEST)));
    assert_eq!(keys.last(), Some(&K::key(K::LARGEST)));
    keys
}

macro_rules! fixed {
    ($($key:ident)*) => {$({
        let keys = keys::<$key>();
        assert!(keys.contains(&$key::MIN) && keys.contains(&$key::MAX), stringify!($key));
        // The middle of the order, where signed keys change their sign.
        let middle = $key::MIN.midpoint($key::MAX);
        assert!((-1..=1).all(|step| keys.contains(&middle.wrapping_add(step as $key))), stringify!($key));
    })*};
}

#[test]
fn numbers_stand_for_both_ends_and_the_middle() {
    fixed!(u32 u64 i32 i64);
}

#[test]
fn numbers_stand_for_strings_of_several_lengths() {
    let keys = keys::<Vec<u8>>();
    assert!(keys.contains(&Vec::new()));
    for length in [8, 16, 32] {
        assert!(keys.iter().any(|key| key.len() <= length) && keys.iter().any(|key| key.len() > length), "{length}");
    }
}
