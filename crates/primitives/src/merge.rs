//! Two sorted sequences into one, and one without another.

use super::TASK;
use super::check;
use super::input::{Elements, Input, Keys, Output, PartsMut};
use super::launch::{self, state_len};
use super::native::{self, Writer};
use core::ops::Range;
use lanetree_base::pointers::{optional, optional_mut};
use lanetree_base::{Buffer, Device, Result, Stream};
use lanetree_kernels_primitives::THREADS;
use lanetree_kernels_primitives::calls;
use lanetree_kernels_primitives::merge::{CARRY_WORDS, KEEP, MergeArgs, REPLACE, SUBTRACT, TILE};
use lanetree_layout::{AnyKey, Word};

/// What a merge does with a key that is in both sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MergeRule {
    /// All elements are kept; the first sequence's come before the second's.
    KeepBoth,
    /// The second sequence's elements are kept, the first's are dropped. For two strictly ascending sequences this is
    /// an upsert of the second into the first, or the union of two sets.
    SecondReplacesFirst,
}

impl MergeRule {
    /// The number that the kernels know it by.
    fn number(self) -> u8 {
        match self {
            Self::KeepBoth => KEEP,
            Self::SecondReplacesFirst => REPLACE,
        }
    }
}

/// Scratch memory of [`merge`] and [`subtract`]: 16 bytes for 2816 elements of both sequences.
#[derive(Debug)]
pub struct MergeScratch {
    splits: Buffer<u64>,
    state: Buffer<u64>,
}

impl MergeScratch {
    /// Enough for sequences of `count` elements together, of any type.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_base::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, count: usize) -> Result<Self> {
        let tiles = (count as u64).div_ceil(TILE).max(1);
        Ok(Self { splits: device.alloc(tiles as usize + 1)?, state: device.alloc(state_len(tiles, CARRY_WORDS))? })
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        self.splits.bytes() + self.state.bytes()
    }
}

/// Merges two sequences whose keys ascend, [`Keys`] or [`Pairs`](crate::Pairs), into one, and counts its elements. In the
/// stream's order; may return before it is done.
///
/// The output needs room for both sequences, whatever is replaced, and `scratch` must be made for that number of elements.
/// If a sequence does not ascend, the result is unspecified, but is no longer than the output must be.
///
/// # Errors
/// [`OutputLength`](lanetree_base::Error::OutputLength) for a buffer that is too small;
/// [`Runtime`](lanetree_base::Error::Runtime) for a buffer of another device than the stream's, and from the launch;
/// [`BatchTooLarge`](lanetree_base::Error::BatchTooLarge) from 2^42 elements on.
pub fn merge<E: Elements>(
    stream: &Stream,
    rule: MergeRule,
    first: E,
    second: E,
    mut output: E::Output<'_>,
    scratch: &mut MergeScratch,
) -> Result<()> {
    run(stream, rule.number(), [first.input(), second.input()], output.output(), scratch)
}

/// Copies the elements of the first sequence whose keys are not in the second, and counts them: the difference of two
/// sets. Both sequences ascend; keys of the second may occur more than once. In the stream's order; may return before it
/// is done.
///
/// The output needs room for the first sequence, whatever is dropped, and `scratch` must be made for the elements of both
/// sequences. If one of them does not ascend, the result is unspecified, but is no longer than the first.
///
/// # Errors
/// As [`merge`].
pub fn subtract<E: Elements>(
    stream: &Stream,
    first: E,
    second: Keys<'_, E::Key>,
    mut output: E::Output<'_>,
    scratch: &mut MergeScratch,
) -> Result<()> {
    run(stream, SUBTRACT, [first.input(), second.without_values()], output.output(), scratch)
}

/// Merges by the rule with this number of the kernels'.
fn run<K: AnyKey, V: Word>(
    stream: &Stream,
    rule: u8,
    inputs: [Input<'_, K, V>; 2],
    output: Output<'_, K, V>,
    scratch: &mut MergeScratch,
) -> Result<()> {
    let at_most = inputs[0].count.at_most().saturating_add(inputs[1].count.at_most());
    for input in &inputs {
        input.check(stream)?;
    }
    output.check(stream, if rule == SUBTRACT { inputs[0].count.at_most() } else { at_most })?;
    if check::is_host(stream) {
        on_host(rule, inputs.map(|input| input.reached()), output);
        return Ok(());
    }
    let tiles = (at_most as u64).div_ceil(TILE).max(1);
    check::buffer(stream, "the scratch memory", tiles as usize + 1, &scratch.splits)?;
    check::buffer(stream, "the scratch memory", state_len(tiles, CARRY_WORDS), &scratch.state)?;
    let launch = launch::tiles(stream, at_most, TILE)?;
    if rule != KEEP {
        launch::reset(launch, &mut scratch.state, CARRY_WORDS)?;
    }
    let [first, second] = inputs;
    let has_values = first.values.is_some();
    let args = MergeArgs::<K::Bits, V> {
        first_keys: first.keys.read_on(stream)?.cast(),
        first_values: optional(first.values, stream)?,
        first_count: first.count.argument(stream)?,
        second_keys: second.keys.read_on(stream)?.cast(),
        second_values: optional(second.values, stream)?,
        second_count: second.count.argument(stream)?,
        flip: K::FLIP,
        splits: scratch.splits.write_on(stream)?,
        state: scratch.state.write_on(stream)?,
        out_keys: output.keys.write_on(stream)?.cast(),
        out_values: optional_mut(output.values, stream)?,
        out_count: output.count.write_on(stream)?,
    };
    let threads = launch::tiles(stream, tiles as usize + 1, THREADS.into())?;
    // SAFETY: inputs, output and scratch memory were checked to be long enough; every pointer is for this stream; the
    // output and the scratch memory are borrowed mutably, so nothing else is among them.
    unsafe {
        threads.run(calls::splits(has_values, &args))?;
        launch.run(match rule {
            SUBTRACT => calls::subtract(has_values, &args),
            _ => calls::merge(has_values, rule == REPLACE, &args),
        })?;
    }
    Ok(())
}

fn on_host<K: AnyKey, V: Word>(rule: u8, inputs: [(&[K], &[V]); 2], output: Output<'_, K, V>) {
    let Some((out_keys, out_values, out_count)) = output.reached() else { return };
    let [(first, first_values), (second, second_values)] = inputs;
    let parts: Vec<[Range<usize>; 2]> = native::parts(first.len() + second.len(), TASK)
        .into_iter()
        .map(|part| {
            // The bounds matter if the sequences do not ascend: not even then may anything panic.
            let start = split(first, second, part.start);
            let end = split(first, second, part.end).clamp(start, start + part.len());
            let second_start = part.start - start;
            let second_end = second_start + part.len() - (end - start);
            [start..end, second_start.min(second.len())..second_end.min(second.len())]
        })
        .collect();
    let drops = rule != KEEP;
    let merge = |part: &[Range<usize>; 2], each: &mut dyn FnMut(K, Option<V>)| {
        let [mut i, mut j] = [part[0].start, part[1].start];
        let [first_end, second_end] = [part[0].end, part[1].end];
        while i < first_end || j < second_end {
            if i < first_end && (j >= second_end || first[i] <= second[j]) {
                // The second's may be the next part's.
                if !(drops && second.get(j) == Some(&first[i])) {
                    each(first[i], first_values.get(i).copied());
                }
                i += 1;
            } else {
                if rule != SUBTRACT {
                    each(second[j], second_values.get(j).copied());
                }
                j += 1;
            }
        }
    };
    let count = |part: &[Range<usize>; 2]| {
        if !drops {
            return part[0].len() + part[1].len();
        }
        let mut count = 0;
        merge(part, &mut |_, _| count += 1);
        count
    };
    let fill = |part: &[Range<usize>; 2], keys_to: &mut [K], values_to: &mut [V]| {
        let mut writer = Writer::new(keys_to, values_to);
        merge(part, &mut |key, value| writer.push(key, value));
    };
    *out_count = native::compact(&parts, count, fill, out_keys, out_values) as u64;
}

/// How many of the first `diagonal` elements of the merge come from the first sequence.
fn split<K: Ord>(first: &[K], second: &[K], diagonal: usize) -> usize {
    let (mut low, mut high) = (diagonal.saturating_sub(second.len()), diagonal.min(first.len()));
    while low < high {
        let middle = low + (high - low) / 2;
        if first[middle] <= second[diagonal - 1 - middle] {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::super::test_data::{devices, is_thorough, message, poisoned, rng, sorted, stream, written};
    use super::super::{Count, KeysMut, Pairs, PairsMut};
    use super::*;

    /// Sizes around tiles of 2816, balanced and not.
    const SIZES: [(usize, usize); 14] = [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
        (100, 28),
        (2815, 0),
        (0, 2817),
        (1408, 1408),
        (2000, 817),
        (2000, 1841),
        (9000, 3),
        (3, 9000),
        (6000, 5500),
        (40_000, 30_000),
    ];

    fn expected<K: AnyKey, V: Word>(rule: MergeRule, first: &[(K, V)], second: &[(K, V)]) -> Vec<(K, V)> {
        let replaced = |key: K| {
            rule == MergeRule::SecondReplacesFirst && second.binary_search_by_key(&key, |&(key, _)| key).is_ok()
        };
        let mut all: Vec<(K, V)> = first.iter().copied().filter(|&(key, _)| !replaced(key)).collect();
        all.extend(second);
        all.sort_by_key(|&(key, _)| key);
        all
    }

    fn merges<K: AnyKey, V: Word>() {
        for device in devices() {
            let stream = stream(&device);
            let mut scratch = MergeScratch::new(&device, 70_000).unwrap();
            for (sizes, rule) in SIZES
                .into_iter()
                .flat_map(|sizes| [(sizes, MergeRule::KeepBoth), (sizes, MergeRule::SecondReplacesFirst)])
            {
                let (n, m) = sizes;
                if !is_thorough(&device) && n + m < 5000 {
                    continue;
                }
                let mut rng = rng(n + m);
                let distinct = rule == MergeRule::SecondReplacesFirst;
                // Few keys, so that many are equal; every one of a dense stretch; or hardly any.
                for space in [50, n as u64 + 1, 3 * (n + m) as u64 + 1, 1 << 31] {
                    let mut keys = |len| {
                        let mut keys: Vec<K> = sorted(len, space, &mut rng);
                        if distinct {
                            keys.dedup();
                        }
                        keys
                    };
                    let (first, second) = (keys(n), keys(m));
                    let value = |i: usize| V::truncate(i as u64 * 0x1_0000_0001);
                    let first: Vec<(K, V)> = first.into_iter().zip((0..).map(value)).collect();
                    let second: Vec<(K, V)> = second.into_iter().zip((1 << 30..).map(value)).collect();
                    let expected = expected(rule, &first, &second);
                    let upload = |pairs: &[(K, V)]| {
                        let (keys, values): (Vec<K>, Vec<V>) = pairs.iter().copied().unzip();
                        (device.upload(&keys).unwrap(), device.upload(&values).unwrap())
                    };
                    let ((a, a_values), (b, b_values)) = (upload(&first), upload(&second));
                    let (room, mut count) = (first.len() + second.len(), poisoned(&device, 2));
                    let (mut keys, mut values) = (poisoned(&device, room + 1), poisoned(&device, room + 1));
                    let len = |pairs: &[(K, V)]| Count::Host(pairs.len());
                    merge(
                        &stream,
                        rule,
                        Pairs { keys: &a, values: &a_values, count: len(&first) },
                        Pairs { keys: &b, values: &b_values, count: len(&second) },
                        PairsMut { keys: &mut keys, values: &mut values, count: &mut count },
                        &mut scratch,
                    )
                    .unwrap();
                    let what = format!("{rule:?} of {n} and {m} from {space} on {device}");
                    assert_eq!(written(&count, 1), [expected.len() as u64], "{what}");
                    let merged = written(&keys, expected.len());
                    let pairs: Vec<(K, V)> = merged.into_iter().zip(written(&values, expected.len())).collect();
                    assert!(pairs == expected, "{what}");

                    // The first sequence without the second's keys, whose values play no part.
                    if distinct && space > 50 && space < 1 << 31 {
                        let expected: Vec<(K, V)> = first
                            .iter()
                            .copied()
                            .filter(|&(key, _)| second.binary_search_by_key(&key, |&(key, _)| key).is_err())
                            .collect();
                        count = poisoned(&device, 2);
                        (keys, values) = (poisoned(&device, first.len() + 1), poisoned(&device, first.len() + 1));
                        subtract(
                            &stream,
                            Pairs { keys: &a, values: &a_values, count: len(&first) },
                            Keys { keys: &b, count: len(&second) },
                            PairsMut { keys: &mut keys, values: &mut values, count: &mut count },
                            &mut scratch,
                        )
                        .unwrap();
                        assert_eq!(written(&count, 1), [expected.len() as u64], "subtracted: {what}");
                        let rest = written(&keys, expected.len());
                        let pairs: Vec<(K, V)> = rest.into_iter().zip(written(&values, expected.len())).collect();
                        assert!(pairs == expected, "subtracted: {what}");

                        (count, keys) = (poisoned(&device, 2), poisoned(&device, first.len() + 1));
                        subtract(
                            &stream,
                            Keys { keys: &a, count: len(&first) },
                            Keys { keys: &b, count: len(&second) },
                            KeysMut { keys: &mut keys, count: &mut count },
                            &mut scratch,
                        )
                        .unwrap();
                        assert_eq!(written(&count, 1), [expected.len() as u64], "keys subtracted: {what}");
                        assert!(written(&keys, expected.len()).into_iter().eq(expected.iter().map(|&(key, _)| key)));
                    }

                    (count, keys) = (poisoned(&device, 2), poisoned(&device, room + 1));
                    merge(
                        &stream,
                        rule,
                        Keys { keys: &a, count: len(&first) },
                        Keys { keys: &b, count: len(&second) },
                        KeysMut { keys: &mut keys, count: &mut count },
                        &mut scratch,
                    )
                    .unwrap();
                    assert_eq!(written(&count, 1), [expected.len() as u64], "keys: {what}");
                    let found = written(&keys, expected.len());
                    assert!(found.iter().eq(expected.iter().map(|(key, _)| key)), "keys: {what}");
                }
            }
        }
    }

    #[test]
    fn merges_of_any_sizes_on_every_device() {
        merges::<u32, u32>();
        merges::<u64, u32>();
    }

    #[test]
    fn merges_of_signed_keys_and_wide_values() {
        merges::<i32, u64>();
        merges::<i64, u64>();
    }

    #[test]
    fn merges_of_keys_of_128_bits() {
        merges::<u128, u32>();
        merges::<i128, u64>();
    }

    #[test]
    fn the_first_sequences_duplicates_go_too() {
        for device in devices() {
            let (keys, values) = (vec![5_u32; 9000], (0..9000).collect::<Vec<u32>>());
            let (keys, values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
            let pairs = |len| Pairs { keys: &keys, values: &values, count: Count::Host(len) };
            let (mut out_keys, mut out_values) = (poisoned(&device, 18_000), poisoned(&device, 18_000));
            let mut count = poisoned(&device, 1);
            let mut scratch = MergeScratch::new(&device, 18_000).unwrap();
            let output = PairsMut { keys: &mut out_keys, values: &mut out_values, count: &mut count };
            let rule = MergeRule::SecondReplacesFirst;
            merge(&stream(&device), rule, pairs(9000), pairs(2), output, &mut scratch).unwrap();
            assert_eq!(written(&count, 1), [2]);
            assert_eq!((written(&out_keys, 2), written(&out_values, 2)), (vec![5, 5], vec![0, 1]), "{device}");
        }
    }

    #[test]
    fn the_second_sequences_duplicates_are_subtracted_once() {
        for device in devices() {
            // The keys that are in both lie in several tiles, on either side of their ends.
            let first: Vec<u32> = (0..9000).collect();
            let second: Vec<u32> = (0..9000).step_by(3).flat_map(|key| [key; 4]).collect();
            let (keys, values) = (device.upload(&first).unwrap(), device.upload(&first).unwrap());
            let subtracted = device.upload(&second).unwrap();
            let (mut out_keys, mut out_values) = (poisoned(&device, 9000), poisoned(&device, 9000));
            let (mut count, mut scratch) = (poisoned(&device, 1), MergeScratch::new(&device, 21_000).unwrap());
            let pairs = Pairs { keys: &keys, values: &values, count: 9000.into() };
            let output = PairsMut { keys: &mut out_keys, values: &mut out_values, count: &mut count };
            let without = Keys { keys: &subtracted, count: second.len().into() };
            subtract(&stream(&device), pairs, without, output, &mut scratch).unwrap();
            let expected: Vec<u32> = (0..9000).filter(|key| key % 3 != 0).collect();
            assert_eq!(written(&count, 1), [expected.len() as u64]);
            assert!(written(&out_keys, 6000) == expected && written(&out_values, 6000) == expected, "{device}");
        }
    }

    #[test]
    fn counts_may_be_on_the_device() {
        for device in devices() {
            let keys: Vec<u64> = (0..9000).collect();
            let (keys, lens) = (device.upload(&keys).unwrap(), device.upload(&[3_u64]).unwrap());
            let count = Count::Device { count: &lens, at_most: 9000 };
            let (mut out, mut found) = (poisoned(&device, 18_000), poisoned(&device, 1));
            let mut scratch = MergeScratch::new(&device, 18_000).unwrap();
            for (rule, expected) in [
                (MergeRule::KeepBoth, vec![0_u64, 0, 1, 1, 2, 2, 3, 4]),
                (MergeRule::SecondReplacesFirst, vec![0, 1, 2, 3, 4]),
            ] {
                let first = Keys { keys: &keys, count };
                let second = Keys { keys: &keys, count: 5.into() };
                let output = KeysMut { keys: &mut out, count: &mut found };
                merge(&stream(&device), rule, first, second, output, &mut scratch).unwrap();
                assert_eq!(written(&found, 1), [expected.len() as u64]);
                assert_eq!(out.to_vec().unwrap()[..expected.len()], expected, "{device}");
            }
        }
    }

    #[test]
    fn what_does_not_ascend_is_merged_somehow() {
        for device in devices() {
            let mut rng = rng(1);
            let unsorted = |len| (0..len).map(|_| sorted::<u32>(1, 1000, &mut rng)[0]).collect::<Vec<u32>>();
            let [first, second] = [7000, 6000].map(unsorted).map(|keys| device.upload(&keys).unwrap());
            let (mut out, mut count) = (poisoned(&device, 13_000), poisoned(&device, 1));
            let mut scratch = MergeScratch::new(&device, 13_000).unwrap();
            for rule in [MergeRule::KeepBoth, MergeRule::SecondReplacesFirst] {
                let (first, second) =
                    (Keys { keys: &first, count: 7000.into() }, Keys { keys: &second, count: 6000.into() });
                let output = KeysMut { keys: &mut out, count: &mut count };
                merge(&stream(&device), rule, first, second, output, &mut scratch).unwrap();
                assert!(written(&count, 1)[0] <= 13_000);
            }
        }
    }

    #[test]
    fn short_outputs_are_refused() {
        for device in devices() {
            let keys = device.upload(&[1_u32, 2, 3]).unwrap();
            let (mut out, mut count) = (device.alloc(5).unwrap(), device.alloc(1).unwrap());
            let mut scratch = MergeScratch::new(&device, 6).unwrap();
            let (first, second) = (Keys { keys: &keys, count: 3.into() }, Keys { keys: &keys, count: 3.into() });
            let output = KeysMut { keys: &mut out, count: &mut count };
            assert_eq!(
                message(merge(&stream(&device), MergeRule::KeepBoth, first, second, output, &mut scratch)),
                "the result keys' buffer holds 5 elements, but 6 are needed; allocate at least 6"
            );
        }
    }
}
