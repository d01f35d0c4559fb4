//! Keys of a batch on a device.

use lanetree_runtime::{Buffer, Device, Error, Result, Stream};
use lanetree_simt::{Global, KeysRef};

/// Byte strings on a device, borrowed: the keys of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    source: Source<'a>,
    len: usize,
    device: &'a Device,
}

/// Where strings are.
#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Fixed { bytes: &'a Buffer<u64>, width: u32 },
    Offsets { bytes: &'a Buffer<u64>, offsets: &'a Buffer<u64> },
    Raw(KeysRef),
}

impl<'a> Queries<'a> {
    /// `len` strings of `width` bytes, one after another.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] where there are fewer bytes.
    pub fn of_width(bytes: &'a Buffer<u64>, width: u32, len: usize) -> Result<Self> {
        let needed = len as u128 * u128::from(width);
        if needed > bytes.bytes() as u128 {
            let (action, buffer_len) = ("reading strings of one width", bytes.bytes());
            let len = usize::try_from(needed).unwrap_or(usize::MAX);
            return Err(Error::OutOfRange { action, start: 0, len, buffer_len });
        }
        Ok(Self { source: Source::Fixed { bytes, width }, len, device: bytes.device() })
    }

    /// Strings of which each begins in `bytes` at its offset and ends at the next one: one offset more than there
    /// are strings.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] without an offset; [`Error::WrongDevice`].
    ///
    /// # Safety
    /// Offsets do not descend, no two neighbours are 4 GiB apart, and none is beyond the bytes, as long as queries
    /// are looked up.
    pub unsafe fn with_offsets(bytes: &'a Buffer<u64>, offsets: &'a Buffer<u64>) -> Result<Self> {
        let action = "reading strings by their offsets";
        let Some(len) = offsets.len().checked_sub(1) else {
            return Err(Error::LengthMismatch { action, expected: 1, actual: 0 });
        };
        if bytes.device() != offsets.device() {
            let (expected, actual) = (bytes.device().to_string(), offsets.device().to_string());
            return Err(Error::WrongDevice { action, expected, actual });
        }
        Ok(Self { source: Source::Offsets { bytes, offsets }, len, device: bytes.device() })
    }

    /// `len` strings that someone else keeps on `device`.
    ///
    /// # Safety
    /// There are `len` keys, they are as [`KeysRef`] says, and the stream in which they are looked up may read them.
    pub unsafe fn from_raw(keys: KeysRef, len: usize, device: &'a Device) -> Self {
        Self { source: Source::Raw(keys), len, device }
    }

    /// Strings.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The strings, for kernels of a stream.
    pub(super) fn keys(&self, stream: &Stream) -> Result<KeysRef> {
        Ok(match self.source {
            Source::Raw(keys) => keys,
            Source::Fixed { bytes, width } => {
                KeysRef { bytes: bytes.read_on(stream)?, offsets: Global::null(), width, offset_bytes: 0 }
            }
            Source::Offsets { bytes, offsets } => {
                let (bytes, offsets) = (bytes.read_on(stream)?, offsets.read_on(stream)?);
                KeysRef { bytes, offsets, width: 0, offset_bytes: 8 }
            }
        })
    }

    pub(super) fn device(&self) -> &'a Device {
        self.device
    }
}

/// Byte strings in buffers of a device.
#[derive(Debug)]
pub struct KeyBuffers {
    bytes: Buffer<u64>,
    /// Where each begins, and the last one ends; `None` for strings of one width.
    offsets: Option<Buffer<u64>>,
    width: u32,
    len: usize,
}

impl KeyBuffers {
    /// Copies strings to the device: without offsets where all are equally long.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a string of 4 GiB and more; [`Error::OutOfMemory`].
    pub fn upload<K: AsRef<[u8]>>(device: &Device, keys: &[K]) -> Result<Self> {
        let mut offsets = vec![0];
        let mut bytes = Vec::new();
        for key in keys {
            bytes.extend_from_slice(key.as_ref());
            offsets.push(bytes.len() as u64);
        }
        let lens = || keys.iter().map(|key| key.as_ref().len());
        let longest = lens().max().unwrap_or(0);
        let width = u32::try_from(longest).map_err(|_| Error::OutOfRange {
            action: "uploading a string",
            start: 0,
            len: longest,
            buffer_len: u32::MAX as usize,
        })?;
        let mut words = vec![0_u64; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(&bytes);
        let offsets = if lens().all(|len| len == longest) { None } else { Some(device.upload(&offsets)?) };
        Ok(Self { bytes: device.upload(&words)?, offsets, width, len: keys.len() })
    }

    /// The strings.
    pub fn queries(&self) -> Queries<'_> {
        let bytes = &self.bytes;
        let source = match &self.offsets {
            Some(offsets) => Source::Offsets { bytes, offsets },
            None => Source::Fixed { bytes, width: self.width },
        };
        Queries { source, len: self.len, device: bytes.device() }
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> u64 {
        (self.bytes.bytes() + self.offsets.as_ref().map_or(0, Buffer::bytes)) as u64
    }
}
