//! Look-ups of random keys in adaptive radix trees on the CPU with all threads: CuART, the classical tree with
//! pointers, and two crates.
//!
//! Not a criterion bench: a ratio is worth most if the competitors take turns. Each round looks the same
//! fresh queries up in every tree; the tables have medians over the rounds. Every answer is checked. On a
//! machine that others use too, the CPU time that the process took says more than the time that went by: both
//! are there.
//!
//! ```sh
//! cargo bench -p lanetree-bench --bench cpu_radix_trees -- --pairs 20,24 --queries 20 --rounds 7
//! ```

use blart::TreeMap;
use clap::Parser;
use congee::U64Congee;
use lanetree::cuart::RootTable;
use lanetree::{ByteKeysBuf, Cuart, Device, FixedKey};
use lanetree_baselines::art::Art;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rayon::prelude::*;
use std::time::Instant;

/// Queries of one task of the crates.
const TASK: usize = 1 << 12;

#[derive(Parser)]
struct Options {
    /// Pairs of the trees, as powers of two.
    #[arg(long, value_delimiter = ',', default_values_t = [20, 22, 24])]
    pairs: Vec<u32>,
    /// Bytes of a key: 8, 16 or 32.
    #[arg(long, value_delimiter = ',', default_values_t = [8, 32])]
    key_bytes: Vec<usize>,
    /// Queries of a round, as a power of two.
    #[arg(long, default_value_t = 20)]
    queries: u32,
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// One tree only, by the beginning of its name, and the classical one.
    #[arg(long)]
    only: Option<String>,
    /// What cargo passes to benches, and does not pass to tests.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What looks up a batch.
trait Tree<K> {
    /// As for [`Cuart::get_many_into`]; `packed` are the queries too.
    fn get(&self, queries: &[K], packed: &ByteKeysBuf, out: &mut [Option<u64>]);

    /// Bytes, where the tree tells.
    fn bytes(&self) -> Option<u64>;
}

impl<K> Tree<K> for Cuart<u64> {
    fn get(&self, _: &[K], packed: &ByteKeysBuf, out: &mut [Option<u64>]) {
        self.get_many_into(packed, out).expect("nothing to go wrong");
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.stats().bytes())
    }
}

impl<K: AsRef<[u8]> + Sync> Tree<K> for Art {
    fn get(&self, queries: &[K], _: &ByteKeysBuf, out: &mut [Option<u64>]) {
        self.get_into(|i| queries[i].as_ref(), out);
    }

    fn bytes(&self) -> Option<u64> {
        Some(Art::bytes(self) as u64)
    }
}

impl<const N: usize> Tree<[u8; N]> for TreeMap<[u8; N], u64> {
    fn get(&self, queries: &[[u8; N]], _: &ByteKeysBuf, out: &mut [Option<u64>]) {
        queries.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).for_each(|(queries, out)| {
            for (query, out) in queries.iter().zip(out) {
                *out = TreeMap::get(self, query).copied();
            }
        });
    }

    fn bytes(&self) -> Option<u64> {
        None
    }
}

impl<const N: usize> Tree<[u8; N]> for U64Congee<usize> {
    fn get(&self, queries: &[[u8; N]], _: &ByteKeysBuf, out: &mut [Option<u64>]) {
        queries.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).for_each(|(queries, out)| {
            let guard = congee::epoch::pin();
            for (query, out) in queries.iter().zip(out) {
                *out = U64Congee::get(self, u64::read(&query[..8]), &guard).map(|value| value as u64);
            }
        });
    }

    fn bytes(&self) -> Option<u64> {
        None
    }
}

/// Seconds of CPU time that the process has had so far, of all its threads; 0 where the system does not tell.
fn cpu_seconds() -> f64 {
    #[cfg(unix)]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes to a local variable of the type that it wants.
        let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
        if status == 0 {
            return time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9;
        }
    }
    0.0
}

/// A tree, what it is called, and how long it took to build.
struct Competitor<K> {
    name: &'static str,
    tree: Box<dyn Tree<K>>,
    build: f64,
}

/// The trees over the same sorted keys.
fn competitors<const N: usize>(keys: &[[u8; N]], values: &[u64], options: &Options) -> Vec<Competitor<[u8; N]>> {
    let packed = ByteKeysBuf::encode(keys);
    let mut all = Vec::new();
    let mut add = |name: &'static str, build: &dyn Fn() -> Box<dyn Tree<[u8; N]>>| {
        if name != "ART" && options.only.as_ref().is_some_and(|only| !name.starts_with(only.as_str())) {
            return;
        }
        let start = Instant::now();
        let tree = build();
        all.push(Competitor { name, tree, build: start.elapsed().as_secs_f64() });
    };
    let cuart = |table| {
        let tree = Cuart::builder().root_table(table).build_sorted(&Device::host(), &packed, values);
        Box::new(tree.expect("it is sorted")) as Box<dyn Tree<[u8; N]>>
    };
    add("ART", &|| Box::new(Art::new(keys.iter().zip(values.iter().copied()))));
    add("blart", &|| {
        let mut map: TreeMap<[u8; N], u64> = TreeMap::new();
        for (&key, &value) in keys.iter().zip(values) {
            map.insert(key, value);
        }
        Box::new(map)
    });
    if N == 8 {
        add("congee", &|| {
            let tree = U64Congee::<usize>::default();
            let guard = congee::epoch::pin();
            for (key, &value) in keys.iter().zip(values) {
                tree.insert(u64::read(&key[..8]), value as usize, &guard).expect("there is room");
            }
            drop(guard);
            Box::new(tree)
        });
    }
    add("CuART, no table", &|| cuart(RootTable::None));
    add("CuART, 2 bytes", &|| cuart(RootTable::TwoBytes));
    add("CuART, 3 bytes", &|| cuart(RootTable::ThreeBytes));
    all
}

fn run<const N: usize>(pairs: u32, options: &Options) {
    let mut rng = StdRng::seed_from_u64(u64::from(pairs));
    let mut keys: Vec<[u8; N]> = (0..1_usize << pairs).map(|_| core::array::from_fn(|_| rng.random())).collect();
    keys.par_sort_unstable();
    keys.dedup();
    let values: Vec<u64> = (0..keys.len() as u64).collect();
    let competitors = competitors(&keys, &values, options);
    let mut times = vec![[const { Vec::new() }; 2]; competitors.len()];
    let queries = 1 << options.queries;
    for _ in 0..options.rounds {
        let ranks: Vec<usize> = (0..queries).map(|_| rng.random_range(0..keys.len())).collect();
        let batch: Vec<[u8; N]> = ranks.iter().map(|&rank| keys[rank]).collect();
        let packed = ByteKeysBuf::encode(&batch);
        for (competitor, times) in competitors.iter().zip(&mut times) {
            let mut out = vec![Some(0); queries];
            let (start, cpu) = (Instant::now(), cpu_seconds());
            competitor.tree.get(&batch, &packed, &mut out);
            times[0].push(start.elapsed().as_secs_f64());
            times[1].push(cpu_seconds() - cpu);
            assert!(out.iter().zip(&ranks).all(|(value, &rank)| *value == Some(values[rank])), "{}", competitor.name);
        }
    }
    let threads = rayon::current_num_threads();
    println!(
        "\n2^{pairs} random keys of {N} bytes, 2^{} random hits, {threads} threads, medians of {} rounds",
        options.queries, options.rounds
    );
    println!("{:20} {:>10} {:>6} {:>10} {:>6} {:>8} {:>8}", "", "M/s", "ratio", "CPU ns", "ratio", "B/key", "build, s");
    let mut baseline = None;
    for (competitor, times) in competitors.iter().zip(&mut times) {
        let [wall, cpu] = times.each_mut().map(|times| {
            times.sort_unstable_by(f64::total_cmp);
            times[times.len() / 2] / queries as f64
        });
        let (base_wall, base_cpu) = *baseline.get_or_insert((wall, cpu));
        let bytes =
            competitor.tree.bytes().map_or("".into(), |bytes| format!("{:.1}", bytes as f64 / keys.len() as f64));
        println!(
            "{:20} {:10.2} {:6.2} {:10.0} {:6.2} {bytes:>8} {:8.2}",
            competitor.name,
            1e-6 / wall,
            base_wall / wall,
            cpu * 1e9,
            base_cpu / cpu,
            competitor.build
        );
    }
}

fn main() {
    let mut options = Options::parse();
    if !options.bench {
        // Run as a test: does it still work?
        (options.pairs, options.queries, options.rounds) = (vec![12], 9, 2);
    }
    for &pairs in &options.pairs {
        for &bytes in &options.key_bytes {
            match bytes {
                8 => run::<8>(pairs, &options),
                16 => run::<16>(pairs, &options),
                32 => run::<32>(pairs, &options),
                _ => eprintln!("keys of {bytes} bytes: there are benches for 8, 16 and 32"),
            }
        }
    }
    println!("\nCPU ns: of CPU time for a look-up, all threads together; ratios: to ART, the tree with pointers");
}
