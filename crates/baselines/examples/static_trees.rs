//! Throughput of the static trees, in millions of look-ups per second, by the number of look-ups in flight. Pairs are
//! u64, u64; all look-ups hit, uniformly at random; each figure is the best of five runs, whose results are checked.
//!
//! ```sh
//! cargo run --release -p lanetree-baselines --example static_trees -- 20 24
//! ```
//!
//! Arguments are log2 of the numbers of pairs. With glibc, `GLIBC_TUNABLES=glibc.malloc.hugetlb=1` asks for huge pages.

use lanetree_baselines::Simd;
use lanetree_baselines::cpu::SortedVec;
use lanetree_baselines::fast::Fast;
use lanetree_baselines::splus::SPlusTree;
use std::time::Instant;

const QUERIES: u64 = 1 << 22;
const IN_FLIGHT: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// A bijection of 64-bit words (the finaliser of SplitMix64).
fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Look-ups per microsecond; each key's value is its complement.
fn rate(threads: usize, queries: &[u64], get_into: impl Fn(&[u64], &mut [Option<u64>]) + Sync) -> f64 {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be started");
    let mut out = vec![None; queries.len()];
    let seconds = (0..5).map(|_| {
        let start = Instant::now();
        pool.install(|| get_into(queries, &mut out));
        let seconds = start.elapsed().as_secs_f64();
        assert!(queries.iter().zip(&out).all(|(&key, &value)| value == Some(!key)), "a look-up missed");
        seconds
    });
    queries.len() as f64 / seconds.fold(f64::INFINITY, f64::min) / 1e6
}

fn print(row: &str, rates: impl Iterator<Item = f64>) {
    print!("{row:24}");
    rates.for_each(|rate| print!("{rate:7.1}"));
    println!();
}

fn main() {
    let sizes: Vec<u32> = std::env::args().skip(1).map(|size| size.parse().expect("log2 of a size")).collect();
    for size in if sizes.is_empty() { vec![20] } else { sizes } {
        let step = u64::MAX >> size;
        let keys: Vec<u64> = (0..1 << size).map(|i| i * step + mix(i) % step).collect();
        let values: Vec<u64> = keys.iter().map(|key| !key).collect();
        let queries: Vec<u64> = (0..QUERIES).map(|i| keys[(mix(i + QUERIES) >> (64 - size)) as usize]).collect();
        let (mut fast, mut splus) = (Fast::new(&keys, &values), SPlusTree::new(&keys, &values));
        println!("2^{size} pairs: {} MiB of {fast:?},", fast.bytes() >> 20);
        println!("{} MiB of {splus:?}", splus.bytes() >> 20);
        let sorted = SortedVec::new(keys, values);
        for threads in [1, 2] {
            print("in flight", IN_FLIGHT.into_iter().map(|in_flight| in_flight as f64));
            for simd in Simd::ALL.into_iter().filter(|simd| simd.is_available()) {
                fast.set_simd(simd);
                splus.set_simd(simd);
                let rates = IN_FLIGHT.map(|in_flight| {
                    fast.set_in_flight(in_flight);
                    rate(threads, &queries, |queries, out| fast.get_into(queries, out))
                });
                print(&format!("{threads} × {simd:?}, FAST"), rates.into_iter());
                let rates = IN_FLIGHT.map(|in_flight| {
                    splus.set_in_flight(in_flight);
                    rate(threads, &queries, |queries, out| splus.get_into(queries, out))
                });
                print(&format!("{threads} × {simd:?}, S+ tree"), rates.into_iter());
            }
            let rate = rate(threads, &queries, |queries, out| sorted.get_into(queries, out));
            print(&format!("{threads} × SortedVec"), [rate].into_iter());
        }
    }
}
