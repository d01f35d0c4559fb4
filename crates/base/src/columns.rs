//! Columns as other libraries have them: a byte for each bit of a hit mask, floats for their ordered words.

#[cfg(doc)]
use crate::Error;
use crate::Result;
use crate::error::check_buffer;
use crate::launch::{THREADS, over};
use crate::parallel::*;
use lanetree_kernels_base::calls;
use lanetree_kernels_base::columns::{OrderFloatsArgs, UnpackBitsArgs, WORDS, turned};
use lanetree_layout::{Key, Word};
use lanetree_runtime::{Buffer, DeviceKind, Stream};

/// Elements of a task of the CPU's.
const TASK: usize = 1 << 14;

/// Writes a byte, 0 or 1, for each of the first `count` bits of a hit mask. Runs in the stream's order and may return before it is
/// done. Allocates nothing.
///
/// # Errors
/// [`Error::OutputLength`] unless the mask has a word for each 32 bits, and `bytes` four bytes for each four bits that are begun (those past
/// `count` get any value); [`Error::BatchTooLarge`]; [`Error::Runtime`] for buffers of another device than the stream's.
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
    let (bits, bytes) = (bits.read_on(stream)?, bytes.write_on(stream)?.cast());
    let args = UnpackBitsArgs { bits, count: words as u64, bytes };
    // SAFETY: both buffers were found to be long enough; the pointers are for this stream.
    unsafe { over(stream, args.count.div_ceil(WORDS), 1, THREADS)?.run(calls::unpack_bits(&args))? };
    Ok(())
}

/// Makes ordered words of floats' bits, as [`F32::new`](crate::F32::new) does: those of `numbers[i]` become `words[i]`. Runs in the stream's
/// order and may return before it is done. Allocates nothing.
///
/// # Errors
/// [`Error::OutputLength`] for less room than numbers; [`Error::BatchTooLarge`]; [`Error::Runtime`] for buffers of another device than
/// the stream's.
pub fn order_floats<K: Key>(stream: &Stream, numbers: &Buffer<K>, words: &mut Buffer<K>) -> Result<()> {
    let len = numbers.len();
    check_buffer(stream.device(), "the numbers' buffer", len, numbers)?;
    check_buffer(stream.device(), "the words' buffer", len, words)?;
    if stream.device().kind() == DeviceKind::Host {
        if let (Some(numbers), Some(words)) = (numbers.as_slice(), words.as_mut_slice()) {
            words[..len].copy_from_slice(numbers);
            turn(&mut words[..len], false);
        }
        return Ok(());
    }
    let (from, to) = (numbers.read_on(stream)?.cast(), words.write_on(stream)?.cast());
    launch::<K::Bits>(stream, &OrderFloatsArgs { from, count: len as u64, inverse: 0, padding: 0, to })
}

/// Makes floats' bits of their ordered words, in place: the inverse of [`order_floats`], otherwise like it.
///
/// # Errors
/// As [`order_floats`].
pub fn restore_floats<K: Key>(stream: &Stream, words: &mut Buffer<K>) -> Result<()> {
    check_buffer(stream.device(), "the words' buffer", 0, words)?;
    if stream.device().kind() == DeviceKind::Host {
        turn(words.as_mut_slice().unwrap_or_default(), true);
        return Ok(());
    }
    let (count, to) = (words.len() as u64, words.write_on(stream)?.cast());
    launch::<K::Bits>(stream, &OrderFloatsArgs { from: to.as_const(), count, inverse: 1, padding: 0, to })
}

fn turn<K: Key>(words: &mut [K], inverse: bool) {
    let words = bytemuck::cast_slice_mut::<K, K::Bits>(words);
    words.par_chunks_mut(TASK).for_each(|words| words.iter_mut().for_each(|word| *word = turned(*word, inverse)));
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
    use lanetree_layout::{F32, F64};
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
    fn words_of_floats_are_those_of_the_key_types() {
        let numbers = [0.0, -0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, f64::MIN_POSITIVE];
        each_device(|device| {
            let stream = device.stream().unwrap();
            let bits: Vec<u64> = numbers.iter().map(|number| number.to_bits()).collect();
            let (from, mut to) = (device.upload(&bits).unwrap(), device.alloc::<u64>(bits.len()).unwrap());
            order_floats(&stream, &from, &mut to).unwrap();
            let expected: Vec<u64> = numbers.iter().map(|&number| bytemuck::cast(F64::new(number))).collect();
            assert_eq!(to.to_vec().unwrap(), expected, "{device}");
            restore_floats(&stream, &mut to).unwrap();
            assert_eq!(to.to_vec().unwrap(), bits, "{device}");

            let bits: Vec<u32> = numbers.iter().map(|number| (*number as f32).to_bits()).collect();
            let (from, mut to) = (device.upload(&bits).unwrap(), device.alloc::<u32>(bits.len()).unwrap());
            order_floats(&stream, &from, &mut to).unwrap();
            let expected: Vec<u32> = numbers.iter().map(|&number| bytemuck::cast(F32::new(number as f32))).collect();
            assert_eq!(to.to_vec().unwrap(), expected, "{device}");
            restore_floats(&stream, &mut to).unwrap();
            assert_eq!(to.to_vec().unwrap(), bits, "{device}");
        });
    }
}
