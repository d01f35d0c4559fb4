//! Byte strings as kernels see them.

use crate::{Global, Hint, Simt, kernel_args, lowest_one};

kernel_args! {
    /// Byte strings in device memory, packed one after another in Arrow's layout: passed to kernels by value.
    pub struct KeysRef {
        /// The bytes, starting at an 8-byte boundary, padded to a whole number of 8-byte words.
        pub bytes: Global<u64>,
        /// Where each string begins, and where the last one ends: words of `offset_bytes` bytes. Null if all strings
        /// have one width.
        pub offsets: Global<u64>,
        /// The bytes of every string, if there are no offsets.
        pub width: u32,
        /// 4 or 8: the bytes of an offset; 0 without offsets.
        pub offset_bytes: u32,
    }
}

/// One string of a [`KeysRef`]: its first byte's offset, and its length.
#[derive(Clone, Copy, Debug)]
pub struct KeyRef {
    bytes: Global<u64>,
    start: u64,
    len: u32,
}

/// The bits of a word's first `len` bytes; all of them from 8 on.
#[inline(always)]
pub fn first_bytes(len: u32) -> u64 {
    if len >= 8 { u64::MAX } else { (1 << (8 * len)) - 1 }
}

/// The index of the first of a word's bytes, counted from the lowest, that equals `byte`; 8 if none does.
#[inline(always)]
pub fn first_equal(word: u64, byte: u32) -> u32 {
    const ONES: u64 = u64::MAX / 0xff;
    let differences = word ^ (u64::from(byte) * ONES);
    // The lowest byte that is 0 is exact; those above it may be marked by the borrow.
    lowest_one(differences.wrapping_sub(ONES) & !differences & (ONES << 7)) / 8
}

impl KeysRef {
    /// Per thread. One of the strings.
    ///
    /// # Safety
    /// The string exists, and the buffers are as the fields say.
    #[inline(always)]
    pub unsafe fn at<S: Simt>(&self, simt: S, index: u64) -> KeyRef {
        // SAFETY: there is an offset of the string, and of what follows it.
        let (start, end) = unsafe {
            match self.offset_bytes {
                0 => (index * u64::from(self.width), (index + 1) * u64::from(self.width)),
                4 => {
                    let offsets = self.offsets.cast::<u32>();
                    let start = simt.load(offsets, index, Hint::ReadOnly);
                    (u64::from(start), u64::from(simt.load(offsets, index + 1, Hint::ReadOnly)))
                }
                _ => {
                    let start = simt.load(self.offsets, index, Hint::ReadOnly);
                    (start, simt.load(self.offsets, index + 1, Hint::ReadOnly))
                }
            }
        };
        KeyRef { bytes: self.bytes, start, len: (end - start) as u32 }
    }
}

impl KeyRef {
    /// The string of `len` bytes that begins at a byte of memory, from an 8-byte boundary on. The position may lie
    /// before the start of the memory, as long as nothing there is read.
    #[inline(always)]
    pub const fn new(bytes: Global<u64>, start: u64, len: u32) -> Self {
        Self { bytes, start, len }
    }

    /// Where the string begins in its memory, in bytes.
    #[inline(always)]
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// The string's bytes.
    #[inline(always)]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether it has none.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Per thread. One byte.
    ///
    /// # Safety
    /// `at < len`.
    #[inline(always)]
    pub unsafe fn byte<S: Simt>(&self, simt: S, at: u32) -> u32 {
        let at = self.start + u64::from(at);
        // SAFETY: the caller's promise.
        let word = unsafe { simt.load(self.bytes.cast::<u32>(), at / 4, Hint::ReadOnly) };
        word >> (at % 4 * 8) & 0xff
    }

    /// Per thread. The 8 bytes from `at` on, the first one lowest; zeros past the string's end.
    ///
    /// # Safety
    /// The buffers are as [`KeysRef`] says.
    #[inline(always)]
    pub unsafe fn word<S: Simt>(&self, simt: S, at: u32) -> u64 {
        if at >= self.len {
            return 0;
        }
        let (left, start) = (self.len - at, self.start.wrapping_add(u64::from(at)));
        let (index, bits) = (start / 8, (start % 8 * 8) as u32);
        // SAFETY: the string has a byte in the first word; and in the second, where that is read.
        let mut word = unsafe { simt.load(self.bytes, index, Hint::ReadOnly) } >> bits;
        if bits > 0 && left > 8 - bits / 8 {
            // SAFETY: as above.
            word |= unsafe { simt.load(self.bytes, index + 1, Hint::ReadOnly) } << (64 - bits);
        }
        word & first_bytes(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_keep_the_first_bytes() {
        assert_eq!([0, 1, 7, 8, 9].map(first_bytes), [0, 0xff, u64::MAX >> 8, u64::MAX, u64::MAX]);
    }

    #[test]
    fn the_first_equal_byte_is_found() {
        for byte in [0_u32, 1, 127, 128, 255] {
            for place in 0..8 {
                for other in [0_u8, 1, 127, 128, 254, 255].into_iter().filter(|&other| u32::from(other) != byte) {
                    let mut bytes = [other; 8];
                    assert_eq!(first_equal(u64::from_le_bytes(bytes), byte), 8);
                    bytes[place..].fill(byte as u8);
                    assert_eq!(first_equal(u64::from_le_bytes(bytes), byte), place as u32);
                }
            }
        }
    }
}
