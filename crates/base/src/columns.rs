//! Columns as other libraries have them: a byte for each bit of a hit mask, floats for their ordered words.

#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use crate::Error;
use crate::Result;
use crate::error::check_buffer;
use crate::launch::{THREADS, over};
use crate::parallel::*;
use lanetree_kernels_base::calls;
use lanetree_kernels_base::columns::{OrderFloatsArgs, UnpackBitsArgs, WORDS, canonical, turned};
use lanetree_layout::{F32, F64, Key, Word};
use lanetree_runtime::{Buffer, DeviceKind, Stream};

/// Which floats are the same key, and in which order they are. Use the same order for an index's keys and for the keys
/// of its queries.
///
/// ```
/// use lanetree::{F64, FloatOrder};
///
/// let [minus_zero, zero, nan, other_nan, infinity] =
///     [-0.0, 0.0, f64::NAN, -f64::NAN, f64::INFINITY].map(|number| FloatOrder::Canonical.key(number));
/// assert!(minus_zero == zero && nan == other_nan && infinity < nan);
/// assert!(FloatOrder::Total.key(-0.0_f64) < FloatOrder::Total.key(0.0_f64));
/// ```
///
/// An index over floats:
///
/// ```
/// use lanetree::{Device, F64, FloatOrder, LaneTree};
///
/// # fn main() -> lanetree::Result<()> {
/// let order = FloatOrder::Canonical;
/// let keys = [1.5, f64::NAN, -0.0, -7.0].map(|number| order.key(number));
/// let index = LaneTree::build(&Device::host(), &keys, &[0_u32, 1, 2, 3])?;
/// assert_eq!(index.get_many(&[0.0, -f64::NAN].map(|number| order.key(number)))?, [Some(2), Some(1)]);
/// // All that are not below zero, without NaN.
/// let found = index.range_many([order.key(0.0)..=order.key(f64::INFINITY)])?;
/// assert_eq!(found.values, [2, 0]);
/// assert_eq!(found.keys.iter().map(|key| key.get()).collect::<Vec<f64>>(), [0.0, 1.5]);
/// // In total order -0.0 and 0.0 are two keys: `F64::new`.
/// assert!(F64::new(-0.0) < F64::new(0.0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FloatOrder {
    /// The default. Floats of different bits are different keys, in the order of `total_cmp`: -0.0 is below 0.0, and NaNs are below or above
    /// all numbers by their sign. [`F64::new`] makes the same keys.
    #[default]
    Total,
    /// -0.0 is 0.0, and all NaNs are one, above all numbers: as in SQL, pandas and Spark. Otherwise like [`FloatOrder::Total`].
    Canonical,
}

impl FloatOrder {
    /// The key that stands for a number: keys compare as this order compares the numbers.
    pub fn key<N: Float>(self, number: N) -> N::Key {
        number.key(self)
    }
}

/// Floats of which [`FloatOrder::key`] makes keys.
pub trait Float: Copy + sealed::Sealed {
    /// The key.
    type Key: Key;

    #[doc(hidden)]
    fn key(self, order: FloatOrder) -> Self::Key;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! float {
    ($($float:ident $key:ident)*) => {$(
        impl sealed::Sealed for $float {}

        impl Float for $float {
            type Key = $key;

            fn key(self, order: FloatOrder) -> $key {
                match order {
                    FloatOrder::Total => $key::new(self),
                    FloatOrder::Canonical => $key::new(<$float>::from_bits(canonical(self.to_bits()))),
                }
            }
        }
    )*};
}
float! { f32 F32  f64 F64 }

/// Elements of a task of the CPU's.
const TASK: usize = 1 << 14;

/// Writes a byte, 0 or 1, for each of the first `count` bits of a hit mask. Runs in the stream's order and may return before it is
/// done. Allocates nothing.
///
/// # Errors
/// [`Error::OutputLength`] unless the mask has a word for each 32 bits, and `bytes` four bytes for each four bits that are begun (those past
/// `count` get any value); [`Error::BatchTooLarge`]; [`Error::Runtime`] for buffers of another device than the stream's, and for
/// `bytes` that do not begin at a multiple of 16 bytes: kernels write several at a time.
pub fn unpack_bits(stream: &Stream, bits: &Buffer<u32>, count: usize, bytes: &mut Buffer<u8>) -> Result<()> {
    let words = count.div_ceil(4);
    check_buffer(stream.device(), "the hit mask's buffer", count.div_ceil(32), bits)?;
    check_buffer(stream.device(), "the bytes' buffer", words * 4, bytes)?;
    if count == 0 {
        return Ok(());
    }
    if stream.device().kind() == DeviceKind::Host {
        if let (Some(bits), Some(bytes)) = (bits.as_slice(), bytes.as_mut_slice()) {
            let tasks = bytes[..count].par_chunks_mut(TASK).enumerate();
            tasks.for_each(|(task, bytes)| {
                for (i, byte) in bytes.iter_mut().enumerate() {
                    let bit = task * TASK + i;
                    *byte = (bits[bit / 32] >> (bit % 32) & 1) as u8;
                }
            });
        }
        return Ok(());
    }
    let address = bytes.addresses().start;
    if !address.is_multiple_of(16) {
        return Err(lanetree_runtime::Error::Misaligned { address, needed: 16 }.into());
    }
    let (bits, bytes) = (bits.read_on(stream)?, bytes.write_on(stream)?.cast());
    let args = UnpackBitsArgs { bits, count: words as u64, bytes };
    // SAFETY: both buffers were found to be long enough; the pointers are for this stream.
    unsafe { over(stream, args.count.div_ceil(WORDS), 1, THREADS)?.run(calls::unpack_bits(&args))? };
    Ok(())
}

/// Converts floats, given as their bits, to words that sort in the floats' order: `words[i]` is the word of
/// `numbers[i]`, as [`FloatOrder::key`] does. Cast words are keys. Runs in the stream's order and may return before it
/// is done. Allocates nothing.
///
/// ```
/// use lanetree::{Device, F64, FloatOrder, order_floats};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::emulated();
/// let numbers = device.upload(&[-0.0, -f64::NAN].map(f64::to_bits))?;
/// let mut words = device.alloc(2)?;
/// order_floats(&device.stream()?, FloatOrder::Canonical, &numbers, &mut words)?;
/// let keys = words.cast_ref::<F64>().expect("words of keys");
/// assert_eq!(keys.to_vec()?, [0.0, f64::NAN].map(|number| FloatOrder::Canonical.key(number)));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::OutputLength`] for less room than numbers; [`Error::BatchTooLarge`]; [`Error::Runtime`] for buffers of another device than
/// the stream's.
pub fn order_floats<K: Key>(
    stream: &Stream,
    order: FloatOrder,
    numbers: &Buffer<K>,
    words: &mut Buffer<K>,
) -> Result<()> {
    let len = numbers.len();
    let is_canonical = order == FloatOrder::Canonical;
    check_buffer(stream.device(), "the numbers' buffer", len, numbers)?;
    check_buffer(stream.device(), "the words' buffer", len, words)?;
    if stream.device().kind() == DeviceKind::Host {
        if let (Some(numbers), Some(words)) = (numbers.as_slice(), words.as_mut_slice()) {
            words[..len].copy_from_slice(numbers);
            turn(&mut words[..len], |bits| turned(if is_canonical { canonical(bits) } else { bits }, false));
        }
        return Ok(());
    }
    let (from, to) = (numbers.read_on(stream)?.cast(), words.write_on(stream)?.cast());
    let args = OrderFloatsArgs { from, count: len as u64, inverse: 0, canonical: is_canonical.into(), to };
    launch::<K::Bits>(stream, &args)
}

/// Makes floats' bits of their ordered words, in place: the inverse of [`order_floats`] in total order, otherwise like it.
///
/// # Errors
/// As [`order_floats`].
pub fn restore_floats<K: Key>(stream: &Stream, words: &mut Buffer<K>) -> Result<()> {
    check_buffer(stream.device(), "the words' buffer", 0, words)?;
    if stream.device().kind() == DeviceKind::Host {
        turn(words.as_mut_slice().unwrap_or_default(), |word| turned(word, true));
        return Ok(());
    }
    let (count, to) = (words.len() as u64, words.write_on(stream)?.cast());
    launch::<K::Bits>(stream, &OrderFloatsArgs { from: to.as_const(), count, inverse: 1, canonical: 0, to })
}

fn turn<K: Key>(words: &mut [K], to: impl Fn(K::Bits) -> K::Bits + Sync) {
    let words = bytemuck::cast_slice_mut::<K, K::Bits>(words);
    words.par_chunks_mut(TASK).for_each(|words| words.iter_mut().for_each(|word| *word = to(*word)));
}

fn launch<W: Word>(stream: &Stream, args: &OrderFloatsArgs<W>) -> Result<()> {
    if args.count == 0 {
        return Ok(());
    }
    // SAFETY: both buffers were found to be long enough; the pointers are for this stream.
    unsafe { over(stream, args.count, 1, THREADS)?.run(calls::order_floats(args))? };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_runtime::Device;

    fn each_device(test: impl Fn(&Device)) {
        [Device::host(), Device::emulated()].iter().for_each(test);
    }

    #[test]
    fn a_byte_is_written_for_each_bit() {
        each_device(|device| {
            let stream = device.stream().unwrap();
            let bits = device.upload(&[0x8000_0001_u32, 0xdead_beef, 0x0f]).unwrap();
            for count in [0, 1, 3, 4, 31, 32, 33, 67, 96] {
                let mut bytes = device.upload(&vec![7_u8; usize::next_multiple_of(count, 4)]).unwrap();
                unpack_bits(&stream, &bits, count, &mut bytes).unwrap();
                let words = bits.to_vec().unwrap();
                let expected: Vec<u8> = (0..count).map(|i| (words[i / 32] >> (i % 32) & 1) as u8).collect();
                assert_eq!(bytes.to_vec().unwrap()[..count], expected, "{count} bits on {device}");
            }
            let error = unpack_bits(&stream, &bits, 97, &mut device.alloc(100).unwrap()).unwrap_err();
            assert!(error.to_string().contains("the hit mask's buffer holds 3 elements"), "{error}");
            let error = unpack_bits(&stream, &bits, 33, &mut device.alloc(33).unwrap()).unwrap_err();
            assert!(error.to_string().contains("the bytes' buffer holds 33 elements, but 36"), "{error}");
        });
    }

    #[test]
    fn bytes_that_vectors_cannot_be_written_to_are_refused() {
        let device = Device::emulated();
        let array = device.alloc::<u8>(40).unwrap();
        let fifth = array.addresses().start + 4;
        // SAFETY: elements of the array, which is dropped after the buffer and not used.
        let mut bytes = unsafe { device.buffer_from_raw(core::ptr::with_exposed_provenance_mut(fifth), 32) }.unwrap();
        let error = unpack_bits(&device.stream().unwrap(), &device.upload(&[7]).unwrap(), 32, &mut bytes).unwrap_err();
        let text = format!("the memory at {fifth:#x} is not aligned: it does not begin at a multiple of 16 bytes");
        assert!(error.to_string().contains(&text), "{error}");
    }

    #[test]
    fn words_of_floats_are_those_of_the_key_types() {
        let numbers = [0.0, -0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, f64::MIN_POSITIVE];
        // NaNs whose one bit is the lowest.
        let wide: Vec<u64> =
            numbers.map(f64::to_bits).into_iter().chain([(0x7ff << 52) + 1, (0xfff << 52) + 1]).collect();
        let narrow = numbers.map(|number| (number as f32).to_bits());
        let narrow: Vec<u32> = narrow.into_iter().chain([(0xff << 23) + 1, (0x1ff << 23) + 1]).collect();
        each_device(|device| {
            for order in [FloatOrder::Total, FloatOrder::Canonical] {
                round_trip(device, order, &wide, |bits| bytemuck::cast(order.key(f64::from_bits(bits))));
                round_trip(device, order, &narrow, |bits| bytemuck::cast(order.key(f32::from_bits(bits))));
            }
        });
    }

    #[test]
    fn canonical_keys_have_one_zero_and_one_nan_which_is_last() {
        let ascending = [f64::NEG_INFINITY, f64::MIN, -1.5, -5e-324, 0.0, 5e-324, 1.0, f64::MAX, f64::INFINITY];
        let key = |number: f64| FloatOrder::Canonical.key(number);
        for number in ascending {
            assert_eq!(key(number), F64::new(number), "{number} is itself");
            let narrow = number as f32;
            assert!(narrow == 0.0 || FloatOrder::Canonical.key(narrow) == F32::new(narrow));
            for nan in [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001), f64::from_bits(u64::MAX)] {
                assert!(key(number) < key(nan) && key(nan).get().to_bits() == 0x7ff8_0000_0000_0000);
            }
        }
        for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(u32::MAX)] {
            assert_eq!(FloatOrder::Canonical.key(nan).get().to_bits(), 0x7fc0_0000);
        }
        assert_eq!((key(-0.0), FloatOrder::Canonical.key(-0.0_f32)), (F64::new(0.0), F32::new(0.0)));
    }

    fn round_trip<K: Key>(device: &Device, order: FloatOrder, bits: &[K], word: impl Fn(K) -> K) {
        let stream = device.stream().unwrap();
        let (from, mut to) = (device.upload(bits).unwrap(), device.alloc::<K>(bits.len()).unwrap());
        order_floats(&stream, order, &from, &mut to).unwrap();
        let expected: Vec<K> = bits.iter().map(|&bits| word(bits)).collect();
        assert_eq!(to.to_vec().unwrap(), expected, "{order:?} on {device}");
        if order == FloatOrder::Total {
            restore_floats(&stream, &mut to).unwrap();
            assert_eq!(to.to_vec().unwrap(), bits, "{device}");
        }
    }
}
