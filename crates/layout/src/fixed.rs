//! Byte strings as keys, and keys of a fixed width as byte strings of the same order.

/// Bytes of the longest key.
pub const MAX_KEY: usize = u32::MAX as usize;

/// A key that can be written as a byte string of a fixed width, such that the strings have the order of the keys:
/// unsigned integers with the highest byte first, signed ones with the sign bit flipped too, arrays of bytes as they
/// are.
pub trait FixedKey: Copy + Ord + Send + Sync {
    /// Bytes of the string.
    const WIDTH: usize;

    /// Writes the string to the [`FixedKey::WIDTH`] bytes of `out`.
    fn write(self, out: &mut [u8]);

    /// The key of a string of [`FixedKey::WIDTH`] bytes; the inverse of [`FixedKey::write`].
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! integer {
    ($($key:ident, $bits:ident, $flip:expr;)*) => {$(
        impl FixedKey for $key {
            const WIDTH: usize = size_of::<$key>();

            #[inline(always)]
            fn write(self, out: &mut [u8]) {
                out.copy_from_slice(&(self as $bits ^ $flip).to_be_bytes());
            }

            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                let mut array = [0; size_of::<$key>()];
                array.copy_from_slice(bytes);
                ($bits::from_be_bytes(array) ^ $flip) as $key
            }
        }
    )*};
}
integer! {
    u32, u32, 0;
    u64, u64, 0;
    u128, u128, 0;
    i128, u128, 1 << 127;
    i32, u32, 1 << 31;
    i64, u64, 1 << 63;
}

impl<const N: usize> FixedKey for [u8; N] {
    const WIDTH: usize = N;

    #[inline(always)]
    fn write(self, out: &mut [u8]) {
        out.copy_from_slice(&self);
    }

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        let mut array = [0; N];
        array.copy_from_slice(bytes);
        array
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Debug;

    fn order_is_preserved<K: FixedKey + Debug>(ascending: &[K]) {
        let mut strings = [[0_u8; 16]; 2];
        for pair in ascending.windows(2) {
            for (key, string) in pair.iter().zip(&mut strings) {
                key.write(&mut string[..K::WIDTH]);
                assert_eq!(K::read(&string[..K::WIDTH]), *key);
            }
            assert!(strings[0][..K::WIDTH] < strings[1][..K::WIDTH], "{pair:?}");
        }
    }

    #[test]
    fn strings_are_in_the_order_of_keys() {
        order_is_preserved(&[0_u32, 1, 255, 256, u32::MAX]);
        order_is_preserved(&[0_u64, 1, 255, 256, 1 << 40, u64::MAX]);
        order_is_preserved(&[0_u128, 1, 256, 1 << 64, u128::MAX]);
        order_is_preserved(&[i32::MIN, -256, -1, 0, 1, 256, i32::MAX]);
        order_is_preserved(&[i128::MIN, -1 << 70, -1, 0, 1, 1 << 70, i128::MAX]);
        order_is_preserved(&[i64::MIN, -1 << 40, -1, 0, 1, 1 << 40, i64::MAX]);
        order_is_preserved(&[[0, 0], [0, 255], [1, 0], [255, 255_u8]]);
        order_is_preserved::<[u8; 0]>(&[[]]);
    }
}
