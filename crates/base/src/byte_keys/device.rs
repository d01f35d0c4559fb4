//! Batches of byte strings in device memory.

use super::{ByteKeys, Offsets, check_count};
use crate::error::same_device;
use crate::launch::{self, THREADS};
use crate::parallel::*;
use crate::room::zeroed;
use crate::{Error, Result};
use bytemuck::Pod;
use core::fmt;
use lanetree_kernels_base::calls;
use lanetree_kernels_base::keys::{CheckOffsetsArgs, EncodeArgs, HeadsArgs};
use lanetree_layout::Word;
use lanetree_layout::{FixedKey, MAX_KEY};
#[cfg(any(test, feature = "papers"))]
use lanetree_runtime::PinnedBuffer;
use lanetree_runtime::{Buffer, Device, DeviceKind, Launch, Stream};
use lanetree_simt::{Global, KeysRef};

/// Byte strings in device memory, packed one after another in Arrow's layout: [`ByteKeys`] on a device.
///
/// ```
/// use lanetree::{ByteKeysBuf, Device, DeviceKeys};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::emulated();
/// let words: ByteKeysBuf = ["ox", "", "yak"].into_iter().collect();
/// let keys = DeviceKeys::upload(&device, &words)?;
/// assert_eq!(keys.len(), 3);
///
/// // Numbers that are there already.
/// let numbers = device.upload(&[3_u64, 1, 2])?;
/// let keys = DeviceKeys::encode(&device.stream()?, &numbers)?;
/// assert_eq!(keys.width(), Some(8));
/// # Ok(())
/// # }
/// ```
pub struct DeviceKeys {
    bytes: Buffer<u64>,
    offsets: DeviceOffsets,
    len: usize,
}

/// Where each string begins, and where the last one ends.
enum DeviceOffsets {
    Fixed { width: usize },
    U32(Buffer<u32>),
    U64(Buffer<u64>),
}

/// Offsets of strings on a device: 32 or 64 bits wide, one more than there are strings.
#[derive(Debug)]
pub enum OffsetBuffer {
    /// Of 32 bits.
    U32(Buffer<u32>),
    /// Of 64 bits.
    U64(Buffer<u64>),
}

mod sealed {
    pub trait Sealed {}
}

/// A number type that [`DeviceKeys::encode`] turns into byte strings.
pub trait DeviceNumber: FixedKey + Pod + sealed::Sealed {
    #[doc(hidden)]
    const SIGN: u64;
}

macro_rules! numbers {
    ($($number:ty, $sign:expr;)*) => {$(
        impl sealed::Sealed for $number {}
        impl DeviceNumber for $number {
            const SIGN: u64 = $sign;
        }
    )*};
}
numbers! {
    u32, 0;
    i32, 1 << 31;
    u64, 0;
    i64, 1 << 63;
    u128, 0;
}

impl DeviceKeys {
    /// Copies a batch of strings to a device: their bytes one after another, and, unless all have one width, where each
    /// begins. Returns when the copy is complete.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`] for a string of 2^32 bytes or more; [`Error::Runtime`] if there is no room.
    pub fn upload<'k>(device: &Device, keys: impl Into<ByteKeys<'k>>) -> Result<Self> {
        let keys = keys.into();
        keys.check_lengths()?;
        let len = keys.len();
        let (bytes, offsets) = match keys.offsets() {
            Offsets::Fixed { width, .. } => (keys.bytes(), DeviceOffsets::Fixed { width }),
            Offsets::U32(offsets) => {
                let (first, bytes) = rebased(offsets, keys.bytes());
                let offsets = offsets.par_iter().map(|&offset| offset - first).try_collect()?;
                (bytes, DeviceOffsets::U32(device.upload(if len == 0 { &[0] } else { &offsets })?))
            }
            Offsets::U64(offsets) => {
                let (first, bytes) = rebased(offsets, keys.bytes());
                let offsets = offsets.par_iter().map(|&offset| offset - first).try_collect()?;
                (bytes, DeviceOffsets::U64(device.upload(if len == 0 { &[0] } else { &offsets })?))
            }
        };
        let mut words = zeroed::<u64>(bytes.len().div_ceil(8))?;
        let chunks = bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].par_chunks_mut(1 << 20);
        chunks.zip(bytes.par_chunks(1 << 20)).for_each(|(to, from)| to.copy_from_slice(from));
        Ok(Self { bytes: device.upload(&words)?, offsets, len })
    }

    /// Takes `len` strings of one width that are already on the device: the first bytes of a buffer, one string after
    /// another.
    ///
    /// # Errors
    /// [`Error::KeyWidth`] where the buffer has fewer bytes, or for a width of 2^32 bytes or more;
    /// [`Error::BatchTooLarge`] for more than 2^32 - 1 strings of no bytes.
    pub fn fixed(bytes: Buffer<u64>, width: usize, len: usize) -> Result<Self> {
        check_count(width, len)?;
        if width > MAX_KEY || width.checked_mul(len).is_none_or(|needed| needed > bytes.bytes()) {
            return Err(Error::KeyWidth { width, bytes: bytes.bytes() });
        }
        Ok(Self { bytes, offsets: DeviceOffsets::Fixed { width }, len })
    }

    /// Takes strings of any lengths that are already on the device, and checks their offsets there. Waits for the
    /// stream.
    ///
    /// # Errors
    /// [`Error::OffsetOrder`] for an offset below the one before it; [`Error::OffsetBounds`] for one past the
    /// bytes; [`Error::KeyTooLong`] for a string of 2^32 bytes or more; [`Error::Runtime`] for buffers of another device
    /// than the stream's.
    pub fn with_offsets(stream: &Stream, offsets: OffsetBuffer, bytes: Buffer<u64>) -> Result<Self> {
        same_device(stream.device(), bytes.device(), "the bytes' buffer")?;
        match offsets {
            OffsetBuffer::U32(offsets) => {
                let len = check_offsets(stream, &offsets, bytes.bytes())?;
                Ok(Self { bytes, offsets: DeviceOffsets::U32(offsets), len })
            }
            OffsetBuffer::U64(offsets) => {
                let len = check_offsets(stream, &offsets, bytes.bytes())?;
                Ok(Self { bytes, offsets: DeviceOffsets::U64(offsets), len })
            }
        }
    }

    /// Encodes numbers on the device as strings in the same order. Runs in the stream's order and may return before it
    /// is done. Allocates.
    ///
    /// # Errors
    /// [`Error::Runtime`] if there is no room, and for a buffer of another device than the stream's;
    /// [`Error::BatchTooLarge`].
    pub fn encode<K: DeviceNumber>(stream: &Stream, numbers: &Buffer<K>) -> Result<Self> {
        let mut keys = Self::fixed(stream.device().alloc(numbers.bytes().div_ceil(8))?, K::WIDTH, numbers.len())?;
        keys.encode_from(stream, numbers)?;
        Ok(keys)
    }

    /// As [`DeviceKeys::encode`], into the memory of strings of the same width, as many or more; they become as
    /// many as the numbers. Allocates nothing.
    ///
    /// # Errors
    /// [`Error::OutputLength`] if there is no room for that many strings, or they have another width;
    /// [`Error::Runtime`], [`Error::BatchTooLarge`] as [`DeviceKeys::encode`].
    pub fn encode_from<K: DeviceNumber>(&mut self, stream: &Stream, numbers: &Buffer<K>) -> Result<()> {
        let (what, width) = ("the strings' buffer", K::WIDTH);
        let expected = numbers.bytes().div_ceil(8);
        if self.width() != Some(width) || self.bytes.len() < expected {
            return Err(Error::OutputLength { what, expected, actual: self.bytes.len() });
        }
        same_device(stream.device(), numbers.device(), "the numbers' buffer")?;
        same_device(stream.device(), self.device(), what)?;
        self.len = numbers.len();
        // Kernels read whole words, including the last one.
        self.bytes.fill_zero_range(stream, numbers.bytes() / 8..expected)?;
        if let (true, Some(numbers)) = (stream.device().kind() == DeviceKind::Host, numbers.as_slice()) {
            let words = self.bytes.as_mut_slice().unwrap_or(&mut []);
            let strings = bytemuck::cast_slice_mut::<u64, u8>(words).par_chunks_exact_mut(width);
            strings.zip(numbers).for_each(|(string, &number)| number.write(string));
            return Ok(());
        }
        if self.len == 0 {
            return Ok(());
        }
        let launch = launch(stream, self.len)?;
        // SAFETY: there is room for as many strings as numbers, of the width of these.
        Ok(unsafe {
            match width {
                4 => launch.run(calls::encode(&self.encode_args::<K, u32>(stream, numbers)?)),
                8 => launch.run(calls::encode(&self.encode_args::<K, u64>(stream, numbers)?)),
                _ => launch.run(calls::encode_wide(&self.encode_args::<K, u64>(stream, numbers)?)),
            }
        }?)
    }

    fn encode_args<K: DeviceNumber, W: Word>(&mut self, stream: &Stream, numbers: &Buffer<K>) -> Result<EncodeArgs<W>> {
        let (numbers, strings) = (numbers.read_on(stream)?.cast(), self.bytes.write_on(stream)?.cast());
        Ok(EncodeArgs { numbers, count: self.len as u64, flip: W::truncate(K::SIGN), strings })
    }

    /// Overwrites strings of one width with as many others of that width, from pinned memory: the first bytes of a
    /// buffer, one string after another. Runs in the stream's order and may return before it is done. Allocates nothing.
    ///
    /// # Errors
    /// [`Error::KeyWidth`] for strings with offsets; [`Error::OutputLength`] where the buffer has fewer bytes;
    /// [`Error::Runtime`] for a stream of another device.
    #[cfg(any(test, feature = "papers"))]
    pub fn upload_from(&mut self, stream: &Stream, from: &PinnedBuffer<u64>) -> Result<()> {
        let width = self.width().ok_or(Error::KeyWidth { width: 0, bytes: self.bytes.bytes() })?;
        let needed = (width * self.len).div_ceil(8);
        if from.len() < needed {
            return Err(Error::OutputLength { what: "the pinned buffer", expected: needed, actual: from.len() });
        }
        Ok(self.bytes.upload_async(stream, 0, from, 0..needed)?)
    }

    /// Strings.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of every string, if the batch has one fixed width.
    pub fn width(&self) -> Option<usize> {
        match self.offsets {
            DeviceOffsets::Fixed { width } => Some(width),
            _ => None,
        }
    }

    /// The device that holds them.
    pub fn device(&self) -> &Device {
        self.bytes.device()
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        self.bytes.bytes()
            + match &self.offsets {
                DeviceOffsets::Fixed { .. } => 0,
                DeviceOffsets::U32(offsets) => offsets.bytes(),
                DeviceOffsets::U64(offsets) => offsets.bytes(),
            }
    }

    /// The strings, if the CPU can reach them: on the host and the emulator.
    pub fn as_keys(&self) -> Option<ByteKeys<'_>> {
        let bytes: &[u8] = bytemuck::cast_slice(self.bytes.as_slice()?);
        let keys = match &self.offsets {
            DeviceOffsets::Fixed { width } => {
                ByteKeys::new(Offsets::Fixed { width: *width, len: self.len }, &bytes[..width * self.len])
            }
            DeviceOffsets::U32(offsets) => ByteKeys::new(&offsets.as_slice()?[..=self.len], bytes),
            DeviceOffsets::U64(offsets) => ByteKeys::new(&offsets.as_slice()?[..=self.len], bytes),
        };
        Some(keys.expect("offsets were checked before"))
    }

    /// The strings as kernels launched next on `stream` see them. If there are no strings, the offsets may have no
    /// memory.
    ///
    /// # Errors
    /// [`Error::Runtime`] for a stream of another device.
    pub fn keys_ref(&self, stream: &Stream) -> Result<KeysRef> {
        let (offsets, width, offset_bytes) = match &self.offsets {
            DeviceOffsets::Fixed { width } => (Global::null(), *width as u32, 0),
            DeviceOffsets::U32(offsets) => (offsets.read_on(stream)?.cast(), 0, 4),
            DeviceOffsets::U64(offsets) => (offsets.read_on(stream)?, 0, 8),
        };
        Ok(KeysRef { bytes: self.bytes.read_on(stream)?, offsets, width, offset_bytes })
    }

    /// The index and length of the first string of more than `max` bytes. Reads all offsets back; only for error
    /// messages.
    pub fn first_longer(&self, max: usize) -> Result<Option<(usize, usize)>> {
        match &self.offsets {
            DeviceOffsets::Fixed { width } => Ok((self.len > 0 && *width > max).then_some((0, *width))),
            DeviceOffsets::U32(offsets) => first_longer(offsets, max),
            DeviceOffsets::U64(offsets) => first_longer(offsets, max),
        }
    }

    /// Copies one of the strings of this width.
    pub fn fixed_string(&self, index: usize, width: usize) -> Result<Vec<u8>> {
        let first = index * width / 8;
        let mut words = vec![0_u64; ((index + 1) * width).div_ceil(8) - first];
        self.bytes.copy_range_to(first, &mut words)?;
        Ok(bytemuck::cast_slice(&words)[index * width - 8 * first..][..width].to_vec())
    }

    /// Writes four bytes of each string, those after the first `skip`, as numbers in the same order; on a device that
    /// runs kernels.
    pub fn heads(&self, stream: &Stream, skip: u32, heads: &mut Buffer<u32>) -> Result<()> {
        let (keys, heads) = (self.keys_ref(stream)?, heads.write_on(stream)?);
        let args = HeadsArgs { keys, count: self.len as u64, skip, padding: 0, heads };
        // SAFETY: one number per string: the caller ensures that `heads` has at least that many.
        Ok(unsafe { launch(stream, self.len)?.run(calls::heads(&args)) }?)
    }
}

impl fmt::Debug for DeviceKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceKeys[{} of {} bytes, on {}]", self.len, self.bytes.bytes(), self.device())
    }
}

/// The first offset, and the bytes from there up to the last.
fn rebased<'a, O: Copy + Default + Into<u64>>(offsets: &[O], bytes: &'a [u8]) -> (O, &'a [u8]) {
    match (offsets.first(), offsets.last()) {
        (Some(&first), Some(&last)) => (first, &bytes[first.into() as usize..last.into() as usize]),
        _ => (O::default(), &[]),
    }
}

/// The index and length of the first string that has more than `max` bytes.
fn first_longer<O: Word>(offsets: &Buffer<O>, max: usize) -> Result<Option<(usize, usize)>> {
    let ends = offsets.to_vec()?;
    let lens = ends.windows(2).map(|ends| (ends[1].widen() - ends[0].widen()) as usize);
    Ok(lens.enumerate().find(|&(_, len)| len > max))
}

/// Checks offsets into `bytes` bytes, and returns the number of strings.
fn check_offsets<O: Word>(stream: &Stream, offsets: &Buffer<O>, bytes: usize) -> Result<usize> {
    let device = stream.device();
    same_device(device, offsets.device(), "the offsets' buffer")?;
    if offsets.is_empty() {
        return Err(Error::OutputLength { what: "the offsets' buffer", expected: 1, actual: 0 });
    }
    let mut first = [u64::MAX; 2];
    if let (DeviceKind::Host, Some(offsets)) = (device.kind(), offsets.as_slice()) {
        let descends = offsets.par_windows(2).position_first(|pair| pair[1] < pair[0]);
        let beyond = offsets.par_iter().position_first(|offset| offset.widen() > bytes as u64);
        first = [descends.map_or(u64::MAX, |before| before as u64 + 1), beyond.map_or(u64::MAX, |index| index as u64)];
    } else {
        let mut found = device.upload(&first)?;
        let (count, bytes) = (offsets.len() as u64, bytes as u64);
        let args = CheckOffsetsArgs { offsets: offsets.read_on(stream)?, count, bytes, first: found.write_on(stream)? };
        // SAFETY: that many offsets, and two indexes.
        unsafe { launch(stream, offsets.len())?.run(calls::check_offsets(&args))? };
        stream.synchronize()?;
        found.copy_to(&mut first)?;
    }
    let at = |index: u64| -> Result<u64> {
        let mut offset = [O::MIN];
        offsets.copy_range_to(index as usize, &mut offset)?;
        Ok(offset[0].widen())
    };
    match first {
        [u64::MAX, u64::MAX] => {
            // This is rare enough to read all offsets again.
            let long = if bytes > MAX_KEY { first_longer(offsets, MAX_KEY)? } else { None };
            let too_long = |(index, len)| Err(Error::KeyTooLong { index, len, max: MAX_KEY });
            long.map_or(Ok(offsets.len() - 1), too_long)
        }
        [index, beyond] if index <= beyond => {
            Err(Error::OffsetOrder { index: index as usize, previous: at(index - 1)?, offset: at(index)? })
        }
        [_, index] => Err(Error::OffsetBounds { index: index as usize, offset: at(index)?, bytes }),
    }
}

/// A launch of one thread per of `items`.
fn launch(stream: &Stream, items: usize) -> Result<Launch<'_>> {
    launch::over(stream, items as u64, 1, THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_replaced_by_others_from_pinned_memory() {
        let device = Device::emulated();
        let stream = device.stream().unwrap();
        let mut keys = DeviceKeys::fixed(device.upload(&[1_u64, 2]).unwrap(), 4, 3).unwrap();
        let mut pinned = device.pinned::<u64>(2).unwrap();
        pinned.copy_from_slice(&[u64::from_le_bytes(*b"lanetree"), u64::from_le_bytes(*b"keys\0\0\0\0")]);
        keys.upload_from(&stream, &pinned).unwrap();
        stream.synchronize().unwrap();
        assert!(keys.as_keys().unwrap().iter().eq([b"lane", b"tree", b"keys"]));
        let short = device.pinned::<u64>(1).unwrap();
        let error = keys.upload_from(&stream, &short).unwrap_err();
        assert!(matches!(error, Error::OutputLength { expected: 2, actual: 1, .. }), "{error}");
        let offsets = OffsetBuffer::U32(device.upload(&[0, 1]).unwrap());
        let mut strings = DeviceKeys::with_offsets(&stream, offsets, device.upload(&[7]).unwrap()).unwrap();
        assert!(matches!(strings.upload_from(&stream, &pinned).unwrap_err(), Error::KeyWidth { width: 0, .. }));
    }

    #[test]
    fn numbers_become_strings_in_memory_that_begins_at_any_word() {
        let numbers = [1_u128, u128::MAX, 7 << 64];
        let device = Device::emulated();
        let stream = device.stream().unwrap();
        let array = device.alloc::<u64>(2 * numbers.len() + 1).unwrap();
        let second = core::ptr::with_exposed_provenance_mut(array.addresses().start + 8);
        // SAFETY: elements of the array, which is dropped after the strings and not used.
        let bytes = unsafe { device.buffer_from_raw::<u64>(second, 2 * numbers.len()) }.unwrap();
        let mut keys = DeviceKeys::fixed(bytes, 16, numbers.len()).unwrap();
        keys.encode_from(&stream, &device.upload(&numbers).unwrap()).unwrap();
        stream.synchronize().unwrap();
        assert!(keys.as_keys().unwrap().iter().eq(numbers.map(u128::to_be_bytes)));
    }

    /// The bytes need not exist: they are counted, not read.
    #[test]
    fn strings_longer_than_a_kernel_can_count_are_refused() {
        for device in [Device::host(), Device::emulated()] {
            let stream = device.stream().unwrap();
            let check = |offsets: &[u64]| check_offsets(&stream, &device.upload(offsets).unwrap(), 1 << 34);
            assert_eq!(check(&[0, 5, 5 + MAX_KEY as u64]).unwrap(), 2);
            let error = check(&[0, 5, 6 + MAX_KEY as u64, 7 + MAX_KEY as u64]).unwrap_err();
            assert!(matches!(error, Error::KeyTooLong { index: 1, len: 0x1_0000_0000, max: MAX_KEY }), "{error}");
            let error = check(&[0, 5, 6 + MAX_KEY as u64, 7]).unwrap_err();
            assert!(matches!(error, Error::OffsetOrder { index: 3, .. }), "{error}");
        }
    }
}
