//! Packed byte strings whose offsets, widths and bytes may be anything.

use arbitrary::{Arbitrary, Unstructured};
use lanetree::{ByteKeys, ByteKeysBuf, Device, DeviceKeys, Error, OffsetBuffer, Offsets, Result};

/// What a caller says strings are.
#[derive(Arbitrary, Clone, Debug)]
enum Packed {
    /// Offsets of 32 bits, each this much past the one before, as far as they go up, and the place of one that is
    /// changed, to what.
    Narrow(Vec<u8>, u8, u32),
    /// Of 64 bits.
    Wide(Vec<u8>, u8, u64),
    /// Of one width.
    Fixed(usize, usize),
    /// The same, with numbers that may well be right.
    Likely(u8, u8),
}

/// Offsets that ascend but for one.
fn offsets<O: Copy>(steps: &[u8], at: u8, with: O, make: impl Fn(u64) -> O) -> Vec<O> {
    let mut end = 0;
    let mut offsets: Vec<O> = steps
        .iter()
        .map(|&step| {
            end += u64::from(step % 4);
            make(end)
        })
        .collect();
    if let Some(offset) = offsets.get_mut(usize::from(at)) {
        *offset = with;
    }
    offsets
}

/// Checks that whatever is said of strings is taken or refused, on the host and on a device alike, and that what is taken
/// can be read.
///
/// # Panics
/// Where that is not so.
pub fn byte_keys(bytes: &[u8]) {
    let mut u = Unstructured::new(bytes);
    let Ok(packed) = Packed::arbitrary(&mut u) else { return };
    let bytes = u.take_rest();
    match &packed {
        Packed::Narrow(steps, at, with) => {
            let offsets = offsets(steps, *at, *with, |end| end as u32);
            let taken = read(ByteKeys::new(&offsets[..], bytes), bytes);
            on_devices(&offsets.iter().map(|&offset| offset.into()).collect::<Vec<u64>>(), bytes, |device| {
                Ok(OffsetBuffer::U32(device.upload(&offsets)?))
            });
            assert_eq!(taken, is_right(offsets.iter().map(|&offset| offset.into()), bytes.len()), "{packed:?}");
        }
        Packed::Wide(steps, at, with) => {
            let offsets = offsets(steps, *at, *with, |end| end);
            let taken = read(ByteKeys::new(&offsets[..], bytes), bytes);
            on_devices(&offsets, bytes, |device| Ok(OffsetBuffer::U64(device.upload(&offsets)?)));
            assert_eq!(taken, is_right(offsets.iter().copied(), bytes.len()), "{packed:?}");
        }
        Packed::Fixed(width, len) => fixed(*width, *len, bytes),
        Packed::Likely(width, len) => fixed((width % 40).into(), (len % 40).into(), bytes),
    }
}

fn is_right(offsets: impl Iterator<Item = u64>, bytes: usize) -> bool {
    let offsets: Vec<u64> = offsets.collect();
    offsets.is_sorted() && offsets.last().is_none_or(|&last| last <= bytes as u64)
}

/// Reads all that can be read of strings, if they were taken; whether they were.
fn read(keys: Result<ByteKeys<'_>>, bytes: &[u8]) -> bool {
    let Ok(keys) = keys else { return false };
    // Some may be without bytes, and then there are any number.
    let shown = keys.len().min(100);
    let strings: Vec<&[u8]> = (0..shown).map(|index| keys.get(index).expect("it is there")).collect();
    assert!(keys.iter().take(shown).eq(strings.iter().copied()));
    assert_eq!(keys.get(keys.len()), None);
    assert_eq!(keys.get(usize::MAX), None);
    assert!(strings.iter().map(|string| string.len()).sum::<usize>() <= bytes.len());
    if keys.len() <= 1000 {
        let half = keys.len() / 2;
        assert!(keys.slice(half..keys.len()).iter().eq(keys.iter().skip(half)));
        let _ = keys.decode::<u64>();
        let owned: ByteKeysBuf = keys.iter().collect();
        assert!(ByteKeys::from(&owned).iter().eq(keys.iter()));
        for device in [Device::host(), Device::emulated()] {
            let there = DeviceKeys::upload(&device, keys).expect("there is room");
            assert!(there.as_keys().expect("it is in main memory").iter().eq(keys.iter()));
        }
    }
    true
}

fn words(device: &Device, bytes: &[u8]) -> Result<lanetree::Buffer<u64>> {
    let mut words = vec![0_u64; bytes.len().div_ceil(8)];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(all);
    }
    Ok(device.upload(&words)?)
}

/// A device takes what the host takes of the same bytes, which it has in whole words.
fn on_devices(offsets: &[u64], bytes: &[u8], upload: impl Fn(&Device) -> Result<OffsetBuffer>) {
    let expected = !offsets.is_empty() && is_right(offsets.iter().copied(), bytes.len().next_multiple_of(8));
    for device in [Device::host(), Device::emulated()] {
        let stream = device.stream().expect("there is one");
        let keys =
            upload(&device).and_then(|offsets| DeviceKeys::with_offsets(&stream, offsets, words(&device, bytes)?));
        match keys {
            Ok(keys) => {
                assert!(expected, "{offsets:?} of {} bytes are taken on {device}", bytes.len());
                let strings = keys.as_keys().expect("it is in main memory");
                let expected = offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize);
                assert!(strings.iter().map(<[u8]>::len).eq(expected));
            }
            Err(Error::OffsetOrder { .. } | Error::OffsetBounds { .. } | Error::OutputLength { .. }) => {
                assert!(!expected, "{offsets:?} of {} bytes are refused on {device}", bytes.len());
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn fixed(width: usize, len: usize, bytes: &[u8]) {
    let is_right = width.checked_mul(len) == Some(bytes.len()) && (width > 0 || len == 0);
    let taken = read(ByteKeys::new(Offsets::Fixed { width, len }, bytes), bytes);
    // Strings without bytes may be taken or not, but for more than memory has places.
    if width > 0 || len == 0 {
        assert_eq!(taken, is_right, "{len} of {width} bytes, of {}", bytes.len());
    }
    let taken = read(ByteKeys::fixed(width, bytes), bytes);
    assert_eq!(taken, width > 0 && bytes.len().is_multiple_of(width), "{width} bytes, of {}", bytes.len());
    for device in [Device::host(), Device::emulated()] {
        let room = bytes.len().next_multiple_of(8);
        let keys = words(&device, bytes).and_then(|bytes| DeviceKeys::fixed(bytes, width, len));
        let Ok(keys) = keys else {
            assert!(width.checked_mul(len).is_none_or(|all| all > room) || width > u32::MAX as usize || width == 0);
            continue;
        };
        let strings = keys.as_keys().expect("it is in main memory");
        assert_eq!(strings.len(), len);
        assert!(strings.iter().take(100).all(|string| string.len() == width));
    }
}
