//! Looks words up in a word list, and lists those that begin with given letters: Debian's package
//! `wamerican` in a radix tree.
//!
//! ```text
//! apt-get install wamerican
//! cargo run --release -p lanetree-examples --example words -- lane tree radix xyzzy
//! cargo run --release -p lanetree-examples --example words -- --file words.txt lane
//! ```
//!
//! The file has a word on each line, in any order. For each argument it tells whether it is a word, and which
//! words begin with it; then it looks up 4 million words, half of them misspelt, and counts the words after
//! a million prefixes, and tells how fast.

use lanetree::{ByteKeysBuf, Cuart, Device};
use std::process::ExitCode;
use std::time::Instant;

/// Where the package puts it.
const DEFAULT_FILE: &str = "/usr/share/dict/words";

/// Look-ups for the rate.
const LOOKUPS: u64 = 1 << 22;

/// Prefixes for the rate.
const PREFIXES: u64 = 1 << 20;

/// Words that are listed after a prefix.
const LISTED: usize = 5;

fn run() -> Result<(), String> {
    let mut path = DEFAULT_FILE.to_owned();
    let mut asked = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--file" {
            path = arguments.next().ok_or("--file wants a path")?;
        } else {
            asked.push(argument);
        }
    }
    let text = std::fs::read(&path)
        .map_err(|e| format!("{path}: {e}; `apt-get install wamerican`, or name a file with --file"))?;
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return Err(format!("{path}: no words in it"));
    }
    words(&lines, &asked).map_err(|e| e.to_string())
}

fn words(lines: &[&[u8]], asked: &[String]) -> lanetree::Result<()> {
    let numbers: Vec<u32> = (1..=lines.len() as u32).collect();
    let words: ByteKeysBuf = lines.iter().collect();
    let start = Instant::now();
    let tree = Cuart::build(&Device::best(), &words, &numbers)?;
    let seconds = start.elapsed().as_secs_f64();
    let stats = tree.stats();
    println!(
        "{} words, {:.1} bytes each, built in {seconds:.3} s, on {}",
        stats.len,
        stats.bytes_per_key,
        tree.device()
    );

    let queries: ByteKeysBuf = asked.iter().collect();
    let found = tree.get_many(&queries)?;
    let longer = tree.prefix_many(&queries)?;
    for ((query, line), (words, _)) in asked.iter().zip(found).zip(longer.iter()) {
        let is = line.map_or("is not a word".to_owned(), |line| format!("is on line {line}"));
        let first: Vec<_> = words.iter().take(LISTED).map(String::from_utf8_lossy).collect();
        println!("`{query}` {is}; {} words begin with it {first:?}", words.len());
    }

    let word = |i: u64| lines[(spread(i) % lines.len() as u64) as usize];
    let mut misspelt = Vec::new();
    let lookups: ByteKeysBuf = (0..LOOKUPS)
        .map(|i| {
            misspelt.clear();
            misspelt.extend_from_slice(word(i));
            if i % 2 == 1 {
                let at = spread(!i) as usize % misspelt.len();
                misspelt[at] = b'a' + (i / 2 % 26) as u8;
            }
            misspelt.clone()
        })
        .collect();
    let mut out = vec![None; lookups.len()];
    let start = Instant::now();
    tree.get_many_into(&lookups, &mut out)?;
    report("look-ups", LOOKUPS, start, &format!("{} are words", out.iter().flatten().count()));

    let prefixes: ByteKeysBuf = (0..PREFIXES).map(|i| &word(i)[..word(i).len().min(3)]).collect();
    let start = Instant::now();
    let counts = tree.prefix_count_many(&prefixes)?;
    report("prefixes", PREFIXES, start, &format!("{} words that begin so", counts.iter().sum::<u64>()));
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
