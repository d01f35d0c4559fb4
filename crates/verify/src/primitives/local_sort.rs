//! The end of a sort by only the upper bits.

use super::{differs, output};
use crate::answer::Answer;
use crate::compare::{Difference, Sabotage};
use crate::data::{self, Distribution};
use core::ops::Range;
use core::time::Duration;
use lanetree::primitives::{RadixSortScratch, local_sort_pairs, radix_sort};
use lanetree::{AnyKey, Device, KeyWord, Result, Word};
use std::time::Instant;

/// The longest run that is sorted if it is not in order.
const LONGEST: usize = 32;

/// Random keys, almost sorted by the few bits that would number them; and keys in clusters.
pub(crate) fn run<K: AnyKey, V: Word>(
    device: &Device,
    len: usize,
    seed: u64,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    let mut rng = data::rng(seed, "local sort");
    let (mut time, mut difference) = (Duration::ZERO, None);
    for distribution in [Distribution::Uniform, Distribution::Clustered, Distribution::Duplicates] {
        let keys: Vec<K> = distribution.keys(len, &mut rng);
        let values: Vec<V> = data::values(len, &mut rng);
        let width = K::Bits::BITS;
        let number = usize::BITS - len.leading_zeros();
        let (taken, found) =
            sort(device, &keys, &values, width - number.next_multiple_of(8).clamp(8, width)..width, sabotage)?;
        time += taken;
        difference = difference.or(found);
    }
    Ok(Answer { queries: 3 * len, time, difference })
}

/// Sorts by the bits in `bits`, then locally.
fn sort<K: AnyKey, V: Word>(
    device: &Device,
    keys: &[K],
    values: &[V],
    bits: Range<u32>,
    sabotage: Option<Sabotage>,
) -> Result<(Duration, Option<Difference>)> {
    let len = keys.len();
    let stream = device.stream()?;
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by_key(|&i| keys[i].encode().shr(bits.start));
    let gives_up = device.kind() != lanetree::DeviceKind::Host
        && order
            .chunk_by(|&a, &b| keys[a].encode().shr(bits.start) == keys[b].encode().shr(bits.start))
            .any(|run| run.len() > LONGEST && !run.is_sorted_by_key(|&i| keys[i]));
    order.sort_by_key(|&i| keys[i]);
    let differing = keys.iter().fold(K::Bits::MIN, |bits, key| bits.or(key.encode().xor(keys[0].encode())));

    let input = (device.upload(keys)?, device.upload(values)?);
    let mut scratch = RadixSortScratch::<K, V>::for_pairs(device, len)?;
    let (mut out_keys, mut out_values) = (output(device, "keys", len, len)?, output(device, "values", len, len)?);
    let mut found = output(device, "what is found", 2, 2)?;
    found.buffer.copy_range_from(0, &[0, 0])?;
    let from = bits.start;
    let start = Instant::now();
    let to = (&mut out_keys.buffer, &mut out_values.buffer);
    radix_sort(&stream, (&input.0, &input.1), len, bits, to, &mut scratch)?;
    local_sort_pairs(&stream, &mut out_keys.buffer, &mut out_values.buffer, len, from, &mut found.buffer)?;
    stream.synchronize()?;
    let time = start.elapsed();

    // With keys of 128 bits, a bit tells of two.
    let told = K::Bits::BITS.div_ceil(64);
    let differing = (0..K::Bits::BITS / told).fold(0, |bits, i| {
        let own = differing.shr(i * told).parts()[0] & ((1 << told) - 1);
        bits | u64::from(own != 0) << i
    });
    let mut difference = differs(found, &[differing, u64::from(gives_up)], sabotage)?;
    if difference.is_none() && !gives_up {
        let expected: Vec<K> = order.iter().map(|&i| keys[i]).collect();
        difference = differs(out_keys, &expected, sabotage)?;
    }
    if difference.is_none() && !gives_up {
        let expected: Vec<V> = order.iter().map(|&i| values[i]).collect();
        difference = differs(out_values, &expected, sabotage)?;
    }
    Ok((time, difference))
}
