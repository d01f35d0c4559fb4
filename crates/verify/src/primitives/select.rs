//! Compaction by a hit mask.

use super::{differs, output};
use crate::answer::Answer;
use crate::compare::Sabotage;
use crate::data::{self, Distribution};
use lanetree::primitives::{Keys, KeysMut, Pairs, PairsMut, SelectScratch, partition, select};
use lanetree::{AnyKey, Device, Result, Word};
use rand::Rng;
use std::time::Instant;

/// Pairs and keys alone.
pub(crate) fn run<K: AnyKey, V: Word, const PARTITION: bool>(
    device: &Device,
    len: usize,
    seed: u64,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    let mut rng = data::rng(seed, "pairs");
    let keys: Vec<K> = Distribution::Uniform.keys(len, &mut rng);
    let values: Vec<V> = data::values(len, &mut rng);
    // Anything from words of which no bit is set to words of which all are.
    let flags: Vec<u32> = (0..len.div_ceil(32))
        .map(|i| match i / 7 % 4 {
            0 => rng.next_u32(),
            1 => 0,
            2 => u32::MAX,
            _ => rng.next_u32() & rng.next_u32() & rng.next_u32(),
        })
        .collect();
    let is_selected = |i: &usize| flags[i / 32] >> (i % 32) & 1 != 0;
    let mut order: Vec<usize> = (0..len).filter(is_selected).collect();
    let selected = order.len();
    if PARTITION {
        order.extend((0..len).filter(|i| !is_selected(i)));
    }
    let expected_keys: Vec<K> = order.iter().map(|&i| keys[i]).collect();
    let expected_values: Vec<V> = order.iter().map(|&i| values[i]).collect();

    let stream = device.stream()?;
    let (keys, values, flags) = (device.upload(&keys)?, device.upload(&values)?, device.upload(&flags)?);
    let mut scratch = SelectScratch::new(device, len)?;
    let keys_out = |what| output::<K>(device, what, order.len(), len);
    let (mut out_keys, mut out_alone) = (keys_out("keys of pairs")?, keys_out("keys")?);
    let mut out_values = output::<V>(device, "values", order.len(), len)?;
    let (mut count, mut count_alone) = (output(device, "count of pairs", 1, 1)?, output(device, "count", 1, 1)?);
    let pairs = Pairs { keys: &keys, values: &values, count: len.into() };
    let alone = Keys { keys: &keys, count: len.into() };
    let to_pairs = PairsMut { keys: &mut out_keys.buffer, values: &mut out_values.buffer, count: &mut count.buffer };
    let to_alone = KeysMut { keys: &mut out_alone.buffer, count: &mut count_alone.buffer };
    let start = Instant::now();
    if PARTITION {
        partition(&stream, pairs, &flags, to_pairs, &mut scratch)?;
        partition(&stream, alone, &flags, to_alone, &mut scratch)?;
    } else {
        select(&stream, pairs, &flags, to_pairs, &mut scratch)?;
        select(&stream, alone, &flags, to_alone, &mut scratch)?;
    }
    stream.synchronize()?;
    let time = start.elapsed();
    let difference = [
        differs(count, &[selected as u64], sabotage)?,
        differs(out_keys, &expected_keys, sabotage)?,
        differs(out_values, &expected_values, sabotage)?,
        differs(count_alone, &[selected as u64], sabotage)?,
        differs(out_alone, &expected_keys, sabotage)?,
    ];
    Ok(Answer { queries: 2 * len, time, difference: difference.into_iter().flatten().next() })
}
