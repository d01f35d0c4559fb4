//! Keys of one width on a device.

use crate::byte_keys::show;
use crate::error::same_device;
use crate::{Error, Result};
use lanetree_kernels_cuart::build::leaves::LeavesArgs;
use lanetree_layout::{Key, Word};
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::{Global, GlobalMut};

/// Keys of one width in a buffer: byte strings, or integers, which stand for the strings of
/// [`FixedKey`](lanetree_layout::cuart::FixedKey).
#[doc(hidden)]
pub struct FixedKeys<'a> {
    keys: Global<u64>,
    /// Keys in the buffer.
    len: usize,
    width: usize,
    integers: bool,
    flip: u64,
    device: Device,
    show: Box<dyn Fn(usize) -> Result<String> + 'a>,
}

impl<'a> FixedKeys<'a> {
    /// Strings of `width` bytes, one behind the other, in 8-byte words.
    pub fn strings(bytes: &'a Buffer<u64>, width: usize) -> Self {
        let show = move |index: usize| {
            let first = index * width / 8;
            let mut words = vec![0_u64; ((index + 1) * width).div_ceil(8) - first];
            bytes.copy_range_to(first, &mut words)?;
            Ok(show(&bytemuck::cast_slice(&words)[index * width - 8 * first..][..width]))
        };
        // Of no bytes there is one key at most: any two are equal.
        let len = bytes.bytes().checked_div(width).unwrap_or(usize::MAX);
        let (integers, device) = (false, bytes.device().clone());
        Self { keys: bytes.global(), len, width, integers, flip: 0, device, show: Box::new(show) }
    }

    /// Integers.
    pub fn integers<K: Key>(keys: &'a Buffer<K>) -> Self {
        let show = move |index: usize| {
            let mut key = [K::MIN];
            keys.copy_range_to(index, &mut key)?;
            Ok(key[0].to_string())
        };
        Self {
            keys: keys.global().cast(),
            len: keys.len(),
            width: K::Bits::BYTES,
            integers: true,
            flip: K::FLIP.widen(),
            device: keys.device().clone(),
            show: Box::new(show),
        }
    }

    /// Integers of 128 bits.
    pub fn wide(keys: &'a Buffer<u128>) -> Self {
        let show = move |index: usize| {
            let mut key = [0];
            keys.copy_range_to(index, &mut key)?;
            Ok(key[0].to_string())
        };
        Self {
            keys: keys.global().cast(),
            len: keys.len(),
            width: size_of::<u128>(),
            integers: true,
            flip: 0,
            device: keys.device().clone(),
            show: Box::new(show),
        }
    }

    /// Bytes of a key.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Checks that there are so many keys, on the stream's device.
    pub(super) fn check(&self, stream: &Stream, len: usize) -> Result<()> {
        if self.len < len {
            return Err(Error::OutputLength { what: "the keys", expected: len, found: self.len });
        }
        same_device(stream.device(), &self.device, "the keys")
    }

    /// A key for a message.
    pub(super) fn show(&self, index: usize) -> Result<String> {
        (self.show)(index)
    }

    /// What a kernel must know of them.
    pub(super) fn args<V: Word>(&self) -> LeavesArgs<V> {
        LeavesArgs {
            keys: self.keys,
            values: Global::null(),
            leaves: GlobalMut::null(),
            findings: GlobalMut::null(),
            count: 0,
            flip: self.flip,
            width: self.width as u32,
            integers: self.integers.into(),
        }
    }
}
