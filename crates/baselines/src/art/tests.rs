//! The tree against the standard library's map.

use super::*;
use std::collections::BTreeMap;

/// A sequence of numbers without a pattern that matters.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    /// Few different bytes and lengths around a stored prefix's, so that keys meet.
    fn key(&mut self) -> Vec<u8> {
        let mut key = vec![[0, b'a', 255][self.below(3)]; [0, 0, 3, 11, 12, 13, 30][self.below(7)]];
        key.extend((0..self.below(4)).map(|_| 0_u8).collect::<Vec<_>>());
        for _ in 0..self.below(4) {
            let byte = self.below(if self.0 & 1 == 0 { 256 } else { 5 }) as u8;
            key.push(byte);
        }
        key
    }
}

fn check(art: &Art, model: &BTreeMap<Vec<u8>, u64>) {
    assert_eq!(art.len(), model.len());
    assert!(art.iter().eq(model.iter().map(|(key, &value)| (&key[..], value))));
}

#[test]
fn any_sequence_of_changes_leaves_what_a_map_has() {
    for seed in 0..20 {
        let mut numbers = Numbers(seed);
        let (mut art, mut model) = (Art::default(), BTreeMap::new());
        for step in 0..3000 {
            let key = numbers.key();
            assert_eq!(art.get(&key), model.get(&key).copied());
            // Growing first, then shrinking.
            if numbers.below(10) < if step < 1500 { 8 } else { 2 } {
                assert_eq!(art.insert(&key, step), model.insert(key, step));
            } else {
                let nth = numbers.below(model.len().max(1));
                let key = model.keys().nth(nth).filter(|_| numbers.below(4) > 0).cloned().unwrap_or(key);
                assert_eq!(art.remove(&key), model.remove(&key), "step {step} of seed {seed}");
            }
            if step % 500 == 499 {
                check(&art, &model);
            }
        }
        for (key, value) in core::mem::take(&mut model) {
            assert_eq!(art.remove(&key), Some(value));
        }
        assert!(art.is_empty() && art.root().is_none() && art.bytes() == 0);
    }
}

#[test]
fn every_size_of_node_grows_and_shrinks() {
    let (mut art, mut model) = (Art::default(), BTreeMap::new());
    // Descending, and a key that ends at the node.
    for byte in (0..=255_u8).rev() {
        art.insert(&[7, 7, byte], 1);
        model.insert(vec![7, 7, byte], 1);
        check(&art, &model);
    }
    art.insert(&[7, 7], 2);
    model.insert(vec![7, 7], 2);
    for byte in 0..=255_u8 {
        assert_eq!(art.remove(&[7, 7, byte]), Some(1));
        model.remove(&vec![7, 7, byte]);
        check(&art, &model);
    }
    assert_eq!(art.get(&[7, 7]), Some(2));
}

#[test]
fn a_deep_tree_needs_no_deep_stack() {
    let text = vec![b'x'; 20_000];
    let mut art = Art::default();
    for len in (0..text.len()).rev().step_by(2) {
        art.insert(&text[..len], len as u64);
    }
    assert_eq!((art.get(&text[..9_999]), art.get(&text[..9_998])), (Some(9_999), None));
    let ends = text.len() as u64 / 2;
    assert_eq!(art.iter().map(|(_, value)| value).sum::<u64>(), ends * ends);
    drop(art);
}

#[test]
fn a_batch_is_looked_up_by_all_threads() {
    let keys: Vec<[u8; 8]> = (0..10_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).collect();
    let art = Art::new(keys.iter().zip(0..).filter(|(_, i)| i % 3 > 0));
    let mut out = vec![None; keys.len()];
    art.get_into(|i| &keys[i], &mut out);
    assert!(out.iter().zip(0..).all(|(&found, i)| found == (i % 3 > 0).then_some(i)));
}

/// In several tasks, of few keys and of many, and of some that are not there.
#[test]
fn the_last_of_updates_by_many_threads_stays() {
    let keys: Vec<String> = (0..600).map(|i| format!("{}key{}", "x".repeat(i % 40), i / 7)).collect();
    let mut art = Art::new(keys.iter().take(500).map(|key| (key, 7)));
    let mut first = 1;
    for different in [600, 3] {
        let pick = |i: usize| keys[i * 31 % different].as_bytes();
        art.update_in_order(9000, pick, |i| (first + i as u32, !(first + i as u32)));
        for (at, key) in keys.iter().enumerate() {
            let last = (0..9000).rev().find(|i| i * 31 % different == at);
            let expected = last.map_or_else(
                || art.get(key.as_bytes()),
                |i| {
                    let number = first + i as u32;
                    Some(u64::from(number) << 32 | u64::from(!number))
                },
            );
            let is_there = at < 500;
            assert_eq!(art.get(key.as_bytes()), expected.filter(|_| is_there), "{key}");
        }
        first += 9000;
    }
}
