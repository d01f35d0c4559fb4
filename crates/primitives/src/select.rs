//! Compaction by hit mask.

use super::TASK;
use super::check;
use super::input::{Elements, Input, Output, PartsMut};
use super::launch::{self, state_len};
use super::native::{self, Writer};
use core::ops::Range;
use lanetree_base::pointers::{optional, optional_mut};
use lanetree_base::{Buffer, Device, Result, Stream};
use lanetree_kernels_primitives::THREADS;
use lanetree_kernels_primitives::calls;
use lanetree_kernels_primitives::select::{CARRY_WORDS, FLAG_WORDS, SMALLEST_TILE, SelectArgs, tile_len};
use lanetree_layout::{AnyKey, KeyWord, Word};
use lanetree_simt::{Global, GlobalMut};

/// Scratch memory of the functions that select and partition: 8 bytes for 2048 elements.
#[derive(Debug)]
pub struct SelectScratch {
    state: Buffer<u64>,
}

impl SelectScratch {
    /// Memory on `device` for selections among up to `count` elements, allocated now.
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
        state_len((count as u64).div_ceil(SMALLEST_TILE).max(1), CARRY_WORDS)
    }
}

/// Copies the elements whose bit is set, [`Keys`](crate::Keys) or [`Pairs`](crate::Pairs), in their order, to the front of `output`,
/// and counts them.
///
/// Bit `i % 32` of `flags[i / 32]` is that of element `i`, as in the hit mask of look-ups; bits past the last element do
/// not matter. The output needs room for all elements, whatever is selected. In the stream's order; may return before it
/// is done.
///
/// # Errors
/// [`OutputLength`](lanetree_base::Error::OutputLength) for a buffer that is too small;
/// [`Runtime`](lanetree_base::Error::Runtime) for a buffer of another device than the stream's, and from the launch;
/// [`BatchTooLarge`](lanetree_base::Error::BatchTooLarge) from 2^42 elements on.
pub fn select<E: Elements>(
    stream: &Stream,
    input: E,
    flags: &Buffer<u32>,
    mut output: E::Output<'_>,
    scratch: &mut SelectScratch,
) -> Result<()> {
    run(stream, input.input(), flags, output.output(), scratch, false)
}

/// Copies the elements whose bit is set to the front of `output`, followed by all others, both in their order; counts
/// those whose bit is set. Otherwise like [`select`].
///
/// # Errors
/// As [`select`].
pub fn partition<E: Elements>(
    stream: &Stream,
    input: E,
    flags: &Buffer<u32>,
    mut output: E::Output<'_>,
    scratch: &mut SelectScratch,
) -> Result<()> {
    run(stream, input.input(), flags, output.output(), scratch, true)
}

fn run<K: AnyKey, V: Word>(
    stream: &Stream,
    input: Input<'_, K, V>,
    flags: &Buffer<u32>,
    output: Output<'_, K, V>,
    scratch: &mut SelectScratch,
    partition: bool,
) -> Result<()> {
    let at_most = input.count.at_most();
    input.check(stream)?;
    check::buffer(stream, "the flags' buffer", at_most.div_ceil(32), flags)?;
    output.check(stream, at_most)?;
    if check::is_host(stream) {
        on_host(input, flags.as_slice().unwrap_or(&[]), output, partition);
        return Ok(());
    }
    check::buffer(stream, "the scratch memory", SelectScratch::len(at_most), &scratch.state)?;
    let bytes = K::Bits::BYTES + input.values.map_or(0, |_| V::BYTES);
    let launch = launch::tiles(stream, at_most, tile_len(bytes, partition))?;
    launch::reset(launch, &mut scratch.state, CARRY_WORDS)?;
    let args = SelectArgs::<K::Bits, V> {
        keys: input.keys.read_on(stream)?.cast(),
        values: optional(input.values, stream)?,
        flags: flags.read_on(stream)?,
        count: input.count.argument(stream)?,
        state: scratch.state.write_on(stream)?,
        out_keys: output.keys.write_on(stream)?.cast(),
        out_values: optional_mut(output.values, stream)?,
        out_count: output.count.write_on(stream)?,
    };
    if partition {
        output.count.fill_zero_range(stream, 0..1)?;
        let count_args = SelectArgs {
            keys: Global::null(),
            values: Global::null(),
            flags: args.flags,
            count: args.count,
            state: args.state,
            out_keys: GlobalMut::null(),
            out_values: GlobalMut::null(),
            out_count: args.out_count,
        };
        let words = launch::tiles(stream, at_most, 32 * FLAG_WORDS * u64::from(THREADS))?;
        // SAFETY: the flags and the count were checked to be long enough; the pointers are for this stream.
        unsafe { words.run(calls::count_flags(&count_args))? };
    }
    // SAFETY: inputs, output and scratch memory were checked to be long enough; every pointer is for this stream; the
    // output and the scratch memory are borrowed mutably, so nothing else is among them.
    Ok(unsafe { launch.run(calls::select(input.values.is_some(), partition, &args)) }?)
}

fn on_host<K: AnyKey, V: Word>(input: Input<'_, K, V>, flags: &[u32], output: Output<'_, K, V>, partition: bool) {
    let (keys, values) = input.reached();
    let Some((out_keys, out_values, out_count)) = output.reached() else { return };
    let parts = native::parts(keys.len(), TASK);
    let has = |index: usize, wanted: bool| (flags[index / 32] >> (index % 32) & 1 != 0) == wanted;
    let mut compact = |wanted: bool, from: usize| {
        let count = |part: &Range<usize>| part.clone().filter(|&index| has(index, wanted)).count();
        let fill = |part: &Range<usize>, keys_to: &mut [K], values_to: &mut [V]| {
            let mut writer = Writer::new(keys_to, values_to);
            for index in part.clone().filter(|&index| has(index, wanted)) {
                writer.push(keys[index], values.get(index).copied());
            }
        };
        let values_from = from.min(out_values.len());
        native::compact(&parts, count, fill, &mut out_keys[from..], &mut out_values[values_from..])
    };
    let selected = compact(true, 0);
    if partition {
        compact(false, selected);
    }
    *out_count = selected as u64;
}

#[cfg(test)]
mod tests {
    use super::super::test_data::{devices, is_thorough, message, poisoned, rng, stream, words, written};
    use super::super::{Count, Keys, KeysMut, Pairs, PairsMut};
    use super::*;
    use rand::RngExt;

    const COUNTS: [usize; 11] = [0, 1, 31, 33, 255, 2047, 2048, 2049, 3072, 3073, 70_001];

    fn selections<K: AnyKey, V: Word>() {
        for device in devices() {
            let stream = stream(&device);
            let mut scratch = SelectScratch::new(&device, 70_001).unwrap();
            for count in COUNTS.into_iter().filter(|&count| is_thorough(&device) || count > 2000) {
                let mut rng = rng(count);
                let key = |&word: &u32| K::decode(K::Bits::from_parts([word.into(), (!word).into()]));
                let keys: Vec<K> = words(count + 2, &mut rng).iter().map(key).collect();
                let values: Vec<V> = (0..count as u64).map(|i| V::truncate(i << 32 | i)).collect();
                for share in [0.0, 0.01, 0.5, 0.99, 1.0] {
                    // Bits past the last element are set: they must not matter.
                    let bits: Vec<bool> = (0..count).map(|_| rng.random_bool(share)).collect();
                    let bit = |i: usize| u32::from(bits.get(i).is_none_or(|&bit| bit)) << (i % 32);
                    let flags: Vec<u32> =
                        (0..count.div_ceil(32)).map(|w| (0..32).fold(0, |word, i| word | bit(32 * w + i))).collect();
                    let order = |wanted: bool| (0..count).filter(|&i| bits[i] == wanted).collect::<Vec<usize>>();
                    let (selected, others) = (order(true), order(false));
                    let flags = device.upload(&flags).unwrap();
                    let (keys_in, values_in) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
                    for others_too in [false, true] {
                        let mut order = selected.clone();
                        if others_too {
                            order.extend(&others);
                        }
                        let what = format!("{share} of {count} on {device}, partition {others_too}");
                        let (mut found, count) = (poisoned(&device, 2), Count::Host(count));
                        let (mut out_keys, mut out_values) =
                            (poisoned(&device, keys.len()), poisoned(&device, keys.len()));
                        let input = Pairs { keys: &keys_in, values: &values_in, count };
                        let output = PairsMut { keys: &mut out_keys, values: &mut out_values, count: &mut found };
                        match others_too {
                            true => partition(&stream, input, &flags, output, &mut scratch).unwrap(),
                            false => select(&stream, input, &flags, output, &mut scratch).unwrap(),
                        }
                        assert_eq!(written(&found, 1), [selected.len() as u64], "{what}");
                        assert!(written(&out_keys, order.len()).iter().eq(order.iter().map(|&i| &keys[i])), "{what}");
                        assert!(
                            written(&out_values, order.len()).iter().eq(order.iter().map(|&i| &values[i])),
                            "{what}"
                        );

                        (found, out_keys) = (poisoned(&device, 2), poisoned(&device, keys.len()));
                        let input = Keys { keys: &keys_in, count };
                        let output = KeysMut { keys: &mut out_keys, count: &mut found };
                        match others_too {
                            true => partition(&stream, input, &flags, output, &mut scratch).unwrap(),
                            false => select(&stream, input, &flags, output, &mut scratch).unwrap(),
                        }
                        assert_eq!(written(&found, 1), [selected.len() as u64], "{what}");
                        assert!(written(&out_keys, order.len()).iter().eq(order.iter().map(|&i| &keys[i])), "{what}");
                    }
                }
            }
        }
    }

    #[test]
    fn selections_of_any_share_on_every_device() {
        selections::<u32, u32>();
        selections::<u64, u32>();
    }

    #[test]
    fn selections_of_signed_keys_and_wide_values() {
        selections::<i32, u64>();
        selections::<i64, u64>();
    }

    #[test]
    fn selections_of_keys_of_128_bits() {
        selections::<u128, u32>();
        selections::<i128, u64>();
    }

    #[test]
    fn a_count_may_be_on_the_device() {
        for device in devices() {
            let keys: Vec<u32> = (0..9000).collect();
            let (keys, flags) = (device.upload(&keys).unwrap(), device.upload(&[0xaaaa_aaaa_u32; 282]).unwrap());
            let len = device.upload(&[2051_u64]).unwrap();
            let input = Keys { keys: &keys, count: Count::Device { count: &len, at_most: 9000 } };
            let (mut out, mut found) = (poisoned(&device, 9000), poisoned(&device, 1));
            let mut scratch = SelectScratch::new(&device, 9000).unwrap();
            let odd = (1..2051).step_by(2);
            let output = KeysMut { keys: &mut out, count: &mut found };
            select(&stream(&device), input, &flags, output, &mut scratch).unwrap();
            assert_eq!(written(&found, 1), [1025]);
            assert_eq!(written(&out, 1025), odd.clone().collect::<Vec<u32>>());
            (out, found) = (poisoned(&device, 9000), poisoned(&device, 1));
            let output = KeysMut { keys: &mut out, count: &mut found };
            partition(&stream(&device), input, &flags, output, &mut scratch).unwrap();
            assert_eq!(written(&found, 1), [1025]);
            assert_eq!(written(&out, 2051), odd.chain((0..2051).step_by(2)).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn too_few_flags_are_refused() {
        for device in devices() {
            let (keys, flags) = (device.upload(&[1_u32; 33]).unwrap(), device.upload(&[1_u32]).unwrap());
            let (mut out, mut count) = (device.alloc(33).unwrap(), device.alloc(1).unwrap());
            let mut scratch = SelectScratch::new(&device, 33).unwrap();
            let output = KeysMut { keys: &mut out, count: &mut count };
            let input = Keys { keys: &keys, count: 33.into() };
            assert_eq!(
                message(select(&stream(&device), input, &flags, output, &mut scratch)),
                "the flags' buffer holds 1 element, but 2 are needed; allocate at least 2"
            );
        }
    }
}
