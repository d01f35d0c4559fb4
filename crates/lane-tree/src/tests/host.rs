//! Batches on the host, in place: every query right after each.

use super::batches::{Pair, batches_on};
use core::ops::ControlFlow;
use lanetree_frame::fixed::{FixedIndex, HostForm};
use lanetree_frame::{Device, F64, KeyRange, Op, UpdatePath};
use lanetree_kernels_lane_tree::layout::BUCKET_WORDS;
use lanetree_layout::{AnyKey, KeyWord, Value, Word};

/// The bits of values that are their weights.
const WEIGHT: u64 = 6;

/// A tree of `len` pairs, with weights, and its map.
fn tree<K: AnyKey, V: Value>(keys: impl IntoIterator<Item = K>, fill: f64, table: u32) -> Pair<K, V> {
    let mut both = Pair::new(&Device::host(), &keys.into_iter().collect::<Vec<_>>(), fill, table);
    both.tree.weigh(WEIGHT).unwrap();
    both
}

/// Numbers that look random, of 64 bits.
fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
}

impl<K: AnyKey, V: Value> Pair<K, V> {
    /// [`Pair::apply`], and what is asked about keys all over, those of the batch, and the words next to them.
    fn answer(&mut self, ops: &[Op<K, V>], what: &str) -> UpdatePath {
        let path = self.apply(ops, what);
        let own = ops.iter().step_by(ops.len().div_ceil(300)).map(|op| *op.key());
        let all = self.map.keys().copied().step_by(self.map.len().div_ceil(300).max(1)).chain(own);
        let near = |key: K| [0, 1, u64::MAX].map(|by| K::decode(key.encode().wrapping_add(K::Bits::truncate(by))));
        let queries: Vec<K> = all.flat_map(near).chain([K::MIN, K::MAX]).collect();
        let keys: Vec<K> = self.map.keys().copied().collect();
        let pair = |at: usize| keys.get(at).map(|key| (*key, self.map[key]));
        let bounds = |query: &K| [keys.partition_point(|key| key < query), keys.partition_point(|key| key <= query)];
        let tree = &self.tree;
        let found = tree.get_many(&queries).unwrap();
        let ranks = [tree.lower_bound_many(&queries).unwrap(), tree.upper_bound_many(&queries).unwrap()];
        let next = [tree.predecessor_many(&queries).unwrap(), tree.successor_many(&queries).unwrap()];
        let ranges = queries.iter().map(|&query| KeyRange::new(query..).limit(40));
        let rows = tree.range_many(ranges).unwrap();
        for (i, query) in queries.iter().enumerate() {
            let [lower, upper] = bounds(query);
            assert_eq!(found[i], self.map.get(query).copied(), "{what}: {query}");
            assert_eq!([ranks[0][i], ranks[1][i]], [lower as u64, upper as u64], "{what}: {query}");
            assert_eq!([next[0][i], next[1][i]], [pair(upper.wrapping_sub(1)), pair(lower)], "{what}: {query}");
            assert_eq!(rows.get(i).0, &keys[lower..(lower + 40).min(keys.len())], "{what}: from {query}");
        }
        self.weigh(&queries, what);
        path
    }

    /// Compares the weights before queries, and the pairs from these weights on, some weight further.
    fn weigh(&self, queries: &[K], what: &str) {
        let weight = |value: &V| value.word().widen() & WEIGHT;
        let mut sums = vec![0];
        self.map.values().for_each(|value| sums.push(sums[sums.len() - 1] + weight(value)));
        let pairs: Vec<(K, V)> = self.map.iter().map(|(&key, &value)| (key, value)).collect();
        let (mut lower, mut upper) = (vec![77; queries.len()], vec![77; queries.len()]);
        self.tree.weight_ranks(queries, false, &mut lower).unwrap();
        self.tree.weight_ranks(queries, true, &mut upper).unwrap();
        for (i, query) in queries.iter().enumerate() {
            let bounds =
                [pairs.partition_point(|pair| pair.0 < *query), pairs.partition_point(|pair| pair.0 <= *query)];
            assert_eq!([lower[i], upper[i]], bounds.map(|at| sums[at]), "{what}: the weight before {query}");
            let from = lower[i] + i as u64 % 9;
            let mut found = Vec::new();
            self.tree.each_from(from, |key, value, skipped| {
                found.push((key, value, skipped));
                if found.len() < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            let own = pairs.iter().zip(sums.windows(2)).skip(sums[1..].partition_point(|&sum| sum <= from));
            let own = own.filter(|(pair, _)| weight(&pair.1) > 0);
            let own = own.map(|(&(key, value), sums)| (key, value, from.saturating_sub(sums[0])));
            assert_eq!(found, own.take(5).collect::<Vec<_>>(), "{what}: from weight {from}");
        }
    }
}

#[test]
fn one_change_after_another_is_made_in_place() {
    // Blocks of nodes whose ranks are changed together, and levels.
    for (fill, table) in [(0.7, 16384), (1.0, 9)] {
        let mut both = tree::<u64, u32>((0..150_000).map(mix), fill, table);
        assert!(both.tree.stats().leaf_nodes > 600);
        for i in 0..3 {
            let key = mix(i * 50_001);
            let path = both.answer(&[Op::Insert(mix(1 << 40 | i), 7)], "an insert");
            assert_eq!(path, UpdatePath::InPlace);
            assert_eq!(both.answer(&[Op::Update(key, 9)], "an update"), UpdatePath::InPlace);
            assert_eq!(both.answer(&[Op::Remove(key)], "a removal"), UpdatePath::InPlace);
            assert_eq!(both.answer(&[Op::Remove(key)], "nothing"), UpdatePath::Unchanged);
            assert_eq!(both.answer(&[Op::Update(key, 1)], "nothing"), UpdatePath::Unchanged);
        }
        // One batch over all blocks, one for some of them, and one that splits nodes.
        let ops: Vec<_> = (0..400).map(|i| Op::Insert(mix(1 << 50 | i), 5)).collect();
        assert_eq!(both.answer(&ops, "many"), UpdatePath::InPlace);
        let ops: Vec<_> = (0..300).map(|i| Op::Insert((1 << 63) + i, 5)).collect();
        assert_eq!(both.answer(&ops, "split"), UpdatePath::Moved);
        let ops: Vec<_> = (0..300).map(|i| Op::Remove(mix(450 * i + 1))).collect();
        both.answer(&ops, "removals");
    }
}

/// How many buckets a batch changes where they are; none if nodes are split.
fn changed_buckets(both: &mut Pair<u64, u64>, ops: &[Op<u64, u64>], what: &str) -> usize {
    let buckets = |both: &Pair<u64, u64>| both.tree.parts.get().unwrap().buckets.to_vec().unwrap();
    let before = buckets(both);
    if both.change(ops, what) != UpdatePath::InPlace {
        return 0;
    }
    let words = BUCKET_WORDS as usize;
    before.chunks(words).zip(buckets(both).chunks(words)).filter(|(before, now)| before != now).count()
}

#[test]
fn pairs_move_between_a_full_or_an_empty_bucket_and_its_neighbours_only() {
    let mut both = tree::<u64, u64>((0..40_000).map(mix), 0.7, 16384);
    let keys: Vec<u64> = both.map.keys().copied().collect();
    let buckets = both.tree.stats().buckets;
    let (mut full, mut empty) = (0, 0);
    for at in (50..keys.len() - 50).step_by(800) {
        // Three more than there are between two keys do not fit, but if one of these is alone in its bucket.
        let step = (keys[at + 1] - keys[at]) / 4;
        let ops: Vec<_> = (1..4).map(|i| Op::Insert(keys[at] + i * step, i)).collect();
        full += usize::from((2..=11).contains(&changed_buckets(&mut both, &ops, "a full bucket")));
        // Of seven in a row, some are all that a bucket of four slots has.
        let ops: Vec<_> = keys[at + 20..at + 27].iter().map(|&key| Op::Remove(key)).collect();
        empty += usize::from((2..=11).contains(&changed_buckets(&mut both, &ops, "an empty bucket")));
    }
    // Other nodes are written anew, each in all of its buckets.
    assert!(full >= 30 && empty >= 40, "{full} and {empty} of 50");
    assert_eq!(both.tree.stats().buckets, buckets);
    both.answer(&[Op::Insert(1, 1)], "at last");
}

#[test]
fn a_batch_may_be_larger_than_the_tree_and_remove_all_of_it() {
    let mut both = tree::<i64, u64>((0..3000).map(|i| i * 77 - 99_999), 0.7, 5);
    let ops: Vec<_> = (0..30_000).map(|i| Op::Insert(i * 9 - 150_000, i as u64)).collect();
    assert_eq!(both.answer(&ops, "larger"), UpdatePath::Rebuilt);
    let ops: Vec<_> = both.map.keys().copied().map(Op::Remove).collect();
    assert_eq!(both.answer(&ops, "all of it"), UpdatePath::Rebuilt);
    assert_eq!(both.answer(&ops, "none are left"), UpdatePath::Unchanged);
    assert_eq!(both.answer(&[Op::Insert(7, 8)], "the first"), UpdatePath::Rebuilt);
    assert_eq!(both.answer(&[Op::Insert(5, 8), Op::Insert(9, 9)], "around it"), UpdatePath::InPlace);
    assert_eq!(both.answer(&[Op::Remove(7), Op::Remove(5), Op::Remove(9)], "the last"), UpdatePath::Rebuilt);
}

#[test]
fn the_last_operation_of_a_key_wins() {
    let mut both = tree::<u64, u32>((0..5000).map(|i| i << 30), 0.7, 16384);
    let ops: Vec<_> = (0..1 << 16).map(|i| Op::Insert(77 << 20, i)).collect();
    assert_eq!(both.answer(&ops, "one key"), UpdatePath::InPlace);
    let ops: Vec<_> = ops.iter().copied().chain([Op::Remove(77 << 20)]).collect();
    assert_eq!(both.answer(&ops, "and removed"), UpdatePath::InPlace);
}

#[test]
fn batches_go_into_one_node_and_to_either_end() {
    for fill in [0.7, 1.0] {
        let keys = || (0..40_000_u64).map(|i| (1 << 60) + (i << 34 | mix(i) >> 31));
        for table in [16384, 2] {
            let mut both = tree::<u64, u64>(keys(), fill, table);
            for batch in 1..5 {
                let at = (1 << 60) + (20_000 << 34);
                let ops: Vec<_> = (0..700).map(|i| Op::Insert(at + i * 5 + (batch << 20), i)).collect();
                both.answer(&ops, "one node");
                let after = *both.map.keys().next_back().unwrap();
                let ops: Vec<_> = (1..500).map(|i| Op::Insert(after + i * (1 << batch), i)).collect();
                both.answer(&ops, "appended");
                let ops: Vec<_> = (1..500).map(|i| Op::Insert((1 << 60) - (batch << 40) - i, i)).collect();
                both.answer(&ops, "prepended");
                both.answer(&[Op::Insert(after + (1 << 50), 1), Op::Insert(batch, 2)], "far off");
            }
            // Nodes without pairs, at both ends and between.
            let all: Vec<u64> = both.map.keys().copied().collect();
            let (middle, end) = (all.len() / 2, all.len());
            for part in [0..400, middle..middle + 1000, end - 400..end] {
                let ops: Vec<_> = all[part].iter().map(|&key| Op::Remove(key)).collect();
                assert_eq!(both.answer(&ops, "without some nodes"), UpdatePath::Moved);
            }
        }
    }
}

/// Alone, or together with others of its node, a key goes down the tree another way than among keys of other nodes.
#[test]
fn keys_below_all_others_are_found_whatever_they_are_looked_up_with() {
    for count in [1, 2, 40] {
        let mut both = tree::<u64, u64>((0..20_000).map(|i| (1 << 60) + (i << 34)), 0.5, 3);
        let ops: Vec<_> = (0..count).map(|i| Op::Insert((1 << 60) - (1 << 40) + (i << 30), i)).collect();
        assert_eq!(both.answer(&ops, "below all others"), UpdatePath::Moved);
    }
}

/// Keys in a row, keys of a cell, and keys that differ in their last bits only, among others that are far apart.
#[test]
fn keys_that_are_close_split_nodes() {
    for table in [16384, 3] {
        let mut both = tree::<u64, u32>((0..20_000).map(|i| i << 44), 0.7, table);
        for batch in 0..6_u64 {
            let at = (3000 * (batch + 1)) << 44;
            let ops: Vec<_> = (0..600)
                .map(|i| match batch % 3 {
                    0 => Op::Insert(at + i, 1),
                    1 => Op::Insert(at + ((i / 6) << 36) + i % 6, 2),
                    _ => Op::Insert(at ^ (1 << (i % 44)) ^ (i / 44), 3),
                })
                .collect();
            both.answer(&ops, &format!("close, {batch}"));
            let ops: Vec<_> = (0..600).step_by(2).map(|i| Op::Remove(at + i)).collect();
            both.answer(&ops, &format!("without some, {batch}"));
        }
    }
}

#[test]
fn one_change_at_a_time_ends_with_the_pairs_of_all() {
    let mut both = tree::<u32, u32>((0..2000).map(|i| mix(i) as u32 >> 12), 1.0, 2);
    for i in 0..3000_u64 {
        let key = mix(i ^ 99) as u32 >> 12;
        let op = match i % 7 {
            0 => Op::Remove(*both.map.range(key..).next().map_or(&key, |pair| pair.0)),
            1 => Op::Update(*both.map.range(key..).next().map_or(&key, |pair| pair.0), i as u32),
            _ => Op::Insert(key, i as u32),
        };
        both.change(&[op], "one at a time");
    }
    both.answer(&[Op::Insert(1, 1)], "at last");
    assert!(FixedIndex::pairs(&both.tree).unwrap().into_iter().eq(both.map));
}

#[test]
fn batches_have_the_effect_of_one_change_after_another_for_every_kind_of_key_and_value() {
    let trees = [(0.6, 16384), (0.7, 2), (1.0, 3)];
    let host = Device::host();
    let wide = |number: u64| u128::from(number) << 64 | u128::from(number.wrapping_mul(0x9e37_79b9));
    batches_on::<u32, u64>(&host, &trees, |number| (number >> 32) as u32);
    batches_on::<i64, u32>(&host, &trees, |number| number);
    batches_on::<F64, u64>(&host, &trees, |number| number);
    batches_on::<u128, u32>(&host, &trees, wide);
    batches_on::<i128, u64>(&host, &trees, wide);
    batches_on::<i64, ()>(&host, &trees, |number| number);
    batches_on::<u128, ()>(&host, &trees, wide);
}
