//! Runs the kernel on the first GPU, or without one on the emulator, and compares it with a loop on the CPU.

use lanetree::{Device, DeviceKind, LaneTree};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;
use sum_by_group::{Rows, sum_by_group};

const GROUPS: usize = 1000;

fn main() -> lanetree::Result<ExitCode> {
    let device = Device::cuda(0).unwrap_or_else(|error| {
        eprintln!("no GPU ({error}): on the emulator, with few rows");
        Device::emulated()
    });
    let (keys, rows) = if device.kind() == DeviceKind::Cuda { (1_u64 << 20, 1_u64 << 24) } else { (1 << 12, 1 << 14) };
    println!("{device}: {keys} keys, {rows} rows, {GROUPS} groups");

    // Every third number is a key; rows have keys up to the last one, so that two of three are left out.
    let scramble = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let index_keys: Vec<u64> = (0..keys).map(|i| 3 * i).collect();
    let index_groups: Vec<u32> = (0..keys).map(|i| (scramble(i) % GROUPS as u64) as u32).collect();
    let row_keys: Vec<u64> = (0..rows).map(|i| scramble(i) % (3 * keys)).collect();
    let row_amounts: Vec<u64> = (0..rows).map(|i| i % 100).collect();

    let groups = LaneTree::build(&device, &index_keys, &index_groups)?;
    let (keys, amounts) = (device.upload(&row_keys)?, device.upload(&row_amounts)?);
    let mut sums = device.upload(&[0_u64; GROUPS])?;
    let stream = device.stream()?;
    let mut time = None;
    // The driver compiles the kernel at its first launch: the second one is timed.
    for _ in 0..2 {
        sums.fill_zero_range(&stream, 0..GROUPS)?;
        stream.synchronize()?;
        let start = Instant::now();
        sum_by_group(&stream, &groups, Rows { keys: &keys, amounts: &amounts }, &mut sums)?;
        stream.synchronize()?;
        time = Some(start.elapsed());
    }

    let group_of: BTreeMap<u64, u32> = index_keys.into_iter().zip(index_groups).collect();
    let mut expected = vec![0_u64; GROUPS];
    for (key, amount) in row_keys.iter().zip(&row_amounts) {
        if let Some(&group) = group_of.get(key) {
            expected[group as usize] += amount;
        }
    }
    if sums.to_vec()? != expected {
        eprintln!("WRONG: the kernel's sums are not those of the CPU");
        return Ok(ExitCode::FAILURE);
    }
    println!("the sums are those of the CPU: {} in all; {:?}", expected.iter().sum::<u64>(), time.unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}
