//! Resolves IPv4 addresses to countries by predecessor search over the address ranges of Debian's
//! package `tor-geoipdb`.
//!
//! ```text
//! apt-get install tor-geoipdb
//! cargo run --release -p lanetree-examples --example ip_to_country -- 8.8.8.8 193.99.144.80
//! cargo run --release -p lanetree-examples --example ip_to_country -- --file ranges.csv 8.8.8.8
//! ```
//!
//! The file has a line `start,end,country` per range, addresses as decimal numbers; lines that begin
//! with `#` are comments. Without addresses, or besides them, it resolves 16 million random ones and
//! tells how fast.

use lanetree::{Device, Harmonia};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::Instant;

/// Where the package puts it.
const DEFAULT_FILE: &str = "/usr/share/tor/geoip";

/// Random addresses that are resolved for the rate.
const ADDRESSES: u64 = 1 << 24;

/// The ranges of a file: start addresses, and for each the number of its entry.
struct Countries {
    index: Harmonia<u32, u32>,
    /// The last address and the country of each entry.
    entries: Vec<(u32, u32)>,
    names: Vec<String>,
}

impl Countries {
    fn read(device: &Device, path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("{path}: {e}; `apt-get install tor-geoipdb`, or name a file with --file"))?;
        let (mut starts, mut entries, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let mut numbers = HashMap::new();
        for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let wrong = |what: &str| format!("{path}, line {}: {what} in `{line}`", i + 1);
            let mut fields = line.split(',');
            let mut address = |name: &str| {
                let field = fields.next().ok_or_else(|| wrong(&format!("no {name}")))?;
                field.parse::<u32>().map_err(|_| wrong(&format!("{name} `{field}` is no IPv4 address as a number")))
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
            starts.push(start);
            entries.push((end, number));
        }
        let values: Vec<u32> = (0..starts.len() as u32).collect();
        let index = Harmonia::build(device, &starts, &values).map_err(|e| e.to_string())?;
        Ok(Self { index, entries, names })
    }

    /// The country of each address; `None` for addresses in no range.
    fn resolve(&self, addresses: &[u32]) -> Result<Vec<Option<&str>>, String> {
        // The range that could hold an address is the last one that starts at or before it.
        let candidates = self.index.predecessor_many(addresses).map_err(|e| e.to_string())?;
        Ok(candidates
            .into_iter()
            .zip(addresses)
            .map(|(candidate, &address)| {
                let (end, country) = self.entries[candidate?.1 as usize];
                (address <= end).then(|| self.names[country as usize].as_str())
            })
            .collect())
    }
}

fn run() -> Result<(), String> {
    let mut path = DEFAULT_FILE.to_owned();
    let mut addresses: Vec<Ipv4Addr> = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--file" {
            path = arguments.next().ok_or("--file wants a path")?;
        } else {
            addresses.push(argument.parse().map_err(|_| format!("`{argument}` is no IPv4 address"))?);
        }
    }

    let device = Device::best();
    let countries = Countries::read(&device, &path)?;
    println!("{} ranges of {} countries on {device}", countries.index.len(), countries.names.len());

    let numbers: Vec<u32> = addresses.iter().map(|address| address.to_bits()).collect();
    for (address, country) in addresses.iter().zip(countries.resolve(&numbers)?) {
        println!("{address}: {}", country.unwrap_or("in no range"));
    }

    // Weyl's sequence: spread evenly over all addresses, in no order.
    let random: Vec<u32> = (0..ADDRESSES).map(|i| (i as u32).wrapping_mul(0x9e37_79b9)).collect();
    let start = Instant::now();
    let neighbours = countries.index.predecessor_many(&random).map_err(|e| e.to_string())?;
    let seconds = start.elapsed().as_secs_f64();
    let inside = neighbours
        .iter()
        .zip(&random)
        .filter(|(pair, address)| pair.is_some_and(|(_, entry)| **address <= countries.entries[entry as usize].0))
        .count();
    println!(
        "{ADDRESSES} random addresses in {seconds:.3} s, {:.1} million a second; {:.1} % are in a range",
        ADDRESSES as f64 / seconds / 1e6,
        100.0 * inside as f64 / ADDRESSES as f64
    );
    Ok(())
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
