//! Building trees, and ranges in them, on the CPU with all threads.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use lanetree::{Device, Harmonia};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::hint::black_box;

const LEN: u64 = 1 << 18;

/// Pairs that a batch of ranges returns.
const PAIRS: usize = 1 << 16;

fn build(criterion: &mut Criterion) {
    let keys: Vec<u64> = (0..LEN).map(|i| i * 0x1234_5678_9abc).collect();
    let mut shuffled = keys.clone();
    shuffled.shuffle(&mut StdRng::seed_from_u64(1));
    let mut group = criterion.benchmark_group("build, u64/u64, n = 2^18");
    group.throughput(Throughput::Elements(LEN));
    let host = Device::host();
    group.bench_function("from sorted pairs", |bencher| {
        bencher.iter(|| Harmonia::builder().build_sorted(&host, black_box(&keys), &keys).expect("it is sorted"));
    });
    group.bench_function("from pairs in any order", |bencher| {
        bencher.iter(|| Harmonia::build(&host, black_box(&shuffled), &shuffled).expect("the host has room for it"));
    });
    group.finish();
}

fn ranges(criterion: &mut Criterion) {
    let keys: Vec<u64> = (0..LEN).map(|i| i * 3).collect();
    let tree = Harmonia::builder().build_sorted(&Device::host(), &keys, &keys).expect("it is sorted");
    let mut group = criterion.benchmark_group("range_many, u64/u64, n = 2^18");
    group.throughput(Throughput::Elements(PAIRS as u64));
    let mut rng = StdRng::seed_from_u64(2);
    for length in [8, 1024] {
        let mut range = || {
            let first = rng.random_range(0..=LEN - length);
            first * 3..(first + length) * 3
        };
        let batch: Vec<_> = (0..PAIRS as u64 / length).map(|_| range()).collect();
        group.bench_function(BenchmarkId::from_parameter(format!("{length} pairs a range")), |bencher| {
            bencher.iter(|| {
                let found = tree.range_many(black_box(&batch).iter().cloned()).expect("no range is reversed");
                assert_eq!(found.keys.len(), PAIRS);
                found
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(500))
        .measurement_time(std::time::Duration::from_secs(2));
    targets = build, ranges
}
criterion_main!(benches);
