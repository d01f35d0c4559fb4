//! Keys of 16 bytes, in the order of byte strings: UUIDs, IPv6 addresses, hashes.

use crate::{AnyKey, FixedKey};
use bytemuck::{Pod, Zeroable};
use core::fmt;
use core::net::Ipv6Addr;

/// 16 bytes as a key, in the order of byte strings: the first byte counts most.
///
/// It holds the bytes as one number, by which kernels compare it. So it is as large as the bytes, but made from them by
/// [`Bytes16::new`], not by a cast.
///
/// ```
/// # extern crate lanetree_layout as lanetree;
/// use lanetree::Bytes16;
///
/// let first = Bytes16::from(*b"0123456789abcdef");
/// assert!(first < Bytes16::from(*b"0123456789abcdeg"));
/// assert_eq!(first.get()[0], b'0');
/// let home: Bytes16 = "::1".parse::<std::net::Ipv6Addr>()?.into();
/// assert_eq!(home.to_string(), "00000000000000000000000000000001");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes16(u128);

// SAFETY: transparent over a number, every bit pattern of which is a key.
unsafe impl Zeroable for Bytes16 {}
// SAFETY: as above.
unsafe impl Pod for Bytes16 {}

impl Bytes16 {
    /// The key of 16 bytes.
    #[inline(always)]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// The bytes.
    #[inline(always)]
    pub const fn get(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl From<[u8; 16]> for Bytes16 {
    #[inline(always)]
    fn from(bytes: [u8; 16]) -> Self {
        Self::new(bytes)
    }
}

impl From<Bytes16> for [u8; 16] {
    #[inline(always)]
    fn from(key: Bytes16) -> Self {
        key.get()
    }
}

impl From<Ipv6Addr> for Bytes16 {
    #[inline(always)]
    fn from(address: Ipv6Addr) -> Self {
        Self::new(address.octets())
    }
}

impl From<Bytes16> for Ipv6Addr {
    #[inline(always)]
    fn from(key: Bytes16) -> Self {
        Self::from(key.get())
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for Bytes16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Bytes16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl crate::word::sealed::Sealed for Bytes16 {}

impl AnyKey for Bytes16 {
    type Bits = u128;
    const FLIP: u128 = 0;
    const MIN: Self = Self(0);
    const MAX: Self = Self(u128::MAX);
    const NAME: &'static str = "bytes16";

    #[inline(always)]
    fn encode(self) -> u128 {
        self.0
    }
    #[inline(always)]
    fn decode(bits: u128) -> Self {
        Self(bits)
    }
}

impl FixedKey for Bytes16 {
    const WIDTH: usize = 16;

    #[inline(always)]
    fn write(self, out: &mut [u8]) {
        self.0.write(out);
    }
    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        Self(u128::read(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_their_bytes() {
        let ascending = [[0; 16], core::array::from_fn(|i| i as u8), [1; 16], [255; 16]];
        for pair in ascending.windows(2) {
            assert!(Bytes16::new(pair[0]) < Bytes16::new(pair[1]), "{pair:?}");
        }
        for bytes in ascending {
            assert_eq!(<[u8; 16]>::from(Bytes16::from(bytes)), bytes);
            assert_eq!(Ipv6Addr::from(Bytes16::from(Ipv6Addr::from(bytes))).octets(), bytes);
            let mut string = [0; 16];
            Bytes16::new(bytes).write(&mut string);
            assert_eq!((string, Bytes16::read(&string)), (bytes, Bytes16::new(bytes)));
        }
    }
}
