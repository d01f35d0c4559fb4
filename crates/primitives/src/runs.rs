//! Runs of equal neighbouring keys, each to one element.

use super::TASK;
use super::check;
use super::input::{Input, Keys, KeysMut, Output, Pairs, PairsMut, Parts, PartsMut};
use super::launch::{self, state_len};
use super::native::{self, Writer};
use core::ops::Range;
use lanetree_base::pointers::{optional, optional_mut};
use lanetree_base::{Buffer, Device, Error, Result, Stream};
use lanetree_kernels_primitives::calls;
use lanetree_kernels_primitives::runs::{CARRY_WORDS, RunArgs, tile_len};
use lanetree_layout::{AnyKey, Value, Word};
use lanetree_runtime::Launch;

/// Scratch memory of the functions over runs: 24 bytes for 2048 elements.
#[derive(Debug)]
pub struct RunScratch {
    state: Buffer<u64>,
}

impl RunScratch {
    /// Memory on `device` for runs among up to `count` elements, allocated now.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_base::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, count: usize) -> Result<Self> {
        Ok(Self { state: device.alloc(Self::len(count))? })
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        self.state.bytes()
    }

    fn len(count: usize) -> usize {
        state_len((count as u64).div_ceil(tile_len(true)).max(1), CARRY_WORDS)
    }
}

/// The key of each run of equal neighbours, one after another, and how many runs there are. If keys are sorted, these
/// are the distinct keys; but the keys need not be sorted.
///
/// Room for all keys is needed, however many are equal. In the stream's order; may return before it is done.
///
/// # Errors
/// [`OutputLength`](lanetree_base::Error::OutputLength) for a buffer that is too small;
/// [`Runtime`](lanetree_base::Error::Runtime) for a buffer of another device than the stream's, and from the launch;
/// [`BatchTooLarge`](lanetree_base::Error::BatchTooLarge) from 2^42 keys on.
pub fn unique_keys<K: AnyKey>(
    stream: &Stream,
    input: Keys<'_, K>,
    mut output: KeysMut<'_, K>,
    scratch: &mut RunScratch,
) -> Result<()> {
    let (input, output) = (input.input(), output.output());
    if check::is_host(stream) {
        return on_host(stream, input, output, |_| 0);
    }
    let (args, launch) = prepare::<K, u32, u32>(stream, input, output, scratch)?;
    // SAFETY: as `prepare` says.
    Ok(unsafe { launch.run(calls::unique(&args)) }?)
}

/// The last pair of each run of equal neighbouring keys, and how many runs there are: after a stable sort by keys, this
/// is the pair that was last in the input. Of pairs with values `()` only the keys are moved. Otherwise like
/// [`unique_keys`].
///
/// # Errors
/// As [`unique_keys`].
pub fn last_by_key<K: AnyKey, V: Value>(
    stream: &Stream,
    input: Pairs<'_, K, V>,
    mut output: PairsMut<'_, K, V>,
    scratch: &mut RunScratch,
) -> Result<()> {
    if !V::IS_SOME {
        let output = KeysMut { keys: output.keys, count: output.count };
        return unique_keys(stream, Keys { keys: input.keys, count: input.count }, output, scratch);
    }
    let (input, output) = (input.input(), output.output());
    if check::is_host(stream) {
        let (_, values) = reached(stream, &input, &output)?;
        return on_host(stream, input, output, |run| values[run.end - 1]);
    }
    let (args, launch) = prepare(stream, input, output, scratch)?;
    // SAFETY: as `prepare` says.
    Ok(unsafe { launch.run(calls::last(&args)) }?)
}

/// The key of each run of equal neighbours and its length, and how many runs there are. Otherwise like [`unique_keys`].
///
/// # Errors
/// As [`unique_keys`], and [`BatchTooLarge`](lanetree_base::Error::BatchTooLarge) for 32-bit lengths of 2^32 keys or
/// more.
pub fn run_lengths<K: AnyKey, L: Word>(
    stream: &Stream,
    input: Keys<'_, K>,
    mut output: PairsMut<'_, K, L>,
    scratch: &mut RunScratch,
) -> Result<()> {
    let at_most = input.count.at_most();
    if at_most as u64 > L::MAX.widen() {
        return Err(Error::BatchTooLarge { queries: at_most });
    }
    let (input, output) = (input.input(), output.output());
    if check::is_host(stream) {
        return on_host(stream, input, output, |run| L::truncate(run.len() as u64));
    }
    let (args, launch) = prepare(stream, input, output, scratch)?;
    // SAFETY: as `prepare` says.
    Ok(unsafe { launch.run(calls::lengths(&args)) }?)
}

/// The key of each run of equal neighbours and the sum of its values, and how many runs there are. Sums are 64 bits
/// wide, whatever the values are, and wrap around. Otherwise like [`unique_keys`].
///
/// # Errors
/// As [`unique_keys`].
pub fn sum_by_key<K: AnyKey, V: Word>(
    stream: &Stream,
    input: Pairs<'_, K, V>,
    mut output: PairsMut<'_, K, u64>,
    scratch: &mut RunScratch,
) -> Result<()> {
    let (input, output) = (input.input(), output.output());
    if check::is_host(stream) {
        let (_, values) = reached(stream, &input, &output)?;
        let sum = |run: Range<usize>| values[run].iter().fold(0_u64, |sum, value| sum.wrapping_add(value.widen()));
        return on_host(stream, input, output, sum);
    }
    let (args, launch) = prepare(stream, input, output, scratch)?;
    // SAFETY: as `prepare` says.
    Ok(unsafe { launch.run(calls::sums(&args)) }?)
}

/// A kernel's arguments and its launch.
type Prepared<'a, K, I, O> = (RunArgs<<K as AnyKey>::Bits, I, O>, Launch<'a>);

/// Checks the buffers; the arguments and the launch. It is sound: inputs, output and scratch memory were checked to be long
/// enough, and are borrowed, the last two mutably, until the kernel is launched in `stream`, for which every pointer is.
fn prepare<'a, K: AnyKey, I: Word, O: Word>(
    stream: &'a Stream,
    input: Input<'_, K, I>,
    output: Output<'_, K, O>,
    scratch: &mut RunScratch,
) -> Result<Prepared<'a, K, I, O>> {
    let at_most = input.count.at_most();
    input.check(stream)?;
    output.check(stream, at_most)?;
    check::buffer(stream, "the scratch memory", RunScratch::len(at_most), &scratch.state)?;
    let launch = launch::tiles(stream, at_most, tile_len(input.values.is_some()))?;
    launch::reset(launch, &mut scratch.state, CARRY_WORDS)?;
    let args = RunArgs {
        keys: input.keys.read_on(stream)?.cast(),
        values: optional(input.values, stream)?,
        count: input.count.argument(stream)?,
        state: scratch.state.write_on(stream)?,
        out_keys: output.keys.write_on(stream)?.cast(),
        out_values: optional_mut(output.values, stream)?,
        out_count: output.count.write_on(stream)?,
    };
    Ok((args, launch))
}

/// Checks the buffers; the keys and values, on the host.
fn reached<'a, K: AnyKey, I: Word, O: Word>(
    stream: &Stream,
    input: &Input<'a, K, I>,
    output: &Output<'_, K, O>,
) -> Result<(&'a [K], &'a [I])> {
    input.check(stream)?;
    output.check(stream, input.count.at_most())?;
    Ok(input.reached())
}

/// The result of each run by `reduce`, which gets the run's position in the input.
fn on_host<K: AnyKey, I: Word, O: Word>(
    stream: &Stream,
    input: Input<'_, K, I>,
    output: Output<'_, K, O>,
    reduce: impl Fn(Range<usize>) -> O + Sync,
) -> Result<()> {
    let (keys, _) = reached(stream, &input, &output)?;
    let Some((out_keys, out_values, out_count)) = output.reached() else { return Ok(()) };
    // Parts end with a run.
    let mut parts = native::parts(keys.len(), TASK);
    let mut start = 0;
    for part in &mut parts {
        let mut end = part.end.max(start);
        while end > start && end < keys.len() && keys[end] == keys[end - 1] {
            end += 1;
        }
        *part = start..end;
        start = end;
    }
    let runs = |part: &Range<usize>| {
        let (mut start, end) = (part.start, part.end);
        core::iter::from_fn(move || {
            let key = keys[start..end].first()?;
            let run = start..start + keys[start..end].iter().take_while(|other| *other == key).count();
            start = run.end;
            Some(run)
        })
    };
    let fill = |part: &Range<usize>, keys_to: &mut [K], values_to: &mut [O]| {
        let mut writer = Writer::new(keys_to, values_to);
        for run in runs(part) {
            writer.push(keys[run.start], Some(reduce(run)));
        }
    };
    *out_count = native::compact(&parts, |part| runs(part).count(), fill, out_keys, out_values) as u64;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Count;
    use super::super::test_data::{devices, is_thorough, message, poisoned, rng, sorted, stream, words, written};
    use super::*;

    const COUNTS: [usize; 12] = [0, 1, 2, 64, 255, 2047, 2048, 2049, 3072, 3073, 9001, 70_001];

    /// Where the runs of the keys are.
    fn runs_of<K: AnyKey>(keys: &[K]) -> Vec<Range<usize>> {
        let mut start = 0;
        let run = |run: &[K]| {
            start += run.len();
            start - run.len()..start
        };
        keys.chunk_by(|a, b| a == b).map(run).collect()
    }

    fn reductions<K: AnyKey, V: Word>() {
        for device in devices() {
            let stream = stream(&device);
            let mut scratch = RunScratch::new(&device, 70_001).unwrap();
            for count in COUNTS.into_iter().filter(|&count| is_thorough(&device) || count > 2000) {
                let mut rng = rng(count);
                // One run, runs over several tiles, short runs, and runs mostly of one key.
                for space in [1, 5, count as u64 / 3 + 1, 1 << 31] {
                    let keys: Vec<K> = sorted(count, space, &mut rng);
                    let values: Vec<V> = words(count, &mut rng)
                        .iter()
                        .map(|&w| V::truncate(u64::from(w) << 32 | u64::from(w)))
                        .collect();
                    let runs = runs_of(&keys);
                    let len = runs.len();
                    let unique: Vec<K> = runs.iter().map(|run| keys[run.start]).collect();
                    let (keys_in, values_in) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
                    let input = Keys { keys: &keys_in, count: count.into() };
                    let pairs = Pairs { keys: &keys_in, values: &values_in, count: count.into() };
                    let what = format!("{count} keys out of {space} on {device}");
                    let outputs = || (poisoned::<K>(&device, count + 1), poisoned::<u64>(&device, 2));

                    let (mut out, mut found) = outputs();
                    unique_keys(&stream, input, KeysMut { keys: &mut out, count: &mut found }, &mut scratch).unwrap();
                    assert_eq!(written(&found, 1), [len as u64], "{what}");
                    assert!(written(&out, len) == unique, "{what}");

                    let ((mut out, mut found), mut last) = (outputs(), poisoned(&device, count + 1));
                    let output = PairsMut { keys: &mut out, values: &mut last, count: &mut found };
                    last_by_key(&stream, pairs, output, &mut scratch).unwrap();
                    assert_eq!((written(&found, 1), written(&out, len) == unique), (vec![len as u64], true), "{what}");
                    assert!(written(&last, len).iter().eq(runs.iter().map(|run| &values[run.end - 1])), "{what}");

                    let ((mut out, mut found), mut lengths) = (outputs(), poisoned::<V>(&device, count + 1));
                    let output = PairsMut { keys: &mut out, values: &mut lengths, count: &mut found };
                    run_lengths(&stream, input, output, &mut scratch).unwrap();
                    assert_eq!((written(&found, 1), written(&out, len) == unique), (vec![len as u64], true), "{what}");
                    let expected = runs.iter().map(|run| V::truncate(run.len() as u64));
                    assert!(written(&lengths, len).into_iter().eq(expected), "{what}");

                    let ((mut out, mut found), mut sums) = (outputs(), poisoned(&device, count + 1));
                    let output = PairsMut { keys: &mut out, values: &mut sums, count: &mut found };
                    sum_by_key(&stream, pairs, output, &mut scratch).unwrap();
                    assert_eq!((written(&found, 1), written(&out, len) == unique), (vec![len as u64], true), "{what}");
                    let sum = |run: &Range<usize>| {
                        values[run.clone()].iter().fold(0_u64, |sum, v| sum.wrapping_add(v.widen()))
                    };
                    assert!(written(&sums, len).into_iter().eq(runs.iter().map(sum)), "{what}");
                }
            }
        }
    }

    #[test]
    fn reductions_of_any_length_on_every_device() {
        reductions::<u32, u32>();
        reductions::<u64, u32>();
    }

    #[test]
    fn reductions_of_signed_keys_and_wide_values() {
        reductions::<i32, u64>();
        reductions::<i64, u64>();
    }

    #[test]
    fn reductions_of_keys_of_128_bits() {
        reductions::<i128, u32>();
        reductions::<u128, u64>();
    }

    #[test]
    fn the_last_pairs_of_keys_of_128_bits() {
        for device in devices() {
            let (stream, mut scratch) = (stream(&device), RunScratch::new(&device, 9001).unwrap());
            for (count, space) in [(1, 1), (255, 5), (9001, 3000), (9001, 1)] {
                let mut rng = rng(count);
                // They differ in the high half alone, or by one across the halves.
                let mut keys: Vec<i128> = sorted(count, space, &mut rng);
                if count == 255 {
                    keys.iter_mut().for_each(|key| *key = *key << 64 | 7);
                    keys.sort_unstable();
                }
                let values: Vec<u32> = words(count, &mut rng);
                let runs = runs_of(&keys);
                let (keys_in, values_in) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
                let (mut out, mut last) = (poisoned(&device, count + 1), poisoned(&device, count + 1));
                let mut found = poisoned(&device, 2);
                let input = Pairs { keys: &keys_in, values: &values_in, count: count.into() };
                let output = PairsMut { keys: &mut out, values: &mut last, count: &mut found };
                last_by_key(&stream, input, output, &mut scratch).unwrap();
                let what = format!("{count} keys out of {space} on {device}");
                assert_eq!(written(&found, 1), [runs.len() as u64], "{what}");
                assert!(written(&out, runs.len()).iter().eq(runs.iter().map(|run| &keys[run.start])), "{what}");
                assert!(written(&last, runs.len()).iter().eq(runs.iter().map(|run| &values[run.end - 1])), "{what}");
            }
        }
    }

    #[test]
    fn a_result_is_the_next_calls_input() {
        for device in devices() {
            let keys: Vec<u64> = (0..9000).map(|i| i / 3).collect();
            let (stream, keys) = (stream(&device), device.upload(&keys).unwrap());
            let (mut once, mut found) = (poisoned(&device, 9000), poisoned(&device, 1));
            let (mut twice, mut found_twice) = (poisoned(&device, 9000), poisoned(&device, 1));
            let mut scratch = RunScratch::new(&device, 9000).unwrap();
            let output = KeysMut { keys: &mut once, count: &mut found };
            unique_keys(&stream, Keys { keys: &keys, count: 9000.into() }, output, &mut scratch).unwrap();
            let input = Keys { keys: &once, count: Count::Device { count: &found, at_most: 9000 } };
            let output = KeysMut { keys: &mut twice, count: &mut found_twice };
            unique_keys(&stream, input, output, &mut scratch).unwrap();
            assert_eq!(written(&found_twice, 1), [3000]);
            assert_eq!(written(&twice, 3000), (0..3000).collect::<Vec<u64>>(), "{device}");
        }
    }

    #[test]
    fn short_scratch_memory_is_refused() {
        for device in devices().into_iter().skip(1) {
            let (keys, mut out) = (device.alloc::<u32>(5000).unwrap(), device.alloc(5000).unwrap());
            let (mut count, mut scratch) = (device.alloc(1).unwrap(), RunScratch::new(&device, 4000).unwrap());
            let output = KeysMut { keys: &mut out, count: &mut count };
            let input = Keys { keys: &keys, count: 5000.into() };
            assert_eq!(
                message(unique_keys(&stream(&device), input, output, &mut scratch)),
                "the scratch memory holds 38 elements, but 41 are needed; allocate at least 41"
            );
        }
    }
}
