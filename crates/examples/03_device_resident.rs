//! Device form: queries and results stay on the device, work goes on the caller's own streams, and the
//! caller says when to wait.
//!
//! `cargo run --release -p lanetree-examples --example 03_device_resident`; on a GPU machine with
//! `--features cuda`.

use lanetree::BatchOrder;
use lanetree::{Device, DeviceRanges, Event, LaneTree, RangeScratch};

fn main() -> lanetree::Result<()> {
    let device = Device::best();
    println!("device: {device}");

    let n = 1_000_000_u64;
    let keys: Vec<u64> = (0..n).map(|i| i * 3).collect();
    let values: Vec<u64> = (0..n).collect();
    let index = LaneTree::builder().build_sorted(&device, &keys, &values)?;

    // A library that has a CUDA stream already would bring it: `unsafe { device.stream_from_raw(raw) }`.
    let stream = device.stream()?;
    let queries = device.upload(&(0..n).map(|i| i * 3 + i % 2).collect::<Vec<u64>>())?;
    let mut found_values = device.alloc(queries.len())?;
    let mut found = device.alloc(queries.len().div_ceil(32))?;

    let (start, end) = (device.event()?, device.event()?);
    start.record(&stream)?;
    // Returns before the work is done. The queries ascend, and the index may know it.
    index.on(&stream).order(BatchOrder::Sorted).hits(&mut found).get(&queries, &mut found_values)?;
    end.record(&stream)?;

    // More work after it on the same stream: ranges, with all memory allocated in advance.
    let starts = device.upload(&[0_u64, 30, 2_999_997])?;
    let ends = device.upload(&[10_u64, 29, u64::MAX])?;
    let mut scratch = RangeScratch::new(&device, starts.len())?;
    let mut ranges = DeviceRanges::new(&device, starts.len(), 100)?;
    index.on(&stream).range(&starts, &ends, &mut scratch, &mut ranges)?;

    // Copies to the host would wait for the stream, too; this call also reports errors of the kernels.
    stream.synchronize()?;
    let found_values = found_values.to_vec()?;
    let hits: u32 = found.to_vec()?.iter().map(|word| word.count_ones()).sum();
    assert_eq!(hits as u64, n / 2);
    assert_eq!(found_values[..4], [0, u64::MAX, 2, u64::MAX]);
    assert_eq!(ranges.offsets.to_vec()?, [0, 4, 4, 5]);

    let ms = Event::elapsed_ms(&start, &end)?;
    println!("{n} look-ups in {ms:.3} ms, {hits} hits; ranges found {:?} pairs", ranges.offsets.to_vec()?);
    Ok(())
}
