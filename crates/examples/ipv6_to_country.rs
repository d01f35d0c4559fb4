//! Resolves IPv6 addresses to countries by predecessor search over the address ranges of Debian's
//! package `tor-geoipdb`: keys of 16 bytes in a radix tree.
//!
//! ```text
//! apt-get install tor-geoipdb
//! cargo run --release -p lanetree-examples --example ipv6_to_country -- 2a00:1450:4001:810::200e 2001:200::1
//! cargo run --release -p lanetree-examples --example ipv6_to_country -- --file ranges.csv 2001:200::1
//! ```
//!
//! The file has a line `start,end,country` per range; lines that begin with `#` are comments. Without
//! addresses, or besides them, it resolves 4 million others and tells how fast.

use lanetree::{ByteKeysBuf, Cuart, Device};
use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::process::ExitCode;
use std::time::Instant;

/// Where the package puts it.
const DEFAULT_FILE: &str = "/usr/share/tor/geoip6";

/// Addresses that are resolved for the rate.
const ADDRESSES: u64 = 1 << 22;

/// The ranges of a file: a tree over their first addresses, with the number of each.
struct Countries {
    tree: Cuart<u32>,
    /// The first address, the last one and the country of each entry.
    entries: Vec<(u128, u128, u32)>,
    names: Vec<String>,
}

impl Countries {
    fn read(path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("{path}: {e}; `apt-get install tor-geoipdb`, or name a file with --file"))?;
        let (mut entries, mut names) = (Vec::new(), Vec::new());
        let mut numbers = HashMap::new();
        for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let wrong = |what: &str| format!("{path}, line {}: {what} in `{line}`", i + 1);
            let mut fields = line.split(',');
            let mut address = |name: &str| {
                let field = fields.next().ok_or_else(|| wrong(&format!("no {name}")))?;
                let address: Result<Ipv6Addr, _> = field.parse();
                address.map(u128::from).map_err(|_| wrong(&format!("{name} `{field}` is no IPv6 address")))
            };
            let (start, end) = (address("start")?, address("end")?);
            if start > end {
                return Err(wrong("the start is above the end"));
            }
            let name = fields.next().ok_or_else(|| wrong("no country"))?;
            let number = *numbers.entry(name).or_insert_with(|| {
                names.push(name.to_owned());
                names.len() as u32 - 1
            });
            entries.push((start, end, number));
        }
        // In the order of their starts, so that a rank tells an entry.
        entries.sort_by_key(|entry| entry.0);
        entries.dedup_by_key(|entry| entry.0);
        let starts: Vec<u128> = entries.iter().map(|entry| entry.0).collect();
        let values: Vec<u32> = (0..starts.len() as u32).collect();
        let tree = Cuart::build(&Device::best(), &ByteKeysBuf::encode(&starts), &values).map_err(|e| e.to_string())?;
        Ok(Self { tree, entries, names })
    }

    /// The number of each address's entry; `None` for addresses in no range.
    fn resolve(&self, addresses: &[u128]) -> Result<Vec<Option<u32>>, String> {
        // The range that could hold an address is the last one that starts at or before it.
        let ranks = self.tree.upper_bound_many(&ByteKeysBuf::encode(addresses)).map_err(|e| e.to_string())?;
        let entry = |(&rank, &address): (&u64, &u128)| {
            let entry = rank.checked_sub(1)? as u32;
            (address <= self.entries[entry as usize].1).then_some(entry)
        };
        Ok(ranks.iter().zip(addresses).map(entry).collect())
    }
}

fn run() -> Result<(), String> {
    let mut path = DEFAULT_FILE.to_owned();
    let mut addresses: Vec<Ipv6Addr> = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--file" {
            path = arguments.next().ok_or("--file wants a path")?;
        } else {
            addresses.push(argument.parse().map_err(|_| format!("`{argument}` is no IPv6 address"))?);
        }
    }

    let start = Instant::now();
    let countries = Countries::read(&path)?;
    let Countries { tree, entries, names } = &countries;
    println!(
        "{} ranges of {} countries on {}, {:.1} bytes each, read and built in {:.3} s",
        tree.len(),
        names.len(),
        tree.device(),
        tree.stats().bytes_per_key,
        start.elapsed().as_secs_f64()
    );

    let numbers: Vec<u128> = addresses.iter().map(|&address| address.into()).collect();
    for (address, entry) in addresses.iter().zip(countries.resolve(&numbers)?) {
        let country = entry.map(|entry| &*names[entries[entry as usize].2 as usize]);
        println!("{address}: {}", country.unwrap_or("in no range"));
    }
    if entries.is_empty() {
        return Ok(());
    }

    // Almost the whole address space is in no range. So take addresses in random ranges, and a quarter of them just
    // past a range.
    let some: Vec<u128> = (0..ADDRESSES)
        .map(|i| {
            let word = spread(i);
            let (first, last, _) = entries[(word % entries.len() as u64) as usize];
            let inside = u128::from(spread(word)) << 64 | u128::from(word);
            let offset = inside % (last - first).saturating_add(1);
            if i % 4 == 0 { last.saturating_add(offset) } else { first + offset }
        })
        .collect();
    let start = Instant::now();
    let found = countries.resolve(&some)?;
    let seconds = start.elapsed().as_secs_f64();
    let inside = found.iter().flatten().count();
    println!(
        "{ADDRESSES} addresses in {seconds:.3} s, {:.1} million a second; {:.1} % are in a range",
        ADDRESSES as f64 / seconds / 1e6,
        100.0 * inside as f64 / ADDRESSES as f64
    );
    Ok(())
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
