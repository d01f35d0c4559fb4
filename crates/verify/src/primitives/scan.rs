//! Prefix sums and running maxima.

use super::{differs, output};
use crate::answer::Answer;
use crate::compare::Sabotage;
use crate::data;
use lanetree::primitives::{ScanScratch, exclusive_scan, inclusive_max_scan};
use lanetree::{Device, Result, Word};
use rand::Rng;
use std::time::Instant;

pub(crate) fn sums<T: Word>(device: &Device, len: usize, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
    let mut rng = data::rng(seed, "counts");
    let counts: Vec<T> = (0..len).map(|_| T::truncate(rng.next_u64() >> (rng.next_u32() % 64))).collect();
    let mut expected = vec![0_u64];
    for (i, count) in counts.iter().enumerate() {
        expected.push(expected[i].wrapping_add(count.widen()));
    }
    let stream = device.stream()?;
    // More counts than are asked for: what lies beyond them must not matter.
    let input = device.upload(&[&counts[..], &[T::MAX; 3]].concat())?;
    let mut offsets = output(device, "offsets", len + 1, len + 1)?;
    let mut scratch = ScanScratch::new(device, len)?;
    let start = Instant::now();
    exclusive_scan(&stream, &input, len, &mut offsets.buffer, &mut scratch)?;
    stream.synchronize()?;
    let time = start.elapsed();
    Ok(Answer { queries: len, time, difference: differs(offsets, &expected, sabotage)? })
}

pub(crate) fn maxima<T: Word>(device: &Device, len: usize, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
    let mut rng = data::rng(seed, "marks");
    let mark = |i: usize| if rng.next_u32().is_multiple_of(500) { T::truncate(i as u64 + 1) } else { T::MIN };
    let marks: Vec<T> = (0..len).map(mark).collect();
    let mut largest = T::MIN;
    let last = |&mark: &T| {
        largest = largest.max(mark);
        largest
    };
    let expected: Vec<T> = marks.iter().map(last).collect();
    let stream = device.stream()?;
    let input = device.upload(&[&marks[..], &[T::MAX; 3]].concat())?;
    let mut maxima = output(device, "maxima", len, len)?;
    let mut scratch = ScanScratch::new(device, len)?;
    let start = Instant::now();
    inclusive_max_scan(&stream, &input, len, &mut maxima.buffer, &mut scratch)?;
    stream.synchronize()?;
    let time = start.elapsed();
    Ok(Answer { queries: len, time, difference: differs(maxima, &expected, sabotage)? })
}
