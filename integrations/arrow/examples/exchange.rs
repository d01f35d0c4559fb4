//! An index in Arrow IPC and Parquet: `cargo run -p lanetree-arrow --features ipc,parquet --example exchange`.

use lanetree::{Device, LaneTree};
use lanetree_arrow::{Nulls, read_ipc, read_parquet, write_ipc, write_parquet};
use std::fs::{File, remove_file};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::best();
    let index = LaneTree::<u64, u32>::build(&device, &[5, 2, 3], &[50, 20, 30])?;

    let path = std::env::temp_dir().join(format!("lanetree-{}.arrow", std::process::id()));
    write_ipc(&index, File::create(&path)?)?;
    let read: LaneTree<u64, u32> = read_ipc(&device, File::open(&path)?, Nulls::Refuse)?;
    println!("{} pairs in Arrow IPC: {:?}", read.len(), read.pairs()?);

    write_parquet(&index, File::create(&path)?)?;
    let read: LaneTree<u64, u32> = read_parquet(&device, File::open(&path)?, Nulls::Refuse)?;
    println!("{} pairs in Parquet: {:?}", read.len(), read.pairs()?);
    Ok(remove_file(path)?)
}
