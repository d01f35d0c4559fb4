//! How long a new process waits for its first answer, by index: with what the GPU's driver compiles, and without.

use crate::bench::columns::Column;
use crate::bench::data::{mix, value_of};
use crate::bench::error::{Error, Result};
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::runtime::MACHINE_CODE;
use lanetree::{
    Cuart, Cubpt, Device, DeviceKind, Domain, Harmonia, HbTree, IndexBuilder, KeyOf, LaneTree, OrderedIndex,
    SortedArray,
};
use lanetree_baselines::Checksum;
use lanetree_console::choice::{Choice, Chosen};
use lanetree_record::Timing;
use std::process::{Command, ExitCode};
use std::time::Instant;

pub(crate) const FIGURE: Measurement = Measurement::new("first-answer", Run::Alone(measure))
    .columns(&[("first answer ms", Column::of("first answer ms", |row| Some(format!("{:.1}", row.timing.median_ms))))]);

/// Child processes of each index and each state of the cache.
const CHILDREN: usize = 3;

/// Keys of the first batches of inserts.
const INSERTS: usize = 1 << 10;

/// The steps of a child, in the order in which it prints their milliseconds.
const STEPS: [&str; 5] = ["open_ms", "build_ms", "get_ms", "insert_ms", "second_insert_ms"];

/// An index that a child may build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Index {
    LaneTree,
    Sorted,
    Harmonia,
    Cuart,
    Cubpt,
    Hbtree,
}

impl Index {
    /// Its name in rows.
    fn name(self) -> &'static str {
        match self {
            Self::LaneTree => "lanetree",
            Self::Sorted => "sorted",
            Self::Harmonia => "harmonia",
            Self::Cuart => "cuart",
            Self::Cubpt => "cubpt",
            Self::Hbtree => "hbtree",
        }
    }
}

/// The first argument of a child.
pub(crate) const FIRST_ANSWER: &str = "first-answer";

/// The other arguments of a child.
#[derive(clap::Parser, Debug)]
pub(crate) struct Child {
    index: Index,
    #[arg(long, value_enum)]
    device: Choice,
    /// Pairs, and look-ups, as a power of two
    #[arg(long)]
    size: u32,
    #[arg(long)]
    seed: u64,
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let size = main_of(&request.sizes);
    // Only a GPU's driver has a cache; and machine code is there if somebody has compiled it.
    let has_machine_code = std::env::var_os(MACHINE_CODE).is_some();
    let caches: &[&str] = match (session.device.kind(), has_machine_code) {
        (DeviceKind::Cuda, true) => &["off", "on", "off, machine code"],
        (DeviceKind::Cuda, false) => &["off", "on"],
        _ => &["none"],
    };
    for &index in <Index as clap::ValueEnum>::value_variants() {
        for &cache in caches {
            let what = format!("first answer, {}, cache {cache}", index.name());
            if !session.has_time(&what) {
                continue;
            }
            let folder = std::env::temp_dir().join(format!("lanetree-first-answer-{}", std::process::id()));
            let mut runs = Vec::new();
            // With a cache, the first child fills it.
            for _ in 0..CHILDREN + usize::from(cache == "on") {
                runs.push(child(session, index, size, (cache, &folder))?);
            }
            let _ = std::fs::remove_dir_all(&folder);
            let runs = &runs[runs.len() - CHILDREN..];
            let answers = runs.iter().map(|steps| steps[..3].iter().sum()).collect();
            let len = 1 << size;
            let key = if index == Index::Cuart { "8 bytes" } else { "u64" };
            let row =
                Row::new(FIGURE.name, index.name(), "first answer", len, Timing::of(answers), Checksum::default());
            let row = row.on(session.device_name()).over(len, key, "u64", "uniform").with("cache", cache);
            let row = STEPS.iter().enumerate().fold(row, |row, (i, name)| {
                row.with(name, Timing::of(runs.iter().map(|steps| steps[i]).collect()).median_ms)
            });
            session.push(row);
        }
    }
    Ok(())
}

/// The milliseconds of the steps of a new process.
fn child(
    session: &Session,
    index: Index,
    size: u32,
    (cache, folder): (&str, &std::path::Path),
) -> Result<[f64; STEPS.len()]> {
    let failed = |why: String| Error::Usage(format!("a child process for {}: {why}", index.name()));
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(program);
    let name = clap::ValueEnum::to_possible_value(&index).expect("no index is skipped").get_name().to_owned();
    command.args([FIRST_ANSWER, &name, "--device", session.device_name()]);
    command.args(["--size", &size.to_string(), "--seed", &session.seed.to_string()]);
    if cache != "off, machine code" {
        command.env_remove(MACHINE_CODE);
    }
    match cache {
        "on" => command.env("CUDA_CACHE_DISABLE", "0").env("CUDA_CACHE_PATH", folder),
        _ => command.env("CUDA_CACHE_DISABLE", "1"),
    };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let steps: Vec<f64> = text.split_whitespace().filter_map(|step| step.parse().ok()).collect();
    match steps.try_into() {
        Ok(steps) if output.status.success() => Ok(steps),
        _ => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Runs a child: prints the milliseconds of its steps.
pub(crate) fn run(args: &Child) -> ExitCode {
    match steps(args) {
        Ok(steps) => {
            println!("{}", steps.map(|ms| ms.to_string()).join(" "));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn steps(args: &Child) -> Result<[f64; STEPS.len()]> {
    match args.index {
        Index::LaneTree => steps_of(args, &LaneTree::<u64, u64>::builder().fill(0.7), |word| word),
        Index::Sorted => steps_of(args, &SortedArray::<u64, u64>::builder(), |word| word),
        Index::Harmonia => steps_of(args, &Harmonia::<u64, u64>::builder(), |word| word),
        Index::Cuart => steps_of(args, &Cuart::<u64>::builder(), |word: u64| word.to_be_bytes().to_vec()),
        Index::Cubpt => steps_of(args, &Cubpt::<u64, u64>::builder().fill(0.7), |word| word),
        Index::Hbtree => steps_of(args, &HbTree::<u64, u64>::builder(), |word| word),
    }
}

/// The steps of an index whose keys are words, or made of them.
fn steps_of<B: IndexBuilder<Index: OrderedIndex<Value = u64>>>(
    args: &Child,
    builder: &B,
    key_of: impl Fn(u64) -> KeyOf<B::Index>,
) -> Result<[f64; STEPS.len()]> {
    type DomainOf<B> = <<B as IndexBuilder>::Index as OrderedIndex>::Domain;
    // All different, since `mix` maps no two words to one.
    let word = |place: usize| mix(args.seed ^ place as u64);
    let (len, first) = (1_usize << args.size, 1_usize << args.size);
    let keys_of = |places: core::ops::Range<usize>| {
        let words: Vec<u64> = places.map(word).collect();
        let values: Vec<u64> = words.iter().map(|&word| value_of(word)).collect();
        (words.into_iter().map(&key_of).collect::<<DomainOf<B> as Domain>::Keys>(), values)
    };
    let batch = |keys| <DomainOf<B> as Domain>::batch(keys);
    let (keys, values) = keys_of(0..len);
    let batches = [keys_of(first..first + INSERTS), keys_of(first + INSERTS..first + 2 * INSERTS)];

    let mut times = Vec::new();
    let mut start = Instant::now();
    let mut done = |times: &mut Vec<f64>| {
        times.push(start.elapsed().as_secs_f64() * 1e3);
        start = Instant::now();
    };
    let device = match args.device.open()? {
        Chosen::Device(device) => device,
        Chosen::NoGpu(_) => Device::host(),
    };
    done(&mut times);
    let mut index = builder.build(&device, batch(&keys), &values)?;
    done(&mut times);
    let found = index.get_many(batch(&keys))?;
    done(&mut times);
    let is_right = found.iter().zip(&values).all(|(found, value)| *found == Some(*value)) && found.len() == len;
    let mut inserted = 0;
    for (keys, values) in &batches {
        done(&mut Vec::new());
        inserted += index.insert_many(batch(keys), values)?.inserted;
        done(&mut times);
    }
    if !is_right || inserted != 2 * INSERTS as u64 || index.len() != len as u64 + inserted {
        let (found, expected) = (index.len() as usize, len + 2 * INSERTS);
        return Err(Error::Length { row: "first answer".into(), what: "pairs", expected, found });
    }
    Ok(times.try_into().expect("a time for each step"))
}
