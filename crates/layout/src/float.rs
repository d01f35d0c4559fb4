//! Floating-point keys, in total order.

use crate::{AnyKey, FixedKey, KeyWord};
use bytemuck::{Pod, Zeroable};
use core::fmt;

macro_rules! float {
    ($(#[$doc:meta])* $name:ident, $float:ident, $bits:ident, $sign:expr) => {
        $(#[$doc])*
        ///
        /// The order is IEEE 754's *totalOrder*, as of the type's `total_cmp`: negative NaNs, negative infinity, negative numbers,
        /// -0.0, 0.0, positive numbers, positive infinity, positive NaNs. So every value is a legal key, -0.0 and 0.0
        /// are different keys, and so are NaNs of different bits. Where they are to be the same, as in SQL and pandas:
        /// [`FloatOrder::Canonical`](../lanetree/enum.FloatOrder.html#variant.Canonical) makes the keys.
        ///
        /// It holds the word by which it is ordered, not the number's own bits: kernels compare it as they do integers.
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($bits);

        // SAFETY: transparent over a word, every bit pattern of which is a key.
        unsafe impl Zeroable for $name {}
        // SAFETY: as above.
        unsafe impl Pod for $name {}

        impl $name {
            /// The key of a number.
            #[inline(always)]
            pub const fn new(number: $float) -> Self {
                let bits = number.to_bits();
                Self(if bits & $sign == 0 { bits ^ $sign } else { !bits })
            }

            /// The number.
            #[inline(always)]
            pub const fn get(self) -> $float {
                $float::from_bits(if self.0 & $sign == 0 { !self.0 } else { self.0 ^ $sign })
            }
        }

        impl From<$float> for $name {
            #[inline(always)]
            fn from(number: $float) -> Self {
                Self::new(number)
            }
        }

        impl From<$name> for $float {
            #[inline(always)]
            fn from(key: $name) -> Self {
                key.get()
            }
        }

        /// 0.0.
        impl Default for $name {
            fn default() -> Self {
                Self::new(0.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.get(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.get(), f)
            }
        }

        impl crate::word::sealed::Sealed for $name {}

        impl AnyKey for $name {
            type Bits = $bits;
            const FLIP: $bits = 0;
            const MIN: Self = Self(<$bits as KeyWord>::MIN);
            const MAX: Self = Self(<$bits as KeyWord>::MAX);
            const NAME: &'static str = stringify!($float);
            const HAS_DISTANCE: bool = false;

            #[inline(always)]
            fn encode(self) -> $bits {
                self.0
            }
            #[inline(always)]
            fn decode(bits: $bits) -> Self {
                Self(bits)
            }
        }

        impl FixedKey for $name {
            const WIDTH: usize = size_of::<$bits>();

            #[inline(always)]
            fn write(self, out: &mut [u8]) {
                self.0.write(out);
            }
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                Self($bits::read(bytes))
            }
        }
    };
}
float!(
    /// An `f32` as a key.
    F32, f32, u32, 1 << 31
);
float!(
    /// An `f64` as a key.
    F64, f64, u64, 1 << 63
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_total_order_and_hold_their_numbers() {
        let ascending = [
            -f64::NAN,
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -f64::MIN_POSITIVE,
            -5e-324,
            -0.0,
            0.0,
            5e-324,
            1.0,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        for pair in ascending.windows(2) {
            assert!(F64::new(pair[0]) < F64::new(pair[1]), "{pair:?}");
            assert!(pair[0].total_cmp(&pair[1]).is_lt());
        }
        for number in ascending {
            assert_eq!(F64::new(number).get().to_bits(), number.to_bits());
            let small = number as f32;
            assert_eq!(F32::new(small).get().to_bits(), small.to_bits());
            let mut string = [0; 8];
            F64::new(number).write(&mut string);
            assert_eq!(<F64 as FixedKey>::read(&string), F64::new(number));
        }
        assert_eq!(F32::default().get(), 0.0);
    }
}
