//! Batches of inserts and removals on the CPU with all threads: Harmonia's (Algorithm 1 of the paper)
//! against a concurrent B+tree.
//!
//! Not a criterion bench: a batch changes the tree, one of 2^24 pairs is not built again for every sample,
//! and a ratio is worth most if the competitors take turns. Each round inserts the same fresh keys into
//! every tree and removes them again; the table has medians over the rounds.
//!
//! ```sh
//! cargo bench -p lanetree-bench --bench cpu_updates -- --pairs 24 --batch 20 --rounds 7
//! ```

use clap::Parser;
use lanetree::{Device, Harmonia};
use lanetree_baselines::cpu::ConcurrentTree;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rayon::prelude::*;
use std::time::Instant;

#[derive(Parser)]
struct Options {
    /// Pairs of each tree, as a power of two.
    #[arg(long, default_value_t = 24)]
    pairs: u32,
    /// Keys of a batch, as a power of two.
    #[arg(long, default_value_t = 20)]
    batch: u32,
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// What cargo passes to benches, and does not pass to tests.
    #[arg(long, hide = true)]
    bench: bool,
}

enum Tree {
    Harmonia(Box<Harmonia<u64, u64>>),
    Concurrent(ConcurrentTree<u64, u64>),
    /// Gets its batches sorted, which is part of the time.
    ConcurrentSorted(ConcurrentTree<u64, u64>),
}

impl Tree {
    fn insert(&mut self, keys: &[u64], values: &[u64]) -> usize {
        match self {
            Self::Harmonia(tree) => tree.insert_many(keys, values).expect("the host has room for it").inserted as usize,
            Self::Concurrent(tree) => tree.insert_many(keys, values),
            Self::ConcurrentSorted(tree) => {
                let mut pairs: Vec<(u64, u64)> = keys.iter().copied().zip(values.iter().copied()).collect();
                pairs.par_sort_unstable();
                let (keys, values): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
                tree.insert_many(&keys, &values)
            }
        }
    }

    fn remove(&mut self, keys: &[u64]) -> usize {
        match self {
            Self::Harmonia(tree) => tree.remove_many(keys).expect("the host has room for it").removed as usize,
            Self::Concurrent(tree) => tree.remove_many(keys),
            Self::ConcurrentSorted(tree) => {
                let mut keys = keys.to_vec();
                keys.par_sort_unstable();
                tree.remove_many(&keys)
            }
        }
    }

    fn update(&mut self, keys: &[u64], values: &[u64]) -> Option<usize> {
        match self {
            Self::Harmonia(tree) => {
                Some(tree.update_many(keys, values).expect("nothing to go wrong").replaced as usize)
            }
            // It has no update in place.
            Self::Concurrent(_) | Self::ConcurrentSorted(_) => None,
        }
    }

    fn get(&self, queries: &[u64]) -> Vec<Option<u64>> {
        let mut out = vec![None; queries.len()];
        match self {
            Self::Harmonia(tree) => tree.get_many_into(queries, &mut out).expect("nothing to go wrong"),
            Self::Concurrent(tree) | Self::ConcurrentSorted(tree) => tree.get_into(queries, &mut out),
        }
        out
    }
}

fn concurrent(keys: &[u64]) -> ConcurrentTree<u64, u64> {
    let tree = ConcurrentTree::default();
    assert_eq!(tree.insert_many(keys, keys), keys.len());
    tree
}

fn main() {
    let mut options = Options::parse();
    if !options.bench {
        // Run as a test: does it still work?
        (options.pairs, options.batch, options.rounds) = (12, 9, 2);
    }
    let (len, batch) = (1_u64 << options.pairs, 1_usize << options.batch);
    // The keys of the trees are even, and those of the batches odd.
    let spacing = u64::MAX / len;
    let keys: Vec<u64> = (0..len).map(|i| (i * spacing) & !1).collect();
    let harmonia = |fanout, fill| {
        let builder = Harmonia::builder().fanout(fanout).fill(fill);
        Tree::Harmonia(Box::new(builder.build_sorted(&Device::host(), &keys, &keys).expect("it is sorted")))
    };
    let mut trees = [
        ("scc::TreeIndex, batch as it comes", Tree::Concurrent(concurrent(&keys))),
        ("scc::TreeIndex, batch sorted first", Tree::ConcurrentSorted(concurrent(&keys))),
        ("harmonia, fanout 8, fill 1", harmonia(8, 1.0)),
        ("harmonia, fanout 8, fill 0.7", harmonia(8, 0.7)),
        ("harmonia, fanout 32, fill 0.7", harmonia(32, 0.7)),
    ];
    let mut rng = StdRng::seed_from_u64(1);
    let mut times = vec![[const { Vec::new() }; 3]; trees.len()];
    for _ in 0..options.rounds {
        let mut fresh: Vec<u64> = (0..batch * 2).map(|_| rng.random::<u64>() | 1).collect();
        fresh.sort_unstable();
        fresh.dedup();
        fresh.shuffle(&mut rng);
        fresh.truncate(batch);
        let values: Vec<u64> = fresh.iter().map(|key| !key).collect();
        let expected: Vec<Option<u64>> = values.iter().map(|&value| Some(value)).collect();
        let present: Vec<u64> = (0..batch).map(|_| keys[rng.random_range(0..keys.len())]).collect();
        for ((_, tree), times) in trees.iter_mut().zip(&mut times) {
            let start = Instant::now();
            let updated = tree.update(&present, &present);
            times[2].extend(updated.map(|_| start.elapsed().as_secs_f64()));

            let start = Instant::now();
            assert_eq!(tree.insert(&fresh, &values), batch);
            times[0].push(start.elapsed().as_secs_f64());
            assert!(tree.get(&fresh) == expected, "the batch is there");

            let start = Instant::now();
            assert_eq!(tree.remove(&fresh), batch);
            times[1].push(start.elapsed().as_secs_f64());
            assert!(tree.get(&fresh).iter().all(Option::is_none), "the batch is gone");
            assert!(tree.get(&present).iter().zip(&present).all(|(value, &key)| *value == Some(key)));
        }
    }
    let threads = rayon::current_num_threads();
    println!(
        "u64/u64, 2^{} pairs, random batches of 2^{}, {threads} threads, medians of {} rounds; M operations/s",
        options.pairs, options.batch, options.rounds
    );
    println!("{:36} {:>8} {:>7} {:>8} {:>7} {:>8}", "", "insert", "ratio", "remove", "ratio", "update");
    let rate = |times: &Vec<f64>| {
        let mut times = times.clone();
        times.sort_unstable_by(f64::total_cmp);
        Some(batch as f64 / times.get(times.len() / 2)? / 1e6)
    };
    let best = |which: usize| times[..2].iter().filter_map(|times| rate(&times[which])).fold(0.0, f64::max);
    let (inserts, removals) = (best(0), best(1));
    for ((name, _), times) in trees.iter().zip(&times) {
        let [insert, remove, update] = [0, 1, 2].map(|which| rate(&times[which]));
        let (insert, remove) = (insert.unwrap_or(0.0), remove.unwrap_or(0.0));
        let update = update.map_or("".into(), |rate| format!("{rate:8.2}"));
        let ratios = (insert / inserts, remove / removals);
        println!("{name:36} {insert:8.2} {:7.2} {remove:8.2} {:7.2} {update:>8}", ratios.0, ratios.1);
    }
    println!("ratio: to the better of the two scc::TreeIndex rows");
}
