//! The radix sorts.

use super::answer::Answer;
use super::cases::Mode;
use super::compare::{Output, Sabotage};
use super::data::{self, Distribution};
use super::types::with_types;
use core::ops::Range;
use lanetree::primitives::{RadixSortScratch, Restored, can_be_moved, radix_argsort, radix_sort, radix_sort_in_place};
use lanetree::{AnyKey, Device, DeviceKind, KeyWord, Result, Word};
use lanetree_base::parallel::*;
use rand::Rng;
use std::time::Instant;

/// Lengths at the borders of warps, around a few tiles of some kernels, and of many tiles.
const LENGTHS: [usize; 9] = [0, 1, 31, 33, 3000, 6144, 20_011, 100_003, (1 << 22) + 1];

/// What is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Keys,
    KeysInPlace,
    Pairs,
    PairsInPlace,
    Positions,
    /// Keys that are moved by one digit; keys, values and bits made of these go back.
    ThereAndBack,
}

impl What {
    const ALL: [Self; 6] =
        [Self::Keys, Self::KeysInPlace, Self::Pairs, Self::PairsInPlace, Self::Positions, Self::ThereAndBack];

    fn name(self) -> &'static str {
        match self {
            Self::Keys => "radix_sort_keys",
            Self::KeysInPlace => "radix_sort_keys_in_place",
            Self::Pairs => "radix_sort_pairs",
            Self::PairsInPlace => "radix_sort_pairs_in_place",
            Self::Positions => "radix_argsort",
            Self::ThereAndBack => "move_and_restore",
        }
    }

    fn has_values(self) -> bool {
        !matches!(self, Self::Keys | Self::KeysInPlace)
    }
}

/// A case.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    pub(crate) keys: &'static str,
    values: &'static str,
    what: What,
    len: usize,
    bits: Range<u32>,
}

/// The cases for a device.
pub(crate) fn cases(mode: Mode, kind: DeviceKind, max_len: usize) -> Vec<Sort> {
    let mut cases = Vec::new();
    for (keys, width) in [("u32", 32), ("i32", 32), ("u64", 64), ("i64", 64), ("u128", 128)] {
        // Only LaneTree's builds sort pairs of such keys.
        for what in What::ALL.into_iter().filter(|what| width < 128 || matches!(what, What::Keys | What::ThereAndBack))
        {
            let values: &[_] = if what.has_values() { &["u32", "u64"] } else { &["none"] };
            for &values in values {
                for len in LENGTHS.into_iter().filter(|len| *len <= max_len) {
                    // All, an odd number of passes over the top ones, and one in the middle.
                    for bits in [0..width, width - 9..width, width - 20..width - 2, 5..6] {
                        let is_short = bits.len() < 10;
                        let too_much = match kind {
                            DeviceKind::Emulated => {
                                len > 20_011 || len > 100 && !is_short || len > 6144 && bits != (5..6)
                            }
                            DeviceKind::Cuda | DeviceKind::Host => len > 200_000 && (mode == Mode::Quick || is_short),
                        };
                        let is_possible = what != What::ThereAndBack
                            || kind != DeviceKind::Host && bits.len() <= 8 && can_be_moved(len as u64);
                        if !too_much && is_possible {
                            cases.push(Sort { keys, values, what, len, bits });
                        }
                    }
                }
            }
        }
    }
    cases
}

impl Sort {
    pub(crate) fn name(&self) -> String {
        let Self { keys, values, what, len, bits: Range { start, end } } = self;
        let values = if what.has_values() { format!("_{values}") } else { String::new() };
        format!("{}/{keys}{values}/bits{start}-{end}/n{len}", what.name())
    }

    pub(crate) fn operation(&self) -> &'static str {
        self.what.name()
    }

    pub(crate) fn run(&self, device: &Device, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
        // Keys alone are sorted without values of any type.
        let values = if self.what.has_values() { self.values } else { "u32" };
        if self.what == What::ThereAndBack {
            return match (self.keys, values) {
                ("u128", "u32") => self.there_and_back::<u128, u32>(device, seed, sabotage),
                ("u128", _) => self.there_and_back::<u128, u64>(device, seed, sabotage),
                _ => with_types!(self.keys, values, |K, V| self.there_and_back::<K, V>(device, seed, sabotage)),
            };
        }
        if self.keys == "u128" {
            return self.run_of::<u128, u32>(device, seed, sabotage);
        }
        with_types!(self.keys, values, |K, V| self.run_of::<K, V>(device, seed, sabotage))
    }

    fn run_of<K: AnyKey, V: Word>(&self, device: &Device, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
        let (len, bits) = (self.len, self.bits.clone());
        let mut rng = data::rng(seed, &self.name());
        let distribution = match bits.len() {
            1 => Distribution::Extremes,
            9 => Distribution::Duplicates,
            _ => Distribution::Uniform,
        };
        let keys: Vec<K> = distribution.keys(len, &mut rng);
        let values: Vec<V> = match self.what {
            What::Positions => (0..len as u64).map(V::truncate).collect(),
            _ => (0..len).map(|_| V::truncate(rng.next_u64())).collect(),
        };
        let mut order: Vec<u32> = (0..len as u32).collect();
        let field = |key: K| {
            let [low, high] = key.encode().shr(bits.start).parts();
            (u128::from(high) << 64 | u128::from(low)) << (128 - bits.len() as u32)
        };
        // Stably, by another sort than that of the library.
        let place = |i: u32| (field(keys[i as usize]), i);
        sort_unstable_by(&mut order, |&a, &b| place(a).cmp(&place(b)));

        let stream = device.stream()?;
        let mut scratch = RadixSortScratch::<K, V>::for_pairs(device, len)?;
        let mut keys_out = Output::<K>::new(device, "keys", len)?;
        let mut values_out = Output::<V>::new(device, "values", len)?;
        if matches!(self.what, What::KeysInPlace | What::PairsInPlace) {
            keys_out.buffer.copy_range_from(0, &keys)?;
            values_out.buffer.copy_range_from(0, &values)?;
        }
        // More elements than are asked for: what lies beyond them must not matter.
        let keys_in = device.upload(&[&keys[..], &[K::decode(K::Bits::MIN); 3]].concat())?;
        let values_in = device.upload(&[&values[..], &[V::MIN; 3]].concat())?;
        let output = (&mut keys_out.buffer, &mut values_out.buffer);
        let start = Instant::now();
        match self.what {
            What::Keys => radix_sort(&stream, &keys_in, len, self.bits.clone(), output.0, &mut scratch),
            What::KeysInPlace => radix_sort_in_place(&stream, output.0, len, self.bits.clone(), &mut scratch),
            What::Pairs => {
                let input = (&keys_in, &values_in);
                radix_sort(&stream, input, len, self.bits.clone(), output, &mut scratch)
            }
            What::PairsInPlace => radix_sort_in_place(&stream, output, len, self.bits.clone(), &mut scratch),
            What::Positions => {
                radix_argsort(&stream, &keys_in, len, self.bits.clone(), output.0, output.1, &mut scratch)
            }
            What::ThereAndBack => unreachable!("it is no sort"),
        }?;
        stream.synchronize()?;
        let time = start.elapsed();

        let query = |i: usize| format!("element {}", order[i]);
        let expected = |i: usize| Some(keys[order[i] as usize]);
        let mut difference = keys_out.read(sabotage)?.differs(&expected, &query);
        if difference.is_none() && self.what.has_values() {
            let expected = |i: usize| Some(values[order[i] as usize]);
            difference = values_out.read(sabotage)?.differs(&expected, &query);
        }
        Ok(Answer { queries: len, time, difference })
    }

    /// Moves keys by one digit, computes values and bits of them on the CPU, and moves these and the keys back.
    fn there_and_back<K: AnyKey, V: Word>(
        &self,
        device: &Device,
        seed: u64,
        sabotage: Option<Sabotage>,
    ) -> Result<Answer> {
        let len = self.len;
        let keys: Vec<K> = Distribution::Uniform.keys(len, &mut data::rng(seed, &self.name()));
        let of = |key: K| key.encode().parts()[0].wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let is_set = |key: K| of(key) >> 40 & 1 == 1;
        let stream = device.stream()?;
        let mut scratch = RadixSortScratch::<K>::for_one_pass(device, len)?;
        let (keys_in, mut sorted) = (device.upload(&keys)?, device.alloc::<K>(len)?);
        let mut keys_out = Output::<K>::new(device, "keys", len)?;
        let mut values_out = Output::<V>::new(device, "values", len)?;
        let mut bits_out = Output::<u32>::new(device, "bits", len.div_ceil(32))?;
        let start = Instant::now();
        let (from, to) = (keys_in.read_on(&stream)?.cast(), sorted.write_on(&stream)?.cast());
        // SAFETY: the buffers are as long, and for this stream.
        let moved = unsafe { scratch.move_keys(&stream, from, len, self.bits.clone(), to)? };
        let in_order = sorted.to_vec()?;
        let values = device.upload(&in_order.iter().map(|key| V::truncate(of(*key))).collect::<Vec<_>>())?;
        let mask = |keys: &[K]| -> Vec<u32> {
            let word = |keys: &[K]| keys.iter().rev().fold(0, |word, key| word << 1 | u32::from(is_set(*key)));
            keys.chunks(32).map(word).collect()
        };
        let bits = device.upload(&mask(&in_order))?;
        let values = Restored { sorted: values.read_on(&stream)?, out: values_out.buffer.write_on(&stream)? };
        let others =
            Restored { sorted: sorted.read_on(&stream)?.cast(), out: keys_out.buffer.write_on(&stream)?.cast() };
        let bits = Restored { sorted: bits.read_on(&stream)?, out: bits_out.buffer.write_on(&stream)? };
        // SAFETY: as above; the keys are the same.
        unsafe { scratch.restore(&stream, &moved, values, others, bits)? };
        stream.synchronize()?;
        let time = start.elapsed();

        let query = |i: usize| format!("element {i}");
        let mut difference = keys_out.read(sabotage)?.differs(&|i| Some(keys[i]), &query);
        difference = difference.or(values_out.read(sabotage)?.differs(&|i| Some(V::truncate(of(keys[i]))), &query));
        let expected = mask(&keys);
        let word = |i: usize| format!("word {i}");
        difference = difference.or(bits_out.read(sabotage)?.differs(&|i| Some(expected[i]), &word));
        Ok(Answer { queries: len, time, difference })
    }
}
