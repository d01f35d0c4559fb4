//! Ordered sets of keys: which visitors are new, and how many have come from a network.
//!
//! `cargo run --release -p lanetree-examples --example sets`; on a GPU machine with `--features cuda`.

use lanetree::{Device, LaneSet};
use std::net::Ipv4Addr;

fn key(address: [u8; 4]) -> u32 {
    Ipv4Addr::from(address).into()
}

fn main() -> lanetree::Result<()> {
    let device = Device::best();
    let yesterday = [[192, 0, 2, 1], [192, 0, 2, 77], [198, 51, 100, 9]].map(key);
    let mut visitors = LaneSet::builder().fill(0.7).build(&device, &yesterday)?;

    let today = [[203, 0, 113, 5], [192, 0, 2, 77], [192, 0, 2, 200]].map(key);
    for (&visitor, is_known) in today.iter().zip(visitors.contains_many(&today)?) {
        println!("{}: {}", Ipv4Addr::from(visitor), if is_known { "known" } else { "new" });
    }
    let report = visitors.insert_many(&today)?;
    assert_eq!((report.inserted, report.replaced), (2, 1));

    // All of a network, in order, and how many there are.
    let network = key([192, 0, 2, 0])..=key([192, 0, 2, 255]);
    let rows = visitors.range_many([network.clone()])?;
    assert_eq!(rows.get(0), [[192, 0, 2, 1], [192, 0, 2, 77], [192, 0, 2, 200]].map(key));
    println!("{} of {} visitors from 192.0.2.0/24", visitors.count_range_many([network])?[0], visitors.len());
    Ok(())
}
