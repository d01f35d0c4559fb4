//! Keys and values that are numbers.

use lanetree::{Key, Word};

/// The key of a number: mostly one of a few hundred, five apart, so that queries hit and neighbours differ; some at both
/// ends of the key space, some anywhere.
pub trait Number: Key {
    /// The key.
    fn of(number: u16) -> Self {
        let near = u64::from(number % 8);
        let word = match number >> 12 {
            0..=12 => u64::from(number % 600) * 5,
            13 => near,
            14 => u64::MAX - near,
            _ => u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        Self::decode(Self::Bits::truncate(word))
    }
}

impl<K: Key> Number for K {}
