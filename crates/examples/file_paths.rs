//! Tells which package of a Debian system a file belongs to, and how many files lie under a directory: the
//! package manager's own lists in a radix tree, whose keys are long and begin alike.
//!
//! ```text
//! cargo run --release -p lanetree-examples --example file_paths -- /bin/bash /usr/share/doc/
//! cargo run --release -p lanetree-examples --example file_paths -- --lists /mnt/var/lib/dpkg/info /usr/bin/
//! ```
//!
//! Each file `PACKAGE.list` of the folder has a path on each line. An argument that ends in `/` is a directory,
//! whose files are counted; any other is a file. Besides, it looks up 4 million paths, half of them of no file,
//! and counts the files under a million directories, and tells how fast.

use lanetree::{ByteKeysBuf, Cuart, Device};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Where the package manager keeps its lists: package `dpkg`.
const DEFAULT_LISTS: &str = "/var/lib/dpkg/info";

/// Look-ups for the rate.
const LOOKUPS: u64 = 1 << 22;

/// Directories for the rate.
const DIRECTORIES: u64 = 1 << 20;

/// Paths, and for each the number of its package.
#[derive(Default)]
struct Lists {
    paths: ByteKeysBuf,
    numbers: Vec<u32>,
    packages: Vec<String>,
}

impl Lists {
    fn read(folder: &str) -> Result<Self, String> {
        let unreadable = |path: &Path, error| {
            format!("{}: {error}; dpkg keeps its lists there, or name another folder with --lists", path.display())
        };
        let mut lists = Self::default();
        for entry in fs::read_dir(folder).map_err(|e| unreadable(folder.as_ref(), e))? {
            let path = entry.map_err(|e| unreadable(folder.as_ref(), e))?.path();
            if path.extension().is_none_or(|extension| extension != "list") {
                continue;
            }
            let list = fs::read(&path).map_err(|e| unreadable(&path, e))?;
            for line in list.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                lists.paths.push(line);
                lists.numbers.push(lists.packages.len() as u32);
            }
            lists.packages.push(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        }
        if lists.paths.is_empty() {
            return Err(format!("{folder}: no files PACKAGE.list with paths in them; dpkg writes them"));
        }
        Ok(lists)
    }
}

fn run() -> Result<(), String> {
    let mut folder = DEFAULT_LISTS.to_owned();
    let mut asked = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--lists" {
            folder = arguments.next().ok_or("--lists wants a folder")?;
        } else {
            asked.push(argument);
        }
    }
    paths(&Lists::read(&folder)?, &asked).map_err(|e| e.to_string())
}

fn paths(lists: &Lists, asked: &[String]) -> lanetree::Result<()> {
    let Lists { paths, numbers, packages } = lists;
    let start = Instant::now();
    // Directories are on many lists; the last one stays.
    let tree = Cuart::build(&Device::best(), paths, numbers)?;
    let seconds = start.elapsed().as_secs_f64();
    let stats = tree.stats();
    println!(
        "{} paths of {} packages, {:.1} bytes each in the tree, built in {seconds:.3} s, on {}",
        stats.len,
        packages.len(),
        stats.bytes_per_key,
        tree.device()
    );

    let queries: ByteKeysBuf = asked.iter().collect();
    let owners = tree.get_many(&queries)?;
    let counts = tree.prefix_count_many(&queries)?;
    for ((path, owner), count) in asked.iter().zip(owners).zip(counts) {
        match owner.map(|number| &packages[number as usize]) {
            _ if path.ends_with('/') => println!("{path}: {count} files and directories"),
            Some(package) => println!("{path}: of {package}"),
            None => println!("{path}: of no package"),
        }
    }

    let path = |i: u64| paths.get((spread(i) % paths.len() as u64) as usize).unwrap_or_default();
    let lookups: ByteKeysBuf =
        (0..LOOKUPS).map(|i| [path(i), if i % 2 == 1 { &b"~"[..] } else { b"" }].concat()).collect();
    let mut out = vec![None; lookups.len()];
    let start = Instant::now();
    tree.get_many_into(&lookups, &mut out)?;
    report("look-ups", LOOKUPS, start, &format!("{} found", out.iter().flatten().count()));

    // Up to the last slash, and with it.
    let directories: ByteKeysBuf = (0..DIRECTORIES)
        .map(|i| {
            let path = path(i);
            &path[..path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1)]
        })
        .collect();
    let start = Instant::now();
    let counts = tree.prefix_count_many(&directories)?;
    let most = counts.iter().max().copied().unwrap_or(0);
    report("directories", DIRECTORIES, start, &format!("the largest has {most} paths"));
    Ok(())
}

fn report(what: &str, count: u64, start: Instant, result: &str) {
    let seconds = start.elapsed().as_secs_f64();
    println!("{count} {what} in {seconds:.3} s, {:.1} million a second; {result}", count as f64 / seconds / 1e6);
}

/// Spreads numbers over all words, in no order: a step of the SplitMix64 generator.
fn spread(number: u64) -> u64 {
    let word = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}
