//! Leaves: of three fixed sizes, dynamically sized, and in main memory.

use super::LinkType;
use bytemuck::{Pod, Zeroable};

/// Bytes of the unit that device leaves are made of.
pub const UNIT: usize = 16;

/// Bytes of a device leaf before its key: value, length, rank.
const DEVICE_HEADER: usize = 24;

/// A leaf with a key of up to 8 bytes.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaf8 {
    /// The key, followed by zeros.
    pub key: [u8; 8],
    /// The value.
    pub value: u64,
}

/// A leaf with a key of up to 16 bytes.
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaf16 {
    /// The key, followed by zeros.
    pub key: [u8; 16],
    /// The value.
    pub value: u64,
    /// How many keys of the tree are below.
    pub rank: u64,
}

/// A leaf with a key of up to 32 bytes.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaf32 {
    /// The key, followed by zeros.
    pub key: [u8; 32],
    /// The value.
    pub value: u64,
    /// How many keys of the tree are below.
    pub rank: u64,
    #[doc(hidden)]
    pub reserved: [u64; 2],
}

macro_rules! pod {
    ($($leaf:ty),*) => {$(
        // SAFETY: made of integers and arrays of integers, which may be all zero.
        unsafe impl Zeroable for $leaf {}
        // SAFETY: as above, and without padding: its fields' sizes add up to its own, as the tests check.
        unsafe impl Pod for $leaf {}
    )*};
}
pod!(Leaf8, Leaf16, Leaf32);

impl Leaf8 {
    /// The leaf of a key of at most 8 bytes.
    #[inline(always)]
    pub fn new(key: &[u8], value: u64) -> Self {
        Self { key: padded(key), value }
    }
}

impl Leaf16 {
    /// The leaf of a key of at most 16 bytes.
    #[inline(always)]
    pub fn new(key: &[u8], value: u64, rank: u64) -> Self {
        Self { key: padded(key), value, rank }
    }
}

impl Leaf32 {
    /// The leaf of a key of at most 32 bytes.
    #[inline(always)]
    pub fn new(key: &[u8], value: u64, rank: u64) -> Self {
        Self { key: padded(key), value, rank, reserved: [0; 2] }
    }
}

#[inline(always)]
fn padded<const N: usize>(key: &[u8]) -> [u8; N] {
    match key.try_into() {
        // The common case, with a length known at compile time.
        Ok(key) => key,
        Err(_) => {
            let mut padded = [0; N];
            padded[..key.len()].copy_from_slice(key);
            padded
        }
    }
}

/// Units of a device leaf with a key of that many bytes.
#[inline(always)]
pub const fn device_leaf_units(len: usize) -> usize {
    (DEVICE_HEADER + len).div_ceil(UNIT)
}

/// Writes a device leaf to its [`device_leaf_units`] units.
pub fn write_device_leaf(units: &mut [[u64; 2]], key: &[u8], value: u64, rank: u64) {
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(units);
    bytes[..8].copy_from_slice(&value.to_ne_bytes());
    bytes[8..16].copy_from_slice(&(key.len() as u64).to_ne_bytes());
    bytes[16..24].copy_from_slice(&rank.to_ne_bytes());
    bytes[DEVICE_HEADER..DEVICE_HEADER + key.len()].copy_from_slice(key);
    bytes[DEVICE_HEADER + key.len()..].fill(0);
}

/// The device leaf that begins with the first of these units.
#[inline]
pub(super) fn read_device_leaf(units: &[[u64; 2]]) -> LeafRef<'_> {
    let [value, len] = units[0];
    let rank = units[1][0];
    let bytes: &[u8] = bytemuck::cast_slice(units);
    LeafRef { key: &bytes[DEVICE_HEADER..DEVICE_HEADER + len as usize], value, rank }
}

/// Leaves in main memory: the keys packed as offsets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostLeaves<'a> {
    /// Where each key begins in `bytes`, and where the last one ends.
    pub offsets: &'a [u64],
    /// The keys.
    pub bytes: &'a [u8],
    /// Their values.
    pub values: &'a [u64],
    /// Their ranks.
    pub ranks: &'a [u64],
}

impl<'a> HostLeaves<'a> {
    /// The leaf with this index.
    #[inline]
    pub(super) fn get(&self, index: usize) -> LeafRef<'a> {
        let key = &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize];
        LeafRef { key, value: self.values[index], rank: self.ranks[index] }
    }
}

/// What a leaf holds, whatever its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafRef<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its value.
    pub value: u64,
    /// How many keys of the tree are below it.
    pub rank: u64,
}

impl LinkType {
    /// Bytes of one element of the buffer of this kind; 0 if there is no buffer of a fixed stride on the device.
    #[inline(always)]
    pub const fn stride(self) -> u64 {
        (match self {
            Self::N4 => size_of::<super::N4>(),
            Self::N16 => size_of::<super::N16>(),
            Self::N48 => size_of::<super::N48>(),
            Self::N256 => size_of::<super::N256>(),
            Self::Leaf8 => size_of::<Leaf8>(),
            Self::Leaf16 => size_of::<Leaf16>(),
            Self::Leaf32 => size_of::<Leaf32>(),
            Self::DeviceLeaf => UNIT,
            Self::None | Self::HostLeaf => 0,
        }) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn leaves_are_as_drawn() {
        assert_eq!((size_of::<Leaf8>(), align_of::<Leaf8>(), offset_of!(Leaf8, value)), (16, 16, 8));
        assert_eq!((size_of::<Leaf16>(), align_of::<Leaf16>()), (16 + 8 + 8, 32));
        assert_eq!((offset_of!(Leaf16, value), offset_of!(Leaf16, rank)), (16, 24));
        assert_eq!((size_of::<Leaf32>(), align_of::<Leaf32>()), (32 + 8 + 8 + 16, 64));
        assert_eq!((offset_of!(Leaf32, value), offset_of!(Leaf32, rank)), (32, 40));
    }

    #[test]
    fn keys_are_followed_by_zeros() {
        assert_eq!(Leaf8::new(b"abc", 1).key, *b"abc\0\0\0\0\0");
        assert_eq!(Leaf8::new(b"abcdefgh", 1).key, *b"abcdefgh");
        assert_eq!(Leaf16::new(b"", 1, 2).key, [0; 16]);
        assert_eq!(Leaf32::new(&[7; 31], 1, 2).key[30..], [7, 0]);
    }

    #[test]
    fn device_leaves_hold_keys_of_any_length() {
        let key = [9_u8; 100];
        for len in [0, 1, 8, 9, 24, 33, 40, 41, 100] {
            let mut units = [[u64::MAX; 2]; 8];
            let used = device_leaf_units(len);
            assert_eq!(used, (24 + len).div_ceil(16));
            write_device_leaf(&mut units[..used], &key[..len], 5, 6);
            assert_eq!(read_device_leaf(&units), LeafRef { key: &key[..len], value: 5, rank: 6 });
        }
        assert_eq!(device_leaf_units(40), 4, "keys of up to 40 bytes take two sectors");
    }
}
