//! Look-ups on the CPU: Harmonia's own path, the standard library's B-tree, binary search; all threads.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use lanetree::{Device, Harmonia};
use lanetree_baselines::cpu::{BTree, SortedVec};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::hint::black_box;

const QUERIES: usize = 1 << 14;

fn lookups(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("get_many, u64/u64, random hits");
    group.throughput(Throughput::Elements(QUERIES as u64));
    for size in [16, 20] {
        let len = 1_u64 << size;
        let keys: Vec<u64> = (0..len).map(|i| i.wrapping_mul(u64::MAX / len)).collect();
        let values: Vec<u64> = (0..len).collect();
        let mut rng = StdRng::seed_from_u64(1);
        let ranks: Vec<usize> = (0..QUERIES).map(|_| rng.random_range(0..keys.len())).collect();
        let queries: Vec<u64> = ranks.iter().map(|&rank| keys[rank]).collect();
        let expected: Vec<Option<u64>> = ranks.iter().map(|&rank| Some(values[rank])).collect();

        let tree = Harmonia::build(&Device::host(), &keys, &values).expect("the host has room for it");
        let btree = BTree::new(keys.iter().copied().zip(values.iter().copied()));
        let sorted = SortedVec::new(keys, values);
        let mut out = vec![None; QUERIES];
        let n = format!("n = 2^{size}");
        group.bench_function(BenchmarkId::new("harmonia", &n), |bencher| {
            bencher.iter(|| tree.get_many_into(black_box(&queries), &mut out).expect("nothing to go wrong"));
        });
        assert_eq!(out, expected);
        group.bench_function(BenchmarkId::new("BTreeMap", &n), |bencher| {
            bencher.iter(|| btree.get_into(black_box(&queries), &mut out));
        });
        assert_eq!(out, expected);
        group.bench_function(BenchmarkId::new("sorted Vec", &n), |bencher| {
            bencher.iter(|| sorted.get_into(black_box(&queries), &mut out));
        });
        assert_eq!(out, expected);
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(500))
        .measurement_time(std::time::Duration::from_secs(2));
    targets = lookups
}
criterion_main!(benches);
