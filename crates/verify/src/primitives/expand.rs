//! Spans of values, one after the other.

use super::{differs, output};
use crate::answer::Answer;
use crate::compare::{Output, Sabotage};
use crate::data;
use lanetree::primitives::{ExpandScratch, Expanded, SpanValues, Spans, expand};
use lanetree::{Device, Result, Word};
use rand::Rng;
use std::time::{Duration, Instant};

/// Values of the first array; there are as many in the second one.
const VALUES: u64 = 1 << 16;

/// Bits of a length.
const SHIFT: u32 = 28;

/// `len` rows of spans: most are short, many empty, and some have more values than a part.
pub(crate) fn spans<V: Word, N: Word>(
    device: &Device,
    len: usize,
    seed: u64,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    let mut rng = data::rng(seed, "spans");
    let value = |position: u64| V::truncate(position.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let miss = V::truncate(u64::MAX);
    let (mut spans, mut offsets) = (Vec::new(), vec![0_u64]);
    let (mut values, mut numbers) = (Vec::with_capacity(len), Vec::with_capacity(len));
    while values.len() < len {
        let bits = rng.next_u64() % if rng.next_u32().is_multiple_of(1000) { 20 } else { 4 };
        let length = (rng.next_u64() % (1 << bits)).min((len - values.len()) as u64);
        // In the first array, in the second one, or in neither.
        let begin = match rng.next_u32() % 4 {
            0 => 2 * VALUES,
            1 if length < VALUES => VALUES + rng.next_u64() % (VALUES - length),
            _ if length < VALUES => rng.next_u64() % (VALUES - length),
            _ => 2 * VALUES,
        };
        values.extend((begin..begin + length).map(|at| if begin < 2 * VALUES { value(at) } else { miss }));
        numbers.extend((0..length).map(|_| N::truncate(spans.len() as u64)));
        spans.push(begin << SHIFT | length);
        offsets.push(values.len() as u64);
    }
    let (stream, count) = (device.stream()?, spans.len());
    let first: Vec<V> = (0..VALUES).map(value).collect();
    let more: Vec<V> = (VALUES..2 * VALUES).map(value).collect();
    // More spans than are asked for: what lies beyond them must not matter.
    let begins = device.upload(&[&spans[..], &[u64::MAX; 3]].concat())?;
    let (first, more) = (device.upload(&first)?, device.upload(&more)?);
    let mut scratch = ExpandScratch::new(device, count)?;
    let (mut time, mut difference) = (Duration::ZERO, None);
    // With more room than there are rows, and with less: memory past that is not a buffer's.
    for (written, guard) in [(len, 5), (len - len / 3, 0)] {
        let mut out_offsets = output(device, "offsets", count + 1, count + 1)?;
        let mut total = output(device, "the number of rows", 1, 1)?;
        let mut out_values = Output::with_guard(device, "values of spans", written, guard)?;
        let mut out_numbers = Output::with_guard(device, "numbers of spans", written, guard)?;
        let out = Expanded {
            offsets: Some(&mut out_offsets.buffer),
            count: Some(&mut total.buffer),
            values: Some(&mut out_values.buffer),
            numbers: Some(&mut out_numbers.buffer),
        };
        let of = SpanValues { values: &first, more: Some(&more), miss };
        let start = Instant::now();
        expand(&stream, Spans { begins: &begins, shift: SHIFT, lengths: None, count }, of, out, &mut scratch)?;
        stream.synchronize()?;
        time += start.elapsed();
        difference = difference.or(differs(out_offsets, &offsets, sabotage)?);
        difference = difference.or(differs(total, &[len as u64], sabotage)?);
        difference = difference.or(differs(out_values, &values, sabotage)?);
        difference = difference.or(differs(out_numbers, &numbers, sabotage)?);
    }
    Ok(Answer { queries: len, time, difference })
}
