//! Keys of 16 bytes: who has been given an IPv6 address, and which of a network's addresses have been seen.
//!
//! `cargo run --release -p lanetree-examples --example ipv6_prefixes`; on a GPU machine with `--features cuda`.

use lanetree::{Bytes16, Device, LaneTree};
use std::net::{AddrParseError, Ipv6Addr};

/// Prefixes that do not overlap, and whose they are.
const PREFIXES: [(&str, u32, &str); 4] = [
    ("2001:db8::", 32, "documentation"),
    ("2001:4860::", 32, "a search engine"),
    ("2620:0:860::", 46, "an encyclopedia"),
    ("fe80::", 10, "the link itself"),
];

fn key(address: &str) -> Result<Bytes16, AddrParseError> {
    Ok(address.parse::<Ipv6Addr>()?.into())
}

/// The last address of a prefix.
fn last(first: Bytes16, bits: u32) -> Bytes16 {
    let host_bits = u128::MAX.checked_shr(bits).unwrap_or(0);
    Bytes16::new((u128::from_be_bytes(first.get()) | host_bits).to_be_bytes())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::best();
    let firsts = PREFIXES.iter().map(|prefix| key(prefix.0)).collect::<Result<Vec<_>, _>>()?;
    let owners = LaneTree::build(&device, &firsts, &[0_u32, 1, 2, 3])?;

    // The prefix of an address is the last one that begins at or before it, if it reaches so far.
    let addresses = ["2001:4860:4860::8888", "2620:0:861:ed1a::1", "2003::1", "fe80::1"];
    let asked = addresses.iter().map(|address| key(address)).collect::<Result<Vec<_>, _>>()?;
    let mut found = Vec::new();
    for (address, before) in asked.iter().zip(owners.predecessor_many(&asked)?) {
        let owner = before.filter(|&(first, row)| *address <= last(first, PREFIXES[row as usize].1));
        found.push(owner.map_or("nobody", |(_, row)| PREFIXES[row as usize].2));
        println!("{}: {}", Ipv6Addr::from(*address), found[found.len() - 1]);
    }
    assert_eq!(found, ["a search engine", "an encyclopedia", "nobody", "the link itself"]);

    // Addresses that were seen, and how often; then the addresses of one network, in order.
    let mut seen = LaneTree::build(&device, &asked, &[7_u64, 1, 2, 40])?;
    seen.insert_many(&[key("2001:4860:4860::8844")?, key("2001:4860::1")?], &[3, 5])?;
    let network = key("2001:4860::")?;
    let rows = seen.range_many([network..=last(network, 32)])?;
    let (keys, counts) = rows.get(0);
    assert_eq!(keys, [key("2001:4860::1")?, key("2001:4860:4860::8844")?, key("2001:4860:4860::8888")?]);
    assert_eq!(counts, [5, 3, 7]);
    println!("{} addresses of 2001:4860::/32, seen {} times", keys.len(), counts.iter().sum::<u64>());
    Ok(())
}
