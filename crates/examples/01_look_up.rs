//! Build an index over pairs in any order, look keys up, ask for ranks and neighbours.
//!
//! `cargo run --release -p lanetree-examples --example 01_look_up`; on a GPU machine with `--features cuda`.

use lanetree::{Device, LaneTree};

fn main() -> lanetree::Result<()> {
    // The first GPU if the program was built for it and there is one; else the CPU.
    let device = Device::best();
    println!("device: {device}");

    // Order numbers and their row numbers, as they come: the squares, backwards, one of them twice.
    let mut orders: Vec<u64> = (0..1_000_000_u64).rev().map(|i| i * i).collect();
    let mut rows: Vec<u64> = (0..1_000_000).collect();
    orders.push(49);
    rows.push(u64::MAX);

    let index = LaneTree::build(&device, &orders, &rows)?;
    let stats = index.stats();
    println!(
        "{} pairs in {} buckets below {} levels of nodes, {:.1} bytes per pair",
        stats.len,
        stats.buckets,
        stats.height,
        stats.bytes() as f64 / stats.len as f64
    );

    // A batch of point look-ups. Of equal keys in the input the last one's value stayed.
    let found = index.get_many(&[49, 50, 999_999 * 999_999])?;
    println!("49 -> {:?}, 50 -> {:?}, 999999^2 -> {:?}", found[0], found[1], found[2]);
    assert_eq!(found, [Some(u64::MAX), None, Some(0)]);

    // Ranks and neighbours.
    assert_eq!(index.lower_bound_many(&[50])?, [8]);
    assert_eq!(index.predecessor_many(&[50])?[0], Some((49, u64::MAX)));
    assert_eq!(index.successor_many(&[50])?[0].map(|pair| pair.0), Some(64));
    println!("50 would be the {}th key, between 49 and 64", index.lower_bound_many(&[50])?[0]);
    Ok(())
}
