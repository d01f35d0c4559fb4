//! Columns: composite keys, ordered words of floats, bytes of hit masks, bounds and numbers of joins.

use super::{differs, output};
use crate::answer::Answer;
use crate::compare::{Difference, Sabotage};
use crate::data;
use core::time::Duration;
use lanetree::{
    AnyKey, Clamped, Closed, Composite, Device, DeviceClamped, FloatOrder, Key, KeyWord, Result, Word, compose_on,
    mask_hits, number_matches,
};
use lanetree_base::join_steps::{DeviceValidity, Settled, put_misses, settle, settle_hits};
use lanetree_base::{JoinBounds, order_floats, restore_floats, unpack_bits};
use rand::Rng;
use std::time::Instant;

/// So many keys of random words.
fn keys<K: Key>(len: usize, seed: u64, name: &str) -> Vec<K> {
    let mut rng = data::rng(seed, name);
    (0..len).map(|_| K::decode(KeyWord::truncate(rng.next_u64()))).collect()
}

pub(crate) fn compose<A: Key, B: Key>(
    device: &Device,
    len: usize,
    seed: u64,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    let (firsts, seconds) = (keys::<A>(len, seed, "firsts"), keys::<B>(len, seed, "seconds"));
    let expected: Vec<_> = firsts.iter().copied().zip(seconds.iter().copied()).map(Composite::from).collect();
    let (stream, firsts, seconds) = (device.stream()?, device.upload(&firsts)?, device.upload(&seconds)?);
    let mut composed = output(device, "composite keys", len, len)?;
    let start = Instant::now();
    compose_on(&stream, &firsts, &seconds, &mut composed.buffer)?;
    stream.synchronize()?;
    let time = start.elapsed();
    Ok(Answer { queries: len, time, difference: differs(composed, &expected, sabotage)? })
}

pub(crate) fn floats32(device: &Device, len: usize, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
    let word = |bits: u32, order: FloatOrder| bytemuck::cast(order.key(f32::from_bits(bits)));
    floats(device, keys(len, seed, "floats"), word, sabotage)
}

pub(crate) fn floats64(device: &Device, len: usize, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
    let word = |bits: u64, order: FloatOrder| bytemuck::cast(order.key(f64::from_bits(bits)));
    floats(device, keys(len, seed, "floats"), word, sabotage)
}

/// Floats of any bits become the words by which they are ordered, and floats again.
fn floats<K: Key>(
    device: &Device,
    mut bits: Vec<K>,
    word: impl Fn(K, FloatOrder) -> K,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    // Random bits are seldom a zero.
    let sign = K::Bits::MAX.xor(K::Bits::MAX.shr(1));
    bits.iter_mut().step_by(5).for_each(|bits| *bits = K::decode(bits.encode().and(sign)));
    let expect = |order| bits.iter().map(|&bits| word(bits, order)).collect::<Vec<K>>();
    let (stream, numbers) = (device.stream()?, device.upload(&bits)?);
    let mut words = output(device, "ordered words", bits.len(), bits.len())?;
    let mut canonical = output(device, "canonical words", bits.len(), bits.len())?;
    let start = Instant::now();
    order_floats(&stream, FloatOrder::Total, &numbers, &mut words.buffer)?;
    order_floats(&stream, FloatOrder::Canonical, &numbers, &mut canonical.buffer)?;
    stream.synchronize()?;
    let time = start.elapsed();
    let expected = expect(FloatOrder::Total);
    let mut again = device.upload(&expected)?;
    restore_floats(&stream, &mut again)?;
    let restored = again.to_vec()?;
    let wrong = (0..bits.len()).find(|&i| restored[i] != bits[i]).map(|index| Difference {
        what: "floats",
        index,
        query: expected[index].to_string(),
        expected: bits[index].to_string(),
        actual: restored[index].to_string(),
    });
    let canonical = differs(canonical, &expect(FloatOrder::Canonical), sabotage)?;
    let difference = differs(words, &expected, sabotage)?.or(canonical).or(wrong);
    Ok(Answer { queries: 2 * bits.len(), time, difference })
}

/// A byte for each bit of a hit mask. The bytes of the last four that are begun may have any value past the last bit.
pub(crate) fn bits(device: &Device, len: usize, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
    let mask = keys::<u32>(len.div_ceil(32), seed, "hits");
    let expected: Vec<u8> = (0..len).map(|i| (mask[i / 32] >> (i % 32) & 1) as u8).collect();
    let (stream, mask) = (device.stream()?, device.upload(&mask)?);
    let room = len.next_multiple_of(4);
    let mut bytes = output(device, "bytes of a hit mask", room, room)?;
    let start = Instant::now();
    unpack_bits(&stream, &mask, len, &mut bytes.buffer)?;
    stream.synchronize()?;
    let time = start.elapsed();
    // What is past the last bit is not promised.
    let difference = bytes.read(sabotage)?.differs(&|i| expected.get(i).copied(), &|i| i.to_string());
    Ok(Answer { queries: len, time, difference })
}

/// A hit mask without the hits of null queries, by a bitmap that begins at any bit.
pub(crate) fn nulls(device: &Device, len: usize, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
    let (offset, words) = ((seed % 77) as usize, len.div_ceil(32));
    let valid = keys::<u32>((offset + len).div_ceil(32), seed, "validity");
    let mut mask = keys::<u32>(words, seed, "hits");
    if let Some(last) = mask.last_mut().filter(|_| !len.is_multiple_of(32)) {
        *last &= (1 << (len % 32)) - 1;
    }
    let is_valid = |i: usize| valid.get((offset + i) / 32).is_some_and(|word| word >> ((offset + i) % 32) & 1 != 0);
    let word = |index: usize| (0..32).map(|bit| u32::from(is_valid(index * 32 + bit)) << bit).sum::<u32>();
    let expected: Vec<u32> = mask.iter().enumerate().map(|(index, hits)| hits & word(index)).collect();
    let (stream, valid) = (device.stream()?, device.upload(&valid)?);
    let mut hits = output(device, "a hit mask", words, words)?;
    hits.buffer.copy_range_from(0, &mask)?;
    let start = Instant::now();
    mask_hits(&stream, &valid, offset, len, &mut hits.buffer)?;
    stream.synchronize()?;
    let time = start.elapsed();
    Ok(Answer { queries: len, time, difference: differs(hits, &expected, sabotage)? })
}

/// Queries of another integer type as keys, and their ranks corrected, against the host form.
pub(crate) fn clamped<K: AnyKey + TryFrom<Q>, Q: Key>(
    device: &Device,
    len: usize,
    seed: u64,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    let mut queries = keys::<Q>(len, seed, "queries");
    // Of random words of 64 bits few are in the range of 32.
    queries.iter_mut().step_by(2).for_each(|query| *query = Q::decode(query.encode().shr(Q::Bits::BITS / 2)));
    let host = Clamped::<K>::new(&queries)?;
    let (pairs, before) = (seed >> 20, (0..len as u64).collect::<Vec<_>>());
    let mut expected = before.clone();
    host.ranks(&mut expected, pairs)?;
    let (stream, queries) = (device.stream()?, device.upload(&queries)?);
    let mut clamped = DeviceClamped::<K>::new(device, len)?;
    let mut ranks = output(device, "ranks of clamped queries", len, len)?;
    ranks.buffer.copy_range_from(0, &before)?;
    let start = Instant::now();
    clamped.clamp(&stream, &queries)?;
    clamped.ranks(&stream, pairs, &mut ranks.buffer)?;
    stream.synchronize()?;
    let time = start.elapsed();
    let (found, wanted) = (clamped.keys().to_vec()?, host.keys());
    let wrong = (0..len).find(|&i| found[i] != wanted[i]).map(|index| Difference {
        what: "clamped keys",
        index,
        query: index.to_string(),
        expected: wanted[index].to_string(),
        actual: found[index].to_string(),
    });
    Ok(Answer { queries: len, time, difference: differs(ranks, &expected, sabotage)?.or(wrong) })
}

/// Inclusive bounds of ranges with open ones, and of bands.
pub(crate) fn join_bounds<K: AnyKey>(
    device: &Device,
    len: usize,
    seed: u64,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    let mut rng = data::rng(seed, "bounds");
    let mut some = || -> Vec<K> {
        let word = |i: usize| match i % 5 {
            0 => K::Bits::MIN,
            1 => K::Bits::MAX,
            _ => K::Bits::from_parts([rng.next_u64(), rng.next_u64()]),
        };
        (0..len).map(word).map(K::decode).collect()
    };
    let (lows, highs) = (some(), some());
    let (stream, on_device) = (device.stream()?, (device.upload(&lows)?, device.upload(&highs)?));
    let (mut time, mut difference) = (Duration::ZERO, None);
    for bounds in [JoinBounds::of_ranges(Closed::Neither), JoinBounds::of_bands(seed >> 20)?] {
        let (firsts, lasts) = bounds.on_host(&lows, &highs)?;
        let (mut to_firsts, mut to_lasts) = (output(device, "lows", len, len)?, output(device, "highs", len, len)?);
        let start = Instant::now();
        let (firsts_out, lasts_out) = (&mut to_firsts.buffer, &mut to_lasts.buffer);
        bounds.on_stream(&stream, &on_device.0, &on_device.1, firsts_out, lasts_out)?;
        stream.synchronize()?;
        time += start.elapsed();
        difference = difference.or(differs(to_firsts, &firsts, sabotage)?).or(differs(to_lasts, &lasts, sabotage)?);
    }
    Ok(Answer { queries: len, time, difference })
}

/// The numbers of matches' probes.
pub(crate) fn numbers(device: &Device, len: usize, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
    let mut rng = data::rng(seed, "numbers");
    let (mut offsets, mut expected) = (vec![0_u64], Vec::with_capacity(len));
    while expected.len() < len {
        let count = (rng.next_u64() >> (64 - 1 - rng.next_u64() % 12)).min((len - expected.len()) as u64);
        expected.extend((0..count).map(|_| offsets.len() as u64 - 1));
        offsets.push(expected.len() as u64);
    }
    let (stream, probes) = (device.stream()?, offsets.len() - 1);
    let offsets = device.upload(&offsets)?;
    let mut numbers = output(device, "numbers of probes", len, len)?;
    let start = Instant::now();
    number_matches(&stream, &offsets, probes, &mut numbers.buffer)?;
    stream.synchronize()?;
    let time = start.elapsed();
    Ok(Answer { queries: len, time, difference: differs(numbers, &expected, sabotage)? })
}

/// Some bits of random words.
fn bit(words: &[u32], at: usize) -> bool {
    words[at / 32] >> (at % 32) & 1 != 0
}

/// Probes without a match: the complement of a hit mask, and the rows of those whose bit is not set.
pub(crate) fn misses<V: Word>(device: &Device, len: usize, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
    let (offset, words) = (seed as usize % 40, len.div_ceil(32));
    let hits = keys::<u32>(words, seed, "hits");
    let valid = keys::<u32>((offset + len).div_ceil(32), seed, "validity");
    let complement = |i: usize| i < len && !(bit(&hits, i) && bit(&valid, offset + i));
    let expected: Vec<u32> =
        (0..words).map(|word| (0..32).fold(0, |bits, i| bits | u32::from(complement(word * 32 + i)) << i)).collect();
    let stream = device.stream()?;
    let mut mask = output(device, "the complement of a hit mask", words, words)?;
    mask.buffer.copy_range_from(0, &hits)?;
    let valid = device.upload(&valid)?;
    // Rows by the probes' numbers, and rows two apart, for half of which there is room.
    let offset_of = |i: usize| if i * 2 < len { i as u64 * 2 } else { u64::MAX - i as u64 };
    let offsets: Vec<u64> = (0..len).map(offset_of).collect();
    let (miss, own) = (<V as KeyWord>::truncate(u64::MAX), |i: usize| <V as KeyWord>::truncate(i as u64));
    let before: Vec<V> = (0..len).map(own).collect();
    let (mut rows, mut apart) = (output(device, "rows", len, len)?, output(device, "rows apart", len, len)?);
    rows.buffer.copy_range_from(0, &before)?;
    apart.buffer.copy_range_from(0, &before)?;
    let offsets = device.upload(&offsets)?;
    let start = Instant::now();
    settle_hits(&stream, Some(DeviceValidity { bitmap: &valid, offset }), len, true, &mut mask.buffer)?;
    put_misses(&stream, &mask.buffer, len, None, &mut rows.buffer, miss)?;
    put_misses(&stream, &mask.buffer, len, Some(&offsets), &mut apart.buffer, miss)?;
    stream.synchronize()?;
    let time = start.elapsed();
    let by_number: Vec<V> = (0..len).map(|i| if complement(i) { own(i) } else { miss }).collect();
    let by_offset: Vec<V> = (0..len).map(|i| if i % 2 == 1 || complement(i / 2) { own(i) } else { miss }).collect();
    let difference = differs(mask, &expected, sabotage)?.or(differs(rows, &by_number, sabotage)?);
    Ok(Answer { queries: len, time, difference: difference.or(differs(apart, &by_offset, sabotage)?) })
}

/// The rows of probes by their matches: of inner and left joins, with nulls and without.
pub(crate) fn settled(device: &Device, len: usize, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
    let (offset, words) = (seed as usize % 40, len.div_ceil(32));
    let counts: Vec<u64> = keys::<u64>(len, seed, "counts").into_iter().map(|word| word % 3).collect();
    let valid = keys::<u32>((offset + len).div_ceil(32), seed, "validity");
    let cursors: Vec<u64> = (100..100 + len as u64).collect();
    let (stream, bits, any) = (device.stream()?, device.upload(&valid)?, device.upload(&[7_u64])?);
    let (mut time, mut difference) = (Duration::ZERO, None);
    for (is_left, has_nulls) in [(false, true), (true, false), (true, true)] {
        let hit = |i: usize| i < len && counts[i] > 0 && (!has_nulls || bit(&valid, offset + i));
        let mut rows = output(device, "rows of probes", len, len)?;
        let mut begins = output(device, "where matches begin", len, len)?;
        let mut mask = output(device, "the hit mask", words, words)?;
        rows.buffer.copy_range_from(0, &counts)?;
        begins.buffer.copy_range_from(0, &cursors)?;
        let start = Instant::now();
        let out = Settled {
            counts: &mut rows.buffer,
            is_left,
            cursors: is_left.then_some((&mut begins.buffer, &any)),
            hits: Some(&mut mask.buffer),
        };
        settle(&stream, has_nulls.then_some(DeviceValidity { bitmap: &bits, offset }), len, out)?;
        stream.synchronize()?;
        time += start.elapsed();
        let expected: Vec<u64> = (0..len).map(|i| if hit(i) { counts[i] } else { is_left.into() }).collect();
        difference = difference.or(differs(rows, &expected, sabotage)?);
        let expected: Vec<u64> = (0..len).map(|i| if is_left && !hit(i) { 7 } else { cursors[i] }).collect();
        difference = difference.or(differs(begins, &expected, sabotage)?);
        let word = |word: usize| (0..32).fold(0, |bits, i| bits | u32::from(hit(word * 32 + i)) << i);
        difference = difference.or(differs(mask, &(0..words).map(word).collect::<Vec<u32>>(), sabotage)?);
    }
    Ok(Answer { queries: len, time, difference })
}
