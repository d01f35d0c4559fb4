//! The prefix sums under the range queries.

use super::compare::{Output, Sabotage};
use super::data;
use super::harmonia::Answer;
use lanetree::primitives::{ScanScratch, exclusive_scan};
use lanetree::{Device, Result};
use rand::Rng;
use std::time::Instant;

/// Lengths at the borders of warps, blocks and tiles, and beyond a tile of tiles' sums.
pub(super) const LENGTHS: [usize; 11] = [0, 1, 255, 256, 257, 2047, 2048, 2049, 5000, 100_003, (1 << 22) + 1];

/// The kernels that a scan runs.
pub(super) const KERNELS: [&str; 3] =
    ["primitives__scan_sum_offsets", "primitives__scan_tile_sums", "primitives__scan_tiles"];

pub(super) fn run(device: &Device, len: usize, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
    let mut rng = data::rng(seed, &format!("exclusive_scan/n{len}"));
    let counts: Vec<u64> = (0..len).map(|_| rng.next_u64() >> (24 + rng.next_u32() % 40)).collect();
    let mut expected = vec![0_u64];
    for (i, count) in counts.iter().enumerate() {
        expected.push(expected[i] + count);
    }
    let stream = device.stream()?;
    // More counts than are asked for: what lies beyond them must not matter.
    let input = device.upload(&[&counts[..], &[u64::MAX; 3]].concat())?;
    let mut offsets = Output::<u64>::new(device, "offsets", len + 1)?;
    let mut scratch = ScanScratch::new(device, len)?;
    let start = Instant::now();
    exclusive_scan(&stream, &input, len, &mut offsets.buffer, &mut scratch)?;
    stream.synchronize()?;
    let time = start.elapsed();
    let difference = offsets.read(sabotage)?.differs(&|i| Some(expected[i]), &|i| i.to_string());
    Ok(Answer { queries: len, time, difference })
}
