//! Merging of sorted sequences.

use super::{differs, output};
use crate::answer::Answer;
use crate::compare::Sabotage;
use crate::data::{self, Distribution};
use lanetree::primitives::{Keys, KeysMut, MergeRule, MergeScratch, Pairs, PairsMut, merge, subtract};
use lanetree::{AnyKey, Device, Result, Word};
use rand::Rng;
use std::time::Instant;

/// Pairs and keys alone; of sequences that ascend strictly, also the first one without the second's keys. `len` is that of the longer sequence; the other has a part of the same keys and
/// others.
pub(crate) fn run<K: AnyKey, V: Word, const REPLACE: bool>(
    device: &Device,
    len: usize,
    seed: u64,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    let mut rng = data::rng(seed, "sequences");
    let mut long: Vec<K> = Distribution::Clustered.keys(len, &mut rng);
    let mut short: Vec<K> = long.iter().copied().filter(|_| rng.next_u32().is_multiple_of(8)).collect();
    short.extend(Distribution::Uniform.keys::<K>(len / 16 + 1, &mut rng));
    for keys in [&mut long, &mut short] {
        keys.sort_unstable();
        if REPLACE {
            keys.dedup();
        }
    }
    // Whichever is first, its tiles hold many of its keys or few.
    let (first, second) = if seed.is_multiple_of(2) { (long, short) } else { (short, long) };
    let (first_values, second_values): (Vec<V>, Vec<V>) =
        (data::values(first.len(), &mut rng), data::values(second.len(), &mut rng));
    let stays = |key: &K| !REPLACE || second.binary_search(key).is_err();
    let mut expected: Vec<(K, V)> =
        first.iter().copied().zip(first_values.iter().copied()).filter(|(key, _)| stays(key)).collect();
    let rest = if REPLACE { expected.clone() } else { Vec::new() };
    expected.extend(second.iter().copied().zip(second_values.iter().copied()));
    expected.sort_by_key(|&(key, _)| key);
    let (expected_keys, expected_values): (Vec<K>, Vec<V>) = expected.into_iter().unzip();
    let (rest_keys, rest_values): (Vec<K>, Vec<V>) = rest.into_iter().unzip();

    let stream = device.stream()?;
    let (room, count) = (first.len() + second.len(), expected_keys.len());
    let (a, a_values) = (device.upload(&first)?, device.upload(&first_values)?);
    let (b, b_values) = (device.upload(&second)?, device.upload(&second_values)?);
    let mut scratch = MergeScratch::new(device, room)?;
    let keys_out = |what| output::<K>(device, what, count, room);
    let (mut out_keys, mut out_alone) = (keys_out("keys of pairs")?, keys_out("keys")?);
    let mut out_values = output::<V>(device, "values", count, room)?;
    let (mut found, mut found_alone) = (output(device, "count of pairs", 1, 1)?, output(device, "count", 1, 1)?);
    let rest = rest_keys.len();
    let mut out_rest = (
        output::<K>(device, "keys of the difference", rest, first.len())?,
        output::<V>(device, "values of the difference", rest, first.len())?,
        output(device, "count of the difference", usize::from(REPLACE), 1)?,
    );
    let mut rest_alone = (
        output::<K>(device, "keys alone of the difference", rest, first.len())?,
        output(device, "count of keys alone of the difference", usize::from(REPLACE), 1)?,
    );
    let rule = if REPLACE { MergeRule::SecondReplacesFirst } else { MergeRule::KeepBoth };
    let (n, m) = (first.len().into(), second.len().into());
    let start = Instant::now();
    merge(
        &stream,
        rule,
        Pairs { keys: &a, values: &a_values, count: n },
        Pairs { keys: &b, values: &b_values, count: m },
        PairsMut { keys: &mut out_keys.buffer, values: &mut out_values.buffer, count: &mut found.buffer },
        &mut scratch,
    )?;
    merge(
        &stream,
        rule,
        Keys { keys: &a, count: n },
        Keys { keys: &b, count: m },
        KeysMut { keys: &mut out_alone.buffer, count: &mut found_alone.buffer },
        &mut scratch,
    )?;
    if REPLACE {
        subtract(
            &stream,
            Pairs { keys: &a, values: &a_values, count: n },
            Keys { keys: &b, count: m },
            PairsMut { keys: &mut out_rest.0.buffer, values: &mut out_rest.1.buffer, count: &mut out_rest.2.buffer },
            &mut scratch,
        )?;
        subtract(
            &stream,
            Keys { keys: &a, count: n },
            Keys { keys: &b, count: m },
            KeysMut { keys: &mut rest_alone.0.buffer, count: &mut rest_alone.1.buffer },
            &mut scratch,
        )?;
    }
    stream.synchronize()?;
    let time = start.elapsed();
    let difference = [
        differs(found, &[count as u64], sabotage)?,
        differs(out_keys, &expected_keys, sabotage)?,
        differs(out_values, &expected_values, sabotage)?,
        differs(found_alone, &[count as u64], sabotage)?,
        differs(out_alone, &expected_keys, sabotage)?,
        differs(out_rest.0, &rest_keys, sabotage)?,
        differs(out_rest.1, &rest_values, sabotage)?,
        differs(out_rest.2, &[rest as u64][..usize::from(REPLACE)], sabotage)?,
        differs(rest_alone.0, &rest_keys, sabotage)?,
        differs(rest_alone.1, &[rest as u64][..usize::from(REPLACE)], sabotage)?,
    ];
    let queries = 2 * room + if REPLACE { 2 * room } else { 0 };
    Ok(Answer { queries, time, difference: difference.into_iter().flatten().next() })
}
