//! Compaction by hit mask.

use super::TASK;
use super::check;
use super::input::{Count, Elements, Input, KeysMut, Output, PairsMut, PartsMut, words};
use super::launch::{self, state_len};
use super::native::{self, Writer};
use core::ops::Range;
use lanetree_base::pointers::{optional, optional_mut};
use lanetree_base::{Buffer, Device, Error, Result, Stream};
use lanetree_kernels_primitives::THREADS;
use lanetree_kernels_primitives::calls;
use lanetree_kernels_primitives::select::{CARRY_WORDS, FLAG_WORDS, SMALLEST_TILE, SelectArgs, tile_len};
use lanetree_layout::{AnyKey, KeyWord, Value, Word};
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
    run(stream, Selection::of(input.input(), flags), output.output(), scratch, false)
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
    run(stream, Selection::of(input.input(), flags), output.output(), scratch, true)
}

/// Writes the numbers of the elements whose bit is set, from 0 on, in ascending order, and counts them: [`select`] of an array of all
/// numbers, which need not be there. Without flags, all numbers.
///
/// ```
/// use lanetree_primitives::{KeysMut, SelectScratch, select_numbers};
/// # use lanetree_base::Device;
///
/// # fn main() -> lanetree_base::Result<()> {
/// let device = Device::emulated();
/// let (stream, mut scratch) = (device.stream()?, SelectScratch::new(&device, 5)?);
/// let (mut numbers, mut count) = (device.alloc::<u32>(5)?, device.alloc(1)?);
/// let output = KeysMut { keys: &mut numbers, count: &mut count };
/// select_numbers(&stream, 5.into(), Some(&device.upload(&[0b10110])?), output, &mut scratch)?;
/// assert_eq!((count.to_vec()?, numbers.to_vec()?[..3].to_vec()), (vec![3], vec![1, 2, 4]));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`select`]; [`BatchTooLarge`](lanetree_base::Error::BatchTooLarge) for more elements than there are numbers of the type.
pub fn select_numbers<N: AnyKey<Bits = N> + Word>(
    stream: &Stream,
    count: Count<'_>,
    flags: Option<&Buffer<u32>>,
    mut output: KeysMut<'_, N>,
    scratch: &mut SelectScratch,
) -> Result<()> {
    let selection = Selection { keys: None, values: None, count, flags };
    check_numbers::<N>(count)?;
    run(stream, selection, output.output(), scratch, false)
}

/// Copies the values whose bit is set to the front of `output`, each with its number as the key, and counts them: [`select`] of pairs
/// of all numbers and `values`.
///
/// # Errors
/// As [`select_numbers`].
pub fn select_numbered<N: AnyKey<Bits = N> + Word, V: Value>(
    stream: &Stream,
    (values, count): (&Buffer<V>, Count<'_>),
    flags: &Buffer<u32>,
    mut output: PairsMut<'_, N, V>,
    scratch: &mut SelectScratch,
) -> Result<()> {
    let selection = Selection { keys: None, values: words(values), count, flags: Some(flags) };
    check_numbers::<N>(count)?;
    run(stream, selection, output.output(), scratch, false)
}

fn check_numbers<N: Word>(count: Count<'_>) -> Result<()> {
    match count.at_most() {
        queries if queries as u64 > <N as KeyWord>::MAX.widen() => Err(Error::BatchTooLarge { queries }),
        _ => Ok(()),
    }
}

/// What is selected from.
struct Selection<'a, K, V> {
    /// `None`: the elements' numbers.
    keys: Option<&'a Buffer<K>>,
    values: Option<&'a Buffer<V>>,
    count: Count<'a>,
    /// `None`: all are selected.
    flags: Option<&'a Buffer<u32>>,
}

impl<'a, K: AnyKey, V: Word> Selection<'a, K, V> {
    fn of(Input { keys, values, count }: Input<'a, K, V>, flags: &'a Buffer<u32>) -> Self {
        Self { keys: Some(keys), values, count, flags: Some(flags) }
    }

    fn check(&self, stream: &Stream) -> Result<()> {
        let count = self.count.at_most();
        check::count(stream, self.count)?;
        self.keys.map_or(Ok(()), |keys| check::buffer(stream, "the keys' buffer", count, keys))?;
        self.values.map_or(Ok(()), |values| check::buffer(stream, "the values' buffer", count, values))?;
        self.flags.map_or(Ok(()), |flags| check::buffer(stream, "the flags' buffer", count.div_ceil(32), flags))
    }
}

fn run<K: AnyKey, V: Word>(
    stream: &Stream,
    selection: Selection<'_, K, V>,
    output: Output<'_, K, V>,
    scratch: &mut SelectScratch,
    partition: bool,
) -> Result<()> {
    let at_most = selection.count.at_most();
    selection.check(stream)?;
    output.check(stream, at_most)?;
    if check::is_host(stream) {
        on_host(&selection, output, partition);
        return Ok(());
    }
    check::buffer(stream, "the scratch memory", SelectScratch::len(at_most), &scratch.state)?;
    let Selection { keys, values, count, flags } = selection;
    let bytes = K::Bits::BYTES + values.map_or(0, |_| V::BYTES);
    let launch = launch::tiles(stream, at_most, tile_len(bytes, partition))?;
    launch::reset(launch, &mut scratch.state, CARRY_WORDS)?;
    let args = SelectArgs::<K::Bits, V> {
        keys: optional(keys, stream)?.cast(),
        values: optional(values, stream)?,
        flags: optional(flags, stream)?,
        count: count.argument(stream)?,
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
    Ok(unsafe { launch.run(calls::select(values.is_some(), partition, &args)) }?)
}

fn on_host<K: AnyKey, V: Word>(selection: &Selection<'_, K, V>, output: Output<'_, K, V>, partition: bool) {
    let (keys, values) = (selection.keys.and_then(Buffer::as_slice), selection.values.and_then(Buffer::as_slice));
    let flags = selection.flags.and_then(Buffer::as_slice);
    let Some((out_keys, out_values, out_count)) = output.reached() else { return };
    let parts = native::parts(selection.count.reached(), TASK);
    let is_set = |index: usize| flags.is_none_or(|flags| flags[index / 32] >> (index % 32) & 1 != 0);
    let has = |index: usize, wanted: bool| is_set(index) == wanted;
    let key = |index: usize| keys.map_or_else(|| K::decode(K::Bits::truncate(index as u64)), |keys| keys[index]);
    let mut compact = |wanted: bool, from: usize| {
        let count = |part: &Range<usize>| part.clone().filter(|&index| has(index, wanted)).count();
        let fill = |part: &Range<usize>, keys_to: &mut [K], values_to: &mut [V]| {
            let mut writer = Writer::new(keys_to, values_to);
            for index in part.clone().filter(|&index| has(index, wanted)) {
                writer.push(key(index), values.map(|values| values[index]));
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

    /// Selections of numbers are those of an array of them.
    fn numbers_of<N: AnyKey<Bits = N> + Word>() {
        for device in devices() {
            let (stream, mut scratch) = (stream(&device), SelectScratch::new(&device, 70_001).unwrap());
            for count in COUNTS.into_iter().filter(|&count| is_thorough(&device) || count > 2000) {
                let all: Vec<N> = (0..count as u64).map(N::truncate).collect();
                let values: Vec<u64> = (0..count as u64).map(|i| i << 33 | i).collect();
                let flags = words(count.div_ceil(32), &mut rng(count));
                let is_set = |&i: &usize| flags[i / 32] >> (i % 32) & 1 == 1;
                let expected: Vec<usize> = (0..count).filter(is_set).collect();
                let (flags, values_in) = (device.upload(&flags).unwrap(), device.upload(&values).unwrap());
                for (flags, expected) in [(Some(&flags), &expected), (None, &(0..count).collect())] {
                    let (mut keys, mut found) = (poisoned::<N>(&device, count), poisoned(&device, 1));
                    let output = KeysMut { keys: &mut keys, count: &mut found };
                    select_numbers(&stream, count.into(), flags, output, &mut scratch).unwrap();
                    assert_eq!(written(&found, 1), [expected.len() as u64], "of {count} on {device}");
                    assert!(written(&keys, expected.len()).iter().eq(expected.iter().map(|&i| &all[i])), "of {count}");
                }
                let (mut keys, mut found) = (poisoned::<N>(&device, count), poisoned(&device, 1));
                let mut out_values = poisoned(&device, count);
                let output = PairsMut { keys: &mut keys, values: &mut out_values, count: &mut found };
                select_numbered(&stream, (&values_in, count.into()), &flags, output, &mut scratch).unwrap();
                assert!(written(&keys, expected.len()).iter().eq(expected.iter().map(|&i| &all[i])), "of {count}");
                assert!(written(&out_values, expected.len()).iter().eq(expected.iter().map(|&i| &values[i])));
            }
        }
    }

    #[test]
    fn numbers_are_selected_without_an_array_of_them() {
        numbers_of::<u32>();
        numbers_of::<u64>();
        let device = Device::host();
        let (mut keys, mut found) = (device.alloc::<u32>(0).unwrap(), device.alloc(1).unwrap());
        let output = KeysMut { keys: &mut keys, count: &mut found };
        let mut scratch = SelectScratch::new(&device, 0).unwrap();
        let many = select_numbers(&stream(&device), Count::Host(1 << 32), None, output, &mut scratch);
        assert!(message(many).contains("4294967296"), "there are fewer numbers of 32 bits");
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
